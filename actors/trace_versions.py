"""Which program wrote a trace, and what it ran on: for people, a replay reads none of it."""

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["program_versions"]


def program_versions() -> dict[str, str]:
    """By name; `unknown`: it is not installed as a package."""
    found = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name in ("cluster-reconciler", "pykka", "msgspec"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found

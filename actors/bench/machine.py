"""Which machine the figures are of, and how busy it was when the bench began."""

import os
import platform
from pathlib import Path

from msgspec import Struct


class Machine(Struct, frozen=True):
    """Where a figure was measured."""

    processor: str
    """Empty: not known."""
    cores: int
    """That this process may use."""
    python: str
    """Such as `CPython 3.11.9`."""
    load: float | None
    """Processes that ran or waited to run in the minute before; None: not known."""


def this_machine() -> Machine:
    """As it is just now."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = None
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return Machine(_processor(), len(os.sched_getaffinity(0)), python, load)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "")

"""A copy of the project, laid out so that what is mutated is what its tests import.

It copies the four packages to `src/cluster_reconciler` and the tests beside them, and writes a
small `pyproject.toml`.  The working tree is only read: whoever edits it meanwhile disturbs no run.
"""

import shutil
import sys
from pathlib import Path

PACKAGES = ("actors", "decider", "executors", "messages")
REPOSITORY = Path(__file__).resolve().parent.parent.parent
_SETTINGS = """\
[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
filterwarnings = ["error"]
"""


def lay_out(folder: Path) -> None:
    """Fill the folder, which must be empty or new."""
    source = folder / "src" / "cluster_reconciler"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / package, source / package, ignore=ignored)
    shutil.copytree(REPOSITORY / "tests", folder / "tests", ignore=ignored)
    for name in ("README.md", "docs", "examples"):
        found = REPOSITORY / name
        if found.is_dir():
            shutil.copytree(found, folder / name, ignore=ignored)
        elif found.exists():
            shutil.copy(found, folder / name)
    (folder / "pyproject.toml").write_text(_SETTINGS)


def environment(folder: Path, inherited: dict[str, str]) -> dict[str, str]:
    """Variables of a process that imports the copy: always the same hashes and examples."""
    path = f"{folder / 'src'}:{folder}"
    return {**inherited, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "CI": "1"}


def source_of(folder: Path, module: str) -> Path:
    """The file of a module such as `decider/node.py`."""
    return folder / "src" / "cluster_reconciler" / module


def name_of(module: str) -> str:
    """The name by which it is imported."""
    inner = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return f"cluster_reconciler.{inner}"


def assert_is_the_copy(folder: Path) -> None:
    """Raises AssertionError when this process would import another copy than the one in `folder`,
    whose mutants nothing would notice."""
    import cluster_reconciler.decider as imported  # noqa: PLC0415 - asked when the path is set

    found = Path(imported.__file__ or "").resolve()
    expected = source_of(folder, "decider/__init__.py").resolve()
    assert found == expected, f"expected to import {expected}, found {found}; path {sys.path[:3]}"

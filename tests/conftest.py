"""What every test stands on: how hypothesis searches, and what belongs to the repository.

Holds no fixture of any one part.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from loguru import logger

# No deadline for a single example: the machine that tests is shared, and a slow moment is no fault.
# On a build machine the search is the same in every run, so that a red build is red twice.
settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


# Under nohup, or behind a shell's `&`, every `up` that a test starts would ignore these, too: a
# handler is not inherited.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Scripted failures by the thousand are logged, each with its traceback: slow, and no news."""
    logger.disable("cluster_reconciler")
    yield
    logger.enable("cluster_reconciler")


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is printed in local time is the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top of the working tree."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def committed_files(repository: Path) -> tuple[Path, ...]:
    """Every file that Git tracks, relative to the top and in order; without Git, what lies there
    and is neither built nor hidden."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0 and listing.stdout:
        found = [Path(name) for name in listing.stdout.split("\0") if name]
    else:
        left_out = {"build", "dist", "__pycache__"}
        found = [
            path.relative_to(repository)
            for path in repository.rglob("*")
            if not any(
                part in left_out or part.startswith(".") or part.endswith(".egg-info")
                for part in path.relative_to(repository).parts
            )
        ]
    return tuple(sorted(path for path in found if (repository / path).is_file()))

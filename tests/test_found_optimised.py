"""Found by an attack: under `python -O` every proof passed, and proved nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import shape
SteppingCluster(shape())
"""
COMMANDS = {
    "simulation": ("-m", "tests.simulation", "--seeds", "1"),
    "dispatch points": ("-m", "tests.dispatch_points", "--case", "one-node/2/pass-lost"),
    "search": ("-m", "tests.search", "one", "--faults", "1"),
    "a host that asks for the checks": ("-c", PROGRAM),
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_checks_that_python_would_leave_out_are_refused(
    repository: Path, arguments: tuple[str, ...]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-O", *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 1
    assert "this Python leaves them out (-O or PYTHONOPTIMIZE)" in ended.stdout + ended.stderr

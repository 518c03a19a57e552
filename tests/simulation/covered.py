"""Which branches of the decider the simulation reaches by itself: `--coverage`.

The same command runs again under `coverage`, in as many processes as asked for, and a report is
made of what they have reached together.  The invariants are left out: they are there not to be hit.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LEFT_OUT = "*/decider/invariants*.py"


def show(first: int, seeds: int, workers: int, others: Sequence[str]) -> int:
    """Run, and print the report; 1 if a life failed or a branch was not reached."""
    workers = max(1, workers)
    share = -(-seeds // workers)
    coverage = (sys.executable, "-m", "coverage")
    with tempfile.TemporaryDirectory(prefix="simulation-coverage-") as folder:
        parts = [str(Path(folder) / f"part-{number}") for number in range(workers)]
        runs = []
        for number, part in enumerate(parts):
            ours = ("--first", str(first + number * share), "--seeds", str(share), *others)
            measured = (*coverage, "run", "--data-file", part, "-m", "tests.simulation", *ours)
            runs.append(subprocess.Popen(measured))
        ends = [run.wait() for run in runs]
        whole = ("--data-file", str(Path(folder) / "whole"))
        subprocess.run((*coverage, "combine", "--quiet", *whole, *parts), check=True)
        report = subprocess.run((*coverage, "report", *whole, "--omit", LEFT_OUT), check=False)
    return 1 if any(ends) or report.returncode else 0

"""Mutation of the product: how many small faults no test would notice, and which.

    python -m tests.mutation                              # decider/
    python -m tests.mutation --set checks                 # decider/invariants*.py
    python -m tests.mutation --set executors              # the ledger and what carries it out
    python -m tests.mutation decider/node.py --keep       # one file, and the copy stays
    python -m tests.mutation --invariants                 # a fault of each; which check sees it

It lays out a copy of the project, runs the mutants there, and prints a table and each survivor.
The reasons of survivors that are known stand in `survivors.md`; it exits with 1 when fewer than 95
of 100 mutants are killed, or one survives that has no reason there.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from loguru import logger

from tests.mutation.report import NOTICED, Told, known_survivors, print_report, unexplained
from tests.mutation.scratch import environment, lay_out
from tests.mutation.sets import SETS, MutationSet


def main(arguments: Sequence[str] | None = None) -> int:
    """0: enough are killed, and every survivor has its reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("files", nargs="*", help="files to mutate, as decider/node.py")
    parser.add_argument("--set", choices=sorted(SETS), help="which files, and which tests")
    parser.add_argument("--workers", type=int, default=1, help="mutants at once")
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant: a sample")
    parser.add_argument("--only", default="", help="only mutants whose name has this text")
    parser.add_argument("--no-second", action="store_true", help="without the slower tests")
    parser.add_argument("--factor", type=float, default=4.0, help="so many times slower is over")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a whole session")
    parser.add_argument("--keep", action="store_true", help="keep the copy, and say where")
    parser.add_argument("--json", type=Path, help="where to write every verdict")
    parser.add_argument(
        "--again", type=Path, help="an earlier --json: only what survived there is run"
    )
    parser.add_argument("--invariants", action="store_true", help="the faults of the invariants")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the copy goes, too.
    if asked.invariants:
        from tests.test_invariant_mutants import rows  # noqa: PLC0415 - it imports the product

        logger.remove()  # What is contained is logged, and is planted here.
        print("\n".join(rows()))
        return 0
    chosen = SETS[asked.set or _set_of(asked.files)]
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    try:
        return 0 if _run(folder, chosen, asked) else 1
    finally:
        if asked.keep:
            print(f"the copy is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _set_of(files: Sequence[str]) -> str:
    return next((name for name, one in SETS.items() if files and files[0] in one.files), "decider")


def _run(folder: Path, chosen: MutationSet, asked: argparse.Namespace) -> bool:
    began = time.monotonic()
    lay_out(folder)
    files = asked.files or chosen.files
    request = {
        "files": files,
        "tests": chosen.tests,
        "deselect": chosen.deselect,
        "only": None,
        "done": _killed_in(asked.again) if asked.again else [],
        "text": asked.only,
        "every": asked.every,
        "workers": asked.workers,
        "factor": asked.factor,
        "limit": asked.limit,
    }
    verdicts = _ask(folder, request)
    first = time.monotonic()
    left = [v.mutant for v in unexplained(verdicts, known_survivors())]
    if left and chosen.second and not asked.no_second:
        print(f"{len(left)} of {len(verdicts)} survive without a reason, {first - began:.0f} s")
        more = {**request, "tests": chosen.second, "only": left, "done": [], "text": "", "every": 1}
        found = {v.mutant: v for v in _ask(folder, more)}
        verdicts = [
            found[v.mutant] if v.mutant in found and found[v.mutant].result in NOTICED else v
            for v in verdicts
        ]
    if asked.json:
        asked.json.write_text(json.dumps([asdict(v) for v in verdicts], indent=1))
    good = print_report(verdicts)
    used = os.times()
    print(
        f"{time.monotonic() - began:.0f} s, {used.children_user + used.children_system:.0f} s of "
        f"processor time, {asked.workers} at once"
    )
    return good


def _killed_in(file: Path) -> list[dict[str, object]]:
    """The verdicts of an earlier run that more tests do not change: killed, or explained."""
    told = [Told(**verdict) for verdict in json.loads(file.read_text())]
    known = known_survivors()
    return [asdict(v) for v in told if v.result in NOTICED or v.mutant in known]


def _ask(folder: Path, request: dict[str, object]) -> list[Told]:
    """Have the worker run it.  Raises CalledProcessError when it fails."""
    question, answer = folder / "request.json", folder / "answer.json"
    question.write_text(json.dumps(request))
    command = [sys.executable, "-m", "tests.mutation.worker", str(question), str(answer)]
    variables = environment(folder, dict(os.environ))
    worker = subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True)
    try:
        code = worker.wait()
    finally:  # Also its forks, when it or this process was ended.
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGTERM)
        worker.wait()
    if code != 0:
        raise subprocess.CalledProcessError(code, command)
    told = json.loads(answer.read_text())
    print(f"the tests alone take {told['baseline']:.1f} s; not fit here: {told['unfit']}")
    return [Told(**verdict) for verdict in told["verdicts"]]


if __name__ == "__main__":
    sys.exit(main())

"""Runs mutants that act while their module is imported: each gets a pytest session of its own.

Tables, constants and default values are read once, by many modules, at import.  So the parent
imports the tools and nothing that is mutated, and each fork imports everything anew, with the
mutant's code in the place of the module's.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutation.operators import Mutant
from tests.mutation.scratch import name_of
from tests.mutation.stage import (
    CRASHED,
    KILLED,
    SURVIVED,
    TIMEOUT,
    Verdict,
    hide_output,
    limit_time,
)

NEAREST = 4
"""So many files of tests are tried first: most mutants need no more."""


class _InItsPlace(importlib.abc.MetaPathFinder):
    """Finds one module, and gives it other code."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only the mutated module's."""
        if fullname != self._name:
            return None
        code = self._code

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return code

        loader = Loader(fullname, str(self._path))
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


class _FirstFailure:
    """A plugin that notes which test failed."""

    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first."""
        if report.failed and not self.test:
            self.test = report.nodeid


def run_imported(
    groups: Sequence[tuple[Path, Sequence[Mutant]]],
    tests: Sequence[str],
    options: Sequence[str],
    limit: float,
    workers: int = 1,
) -> list[Verdict]:
    """One verdict for each mutant; `limit`: seconds of processor time for a session."""

    def run(path: Path, mutant: Mutant) -> Verdict:
        began = time.monotonic()
        result, said = SURVIVED, ""
        for part in (tests[:NEAREST], tests[NEAREST:]):
            if part and result == SURVIVED:
                result, said = _one(mutant, path, [*options, *part], limit)
        print(f"{result:9} {mutant.line:4} {mutant.key}  {said.rpartition('/')[2]}", flush=True)
        return Verdict(mutant.key, mutant.line, result, said, time.monotonic() - began)

    every = [(path, mutant) for path, mutants in groups for mutant in mutants]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda one: run(*one), every))


def _one(mutant: Mutant, path: Path, arguments: Sequence[str], limit: float) -> tuple[str, str]:
    """What became of it in one session, and the test that noticed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _session(mutant, path, arguments, write, limit)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    os.set_blocking(
        read, False
    )  # Another fork may hold the other end: there is no end to wait for.
    try:
        said = os.read(read, 1000).decode()
    except BlockingIOError:
        said = ""
    os.close(read)
    if os.WIFSIGNALED(status):
        return TIMEOUT, said
    return {0: SURVIVED, 1: KILLED}.get(os.WEXITSTATUS(status), CRASHED), said


def _session(
    mutant: Mutant, path: Path, arguments: Sequence[str], write: int, limit: float
) -> None:
    """In the fork; never returns.  A session that cannot even be collected has noticed."""
    code = 2
    try:
        hide_output()
        limit_time(limit)
        sys.meta_path.insert(0, _InItsPlace(name_of(mutant.module), path, mutant.code))
        first = _FirstFailure()
        ended = pytest.main([*arguments, "-x"], plugins=[first])
        code = 0 if ended == pytest.ExitCode.OK else 1
        os.write(write, (first.test or f"(session: {int(ended)})").encode()[:400])
    finally:
        os._exit(code)

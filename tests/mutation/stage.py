"""Runs mutants inside a pytest session: the tests are collected once, each mutant is a fork.

It decides nothing about what a mutant is (`operators`), and writes no report (`report`).

Theory of operation.  First every test runs once, under coverage, in a fork: that tells which test
executes which line, how long each takes, and which are not fit (they fail without any mutant).  A
mutant inside a function replaces the code of the function that lives already; a mutant that runs
while its module is imported needs a session of its own (`imported`).  Then those tests run that
execute the mutant's lines, first those that have killed a neighbour, then the fastest; the first
that fails ends it.  A mutant that uses up its processor time is killed, and counts as noticed.
"""

import gc
import os
import pickle
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeVar

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.operators import Mutant

Answer = TypeVar("Answer")

SURVIVED, KILLED, TIMEOUT, NO_TESTS, CRASHED = (
    "survived",
    "killed",
    "timeout",
    "no tests",
    "crashed",
)


@dataclass
class Verdict:
    """What became of a mutant."""

    mutant: str
    line: int
    result: str
    test: str = ""
    """The test that noticed."""
    seconds: float = 0.0


@dataclass
class _Tests:
    """What is known of the tests after they ran without a mutant."""

    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """By file, then by line: the tests that execute it."""
    seconds: dict[str, float] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)


class Stage:
    """A pytest plugin: takes the place of the run of the collected tests."""

    def __init__(
        self,
        groups: Sequence[tuple[Path, Sequence[Mutant]]],
        workers: int,
        factor: float,
        patience: float = 5.0,
    ) -> None:
        """`groups`: each file and its mutants.  The tests of a mutant may take `factor` times as
        long as without it, and `patience` seconds."""
        self._groups = groups
        self._workers = workers
        self._factor = factor
        self._patience = patience
        self._kills: dict[tuple[str, str], int] = {}
        self.verdicts: list[Verdict] = []
        self.unfit: list[str] = []
        self.baseline = 0.0

    def pytest_collection(self) -> None:
        """A failing example needs no shrinking here: that it fails is enough."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - after conftest has set profiles

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("ci"), phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every mutant, instead of every test."""
        items = {item.nodeid: item for item in session.items}
        files = [str(path) for path, _ in self._groups]
        tests = in_a_fork(lambda: _run_without_mutant(list(items.values()), files))
        self.unfit = tests.unfit
        self.baseline = sum(tests.seconds.values())
        gc.collect()
        living = {path: _living(path) for path in files}
        gc.freeze()
        running: dict[int, tuple[Mutant, float, int]] = {}
        for path, mutant in ((path, m) for path, group in self._groups for m in group):
            chosen = self._chosen(tests, str(path), mutant)
            if not chosen:
                self._note(mutant, NO_TESTS, "", 0.0)
                continue
            while len(running) >= self._workers:
                self._wait(running)
            limit = self._patience + self._factor * sum(tests.seconds[name] for name in chosen)
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read)
                chosen_items = [items[name] for name in chosen]
                _become(mutant, living[str(path)], chosen_items, write, limit)
            os.close(write)
            running[pid] = (mutant, time.monotonic(), read)
        while running:
            self._wait(running)
        return True

    def _wait(self, running: dict[int, tuple[Mutant, float, int]]) -> None:
        pid, status = os.wait()
        mutant, began, read = running.pop(pid)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().decode()
        seconds = time.monotonic() - began
        if os.WIFSIGNALED(status):
            out_of_time = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
            self._note(mutant, TIMEOUT if out_of_time else CRASHED, said, seconds)
            return
        result = {0: SURVIVED, 1: KILLED, 3: NO_TESTS}.get(os.WEXITSTATUS(status), CRASHED)
        if result == KILLED:
            key = (mutant.function or "", said)
            self._kills[key] = self._kills.get(key, 0) + 1
        self._note(mutant, result, said, seconds)

    def _note(self, mutant: Mutant, result: str, test: str, seconds: float) -> None:
        self.verdicts.append(Verdict(mutant.key, mutant.line, result, test, seconds))
        print(f"{result:9} {mutant.line:4} {mutant.key}  {test.rpartition('/')[2]}", flush=True)

    def _chosen(self, tests: _Tests, path: str, mutant: Mutant) -> list[str]:
        """The tests that execute the mutant's lines, or else its function."""
        lines = tests.lines.get(path, {})
        exact = _executing(lines, range(mutant.line, mutant.end_line + 1))
        found = exact or _executing(lines, range(mutant.span[0], mutant.span[1] + 1))
        function = mutant.function or ""
        return sorted(
            found - set(tests.unfit),
            key=lambda name: (-self._kills.get((function, name), 0), tests.seconds[name], name),
        )


def _executing(lines: dict[int, set[str]], wanted: Iterable[int]) -> set[str]:
    return set().union(*(lines.get(line, set()) for line in wanted))


def in_a_fork(work: Callable[[], Answer]) -> Answer:
    """What `work` answers, done in a process of its own.  Raises EOFError when it ends without an
    answer; why stands on its standard error."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(work(), pipe)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    answer: Answer = pickle.loads(said)
    return answer


def _run_without_mutant(items: Sequence[pytest.Item], files: Sequence[str]) -> _Tests:
    tests = _Tests()
    measured = coverage.Coverage(data_file=None, include=list(files), config_file=False)
    measured.start()
    for item, following in _with_next(items):
        measured.switch_context(item.nodeid)
        began = time.process_time()
        reports = runtestprotocol(item, nextitem=following, log=False)
        tests.seconds[item.nodeid] = time.process_time() - began
        if any(report.failed for report in reports):
            tests.unfit.append(item.nodeid)
    measured.stop()
    data = measured.get_data()
    for path in files:
        by_line = data.contexts_by_lineno(path)
        tests.lines[path] = {line: set(names) - {""} for line, names in by_line.items()}
    return tests


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _become(
    mutant: Mutant,
    living: Sequence[FunctionType],
    items: Sequence[pytest.Item],
    write: int,
    limit: float,
) -> None:
    """In the fork: put the mutant in, run the tests, and end.  Never returns."""
    code = 2
    try:
        hide_output()
        limit_time(limit)
        if not put_in(mutant, living):
            os._exit(3)
        code = 0
        for item, following in _with_next(items):
            if any(r.failed for r in runtestprotocol(item, nextitem=following, log=False)):
                os.write(write, item.nodeid.encode())
                code = 1
                break
    except BaseException as error:  # noqa: BLE001 - whatever it is, it must not go on as pytest
        os.write(write, f"{type(error).__name__}: {error}".encode())
        code = 1
    finally:
        os._exit(code)


def hide_output() -> None:
    """What a mutant writes is nobody's concern."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def limit_time(seconds: float) -> None:
    """So much processor time, and six times as much of anybody's, then the process is killed."""
    whole = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 2))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 6 * whole)


def put_in(mutant: Mutant, living: Sequence[FunctionType]) -> bool:
    """Replace the code of the living function; whether there was one."""
    mutated = [
        (key, code)
        for key, code in _functions(mutant.code)
        if key[1] <= mutant.line <= max(_last_line(code), mutant.span[1])
    ]
    if not mutated:
        return False
    wanted, new = max(mutated, key=lambda entry: entry[0][1])
    found = False
    for function in living:
        if (function.__code__.co_qualname, function.__code__.co_firstlineno) == wanted:
            function.__code__ = new
            found = True
    return found


def _last_line(code: CodeType) -> int:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(const) for const in code.co_consts if isinstance(const, CodeType)]
    return max([*lines, *inner])


def _functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The functions, methods and lambdas at the top of a module, by name and first line."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            is_class = not const.co_flags & 0x2
            if is_class:
                yield from _functions(const)
            else:
                yield (const.co_qualname, const.co_firstlineno), const


def _living(path: str) -> list[FunctionType]:
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType) and found.__code__.co_filename == path
    ]

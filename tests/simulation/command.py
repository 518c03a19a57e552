"""The command line of the simulation: what `__main__` runs."""

import argparse
import multiprocessing
import secrets
import signal
import time
from collections.abc import Iterable, Iterator

from loguru import logger
from msgspec import Struct

from tests.simulation import covered
from tests.simulation.record import digested
from tests.simulation.report import Totals, failure_text, first_word
from tests.simulation.running import Mode, Outcome, run
from tests.simulation.schedule import draw
from tests.simulation.shrink import SECONDS, Shrunk, shrink

FAILURES_SHOWN = 5
SEED_END = 2**32


class Task(Struct, frozen=True):
    """One life in one mode, for a process."""

    seed: int
    mode: Mode
    nodes: int | None
    digest: bool
    """With the fingerprint of the trace."""
    plans_alone: bool
    """Nothing is judged on the way but the plans."""


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and do it; the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    for name in ("seeds", "workers", "nodes"):
        number = getattr(asked, name)
        if number is not None and number < 1:
            parser.error(f"--{name}: expected 1 or more, found {number}")
    if asked.seconds is not None and not asked.seconds > 0:
        parser.error(f"--seconds: expected a time above 0, found {asked.seconds}")
    quiet()
    modes = [Mode(asked.mode)] if asked.mode else list(Mode)
    if asked.seed is not None:
        return _one(asked, modes)
    first = secrets.randbelow(SEED_END) if asked.fresh else asked.first
    if asked.coverage:
        others = [f"--mode={asked.mode}"] if asked.mode else []
        others += [f"--seconds={asked.seconds}"] if asked.seconds is not None else []
        return covered.show(first, asked.seeds, asked.workers, others)
    said = f"seeds {first} to {first + asked.seeds - 1}, modes {', '.join(modes)}"
    tasks = (
        Task(seed, mode, asked.nodes, asked.digest, asked.plans_alone)
        for seed in range(first, first + asked.seeds)
        for mode in modes
    )
    return _many(said, tasks, asked)


def quiet() -> None:
    """Thousands of scripted failures are logged, each with its traceback: slow, and no news."""
    logger.disable("cluster_reconciler")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Lives of a simulated world around the real driver, each drawn from one seed.",
    )
    add = parser.add_argument
    add("--seeds", type=int, default=200, help="how many seeds (200)")
    add("--first", type=int, default=0, help="the first of them (0)")
    add("--fresh", action="store_true", help="begin at a seed that the system draws, and print it")
    add("--seconds", type=float, help="stop after so many seconds of real time")
    add("--nodes", type=int, help="lives of so many nodes; otherwise they are small")
    add("--workers", type=int, default=1, help="processes (1)")
    add("--mode", choices=[mode.value for mode in Mode], help="one mode only")
    add("--coverage", action="store_true", help="and show which branches of decider/ were reached")
    add("--digest", action="store_true", help="and print the fingerprint of all traces together")
    add(
        "--plans-alone",
        action="store_true",
        help="judge nothing on the way but whether each pass's plan is that of all nodes: faster",
    )
    add("--seed", type=int, help="this one alone")
    add("--keep", help="with --seed: only these moves and faults, by name, between commas")
    return parser


def _one(asked: argparse.Namespace, modes: list[Mode]) -> int:
    life = draw(asked.seed, asked.nodes)
    keep = None if asked.keep is None else [name for name in asked.keep.split(",") if name]
    unheard, named = set(keep or ()) - {move.name for move in life.moves}, len(set(keep or ()))
    totals, begun = Totals(), time.monotonic()
    for mode in modes:
        outcome = run(life, mode, moves=keep, faults=keep, plans_alone=asked.plans_alone)
        totals.add(outcome)
        unheard -= set(outcome.fired)
        if outcome.failure is not None:
            moves = tuple(move.name for move in life.moves if keep is None or move.name in keep)
            again = (
                shrink(outcome) if keep is None else Shrunk(outcome, moves, tuple(outcome.fired), 1)
            )
            print(failure_text(again, asked.nodes))
    print("\n".join(totals.lines(time.monotonic() - begun)))
    if unheard:  # Some may stand for what happens in another company only.
        print(f"--keep: did not happen here: {', '.join(sorted(unheard))}")
    return 1 if totals.failures else 2 if named and len(unheard) == named else 0


def _many(said: str, tasks: Iterable[Task], asked: argparse.Namespace) -> int:
    totals, begun = Totals(), time.monotonic()
    failed: list[Outcome] = []
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(said, flush=True)
        for outcome in _outcomes(tasks, asked.workers):
            totals.add(outcome)
            if outcome.failure is not None:
                failed.append(outcome)
                print(first_word(outcome, asked.nodes), flush=True)
            if asked.seconds is not None and time.monotonic() - begun > asked.seconds:
                break
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted; so far:", flush=True)
    seconds = time.monotonic() - begun
    for outcome in failed[:FAILURES_SHOWN]:
        shrunk = shrink(outcome, seconds=0.0 if interrupted else SECONDS)
        print(failure_text(shrunk, asked.nodes), flush=True)
    if len(failed) > FAILURES_SHOWN:
        others = [f"{o.life.seed} {o.mode}" for o in failed[FAILURES_SHOWN:]]
        print(f"and {len(others)} more: {', '.join(others[:50])}")
    print("\n".join(totals.lines(seconds)))
    if interrupted:
        return 130
    return 1 if totals.failures or totals.missing() else 0


def _outcomes(tasks: Iterable[Task], workers: int) -> Iterator[Outcome]:
    if workers <= 1:
        yield from map(_live, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers, _prepare) as pool:
        yield from pool.imap_unordered(_live, tasks, chunksize=4)


def _prepare() -> None:
    """In a worker: Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quiet()


def _live(task: Task) -> Outcome:
    life = draw(task.seed, task.nodes)
    if task.digest:
        return digested(life, task.mode)
    return run(life, task.mode, plans_alone=task.plans_alone)

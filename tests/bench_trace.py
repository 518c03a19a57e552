"""What it costs to trace every message: `python -m tests.bench trace`.

The same run twice, without a trace and with one, through the driver, host and actor of production,
pumped by hand: a cluster converges, each effect answered at once, then nodes are lost and repaired
one after the other.  Both keep the mailbox's ring; neither writes a log, which would make the
ratio smaller.  What is written goes to a real file.  Costs are CPU time of the one thread; the two
runs of a pair take turns after every few messages, so that who else uses the machine slows down
both alike.  What others cost us is only ever added, and each turn does the same work in every pair:
so what counts of each turn is the least that it cost in any pair, of the traced runs and of the
untraced ones alike.  The quartiles of the pairs' own ratios are shown beside it.
"""

import gc
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, cast

from loguru import logger

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.timers import ManualTimers
from cluster_reconciler.actors.trace import TraceHeader, TraceLine, TraceWriter, read_trace
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import Executors
from cluster_reconciler.messages import (
    ClusterShape,
    ExecutorResult,
    NodeLost,
    NodeObserved,
    OperationId,
    PlannedEffect,
    SafetyTick,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
)
from tests.trace_kit import START, outcome_of, session_of

PAIRS = {20: 31, 1_000: 5}
"""By the number of nodes: few nodes converge within few messages."""
TURN = 10
"""Messages."""
RATIO_MAX = 1.4
REPAIRS = 60
PHASES = ("converge", "repairs")


class _Instant:
    """Executors whose every answer is there at once."""

    def __init__(self) -> None:
        self.tell: Callable[[object], None] = lambda _message: None

    def submit(self, effect: PlannedEffect) -> None:
        self.tell(ExecutorResult(effect.node, effect.operation, outcome_of(effect)))
        if isinstance(effect.command, StartBootstrap):
            joined = SwactorJoined(session_of(effect), SwactorId(f"swactor-{effect.node}"))
            self.tell(NodeObserved(effect.node, effect.operation.attempt, joined))

    def withdraw(self, _operation: OperationId) -> bool:
        return False

    def expire(self, _operation: OperationId) -> bool:
        return False

    def retire(self, _attempt: int) -> None:
        """Nothing is kept."""


class Turn(NamedTuple):
    """What handling a few messages cost."""

    spent: int
    """Nanoseconds of CPU time."""
    messages: int


class Bench:
    """A cluster of so many nodes, traced into a file or not."""

    def __init__(self, nodes: int, trace: Path | None) -> None:
        self.turns: dict[str, list[Turn]] = {phase: [] for phase in PHASES}
        """By phase, in order."""
        self._clock = ManualClock(START)
        self._timers = ManualTimers(self._clock)
        desired = _desired(nodes)
        policy = RetryPolicy(seed=1)
        self._writer = (
            TraceWriter(trace, shape=desired, policy=policy, started_at=START)
            if trace is not None
            else None
        )
        over: Callable[[object], None] = lambda _identity: None  # noqa: E731
        self._host = RuntimeHost(
            self._clock, self._timers, Subscriptions(), over, policy.stable_after
        )
        self._driver = Driver(desired, policy, self._host, self._host)
        system = ActorSystem("bench", self._clock)
        self._actor = DriverActor(system, self._driver, self._host.handled)
        executors = _Instant()
        executors.tell = self._actor.tell
        self._host.connect(self._actor, self._driver, cast(Executors, executors), self._writer)

    def run(self) -> Iterator[None]:
        """Converge, then repair; one turn after the other."""
        self._actor.tell(SafetyTick())
        yield from self._handle_all("converge")
        names = sorted(self._driver.state.nodes)
        for number in range(REPAIRS):
            node = names[number * 7 % len(names)]
            attempt = self._driver.state.nodes[node].attempt
            self._actor.tell(NodeObserved(node, attempt, NodeLost("its power failed")))
            yield from self._handle_all("repairs")
            self._clock.advance(timedelta(minutes=30))
            self._timers.fire_due()
            yield from self._handle_all("repairs")
        assert all(node.record.ready for node in self._driver.state.nodes.values())
        if self._writer is not None:
            self._writer.close()

    def _handle_all(self, phase: str) -> Iterator[None]:
        more = True
        while more:
            begin = time.thread_time_ns()
            count = 0
            while count < TURN and (more := self._actor.pump_one()):
                count += 1
            self.turns[phase].append(Turn(time.thread_time_ns() - begin, count))
            yield


def _desired(nodes: int) -> ClusterShape:
    return shape(*(group(f"g{i}", count=nodes // 10) for i in range(10)))


def pair(nodes: int, folder: Path) -> tuple[Bench, Bench]:
    """An untraced run and a traced one, side by side."""
    gc.collect()  # Nothing of an earlier pair is cleared away at the cost of this one.
    path = folder / "trace.jsonl"
    path.unlink(missing_ok=True)  # A trace is a new file: no run pays for another one's blocks.
    benches = Bench(nodes, None), Bench(nodes, path)
    for _ in itertools.zip_longest(*(bench.run() for bench in benches)):
        pass
    return benches


def of_a_message(runs: Sequence[Sequence[Turn]]) -> float:
    """Nanoseconds, from the least that each turn cost in any of the runs."""
    turns = list(zip(*runs, strict=True))
    least: int = sum(min(turn.spent for turn in same) for same in turns)
    messages: int = sum(same[0].messages for same in turns)
    return least / messages


def show(
    nodes: int, phase: str, plain: Sequence[Sequence[Turn]], traced: Sequence[Sequence[Turn]]
) -> float:
    """Print a line of the table; its ratio."""
    without, with_it = of_a_message(plain), of_a_message(traced)
    ratios = [of_a_message([b]) / of_a_message([a]) for a, b in zip(plain, traced, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"{nodes:>6} {phase:<9} {without:>10.0f} {with_it:>10.0f} {with_it / without:>6.2f} "
        f"{low:>6.2f}-{high:.2f} {len(plain):>6}"
    )
    return with_it / without


def replay_speed(path: Path, *, quick: bool) -> tuple[int, float]:
    """Messages of the trace, and how many were replayed a second of CPU time."""
    header, *lines = read_trace(path)
    assert isinstance(header, TraceHeader)
    begin = time.thread_time()
    replay = Replay(header, quick=quick)
    for line in lines:
        assert isinstance(line, TraceLine)
        replay.feed(line)
    assert replay.difference is None, replay.difference
    return len(lines), len(lines) / (time.thread_time() - begin)


def main() -> int:
    """Print the table; 1 when tracing costs more than it may, at any size and in any phase."""
    logger.remove()
    failed = False
    print(
        f"{'nodes':>6} {'':<9} {'untraced':>10} {'traced':>10} {'ratio':>6} {'quartiles':>11} ",
        end="",
    )
    print(f"{'pairs':>6}   (ns of CPU a message; at most {RATIO_MAX})")
    with tempfile.TemporaryDirectory() as folder:
        for nodes, count in PAIRS.items():
            turns = [[run.turns for run in pair(nodes, Path(folder))] for _ in range(count)]
            for phase in PHASES:
                plain, traced = ([run[phase] for run in side] for side in zip(*turns, strict=True))
                failed |= show(nodes, phase, plain, traced) > RATIO_MAX
            path = Path(folder) / "trace.jsonl"
            messages, proved = replay_speed(path, quick=False)
            _, quickly = replay_speed(path, quick=True)
            print(
                f"{nodes:>6} replay: {messages} messages, {proved:.0f} a second (every node at "
                f"every pass), {quickly:.0f} as `trace` reads; {path.stat().st_size} bytes"
            )
    if failed:
        print(f"tracing costs more than {RATIO_MAX} times the untraced time", file=sys.stderr)
    return int(failed)

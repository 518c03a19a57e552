"""What it costs to trace every message, and how fast what was written is replayed.

The same run twice, without a trace and with one, through the driver, host and actor of production,
pumped by hand: a cluster converges, each effect replied to at once, then nodes are lost and
repaired one after the other.  Both keep the mailbox's ring; neither writes a log, which would make
the ratio smaller.  What is written goes to a real file.

Costs are CPU time of the one thread; the two runs of a pair alternate, stretch by stretch, so that
who else uses the machine slows down both alike.  What others cost us is only ever added, and each
stretch is the same work in every pair: so what counts of it is the least that it cost in any pair,
of the traced runs and of the untraced ones alike.
"""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import thread_time, thread_time_ns
from typing import NamedTuple

from msgspec import Struct

from cluster_reconciler.actors.bench.executors import InstantReplies
from cluster_reconciler.actors.bench.production import RESTED, pumped
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.actors.bench.stopwatch import quiet, spread
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.trace import TraceHeader, TraceLine, read_trace
from cluster_reconciler.messages import SafetyTick

STRETCH = 10
"""Messages."""


class TraceCost(Struct, frozen=True):
    """Of converging and repairing together."""

    untraced: float
    """Microseconds of CPU time a message."""
    traced: float
    bytes_a_message: float
    replayed: float
    """Messages a second of CPU time, every node held to the trace at every pass; with the reading
    of the file."""
    read: float
    """The same as `trace` reads them."""


class Stretch(NamedTuple):
    """A few messages in a row, and what handling them cost."""

    spent: int
    """Nanoseconds of CPU time."""
    messages: int


def trace_cost(nodes: int, *, pairs: int, repairs: int) -> TraceCost:
    """With so many nodes; of them so many are lost, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        plain, traced = zip(*(_pair(nodes, repairs, path) for _ in range(pairs)), strict=True)
        messages, replayed = replay_speed(path, quick=False)
        _, read = replay_speed(path, quick=True)
        size = path.stat().st_size
    return TraceCost(
        of_a_message(plain) / 1000, of_a_message(traced) / 1000, size / messages, replayed, read
    )


def of_a_message(runs: Sequence[Sequence[Stretch]]) -> float:
    """Nanoseconds, from the least that each stretch cost in any of the runs."""
    stretches = list(zip(*runs, strict=True))
    least: int = sum(min(one.spent for one in same) for same in stretches)
    messages: int = sum(same[0].messages for same in stretches)
    return least / messages


def _pair(nodes: int, repairs: int, path: Path) -> tuple[list[Stretch], list[Stretch]]:
    """An untraced run and a traced one, side by side."""
    path.unlink(missing_ok=True)  # A trace is a new file: no run pays for another one's blocks.
    plain: list[Stretch] = []
    traced: list[Stretch] = []
    with quiet():
        runs = _run(nodes, repairs, None, plain), _run(nodes, repairs, path, traced)
        for _ in itertools.zip_longest(*runs):
            pass
    return plain, traced


def _run(nodes: int, repairs: int, trace: Path | None, stretches: list[Stretch]) -> Iterator[None]:
    """Converge, then repair; one stretch after the other."""
    production = pumped(shape_of(nodes), trace=trace)
    production.connect(InstantReplies(production.actor.tell))
    production.actor.tell(SafetyTick())
    handle_all, state = production.actor.pump_one, production.driver.state

    def handle() -> Iterator[None]:
        more = True
        while more:
            begun, count = thread_time_ns(), 0
            while count < STRETCH and (more := handle_all()):
                count += 1
            stretches.append(Stretch(thread_time_ns() - begun, count))
            yield

    yield from handle()
    for node in spread(state.nodes, repairs):
        production.lose(node)
        yield from handle()
        production.skip(RESTED)
        yield from handle()
    assert all(node.record.ready for node in production.driver.state.nodes.values())
    production.close()


def replay_speed(path: Path, *, quick: bool) -> tuple[int, float]:
    """Messages of the trace, and how many were read and replayed a second of CPU time.  `quick`: as
    `trace` does it."""
    with quiet():
        begun = thread_time()
        lines = read_trace(path)
        header, messages = next(lines), 0
        assert isinstance(header, TraceHeader)
        replay = Replay(header, quick=quick)
        for line in lines:
            assert isinstance(line, TraceLine)
            replay.feed(line)
            messages += 1
        spent = thread_time() - begun
    assert replay.difference is None, replay.difference
    return messages, messages / spent

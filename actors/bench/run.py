"""The measures, one after the other, for each number of nodes; and what they come to.

It measures nothing itself.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

from msgspec import Struct

from cluster_reconciler.actors.bench.converging import converge_with_actors
from cluster_reconciler.actors.bench.events import event_cost
from cluster_reconciler.actors.bench.figures import Measure, Value, value_of
from cluster_reconciler.actors.bench.loop import Ready, Work, converge
from cluster_reconciler.actors.bench.memory import memory_cost
from cluster_reconciler.actors.bench.passes import pass_cost
from cluster_reconciler.actors.bench.profile import ProfileLine, event_profile
from cluster_reconciler.actors.bench.repairs import repair_cost
from cluster_reconciler.actors.bench.repeats import repeats_with
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.actors.bench.stopwatch import quiet
from cluster_reconciler.actors.bench.tracing import trace_cost
from cluster_reconciler.messages import ClusterShape

NODES = (1_000, 10_000, 100_000)
TRACED_MAX = 1_000
"""What tracing a message costs does not depend on how many nodes there are: it is measured once."""
GROWTH_FROM = 1_000

Progress = Callable[[str], None]
Figures = Iterator[tuple[str, float]]


class Wanted(Struct, frozen=True):
    """What to measure."""

    nodes: tuple[int, ...] = NODES
    measures: frozenset[Measure] = frozenset(Measure)
    quick: bool = False
    """Fewer repeats: the figures are rough."""
    profile: bool = False
    """One event too, with the most nodes."""


def measure(wanted: Wanted, progress: Progress) -> Iterator[Value | ProfileLine]:
    """Each as soon as it is known: the figures of the least number of nodes first, and so on; then
    the lines of the profile; the figures of tracing, of one number of nodes, last."""
    sizes = sorted(set(wanted.nodes))
    plan_with_few: float | None = None
    for nodes in sizes:
        size = _Size(nodes, wanted, progress)
        for name, found in size.figures():
            yield value_of(name, nodes, found)
            if name == "plan" and nodes == GROWTH_FROM:
                plan_with_few = found
            elif name == "plan" and plan_with_few is not None:
                yield value_of("plan_growth", nodes, found / plan_with_few)
        if wanted.profile and nodes == sizes[-1]:
            yield from size.profile()
    if Measure.TRACE in wanted.measures:
        nodes = min(TRACED_MAX, sizes[0])
        progress(f"{nodes} nodes: a message with and without a trace")
        for name, found in _traced(nodes, wanted.quick):
            yield value_of(name, nodes, found)


def _traced(nodes: int, quick: bool) -> Figures:
    repeats = repeats_with(nodes, quick=quick)
    cost = trace_cost(nodes, pairs=repeats.traced_pairs, repairs=repeats.traced_repairs)
    yield "untraced", cost.untraced
    yield "traced", cost.traced
    yield "traced_to_untraced", cost.traced / cost.untraced
    yield "trace_bytes", cost.bytes_a_message
    yield "replayed", cost.replayed
    yield "read", cost.read


class _Size:
    """The measures with one number of nodes, which share a ready cluster."""

    def __init__(self, nodes: int, wanted: Wanted, progress: Progress) -> None:
        self._nodes = nodes
        self._measures = wanted.measures
        self._progress = progress
        self._repeats = repeats_with(nodes, quick=wanted.quick)
        self._unlimited = shape_of(nodes, in_flight=nodes)

    def figures(self) -> Figures:
        """All that are wanted."""
        wanted, steps = self._measures, {
            Measure.EVENT: self._event,
            Measure.CONVERGE: self._converging,
            Measure.ACTORS: self._actors,
            Measure.REPAIRS: self._repairs,
            Measure.MEMORY: self._memory,
        }  # fmt: skip
        yield from self._passes(Measure.PASS in wanted, Measure.PLAN in wanted)
        for step in (steps[one] for one in steps if one in wanted):
            yield from step()

    def profile(self) -> list[ProfileLine]:
        """Of one event."""
        ready = self._in_batches[0]
        self._say("the profile of one event")
        return event_profile(ready, events=self._repeats.lost)

    def _say(self, what: str) -> None:
        self._progress(f"{self._nodes} nodes: {what}")

    @cached_property
    def _in_batches(self) -> tuple[Ready, Work]:
        """Measured, and what the other measures begin with."""
        self._say("converges in batches, no limit")
        return self._least(self._unlimited, one_at_a_time=False)

    def _least(self, shape: ClusterShape, *, one_at_a_time: bool) -> tuple[Ready, Work]:
        found = None
        for _ in range(self._repeats.converged):
            with quiet():
                ready, work = converge(shape, one_at_a_time=one_at_a_time)
            if found is None or work.driver_seconds < found[1].driver_seconds:
                found = ready, work
        assert found is not None, "nothing was repeated"
        return found

    def _passes(self, full: bool, after_one_event: bool) -> Figures:
        """Both are measured where one is wanted: the one is told as a multiple of the other."""
        if not full and not after_one_event:
            return
        ready = self._in_batches[0]
        self._say("full pass, planning after one event")
        cost = pass_cost(ready, turns=self._repeats.turns, planned=self._repeats.planned)
        if full:
            yield "full_pass", cost.full / self._nodes
            yield "bare_walk", cost.walk / self._nodes
            yield "full_pass_to_walk", cost.full / cost.walk
        if after_one_event:
            yield "plan", cost.after_one_event
            yield "full_pass_to_plan", cost.full / cost.after_one_event

    def _event(self) -> Figures:
        ready = self._in_batches[0]
        self._say("one event through the mailbox")
        cost = event_cost(ready, events=self._repeats.lost)
        yield "event_p50", cost.median
        yield "event_p99", cost.slowest_percent
        yield "repair", cost.repair

    def _converging(self) -> Figures:
        work = self._in_batches[1]
        yield "converge_batches", work.driver_seconds
        yield "message_batches", work.driver_seconds / work.messages * 1e6
        yield "messages_batches", work.messages / self._nodes
        limited = shape_of(self._nodes)
        self._say("converges in batches, 64 in flight")
        yield (
            "converge_batches_limited",
            self._least(limited, one_at_a_time=False)[1].driver_seconds,
        )
        self._say("converges reply by reply, no limit")
        work = self._least(self._unlimited, one_at_a_time=True)[1]
        yield "converge_single", work.driver_seconds
        yield "message_single", work.driver_seconds / work.messages * 1e6
        yield "messages_single", work.messages / self._nodes
        self._say("converges reply by reply, 64 in flight")
        yield "converge_single_limited", self._least(limited, one_at_a_time=True)[1].driver_seconds

    def _actors(self) -> Figures:
        alone = [self._in_batches[1].wall_seconds]
        self._say("converges with real actors")
        with_actors = [self._with_actors()]
        # In turns: what slows the machine down slows both.
        for _ in range(self._repeats.converged - 1):
            with quiet():
                alone.append(converge(self._unlimited, one_at_a_time=False)[1].wall_seconds)
            with_actors.append(self._with_actors())
        yield "actors", min(with_actors)
        yield "actors_to_loop", min(with_actors) / min(alone)

    def _with_actors(self) -> float:
        with quiet():
            return converge_with_actors(self._unlimited)

    def _repairs(self) -> Figures:
        ready = self._in_batches[0]
        self._say("1000 repairs a second")
        cost = repair_cost(ready, seconds=self._repeats.repair_seconds)
        yield "repairs_rate", cost.rate
        yield "repairs_share", cost.driver_share * 100
        yield "repairs_share_all", cost.process_share * 100
        yield "repairs_messages", cost.messages
        yield "repairs_p50", cost.median
        yield "repairs_p99", cost.slowest_percent

    def _memory(self) -> Figures:
        ready = self._in_batches[0]
        self._say("memory of a node")
        cost = memory_cost(ready)
        yield "memory_state", cost.state
        yield "memory_shape", cost.desired
        yield "memory_planner", cost.planner_at_rest
        yield "memory_planner_busy", cost.planner_busy

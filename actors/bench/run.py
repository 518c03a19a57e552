"""The measures, one after the other, for each number of nodes; and what they come to.

It measures nothing itself.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from cluster_reconciler.actors.bench.converging import converge_with_actors
from cluster_reconciler.actors.bench.events import event_cost
from cluster_reconciler.actors.bench.figures import Measure, Value, value_of
from cluster_reconciler.actors.bench.loop import Work, converge
from cluster_reconciler.actors.bench.passes import pass_cost
from cluster_reconciler.actors.bench.repairs import repair_cost
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.actors.bench.stopwatch import quiet

NODES = (1_000, 10_000, 100_000)
REPEATED_UP_TO = 10_000
"""With more nodes what takes long is done once."""

Progress = Callable[[str], None]


class Plan(Struct, frozen=True):
    """What to measure."""

    nodes: tuple[int, ...] = NODES
    measures: frozenset[Measure] = frozenset(Measure)
    quick: bool = False
    """Fewer repeats: the figures are rough."""


class _Size:
    """The measures with one number of nodes, which share a ready cluster."""

    def __init__(self, nodes: int, plan: Plan, progress: Progress) -> None:
        self.nodes = nodes
        self._plan = plan
        self._progress = progress
        self._repeats = 1 if plan.quick or nodes > REPEATED_UP_TO else 3
        self.unlimited = shape_of(nodes, in_flight=nodes)
        self.limited = shape_of(nodes)
        self._say("makes a ready cluster")
        with quiet():
            self.ready, self.work = converge(self.unlimited, one_at_a_time=False)

    def _say(self, what: str) -> None:
        self._progress(f"{self.nodes} nodes: {what}")

    def wants(self, *measures: Measure) -> bool:
        return not self._plan.measures.isdisjoint(measures)

    def passes(self) -> Iterator[tuple[str, float]]:
        self._say("full pass, planning after one event")
        quick = self._plan.quick
        cost = pass_cost(self.ready, passes=5 if quick else 11, events=51 if quick else 301)
        if self.wants(Measure.PASS):
            yield "full_pass", cost.full / self.nodes
            yield "bare_walk", cost.walk / self.nodes
            yield "full_pass_to_walk", cost.full / cost.walk
        if self.wants(Measure.PLAN):
            yield "plan", cost.after_one_event
            yield "full_pass_to_plan", cost.full / cost.after_one_event

    def events(self) -> Iterator[tuple[str, float]]:
        self._say("one event through the mailbox")
        cost = event_cost(self.ready, events=100 if self._plan.quick else 300)
        yield "event_p50", cost.median
        yield "event_p99", cost.slowest_percent

    def converging(self) -> Iterator[tuple[str, float]]:
        for name, one_at_a_time in (("batches", False), ("single", True)):
            how = "reply by reply" if one_at_a_time else "in batches"
            self._say(f"converges {how}, no limit")
            work = self._least(limited=False, one_at_a_time=one_at_a_time)
            if not one_at_a_time:
                self.work = work
            self._say(f"converges {how}, 64 in flight")
            held = self._least(limited=True, one_at_a_time=one_at_a_time)
            yield f"converge_{name}", work.driver_seconds
            yield f"converge_{name}_limited", held.driver_seconds
            yield f"message_{name}", work.driver_seconds / work.messages * 1e6
            yield f"messages_{name}", work.messages / self.nodes

    def actors(self) -> Iterator[tuple[str, float]]:
        self._say("converges with real actors")
        times = []
        for _ in range(self._repeats):
            with quiet():
                times.append(converge_with_actors(self.unlimited))
        yield "actors", min(times)
        yield "actors_to_loop", min(times) / self.work.wall_seconds

    def repairs(self) -> Iterator[tuple[str, float]]:
        self._say("1000 repairs a second")
        cost = repair_cost(self.ready, seconds=1.0 if self._plan.quick else 3.0)
        yield "repairs_rate", cost.rate
        yield "repairs_share", cost.driver_share * 100
        yield "repairs_share_all", cost.process_share * 100
        yield "repairs_messages", cost.messages
        yield "repairs_p50", cost.median
        yield "repairs_p99", cost.slowest_percent

    def _least(self, *, limited: bool, one_at_a_time: bool) -> Work:
        shape = self.limited if limited else self.unlimited
        works = []
        for _ in range(self._repeats):
            with quiet():
                works.append(converge(shape, one_at_a_time=one_at_a_time)[1])
        return min(works, key=lambda work: work.wall_seconds)


def measure(plan: Plan, progress: Progress) -> list[Value]:
    """Every figure that was asked for, for each number of nodes, in that order."""
    values: list[Value] = []
    for nodes in plan.nodes:
        size = _Size(nodes, plan, progress)
        steps = (
            ((Measure.PASS, Measure.PLAN), size.passes),
            ((Measure.EVENT,), size.events),
            ((Measure.CONVERGE,), size.converging),
            ((Measure.ACTORS,), size.actors),
            ((Measure.REPAIRS,), size.repairs),
        )
        for measures, step in steps:
            if size.wants(*measures):
                values += [value_of(name, nodes, value) for name, value in step()]
    return values + _growth(values)


def _growth(values: Sequence[Value]) -> list[Value]:
    """Of planning after one event: from the fewest nodes to each other number."""
    plans = {value.nodes: value.value for value in values if value.figure == "plan"}
    if not plans:
        return []
    least = plans[min(plans)]
    return [value_of("plan_growth", nodes, plans[nodes] / least) for nodes in plans]

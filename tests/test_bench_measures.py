"""How the bench measures: what is counted, which of many times counts, and that a measure does the
work that it is named for.

No time of this machine is held to anything: others use it too.
"""

import sys

import pytest
from msgspec import Struct

from cluster_reconciler.actors.bench import run
from cluster_reconciler.actors.bench.events import event_cost
from cluster_reconciler.actors.bench.executors import InstantReplies
from cluster_reconciler.actors.bench.figures import FIGURES, Measure, Value, value_of
from cluster_reconciler.actors.bench.loop import Ready, Work, converge
from cluster_reconciler.actors.bench.memory import memory_cost, size_of
from cluster_reconciler.actors.bench.passes import PassCost, bare_walk, pass_cost
from cluster_reconciler.actors.bench.production import RESTED, Production, pumped
from cluster_reconciler.actors.bench.profile import ProfileLine, event_profile
from cluster_reconciler.actors.bench.repairs import repair_cost
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.actors.bench.run import Wanted, measure
from cluster_reconciler.actors.bench.stopwatch import percentile, spread
from cluster_reconciler.actors.bench.tracing import Stretch, of_a_message, trace_cost
from cluster_reconciler.decider import expand_shape, is_converged
from cluster_reconciler.messages import SafetyTick

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture(scope="module")
def ready() -> Ready:
    """Twelve nodes, in groups of one."""
    return converge(shape_of(12, in_flight=12), one_at_a_time=False)[0]


# -- what is measured ------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "sizes"), [(3, {1}), (50, {1}), (120, {2, 3})])
def test_the_nodes_stand_in_groups_of_nearly_one_size(nodes: int, sizes: set[int]) -> None:
    shape = shape_of(nodes)

    assert len(expand_shape(shape).nodes) == nodes
    assert {group.count for group in shape.groups} == sizes


@pytest.mark.parametrize(
    ("in_flight", "one_at_a_time", "messages"),
    [
        # The tick, and passes over all: insert, create, then start, hand over, rest.
        (3, False, 1 + 2 + 3 * 4 + 3),
        # Each of a node's four replies is followed by its own pass.
        (3, True, 1 + 2 + 3 * 4 * 2),
        (1, True, 1 + 2 + 3 * 4 * 2),
    ],
)
def test_a_cluster_converges_within_the_messages_that_it_takes(
    in_flight: int, one_at_a_time: bool, messages: int
) -> None:
    ready, work = converge(shape_of(3, in_flight=in_flight), one_at_a_time=one_at_a_time)

    assert is_converged(ready.state, ready.desired)
    assert work.messages == messages


def test_the_bare_walk_looks_at_every_node(ready: Ready) -> None:
    assert bare_walk(ready.state, ready.desired.nodes) == 12


def test_passes_leave_the_cluster_as_it_was(ready: Ready) -> None:
    before = dict(ready.state.nodes)

    cost = pass_cost(ready, turns=2, planned=3)
    assert min(cost.full, cost.walk, cost.after_one_event) > 0
    assert ready.state.nodes == before


def test_one_event_is_measured_on_each_of_several_nodes(ready: Ready) -> None:
    cost = event_cost(ready, events=4)
    assert 0 < cost.median <= cost.slowest_percent
    assert cost.median < cost.repair


def test_a_repair_is_as_many_messages_as_the_table_says(ready: Ready) -> None:
    # given a ready cluster at rest, whose every effect is replied to at once
    production = pumped(ready.desired.shape, ready=ready)
    production.connect(InstantReplies(production.actor.tell))
    production.actor.tell(SafetyTick())
    rest(production)
    production.skip(RESTED)

    # when one node is lost, and its backoff passes
    production.lose(min(ready.state.nodes))
    messages = rest(production)
    production.skip(RESTED)
    messages += rest(production)
    production.close()

    # then the driver handles seventeen messages until it is ready again
    assert messages == 17
    assert all(node.record.ready for node in production.driver.state.nodes.values())


def rest(production: Production) -> int:
    """Until nothing is left to handle; how much was."""
    count = 0
    while production.actor.pump_one():
        count += 1
    return count


def test_a_profile_names_what_one_event_calls(ready: Ready) -> None:
    lines = event_profile(ready, events=3, lines=1_000)

    # Three messages are handled: the loss, and two passes; one effect is submitted
    calls = {line.function: line.calls for line in lines if line.place.startswith("actors/driver")}
    assert [calls[name] for name in ("handle", "_run_pass", "submit")] == [3.0, 2.0, 1.0]
    assert lines == sorted(lines, key=lambda line: -line.own_microseconds)
    assert len(event_profile(ready, events=1, lines=2)) == 2


def test_repairs_come_at_their_pace_and_each_is_counted(ready: Ready) -> None:
    # when sixty are asked for within three tenths of a second, from a cluster of twelve nodes
    cost = repair_cost(ready, rate=200, seconds=0.3)

    # then none is done before it is asked for, and a repair takes its six messages at least: lost,
    # destroyed, created, started, joined, handed over
    assert 0 < cost.rate <= 200 * 1.02
    assert cost.messages >= 6
    assert 0 < cost.median <= cost.slowest_percent
    assert 0 < cost.driver_share <= cost.process_share


def test_tracing_is_measured_on_the_same_messages_with_and_without(ready: Ready) -> None:
    cost = trace_cost(12, pairs=1, repairs=2)
    assert min(cost.untraced, cost.traced, cost.bytes_a_message, cost.replayed, cost.read) > 0


def test_what_a_planner_keeps_grows_with_what_there_is_to_do(ready: Ready) -> None:
    cost = memory_cost(ready)
    assert 0 < cost.planner_at_rest < cost.planner_busy < cost.state


# -- what is made of it ----------------------------------------------------------------------------


class Pair(Struct):
    left: object
    right: object


def test_what_several_hold_is_counted_once() -> None:
    # Given a text that is held three times, and known to be elsewhere once it is seen
    text = "held by several"
    value = Pair({text: [text]}, (text,))
    sizes = map(sys.getsizeof, (value, value.left, [text], value.right, text))
    seen: set[int] = set()

    assert size_of(value, seen) == sum(sizes)
    assert size_of(text, seen) == 0


def test_of_each_stretch_the_least_of_all_runs_counts() -> None:
    # Given two runs of the same two stretches, each disturbed once
    runs = [[Stretch(100, 10), Stretch(900, 5)], [Stretch(700, 10), Stretch(50, 5)]]
    assert of_a_message(runs) == (100 + 50) / 15


def test_of_many_times_the_one_that_so_many_do_not_exceed_counts() -> None:
    times = [float(number) for number in range(200, 0, -1)]
    assert [percentile(times, percent) for percent in (50, 99, 100)] == [100.0, 198.0, 200.0]
    assert percentile([7.0], 99) == 7.0


def test_a_few_of_many_are_taken_from_the_first_on_evenly() -> None:
    assert spread(range(10), 4) == [0, 2, 5, 7]
    assert spread({"a": 1}, 4) == ["a"]


def test_an_aim_is_judged_only_where_it_is_meant_and_its_bound_will_do() -> None:
    words, unit = "full pass : planning after one event", "times"

    def ratio(nodes: int, value: float, *judged: object) -> Value:
        return Value("full_pass_to_plan", Measure.PLAN, words, unit, nodes, value, *judged)  # type: ignore[arg-type]

    assert [
        value_of("full_pass_to_plan", nodes, value)
        for nodes, value in ((1_000, 1.0), (10_000, 299.0), (10_000, 300.0))
    ] == [
        ratio(1_000, 1.0),
        ratio(10_000, 299.0, 300, "at_least", False),
        ratio(10_000, 300.0, 300, "at_least", True),
    ]
    assert value_of("full_pass", 10_000, 0.25).met is True
    # What a cluster takes once is no cost of a node, but it weighs where nodes are few.
    assert [value_of("memory_state", n, 1201.0).met for n in (999, 1_000, 7_000)] == [
        None,
        False,
        False,
    ]


def test_every_figure_is_measured_and_none_without_being_asked_for() -> None:
    said: list[str] = []

    found = list(measure(Wanted(nodes=(20, 30), quick=True), said.append))
    values = [one for one in found if isinstance(one, Value)]
    every = {figure.name for figure in FIGURES}
    # How planning grows is told from a thousand nodes on, and tracing is measured once.
    assert len(values) == len(found)
    assert {value.figure for value in values} == every - {"plan_growth"}
    assert {value.nodes for value in values if value.measure is Measure.TRACE} == {20}
    assert {line.partition(":")[0] for line in said} == {"20 nodes", "30 nodes"}

    alone = Wanted(nodes=(20,), measures=frozenset({Measure.PLAN}), quick=True)
    assert [one.figure for one in measure(alone, said.append) if isinstance(one, Value)] == [
        "plan",
        "full_pass_to_plan",
    ]


def test_how_planning_grows_is_told_beside_a_thousand_nodes_as_soon_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch, ready: Ready
) -> None:
    # given clusters of which a plan takes more the larger they are; none is really made
    costs = iter((1.0, 2.0, 3.0, 7.0))
    monkeypatch.setattr(run, "converge", lambda _shape, **_how: (ready, Work(1, 1.0, 1.0)))
    monkeypatch.setattr(run, "pass_cost", lambda _ready, **_often: PassCost(1, 1, next(costs)))
    plan_alone = frozenset({Measure.PLAN})

    def growth(*nodes: int) -> list[tuple[int, float]]:
        found = measure(Wanted(nodes, plan_alone, quick=True), lambda _text: None)
        values = [one for one in found if isinstance(one, Value)]
        return [(one.nodes, one.value) for one in values if one.figure == "plan_growth"]

    # then it is told of the larger ones, and of none where nobody asked for a thousand
    assert growth(3_000, 1_000, 30) == [(3_000, 3.0 / 2.0)]
    assert growth(3_000) == []


def test_one_event_is_profiled_with_the_most_nodes() -> None:
    said: list[str] = []
    wanted = Wanted((30, 20), frozenset({Measure.PLAN}), quick=True, profile=True)

    found = list(measure(wanted, said.append))
    assert len([one for one in found if isinstance(one, ProfileLine)]) > 10
    assert [one.nodes for one in found if isinstance(one, Value)] == [20, 20, 30, 30]
    assert [line for line in said if "profile" in line] == ["30 nodes: the profile of one event"]

"""The incremental reconciler, pitfall by pitfall: in what a cache of decisions is easily wrong.

Each test puts a few nodes in a state that it names, asks for a plan, lets one thing change and asks
again.  That all of it together is the full plan, `test_decider_incremental` shows.
"""

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    BeginDelete,
    ClusterState,
    Dispatch,
    ExpandedShape,
    IncrementalReconciler,
    Insert,
    ManagedNode,
    NodeDecision,
    ReconcilePlan,
    Restart,
    expand_shape,
    expire,
    incremental,
    reconcile,
    reconcile_node,
)
from cluster_reconciler.decider.transitions import apply
from cluster_reconciler.messages import (
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeLost,
)
from tests.decider_words import (
    G0,
    POLICY,
    SPEC,
    answered,
    at,
    bootstrapping,
    creating,
    deleting,
    destroyed,
    failed,
    fold,
    group,
    new,
    ready,
    shape,
)


class Life:
    """Some nodes of group g, and the reconciler that is told of their changes."""

    def __init__(
        self, *nodes: ManagedNode, count: int | None = None, in_flight: int = 64, next_attempt: int
    ) -> None:
        self.nodes = {node.record.logical_node_id: node for node in nodes}
        self.next_attempt = next_attempt
        self.incremental = IncrementalReconciler()
        self.in_flight = in_flight
        self.desired = self.wanted(1, len(nodes) if count is None else count)

    def wanted(
        self, generation: int, count: int, previous: ExpandedShape | None = None
    ) -> ExpandedShape:
        limits = {"memory": self.in_flight}
        return expand_shape(
            shape(group(count=count), generation=generation, limits=limits), previous
        )

    def put(self, *nodes: ManagedNode) -> None:
        for node in nodes:
            self.nodes[node.record.logical_node_id] = node
            self.incremental.touch(node.record.logical_node_id)

    @property
    def state(self) -> ClusterState:
        return ClusterState(0, NodeAttemptId(self.next_attempt), self.nodes)

    def plan(self, seconds: float = 0) -> ReconcilePlan:
        """From what is kept, with the names of all who wait; it must be the full one."""
        plan = self.incremental.reconcile(self.state, self.desired, at(seconds))
        named = replace(plan, held_back=self.incremental.held_back())
        assert named == reconcile(self.state, self.desired, at(seconds))
        return named

    def dispatch(self, plan: ReconcilePlan, seconds: float = 0) -> None:
        """Apply every effect of the plan."""
        for action in plan.actions:
            assert isinstance(action, Dispatch)
            after = apply(self.nodes[action.node], action, at(seconds), POLICY)
            assert after is not None
            self.put(after)


def named(node: ManagedNode, number: int) -> ManagedNode:
    """The same in slot g-NUMBER."""
    name = LogicalNodeId(f"g-{number}")
    join = replace(SPEC.swarm_join, expected_logical_node_id=name)
    desired = replace(node.record.desired, logical_node_id=name, swarm_join=join)
    return replace(
        node,
        attempt=NodeAttemptId(number + 1),
        record=replace(node.record, logical_node_id=name, desired=desired),
    )


def many(node: ManagedNode, count: int) -> tuple[ManagedNode, ...]:
    return tuple(named(node, number) for number in range(count))


def told(plan: ReconcilePlan) -> list[tuple[str, LogicalNodeId]]:
    """Who does what."""
    return [
        (type(a.effect.command if isinstance(a, Dispatch) else a).__name__, a.node)
        for a in plan.actions
    ]


@contextmanager
def decisions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LogicalNodeId]]:
    """The nodes that are decided meanwhile, each time that they are."""
    decided: list[LogicalNodeId] = []

    def watched(node: ManagedNode, spec: LogicalNodeSpec | None, now: datetime) -> NodeDecision:
        decided.append(node.record.logical_node_id)
        return reconcile_node(node, spec, now)

    with monkeypatch.context() as patch:
        patch.setattr("cluster_reconciler.decider.incremental.reconcile_node", watched)
        yield decided


# -- moments --------------------------------------------------------------------------------------


def test_a_deadline_that_is_overdue_still_reports_when_it_was_due() -> None:
    # given two creates that are out, and nobody judges the first one when its time is over
    life = Life(*many(creating(), 2), next_attempt=3)
    second = life.nodes[LogicalNodeId("g-1")]
    assert second.pending is not None
    life.put(replace(second, pending=replace(second.pending, deadline=at(500))))

    # then it is what the plan wants to be woken for, at every pass, asked for or not
    moments = [life.plan(seconds).requeue_at for seconds in (0, 119, 120, 121, 400)]
    assert life.incremental.overdue(life.state, at(400)) == [G0]
    moments += [life.plan(seconds).requeue_at for seconds in (400, 401)]
    assert moments == [at(120)] * 7

    # until it is judged: then only the other deadline is left
    life.put(expire(life.nodes[G0], at(401), POLICY))
    life.dispatch(life.plan(1_000), 1_000)
    assert life.plan(1_000).requeue_at == at(500)


def test_what_is_overdue_is_found_among_nodes_that_nobody_has_planned_for_yet() -> None:
    life = Life(creating(), next_attempt=2)
    assert life.incremental.overdue(life.state, at(119)) == []
    assert life.incremental.overdue(life.state, at(120)) == [G0]


def test_a_node_is_decided_anew_at_the_moment_for_which_it_waits() -> None:
    # given a destroyed node whose restart is ahead, and nothing that changes
    gone = destroyed()
    life = Life(replace(gone, retry=replace(gone.retry, restart_at=at(7))), next_attempt=2)
    before = [told(life.plan(seconds)) for seconds in (0, 6.9)]

    # when its moment has come, it is restarted
    assert (before, told(life.plan(7))) == ([[], []], [("Restart", G0)])


def test_a_node_in_its_backoff_is_decided_anew_when_that_is_over() -> None:
    refused = answered(creating(), failed("sold out"))
    life = Life(
        replace(refused, retry=replace(refused.retry, next_effect_at=at(7))), next_attempt=2
    )

    plans = [told(life.plan(seconds)) for seconds in (0, 6.9, 7)]

    assert plans == [[], [], [("CreateLease", G0)]]


def test_deadlines_that_are_tied_never_compare_nodes_or_decisions() -> None:
    # given names that cannot be compared, and nodes that all wait for the same moment
    class Unordered(str):
        __slots__ = ()

        def __lt__(self, other: str) -> bool:
            raise AssertionError("two names were compared")

        __gt__ = __le__ = __ge__ = __lt__

    life = Life(next_attempt=50)
    waiting = replace(creating(), cancel_deadline=at(60))
    nodes = {LogicalNodeId(Unordered(name)): waiting for name in "abcdefgh"}
    life.nodes = nodes
    life.desired = ExpandedShape(life.desired.shape, dict.fromkeys(nodes, SPEC))

    # when all are put into the heaps, at their moment again, and cleared out one by one
    plans = [life.incremental.reconcile(life.state, life.desired, at(s)) for s in (0, 60, 61)]
    for name in nodes:
        life.nodes[name] = ready()
        life.incremental.touch(name)
        plans.append(life.incremental.reconcile(life.state, life.desired, at(61)))

    # then nothing of them is ever compared
    moments = [plan.requeue_at for plan in plans]
    assert moments == [at(120)] * 10 + [None]


# -- actions that were planned --------------------------------------------------------------------


def test_an_action_that_nobody_has_applied_is_planned_again() -> None:
    # given a node to be deleted, one to be created and an empty slot, and a plan that is discarded
    life = Life(*many(new(), 2), count=3, next_attempt=3)
    life.desired = ExpandedShape(
        life.desired.shape, {n: s for n, s in life.desired.nodes.items() if n != "g-1"}
    )
    first = life.plan()

    # then the next pass plans all of it again
    assert told(first) == [("CreateLease", G0), ("BeginDelete", "g-1"), ("Insert", "g-2")]
    assert life.plan(1) == first


def test_attempts_are_numbered_when_the_plan_is_built_and_not_when_a_node_is_decided() -> None:
    # given an empty slot and one to be restarted, decided while the allocator stood at 5
    life = Life(named(destroyed(), 1), count=2, next_attempt=5)
    first = life.plan()

    # when somebody else has taken the ids before anything was applied
    life.next_attempt = 90
    second = life.plan()

    # then each plan hands out what was next by then, in order of the slots
    numbers = [
        (action.attempt if isinstance(action, Insert) else action.new_attempt, action.node)
        for action in (*first.actions, *second.actions)
        if isinstance(action, Insert | Restart)
    ]
    assert numbers == [(5, "g-0"), (6, "g-1"), (90, "g-0"), (91, "g-1")]


# -- shapes ---------------------------------------------------------------------------------------


def test_a_new_generation_with_the_same_specs_has_nobody_decided_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a hundred nodes that wait, each with a decision that is kept
    life = Life(*many(creating(), 100), next_attempt=101)
    life.plan()

    # when the shape is written out afresh and one slot is added to it
    life.desired = life.wanted(2, 101, life.desired)
    with decisions(monkeypatch) as decided:
        plan = life.incremental.reconcile(life.state, life.desired, at(1))

    # then only that slot is new to it
    assert (told(plan), plan.observed_generation) == ([("Insert", "g-100")], 2)
    assert decided == []


def test_another_spec_for_the_same_slot_is_noticed_without_a_touch() -> None:
    life = Life(*many(creating(), 2), next_attempt=3)
    life.plan()

    wanted = shape(group(count=2, command="another"), generation=2)
    life.desired = expand_shape(wanted, life.desired)

    assert told(life.plan()) == [("BeginDelete", "g-0"), ("BeginDelete", "g-1")]


def test_a_slot_that_nobody_wants_any_more_is_noticed_without_a_touch() -> None:
    life = Life(*many(creating(), 2), next_attempt=3)
    life.plan()

    life.desired = life.wanted(2, 1, life.desired)

    assert life.plan().actions == (BeginDelete(LogicalNodeId("g-1"), NodeAttemptId(2)),)


def test_another_map_of_nodes_is_another_cluster() -> None:
    # given what is kept of one cluster, in which g-0 waits
    life = Life(creating(), next_attempt=2)
    life.plan()

    # when the map is another one, in which it does not, and nobody says so
    life.nodes = {G0: new()}

    assert told(life.plan()) == [("CreateLease", G0)]


# -- places ---------------------------------------------------------------------------------------


def held_back(in_flight: int = 1) -> Life:
    """Three nodes to be created, of which one has got its place, and is out."""
    life = Life(*many(new(), 3), in_flight=in_flight, next_attempt=4)
    plan = life.plan()
    assert told(plan) == [("CreateLease", G0)]
    assert plan.held_back == ("g-1", "g-2")
    life.dispatch(plan)
    assert life.plan().actions == ()
    return life


def test_a_node_held_back_is_looked_at_again_when_a_place_is_free() -> None:
    life = held_back()

    # when the one that is out is gone without an answer of its own
    life.put(fold(life.nodes[G0], NodeLost("gone")))
    still_out = life.plan()
    over = life.nodes[G0]
    life.put(replace(over, pending=None))

    # then its place goes to the next in turn, and to nobody before
    assert told(still_out) == [("BeginDelete", G0)]
    assert told(life.plan()) == [("BeginDelete", G0), ("CreateLease", "g-1")]
    assert life.plan().held_back == ("g-2",)


def test_nodes_held_back_are_looked_at_again_when_the_limit_is_raised_or_lowered() -> None:
    life = held_back()
    plans = []
    for generation, limit in enumerate((3, 2, 1), start=2):
        life.in_flight = limit
        life.desired = life.wanted(generation, 3, life.desired)
        plans.append(told(life.plan()))

    assert plans == [[("CreateLease", "g-1"), ("CreateLease", "g-2")], [("CreateLease", "g-1")], []]


def test_a_cancel_held_back_gives_way_to_a_destroy_at_its_deadline() -> None:
    # given a cancel that is out, and another one that waits for its place and has failed before
    first = replace(deleting(bootstrapping()), cancel_deadline=at(900))
    second = replace(first, cancel_deadline=at(60), cancel_failures=1, next_operation_sequence=9)
    life = Life(named(first, 0), named(second, 1), count=0, in_flight=1, next_attempt=3)
    life.dispatch(life.plan())
    before = life.plan(59)

    # when its deadline has passed while it waits, and the place is free
    life.plan(60)
    node = life.nodes[G0]
    life.put(replace(node, pending=None, retry=replace(node.retry, next_effect_at=at(800))))
    after = life.plan(60)

    # then the lease goes, and no cancel is tried before
    assert (told(before), before.held_back) == ([], ("g-1",))
    assert [type(a.effect.command) for a in after.actions if isinstance(a, Dispatch)] == [
        DestroyLease
    ]
    assert after.actions[0].node == "g-1"


def test_releasing_takes_no_place_of_those_who_acquire() -> None:
    life = Life(
        named(new(), 0), named(deleting(bootstrapping()), 1), count=1, in_flight=1, next_attempt=3
    )
    assert [type(a.effect.command) for a in life.plan().actions if isinstance(a, Dispatch)] == [
        CreateLease,
        CancelBootstrap,
    ]


# -- what it costs --------------------------------------------------------------------------------


def test_one_event_among_a_thousand_nodes_has_one_node_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a thousand nodes, of which half are ready and the others wait
    life = Life(*many(ready(), 500), *many(creating(), 1_000)[500:], next_attempt=1_001)
    life.plan(1)

    # when one is lost, is to be deleted, and is
    lost = fold(life.nodes[G0], NodeLost("gone"), at(2))
    with decisions(monkeypatch) as decided:
        life.put(lost)
        first = life.incremental.reconcile(life.state, life.desired, at(2))
        life.put(deleting(lost, at(2)))
        second = life.incremental.reconcile(life.state, life.desired, at(2))
        third = life.incremental.reconcile(life.state, life.desired, at(2))

    # then each pass decides about that one, and about no other
    assert (told(first), told(second)) == ([("BeginDelete", G0)], [("DestroyLease", G0)])
    assert told(third) == told(second)
    assert decided == [G0, G0, G0]


def test_what_is_overdue_among_a_thousand_nodes_has_nobody_else_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a thousand creates that are out, of which one is due before the others
    life = Life(*many(creating(), 1_000), next_attempt=1_001)
    pending = life.nodes[G0].pending
    assert pending is not None
    life.put(replace(life.nodes[G0], pending=replace(pending, deadline=at(60))))
    life.plan()

    # when it is asked for just before, and at its moment
    with decisions(monkeypatch) as decided:
        found = [life.incremental.overdue(life.state, at(seconds)) for seconds in (59.9, 60)]
        life.incremental.reconcile(life.state, life.desired, at(60))

    assert (found, decided) == ([[], [G0]], [G0])


def test_what_is_believed_no_more_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # given ten nodes that wait, and one of them that is repaired ten thousand times, each time with
    # a moment that lies farther ahead
    life = Life(*many(creating(), 10), next_attempt=11)
    cleared: list[int] = []
    monkeypatch.setattr(heapq, "heapify", lambda entries: cleared.append(len(entries)))
    longest = 0
    for second in range(10_000):
        repaired = creating()
        assert repaired.pending is not None
        deadline = at(60_000 + second)
        life.put(replace(repaired, pending=replace(repaired.pending, deadline=deadline)))
        life.incremental.reconcile(life.state, life.desired, at(second / 100))
        longest = max(longest, len(life.incremental._alarms._entries))

    # then the heap holds twice what is kept, and a few; it is cleared out when it has come to that,
    # and not before, and whoever waited still does
    most = 2 * 10 + incremental.STALE_MIN
    assert longest == most
    assert cleared == [9] * (10_000 // (most - 9))
    assert life.plan(100).requeue_at == at(120)


def test_a_queue_for_places_does_not_pile_up_either() -> None:
    # given that one place is taken, and another node waits for it that is touched again and again
    life = Life(*many(new(), 2), in_flight=1, next_attempt=3)
    life.dispatch(life.plan())
    waiting = life.nodes[LogicalNodeId("g-1")]
    for count in range(1_000):
        life.put(replace(waiting, retry=replace(waiting.retry, consecutive_failures=count)))
        assert life.incremental.reconcile(life.state, life.desired, at(1)).actions == ()

    queues = life.incremental._queues.values()
    assert max(len(queue._entries) for queue in queues) <= 2 * 2 + incremental.STALE_MIN
    assert life.plan(1).held_back == ("g-1",)

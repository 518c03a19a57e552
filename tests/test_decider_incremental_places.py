"""The incremental reconciler where limits hold nodes back, and what its passes cost.

A node that waits for a place is looked at again when it may have one, or may want another; and no
pass looks at more nodes than it must.
"""

import heapq

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    Dispatch,
    incremental,
)
from cluster_reconciler.messages import (
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LogicalNodeId,
    NodeLost,
)
from tests.decider_words import (
    G0,
    at,
    bootstrapping,
    creating,
    deleting,
    fold,
    new,
    ready,
)
from tests.incremental_life import Life, decisions, many, named, told

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


def test_who_does_not_ask_any_more_waits_no_more() -> None:
    life = held_back()

    life.put(fold(life.nodes[LogicalNodeId("g-1")], NodeLost("gone")))

    plan = life.plan()
    assert (told(plan), plan.held_back) == ([("BeginDelete", "g-1")], ("g-2",))


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
    # given a thousand nodes, of which half are ready and the others wait, for a moment far ahead
    waiting = replace(creating(), cancel_deadline=at(9_000))
    life = Life(*many(ready(), 500), *many(waiting, 1_000)[500:], next_attempt=1_001)
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

"""The incremental reconciler, pitfall by pitfall: in what a cache of decisions is easily wrong.

Each test puts a few nodes in a state that it names, asks for a plan, lets one thing change and asks
again.  That all of it together is the full plan, `test_decider_incremental` shows.
"""

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    BeginDelete,
    ExpandedShape,
    Insert,
    Restart,
    expand_shape,
    expire,
    is_converged,
)
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
)
from tests.decider_words import (
    G0,
    POLICY,
    SPEC,
    answered,
    at,
    creating,
    destroyed,
    failed,
    group,
    new,
    ready,
    shape,
)
from tests.incremental_life import Life, decisions, many, named, told

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


def test_nothing_of_another_cluster_is_left_when_the_map_is_another_one() -> None:
    # given two creates that are out, which hold both places and have a deadline
    life = Life(*many(creating(), 2), in_flight=2, next_attempt=3)
    life.plan()

    # when the map is one in which there are two others, that are still to be created
    life.nodes = {node.record.logical_node_id: node for node in many(new(), 4)[2:]}
    life.desired = life.wanted(2, 4, life.desired)

    # then they have the places, nobody waits for a deadline, and the slots of before are empty
    plan = life.plan()
    assert told(plan) == [
        ("Insert", "g-0"),
        ("Insert", "g-1"),
        ("CreateLease", "g-2"),
        ("CreateLease", "g-3"),
    ]
    assert (plan.requeue_at, plan.held_back) == (None, ())


# -- converged, and overdue -----------------------------------------------------------------------


def test_converged_is_when_every_node_is_steady_and_there_is_no_other() -> None:
    # given two nodes that are ready
    life = Life(*many(ready(), 2), next_attempt=3)
    answers = []

    def ask() -> None:
        answers.append(life.incremental.is_converged(life.state, life.desired))
        assert answers[-1] == is_converged(life.state, life.desired)

    # when it is asked before any pass, after one, and of each thing that can be wrong
    ask()
    life.plan()
    ask()
    life.put(named(creating(), 1))
    ask()
    life.plan()
    ask()
    life.put(named(ready(), 1), named(ready(), 2))
    ask()
    life.plan()
    ask()
    for name in ("g-2", "g-1"):
        del life.nodes[LogicalNodeId(name)]
        life.incremental.touch(LogicalNodeId(name))
        life.plan()
        ask()
    life.nodes[LogicalNodeId("g-2")] = named(ready(), 2)
    life.incremental.touch(LogicalNodeId("g-2"))
    life.plan()
    ask()
    life.nodes = {node.record.logical_node_id: node for node in many(ready(), 2)}
    life.plan()  # After which nothing is open, and nothing kept.
    ask()
    for other in (creating(), ready()):
        life.nodes = {node.record.logical_node_id: node for node in many(other, 2)}
        ask()

    # then it is so only where all are there, and ready
    assert answers == [
        True,
        True,
        False,
        False,
        False,
        False,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_what_is_overdue_is_told_in_order_and_of_no_node_that_is_gone() -> None:
    life = Life(*reversed(many(creating(), 12)), next_attempt=13)
    life.plan()
    assert life.incremental.overdue(life.state, at(119.9)) == []

    gone = LogicalNodeId("g-3")
    del life.nodes[gone]
    life.incremental.touch(gone)

    assert life.incremental.overdue(life.state, at(120)) == sorted(life.nodes)

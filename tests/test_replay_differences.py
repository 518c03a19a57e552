"""Every way in which a run and its replay can part has its words, with both values where there are
two; and what is equal is no difference."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.replay_differences import (
    Difference,
    Unlike,
    unlike_calls,
    unlike_effects,
    unlike_plan,
    unlike_raised,
    unlike_state,
)
from cluster_reconciler.actors.trace import (
    ExecutorCall,
    OpaqueMessage,
    SubmitAnswer,
    TraceLine,
)
from cluster_reconciler.actors.trace_marks import (
    NAMED_MAX,
    PlanMark,
    effect_mark,
    plan_mark,
    state_digest,
    state_marks,
)
from cluster_reconciler.decider import ClusterState, Dispatch, ReconcilePlan
from cluster_reconciler.messages import (
    CreateLease,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
    Trigger,
)
from tests.decider_words import ready

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NODE, OTHER = LogicalNodeId("n-0"), LogicalNodeId("n-1")
ONE, TWO = OperationId(NodeAttemptId(1), 1), OperationId(NodeAttemptId(1), 2)
STATE = ClusterState(1, NodeAttemptId(9), {NODE: ready()})
CREATE = CreateLease(ready().record.desired)
EFFECT = PlannedEffect(NODE, ONE, CREATE)


def line_of(state: ClusterState, *touched: LogicalNodeId) -> TraceLine:
    """What a run wrote whose state was that."""
    found, marks = state_marks(state, touched)
    return TraceLine(1, NOW, "driver", Trigger(), (), found, marks)


def with_node(state: ClusterState, **changes: object) -> ClusterState:
    return replace(state, nodes={NODE: replace(state.nodes[NODE], **changes)})


def test_what_is_equal_is_no_difference() -> None:
    plan = plan_mark(ReconcilePlan((Dispatch(EFFECT),), 1, NOW), [], NOW, [OTHER])
    same = plan_mark(
        ReconcilePlan((Dispatch(EFFECT),), 1, NOW), [effect_mark(EFFECT)], NOW, {OTHER}
    )
    answers = [SubmitAnswer(ONE, effect=effect_mark(EFFECT).sum)]
    assert [
        unlike_raised(None, None),
        unlike_raised("KeyError: 'a'", "KeyError: 'b'"),
        unlike_calls([(ExecutorCall.SUBMIT, ONE)], answers),
        unlike_effects([EFFECT], answers),
        unlike_effects([EFFECT], [SubmitAnswer(ONE)]),
        unlike_state(line_of(STATE, NODE), STATE, [NODE]),
        unlike_plan(plan, same),
        unlike_plan(None, plan),
    ] == [None] * 8


@pytest.mark.parametrize(
    ("run", "replayed", "expected"),
    [
        (
            STATE,
            with_node(STATE, attempt=NodeAttemptId(4)),
            ("attempt", "1", "4", "n-0: attempt: the run had 1, the replay has 4"),
        ),
        (
            STATE,
            replace(STATE, nodes={}),
            ("presence", "there", "gone", "n-0 is there in the run and gone in the replay"),
        ),
        (
            replace(STATE, nodes={}),
            STATE,
            ("presence", "gone", "there", "n-0 is gone in the run and there in the replay"),
        ),
        (
            STATE,
            with_node(STATE, cancel_failures=3),
            (
                "other",
                "",
                "",
                (
                    "n-0 differs in what the trace keeps only a checksum of: its spec, "
                    "connection, swarm member, reasons, or counters"
                ),
            ),
        ),
    ],
)
def test_a_node_that_differs_is_told_with_its_field(
    run: ClusterState, replayed: ClusterState, expected: tuple[str, str, str, str]
) -> None:
    unlike = unlike_state(line_of(run, NODE), replayed, [NODE])
    assert unlike is not None
    *_, words = unlike.reason.partition("the replay changed n-0; ")
    assert (unlike.node, unlike.field, unlike.expected, unlike.found, words) == (NODE, *expected)


def test_a_node_that_only_one_of_the_two_changed_is_told() -> None:
    only_run = unlike_state(line_of(STATE, NODE), STATE, [])
    only_replay = unlike_state(line_of(STATE), STATE, [NODE])
    assert only_run is not None
    assert only_replay is not None
    assert [
        (one.node, one.field, one.expected, one.found) for one in (only_run, only_replay)
    ] == [
        (NODE, "changed", "changed", "not changed"),
        (NODE, "changed", "not changed", "changed"),
    ]  # fmt: skip
    assert only_run.reason.endswith("no node; the run changed n-0, the replay did not")


def test_another_allocator_is_told() -> None:
    unlike = unlike_state(line_of(STATE), replace(STATE, next_attempt_id=NodeAttemptId(10)), [])
    assert unlike is not None
    assert (unlike.field, unlike.found) == ("next_attempt_id", "10")
    assert "the replay has 10 and 1" in unlike.reason


def test_a_message_that_could_not_be_written_is_told_as_such() -> None:
    line = replace(line_of(STATE, NODE), message=OpaqueMessage("Strange"))
    unlike = unlike_state(line, STATE, [])
    assert unlike is not None
    assert unlike.reason.endswith(
        "the message could not be written into the trace, it was a Strange"
    )


def test_many_nodes_are_not_all_named() -> None:
    names = [LogicalNodeId(f"n-{number}") for number in range(8)]
    unlike = unlike_state(replace(line_of(STATE), digest="0"), STATE, names)
    assert unlike is not None
    assert "the replay changed n-0, n-1, n-2, n-3, n-4 and 3 more; " in unlike.reason


def test_a_command_that_differs_is_told_by_its_effect() -> None:
    other = replace(EFFECT, command=replace(CREATE, adopt_only=True))
    unlike = unlike_effects([other], [SubmitAnswer(ONE, effect=effect_mark(EFFECT).sum)])
    assert unlike == Unlike(
        "the effect op(1,1) of n-0, a create_lease, is not the one that the run submitted under "
        "that name",
        NODE,
        "effects",
        "",
        "op(1,1) create_lease",
    )


def test_of_more_nodes_that_are_held_back_than_can_be_named_the_number_is_kept() -> None:
    plan = ReconcilePlan((), 1)
    names = [LogicalNodeId(f"n-{number}") for number in range(NAMED_MAX + 1)]

    few = [plan_mark(plan, [], None, some) for some in (names[1:], set(names[1:]), names[:-1])]
    many = [plan_mark(plan, [], None, some) for some in (names, {*names[1:], LogicalNodeId("m")})]

    assert few[0] == few[1] != few[2]
    assert many == [PlanMark(0, observed_generation=1, held_back=NAMED_MAX + 1)] * 2


def test_a_plan_of_other_actions_or_without_any_is_told() -> None:
    plan = ReconcilePlan((Dispatch(EFFECT),), 1)
    other = ReconcilePlan((Dispatch(replace(EFFECT, operation=TWO)),), 1)
    marks = [plan_mark(one, [], None, ()) for one in (plan, other)]
    differs, missing = unlike_plan(*marks), unlike_plan(marks[0], None)
    assert differs is not None
    assert (differs.field, differs.reason) == (
        "plan.actions", "plan.actions: as many of each kind as in the run, but not the same",
    )  # fmt: skip
    assert missing is not None
    assert missing.reason == "the run had a plan, the replay has none"
    held = unlike_plan(PlanMark(0, held_back=1, held_back_sum=1), PlanMark(0, held_back=1))
    assert held is not None
    assert held.field == "plan.held_back"


def test_a_difference_says_where_it_stands() -> None:
    at = Unlike("it differs", NODE, "attempt", "1", "2").at(5, 7)
    assert at == Difference(5, 7, "it differs", NODE, "attempt", "1", "2")
    assert str(at) == "line 5 (message 7): it differs"


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_both_ways_to_take_a_digest_agree_and_see_every_field(count: int) -> None:
    # Given states of so many nodes that changed
    nodes = {LogicalNodeId(f"n-{number:02}"): ready() for number in range(count)}
    state = ClusterState(3, NodeAttemptId(9), nodes)
    found, marks = state_marks(state, set(nodes))
    assert (found, list(marks)) == (state_digest(state, set(nodes)), sorted(nodes))

    # Then another value of any field of any node, or of the allocator, is another digest
    seen = {found}
    for node_id, node in nodes.items():
        for name, value in {
            "attempt": NodeAttemptId(77),
            "ready_at": NOW,
            "started_at": NOW + timedelta(microseconds=1),
            "failures_before_ready": 9,
            "record": replace(node.record, failed_reason="it"),
            "retry": replace(node.retry, last_error="it"),
        }.items():
            changed = {**nodes, node_id: replace(node, **{name: value})}
            seen.add(state_digest(replace(state, nodes=changed), set(nodes)))
    seen |= {
        state_digest(replace(state, next_attempt_id=NodeAttemptId(8)), set(nodes)),
        state_digest(replace(state, observed_generation=2), set(nodes)),
    }
    assert len(seen) == 1 + 6 * count + 2

"""Applying actions: what is stale is refused, what is applied changes what it must (§6; L5, L9)."""

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ATTEMPT_ID_MAX,
    BeginDelete,
    Dispatch,
    Insert,
    ManagedNode,
    MarkDestroyed,
    NodeAction,
    PendingOperation,
    Reap,
    Restart,
    RetryState,
    reconcile_node,
)
from cluster_reconciler.decider.transitions import apply, fresh_node, refusal
from cluster_reconciler.messages import (
    CreateLease,
    NodeAttemptId,
    NodeIntent,
    NodeLost,
    NodeStage,
    OperationId,
    OperationKind,
    PlannedEffect,
)
from tests.decider_words import (
    AMBIGUOUS,
    G0,
    ONE,
    OTHER_SPEC,
    POLICY,
    SPEC,
    T0,
    answered,
    at,
    bootstrapping,
    cleaned_up,
    creating,
    deleting,
    destroyed,
    dispatched,
    failed,
    fold,
    leased,
    new,
    reachable,
    ready,
    starting,
    state_of,
    with_failures,
)

TWO = NodeAttemptId(2)


def dispatch(attempt: NodeAttemptId = ONE, sequence: int = 1) -> Dispatch:
    return Dispatch(PlannedEffect(G0, OperationId(attempt, sequence), CreateLease(SPEC)))


def applied(node: ManagedNode | None, action: NodeAction, now: float = 0) -> ManagedNode:
    after = apply(node, action, at(now), POLICY)
    assert after is not None
    return after


# -- refusals (L9) --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        BeginDelete(G0, ONE),
        MarkDestroyed(G0, ONE),
        Restart(G0, ONE, NodeAttemptId(100), SPEC),
        Reap(G0, ONE),
        dispatch(),
    ],
    ids=lambda action: type(action).__name__,
)
def test_l9_an_action_for_an_attempt_that_is_gone_is_refused(action: NodeAction) -> None:
    in_its_place = state_of(new(attempt=2))

    assert refusal(in_its_place, action) == "g-0 is at attempt 2, the plan meant attempt 1"
    assert refusal(state_of(), action) == "g-0 is not there any more"


@pytest.mark.parametrize(
    ("node", "action", "reason"),
    [
        (new(), Insert(NodeAttemptId(100), SPEC), "g-0 has attempt 1 already"),
        (deleting(ready()), BeginDelete(G0, ONE), "g-0 is deleting"),
        (destroyed(), BeginDelete(G0, ONE), "g-0 is deleting"),
        (ready(), MarkDestroyed(G0, ONE), "g-0 is not cleaned up, or was marked before"),
        (deleting(leased()), MarkDestroyed(G0, ONE), "g-0 is not cleaned up, or was marked before"),
        (new(), MarkDestroyed(G0, ONE), "g-0 is not cleaned up, or was marked before"),
        (
            deleting(creating()),
            MarkDestroyed(G0, ONE),
            "g-0 is not cleaned up, or was marked before",
        ),
        (
            answered(deleting(creating()), AMBIGUOUS),
            MarkDestroyed(G0, ONE),
            "g-0 is not cleaned up, or was marked before",
        ),
        (destroyed(), MarkDestroyed(G0, ONE), "g-0 is not cleaned up, or was marked before"),
        (
            cleaned_up(),
            Restart(G0, ONE, NodeAttemptId(100), SPEC),
            "g-0 is at stage bootstrap_running, not destroyed",
        ),
        (
            destroyed(),
            Restart(G0, ONE, NodeAttemptId(99), SPEC),
            "the allocator is at 100, the plan meant 99",
        ),
        (cleaned_up(), Reap(G0, ONE), "g-0 is at stage bootstrap_running"),
        (destroyed(), dispatch(), "g-0 is destroyed"),
        (creating(), dispatch(sequence=2), "g-0 waits for op(1,1)"),
        (new(), dispatch(sequence=2), "g-0 is at sequence 1, the plan meant 2"),
        (leased(), dispatch(sequence=1), "g-0 is at sequence 2, the plan meant 1"),
    ],
)
def test_an_action_that_does_not_fit_the_node_any_more_is_refused(
    node: ManagedNode, action: NodeAction, reason: str
) -> None:
    assert refusal(state_of(node), action) == reason


def test_an_insert_is_refused_unless_the_allocator_agrees() -> None:
    state = state_of(next_attempt=5)

    assert refusal(state, Insert(NodeAttemptId(5), SPEC)) is None
    assert refusal(state, Insert(NodeAttemptId(4), SPEC)) == (
        "the allocator is at 5, the plan meant 4"
    )
    assert refusal(state, Insert(NodeAttemptId(6), SPEC)) == (
        "the allocator is at 5, the plan meant 6"
    )


def test_rule_6_the_allocators_last_id_is_never_handed_out() -> None:
    last = replace(state_of(), next_attempt_id=ATTEMPT_ID_MAX)

    assert refusal(last, Insert(ATTEMPT_ID_MAX, SPEC)) == (
        f"the attempt allocator is exhausted at {ATTEMPT_ID_MAX}"
    )


@pytest.mark.parametrize(
    ("node", "action"),
    [
        (ready(), BeginDelete(G0, ONE)),
        (creating(), BeginDelete(G0, ONE)),
        (cleaned_up(), MarkDestroyed(G0, ONE)),
        (destroyed(), Restart(G0, ONE, NodeAttemptId(100), SPEC)),
        (destroyed(), Reap(G0, ONE)),
        (new(), dispatch()),
    ],
)
def test_an_action_that_fits_is_not_refused(node: ManagedNode, action: NodeAction) -> None:
    assert refusal(state_of(node), action) is None


# -- what each changes ----------------------------------------------------------------------------


def test_an_insert_is_a_fresh_attempt() -> None:
    node = applied(None, Insert(TWO, SPEC))

    assert node == fresh_node(TWO, SPEC, T0)
    assert (node.record.stage, node.intent, node.next_operation_sequence) == (
        NodeStage.NEW,
        NodeIntent.ACTIVE,
        1,
    )


def test_l5_a_dispatch_records_the_operation_before_anybody_submits_it() -> None:
    node = applied(new(), dispatch(), now=5)

    assert node.pending == PendingOperation(
        OperationId(ONE, 1), OperationKind.CREATE_LEASE, at(125)
    )
    assert (node.next_operation_sequence, node.record.stage) == (2, NodeStage.LEASE_REQUESTED)


def test_a_look_while_deleting_is_marked_and_changes_no_stage() -> None:
    node = answered(deleting(creating()), AMBIGUOUS)

    looking = dispatched(node, at(1), None)

    assert looking.pending is not None
    assert looking.pending.adopt_only
    assert looking.record == node.record
    assert dispatched(answered(deleting(starting()), AMBIGUOUS), at(1), None).progress is None


def test_begin_delete_keeps_every_fact_and_the_pending_operation() -> None:
    before = starting()

    node = applied(before, BeginDelete(G0, ONE), now=3)

    assert node == replace(
        before,
        intent=NodeIntent.DELETING,
        progress=None,
        deleting_since=at(3),
        cancel_deadline=at(63),
    )
    assert not applied(ready(), BeginDelete(G0, ONE)).record.ready


def test_rule_19_begin_delete_forgets_an_old_backoff() -> None:
    waiting = answered(creating(), failed())
    assert waiting.retry.next_effect_at is not None

    node = applied(waiting, BeginDelete(G0, ONE))

    assert node.retry == replace(waiting.retry, next_effect_at=None)


def test_rule_19_unless_an_ambiguity_is_unresolved() -> None:
    unsure = answered(creating(), AMBIGUOUS)

    assert applied(unsure, BeginDelete(G0, ONE)).retry == unsure.retry


def test_mark_destroyed_is_the_end_of_the_attempt() -> None:
    before = cleaned_up()

    node = applied(before, MarkDestroyed(G0, ONE), now=9)

    assert node.record == replace(before.record, stage=NodeStage.DESTROYED, destroyed_at=at(9))


def test_a_restart_keeps_the_count_and_its_error_alone() -> None:
    lost = with_failures(fold(reachable(), NodeLost("gone")), 4)
    before = destroyed(replace(cleaned_up(), retry=lost.retry, record=lost.record))

    node = applied(before, Restart(G0, ONE, TWO, OTHER_SPEC), now=9)

    error = "the node is lost: gone"
    assert node == replace(
        fresh_node(TWO, OTHER_SPEC, at(9)),
        retry=RetryState(4, last_error=error, last_error_attempt=ONE),
    )


def test_a_reap_leaves_nothing() -> None:
    assert apply(destroyed(), Reap(G0, ONE), T0, POLICY) is None


def test_l19_a_delete_cancels_then_destroys_then_is_marked_then_goes() -> None:
    node = deleting(bootstrapping())

    first = reconcile_node(node, None, T0).action

    assert type(first).__name__ == "Dispatch"
    assert refusal(state_of(node), MarkDestroyed(G0, ONE)) is not None
    assert refusal(state_of(node), Reap(G0, ONE)) is not None

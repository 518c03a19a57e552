"""Found by the review against the specification: what falls due together, who gives way when."""

from datetime import timedelta

from msgspec.structs import replace

from cluster_reconciler.actors.stepping_words import (
    G0,
    JOINED,
    LEASED,
    NO_JITTER,
    T0,
    answer,
    at,
    bootstrapping,
    cluster,
    group,
    node,
    refuse,
    seen,
    shape,
)
from cluster_reconciler.decider import BeginDelete, ManagedNode, reconcile_node
from cluster_reconciler.decider.transitions import fresh_node
from cluster_reconciler.messages import (
    DestroyLease,
    EffectError,
    ExecutorResult,
    NodeAttemptId,
    NodeIntent,
    NodeStage,
)


def test_a_failed_hand_over_at_the_join_deadline_fails_the_attempt_once() -> None:
    patient = replace(
        NO_JITTER,
        join_timeout=timedelta(seconds=120),
        operation_timeout=timedelta(seconds=300),
    )
    c = cluster(retry=patient)
    bootstrapping(c)
    [hand_over] = seen(c, JOINED)
    c.advance(119.9)
    c.fail(hand_over, "refused")
    c.advance(0.1)
    retry = node(c).retry
    assert (retry.consecutive_failures, retry.restart_at) == (1, at(121))


def test_a_cancel_gives_way_at_its_deadline_whatever_the_provider_asked_for() -> None:
    c = cluster()
    bootstrapping(c)
    c.update_desired(shape(group(count=0), generation=2))
    [cancel] = c.drive()
    busy = EffectError("busy", retry_after=timedelta(hours=1))
    c.tell(ExecutorResult(cancel.node, cancel.operation, error=busy))
    c.drive()
    assert c.advance(59.9) == []
    [destroy] = c.advance(0.1)
    assert (c.now, type(destroy.command)) == (at(60), DestroyLease)


def test_cancels_that_keep_failing_give_way_after_a_minute() -> None:
    c = cluster()
    bootstrapping(c)
    c.update_desired(shape(group(count=0), generation=2))
    effects = c.drive()
    while not isinstance(effects[0].command, DestroyLease):
        [cancel] = effects
        refuse(c, cancel, "no answer")
        effects = c.advance(60)
        assert c.now <= at(600)
    assert c.state.nodes[G0].cancel_failures >= 1


def test_a_stage_of_failed_alone_is_enough_to_begin_the_delete() -> None:
    spec = shape().expand()[G0]
    fresh = fresh_node(NodeAttemptId(1), spec, T0)
    failed = replace(fresh, record=replace(fresh.record, stage=NodeStage.FAILED))
    assert reconcile_node(failed, spec, T0).action == BeginDelete(G0, NodeAttemptId(1))


def test_a_deleting_node_is_never_steady() -> None:
    c = cluster()
    [create] = c.drive()
    answer(c, create, LEASED)
    n: ManagedNode = replace(node(c), intent=NodeIntent.DELETING, pending=None)
    odd = replace(n, record=replace(n.record, ready=True))
    decision = reconcile_node(odd, odd.record.desired, T0)
    assert decision.action is not None

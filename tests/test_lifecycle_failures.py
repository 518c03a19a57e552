"""Lifecycle cases L15-L28 (cases.md) on the real driver, stepped."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    G0,
    JOINED,
    LEASED,
    NO_JITTER,
    SESSION,
    Submitting,
    answer,
    at,
    bootstrapping,
    brief,
    cluster,
    group,
    lease,
    node,
    op,
    refuse,
    seen,
    shape,
)
from cluster_reconciler.decider import (
    RetryPolicy,
)
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DeadlineDue,
    DestroyLease,
    EndpointLookup,
    LeaseCreated,
    LeaseDestroyed,
    NodeIntent,
    NodeLost,
    NodeStage,
    PlannedEffect,
    StartBootstrap,
)

# -- failures -------------------------------------------------------------------------------------


def test_l15_a_refused_create_backs_off_and_keeps_its_attempt() -> None:
    c = cluster()
    [create] = c.drive()
    for sequence, wait in enumerate([1, 2, 4, 8, 16, 32, 60, 60, 60], start=1):
        assert create.operation == op(1, sequence)
        assert refuse(c, create, "sold out") == []
        assert c.advance(wait - 0.001) == []
        [create] = c.advance(0.001)
    assert create.operation == op(1, 10)
    assert node(c).intent is NodeIntent.ACTIVE


def test_l16_a_refused_start_ends_the_attempt_and_delays_only_the_restart() -> None:
    ten = RetryPolicy(
        initial_delay=timedelta(seconds=10), max_delay=timedelta(seconds=10), jitter=0.0
    )
    c = cluster(retry=ten, start=at(500))
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    [destroy] = refuse(c, start, "no shell")
    assert isinstance(destroy.command, DestroyLease)
    assert (node(c).record.failed_at, node(c).retry.restart_at) == (at(500), at(510))
    assert answer(c, destroy, LeaseDestroyed()) == []
    assert c.requeue_at == at(510)
    assert c.advance(9.999) == []
    assert brief(c.advance(0.001)) == [(op(2, 1), CreateLease)]


def test_l17_one_node_backs_off_the_other_acts() -> None:
    def only_node_1(effect: PlannedEffect) -> None:
        if effect.node == G0:
            raise RuntimeError("queue closed")

    c = SteppingCluster(
        shape(group(count=2)),
        retry=replace(NO_JITTER, initial_delay=timedelta(seconds=5)),
        start=at(400),
        executor=Submitting(only_node_1),
    )
    [create] = c.drive()
    assert (create.node, c.requeue_at) == ("g-1", at(405))
    [start] = answer(c, create, LEASED)
    assert (start.node, c.requeue_at) == ("g-1", at(405))


def deleting_with_session(c: SteppingCluster) -> PlannedEffect:
    bootstrapping(c)
    c.update_desired(shape(group(count=0), generation=2))
    [cancel] = c.drive()
    assert cancel.command == CancelBootstrap(SESSION)
    return cancel


def test_l18_a_refused_cancel_is_retried() -> None:
    c = cluster(retry=replace(NO_JITTER, initial_delay=timedelta(seconds=4)))
    cancel = deleting_with_session(c)
    assert refuse(c, cancel, "busy") == []
    assert (node(c).active_bootstrap, node(c).record.lease) == (SESSION, lease())
    assert c.advance(3.999) == []
    [again] = c.advance(0.001)
    assert again.command == cancel.command
    assert again.operation == op(1, cancel.operation.sequence + 1)


def test_l19_cancel_then_destroy_then_gone() -> None:
    c = cluster()
    cancel = deleting_with_session(c)
    c.trigger()
    assert c.drive() == []
    [destroy] = answer(c, cancel, BootstrapCancelled())
    assert destroy.command == DestroyLease(lease().handle)
    assert answer(c, destroy, LeaseDestroyed()) == []
    assert c.state.nodes == {}


def test_l20_not_yet_delays_no_cleanup() -> None:
    c = cluster()
    [create] = c.drive()
    [look] = answer(c, create, LeaseCreated(lease()))
    c.update_desired(shape(group(count=0), generation=2))
    assert c.drive() == []
    c.advance(5)
    [destroy] = answer(c, look, EndpointLookup(None))
    assert (c.now, type(destroy.command)) == (at(5), DestroyLease)


def test_l21_a_failed_attempt_refuses_late_news() -> None:
    c = cluster()
    bootstrapping(c)
    seen(c, BootstrapFailed(SESSION, "exit code 3"))
    before = node(c)
    assert seen(c, JOINED) == []
    assert seen(c, BootstrapClosed(SESSION)) == []
    assert node(c) == before
    assert (before.record.stage, before.record.swactor) == (NodeStage.FAILED, None)


@pytest.mark.parametrize("succeeds", [True, False])
def test_l22_a_result_of_an_old_attempt_is_stale(succeeds: bool) -> None:
    c = cluster()
    [create] = c.drive()
    assert seen(c, NodeLost("gone")) == []
    c.fail(create, "too late")
    c.drive()
    c.advance(60)
    assert node(c).pending is not None
    before = node(c)
    assert before.pending is not None
    assert before.pending.id == op(2, 1)
    if succeeds:
        c.succeed(create, LEASED)
    else:
        c.fail(create, "boom")
    assert c.drive() == []
    assert (node(c), c.queued) == (before, False)
    assert any("stale" in line for line in c.story("g-0"))


def test_l22_a_result_twice() -> None:
    c = cluster()
    [create] = c.drive()
    [_start] = answer(c, create, LEASED)
    before = node(c)
    c.succeed(create, LEASED)
    c.step()
    assert (node(c), c.queued) == (before, False)


def test_l23_an_outcome_of_the_wrong_kind_is_no_success() -> None:
    c = cluster()
    [create] = c.drive()
    before = node(c).record
    assert answer(c, create, BootstrapStarted(SESSION)) == []
    assert node(c).record == before
    assert node(c).retry.ambiguous_operation == op(1, 1)
    [again] = c.advance(1)
    [start] = answer(c, again, LEASED)
    answer(c, start, LeaseDestroyed())
    assert (node(c).active_bootstrap, node(c).retry.ambiguous_operation) == (None, start.operation)


def test_l24_a_deleting_node_never_becomes_ready() -> None:
    c = cluster()
    bootstrapping(c)
    seen(c, JOINED)
    c.update_desired(shape(group(count=0), generation=2))
    c.drive()
    assert node(c).intent is NodeIntent.DELETING
    seen(c, BootstrapClosed(SESSION))
    assert not node(c).record.ready


# -- ambiguity ------------------------------------------------------------------------------------


def test_l25_an_expired_create_is_ambiguous() -> None:
    c = cluster()
    [create] = c.drive()
    assert c.advance(119) == []
    assert node(c).pending is not None
    assert c.advance(1) == []
    n = node(c)
    assert (n.pending, n.retry.ambiguous_operation) == (None, create.operation)
    assert n.retry.next_effect_at == at(121)
    c.fail(create, "timed out", ambiguous=True)
    c.drive()
    assert node(c) == n


def test_l26_a_result_that_came_before_the_expiry_is_judged_wins() -> None:
    c = cluster()
    [create] = c.drive()
    c.advance(119)
    c.succeed(create, LEASED)
    [start] = c.advance(2)
    assert (c.now, type(start.command)) == (at(121), StartBootstrap)


def test_l26_a_result_that_stands_behind_the_deadline_in_the_mailbox_wins_too() -> None:
    # Given a deadline that is told just before it is due, and a result that comes after it
    c = cluster()
    [create] = c.drive()
    c.advance(119.9)
    c.tell(DeadlineDue())
    c.succeed(create, LEASED)

    # When both are handled at the deadline
    [start] = c.advance(0.1)

    # Then what was in the mailbox is folded first, and nothing has expired
    assert (c.now, type(start.command)) == (at(120), StartBootstrap)
    assert node(c).retry.ambiguous_operation is None


def test_l27_an_ambiguous_start_is_retried_in_its_attempt() -> None:
    c = cluster()
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    c.advance(120)
    n = node(c)
    assert (n.intent, n.record.stage) == (NodeIntent.ACTIVE, NodeStage.ENDPOINT_KNOWN)
    assert (n.retry.restart_at, n.retry.ambiguous_operation) == (None, start.operation)
    assert brief(c.advance(1)) == [(op(1, 3), StartBootstrap)]


def test_l28_deleting_with_an_ambiguous_start() -> None:
    c = cluster()
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    c.fail(start, "connection reset", ambiguous=True)
    c.drive()
    c.update_desired(shape(group(count=0), generation=2))
    c.drive()
    [look] = c.advance(1)
    assert isinstance(look.command, StartBootstrap)
    assert look.command.adopt_only
    [cancel] = answer(c, look, BootstrapStarted(SESSION))
    assert cancel.command == CancelBootstrap(SESSION)
    [destroy] = answer(c, cancel, BootstrapCancelled())
    assert isinstance(destroy.command, DestroyLease)
    answer(c, destroy, LeaseDestroyed())
    assert c.state.nodes == {}

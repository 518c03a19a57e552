"""Every wait has an end (design rules 3, 9, 12; L25, L26 at the fold)."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    END_OF_TIME,
    ManagedNode,
    NodeDecision,
    ProgressDeadline,
    ProgressWait,
    RetryPolicy,
    expire,
    observe,
    reconcile_node,
)
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapConvergenceAccepted,
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    NodeAttemptId,
    NodeLost,
    NodeStage,
    OperationKind,
    OperationOutcome,
    OperationSucceeded,
)
from tests.decider_words import (
    AMBIGUOUS,
    JOINED,
    LEASED,
    POLICY,
    SESSION,
    SPEC,
    answered,
    at,
    bootstrapping,
    cancelling,
    creating,
    deleting,
    destroying,
    dispatched,
    failed,
    fold,
    handing_over,
    joined,
    leased,
    looking_up,
    reachable,
    ready,
    starting,
)

NO_JOIN = "the node has not joined the swarm and been handed over for join_timeout (600 s)"
JOIN_OVER = f"{NO_JOIN}, its bootstrap is at created"
ENDPOINT_OVER = "the lease has had no endpoint for endpoint_timeout (600 s)"

BUSY = EffectError("busy", retry_after=timedelta(hours=1))
"""Longer than every other wait of the policy."""


def join_wait(seconds: float) -> ProgressDeadline:
    return ProgressDeadline(ProgressWait.JOIN, at(seconds))


# -- an operation's own deadline ------------------------------------------------------------------


def test_l25_a_create_expires_at_its_deadline_and_once() -> None:
    node = creating()
    assert expire(node, at(119.999), POLICY) is node

    expired = expire(node, at(120), POLICY)

    assert expired.pending is None
    assert expired.retry.ambiguous_operation == (node.pending and node.pending.id)
    assert expired.retry.next_effect_at == at(121)
    assert expired.retry.last_error == "create_lease had no answer within operation_timeout"
    assert expire(expired, at(120), POLICY) is expired


def test_l26_a_result_that_is_folded_before_its_expiry_is_judged_is_a_success() -> None:
    node = answered(creating(), LEASED, at(121))

    assert node.record.lease is not None
    assert expire(node, at(121), POLICY) is node


def test_a_late_result_of_an_expired_operation_is_refused() -> None:
    node = creating()
    assert node.pending is not None
    expired = expire(node, at(120), POLICY)

    assert observe(expired, OperationSucceeded(node.pending.id, LEASED), at(121), POLICY) is expired


def test_rule_25_what_was_withdrawn_before_it_began_leaves_no_ambiguity() -> None:
    node = expire(starting(), at(120), POLICY, not_run=True)

    assert node.retry.ambiguous_operation is None
    assert node.record.failed_at is None
    assert node.retry.last_error is not None
    assert "was withdrawn: an earlier call" in node.retry.last_error


def test_other_operations_expire_as_ordinary_failures() -> None:
    node = expire(destroying(), at(120), POLICY)

    assert (node.retry.ambiguous_operation, node.retry.next_effect_at) == (None, at(121))


# -- the endpoint ---------------------------------------------------------------------------------


def looking_since_start(now: float) -> ManagedNode:
    return dispatched(leased(), at(now))


@pytest.mark.parametrize(
    "answer",
    [EndpointLookup(), LeaseAbsent(conclusive=False), failed("busy"), AMBIGUOUS],
    ids=lambda answer: type(answer).__name__,
)
def test_rule_12_the_endpoint_deadline_is_judged_when_a_look_up_is_answered(
    answer: OperationOutcome | EffectError,
) -> None:
    before = answered(looking_since_start(590), answer, at(599.999))
    assert before.record.failed_at is None

    node = answered(looking_since_start(590), answer, at(600))

    assert node.record.failed_at == at(600)
    assert node.record.failed_reason is not None
    assert node.record.failed_reason.startswith(ENDPOINT_OVER)
    assert node.retry.consecutive_failures == 1


def test_rule_12_the_reason_tells_the_last_error_too() -> None:
    node = answered(looking_since_start(590), failed("busy"), at(600))

    assert node.record.failed_reason == f"{ENDPOINT_OVER}; last error: busy"


def test_rule_12_an_expired_look_up_is_judged_as_well() -> None:
    node = expire(looking_since_start(590), at(710), POLICY)

    assert node.record.stage is NodeStage.FAILED


def test_rule_12_a_node_that_waits_for_its_turn_does_not_fail_for_it() -> None:
    # given a leased node that no limit has let through for longer than its deadline
    node = leased()

    assert expire(node, at(10_000), POLICY) is node
    assert reconcile_node(node, SPEC, at(10_000)).requeue_at is None


def test_an_endpoint_that_is_found_late_is_found_all_the_same() -> None:
    node = answered(
        looking_since_start(650), EndpointLookup(reachable().record.connection), at(660)
    )

    assert node.record.stage is NodeStage.ENDPOINT_KNOWN


# -- the join -------------------------------------------------------------------------------------


def test_rule_12_the_join_wait_begins_with_the_first_start_and_no_retry_renews_it() -> None:
    node = dispatched(reachable(), at(10))
    assert node.progress == join_wait(610)

    again = dispatched(answered(node, AMBIGUOUS, at(20)), at(30))

    assert again.progress == join_wait(610)


def test_rule_12_the_join_wait_begins_anew_with_the_start_that_succeeds() -> None:
    # given a start of unknown outcome, whose look finds the session much later
    again = dispatched(answered(starting(), AMBIGUOUS, at(1)), at(500))

    # then what the looks took is not taken from its time to join
    assert answered(again, BootstrapStarted(SESSION), at(590)).progress == join_wait(1190)


@pytest.mark.parametrize(
    "answer",
    [AMBIGUOUS, BootstrapAbsent(), BootstrapAbsent(conclusive=False)],
    ids=["ambiguous", "absent", "perhaps absent"],
)
def test_rule_12_a_start_that_is_answered_too_late_ends_the_wait(
    answer: OperationOutcome | EffectError,
) -> None:
    unsure = dispatched(answered(starting(), AMBIGUOUS, at(1)), at(599))

    assert answered(unsure, answer, at(599.999)).record.failed_at is None
    node = answered(unsure, answer, at(600))

    assert node.record.failed_reason is not None
    assert node.record.failed_reason == f"{NO_JOIN}; last error: lost"


def test_rule_25_a_start_that_was_not_run_never_ends_the_attempt() -> None:
    unsure = dispatched(answered(starting(), AMBIGUOUS, at(1)), at(599))

    node = answered(unsure, failed("withdrawn", not_run=True), at(700))

    assert node.record.failed_at is None


def test_rule_12_progress_renews_the_join_wait_and_output_does_not() -> None:
    node = bootstrapping()
    assert node.progress == join_wait(600)

    node = fold(node, BootstrapObserved(SESSION, BootstrapStage.BOOT_CHECKING), at(10))
    assert node.progress == join_wait(610)

    for news in (
        BootstrapObserved(SESSION, BootstrapStage.BOOT_CHECKING, 5),
        BootstrapObserved(SESSION, BootstrapStage.SSH_READY, 6),
        BootstrapObserved(SESSION, BootstrapStage.STREAM_ERROR, 7),
    ):
        node = fold(node, news, at(20))
        assert node.progress == join_wait(610)

    assert fold(node, JOINED, at(30)).progress == join_wait(630)


def test_f10_the_join_deadline_wakes_and_fails_the_attempt() -> None:
    node = bootstrapping()
    assert reconcile_node(node, SPEC, at(1)).requeue_at == at(600)
    assert expire(node, at(599.999), POLICY) is node

    over = expire(node, at(600), POLICY)

    assert over.record.failed_reason == JOIN_OVER
    assert (over.record.failed_at, over.retry.restart_at) == (at(600), at(601))


def test_rule_8_a_hand_over_is_tried_again_until_the_join_deadline() -> None:
    # given a joined node whose hand-over is refused
    node = answered(handing_over(), failed("busy"), at(5))
    assert (node.record.failed_at, node.retry.next_effect_at) == (None, at(6))

    # then its wait is what ends it
    assert reconcile_node(node, SPEC, at(5.5)).requeue_at == at(6)
    assert expire(node, at(600), POLICY).record.failed_reason == (f"{JOIN_OVER}; last error: busy")


def test_rule_9_an_operation_and_a_wait_that_end_together_are_one_failure() -> None:
    # given a hand-over dispatched so that both deadlines are at 600
    node = dispatched(joined(), at(480))

    over = expire(node, at(600), POLICY)

    assert (over.pending, over.retry.consecutive_failures) == (None, 1)
    assert over.record.failed_reason == JOIN_OVER
    assert over.retry.next_effect_at is None


@pytest.mark.parametrize("make", [leased, starting, bootstrapping, joined])
def test_rule_12_a_wait_ends_with_what_ends_it(make: object) -> None:
    assert callable(make)
    node: ManagedNode = make()
    assert node.progress is not None

    assert deleting(node).progress is None
    assert fold(node, NodeLost("gone")).progress is None
    assert ready().progress is None


# -- the earlier of two waits ---------------------------------------------------------------------


def test_rule_12_no_backoff_puts_off_the_join_deadline() -> None:
    # given a joined node whose hand-over may not be tried again for an hour
    node = answered(handing_over(), BUSY, at(5))
    assert node.retry.next_effect_at == at(3605)

    # then the end of its wait wakes it long before, and ends the attempt at that moment
    assert reconcile_node(node, SPEC, at(5)) == NodeDecision(None, at(600))
    assert expire(node, at(599.999), POLICY) is node
    over = expire(node, at(600), POLICY)
    assert (over.record.failed_at, over.record.failed_reason) == (
        at(600),
        f"{JOIN_OVER}; last error: busy",
    )


@pytest.mark.parametrize(
    ("dispatched_at", "wakes_at"), [(100, 220), (479, 599), (480, 600), (500, 600)]
)
def test_rule_12_an_operation_puts_off_no_join_deadline_nor_is_put_off_by_it(
    dispatched_at: float, wakes_at: float
) -> None:
    # given a hand-over whose own deadline is 120 s later, and a join wait that ends at 600
    node = dispatched(joined(), at(dispatched_at))

    assert reconcile_node(node, SPEC, at(dispatched_at)) == NodeDecision(None, at(wakes_at))


@pytest.mark.parametrize("dispatched_at", [0, 500])
def test_rule_12_a_hand_over_is_dispatched_with_the_end_of_its_wait(dispatched_at: float) -> None:
    assert reconcile_node(joined(), SPEC, at(dispatched_at)).requeue_at == at(600)


@pytest.mark.parametrize("make", [looking_up, starting], ids=["look-up", "start"])
def test_rule_12_without_a_session_a_backoff_is_waited_for_to_its_end(
    make: Callable[[], ManagedNode],
) -> None:
    """The deadline is no wake-up of its own: the next answer is judged by it."""
    refusal = replace(BUSY, disposition=Disposition.AMBIGUOUS)
    node = answered(make(), refusal, at(5))
    assert node.progress is not None
    assert node.progress.deadline == at(600)

    assert reconcile_node(node, SPEC, at(600)) == NodeDecision(None, at(3605))
    assert expire(node, at(600), POLICY) is node

    over = answered(dispatched(node, at(3605)), BUSY, at(3606))
    expected = {ProgressWait.ENDPOINT: ENDPOINT_OVER, ProgressWait.JOIN: NO_JOIN}
    assert over.record.failed_reason == f"{expected[node.progress.wait]}; last error: busy"


def looking_for_start() -> ManagedNode:
    """Deleting; a start of unknown outcome is looked for."""
    unsure = answered(starting(), AMBIGUOUS)
    return dispatched(deleting(unsure), at(1))


@pytest.mark.parametrize("make", [cancelling, looking_for_start], ids=["cancel", "look"])
def test_rule_17_no_backoff_puts_off_the_moment_at_which_a_cancel_gives_way(
    make: Callable[[], ManagedNode],
) -> None:
    node = answered(make(), BUSY, at(5))

    assert reconcile_node(node, None, at(59.999)) == NodeDecision(None, at(60))
    given_way = dispatched(node, at(60), None)
    assert given_way.pending is not None
    assert given_way.pending.kind is OperationKind.DESTROY_LEASE

    # and the destroy itself is not tried before the provider wants it
    refused = answered(given_way, BUSY, at(61))
    assert reconcile_node(refused, None, at(61)) == NodeDecision(None, at(3661))


# -- time at its end ------------------------------------------------------------------------------


def test_l38_at_the_end_of_time_folds_saturate() -> None:
    node = dispatched(reachable(), END_OF_TIME)
    for outcome in (BootstrapStarted(SESSION), BootstrapConvergenceAccepted()):
        node = answered(node, outcome, END_OF_TIME)
        if node.active_bootstrap is not None:
            node = dispatched(fold(node, JOINED, END_OF_TIME), END_OF_TIME)

    assert node.record.ready
    lost = fold(node, NodeLost("gone"), END_OF_TIME)
    assert lost.retry.restart_at == END_OF_TIME


def test_l39_the_least_delay_holds_when_every_delay_is_nothing() -> None:
    zero = timedelta(0)
    policy = RetryPolicy(
        initial_delay=zero, max_delay=zero, endpoint_probe_interval=zero, operation_timeout=zero
    )

    node = dispatched(leased(), at(0), policy=policy)
    assert node.pending is not None
    waits = [
        node.pending.deadline,
        answered(node, EndpointLookup(), at(0), policy).retry.next_effect_at,
        answered(node, failed(), at(0), policy).retry.next_effect_at,
    ]

    assert waits == [at(0.01)] * 3
    assert replace(node, pending=None).progress is not None


def test_the_last_error_of_an_earlier_attempt_is_no_part_of_the_reason() -> None:
    """Else every attempt's reason would hold that of the one before, and grow for ever."""
    earlier = replace(
        bootstrapping().retry, last_error="boot check failed", last_error_attempt=NodeAttemptId(7)
    )
    node = replace(bootstrapping(), retry=earlier)

    over = expire(node, at(600), POLICY)

    assert over.record.failed_reason == JOIN_OVER
    assert (over.retry.last_error, over.retry.last_error_attempt) == (JOIN_OVER, node.attempt)

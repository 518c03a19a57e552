"""Results while adopting, deleting, or once failed (design rules 9, 13-15, 17, 19; L20, L28)."""

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import ManagedNode, RetryState, reconcile_node, refusal
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapStarted,
    CreateLease,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    NodeLost,
    OperationId,
    OperationOutcome,
    OperationSucceeded,
)
from tests.decider_words import (
    AMBIGUOUS,
    ENDPOINT,
    LEASE,
    LEASED,
    ONE,
    SESSION,
    answered,
    at,
    bootstrapping,
    cancelling,
    cleaned_up,
    creating,
    deleting,
    destroying,
    dispatched,
    failed,
    fold,
    handing_over,
    looking_up,
    new,
    reachable,
    starting,
)

EVERY_PENDING = {
    "create": creating,
    "look up": looking_up,
    "start": starting,
    "hand over": handing_over,
    "cancel": cancelling,
    "destroy": destroying,
}


def next_command(node: ManagedNode, now: float = 1000, *, wanted: bool = True) -> str:
    """The row's effect, as the type of its command, or what else comes next."""
    action = reconcile_node(node, node.record.desired if wanted else None, at(now)).action
    effect = getattr(action, "effect", None)
    return type(effect.command if effect else action).__name__


# -- adoption and absence (rules 13-15) -----------------------------------------------------------


def unsure_create() -> ManagedNode:
    """Its create is of unknown outcome, and out again."""
    return dispatched(answered(creating(), AMBIGUOUS), at(500))


def unsure_start() -> ManagedNode:
    """Its start is of unknown outcome, and out again."""
    return dispatched(answered(starting(), AMBIGUOUS), at(500))


def test_rule_13_adoption_clears_the_ambiguity() -> None:
    for node in (
        answered(unsure_create(), LEASED, at(500)),
        answered(unsure_start(), BootstrapStarted(SESSION), at(500)),
    ):
        assert node.retry == RetryState(1, last_error="lost", last_error_attempt=ONE)


@pytest.mark.parametrize(
    ("unsure", "absent"), [(unsure_create(), LeaseAbsent()), (unsure_start(), BootstrapAbsent())]
)
def test_rule_15_conclusive_absence_clears_the_ambiguity_and_counts_nothing(
    unsure: ManagedNode, absent: OperationOutcome
) -> None:
    assert unsure.pending is not None

    node = answered(unsure, absent, at(500))

    assert node.retry == RetryState(1, last_error="lost", last_error_attempt=ONE)
    assert next_command(node, 500) in {"CreateLease", "StartBootstrap"}


@pytest.mark.parametrize(
    ("unsure", "absent"),
    [
        (unsure_create(), LeaseAbsent(conclusive=False)),
        (unsure_start(), BootstrapAbsent(conclusive=False)),
    ],
)
def test_rule_15_inside_the_settle_time_absence_is_probed_again(
    unsure: ManagedNode, absent: OperationOutcome
) -> None:
    node = answered(unsure, absent, at(500))

    assert node.retry == replace(unsure.retry, next_effect_at=at(502))


@pytest.mark.parametrize(
    ("first", "absent"), [(creating(), LeaseAbsent()), (starting(), BootstrapAbsent())]
)
def test_an_absence_that_nobody_asked_about_cannot_make_the_driver_spin(
    first: ManagedNode, absent: OperationOutcome
) -> None:
    node = answered(first, absent, at(5))

    assert node.retry == RetryState(0, next_effect_at=at(7))


def test_an_inconclusive_absence_is_an_ambiguity_even_when_none_was_known() -> None:
    node = answered(creating(), LeaseAbsent(conclusive=False), at(5))

    assert node.retry.ambiguous_operation == OperationId(node.attempt, 1)


def test_a_look_up_that_finds_the_lease_gone_fails_the_attempt() -> None:
    node = answered(looking_up(), LeaseAbsent(), at(5))

    assert node.record.failed_reason == "the provider says that the lease is gone"
    assert node.record.lease == LEASE  # until its destroy confirms it


def test_a_look_up_that_finds_the_lease_gone_perhaps_looks_again() -> None:
    node = answered(looking_up(), LeaseAbsent(conclusive=False), at(5))

    assert (node.record.failed_at, node.retry.next_effect_at) == (None, at(7))


# -- while deleting, and once failed (rules 9, 14, 19; L20) ---------------------------------------


def once_failed(node: ManagedNode) -> ManagedNode:
    return fold(node, NodeLost("gone"))


OVER = pytest.mark.parametrize("over", [deleting, once_failed])


@OVER
def test_rule_9_a_result_that_still_comes_is_a_fact_and_moves_nothing(over: object) -> None:
    assert callable(over)
    results: list[tuple[ManagedNode, OperationOutcome]] = [
        (creating(), LEASED),
        (creating(), LeaseCreated(LEASE)),
        (looking_up(), EndpointLookup(ENDPOINT)),
        (starting(), BootstrapStarted(SESSION)),
        (handing_over(), BootstrapConvergenceAccepted()),
    ]
    for pending, outcome in results:
        before: ManagedNode = over(pending)

        node = answered(before, outcome, at(5))

        assert (node.record.stage, node.record.ready) == (before.record.stage, False)
        assert (node.record.failed_at, node.retry) == (before.record.failed_at, before.retry)
        assert node.progress is None
        assert node != before


@OVER
def test_l20_an_endpoint_that_is_not_there_yet_delays_no_cleanup(over: object) -> None:
    assert callable(over)
    for absent in (EndpointLookup(), LeaseAbsent(), LeaseAbsent(conclusive=False)):
        node = answered(over(looking_up()), absent, at(5))

        assert node.retry.next_effect_at is None
        assert next_command(deleting(node, at(5)), 5) == "DestroyLease"


def test_an_endpoint_that_was_known_is_not_forgotten() -> None:
    node = replace(deleting(looking_up()), record=reachable().record)

    assert answered(node, EndpointLookup()).record.connection == ENDPOINT


@OVER
@pytest.mark.parametrize("kind", ["create", "look up", "start", "hand over"])
def test_rule_19_a_failure_that_cleanup_does_not_need_counts_nothing(
    over: object, kind: str
) -> None:
    assert callable(over)
    before: ManagedNode = over(EVERY_PENDING[kind]())

    assert answered(before, failed(), at(5)) == replace(before, pending=None)


@OVER
@pytest.mark.parametrize("kind", ["create", "start"])
def test_rule_19_unless_it_leaves_an_ambiguity(over: object, kind: str) -> None:
    assert callable(over)
    before: ManagedNode = over(EVERY_PENDING[kind]())
    count = before.retry.consecutive_failures

    node = answered(before, AMBIGUOUS, at(5))

    assert node.retry.consecutive_failures == count + 1
    assert node.retry.next_effect_at is not None
    assert node.retry.ambiguous_operation == node.retry.ambiguous_operation is not None


@pytest.mark.parametrize("kind", ["cancel", "destroy"])
def test_rule_19_cancel_and_destroy_back_off(kind: str) -> None:
    node = answered(EVERY_PENDING[kind](), failed("busy"), at(5))

    assert node.retry == RetryState(1, at(6), last_error="busy", last_error_attempt=ONE)


@OVER
def test_a_create_that_finds_nothing_after_all_delays_no_cleanup(over: object) -> None:
    assert callable(over)
    before: ManagedNode = over(creating())

    node = answered(before, LeaseAbsent(), at(5))

    assert node == replace(before, pending=None)
    assert next_command(deleting(node), 5) == "MarkDestroyed"


def test_rule_14_a_delete_looks_for_what_may_exist_and_rents_nothing() -> None:
    node = answered(deleting(creating()), AMBIGUOUS, at(1))
    action = reconcile_node(node, None, at(2)).action
    assert getattr(action, "effect").command == CreateLease(node.record.desired, adopt_only=True)  # noqa: B009

    look = dispatched(node, at(2))
    assert next_command(answered(look, LEASED, at(3)), 3) == "DestroyLease"
    assert next_command(answered(look, LeaseAbsent(), at(3)), 3) == "MarkDestroyed"


def test_l28_a_session_that_may_run_is_adopted_cancelled_and_its_lease_destroyed() -> None:
    node = answered(deleting(starting()), AMBIGUOUS, at(1))

    steps = [next_command(node)]
    for outcome in (BootstrapStarted(SESSION), BootstrapCancelled(), LeaseDestroyed()):
        node = answered(dispatched(node, at(50)), outcome, at(50))
        steps.append(next_command(node))

    assert steps == ["StartBootstrap", "CancelBootstrap", "DestroyLease", "MarkDestroyed"]


def test_rule_17_a_confirmed_destroy_settles_the_session_too() -> None:
    node = replace(destroying(), active_bootstrap=SESSION, record=bootstrapping().record)

    assert answered(node, LeaseDestroyed()).active_bootstrap is None
    assert cleaned_up().record.lease is None


def test_a_fresh_attempt_has_nothing_to_answer() -> None:
    assert refusal(new(), OperationSucceeded(OperationId(new().attempt, 1), LEASED)) is not None

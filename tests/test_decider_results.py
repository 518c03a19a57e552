"""Results of operations, folded (spec §7.1, §11; rules 7-9, 13-17, 19; L20, L22, L23, L27)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import ManagedNode, RetryState, observe, reconcile_node, refusal
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapStage,
    BootstrapStarted,
    CreateLease,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    NodeStage,
    OperationFailed,
    OperationId,
    OperationOutcome,
    OperationSucceeded,
    StartBootstrap,
)
from tests.decider_words import (
    AMBIGUOUS,
    ATTEMPT_ENDING,
    ENDPOINT,
    LEASE,
    LEASED,
    ONE,
    POLICY,
    SESSION,
    T0,
    answered,
    at,
    cancelling,
    creating,
    deleting,
    destroying,
    dispatched,
    failed,
    handing_over,
    leased,
    looking_up,
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


# -- right outcomes (§7.1) ------------------------------------------------------------------------


def test_a_lease_without_an_endpoint_is_created_and_its_wait_begins() -> None:
    node = answered(creating(), LeaseCreated(LEASE), at(1))

    assert (node.record.lease, node.record.connection) == (LEASE, None)
    assert node.record.stage is NodeStage.LEASE_CREATED
    assert node.progress is not None
    assert (node.progress.wait, node.progress.deadline) == ("endpoint", at(601))


def test_a_lease_with_an_endpoint_is_known_at_once() -> None:
    node = answered(creating(), LEASED)

    assert (node.record.lease, node.record.connection) == (LEASE, ENDPOINT)
    assert (node.record.stage, node.progress) == (NodeStage.ENDPOINT_KNOWN, None)


def test_a_look_up_that_finds_an_endpoint_ends_its_wait() -> None:
    node = answered(looking_up(), EndpointLookup(ENDPOINT))

    assert (node.record.stage, node.progress) == (NodeStage.ENDPOINT_KNOWN, None)


def test_not_yet_is_probed_again_and_is_no_failure() -> None:
    node = answered(looking_up(), EndpointLookup(), at(3))

    assert node == replace(leased(), next_operation_sequence=3, retry=RetryState(0, at(5)))


def test_a_started_session_is_addressed_and_its_facts_begin() -> None:
    node = answered(starting(), BootstrapStarted(SESSION), at(3))

    assert node.active_bootstrap == SESSION
    assert node.record.bootstrap is not None
    assert node.record.bootstrap.session_id == SESSION
    assert node.record.stage is NodeStage.BOOTSTRAP_RUNNING


def test_a_cancelled_session_leaves_its_facts() -> None:
    node = answered(cancelling(), BootstrapCancelled())

    assert node.active_bootstrap is None
    assert node.record.bootstrap is not None
    assert node.record.bootstrap.last_stage is BootstrapStage.CANCELLED


def test_a_cancel_that_comes_after_the_sessions_own_end_changes_no_fact() -> None:
    # given a cancel on its way, and a session that ends by itself
    node = answered(cancelling(), BootstrapCancelled())
    ended = replace(node, pending=cancelling().pending)

    assert answered(ended, BootstrapCancelled()) == replace(ended, pending=None)


def test_a_destroyed_lease_leaves_nothing() -> None:
    node = answered(destroying(), LeaseDestroyed())

    assert (node.record.lease, node.record.connection, node.active_bootstrap) == (None, None, None)


def test_rule_17_asked_and_still_there_is_asked_again_and_is_no_failure() -> None:
    node = answered(destroying(), LeaseDestroyed(confirmed=False), at(1))

    assert node.record.lease == LEASE
    assert node.retry == RetryState(0, next_effect_at=at(3))


@pytest.mark.parametrize("pending", EVERY_PENDING.values(), ids=EVERY_PENDING)
def test_rule_7_a_success_clears_pending_and_its_deadline(pending: object) -> None:
    assert callable(pending)
    node: ManagedNode = pending()
    kind = node.pending.kind if node.pending else ""
    node = replace(node, retry=replace(node.retry, next_effect_at=T0, consecutive_failures=3))
    right: dict[str, OperationOutcome] = {
        "create_lease": LEASED,
        "lookup_endpoint": EndpointLookup(ENDPOINT),
        "start_bootstrap": BootstrapStarted(SESSION),
        "bootstrap_convergence_observed": BootstrapConvergenceAccepted(),
        "cancel_bootstrap": BootstrapCancelled(),
        "destroy_lease": LeaseDestroyed(),
    }

    after = answered(node, right[kind])

    assert (after.pending, after.retry.next_effect_at) == (None, None)
    # and only reaching ready resets the count
    assert after.retry.consecutive_failures == (0 if after.record.ready else 3)


# -- stale and twice (L22) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "operation", "reason"),
    [
        (creating(), (0, 1), "stale: op(0,1) is not pending, op(1,1) is"),
        (creating(), (1, 2), "stale: op(1,2) is not pending, op(1,1) is"),
        (creating(), (2, 1), "stale: op(2,1) is not pending, op(1,1) is"),
        (reachable(), (1, 1), "stale: op(1,1) is not pending, nothing is"),
    ],
)
def test_l22_what_answers_nothing_pending_is_refused(
    node: ManagedNode, operation: tuple[int, int], reason: str
) -> None:
    stale = OperationId(node.attempt, 0)
    stale = replace(stale, attempt=type(node.attempt)(operation[0]), sequence=operation[1])

    for news in (OperationSucceeded(stale, LEASED), OperationFailed(stale, AMBIGUOUS)):
        assert observe(node, news, T0, POLICY) is node
        assert refusal(node, news) == reason


# -- wrong outcomes (L23, rules 13, 16) -----------------------------------------------------------

WRONG: dict[str, OperationOutcome] = {
    "create": EndpointLookup(ENDPOINT),
    "look up": LEASED,
    "start": LeaseAbsent(),
    "hand over": BootstrapCancelled(),
    "cancel": LeaseDestroyed(),
    "destroy": BootstrapCancelled(),
}


@pytest.mark.parametrize("kind", EVERY_PENDING)
def test_l23_an_outcome_of_the_wrong_kind_is_never_adopted(kind: str) -> None:
    before = EVERY_PENDING[kind]()
    assert before.pending is not None

    node = answered(before, WRONG[kind], at(5))

    assert (node.record, node.active_bootstrap) == (before.record, before.active_bootstrap)
    assert node.retry.last_error is not None
    assert type(WRONG[kind]).__name__ in node.retry.last_error
    assert (node.retry.consecutive_failures, node.retry.next_effect_at) == (1, at(6))
    ambiguous = before.pending.id if kind in {"create", "start"} else None
    assert node.retry.ambiguous_operation == ambiguous


# -- failures by kind (§11; rules 13, 14, 16) -----------------------------------------------------


@pytest.mark.parametrize("kind", ["create", "look up", "hand over", "cancel", "destroy"])
def test_a_definite_failure_keeps_the_attempt_and_backs_off(kind: str) -> None:
    before = EVERY_PENDING[kind]()

    node = answered(before, failed("quota"), at(5))

    assert node.record == before.record
    assert node.retry == RetryState(1, at(6), last_error="quota", last_error_attempt=ONE)


def test_a_definite_failure_to_start_ends_the_attempt() -> None:
    node = answered(starting(), failed("no route"), at(5))

    assert (node.record.stage, node.record.failed_at) == (NodeStage.FAILED, at(5))
    assert node.retry == RetryState(
        1, None, restart_at=at(6), last_error="no route", last_error_attempt=ONE
    )


@pytest.mark.parametrize(("kind", "again"), [("create", CreateLease), ("start", StartBootstrap)])
def test_l27_an_ambiguous_create_or_start_is_tried_again_by_the_same_attempt(
    kind: str, again: type
) -> None:
    before = EVERY_PENDING[kind]()
    assert before.pending is not None

    node = answered(before, AMBIGUOUS, at(5))

    assert node.record == before.record
    assert node.retry == RetryState(
        1,
        next_effect_at=at(6),
        last_error="lost",
        last_error_attempt=ONE,
        ambiguous_operation=before.pending.id,
        ambiguous_since=at(5),
    )
    assert next_command(node) == again.__name__


@pytest.mark.parametrize("kind", ["look up", "hand over", "cancel", "destroy"])
def test_rule_13_nothing_else_is_ambiguous(kind: str) -> None:
    before = EVERY_PENDING[kind]()

    assert answered(before, AMBIGUOUS, at(5)) == answered(before, failed("lost"), at(5))


def test_rule_13_an_ambiguity_outlives_a_later_definite_failure() -> None:
    node = dispatched(answered(creating(), AMBIGUOUS, at(5)), at(6))

    node = answered(node, failed("quota"), at(7))

    assert node.retry.ambiguous_operation == OperationId(node.attempt, 1)
    assert node.retry.ambiguous_since == at(5)
    # and a second ambiguous one does not take its name
    again = answered(dispatched(node, at(60)), AMBIGUOUS, at(61))
    assert again.retry.ambiguous_operation == OperationId(node.attempt, 1)


@pytest.mark.parametrize("kind", ["create", "start", "look up"])
def test_rule_16_an_attempt_ending_refusal_ends_the_attempt(kind: str) -> None:
    before = EVERY_PENDING[kind]()
    assert before.pending is not None

    node = answered(before, ATTEMPT_ENDING, at(5))

    assert (node.record.failed_at, node.record.failed_reason) == (at(5), "token refused")
    # and what may exist under the old token is looked for before it is called gone
    unsure = before.pending.id if kind != "look up" else None
    assert node.retry.ambiguous_operation == unsure


@pytest.mark.parametrize("kind", ["hand over", "cancel", "destroy"])
def test_rule_16_elsewhere_attempt_ending_is_an_ordinary_failure(kind: str) -> None:
    before = EVERY_PENDING[kind]()

    assert answered(before, ATTEMPT_ENDING) == answered(before, failed("token refused"))


def test_rule_16_a_look_that_is_refused_for_good_is_an_ordinary_failure() -> None:
    look = dispatched(answered(deleting(creating()), AMBIGUOUS, at(1)), at(2))
    assert look.pending is not None
    assert look.pending.adopt_only

    for error in (failed("token refused"), ATTEMPT_ENDING):
        node = answered(look, error, at(3))
        assert node.record.failed_at is None
        assert (node.retry.consecutive_failures, node.retry.next_effect_at) == (2, at(5))


@pytest.mark.parametrize("kind", ["create", "start"])
def test_rule_16_no_retry_before_the_provider_wants_it(kind: str) -> None:
    error = EffectError("throttled", Disposition.DEFINITE, retry_after=timedelta(seconds=30))

    node = answered(EVERY_PENDING[kind](), error, at(5))

    assert (node.retry.next_effect_at or node.retry.restart_at) == at(35)


def test_a_retry_after_that_is_shorter_than_the_backoff_shortens_nothing() -> None:
    error = EffectError("throttled", retry_after=timedelta(0))

    assert answered(creating(), error, at(5)).retry.next_effect_at == at(6)


@pytest.mark.parametrize("kind", EVERY_PENDING)
def test_rule_25_what_was_not_run_is_an_ordinary_retry(kind: str) -> None:
    error = failed("withdrawn", Disposition.AMBIGUOUS, not_run=True)

    node = answered(EVERY_PENDING[kind](), error, at(5))

    assert (node.record.failed_at, node.retry.ambiguous_operation) == (None, None)
    assert (node.retry.consecutive_failures, node.retry.next_effect_at) == (1, at(6))

"""Folding the result of the pending operation (spec §7.1, §11; design rules 7-9, 13-19).

A result clears `pending` whatever it says.  What is of the wrong kind is never adopted as success.
Once the attempt has failed or is deleting, a result only adds the facts that cleanup needs.
"""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from cluster_reconciler.decider.failures import (
    count_failure,
    endpoint_progress,
    fail_attempt,
    fail_progress,
    join_progress,
    probe_later,
    progress_is_due,
)
from cluster_reconciler.decider.retry import RetryPolicy
from cluster_reconciler.decider.sessions import become_ready, end_session, fold_kept
from cluster_reconciler.decider.state import (
    ManagedNode,
    PendingOperation,
    RetryState,
    is_live,
)
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapFacts,
    BootstrapSessionId,
    BootstrapStage,
    BootstrapStarted,
    Disposition,
    EffectError,
    Endpoint,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    NodeStage,
    OperationKind,
    OperationOutcome,
)

_RIGHT_OUTCOMES: dict[OperationKind, tuple[type, ...]] = {
    OperationKind.CREATE_LEASE: (LeaseCreated, LeaseAbsent),
    OperationKind.LOOKUP_ENDPOINT: (EndpointLookup, LeaseAbsent),
    OperationKind.START_BOOTSTRAP: (BootstrapStarted, BootstrapAbsent),
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED: (BootstrapConvergenceAccepted,),
    OperationKind.CANCEL_BOOTSTRAP: (BootstrapCancelled,),
    OperationKind.DESTROY_LEASE: (LeaseDestroyed,),
}
_MAKING = frozenset({OperationKind.CREATE_LEASE, OperationKind.START_BOOTSTRAP})
_ACQUIRING = frozenset({OperationKind.LOOKUP_ENDPOINT, *_MAKING})
_RELEASING = frozenset({OperationKind.CANCEL_BOOTSTRAP, OperationKind.DESTROY_LEASE})


def fold_success(
    node: ManagedNode,
    pending: PendingOperation,
    outcome: OperationOutcome,
    now: datetime,
    retry: RetryPolicy,
) -> ManagedNode:
    """The node after its pending operation answered with an outcome."""
    if not isinstance(outcome, _RIGHT_OUTCOMES[pending.kind]):
        reason = f"{pending.kind} was answered with {type(outcome).__name__}, which is not its kind"
        return fold_failure(node, pending, EffectError(reason, _worst(pending.kind)), now, retry)
    state = node.retry
    if state.next_effect_at is not None:
        state = replace(state, next_effect_at=None)
    node = replace(node, pending=None, retry=state)
    match outcome:
        case LeaseCreated():
            return _lease_created(node, outcome, now, retry)
        case EndpointLookup(endpoint):
            return _endpoint_looked_up(node, endpoint, now, retry)
        case LeaseAbsent(conclusive) if pending.kind is OperationKind.LOOKUP_ENDPOINT:
            return _lease_gone(node, conclusive, now, retry)
        case LeaseAbsent(conclusive) | BootstrapAbsent(conclusive):
            return _absent(node, pending, conclusive, now, retry)
        case BootstrapStarted(session_id):
            return _bootstrap_started(node, session_id, now, retry)
        case BootstrapConvergenceAccepted():
            return _handed_over(node, now)
        case BootstrapCancelled():
            return _cancelled(node, now)
        case LeaseDestroyed(confirmed):
            return _lease_destroyed(node) if confirmed else probe_later(node, now, retry)
        case _:
            assert_never(outcome)


def _worst(kind: OperationKind) -> Disposition:
    return Disposition.AMBIGUOUS if kind in _MAKING else Disposition.DEFINITE


def _lease_created(
    node: ManagedNode, outcome: LeaseCreated, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    record = replace(node.record, lease=outcome.lease, connection=outcome.endpoint)
    node = _unambiguous(replace(node, record=record))
    if not is_live(node):
        return node
    if outcome.endpoint is not None:
        return _endpoint_known(node, outcome.endpoint)
    return replace(
        node,
        record=replace(record, stage=NodeStage.LEASE_CREATED),
        progress=endpoint_progress(now, retry),
    )


def _endpoint_known(node: ManagedNode, endpoint: Endpoint) -> ManagedNode:
    record = replace(node.record, connection=endpoint, stage=NodeStage.ENDPOINT_KNOWN)
    return replace(node, record=record, progress=None)


def _endpoint_looked_up(
    node: ManagedNode, endpoint: Endpoint | None, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    if not is_live(node):
        # "Not yet" delays no cleanup; an endpoint is a fact like any other.
        known = endpoint or node.record.connection
        return replace(node, record=replace(node.record, connection=known))
    if endpoint is not None:
        return _endpoint_known(node, endpoint)
    return _look_again(node, now, retry)


def _look_again(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    """An answer that brings nothing: the wait goes on, unless it has gone on too long."""
    if progress_is_due(node, now):
        return fail_progress(node, now, retry)
    return probe_later(node, now, retry)


def _lease_gone(
    node: ManagedNode, conclusive: bool, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    """The lease stays a fact until its destroy confirms that it is gone."""
    if not is_live(node):
        return node
    if conclusive:
        return fail_attempt(node, "the provider says that the lease is gone", now, retry)
    return _look_again(node, now, retry)


def _absent(
    node: ManagedNode,
    pending: PendingOperation,
    conclusive: bool,
    now: datetime,
    retry: RetryPolicy,
) -> ManagedNode:
    """A look found nothing.  Only a conclusive answer to an ambiguity lets the next step go at
    once: otherwise an executor that always says "absent" would make the driver spin."""
    was_ambiguous = node.retry.ambiguous_operation is not None
    if conclusive:
        node = replace(node, kept=())
    if conclusive and was_ambiguous:
        node = _unambiguous(node)
        return fail_progress(node, now, retry) if progress_is_due(node, now) else node
    if not conclusive:
        node = _ambiguous(node, pending, now)
        if node.deleting_since is not None and node.record.lease is not None:
            node = replace(node, cancel_failures=node.cancel_failures + 1)
    if not is_live(node) and conclusive:
        return node
    return _look_again(node, now, retry)


def _bootstrap_started(
    node: ManagedNode, session_id: BootstrapSessionId, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    facts = BootstrapFacts(session_id, last_observed_at=now)
    record = replace(node.record, bootstrap=facts)
    node = _unambiguous(replace(node, record=record, active_bootstrap=session_id))
    if is_live(node):
        node = replace(
            node,
            record=replace(record, stage=NodeStage.BOOTSTRAP_RUNNING),
            progress=join_progress(now, retry),
        )
    return fold_kept(node, now, retry)


def _handed_over(node: ManagedNode, now: datetime) -> ManagedNode:
    if node.record.ready:
        return node  # A closure has completed it already.
    if is_live(node):
        return become_ready(node, now)
    return end_session(node, BootstrapStage.CONVERGED, now)


def _cancelled(node: ManagedNode, now: datetime) -> ManagedNode:
    if node.active_bootstrap is None:
        return node  # The session's own end came first.
    return end_session(node, BootstrapStage.CANCELLED, now)


def _lease_destroyed(node: ManagedNode) -> ManagedNode:
    """Confirmed: whatever ran on the machine went with it (design rule 17)."""
    record = replace(node.record, lease=None, connection=None)
    return replace(_unambiguous(node), record=record, active_bootstrap=None, kept=())


def fold_failure(
    node: ManagedNode,
    pending: PendingOperation,
    error: EffectError,
    now: datetime,
    retry: RetryPolicy,
) -> ManagedNode:
    """The node after its pending operation failed, was refused or timed out (§11)."""
    node = replace(node, pending=None)
    kind = pending.kind
    ends = error.disposition is Disposition.ATTEMPT_ENDING and not pending.adopt_only
    may_exist = kind in _MAKING and error.disposition is not Disposition.DEFINITE
    if may_exist and not error.not_run and not pending.adopt_only:
        node = _ambiguous(node, pending, now)
    if kind is OperationKind.START_BOOTSTRAP and node.retry.ambiguous_operation is None:
        node = replace(node, kept=())  # Nothing ran: what was kept named no session of ours.
    if node.record.ready:
        return node  # A hand-over that a closure has overtaken: a warning, no failure (rule 8).
    if not is_live(node):
        return _failure_of_cleanup(node, pending, error, now, retry)
    if not error.not_run and progress_is_due(node, now):
        # Judged before the operation's own failure, so that the attempt fails once.
        return fail_progress(_with_last_error(node, error), now, retry)
    starts = kind is OperationKind.START_BOOTSTRAP
    if not error.not_run and ((ends and kind in _ACQUIRING) or (starts and not may_exist)):
        return fail_attempt(node, error.reason, now, retry, error.retry_after)
    return count_failure(node, error.reason, now, retry, error.retry_after)


def _failure_of_cleanup(
    node: ManagedNode,
    pending: PendingOperation,
    error: EffectError,
    now: datetime,
    retry: RetryPolicy,
) -> ManagedNode:
    """Failed or deleting: only what cleanup itself needs counts and delays (design rule 19)."""
    kind = pending.kind
    leaves_ambiguity = kind in _MAKING and node.retry.ambiguous_operation is not None
    if kind not in _RELEASING and not pending.adopt_only and not leaves_ambiguity:
        return node
    asks_session = kind is OperationKind.CANCEL_BOOTSTRAP or (
        kind is OperationKind.START_BOOTSTRAP and pending.adopt_only
    )
    if not asks_session or error.not_run:
        return count_failure(node, error.reason, now, retry, error.retry_after)
    failures = node.cancel_failures + 1
    node = count_failure(node, error.reason, now, retry, error.retry_after)
    return replace(node, cancel_failures=failures, retry=_until_it_gives_way(node, now))


def _until_it_gives_way(node: ManagedNode, now: datetime) -> RetryState:
    """The next try of a cancel waits for its backoff, but not beyond the moment at which the
    cancel gives way to the destroy, whatever the provider asked for (design rule 17)."""
    deadline, next_effect_at = node.cancel_deadline, node.retry.next_effect_at
    if deadline is None or next_effect_at is None or not now < deadline < next_effect_at:
        return node.retry
    return replace(node.retry, next_effect_at=deadline)


def _ambiguous(node: ManagedNode, pending: PendingOperation, now: datetime) -> ManagedNode:
    """Sticky: the first operation of unknown outcome stays named until it is resolved."""
    if node.retry.ambiguous_operation is not None:
        return node
    retry = replace(node.retry, ambiguous_operation=pending.id, ambiguous_since=now)
    return replace(node, retry=retry)


def _unambiguous(node: ManagedNode) -> ManagedNode:
    if node.retry.ambiguous_operation is None:
        return node
    return replace(node, retry=replace(node.retry, ambiguous_operation=None, ambiguous_since=None))


def _with_last_error(node: ManagedNode, error: EffectError) -> ManagedNode:
    return replace(
        node, retry=replace(node.retry, last_error=error.reason, last_error_attempt=node.attempt)
    )

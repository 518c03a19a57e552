"""Folding one observation into one node (spec §7): facts change, nothing is decided.

Rules for what may live here: `refusal` says, before anything changes, why an observation must not
be folded; `observe` folds what is not refused and answers with a new value.  Time and retry policy
come in as arguments; deadlines are sampled here, once, and stored.

What is refused.  A result that does not answer the pending operation is stale.  News of a session
counts only for the session that can be addressed now; what comes while a start is pending or
ambiguous is kept and folded with the session it names.  An attempt that has failed takes results
(cleanup needs their facts) and refuses all news.
"""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from cluster_reconciler.decider.failures import fail_attempt, fail_progress, progress_is_due
from cluster_reconciler.decider.results import fold_failure, fold_success
from cluster_reconciler.decider.retry import RetryPolicy
from cluster_reconciler.decider.sessions import (
    fold_session,
    is_mere_news,
    says_nothing_new,
)
from cluster_reconciler.decider.state import ManagedNode, has_ambiguous_start
from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapFacts,
    BootstrapFailed,
    BootstrapObserved,
    Disposition,
    EffectError,
    NodeIntent,
    NodeLost,
    NodeObservation,
    OperationFailed,
    OperationId,
    OperationKind,
    OperationSucceeded,
    SessionObservation,
    SwactorJoined,
)

KEPT_MAX = 16
"""More observations of unknown sessions than this are not kept."""


def observe(
    node: ManagedNode, observation: NodeObservation, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    """The node after the observation; the same object when it is refused (§7)."""
    return node if refusal(node, observation) is not None else fold(node, observation, now, retry)


def fold(
    node: ManagedNode, observation: NodeObservation, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    """The node after an observation of which `refusal` has said nothing."""
    match observation:
        case OperationSucceeded(_, outcome):
            assert node.pending is not None, "refusal lets only the pending operation through"
            return fold_success(node, node.pending, outcome, now, retry)
        case OperationFailed(_, error):
            assert node.pending is not None, "refusal lets only the pending operation through"
            return fold_failure(node, node.pending, error, now, retry)
        case NodeLost(reason):
            return fail_attempt(node, f"the node is lost: {reason}", now, retry)
        case SwactorJoined() | BootstrapClosed() | BootstrapFailed() | BootstrapObserved():
            if node.active_bootstrap is None:
                return _keep(node, observation)
            return fold_session(_with_facts(node, now), observation, now, retry)
        case _:
            assert_never(observation)


def refusal(node: ManagedNode, observation: NodeObservation) -> str | None:
    """Why the observation is not folded; None: it is."""
    match observation:
        case OperationSucceeded(operation) | OperationFailed(operation):
            return _result_refusal(node, operation)
        case NodeLost():
            return _loss_refusal(node)
        case SwactorJoined() | BootstrapClosed() | BootstrapFailed() | BootstrapObserved():
            return _session_refusal(node, observation)
        case _:
            assert_never(observation)


def _result_refusal(node: ManagedNode, operation: OperationId) -> str | None:
    if node.pending is None:
        return f"stale: {operation} is not pending, nothing is"
    if node.pending.id != operation:
        return f"stale: {operation} is not pending, {node.pending.id} is"
    return None


def _loss_refusal(node: ManagedNode) -> str | None:
    if node.record.failed_at is not None:
        return f"the attempt has failed already: {node.record.failed_reason}"
    if node.intent is NodeIntent.DELETING:
        return "the node is being deleted already"
    return None


def _session_refusal(node: ManagedNode, observation: SessionObservation) -> str | None:
    if node.record.failed_at is not None:
        return f"the attempt has failed already: {node.record.failed_reason}"
    if node.active_bootstrap is None:
        if not _may_have_unknown_session(node):
            return f"session {observation.session_id} is not active, no session is"
        return "kept already" if observation in node.kept else None
    if node.active_bootstrap != observation.session_id:
        return f"session {observation.session_id} is not active, {node.active_bootstrap} is"
    if isinstance(observation, SwactorJoined) and node.record.swactor is not None:
        return f"the node has joined already, as {node.record.swactor.swactor_id}"
    if isinstance(observation, BootstrapObserved):
        facts = node.record.bootstrap
        old_news = facts is not None and says_nothing_new(facts, observation)
        return "it says nothing new" if old_news else None
    if isinstance(observation, BootstrapFailed) and node.intent is NodeIntent.DELETING:
        return "the node is being deleted: this failure needs no backoff"
    return None


def _with_facts(node: ManagedNode, now: datetime) -> ManagedNode:
    """A node that a caller made by hand may know its session and nothing of it yet."""
    if node.record.bootstrap is not None or node.active_bootstrap is None:
        return node
    facts = BootstrapFacts(node.active_bootstrap, last_observed_at=now)
    return replace(node, record=replace(node.record, bootstrap=facts))


def _may_have_unknown_session(node: ManagedNode) -> bool:
    starting = node.pending is not None and node.pending.kind is OperationKind.START_BOOTSTRAP
    return starting or has_ambiguous_start(node)


def _keep(node: ManagedNode, observation: SessionObservation) -> ManagedNode:
    """Keep it beside the others, in the order of arrival; folding puts late news right.  When
    there are too many the oldest mere news goes first, so that no flood of output loses a join."""
    kept = [*node.kept, observation]
    if len(kept) > KEPT_MAX:
        del kept[next((at for at, seen in enumerate(kept) if is_mere_news(seen)), 0)]
    return replace(node, kept=tuple(kept))


def is_overdue(node: ManagedNode, now: datetime) -> bool:
    """Whether `expire` has something to judge."""
    if node.pending is not None and node.pending.deadline <= now:
        return True
    return node.active_bootstrap is not None and progress_is_due(node, now)


def expire(
    node: ManagedNode, now: datetime, retry: RetryPolicy, *, not_run: bool = False
) -> ManagedNode:
    """The node after everything of it that is overdue has been judged; the same object when
    nothing is.  The progress deadline comes first (design rule 9).

    `not_run`: the executor has withdrawn the pending operation before it began."""
    if node.active_bootstrap is not None and progress_is_due(node, now):
        node = fail_progress(node, now, retry)
    pending = node.pending
    if pending is None or pending.deadline > now:
        return node
    error = EffectError(_timeout_reason(pending.kind, not_run), Disposition.AMBIGUOUS)
    return fold_failure(node, pending, replace(error, not_run=not_run), now, retry)


def _timeout_reason(kind: OperationKind, not_run: bool) -> str:
    if not_run:
        return f"{kind} was withdrawn: an earlier call of this attempt is still running"
    return f"{kind} had no answer within operation_timeout"

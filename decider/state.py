"""The observed state: one owner, the driver; all that a decision reads (spec §5.2).

Every value is frozen.  Only `ClusterState.nodes` is a live dict: it belongs to the driver alone,
and what is handed out is a copy of it.
"""

from datetime import datetime
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.messages import (
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeRecord,
    OperationId,
    OperationKind,
    SessionObservation,
)

ATTEMPT_ID_MAX = NodeAttemptId(2**64 - 1)
"""The allocator's end: an attempt id is handed out only while its successor can still be stored."""

FIRST_SEQUENCE = 1


class PendingOperation(Struct, frozen=True, gc=False):
    """An operation that was recorded before its effect was submitted (§14.7)."""

    id: OperationId
    kind: OperationKind
    deadline: datetime
    """Sampled and stored before dispatch; due when it is not later than now."""
    adopt_only: bool = False


class RetryState(Struct, frozen=True, gc=False):
    """Deadlines are sampled when something is folded, and only read by decisions (§4.8)."""

    consecutive_failures: int = 0
    """Only reaching ready resets it; it outlives a restart and is lost with the slot."""
    next_effect_at: datetime | None = None
    """No effect is dispatched before; any success clears it."""
    restart_at: datetime | None = None
    """Set by the attempt's one failure: a destroyed attempt is not replaced before."""
    last_error: str | None = None
    """The latest failure that counted; cleared by ready."""
    ambiguous_operation: OperationId | None = None
    """A create (while no lease is known) or a start (while one is) that may have had its effect.
    Only adoption or conclusive absence clears it."""
    ambiguous_since: datetime | None = None
    """When that operation was found ambiguous; set together with it."""
    last_error_attempt: NodeAttemptId | None = None
    """The attempt that `last_error` is of: it may be an earlier one."""


class ProgressWait(StrEnum):
    """What a node may wait for only so long (design rule 12)."""

    ENDPOINT = auto()
    JOIN = auto()


class ProgressDeadline(Struct, frozen=True, gc=False):
    """The end of the wait that the node is in.  Until a bootstrap session is known it is judged
    when a look-up or start is answered, from then on it is a wake-up of its own."""

    wait: ProgressWait
    deadline: datetime


class ManagedNode(Struct, frozen=True, gc=False):
    """One logical node: its current attempt, that attempt's facts, and what is under way."""

    attempt: NodeAttemptId
    intent: NodeIntent
    record: NodeRecord
    active_bootstrap: BootstrapSessionId | None = None
    """The session that can be addressed now; the facts in `record.bootstrap` may outlive it."""
    pending: PendingOperation | None = None
    """At most one; its id belongs to `attempt` and is below `next_operation_sequence`."""
    next_operation_sequence: int = FIRST_SEQUENCE
    retry: RetryState = RetryState()
    progress: ProgressDeadline | None = None
    """Only while active, unfailed and not ready."""
    kept: tuple[SessionObservation, ...] = ()
    """Observations of sessions that are not known yet, while a start is pending or ambiguous;
    folded with the session that they name, dropped with the ambiguity (design rule 10)."""
    ready_at: datetime | None = None
    failures_before_ready: int = 0
    """The count that `ready_at` reset: a node lost soon after goes on from it (design rule 7)."""
    deleting_since: datetime | None = None
    cancel_deadline: datetime | None = None
    """When a cancel that keeps failing gives way to DestroyLease (design rule 17)."""
    started_at: datetime | None = None
    """When this attempt was installed."""
    cancel_failures: int = 0
    """Failed cancels, and failed looks for an ambiguous start, of this deletion."""


class ClusterState(Struct, frozen=True, gc=False):
    """All that is observed of the cluster (§5.2)."""

    observed_generation: int = 0
    """The latest generation that a completed pass has evaluated; it says nothing of readiness."""
    next_attempt_id: NodeAttemptId = NodeAttemptId(1)
    """Only ever grows: an attempt id is never used twice."""
    nodes: dict[LogicalNodeId, ManagedNode] = {}


def has_ambiguous_create(node: ManagedNode) -> bool:
    """Whether a lease may exist that is not known."""
    return node.retry.ambiguous_operation is not None and node.record.lease is None


def has_ambiguous_start(node: ManagedNode) -> bool:
    """Whether a session may run, on the known lease, that is not known."""
    return node.retry.ambiguous_operation is not None and node.record.lease is not None


def is_live(node: ManagedNode) -> bool:
    """Whether the attempt still strives to become, or to stay, ready."""
    return node.intent is NodeIntent.ACTIVE and node.record.failed_at is None

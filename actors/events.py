"""What happened, in words: the difference between two values of a node (design §5).

Pure: nothing is logged or sent here.  An event is worth a line to a person; what merely passes
through the mailbox is not.
"""

from datetime import datetime
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeStage,
)


class EventKind(StrEnum):
    """What an event is about."""

    INSERTED = auto()
    DELETING = auto()
    DESTROYED = auto()
    RESTARTED = auto()
    REAPED = auto()
    STAGE = auto()
    READY = auto()
    FAILED = auto()
    """The attempt is over."""
    RETRY = auto()
    """An effect failed and will be tried again."""
    REFUSED = auto()
    """A message was stale or impossible, and ignored."""
    GENERATION = auto()
    CONVERGED = auto()
    DIVERGED = auto()
    OUTPUT = auto()
    """A line of a node's output."""
    WARNING = auto()
    DROPPED = auto()
    """The reader was too slow: so many events are missing here."""


class ClusterEvent(Struct, frozen=True, gc=False):
    """One thing that happened."""

    at: datetime
    kind: EventKind
    node: LogicalNodeId | None
    attempt: NodeAttemptId | None
    text: str


def node_events(
    node_id: LogicalNodeId, old: ManagedNode | None, new: ManagedNode | None, at: datetime
) -> list[ClusterEvent]:
    """The events between two values of one node, in the order a person would tell them."""
    if old is new:
        return []
    if new is None:
        assert old is not None, f"{node_id}: nothing became nothing"
        return [ClusterEvent(at, EventKind.REAPED, node_id, old.attempt, "gone")]
    if old is None or old.attempt != new.attempt:
        return [_begun(node_id, old, new, at)]
    if new.record is old.record and new.intent is old.intent and new.retry is old.retry:
        return []
    told = [*_turns(old, new), *_failures(old, new, at), *_progress(old, new)]
    return [ClusterEvent(at, kind, node_id, new.attempt, text) for kind, text in told]


def _begun(
    node_id: LogicalNodeId, old: ManagedNode | None, new: ManagedNode, at: datetime
) -> ClusterEvent:
    if old is None:
        return ClusterEvent(at, EventKind.INSERTED, node_id, new.attempt, "wanted")
    text = f"begins anew, after attempt {old.attempt}"
    return ClusterEvent(at, EventKind.RESTARTED, node_id, new.attempt, text)


def _turns(old: ManagedNode, new: ManagedNode) -> list[tuple[EventKind, str]]:
    told = []
    if new.intent is NodeIntent.DELETING and old.intent is NodeIntent.ACTIVE:
        told.append((EventKind.DELETING, "is being deleted"))
    if new.record.stage is NodeStage.DESTROYED and old.record.stage is not NodeStage.DESTROYED:
        told.append((EventKind.DESTROYED, "nothing of it is left"))
    return told


def _failures(old: ManagedNode, new: ManagedNode, at: datetime) -> list[tuple[EventKind, str]]:
    if new.record.failed_at is not None and old.record.failed_at is None:
        text = f"failed: {new.record.failed_reason}{_next_try(new.retry.restart_at, at)}"
        return [(EventKind.FAILED, text)]
    if new.retry.consecutive_failures > old.retry.consecutive_failures:
        text = f"{new.retry.last_error}{_next_try(new.retry.next_effect_at, at)}"
        return [(EventKind.RETRY, text)]
    return []


def _next_try(due: datetime | None, at: datetime) -> str:
    """A span and no time of day: readers live in other time zones than the state."""
    return "" if due is None else f", next try in {(due - at).total_seconds():.3g} s"


def _progress(old: ManagedNode, new: ManagedNode) -> list[tuple[EventKind, str]]:
    was, now = old.record, new.record
    if now.ready and not was.ready:
        return [(EventKind.READY, "ready")]
    told = []
    if now.stage is not was.stage and now.stage not in (NodeStage.FAILED, NodeStage.DESTROYED):
        told.append((EventKind.STAGE, now.stage.replace("_", " ")))
    if now.bootstrap is not None and (
        was.bootstrap is None or was.bootstrap.last_stage is not now.bootstrap.last_stage
    ):
        told.append((EventKind.STAGE, f"bootstrap: {now.bootstrap.last_stage.replace('_', ' ')}"))
    if was.lease is not None and now.lease is None:
        told.append((EventKind.STAGE, f"lease {was.lease.lease_id} is gone"))
    return told

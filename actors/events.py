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


# A member that is read from its enumeration costs ten times as much as a name of the module, and
# what follows is asked of every change of every node.
_FAILED, _RETRY = EventKind.FAILED, EventKind.RETRY
_STAGE, _READY = EventKind.STAGE, EventKind.READY
_DELETING, _ACTIVE = NodeIntent.DELETING, NodeIntent.ACTIVE
_DESTROYED, _ENDS = NodeStage.DESTROYED, (NodeStage.FAILED, NodeStage.DESTROYED)

NOTED = (_FAILED, _RETRY)
"""What a status tells as the node's latest failure."""


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
    told = [*_failures(old, new, at), *_progress(old, new)]
    if new.intent is not old.intent or new.record.stage is not old.record.stage:
        told[:0] = _turns(old, new)
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
    if new.intent is _DELETING and old.intent is _ACTIVE:
        told.append((EventKind.DELETING, "is being deleted"))
    if new.record.stage is _DESTROYED and old.record.stage is not _DESTROYED:
        told.append((EventKind.DESTROYED, "nothing of it is left"))
    return told


def _failures(old: ManagedNode, new: ManagedNode, at: datetime) -> list[tuple[EventKind, str]]:
    if new.record.failed_at is not None and old.record.failed_at is None:
        text = f"failed: {new.record.failed_reason}{_next_try(new.retry.restart_at, at)}"
        return [(_FAILED, text)]
    if new.retry.consecutive_failures > old.retry.consecutive_failures:
        text = f"{new.retry.last_error}{_next_try(new.retry.next_effect_at, at)}"
        return [(_RETRY, text)]
    return []


def _next_try(due: datetime | None, at: datetime) -> str:
    """A span and no time of day: readers live in other time zones than the state."""
    return "" if due is None else f", next try in {(due - at).total_seconds():.3g} s"


def _progress(old: ManagedNode, new: ManagedNode) -> list[tuple[EventKind, str]]:
    was, now = old.record, new.record
    if now.ready and not was.ready:
        return [(_READY, "ready")]
    told = []
    if now.stage is not was.stage and now.stage not in _ENDS:
        told.append((_STAGE, now.stage.replace("_", " ")))
    if now.bootstrap is not None and (
        was.bootstrap is None or was.bootstrap.last_stage is not now.bootstrap.last_stage
    ):
        told.append((_STAGE, f"bootstrap: {now.bootstrap.last_stage.replace('_', ' ')}"))
    if was.lease is not None and now.lease is None:
        told.append((_STAGE, f"lease {was.lease.lease_id} is gone"))
    return told

"""What is remembered of every message: one record, and a bounded ring of them for each actor.

Adding costs about a microsecond: nothing is formatted until somebody reads.  A story never shows
more of a message than `describe` picks from it, so nothing secret can stand in it.
"""

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from cluster_reconciler.actors.mailbox_words import described, one_line
from cluster_reconciler.messages import (
    AttemptIdentity,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeObserved,
    OperationFailed,
    OperationId,
    OperationSucceeded,
    PlannedEffect,
)

RING_CAPACITY = 10_000


class Correlation(NamedTuple):
    """What a message is about.  None: not about one node, attempt or operation."""

    node: LogicalNodeId | None = None
    attempt: NodeAttemptId | None = None
    operation: OperationId | None = None


class MailboxRecord(Struct, frozen=True, gc=False):
    """One handled message (design §5)."""

    sequence: int
    """Strictly grows over all actors of a system: the order in which handling began."""
    at: datetime
    actor: str
    message_type: str
    sender: str
    """The actor that told it; empty: from outside."""
    node: LogicalNodeId | None
    attempt: NodeAttemptId | None
    operation: OperationId | None
    depth: int
    """How many messages were still waiting behind it."""
    latency: float
    """Seconds from telling to handling; 0.0 where that is not known."""


def _of_nothing(_message: object) -> Correlation:
    return _NOTHING


def _of_observed(message: NodeObserved) -> Correlation:
    observation = message.observation
    if isinstance(observation, OperationSucceeded | OperationFailed):
        return Correlation(message.node, message.attempt, observation.operation)
    return Correlation(message.node, message.attempt)


def _of_operation(message: ExecutorResult | PlannedEffect) -> Correlation:
    return Correlation(message.node, message.operation.attempt, message.operation)


def _of_identity(message: object) -> Correlation:
    identity = getattr(message, "identity", None)
    return (
        Correlation(identity.node, identity.attempt)
        if isinstance(identity, AttemptIdentity)
        else _NOTHING
    )


def _of_effect(message: object) -> Correlation:
    effect = getattr(message, "effect", None)
    return _of_operation(effect) if isinstance(effect, PlannedEffect) else _NOTHING


_NOTHING = Correlation()
_READERS: dict[type, Callable[..., Correlation]] = {
    NodeObserved: _of_observed,
    ExecutorResult: _of_operation,
    PlannedEffect: _of_operation,
}
"""By message type; a type that is met for the first time adds its own reader."""


def correlate(message: object) -> Correlation:
    """The node, attempt and operation that the message is about.  A type that this project does not
    know is asked for a field `effect` (a `PlannedEffect`) or `identity` (an `AttemptIdentity`)."""
    kind = type(message)
    reader = _READERS.get(kind)
    if reader is None:
        fields = getattr(kind, "__struct_fields__", ())
        if "effect" in fields:
            reader = _of_effect
        else:
            reader = _of_identity if "identity" in fields else _of_nothing
        _READERS[kind] = reader
    try:
        return reader(message)
    except AttributeError:  # Malformed: its receiver will say so; the books must not fail over it.
        return _NOTHING


class RingEntry(Struct, frozen=True):
    """A handled message, or a note beside one."""

    at: datetime | None
    """None: a note that was written before any message came."""
    sequence: int
    """Of the message; a note has that of the message it stands beside, 0 before any."""
    node: LogicalNodeId | None
    attempt: NodeAttemptId | None
    operation: OperationId | None
    record: MailboxRecord | None
    """None: this is a note."""
    message: object
    """The message itself, or the note's text."""

    def __str__(self) -> str:
        time = "-" * 12 if self.at is None else self.at.strftime("%H:%M:%S.%f")[:-3]
        if self.record is None:
            return f"{time}     {one_line(str(self.message))}"
        about = _about(self.node, self.attempt)
        said = described(self.message)
        return f"{time} {self.record.message_type}{about}{': ' if said else ''}{said}"


def _entry_of(record: MailboxRecord, message: object) -> RingEntry:
    return RingEntry(
        record.at, record.sequence, record.node, record.attempt, record.operation, record, message
    )


def _about(node: LogicalNodeId | None, attempt: NodeAttemptId | None) -> str:
    if node is None:
        return ""
    return f" {node}" if attempt is None else f" {node} attempt {attempt}"


class Ring:
    """The latest entries of one actor, always on.  Safe for threads."""

    def __init__(self, capacity: int = RING_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"a ring needs a capacity of at least 1, found {capacity}")
        self._entries: deque[tuple[MailboxRecord, object] | RingEntry] = deque(maxlen=capacity)
        """Messages as they came, to be cheap; notes ready made."""
        self._lock = threading.Lock()
        self._added = 0
        self._latest: MailboxRecord | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def dropped(self) -> int:
        """How many entries have fallen out at the old end."""
        return self._added - len(self._entries)

    def add(self, record: MailboxRecord, message: object) -> None:
        """Remember a message; the oldest entry goes when the ring is full."""
        with self._lock:
            self._latest = record
            self._entries.append((record, message))
            self._added += 1

    def note(
        self,
        text: str,
        node: LogicalNodeId | None = None,
        attempt: NodeAttemptId | None = None,
        operation: OperationId | None = None,
        at: datetime | None = None,
    ) -> None:
        """Write a short text beside the latest message, such as why it was refused.  Only the time
        is that message's, unless it is given: what the note is about must be said, or it stands in
        no node's story."""
        with self._lock:
            beside = self._latest
            if beside is not None:
                at = at or beside.at
            sequence = 0 if beside is None else beside.sequence
            self._entries.append(RingEntry(at, sequence, node, attempt, operation, None, text))
            self._added += 1

    def entries(
        self,
        node: LogicalNodeId | None = None,
        attempt: NodeAttemptId | None = None,
        operation: OperationId | None = None,
    ) -> tuple[RingEntry, ...]:
        """What is remembered, oldest first: everything, or what matches all that is given."""
        with self._lock:
            kept = tuple(self._entries)
        entries = (e if isinstance(e, RingEntry) else _entry_of(*e) for e in kept)
        return tuple(
            entry
            for entry in entries
            if (node is None or entry.node == node)
            and (attempt is None or entry.attempt == attempt)
            and (operation is None or entry.operation == operation)
        )

    def story(
        self,
        node: LogicalNodeId | None = None,
        attempt: NodeAttemptId | None = None,
        operation: OperationId | None = None,
    ) -> tuple[str, ...]:
        """The same as lines for people: time, type, what, and the notes below."""
        return tuple(str(entry) for entry in self.entries(node, attempt, operation))

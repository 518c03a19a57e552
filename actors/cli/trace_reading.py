"""What the messages of a trace were and led to: the entries that `trace` shows, filtered.

The replay says what happened; here it is put into few words, one entry for one message.  Of the
past it keeps no more than which operations are in flight, so that a trace of any length streams.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.cli.trace_deletions import why_deleted
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.mailbox import correlate
from cluster_reconciler.actors.mailbox_words import described, one_line
from cluster_reconciler.actors.replay import NodeChange, Replayed
from cluster_reconciler.actors.trace import OpaqueMessage
from cluster_reconciler.decider import ExpandedShape
from cluster_reconciler.messages import (
    DeadlineDue,
    ExecutorResult,
    LogicalNodeId,
    NodeAttemptId,
    NodeObserved,
    OperationFailed,
    OperationId,
    OperationKind,
    OperationSucceeded,
    RunPass,
    SafetyTick,
    Trigger,
    is_adopt_only,
    kind_of,
)

IN_FLIGHT_MAX = 100_000
"""Operations whose start is remembered; beyond, the oldest are forgotten, and their times."""

OF_OPERATIONS = frozenset({"dispatched", "expired", "withdrawn"})
"""The changes that are an operation's own."""

_OPERATION = re.compile(r"(?:op)?\(?\s*(\d{1,20})\s*,\s*(\d{1,20})\s*\)?", re.IGNORECASE)


class Change(Struct, frozen=True, gc=False):
    """One thing that a message led to."""

    what: str
    """`dispatched`, `expired`, `withdrawn`, or the kind of an event: `stage`, `ready`, `failed`,
    `retry`, `refused`, `inserted`, `deleting`, `destroyed`, `restarted`, `reaped`, `generation`,
    `converged`, `diverged`, `warning`."""
    node: LogicalNodeId | None = None
    attempt: NodeAttemptId | None = None
    operation: str | None = None
    """Such as `op(3,1)`: what was dispatched or ended, or whose expiry this is a consequence of."""
    kind: OperationKind | None = None
    """Of that operation."""
    text: str = ""
    """In words; an operation that only looks for what there is says `adopt only`."""
    seconds: float | None = None
    """Of an operation that ended here: how long ago it was dispatched."""


class Entry(Struct, frozen=True, gc=False, tag="message", tag_field="type"):
    """One message and what it led to; with `--json` one object a line."""

    sequence: int
    """The order in which messages were handled; numbers may be left out."""
    at: datetime
    message: str
    """Its type: `UpdateDesired`, `Drain`, `ExecutorResult`, `NodeObserved`, `RunPass`, ..."""
    node: LogicalNodeId | None = None
    """What it is about; null: not about one node, attempt or operation."""
    attempt: NodeAttemptId | None = None
    operation: str | None = None
    kind: OperationKind | None = None
    """Of that operation, where it is known."""
    ok: bool | None = None
    """Of a result: whether the operation succeeded."""
    seconds: float | None = None
    """Of a result: how long after its dispatch it came."""
    text: str = ""
    """What it says, in words."""
    refused: str | None = None
    """Why it was ignored."""
    changes: tuple[Change, ...] = ()

    @property
    def is_idle(self) -> bool:
        """It says nothing of the cluster, and led to nothing."""
        return self.message in _SILENT and not self.changes and self.refused is None


_SILENT = frozenset(
    {kind.__name__ for kind in (DeadlineDue, RunPass, SafetyTick, Trigger)}
    | {"StatusQuery", "NoneType"}
)


class Flight(Struct, frozen=True, gc=False):
    """An operation that was dispatched."""

    at: datetime
    kind: OperationKind


class Reader:
    """Makes entries of what was replayed."""

    def __init__(self) -> None:
        self._flights: dict[OperationId, Flight] = {}

    def entry(self, replayed: Replayed, desired: ExpandedShape) -> Entry:
        """The message and what it led to; `desired`: what is asked for after it."""
        line = replayed.line
        message = line.message
        entry = Entry(line.sequence, line.at, type(message).__name__)
        if isinstance(message, OpaqueMessage):
            return replace(entry, message=message.message_type)
        if isinstance(message, ExecutorResult | NodeObserved):
            entry = self._observed(entry, message)
        else:
            entry = replace(entry, text=described(message))
        changes = tuple(self._changes(replayed, entry.text, desired))
        refused = None
        if changes and changes[0].what == "refused" and not isinstance(message, RunPass):
            refused, changes = _reason(changes[0].text), changes[1:]
        if replayed.raised is not None:
            changes = (*changes, Change("warning", text=f"a defect: {replayed.raised}"))
        return replace(entry, refused=refused, changes=changes)

    def _observed(self, entry: Entry, message: ExecutorResult | NodeObserved) -> Entry:
        about = correlate(message)
        text = described(message)
        entry = replace(entry, node=about.node, attempt=about.attempt, text=text)
        operation = about.operation
        if operation is None:
            return entry
        flight = self._flights.pop(operation, None)
        return replace(
            entry,
            operation=str(operation),
            kind=flight.kind if flight is not None else None,
            ok=_succeeded(message),
            seconds=_seconds(flight, entry.at),
            text=text.removeprefix(f"{operation} "),
        )

    def _changes(self, replayed: Replayed, said: str, desired: ExpandedShape) -> Iterator[Change]:
        """`said`: what the message says, and need not be said again."""
        now = replayed.line.at
        by_node = {change.node: change for change in replayed.changes}
        for operation in replayed.expired:
            yield self._ended("expired", operation, by_node, now, keep=True)
        for operation in replayed.withdrawn:
            if operation not in replayed.expired:
                yield self._ended("withdrawn", operation, by_node, now, keep=False)
        for effect in replayed.effects:
            kind = kind_of(effect.command)
            self._take_off(effect.operation, Flight(now, kind))
            yield Change(
                "dispatched",
                effect.node,
                effect.operation.attempt,
                str(effect.operation),
                kind,
                "adopt only" if is_adopt_only(effect.command) else "",
            )
        for event in replayed.events:
            change = by_node.get(event.node) if event.node is not None else None
            yield _happened(event, change, said, replayed.expired, desired)

    def _take_off(self, operation: OperationId, flight: Flight) -> None:
        if len(self._flights) >= IN_FLIGHT_MAX:
            del self._flights[next(iter(self._flights))]
        self._flights[operation] = flight

    def _ended(
        self,
        what: str,
        operation: OperationId,
        by_node: dict[LogicalNodeId, NodeChange],
        now: datetime,
        *,
        keep: bool,
    ) -> Change:
        """`keep`: its result may still come, and say how late it is."""
        flight = self._flights.get(operation)
        if flight is not None and not keep:
            del self._flights[operation]
        node = next(
            (
                change.node
                for change in by_node.values()
                if change.before is not None and change.before.attempt == operation.attempt
            ),
            None,
        )
        kind = flight.kind if flight is not None else None
        seconds = _seconds(flight, now)
        return Change(what, node, operation.attempt, str(operation), kind, "", seconds)


def _happened(
    event: ClusterEvent,
    change: NodeChange | None,
    said: str,
    expired: tuple[OperationId, ...],
    desired: ExpandedShape,
) -> Change:
    text, operation = event.text, None
    if event.kind in (EventKind.FAILED, EventKind.RETRY) and change is not None:
        text = _consequence(event, change, said)
        pending = change.before.pending if change.before is not None else None
        if pending is not None and pending.id in expired:
            operation = str(pending.id)
    if event.kind is EventKind.DELETING and change is not None:
        why = why_deleted(change, desired)
        text = f"{text}, {why}" if why else text
    return Change(event.kind.value, event.node, event.attempt, operation, text=text)


def _consequence(event: ClusterEvent, change: NodeChange, said: str) -> str:
    """What follows from a failure, and why it failed unless the message says that."""
    after = change.after
    if after is None:
        return event.text
    count = after.retry.consecutive_failures
    row = f" (failure {count} in a row)" if count > 1 else ""
    if event.kind is EventKind.FAILED:
        words, reason = "the attempt is over", after.record.failed_reason
        wait = _next_try(after.retry.restart_at, event.at)
    else:
        words, reason = "", after.retry.last_error
        wait = _next_try(after.retry.next_effect_at, event.at)
    core = (reason or "").partition(": ")[2] or (reason or "")
    why = "" if not reason or one_line(core) in said else f": {reason}"
    told = f"{words}{wait}{row}{why}".removeprefix(", ")
    return told or "tried again"


def _next_try(due: datetime | None, at: datetime) -> str:
    return "" if due is None else f", next try in {(due - at).total_seconds():.3g} s"


def _reason(text: str) -> str:
    """The words of a refusal without what the line says anyhow."""
    _, found, reason = text.partition(" refused, ")
    return (reason if found else text).removeprefix("shape refused: ")


def _succeeded(message: ExecutorResult | NodeObserved) -> bool | None:
    if isinstance(message, ExecutorResult):
        return message.error is None and message.outcome is not None
    if isinstance(message.observation, OperationSucceeded | OperationFailed):
        return isinstance(message.observation, OperationSucceeded)
    return None


def _seconds(flight: Flight | None, now: datetime) -> float | None:
    return None if flight is None else round((now - flight.at).total_seconds(), 6)


class Filter(Struct, frozen=True):
    """Which entries are shown: those that match everything that is given."""

    node: str | None = None
    attempt: int | None = None
    operation: OperationId | None = None

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return self != _EVERYTHING

    def kept(self, entry: Entry) -> Entry | None:
        """The entry with what concerns the filter; None: nothing does."""
        if not self:
            return entry
        if self.matches(entry):
            return entry
        changes = tuple(change for change in entry.changes if self.matches(change))
        return replace(entry, changes=changes) if changes else None

    def matches(self, said: Entry | Change) -> bool:
        """Whether it is about what is wanted."""
        return (
            (self.node is None or said.node == self.node)
            and (self.attempt is None or said.attempt == self.attempt)
            and (self.operation is None or said.operation == str(self.operation))
        )


_EVERYTHING = Filter()


def read_operation(text: str) -> OperationId:
    """`op(3,1)` or `3,1`.  Raises ValueError with what was expected."""
    found = _OPERATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected an operation such as op(3,1) or 3,1")
    return OperationId(NodeAttemptId(int(found[1])), int(found[2]))

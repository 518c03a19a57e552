"""The record of every operation: its input, and its outcome once there is one (design rule 26).

It only remembers.  It calls nobody, knows no clock, and is guarded by the lock of its owner.
"""

from bisect import bisect_right
from datetime import datetime
from enum import Enum

from msgspec import Struct

from cluster_reconciler.messages import (
    AttemptIdentity,
    Disposition,
    EffectError,
    ExecutorResult,
    NodeAttemptId,
    OperationId,
    OperationKind,
    PlannedEffect,
    kind_of,
)

RECORDS_KEPT = 32
"""Answered operations that are remembered for one attempt.  An attempt may probe its endpoint, or
be refused a lease, for days; the driver repeats none but the latest."""


class SubmissionRefused(Exception):
    """The effect was not taken and never will be carried out; `reason` says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OperationState(Enum):
    """How far an operation has come."""

    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    """It never began and never will."""


class RecordedOperation(Struct):
    """One operation."""

    effect: PlannedEffect
    state: OperationState = OperationState.WAITING
    expired: bool = False
    """The driver waits for it no more."""
    began_at: datetime | None = None
    result: ExecutorResult | None = None
    """Set exactly when it is answered or withdrawn."""

    def never_ran(self, reason: str) -> ExecutorResult:
        """Record, and answer, that it never began: an ordinary retry (design rule 25)."""
        effect = self.effect
        error = EffectError(reason, Disposition.DEFINITE, not_run=True)
        self.state = OperationState.WITHDRAWN
        self.result = ExecutorResult(effect.node, effect.operation, error=error)
        return self.result


class RunningOperation(Struct, frozen=True):
    """An operation that has begun and has no answer yet, for people."""

    identity: AttemptIdentity
    operation: OperationId
    kind: OperationKind
    since: datetime | None

    def __str__(self) -> str:
        since = f", since {self.since.isoformat(timespec='seconds')}" if self.since else ""
        return f"{self.kind} {self.operation} ({self.identity}{since})"


class OperationLedger:
    """The operations of one attempt, the latest ones."""

    def __init__(self, kept: int = RECORDS_KEPT) -> None:
        if kept < 1:
            raise ValueError(f"at least 1 operation must be kept, found kept={kept}")
        self._kept = kept
        self._records: dict[int, RecordedOperation] = {}
        """By sequence, in the order in which they were submitted."""
        self._forgotten_up_to = 0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, operation: OperationId) -> RecordedOperation | None:
        """What is recorded under this id."""
        return self._records.get(operation.sequence)

    def repeated(self, effect: PlannedEffect) -> RecordedOperation | None:
        """The record of this very effect if it was submitted before.

        Raises:
            SubmissionRefused: its id was used for another effect, or is too old to tell.
        """
        record = self.get(effect.operation)
        if record is None:
            if effect.operation.sequence <= self._forgotten_up_to:
                raise SubmissionRefused(
                    f"{effect.operation} of node {effect.node} is too old: outcomes up to sequence "
                    f"{self._forgotten_up_to} are forgotten; use a new sequence"
                )
            return None
        if record.effect != effect:
            was, found = kind_of(record.effect.command), kind_of(effect.command)
            raise SubmissionRefused(
                f"{effect.operation} of node {effect.node} was submitted before with other input "
                f"({was} then, {found} now); use a new sequence for a new effect"
            )
        return record

    def enter(self, effect: PlannedEffect) -> RecordedOperation:
        """Record a new operation; the oldest answered ones beyond the limit are forgotten."""
        record = RecordedOperation(effect)
        self._records[effect.operation.sequence] = record
        for sequence in list(self._records)[: max(0, len(self._records) - self._kept)]:
            if self._records[sequence].result is not None:
                del self._records[sequence]
                self._forgotten_up_to = max(self._forgotten_up_to, sequence)
        return record

    def strike(self, record: RecordedOperation) -> None:
        """Forget an operation that was not taken after all: it may be submitted anew."""
        self._records.pop(record.effect.operation.sequence, None)


class RetiredAttempts:
    """Which attempts are over, as spans of ids.  Ids are handed out in order and each is retired
    once, so that there are never more spans than live attempts and one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Inclusive; the spans are disjoint, apart by one at least, and in order."""

    @property
    def spans(self) -> int:
        """How many spans it takes to remember them."""
        return len(self._starts)

    def __contains__(self, attempt: NodeAttemptId) -> bool:
        at = bisect_right(self._starts, attempt) - 1
        return at >= 0 and attempt <= self._ends[at]

    def add(self, attempt: NodeAttemptId) -> None:
        """Remember one more."""
        if attempt in self:
            return
        at = bisect_right(self._starts, attempt)
        touches_left = at > 0 and self._ends[at - 1] == attempt - 1
        touches_right = at < len(self._starts) and self._starts[at] == attempt + 1
        if touches_left and touches_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif touches_left:
            self._ends[at - 1] = attempt
        elif touches_right:
            self._starts[at] = attempt
        else:
            self._starts.insert(at, attempt)
            self._ends.insert(at, attempt)

"""Gathers what one message of the driver led to, and gives it to the trace as one line.

Told by the driver's host, in the driver's thread.  What cannot be put into the trace costs the
trace its line's digest, and the driver nothing.
"""

from datetime import datetime
from typing import Protocol

from loguru import logger

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.ports import Asked, StatusQuery, UpdateRetry
from cluster_reconciler.actors.trace import ExecutorCall, SubmitAnswer
from cluster_reconciler.actors.trace_marks import (
    EffectMark,
    NodeMarks,
    PlanMark,
    effect_mark,
    plan_mark,
    state_digest,
    state_marks,
)
from cluster_reconciler.messages import (
    Drain,
    ExecutorResult,
    OperationId,
    PlannedEffect,
    RunPass,
    UpdateDesired,
)

RAISED_LENGTH_MAX = 500


class TraceSink(Protocol):
    """Takes one line for each message; `TraceWriter` is one."""

    def write(
        self,
        record: MailboxRecord,
        message: object,
        answers: tuple[SubmitAnswer, ...] = (),
        state_digest: str = "",
        *,
        nodes: NodeMarks | None = None,
        plan: PlanMark | None = None,
        raised: str | None = None,
    ) -> None:
        """See `TraceWriter.write`."""


class TraceRecording:
    """Of one driver, into one trace."""

    def __init__(self, writer: TraceSink) -> None:
        self._writer = writer
        self._answers: list[SubmitAnswer] = []
        self._submitted: list[EffectMark] = []
        self._wake_at: datetime | None = None

    def submitted(
        self,
        effect: PlannedEffect,
        answer: ExecutorResult | None = None,
        error: Exception | None = None,
    ) -> None:
        """The executor was handed an effect, and answered this or raised that."""
        checksum = None
        try:
            mark = effect_mark(effect)
            checksum = mark.sum
            self._submitted.append(mark)
        except Exception as failed:  # noqa: BLE001 - a trace must not harm what it traces
            logger.error("trace: the effect {} has no digest: {!r}", effect.operation, failed)
        raised = None if error is None else str(error) or type(error).__name__
        self._answers.append(
            SubmitAnswer(effect.operation, answer, raised, ExecutorCall.SUBMIT, False, checksum)
        )

    def asked(
        self,
        call: ExecutorCall,
        operation: OperationId,
        *,
        withdrawn: bool = False,
        error: Exception | None = None,
    ) -> None:
        """The executor was asked to withdraw or expire, and answered this or raised that."""
        raised = None if error is None else str(error) or type(error).__name__
        self._answers.append(SubmitAnswer(operation, raised=raised, call=call, withdrawn=withdrawn))

    def woken_at(self, moment: datetime | None) -> None:
        """The driver has set its timer."""
        self._wake_at = moment

    def handled(
        self, record: MailboxRecord, message: object, driver: Driver, raised: str | None
    ) -> None:
        """The message is handled: its line."""
        answers, submitted, wake_at = self._answers, self._submitted, self._wake_at
        if answers:
            self._answers, self._submitted = [], []
        self._wake_at = None
        if isinstance(message, Asked):
            if isinstance(message.message, StatusQuery):
                return  # It changes nothing, and a live view asks several times a second.
            message = _told(message)
        fingerprint, nodes, plan = "", None, None
        try:
            if driver.touched:
                fingerprint, nodes = state_marks(driver.state, driver.touched)
            else:
                fingerprint = state_digest(driver.state, ())
            if type(message) is RunPass and (latest := driver.planning.latest) is not None:
                plan = plan_mark(latest, submitted, wake_at, driver.planning.waiting)
        except Exception as error:  # noqa: BLE001 - a trace must not harm what it traces
            logger.error("trace: the state after message {} has no digest: {!r}", record, error)
        if raised is not None:
            raised = raised[:RAISED_LENGTH_MAX]
        self._writer.write(
            record, message, tuple(answers), fingerprint, nodes=nodes, plan=plan, raised=raised
        )


def _told(asked: Asked) -> object:
    """What the driver was told by a question; None: nothing that it acted on."""
    # A question that was given up before its turn changed nothing, nor did one without an answer.
    if asked.reply.cancelled() or not isinstance(
        asked.message, UpdateDesired | UpdateRetry | Drain
    ):
        return None
    return asked.message

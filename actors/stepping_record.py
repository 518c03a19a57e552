"""A stepped driver whose every message can be recorded, and whose clock can jump.

What is recorded is what the trace file of a real run holds, by the same hands.  `sleep` is what a
suspended machine does to a driver: all that was due meanwhile is due at once.  It decides and folds
nothing: see `stepping`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.stepping import DEFAULT_START, SteppingCluster
from cluster_reconciler.actors.trace import ExecutorCall
from cluster_reconciler.actors.trace_recording import TraceRecording, TraceSink
from cluster_reconciler.decider import RetryPolicy, later
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.messages import (
    ClusterShape,
    ExecutorResult,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)


class WithdrawingExecutor(Protocol):
    """An executor with all that the driver may ask; `Executors` is one."""

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        """See `ports.Executor`."""

    def withdraw(self, operation: OperationId) -> bool:
        """See `Executors.withdraw`."""

    def expire(self, operation: OperationId) -> bool:
        """See `Executors.expire`."""

    def retire(self, attempt_id: NodeAttemptId) -> None:
        """See `Executors.retire`."""


class _Overheard:
    """Stands between driver and executor, as the host of production does, and tells the recording
    what was asked and answered."""

    def __init__(self, executor: WithdrawingExecutor) -> None:
        self._executor = executor
        self.retire = executor.retire
        self.recording: TraceRecording | None = None

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        answer: ExecutorResult | None = None
        error: Exception | None = None
        try:
            answer = self._executor.submit(effect)
            return answer
        except Exception as failed:
            error = failed
            raise
        finally:
            if self.recording is not None:
                self.recording.submitted(effect, answer, error)

    def withdraw(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.WITHDRAW, self._executor.withdraw, operation)

    def expire(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.EXPIRE, self._executor.expire, operation)

    def _asked(
        self, call: ExecutorCall, ask: Callable[[OperationId], bool], operation: OperationId
    ) -> bool:
        withdrawn = False
        error: Exception | None = None
        try:
            withdrawn = ask(operation)
            return withdrawn
        except Exception as failed:
            error = failed
            raise
        finally:
            if self.recording is not None:
                self.recording.asked(call, operation, withdrawn=withdrawn, error=error)


class RecordedCluster(SteppingCluster):
    """See the module."""

    def __init__(
        self,
        shape: ClusterShape,
        executor: WithdrawingExecutor,
        *,
        retry: RetryPolicy | None = None,
        start: datetime = DEFAULT_START,
        safety_tick: timedelta | float | None = None,
        first_attempt: int = 1,
    ) -> None:
        """See `SteppingCluster`."""
        self._overheard = _Overheard(executor)
        super().__init__(
            shape,
            retry=retry,
            start=start,
            executor=self._overheard,
            safety_tick=safety_tick,
            first_attempt=first_attempt,
        )
        self.handled = 0
        """How many messages the driver has handled."""
        self.after_message: Callable[[object], None] | None = None
        """Called after each message that was handled, defects and all."""

    def record(self, sink: TraceSink) -> None:
        """From now on each message that is handled goes there, as a real run's goes into its trace:
        to a `TraceWriter`, and `replay` reads it."""
        self._overheard.recording = recording = TraceRecording(sink)
        self._world.woken = recording.woken_at

    @property
    def clock(self) -> ManualClock:
        """The one that is stepped."""
        return self._world.clock

    @property
    def depth(self) -> int:
        """How many messages wait in the mailbox."""
        return self._actor.depth

    @property
    def wake_at(self) -> datetime | None:
        """When the driver has asked to be woken; None: not at all, or it has just been."""
        return self._world.wake

    def sleep(self, seconds: float | timedelta) -> None:
        """The clock jumps; what was due meanwhile is told once, and nothing is handled yet."""
        self._refuse_reentry()
        self._world.clock.set(later(self.now, duration("seconds", seconds)))
        self._fire(self.now)

    def lose_wake(self) -> bool:
        """The timer of the next deadline is lost: only a message or the safety tick leads on.
        False: there was none."""
        lost, self._world.wake = self._world.wake is not None, None
        return lost

    def _after(self, message: object) -> None:
        self.handled += 1
        recording, record = self._overheard.recording, self._actor.record
        if recording is not None and record is not None:
            recording.handled(record, message, self._driver, self._actor.raised)
        if self.after_message is not None:
            self.after_message(message)

"""A stepped driver whose every message can be recorded, and whose clock can jump.

`trace` is given what the trace file of a real run holds for each message, so that the same readers
read it (`TraceWriter.write` fits).  `sleep` is what a suspended machine does to a driver: all that
was due meanwhile is due at once.  It decides and folds nothing: see `stepping`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.stepping import DEFAULT_START, SteppingCluster
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.trace import ExecutorCall, SubmitAnswer
from cluster_reconciler.actors.trace_marks import state_digest
from cluster_reconciler.decider import RetryPolicy, later
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.messages import (
    ClusterShape,
    ExecutorResult,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
    RunPass,
)

TraceSink = Callable[[MailboxRecord, object, tuple[SubmitAnswer, ...], str], None]
"""What one handled message leaves: its record, itself, what the executor answered meanwhile, and
the fingerprint of the state after it."""


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


class _Answers:
    """Stands between driver and executor, and remembers what was answered."""

    def __init__(self, executor: WithdrawingExecutor) -> None:
        self._executor = executor
        self.retire = executor.retire
        self.given: list[SubmitAnswer] = []

    def submit(self, effect: PlannedEffect) -> ExecutorResult | None:
        try:
            answer = self._executor.submit(effect)
        except Exception as error:
            raised = str(error) or type(error).__name__
            self.given.append(SubmitAnswer(effect.operation, raised=raised))
            raise
        self.given.append(SubmitAnswer(effect.operation, result=answer))
        return answer

    def withdraw(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.WITHDRAW, operation, self._executor.withdraw(operation))

    def expire(self, operation: OperationId) -> bool:
        return self._asked(ExecutorCall.EXPIRE, operation, self._executor.expire(operation))

    def _asked(self, call: ExecutorCall, operation: OperationId, withdrawn: bool) -> bool:
        self.given.append(SubmitAnswer(operation, call=call, withdrawn=withdrawn))
        return withdrawn


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
        self._answers = _Answers(executor)
        super().__init__(
            shape,
            retry=retry,
            start=start,
            executor=self._answers,
            safety_tick=safety_tick,
            first_attempt=first_attempt,
        )
        self.handled = 0
        """How many messages the driver has handled."""
        self.trace: TraceSink | None = None
        self.after_message: Callable[[object], None] | None = None
        """Called after each message that was handled, defects and all."""
        system = ActorSystem("recorded", self._world.clock, ticks=lambda: 0.0)
        self._actor = DriverActor(system, self._driver, self._after)
        self._world.note, self._world.tell = self._actor.note, self._actor.tell
        self._actor.tell(RunPass())  # The one that the superclass has queued, in its own mailbox.

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
        if self.after_message is not None:
            self.after_message(message)
        answers, self._answers.given = tuple(self._answers.given), []
        if self.trace is None or self._actor.record is None:
            return
        state = self._driver.state
        fingerprint = state_digest(state, self._driver.touched)
        self.trace(self._actor.record, message, answers, fingerprint)

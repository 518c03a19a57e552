"""What surrounds the driver in production: timers, events, the log, the trace (design §5).

Called in the driver's thread, by the driver; it folds nothing and decides nothing.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from loguru import logger

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.log_folding import LogFolding
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.timers import Timers
from cluster_reconciler.actors.trace import ExecutorCall, TraceWriter
from cluster_reconciler.actors.trace_recording import TraceRecording
from cluster_reconciler.decider import ReconcilePlan
from cluster_reconciler.executors import Executors
from cluster_reconciler.messages import (
    AttemptIdentity,
    DeadlineDue,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)

_LEVELS = {
    EventKind.FAILED: "WARNING",
    EventKind.RETRY: "WARNING",
    EventKind.WARNING: "WARNING",
    EventKind.REFUSED: "DEBUG",
    EventKind.OUTPUT: "DEBUG",
}
"""INFO otherwise."""


class PassNews:
    """The latest pass's result, for those who wait.  Safe for threads."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.generation = 0
        self.converged = False
        self.death: str | None = None
        self.closed = False

    def publish(self, generation: int, converged: bool) -> None:
        """A pass is complete."""
        if (generation, converged) == (self.generation, self.converged):
            return  # Only this thread changes them, and nobody waits for the same again.
        with self.changed:
            self.generation, self.converged = generation, converged
            self.changed.notify_all()

    def die(self, reason: str) -> None:
        """There will be no further pass, and nobody wanted that."""
        with self.changed:
            self.death = self.death or reason
            self.changed.notify_all()

    def close(self) -> None:
        """There will be no further pass."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class RuntimeHost:
    """Implements `DriverHost`, and stands between the driver and the executors to trace."""

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        subscriptions: Subscriptions,
        attempt_over: Callable[[AttemptIdentity], None],
        stable_after: timedelta,
    ) -> None:
        self.news = PassNews()
        self._clock = clock
        self._timers = timers
        self._subscriptions = subscriptions
        self._attempt_over = attempt_over
        self._folding = LogFolding(stable_after)
        self._sent: dict[NodeAttemptId, tuple[OperationId, datetime]] = {}
        """What was submitted last of each attempt, and when."""
        self._woken_at: datetime | None = None
        """What the timer is set to."""
        self._actor: DriverActor | None = None
        self._driver: Driver | None = None
        self._executors: Executors | None = None
        self._recording: TraceRecording | None = None

    def connect(
        self,
        actor: DriverActor,
        driver: Driver,
        executors: Executors,
        trace: TraceWriter | None,
    ) -> None:
        """Once, before the actor starts: these need the host to be made."""
        self._actor, self._driver, self._executors = actor, driver, executors
        self._recording = TraceRecording(trace) if trace is not None else None

    # -- for the driver ---------------------------------------------------------------------------

    def now(self) -> datetime:
        """The runtime's time, read once for each message: so it stands in the trace, and whoever
        replays that gets the same state."""
        record = self._actor.record if self._actor is not None else None
        return record.at if record is not None else self._clock.now()

    def tell_driver(self, message: object) -> None:
        """Into the driver's own mailbox."""
        assert self._actor is not None, "the host is not connected"
        self._actor.tell(message)

    def wake_at(self, moment: datetime | None) -> None:
        """One timer: the earliest deadline."""
        if self._recording is not None:
            self._recording.woken_at(moment)
        if moment == self._woken_at:
            return  # Most passes change nothing of it, and the timers' thread need not know.
        self._woken_at = moment
        if moment is None:
            self._timers.cancel("deadline")
        else:
            self._timers.schedule("deadline", moment, self._deadline_has_come)

    def _deadline_has_come(self) -> None:
        """In the timers' thread.  The same moment may be asked for again from now on: should it be
        asked for in this very instant, then the message brings a pass that asks once more."""
        self._woken_at = None
        self.tell_driver(DeadlineDue())

    def happened(self, event: ClusterEvent) -> None:
        """Into the story, to the readers, and into the log when it is worth a line."""
        if self._actor is not None:
            self._actor.note(event)
        self._subscriptions.publish(event)
        self._log(event)

    def pass_done(self, plan: ReconcilePlan, converged: bool) -> None:
        """Wake those who wait for convergence."""
        self._log_pass(plan)
        self.news.publish(plan.observed_generation, converged)

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """The swarm must not listen to it any more."""
        self._attempt_over(identity)

    def _log(self, event: ClusterEvent) -> None:
        text = self._folding.line(event)
        if text is None:
            return
        about = f"{event.node} (attempt {event.attempt}): " if event.node is not None else ""
        level = _LEVELS.get(event.kind, "INFO")
        logger.log(level, "{}{}", about, text, node=event.node, attempt=event.attempt)

    def _log_pass(self, plan: ReconcilePlan) -> None:
        """One line for a pass that acts."""
        if not plan.actions:
            return
        kinds: dict[str, int] = {}
        for action in plan.actions:
            kind = type(action).__name__
            kinds[kind] = kinds.get(kind, 0) + 1
        said = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        line = self._folding.pass_line(said, self.now())
        if line is not None:
            logger.info("pass, generation {}: {}", plan.observed_generation, line)

    # -- for the driver, as its executor ----------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> None:
        """To the executors; what they answered is part of the trace."""
        assert self._executors is not None, "the host is not connected"
        try:
            self._executors.submit(effect)
        except Exception as error:
            if self._recording is not None:
                self._recording.submitted(effect, error=error)
            raise
        self._sent[effect.operation.attempt] = effect.operation, self.now()
        if self._recording is not None:
            self._recording.submitted(effect)

    def withdraw(self, operation: OperationId) -> bool:
        """See `Executors.withdraw`."""
        assert self._executors is not None, "the host is not connected"
        return self._asked(ExecutorCall.WITHDRAW, operation, self._executors.withdraw)

    def expire(self, operation: OperationId) -> bool:
        """See `Executors.expire`."""
        assert self._executors is not None, "the host is not connected"
        return self._asked(ExecutorCall.EXPIRE, operation, self._executors.expire)

    def _asked(
        self, call: ExecutorCall, operation: OperationId, ask: Callable[[OperationId], bool]
    ) -> bool:
        """What was answered, or raised, is part of the trace."""
        try:
            withdrawn = ask(operation)
        except Exception as error:
            if self._recording is not None:
                self._recording.asked(call, operation, error=error)
            raise
        if self._recording is not None:
            self._recording.asked(call, operation, withdrawn=withdrawn)
        return withdrawn

    def retire(self, attempt: NodeAttemptId) -> None:
        """See `Executors.retire`."""
        assert self._executors is not None, "the host is not connected"
        self._sent.pop(attempt, None)
        self._executors.retire(attempt)

    def sent(self) -> dict[OperationId, timedelta]:
        """How long ago each attempt's latest operation was submitted; from any thread."""
        now = self._clock.now()
        return {operation: now - at for operation, at in tuple(self._sent.values())}

    # -- for the actor ----------------------------------------------------------------------------

    def handled(self, message: object) -> None:
        """After each message: a line of the trace."""
        recording, driver, actor = self._recording, self._driver, self._actor
        if recording is None or driver is None or actor is None or actor.record is None:
            return
        recording.handled(actor.record, message, driver, actor.raised)

"""What surrounds the driver in production: timers, events, the log, the trace (design §5).

Called in the driver's thread, by the driver; it folds nothing and decides nothing.
"""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from loguru import logger

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.log_folding import LogFolding
from cluster_reconciler.actors.ports import Asked, StatusQuery
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.timers import Timers
from cluster_reconciler.actors.trace import ExecutorCall, SubmitAnswer, TraceWriter, digest
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
        self._answers: list[SubmitAnswer] = []
        self._sent: dict[NodeAttemptId, tuple[OperationId, datetime]] = {}
        """What was submitted last of each attempt, and when."""
        self._actor: DriverActor | None = None
        self._driver: Driver | None = None
        self._executors: Executors | None = None
        self._trace: TraceWriter | None = None

    def connect(
        self,
        actor: DriverActor,
        driver: Driver,
        executors: Executors,
        trace: TraceWriter | None,
    ) -> None:
        """Once, before the actor starts: these need the host to be made."""
        self._actor, self._driver, self._executors = actor, driver, executors
        self._trace = trace

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
        if moment is None:
            self._timers.cancel("deadline")
        else:
            self._timers.schedule("deadline", moment, lambda: self.tell_driver(DeadlineDue()))

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
        logger.bind(node=event.node, attempt=event.attempt).log(level, "{}{}", about, text)

    def _log_pass(self, plan: ReconcilePlan) -> None:
        """One line for a pass that acts."""
        if not plan.actions:
            return
        kinds = Counter(type(action).__name__ for action in plan.actions)
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
            self._answers.append(
                SubmitAnswer(effect.operation, raised=str(error) or type(error).__name__)
            )
            raise
        self._sent[effect.operation.attempt] = effect.operation, self.now()
        self._answers.append(SubmitAnswer(effect.operation))

    def withdraw(self, operation: OperationId) -> bool:
        """See `Executors.withdraw`."""
        assert self._executors is not None, "the host is not connected"
        withdrawn = self._executors.withdraw(operation)
        answer = SubmitAnswer(operation, call=ExecutorCall.WITHDRAW, withdrawn=withdrawn)
        self._answers.append(answer)
        return withdrawn

    def expire(self, operation: OperationId) -> bool:
        """See `Executors.expire`."""
        assert self._executors is not None, "the host is not connected"
        withdrawn = self._executors.expire(operation)
        answer = SubmitAnswer(operation, call=ExecutorCall.EXPIRE, withdrawn=withdrawn)
        self._answers.append(answer)
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
        answers, self._answers = tuple(self._answers), []
        trace, driver, actor = self._trace, self._driver, self._actor
        if trace is None or driver is None or actor is None or actor.record is None:
            return
        state = driver.state
        touched = {node_id: state.nodes.get(node_id) for node_id in sorted(driver.touched)}
        try:
            fingerprint = digest((state.next_attempt_id, state.observed_generation, touched))
        except Exception as error:  # noqa: BLE001 - a trace must not harm what it traces
            logger.error(
                "trace: the state after message {} has no digest: {!r}", actor.record, error
            )
            fingerprint = ""
        said = message
        if isinstance(message, Asked) and isinstance(message.message, StatusQuery):
            return  # It changes nothing, and a live view asks several times a second.
        if isinstance(message, Asked):
            # A question that was given up before its turn changed nothing.
            said = None if message.reply.cancelled() else message.message
        trace.write(actor.record, said, answers, fingerprint)

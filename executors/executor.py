"""Where the driver's effects go: one actor for each attempt that has work (design rules 25, 26).

Theory of operation.  `submit` records the operation and hands it to the attempt's actor, which is
spawned when there is none.  The actor's thread carries it out (see `carrier`), records the result,
tells it, and goes when nothing waits.  An attempt has at most one operation running, and one
waiting behind it: that one only if the driver has given the running one up (`expire`).

Two rules keep it free of deadlocks, on threads as well as stepped in one thread, where an answer
may come inside `submit`:

- One lock guards all that is recorded, and is held for looking and writing only: never while a
  provider, a spawner, an actor or the driver is called.
- An operation has begun exactly when its actor took it off `waiting` under that lock.  So what is
  withdrawn before never runs, and what runs is never withdrawn.

Nothing here decides, retries or knows what a command means.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import monotonic

from loguru import logger

from cluster_reconciler.executors.attempt import Attempt, Worker
from cluster_reconciler.executors.carrier import Carrier
from cluster_reconciler.executors.checked_provider import (
    CallFailed,
    CheckedProvider,
    said,
    writable,
)
from cluster_reconciler.executors.ledger import (
    OperationLedger,
    OperationState,
    RecordedOperation,
    RetiredAttempts,
    RunningOperation,
    SubmissionRefused,
)
from cluster_reconciler.executors.provider import (
    Provider,
    Spawner,
    Stream,
    SwarmTicket,
)
from cluster_reconciler.executors.routing import Routes, check_effect
from cluster_reconciler.executors.secret_references import mask
from cluster_reconciler.executors.session_context import Listener, SessionIds
from cluster_reconciler.messages import (
    AttemptIdentity,
    Disposition,
    EffectError,
    ExecutorResult,
    NodeAttemptId,
    NodeObserved,
    OperationId,
    PlannedEffect,
    RunId,
)


def _no_output(_identity: AttemptIdentity, _stream: Stream, _number: int, _line: str) -> None:
    return


def _log_dropped(identity: AttemptIdentity, text: str) -> None:
    logger.warning("{}, {}", identity, text)


class Executors:
    """The one object that the driver talks to.  Safe for threads; no method blocks but `close`."""

    def __init__(  # noqa: PLR0917  in the order of the contract with the runtime
        self,
        run_id: RunId,
        providers: Sequence[Provider],
        spawner: Spawner,
        reply: Callable[[ExecutorResult | NodeObserved], None],
        now: Callable[[], datetime],
        ticket: Callable[[AttemptIdentity], SwarmTicket],
        output: Callable[[AttemptIdentity, Stream, int, str], None] = _no_output,
        dropped: Callable[[AttemptIdentity, str], None] = _log_dropped,
    ) -> None:
        """`reply` puts a message into the driver's mailbox.  `ticket` gives a node what it joins
        the swarm with; `output` gets each line of the nodes' output; `dropped`
        hears why a session's word was dropped.

        Raises:
            ValueError: a provider has no usable kind or settle time, or two have the same kind.
        """
        self._run_id = run_id
        self._routes = Routes(providers)
        self._spawner = spawner
        self._reply = reply
        self._now = now
        self._ticket = ticket
        self._output = output
        self._dropped = dropped
        self._session_ids = SessionIds()
        self._changed = threading.Condition(threading.Lock())
        """Its lock guards everything below; it is notified when an operation ends."""
        self._attempts: dict[NodeAttemptId, Attempt] = {}
        self._retired = RetiredAttempts()
        self._closed = False

    # -- for the driver ---------------------------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> None:
        """Take the effect; its result is told to `reply`, once, perhaps before this returns.  An
        operation that was submitted before with the same input is not carried out again: its
        result is told again, once it has one (§10).

        Raises:
            SubmissionRefused: it will not be carried out; the text says why.
        """
        check_effect(effect, self._run_id)
        with self._changed:
            record, worker = self._enter(effect)
            fresh = worker is not None and not worker.spawning
            if worker is not None:
                worker.spawning = True
        if worker is None:
            if record.result is not None:
                self._tell(record.result)
        elif fresh:
            self._spawn(worker, record)
        elif worker.actor is not None:
            worker.actor.tell(effect)
        # Otherwise another thread is just spawning it, and will tell it what waits.

    def withdraw(self, operation: OperationId) -> bool:
        """True: it had not begun, and never will; no result is told.  False: it runs or ran."""
        with self._changed:
            return self._withdraw(operation)

    def expire(self, operation: OperationId) -> bool:
        """The driver judges it overdue and waits no more.  True: it is withdrawn, as by
        `withdraw`.  False: it runs or ran; the attempt's next operation is queued behind it."""
        with self._changed:
            if self._withdraw(operation):
                return True
            attempt = self._attempts.get(operation.attempt)
            record = attempt.ledger.get(operation) if attempt is not None else None
            if record is not None:
                record.expired = True
            return False

    def retire(self, attempt_id: NodeAttemptId) -> None:
        """The attempt is destroyed: forget it, as soon as nothing of it runs.  What waits is
        withdrawn; its sessions are not heard any more; nothing is taken for it again."""
        with self._changed:
            self._retired.add(attempt_id)
            attempt = self._attempts.get(attempt_id)
            if attempt is None:
                return
            if attempt.waiting is not None:
                attempt.withdraw(attempt.waiting.effect.operation)
            self._forget_if_over(attempt)

    def close(self, timeout: timedelta) -> tuple[RunningOperation, ...]:
        """Take nothing more, withdraw what waits, and wait for what runs; what still runs after
        `timeout`.  From then on nobody is told anything.  Idempotent."""
        deadline = monotonic() + timeout.total_seconds()
        with self._changed:
            self._closed = True
            for attempt in self._attempts.values():
                if attempt.waiting is not None:
                    attempt.withdraw(attempt.waiting.effect.operation)
            while self._running() and (left := deadline - monotonic()) > 0:
                self._changed.wait(left)
            return self._running()

    def masked(self, attempt_id: NodeAttemptId, text: str) -> str:
        """The text without any secret that the attempt's node was given: for what comes from a node
        by another way than through here."""
        with self._changed:
            attempt = self._attempts.get(attempt_id)
            secrets = attempt.carrier.secrets if attempt is not None else frozenset()
        return mask(writable(text), secrets)

    @property
    def attempts(self) -> int:
        """How many attempts are remembered."""
        with self._changed:
            return len(self._attempts)

    @property
    def recorded(self) -> int:
        """How many operations are remembered, over all attempts."""
        with self._changed:
            return sum(len(attempt.ledger) for attempt in self._attempts.values())

    @property
    def running(self) -> tuple[RunningOperation, ...]:
        """What runs now, in the order of attempts."""
        with self._changed:
            return self._running()

    # -- under the lock ---------------------------------------------------------------------------

    def _enter(self, effect: PlannedEffect) -> tuple[RecordedOperation, Worker | None]:
        """The operation's record, and the worker to carry it out; none for one that was submitted
        before."""
        attempt = self._admit(effect)
        repeated = attempt.ledger.repeated(effect)
        if repeated is not None:
            return repeated, None
        attempt.refuse_if_busy(effect)
        record = attempt.waiting = attempt.ledger.enter(effect)
        if attempt.worker is None:
            attempt.worker = Worker(self, attempt)
        return record, attempt.worker

    def _admit(self, effect: PlannedEffect) -> Attempt:
        """The attempt that the effect is of; made when it is new."""
        identity = AttemptIdentity(self._run_id, effect.node, effect.operation.attempt)
        if self._closed:
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: the executors are closed"
            )
        if identity.attempt in self._retired:
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: attempt {identity.attempt} is retired; "
                "only a new attempt can have operations"
            )
        attempt = self._attempts.get(identity.attempt)
        if attempt is None:
            attempt = self._attempts[identity.attempt] = self._attempt(identity, effect)
        elif attempt.identity != identity:
            raise SubmissionRefused(
                f"{effect.operation}: attempt {identity.attempt} belongs to node "
                f"{attempt.identity.node}, not to {effect.node}"
            )
        return attempt

    def _attempt(self, identity: AttemptIdentity, effect: PlannedEffect) -> Attempt:
        route = self._routes.of(effect)
        listener = Listener(
            observed=self._tell,
            output=self._output,
            dropped=self._dropped,
            ticket=self._ticket,
            is_over=lambda: self._closed or identity.attempt in self._retired,
        )
        provider = CheckedProvider(route.provider, route.kind, identity)
        carrier = Carrier(
            identity, provider, route.settle_time, self._now, self._session_ids, listener
        )
        return Attempt(identity, carrier, OperationLedger())

    def _withdraw(self, operation: OperationId) -> bool:
        attempt = self._attempts.get(operation.attempt)
        return attempt is not None and attempt.withdraw(operation)

    def _running(self) -> tuple[RunningOperation, ...]:
        every = [attempt.running_operation for attempt in self._attempts.values()]
        return tuple(running for running in every if running is not None)

    def _let_go(self, worker: Worker) -> bool:
        """Whether the worker is done: nothing runs or waits.  Then it is nobody's any more."""
        attempt = worker.attempt
        if attempt.worker is not worker or attempt.running is not None:
            return False
        if attempt.waiting is not None:
            return False
        attempt.worker = None
        self._forget_if_over(attempt)
        return True

    def _forget_if_over(self, attempt: Attempt) -> None:
        attempt_id = attempt.identity.attempt
        over = attempt_id in self._retired and attempt.running is None
        if over and self._attempts.get(attempt_id) is attempt:
            del self._attempts[attempt_id]

    # -- actors -----------------------------------------------------------------------------------

    def _spawn(self, worker: Worker, record: RecordedOperation) -> None:
        identity = worker.attempt.identity
        died = partial(self.worker_died, worker)
        try:
            actor = self._spawner.spawn(
                f"executor-{identity.node}-{identity.attempt}", worker, died
            )
        except Exception as error:
            with self._changed:
                worker.attempt.waiting = None
                worker.attempt.worker = None
                worker.attempt.ledger.strike(record)
            raise SubmissionRefused(
                f"{record.effect.operation} of {identity.node}: no executor could be started: "
                f"{said(error)}"
            ) from error
        with self._changed:
            worker.actor = actor
            waiting = worker.attempt.waiting
            idle = self._let_go(worker)  # It was withdrawn meanwhile.
        if idle:
            actor.stop()
        elif waiting is not None:
            actor.tell(waiting.effect)

    def run(self, worker: Worker, effect: PlannedEffect) -> None:
        """In the actor's thread: begin what waits, carry it out, tell its result."""
        attempt = worker.attempt
        with self._changed:
            record = attempt.waiting
            if attempt.worker is not worker or record is None or record.effect != effect:
                record = None  # Withdrawn; or the worker has died and another one has its work.
            else:
                attempt.waiting, attempt.running = None, record
                record.state, record.began_at = OperationState.RUNNING, self._now()
            idle = record is None and self._let_go(worker)
        if record is not None:
            result = self._result(attempt, effect)
            with self._changed:
                self._record_answer(attempt, record, result)
            self._tell(result)
            with self._changed:
                idle = self._let_go(worker)
        if idle:
            worker.stop()

    def _result(self, attempt: Attempt, effect: PlannedEffect) -> ExecutorResult:
        try:
            outcome = attempt.carrier.carry_out(effect.command)
        except CallFailed as failed:
            return ExecutorResult(effect.node, effect.operation, error=failed.error)
        return ExecutorResult(effect.node, effect.operation, outcome=outcome)

    def _record_answer(
        self, attempt: Attempt, record: RecordedOperation, result: ExecutorResult
    ) -> None:
        record.state, record.result = OperationState.ANSWERED, result
        attempt.running = None
        self._forget_if_over(attempt)
        self._changed.notify_all()

    def worker_died(self, worker: Worker, reason: str) -> None:
        """The actor has ended, or is about to, in another way than by `stop`.  What it ran has an
        unknown outcome, what waited never began; the attempt gets a fresh actor later."""
        attempt = worker.attempt
        results: list[ExecutorResult] = []
        with self._changed:
            if attempt.worker is not worker:
                return
            attempt.worker = None
            running, waiting = attempt.running, attempt.waiting
            if running is not None:
                attempt.carrier.interrupted()
                error = EffectError(f"executor died: {reason}", Disposition.AMBIGUOUS)
                effect = running.effect
                result = ExecutorResult(effect.node, effect.operation, error=error)
                self._record_answer(attempt, running, result)
                results.append(result)
            if waiting is not None:
                attempt.waiting = None
                results.append(waiting.never_ran(f"executor died before it began: {reason}"))
        logger.error("{}: its executor died: {}", attempt.identity, reason)
        for result in results:
            self._tell(result)

    def _tell(self, message: ExecutorResult | NodeObserved) -> None:
        try:
            self._reply(message)
        except Exception as error:  # noqa: BLE001  the work must go on, whoever listens
            logger.error("{} could not be told: {}", type(message).__name__, said(error))

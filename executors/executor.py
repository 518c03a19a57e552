"""Where the driver's effects go: one actor for each attempt that has work (design rules 25, 26).

An attempt's operations run one after another, in a thread of their own; a provider that hangs
delays its attempt alone.  Results go back as messages.  Nothing here decides, retries or waits.

The lock guards the queues and is never held while a provider, an actor or the driver is called.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import assert_never

import msgspec
from loguru import logger
from msgspec import Struct

from cluster_reconciler.executors.attempt_work import AttemptWork, World
from cluster_reconciler.executors.calls import CallFailed
from cluster_reconciler.executors.ledger import Ledger, SubmissionRefused
from cluster_reconciler.executors.provider import (
    ActorHandle,
    Provider,
    Spawner,
    Stream,
    SwarmTicket,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    Disposition,
    EffectError,
    ExecutorResult,
    LookupEndpoint,
    NodeAttemptId,
    NodeLost,
    NodeManagerCommand,
    NodeObserved,
    OperationId,
    PlannedEffect,
    ProviderKind,
    RunId,
    SessionObservation,
    StartBootstrap,
)


class RunOperation(Struct, frozen=True, gc=False, tag=True):
    """Told to an attempt's actor: carry this effect out, unless it was withdrawn meanwhile."""

    effect: PlannedEffect


class _Lane:
    """One attempt's work: what runs, what waits, and the actor that does it."""

    def __init__(self, work: AttemptWork) -> None:
        self.work = work
        self.waiting: deque[PlannedEffect] = deque()
        self.running: PlannedEffect | None = None
        self.expired: set[OperationId] = set()
        """Overdue by the driver's judgment, and still running."""
        self.actor: ActorHandle | None = None
        """There while something runs or waits."""
        self.retired = False


class _LaneActor:
    """The behaviour of an attempt's actor."""

    def __init__(self, run: Callable[[PlannedEffect], None]) -> None:
        self._run = run

    def handle(self, message: object) -> None:
        """One operation."""
        if isinstance(message, RunOperation):
            self._run(message.effect)


def _no_output(_identity: AttemptIdentity, _stream: Stream, _number: int, _line: str) -> None:
    return


class Executors:
    """The executor that the driver submits to.  Safe for threads; every method returns at once."""

    def __init__(
        self,
        run_id: RunId,
        providers: Sequence[Provider],
        spawner: Spawner,
        reply: Callable[[ExecutorResult | NodeObserved], None],
        now: Callable[[], datetime],
        ticket: Callable[[AttemptIdentity], SwarmTicket],
        *,
        output: Callable[[AttemptIdentity, Stream, int, str], None] = _no_output,
    ) -> None:
        """`reply` puts a message into the driver's mailbox; raises ValueError when two providers
        have one kind."""
        self._run_id = run_id
        self._providers = {provider.kind: provider for provider in providers}
        if len(self._providers) != len(providers):
            kinds = sorted(provider.kind for provider in providers)
            raise ValueError(f"every provider needs a kind of its own, found {', '.join(kinds)}")
        self._spawner = spawner
        self._reply = reply
        self._lock = threading.RLock()
        self._lanes: dict[NodeAttemptId, _Lane] = {}
        self._ledger = Ledger()
        self._closed = False
        sessions = count(1)
        self._world = World(
            now=now,
            ticket=ticket,
            next_session=lambda: BootstrapSessionId(next(sessions)),
            report=self._report,
            lost=self._lost,
            output=output,
        )

    # -- for the driver ---------------------------------------------------------------------------

    def submit(self, effect: PlannedEffect) -> None:
        """Take the effect; its result comes as a message.  Raises SubmissionRefused: closed, an
        unknown provider, an operation of the attempt in flight, or a reused operation id."""
        with self._lock:
            repeated = self._ledger.find(effect)
            if repeated:
                recorded = self._ledger.result(effect.operation)
            else:
                recorded = None
                self._enqueue(effect)
        if recorded is not None:
            self._reply(recorded)

    def withdraw(self, operation: OperationId) -> bool:
        """Whether the operation had not begun; then it never will, and gets no result."""
        with self._lock:
            lane = self._lanes.get(operation.attempt)
            if lane is None:
                return False
            for effect in lane.waiting:
                if effect.operation == operation:
                    lane.waiting.remove(effect)
                    error = EffectError("withdrawn before it began", not_run=True)
                    self._ledger.record(ExecutorResult(effect.node, operation, error=error))
                    self._rest(operation.attempt, lane)
                    return True
        return False

    def expire(self, operation: OperationId) -> bool:
        """The driver has judged it overdue.  True: it is withdrawn.  False: it runs, or ran; the
        attempt's next operation may wait behind it."""
        with self._lock:
            if self.withdraw(operation):
                return True
            lane = self._lanes.get(operation.attempt)
            if lane is not None and lane.running is not None:
                lane.expired.add(operation)
        return False

    def retire(self, attempt: NodeAttemptId) -> None:
        """Nothing of the attempt is left: forget it, once its queue is empty."""
        with self._lock:
            lane = self._lanes.get(attempt)
            if lane is None:
                self._ledger.prune(attempt)
                return
            lane.retired = True
            self._rest(attempt, lane)

    def close(self, _timeout: timedelta) -> tuple[OperationId, ...]:
        """Take nothing more; what waits never begins.  The operations that still run."""
        with self._lock:
            self._closed = True
            for attempt, lane in list(self._lanes.items()):
                lane.waiting.clear()
                self._rest(attempt, lane)
            running = [lane.running for lane in self._lanes.values()]
        return tuple(effect.operation for effect in running if effect is not None)

    @property
    def attempts(self) -> int:
        """How many attempts are remembered."""
        return len(self._lanes)

    # -- queues (locked) --------------------------------------------------------------------------

    def _enqueue(self, effect: PlannedEffect) -> None:
        if self._closed:
            raise SubmissionRefused(f"{effect.operation}: the executors are closed")
        lane = self._lane_for(effect)
        busy = [lane.running] if lane.running is not None else []
        for other in (*busy, *lane.waiting):
            if other.operation not in lane.expired:
                raise SubmissionRefused(
                    f"{effect.operation} of {effect.node}: {other.operation} of the same attempt "
                    "is in flight; wait for its result or its deadline"
                )
        if lane.actor is None:
            lane.actor = self._spawn(effect.operation.attempt, lane)
        self._ledger.open(effect)
        lane.waiting.append(effect)
        lane.actor.tell(RunOperation(effect))

    def _lane_for(self, effect: PlannedEffect) -> _Lane:
        attempt = effect.operation.attempt
        lane = self._lanes.get(attempt)
        if lane is None:
            provider = self._provider_of(effect)
            identity = AttemptIdentity(self._run_id, effect.node, attempt)
            lane = _Lane(AttemptWork(identity, provider, self._world))
            self._lanes[attempt] = lane
        return lane

    def _provider_of(self, effect: PlannedEffect) -> Provider:
        kind = _provider_kind(effect.command)
        if kind is None:
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: its attempt is not known here, and "
                f"{type(effect.command).__name__} names no provider"
            )
        provider = self._providers.get(kind)
        if provider is None:
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: there is no provider {kind!r}, "
                f"known are {', '.join(sorted(self._providers)) or 'none'}"
            )
        return provider

    def _spawn(self, attempt: NodeAttemptId, lane: _Lane) -> ActorHandle:
        name = f"{lane.work.identity.node}/{attempt}"
        behaviour = _LaneActor(partial(self._run, attempt))
        try:
            return self._spawner.spawn(name, behaviour, partial(self._died, attempt, lane))
        except Exception as error:
            raise SubmissionRefused(f"no executor for {lane.work.identity}: {error}") from error

    def _rest(self, attempt: NodeAttemptId, lane: _Lane) -> None:
        """An actor without work goes; so does the lane, once it is retired."""
        if lane.running is not None or lane.waiting:
            return
        lane.expired.clear()
        if lane.actor is not None:
            lane.actor.stop()
            lane.actor = None
        if lane.retired:
            self._lanes.pop(attempt, None)
            self._ledger.prune(attempt)

    # -- in the attempts' threads -----------------------------------------------------------------

    def _run(self, attempt: NodeAttemptId, effect: PlannedEffect) -> None:
        with self._lock:
            lane = self._lanes.get(attempt)
            if lane is None or effect not in lane.waiting:
                return  # Withdrawn.
            lane.waiting.remove(effect)
            lane.running = effect
        try:
            outcome = lane.work.perform(effect.command)
            result = ExecutorResult(effect.node, effect.operation, outcome=outcome)
        except CallFailed as failed:
            result = ExecutorResult(effect.node, effect.operation, error=failed.error)
        with self._lock:
            lane.running = None
            lane.expired.discard(effect.operation)
            self._ledger.record(result)
            self._rest(attempt, lane)
        self._reply(result)

    def _died(self, attempt: NodeAttemptId, lane: _Lane, reason: str) -> None:
        """The actor ended in the middle: what ran is ambiguous, what waited has not run."""
        with self._lock:
            lane.work.died()
            lane.actor = None
            results = []
            if lane.running is not None:
                error = EffectError(f"its executor died: {reason}", Disposition.AMBIGUOUS)
                running = lane.running
                results.append(ExecutorResult(running.node, running.operation, error=error))
            for effect in lane.waiting:
                error = EffectError(f"its executor died before it began: {reason}", not_run=True)
                results.append(ExecutorResult(effect.node, effect.operation, error=error))
            lane.running = None
            lane.waiting.clear()
            for result in results:
                self._ledger.record(result)
            self._rest(attempt, lane)
        for result in results:
            self._reply(result)

    # -- from the providers' sessions -------------------------------------------------------------

    def _report(self, identity: AttemptIdentity, observation: SessionObservation) -> None:
        with self._lock:
            if identity.attempt not in self._lanes:
                return  # Over, and cleaned up.
        try:
            checked: SessionObservation = msgspec.convert(
                msgspec.to_builtins(observation), SessionObservation
            )
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            logger.warning("{}: a report of its session is malformed: {}", identity, error)
            return
        self._reply(NodeObserved(identity.node, identity.attempt, checked))

    def _lost(self, identity: AttemptIdentity, reason: str) -> None:
        with self._lock:
            if identity.attempt not in self._lanes:
                return
        self._reply(NodeObserved(identity.node, identity.attempt, NodeLost(str(reason))))


def _provider_kind(command: NodeManagerCommand) -> ProviderKind | None:
    """The provider that the command names, if it does."""
    match command:
        case CreateLease(spec):
            return spec.provider
        case LookupEndpoint(lease):
            return lease.provider
        case DestroyLease(handle):
            return handle.provider
        case StartBootstrap() | BootstrapConvergenceObserved() | CancelBootstrap():
            return None
        case _:
            assert_never(command)

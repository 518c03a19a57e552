"""Many nodes that fail the same way for long, on a clock of their own, and the log of that (F29).

The production driver, the production log (`RuntimeHost`, loguru, the format of `--log`); only the
executor is played, and answers at once.  Time goes in whole ticks, so that 500 nodes whose jittered
deadlines all differ cost a pass for each tick and not one for each of them.  Decides nothing about
what is worth a line: that is `actors/log_folding.py`, which is what is measured.
"""

import heapq
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from loguru import logger

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.stepping_words import T0, group, shape
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.decider import ReconcilePlan, RetryPolicy
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapFailed,
    BootstrapSessionId,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DeadlineDue,
    DestroyLease,
    EffectError,
    ExecutorResult,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    NodeLost,
    NodeObserved,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
)

FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSSZ} {level: <8} {name}: {message}"
"""As `--log` writes a file."""


class NoTimers:
    """The ticks wake the driver; nothing else does."""

    def schedule(self, key: str, at: datetime, callback: object) -> None:
        raise AssertionError(f"{key}: nothing is timed here")

    def cancel(self, key: str) -> None:
        """There is nothing to cancel."""


class FailingNodes:
    """Implements `DriverHost` and `Executor`."""

    def __init__(
        self,
        play: Callable[["FailingNodes", PlannedEffect], None],
        nodes: int,
        retry: RetryPolicy,
        tick: timedelta = timedelta(seconds=1),
    ) -> None:
        self._tick = tick
        self.clock = ManualClock(T0)
        self.calls = 0
        self.failures = 0
        """Failures that were counted, by the driver's own events."""
        self.lines = 0
        self.bytes = 0
        self._play = play
        self._told: deque[object] = deque()
        self._due: list[tuple[datetime, int, object]] = []
        self._wake: datetime | None = None
        self._log = RuntimeHost(
            self.clock, NoTimers(), Subscriptions(), lambda _identity: None, retry.stable_after
        )
        self._driver = Driver(shape(group(count=nodes)), retry, self, self)
        self._driver.request_pass()

    # -- for the driver ---------------------------------------------------------------------------

    def now(self) -> datetime:
        return self.clock.now()

    def tell_driver(self, message: object) -> None:
        self._told.append(message)

    def wake_at(self, moment: datetime | None) -> None:
        self._wake = moment

    def happened(self, event: ClusterEvent) -> None:
        self.failures += event.kind in {"failed", "retry"}
        self._log.happened(event)

    def pass_done(self, plan: ReconcilePlan, converged: bool) -> None:
        self._log.pass_done(plan, converged)

    def attempt_over(self, identity: AttemptIdentity) -> None:
        """Nobody speaks for an attempt here but the play."""

    def submit(self, effect: PlannedEffect) -> None:
        self.calls += 1
        self._play(self, effect)

    # -- for the play -----------------------------------------------------------------------------

    def answer(self, effect: PlannedEffect, result: object) -> None:
        """An outcome, or the reason of a failure."""
        if isinstance(result, str):
            told = ExecutorResult(effect.node, effect.operation, error=EffectError(result))
        else:
            told = ExecutorResult(effect.node, effect.operation, outcome=result)  # type: ignore[arg-type]
        self._told.append(told)

    def observe(self, effect: PlannedEffect, seen: object, after: timedelta = timedelta(0)) -> None:
        """News of the effect's attempt, now or so much later."""
        told = NodeObserved(effect.node, effect.operation.attempt, seen)  # type: ignore[arg-type]
        if after:
            heapq.heappush(self._due, (self.now() + after, self.calls, told))
        else:
            self._told.append(told)

    # -- time -------------------------------------------------------------------------------------

    def run(self, span: timedelta) -> None:
        """Let so much time pass, and count what is written meanwhile."""
        logger.remove()
        sink = logger.add(self._written, format=FORMAT, level="INFO", colorize=False)
        try:
            end = self.now() + span
            self._drive()
            while (due := self._next()) is not None and due <= end:
                ticks = -((self.now() - due) // self._tick)
                self.clock.advance(max(ticks, 1) * self._tick)
                self._fire()
                self._drive()
        finally:
            logger.remove(sink)

    def _next(self) -> datetime | None:
        moments = [at for at, _, _ in self._due[:1]] + ([self._wake] if self._wake else [])
        return min(moments, default=None)

    def _fire(self) -> None:
        while self._due and self._due[0][0] <= self.now():
            self._told.append(heapq.heappop(self._due)[2])
        if self._wake is not None and self._wake <= self.now():
            self._wake = None
            self._told.append(DeadlineDue())

    def _drive(self) -> None:
        while self._told:
            self._driver.handle(self._told.popleft())

    def _written(self, line: str) -> None:
        self.lines += 1
        self.bytes += len(line.encode())


# -- ways to fail ---------------------------------------------------------------------------------


def create_refused(nodes: FailingNodes, effect: PlannedEffect) -> None:
    """The provider has none, and gives each refusal a number of its own."""
    nodes.answer(effect, f"no capacity in zone a, request {nodes.calls:08}")


def bootstrap_fails(nodes: FailingNodes, effect: PlannedEffect) -> None:
    """A machine is made, its boot check fails at once, and it is destroyed."""
    session = BootstrapSessionId(effect.operation.attempt)
    if isinstance(effect.command, StartBootstrap):
        nodes.answer(effect, BootstrapStarted(session))
        nodes.observe(effect, BootstrapFailed(session, "boot check 1: exit code 3: no such disk"))
    else:
        _succeed(nodes, effect)


def crash_after_join(nodes: FailingNodes, effect: PlannedEffect) -> None:
    """The command joins, is ready, and ends two seconds later."""
    session = BootstrapSessionId(effect.operation.attempt)
    if isinstance(effect.command, StartBootstrap):
        nodes.answer(effect, BootstrapStarted(session))
        nodes.observe(effect, SwactorJoined(session, SwactorId(f"swactor-{session}")))
        lost = NodeLost(f"it left the swarm: 'serve' (pid {10_000 + session}) ended with exit 1")
        nodes.observe(effect, lost, after=timedelta(seconds=2))
    else:
        _succeed(nodes, effect)


def _succeed(nodes: FailingNodes, effect: PlannedEffect) -> None:
    match effect.command:
        case CreateLease():
            name = ProviderLeaseId(f"lease-{effect.operation.attempt}")
            facts = LeaseFacts(ProviderKind("memory"), name)
            nodes.answer(effect, LeaseCreated(facts, LocalEndpoint("here")))
        case DestroyLease():
            nodes.answer(effect, LeaseDestroyed())
        case CancelBootstrap():
            nodes.answer(effect, BootstrapCancelled())
        case BootstrapConvergenceObserved():
            nodes.answer(effect, BootstrapConvergenceAccepted())
        case _:
            raise AssertionError(f"not expected here: {effect}")


WAYS = {
    "create refused": create_refused,
    "bootstrap fails at once": bootstrap_fails,
    "crashes right after each join": crash_after_join,
}

"""The driver without actors: `Driver` on a plain queue, in one thread.

It stands for what reconciling itself costs.  Its host serves nobody: no ring, no story, no log, no
reader, no timer.  The clock is read once for each message, as in production.
"""

from collections import deque
from datetime import datetime
from time import perf_counter, thread_time

from msgspec import Struct

from cluster_reconciler.actors.bench.replies import POLICY, replies_to
from cluster_reconciler.actors.clock import SystemClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.decider import ClusterState, ExpandedShape, ReconcilePlan
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
    SafetyTick,
)


class Ready(Struct, frozen=True):
    """A converged cluster, as a driver has brought it there."""

    state: ClusterState
    desired: ExpandedShape

    def copy(self) -> ClusterState:
        """With a map of its own, for somebody who changes it."""
        return ClusterState(
            self.state.observed_generation, self.state.next_attempt_id, dict(self.state.nodes)
        )


class Work(Struct, frozen=True):
    """What some work took."""

    messages: int
    driver_seconds: float
    """CPU time of the thread, without that of making the replies."""
    wall_seconds: float
    """From the first message to the last one, with the making of the replies."""


class Loop:
    """One cluster, whose effects wait in `effects` for whoever replies."""

    def __init__(self, shape: ClusterShape) -> None:
        self.effects: list[PlannedEffect] = []
        self.mailbox: deque[object] = deque()
        self.converged = False
        self.messages = 0
        """Handled."""
        self._clock = SystemClock()
        self._now = self._clock.now()
        self.driver = Driver(shape, POLICY, self, self)

    def drive(self) -> None:
        """Handle messages until there is none."""
        mailbox, handle, now = self.mailbox, self.driver.handle, self._clock.now
        while mailbox:
            self._now = now()
            self.messages += 1
            handle(mailbox.popleft())

    def take_effects(self) -> list[PlannedEffect]:
        """What was dispatched since the last call."""
        effects, self.effects = self.effects, []
        return effects

    # For the driver, as its host.

    def now(self) -> datetime:
        """The time at which the message was taken."""
        return self._now

    def tell_driver(self, message: object) -> None:
        """Into the queue."""
        self.mailbox.append(message)

    def wake_at(self, _moment: datetime | None) -> None:
        """Nothing is ever late here."""

    def happened(self, _event: ClusterEvent) -> None:
        """Nobody reads it."""

    def pass_done(self, _plan: ReconcilePlan, converged: bool) -> None:
        """For the end."""
        self.converged = converged

    def attempt_over(self, _identity: AttemptIdentity) -> None:
        """Nobody listens."""

    # For the driver, as its executor.

    def submit(self, effect: PlannedEffect) -> None:
        """It waits."""
        self.effects.append(effect)

    def withdraw(self, _operation: OperationId) -> bool:
        """All of it has begun."""
        return False

    def expire(self, _operation: OperationId) -> bool:
        """All of it has begun."""
        return False

    def retire(self, _attempt: NodeAttemptId) -> None:
        """Nothing is kept."""


def converge(shape: ClusterShape, *, one_at_a_time: bool) -> tuple[Ready, Work]:
    """From nothing to ready.  `one_at_a_time`: each reply is told, and handled with all that
    follows from it, before the next one is; else all effects of a drive are replied to together."""
    loop = Loop(shape)
    replied: list[PlannedEffect] = []
    begun, cpu = perf_counter(), thread_time()
    loop.mailbox.append(SafetyTick())
    loop.drive()
    if one_at_a_time:
        waiting = deque(loop.take_effects())
        while waiting:
            replied.append(waiting.popleft())
            for reply in replies_to(replied[-1]):
                loop.mailbox.append(reply)
                loop.drive()
            waiting.extend(loop.take_effects())
    else:
        while effects := loop.take_effects():
            replied += effects
            for effect in effects:
                loop.mailbox.extend(replies_to(effect))
            loop.drive()
    wall, spent = perf_counter() - begun, thread_time() - cpu
    spent -= _making_of_replies(replied)
    assert loop.converged, "every effect was replied to, and the cluster is not converged"
    ready = Ready(loop.driver.state, loop.driver.desired)
    return ready, Work(loop.messages, spent, wall)


def _making_of_replies(effects: list[PlannedEffect]) -> float:
    """Seconds of CPU time, taken by itself: reading that clock before and after each reply costs
    more than the making."""
    begun = thread_time()
    for effect in effects:
        replies_to(effect)
    return thread_time() - begun

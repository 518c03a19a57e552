"""The driver without actors: `Driver` on a plain queue, in one thread.

It stands for what reconciling itself costs.  Its host serves nobody: no ring, no story, no log, no
reader, no timer.  The clock is read once for each message, as in production.
"""

from collections import deque
from datetime import datetime
from time import perf_counter, thread_time

from msgspec import Struct

from cluster_reconciler.actors.bench.executors import TakenEffects
from cluster_reconciler.actors.bench.replies import POLICY, replies_to
from cluster_reconciler.actors.clock import SystemClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.decider import ClusterState, ExpandedShape, ReconcilePlan
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
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
    """Of all of it, with the making of the replies; reply by reply they are made twice."""


class Loop:
    """One cluster, whose effects wait in `executors` for whoever replies."""

    def __init__(self, shape: ClusterShape) -> None:
        self.executors = TakenEffects()
        self.mailbox: deque[object] = deque()
        self.converged = False
        self.messages = 0
        """Handled."""
        self._clock = SystemClock()
        self._now = self._clock.now()
        self.driver = Driver(shape, POLICY, self.executors, self)

    def drive(self) -> None:
        """Handle messages until there is none."""
        mailbox, handle, now = self.mailbox, self.driver.handle, self._clock.now
        while mailbox:
            self._now = now()
            self.messages += 1
            handle(mailbox.popleft())

    def timed(self, *messages: object) -> float:
        """Handle these, and all that follows; seconds of CPU time."""
        self.mailbox.extend(messages)
        begun = thread_time()
        self.drive()
        return thread_time() - begun

    def converge_in_batches(self, first: object) -> float:
        """From nothing to ready, all effects of a drive replied to together, beginning with that
        message; seconds of CPU time without the making of the replies."""
        spent = self.timed(first)
        while effects := self.executors.take():
            spent += self.timed(*(reply for effect in effects for reply in replies_to(effect)))
        self._check_converged()
        return spent

    def converge_reply_by_reply(self, first: object) -> float:
        """The same, each reply told, and handled with all that follows from it, before the next
        one is."""
        replied: list[PlannedEffect] = []
        begun = thread_time()
        self.mailbox.append(first)
        self.drive()
        waiting = deque(self.executors.take())
        while waiting:
            replied.append(waiting.popleft())
            for reply in replies_to(replied[-1]):
                self.mailbox.append(reply)
                self.drive()
            waiting.extend(self.executors.take())
        spent = thread_time() - begun
        self._check_converged()
        return spent - _making_of_replies(replied)

    def _check_converged(self) -> None:
        assert self.converged, "every effect was replied to, and the cluster is not converged"

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


def converge(shape: ClusterShape, *, one_at_a_time: bool) -> tuple[Ready, Work]:
    """From nothing to ready: `one_at_a_time`, reply by reply; else in batches."""
    loop = Loop(shape)
    begun = perf_counter()
    how = loop.converge_reply_by_reply if one_at_a_time else loop.converge_in_batches
    spent = how(SafetyTick())
    wall = perf_counter() - begun
    ready = Ready(loop.driver.state, loop.driver.desired)
    return ready, Work(loop.messages, spent, wall)


def _making_of_replies(effects: list[PlannedEffect]) -> float:
    """Seconds of CPU time, taken by itself: reading that clock before and after each reply costs
    more than the making."""
    begun = thread_time()
    for effect in effects:
        replies_to(effect)
    return thread_time() - begun

"""Stand-ins for the executors: they take every effect, and differ in when it is replied to.

They start nothing and call no provider.
"""

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns

from cluster_reconciler.actors.base import ContainedActor
from cluster_reconciler.actors.bench.replies import replies_to
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.messages import (
    BootstrapConvergenceObserved,
    DestroyLease,
    LogicalNodeId,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)


class TakenEffects:
    """Executors that keep what they take, for whoever replies."""

    def __init__(self) -> None:
        self.effects: list[PlannedEffect] = []

    def take(self) -> list[PlannedEffect]:
        """What was submitted since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def submit(self, effect: PlannedEffect) -> None:
        """Keep it."""
        self.effects.append(effect)

    def withdraw(self, _operation: OperationId) -> bool:
        """All of it has begun."""
        return False

    def expire(self, _operation: OperationId) -> bool:
        """All of it has begun."""
        return False

    def retire(self, _attempt: NodeAttemptId) -> None:
        """Nothing is kept of it."""


class InstantReplies(TakenEffects):
    """Executors that have replied before `submit` returns."""

    def __init__(self, tell: Callable[[object], None]) -> None:
        super().__init__()
        self._tell = tell

    def submit(self, effect: PlannedEffect) -> None:
        """Reply."""
        for reply in replies_to(effect):
            self._tell(reply)


class TimedReplies(InstantReplies):
    """They also note how soon after a loss cleaning up begins."""

    def __init__(self, tell: Callable[[object], None]) -> None:
        super().__init__(tell)
        self.lost_at: dict[LogicalNodeId, int] = {}
        """When each node was told lost, in nanoseconds: until its destroy is handed over."""
        self.waited: list[int] = []
        """Nanoseconds from the one to the other."""
        self.handed_over = 0
        """How many attempts were."""
        self.thread = 0
        """Where `submit` is called: the driver's thread."""

    def submit(self, effect: PlannedEffect) -> None:
        """Note, and reply."""
        if isinstance(effect.command, DestroyLease):
            self.waited.append(perf_counter_ns() - self.lost_at.pop(effect.node))
            self.thread = get_ident()
        self.handed_over += isinstance(effect.command, BootstrapConvergenceObserved)
        super().submit(effect)


class _Replier(ContainedActor):
    """Replies to effects on a thread of its own."""

    def __init__(self, system: ActorSystem, tell: Callable[[object], None]) -> None:
        super().__init__(system, "replies")
        self._tell_driver = tell

    def on_receive(self, message: object) -> None:
        """One effect."""
        assert isinstance(message, PlannedEffect), message
        for reply in replies_to(message):
            self._tell_driver(reply)


class ReplyingActor(TakenEffects):
    """Executors that are another actor."""

    def __init__(self, system: ActorSystem, tell: Callable[[object], None]) -> None:
        super().__init__()
        self.actor = _Replier(system, tell)

    def submit(self, effect: PlannedEffect) -> None:
        """Into its mailbox."""
        self.actor.tell(effect)

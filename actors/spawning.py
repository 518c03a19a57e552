"""Starts actors for the executors: on threads of their own, or stepped without any.

Both keep the same promises (`executors.provider.Spawner`): messages in order, exceptions contained,
`died` told.  Neither knows what its actors do.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal

from cluster_reconciler.actors.base import ContainedActor
from cluster_reconciler.actors.mailbox import Ring
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.executors.provider import ActorHandle, Behaviour

THREAD_STACK_BYTES = 4 * 1024 * 1024
"""Address space, not memory: only what is used is ever committed.  Smaller stacks were tried on
CPython 3.11: with 256 KiB to 2 MiB a runaway recursion in a provider overflows the stack before it
reaches the recursion limit, and the whole process dies of a segmentation fault; with 4 MiB it is an
ordinary RecursionError, which is contained."""

_stack_size_lock = threading.Lock()
"""The stack size is one number for the whole process."""


class BehaviourActor(ContainedActor):
    """Lends an actor's mailbox and thread to a `Behaviour`."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        behaviour: Behaviour,
        ring: Ring,
        told: Callable[["BehaviourActor"], None] | None = None,
    ) -> None:
        self._behaviour = behaviour
        self._told = told
        super().__init__(system, name, ring=ring)

    def on_receive(self, message: object) -> None:
        """Hand the message to the behaviour."""
        self._behaviour.handle(message)

    def tell(self, message: object) -> None:
        """See `ContainedActor.tell`."""
        super().tell(message)
        if self._told is not None:
            self._told(self)

    def stop(self) -> None:
        """See `ContainedActor.stop`."""
        alive = self.is_alive()
        super().stop()
        if alive and self._told is not None:
            self._told(self)


class _Names:
    """Gives names that no live actor has: an actor may still be ending when the next one of its
    name is wanted.  Not safe for threads."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system

    def free(self, wanted: str) -> str:
        name, number = wanted, 1
        while self._system.find(name) is not None:
            number += 1
            name = f"{wanted}~{number}"
        return name


class ThreadSpawner:
    """Each actor on its own daemon thread.  Safe for threads.

    The actors are short-lived and many, so they share one ring: `ring` keeps the latest messages of
    all of them, also after they are gone.
    """

    def __init__(self, system: ActorSystem, stack_bytes: int = THREAD_STACK_BYTES) -> None:
        self.ring = Ring()
        self._system = system
        self._stack_bytes = stack_bytes
        self._names = _Names(system)
        self._lock = threading.Lock()

    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        """See `Spawner`; a name that is taken gets a number.

        Raises:
            ActorStartFailed: the system is stopping, or the platform has no thread to give.
        """
        with self._lock:
            actor = BehaviourActor(self._system, self._names.free(name), behaviour, self.ring)
        with _stack_size_lock:
            before = threading.stack_size(self._stack_bytes)
            try:
                actor.launch()
            finally:
                threading.stack_size(before)
        actor.watch(died)
        return actor


class _SteppedActor(BehaviourActor):
    """One that can be killed between two messages."""

    doomed = False
    """It dies instead of handling another message, as a thread does that is killed."""

    def on_receive(self, message: object) -> None:
        if self.doomed:
            raise SystemExit("killed")
        super().on_receive(message)


class SteppingSpawner:
    """Actors without threads: nothing runs until `pump` is called.  Not safe for threads.

    With order "fifo" the message that was told first is handled first, over all actors; with "lifo"
    the actor that was told something last goes first.  Each actor handles its own messages in the
    order in which they were told, either way.
    """

    def __init__(self, system: ActorSystem, order: Literal["fifo", "lifo"] = "fifo") -> None:
        self.ring = Ring()
        self._system = system
        self._order = order
        self._names = _Names(system)
        self._turns: deque[BehaviourActor] = deque()
        """One turn for each message (or stop) that waits; an ended actor may still have some."""
        self._handling: set[BehaviourActor] = set()

    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        """See `Spawner`; a name that is taken gets a number."""
        actor = _SteppedActor(
            self._system, self._names.free(name), behaviour, self.ring, self._turns.append
        )
        actor.watch(died)
        return actor

    @property
    def queued(self) -> int:
        """How many messages wait for `pump`."""
        return sum(not a.ended.is_set() and a not in self._handling for a in self._turns)

    def pump(self) -> bool:
        """Handle one message of one actor; False: nothing waits.  An actor that is in the middle
        of a message, because this is called from within it or beside it, keeps its turn."""
        while (actor := self._next()) is not None:
            self._handling.add(actor)
            try:
                if actor.pump_one():
                    return True
            finally:
                self._handling.discard(actor)
        return False

    def kill(self, nth: int) -> bool:
        """The nth of the actors that have a message to handle (counted round) dies instead of
        handling it; False: there is none."""
        waiting = [
            actor
            for actor in self._turns
            if isinstance(actor, _SteppedActor)
            and not actor.ended.is_set()
            and actor not in self._handling
        ]
        if waiting:
            waiting[nth % len(waiting)].doomed = True
        return bool(waiting)

    def _next(self) -> BehaviourActor | None:
        places = range(len(self._turns))
        for place in places if self._order == "fifo" else reversed(places):
            actor = self._turns[place]
            if actor not in self._handling:
                del self._turns[place]
                return actor
        return None

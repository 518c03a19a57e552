"""Who is alive under which name in one runtime, and how they all end.

The register is the runtime's own: several runtimes, and a host's own pykka actors, live side by
side in one process and never stop each other.  It starts nothing by itself.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Protocol

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.trace_log import FoldedLog


class ActorStartFailed(Exception):
    """An actor could not be started; the text says which and why."""


class SystemActor(Protocol):
    """What the system needs to know of its actors."""

    name: str

    def stop(self) -> None:
        """Let it end once the messages told before are handled."""

    def join(self, timeout: timedelta) -> bool:
        """Wait for its end; False: not within `timeout`."""


class ActorSystem:
    """The actors of one runtime.  Safe for threads."""

    def __init__(
        self, name: str, clock: Clock, *, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.clock = clock
        self.ticks = ticks
        """Seconds, for latencies only; a stepping runtime gives a constant one."""
        self.undelivered = 0
        """How many messages were told to actors that had ended."""
        self._sequence = count(1)
        self._actors: dict[str, SystemActor] = {}
        """The live ones by name, in the order in which they were made."""
        self._stopping = False
        self._lock = threading.Lock()
        self._log = FoldedLog(clock)

    def next_sequence(self) -> int:
        """The next number of a handled message, over all actors."""
        return next(self._sequence)

    def add(self, actor: SystemActor) -> None:
        """Enter an actor under its name.

        Raises:
            ActorStartFailed: the name belongs to a live actor, or the system is stopping.
        """
        with self._lock:
            if self._stopping:
                raise ActorStartFailed(f"actor {actor.name} cannot start: {self.name} is stopping")
            if actor.name in self._actors:
                raise ActorStartFailed(
                    f"actor {actor.name} cannot start: {self.name} already has a live actor of "
                    "that name; stop it first, or choose another name"
                )
            self._actors[actor.name] = actor

    def remove(self, actor: SystemActor) -> None:
        """Forget an actor that has ended."""
        with self._lock:
            if self._actors.get(actor.name) is actor:
                del self._actors[actor.name]

    def find(self, name: str) -> SystemActor | None:
        """The live actor of that name."""
        with self._lock:
            return self._actors.get(name)

    def names(self) -> tuple[str, ...]:
        """The live actors, in the order in which they were made."""
        with self._lock:
            return tuple(self._actors)

    def report_undelivered(self, actor: str, message_type: str) -> None:
        """Count and log a message that nobody will handle."""
        with self._lock:
            self.undelivered += 1
            level = "DEBUG" if self._stopping else "WARNING"
        self._log.write(
            level,
            ("undelivered", message_type),
            f"{message_type} was told to actor {actor}, which has ended: nobody handles it",
        )

    def stop(self, timeout: timedelta) -> tuple[str, ...]:
        """Stop every actor, the latest first, each once what was told to it before is handled;
        answers the names of those that have not ended when the time is up.

        An actor waits for the end of those that were made after it, but never for more than its
        share of the time that is left: one that hangs delays the others and does not starve them.
        Nothing can be started any more.
        """
        deadline = time.monotonic() + max(0.0, timeout.total_seconds())
        with self._lock:
            self._stopping = True
            actors = list(self._actors.values())
        while actors:
            actor = actors[-1]
            actor.stop()
            left = max(0.0, deadline - time.monotonic())
            actor.join(timedelta(seconds=left / len(actors)))
            actors.pop()
        for name in self.names():
            late = self.find(name)
            if late is not None:
                late.join(timedelta(seconds=max(0.0, deadline - time.monotonic())))
        return self.names()

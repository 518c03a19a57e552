"""The base of every actor: containment, death watch, bookkeeping, and one way to handle a message.

pykka gives the actor and its mailbox; on its own, it lets an exception from a told message kill the
actor, lets a BaseException in one actor stop all, answers a reference to an actor that died while
starting, and loses what is told after a stop (pykka 4.5, `_actor.py`).  Here:

- An exception in handling one message is logged with the message and handed to `on_contained`;
  the actor lives on.  An exception in answering an `ask` is the asker's alone.
- A BaseException ends this actor only; its watchers are told why.
- A message that nobody will handle any more is logged and counted; its teller never sees an error.
- Thread and stepping run the same code for each message: `_handle_envelope`.

What this file never does: know what a message means, or keep an actor in pykka's global registry.
Who is alive under which name is the business of an `ActorSystem` (see `system`).
"""

import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pykka
from loguru import logger
from pykka._actor import ActorInbox
from pykka._envelope import Envelope
from pykka.messages import _ActorStop

from cluster_reconciler.actors.mailbox import MailboxRecord, Ring, correlate
from cluster_reconciler.actors.mailbox_words import described
from cluster_reconciler.actors.system import ActorStartFailed, ActorSystem
from cluster_reconciler.actors.trace_log import log_message, traceback_text

__all__ = ["HIGH_WATER", "ActorStartFailed", "ActorSystem", "ContainedActor", "StampedEnvelope"]

HIGH_WATER = 1_000
"""A mailbox that holds so many messages is warned about, again at each doubling."""

START_TIMEOUT = timedelta(seconds=10)

_current = threading.local()
"""`name`: the actor whose message this thread handles just now."""


class StampedEnvelope(Envelope[object]):
    """A message with who told it and when."""

    __slots__ = ("sender", "told_at")

    def __init__(
        self, message: object, reply_to: pykka.Future[Any] | None, sender: str, told_at: float
    ) -> None:
        super().__init__(message, reply_to)
        self.sender = sender
        self.told_at = told_at


class ContainedActor(pykka.ThreadingActor):
    """An actor that outlives its messages.  Subclasses implement `on_receive`; they may implement
    `on_start`, `on_stop` and `on_contained`.

    Make it with its system and name, then either `start_contained()`, which gives it a thread, or
    `pump_one()` by hand, which does not.  It is its own handle: `tell`, `ask`, `stop`.
    """

    use_daemon_thread = True

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        *,
        ring: Ring | None = None,
        high_water: int = HIGH_WATER,
    ) -> None:
        super().__init__()
        self.name = name
        self.system = system
        self.ring = ring if ring is not None else Ring()
        self.record: MailboxRecord | None = None
        """Of the message that is being handled, or was handled last."""
        self.contained = 0
        """How many messages failed so far."""
        self._high_water = max(1, high_water)
        self._warn_at = self._high_water
        self._watchers: list[Callable[[str], None]] = []
        self._lock = threading.Lock()
        self._death: str | None = None
        """Why it ended in another way than by `stop`; set before `ended`."""
        self._set_up = False
        self._start_error: BaseException | None = None
        self._started = threading.Event()
        self.ended = threading.Event()
        """Set once nothing more will be handled."""
        self._thread: threading.Thread | None = None
        system.add(self)

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        inbox: queue.SimpleQueue[Envelope[Any]] = queue.SimpleQueue()
        return inbox

    # The outside: callable from any thread.

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return self.actor_inbox.qsize()  # type: ignore[attr-defined,no-any-return]  # ours

    @property
    def death(self) -> str | None:
        """Why it has ended in another way than by `stop`."""
        return self._death

    def is_alive(self) -> bool:
        """Whether a message told now may still be handled."""
        return not self.actor_stopped.is_set()

    def tell(self, message: object) -> None:
        """Put the message into the mailbox; never blocks, never raises."""
        self._put(message, None)

    def ask(self, message: object) -> pykka.Future[Any]:
        """Put the message in and answer a future of the reply.  Only for the edge of the system: an
        actor that asks can deadlock.  `future.get(timeout)` raises what handling it raised, or
        `pykka.ActorDeadError` when the actor ends first."""
        future: pykka.Future[Any] = self._create_future()
        self._put(message, future)
        return future

    def stop(self) -> None:
        """Let the actor end once the messages told before are handled; returns at once."""
        if self.is_alive():
            self._put(_ActorStop(), None)

    def watch(self, died: Callable[[str], None]) -> None:
        """Call `died(reason)` once if the actor ends in any way but by `stop`; at once if it has.
        Called in the actor's thread; it must not block."""
        with self._lock:
            if not self.ended.is_set():
                self._watchers.append(died)
                return
            death = self._death
        if death is not None:
            self._tell_watcher(died, death)

    def start_contained(self, timeout: timedelta = START_TIMEOUT) -> None:
        """Give the actor its thread, and return once `on_start` has run.

        Raises:
            ActorStartFailed: `on_start` raised, or did not return in time (the actor then ends as
                soon as it does), or the platform has no thread to give.
        """
        self.launch()
        if not self._started.wait(max(0.0, timeout.total_seconds())):
            self._put(_ActorStop(), None)
            raise ActorStartFailed(
                f"actor {self.name}: on_start has not returned within {timeout.total_seconds()} s; "
                "it will end when it does"
            )
        if self._start_error is not None:
            raise ActorStartFailed(
                f"actor {self.name} died while starting: {self._start_error!r}"
            ) from self._start_error

    def launch(self) -> None:
        """Give the actor its thread and do not wait.

        Raises:
            ActorStartFailed: the platform has no thread to give.
        """
        thread = threading.Thread(target=self._actor_loop, name=self.name, daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            self._end(f"it got no thread: {error}")
            raise ActorStartFailed(f"actor {self.name} got no thread: {error}") from error

    def join(self, timeout: timedelta) -> bool:
        """Wait for the end of the actor and of its thread; False: not within `timeout`.  An actor
        without a thread is pumped until it has ended."""
        thread = self._thread
        if thread is threading.current_thread():
            return self.ended.is_set()
        if thread is None:
            while self.pump_one():
                pass
            return self.ended.is_set()
        seconds = max(0.0, timeout.total_seconds())
        try:
            thread.join(seconds)
        except RuntimeError:  # It is being launched in this very moment.
            return self.ended.wait(seconds)
        return not thread.is_alive()

    def pump_one(self) -> bool:
        """Handle exactly one message in the caller's thread, as the actor's own thread would; False
        when there is none, or when the actor has ended.  Only for an actor without a thread."""
        assert self._thread is None, f"actor {self.name} has a thread of its own"
        self._ensure_set_up()
        if self.ended.is_set() or self.actor_inbox.empty():
            return False
        before = getattr(_current, "name", "")
        _current.name = self.name
        try:
            self._handle_envelope(self.actor_inbox.get())
        finally:
            _current.name = before
            if self.actor_stopped.is_set():
                self._end(self._death)
        return True

    # For subclasses.

    def on_contained(self, message: object, error: Exception) -> None:
        """Called after a told message failed; the failure is already logged."""

    # The inside: one thread at a time.

    def _put(self, message: object, reply_to: pykka.Future[Any] | None) -> None:
        sender = getattr(_current, "name", "")
        inbox = self.actor_inbox
        inbox.put(StampedEnvelope(message, reply_to, sender, self.system.ticks()))
        depth = inbox.qsize()  # type: ignore[attr-defined]  # ours
        if depth >= self._warn_at:
            self._warn_of_depth(depth)
        # First put, then look: whoever comes second, the ender or this teller, finds the message.
        if self.ended.is_set():
            self._report_leftovers()

    def _warn_of_depth(self, depth: int) -> None:
        while self._warn_at <= depth:
            self._warn_at *= 2
        logger.bind(actor=self.name, depth=depth).warning(
            "actor {}: {} messages wait in its mailbox; next warning at {}",
            self.name, depth, self._warn_at,
        )  # fmt: skip

    def _ensure_set_up(self) -> None:
        if self._set_up:
            return
        self._set_up = True
        try:
            self.on_start()
        except BaseException as error:  # noqa: BLE001  told to the starter and to the watchers
            self._start_error = error
            logger.error("actor {} died while starting\n{}", self.name, traceback_text(error))
            self._end(f"its start failed: {error!r}")
        finally:
            self._started.set()

    def _actor_loop(self) -> None:
        _current.name = self.name
        self._ensure_set_up()
        stopped, inbox = self.actor_stopped, self.actor_inbox
        try:
            while not stopped.is_set():
                self._handle_envelope(inbox.get())
        except BaseException as error:  # noqa: BLE001  a fault of ours, or of a log sink
            self._death = self._death or f"its loop failed: {error!r}"
        finally:
            self._end(self._death)

    def _handle_envelope(self, envelope: Envelope[Any]) -> None:
        message, reply_to = envelope.message, envelope.reply_to
        if isinstance(message, _ActorStop):
            self._stop()
            if reply_to is not None:
                reply_to.set(None)
            return
        try:
            self._book(envelope, message)
            response = self.on_receive(message)  # Not by way of pykka: nobody has a proxy of it.
        except Exception as error:  # noqa: BLE001  containment is what this class is for
            if reply_to is not None:
                reply_to.set_exception()
            else:
                self._contain(message, error)
        except BaseException as error:
            self._death = f"{error!r} in handling {type(message).__name__}"
            self.actor_stopped.set()
            logger.bind(actor=self.name).critical(
                "actor {} dies: {}\n{}", self.name, self._death, traceback_text(error)
            )
            if reply_to is not None:
                reply_to.set_exception()
            if isinstance(error, KeyboardInterrupt) and self._thread is None:
                raise  # Pumped by hand: it was meant for the one who pumps.
        else:
            if reply_to is not None:
                reply_to.set(response)

    def _book(self, envelope: Envelope[Any], message: object) -> None:
        system = self.system
        depth = self.depth
        if depth * 2 < self._high_water:
            self._warn_at = self._high_water
        latency, sender = 0.0, ""
        if isinstance(envelope, StampedEnvelope):
            latency, sender = system.ticks() - envelope.told_at, envelope.sender
        node, attempt, operation = correlate(message)
        record = MailboxRecord(
            system.next_sequence(), system.clock.now(), self.name, type(message).__name__, sender,
            node, attempt, operation, depth, latency,
        )  # fmt: skip
        self.record = record
        self.ring.add(record, message)
        log_message(record)

    def _contain(self, message: object, error: Exception) -> None:
        self.contained += 1
        kind, said = type(message).__name__, described(message)
        logger.bind(actor=self.name).error(
            "actor {}: handling {}{} failed, it goes on\n{}",
            self.name, kind, f" ({said})" if said else "", traceback_text(error),
        )  # fmt: skip
        self.ring.note(f"failed: {error!r}", *correlate(message))
        try:
            self.on_contained(message, error)
        except Exception as second:  # noqa: BLE001  a hook must not undo the containment
            logger.error("actor {}: on_contained failed\n{}", self.name, traceback_text(second))

    def _stop(self) -> None:
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception as error:  # noqa: BLE001  it ends all the same
            logger.error("actor {}: on_stop failed\n{}", self.name, traceback_text(error))

    def _end(self, death: str | None) -> None:
        """Nothing more will be handled: report what is left, tell the watchers."""
        with self._lock:
            if self.ended.is_set():
                return
            self._death = death
            self.actor_stopped.set()
            self.ended.set()
            watchers, self._watchers = self._watchers, []
        self._report_leftovers()
        self.system.remove(self)
        if death is not None:
            for died in watchers:
                self._tell_watcher(died, death)

    def _tell_watcher(self, died: Callable[[str], None], death: str) -> None:
        try:
            died(f"actor {self.name} died: {death}")
        except Exception as error:  # noqa: BLE001  the next watcher must be told too
            logger.error("actor {}: a death watcher failed\n{}", self.name, traceback_text(error))

    def _report_leftovers(self) -> None:
        while True:
            try:
                envelope: Envelope[Any] = self.actor_inbox.get_nowait()  # type: ignore[attr-defined]
            except queue.Empty:
                return
            message, reply_to = envelope.message, envelope.reply_to
            if not isinstance(message, _ActorStop):
                self.system.report_undelivered(self.name, type(message).__name__)
            if reply_to is not None:
                reason = self._death or "it was stopped"
                error = pykka.ActorDeadError(f"actor {self.name} did not answer: {reason}")
                reply_to.set_exception((pykka.ActorDeadError, error, None))

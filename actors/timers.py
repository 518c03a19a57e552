"""Timers: a callback at a moment, under a key that replaces and cancels.

Timers never decide anything and never hand time out: a callback tells an actor that something is
due, and the actor looks at its own state.  A callback may therefore come late, or once more after
its key was cancelled in the same instant, and must not mind.
"""

import heapq
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from loguru import logger
from msgspec import Struct

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.trace_log import traceback_text

LONGEST_WAIT = timedelta(hours=1)
"""The thread looks at the clock at least so often; no wait is ever too long for the platform."""

STALE_ENTRIES_MIN = 64
"""Below so many replaced or cancelled entries, pruning the heap is not worth it."""


class Timers(Protocol):
    """Calls back when something is due."""

    def schedule(self, key: str, at: datetime, callback: Callable[[], None]) -> None:
        """Call back once, at `at` or soon after; replaces what was scheduled under this key."""

    def cancel(self, key: str) -> None:
        """Forget the key; one that is not scheduled is fine."""


class _Entry(Struct, frozen=True):
    at: datetime
    order: int
    """Distinct for each scheduling: what is due together is called in the order it was asked."""
    key: str
    callback: Callable[[], None]


class _Schedule:
    """The heap and the map of the keys.  Not safe for threads."""

    def __init__(self) -> None:
        self.current: dict[str, _Entry] = {}
        """The one live entry of each key."""
        self.heap: list[tuple[datetime, int, _Entry]] = []
        """Holds every live entry, and fewer stale ones than live ones (plus a few)."""
        self.next_order = 0

    def put(self, key: str, at: datetime, callback: Callable[[], None]) -> None:
        if at.tzinfo is None:
            raise ValueError(f"timer {key!r} needs an aware time, found the naive {at}")
        entry = _Entry(at, self.next_order, key, callback)
        self.next_order += 1
        self.current[key] = entry
        heapq.heappush(self.heap, (at, entry.order, entry))
        self._prune()

    def drop(self, key: str) -> None:
        if self.current.pop(key, None) is not None:
            self._prune()

    def first(self) -> _Entry | None:
        """The live entry that is due next."""
        while self.heap:
            entry = self.heap[0][2]
            if self.current.get(entry.key) is entry:
                return entry
            heapq.heappop(self.heap)
        return None

    def take_due(self, now: datetime, before_order: int) -> _Entry | None:
        """Remove and answer the next entry that is due and was asked for before `before_order`."""
        entry = self.first()
        if entry is None or entry.at > now:
            return None
        if entry.order >= before_order:
            due = [e for e in self.current.values() if e.at <= now and e.order < before_order]
            if not due:
                return None
            entry = min(due, key=lambda e: (e.at, e.order))
        del self.current[entry.key]
        return entry

    def _prune(self) -> None:
        if len(self.heap) > 2 * len(self.current) + STALE_ENTRIES_MIN:
            self.heap = [(e.at, e.order, e) for e in self.current.values()]
            heapq.heapify(self.heap)


def _call(entry: _Entry) -> None:
    try:
        entry.callback()
    except Exception as error:  # noqa: BLE001  a callback of anyone's must not end the timers
        logger.error("timer {!r}: its callback failed\n{}", entry.key, traceback_text(error))


class ThreadTimers:
    """Timers on one daemon thread, which starts with the first key.  Safe for threads."""

    def __init__(self, clock: Clock, name: str = "timers") -> None:
        self._clock = clock
        self._name = name
        self._schedule = _Schedule()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule(self, key: str, at: datetime, callback: Callable[[], None]) -> None:
        """See `Timers`.  Ignored once closed: nobody is left to call back."""
        with self._changed:
            if self._closed:
                logger.debug("timer {!r} is ignored: {} are closed", key, self._name)
                return
            self._schedule.put(key, at, callback)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            first = self._schedule.first()
            if first is not None and first.key == key:  # Else the thread sleeps no longer for it.
                self._changed.notify()

    def cancel(self, key: str) -> None:
        """See `Timers`.  A callback that has begun is not waited for."""
        with self._changed:
            self._schedule.drop(key)

    def close(self, timeout: timedelta) -> bool:
        """Forget every key and end the thread; False: a callback still runs after `timeout`."""
        with self._changed:
            self._closed = True
            self._schedule = _Schedule()
            self._changed.notify_all()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(max(0.0, timeout.total_seconds()))
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                entry = self._next_due()
            if entry is None:
                return
            try:
                _call(entry)
            except BaseException as error:  # noqa: BLE001  nor may its SystemExit
                logger.critical("timer {!r} failed\n{}", entry.key, traceback_text(error))

    def _next_due(self) -> _Entry | None:
        """Wait for the next due entry; None: closed.  The lock is held, save while waiting."""
        while not self._closed:
            now = self._clock.now()
            entry = self._schedule.take_due(now, self._schedule.next_order)
            if entry is not None:
                return entry
            first = self._schedule.first()
            wait = LONGEST_WAIT if first is None else min(first.at - now, LONGEST_WAIT)
            self._changed.wait(None if first is None else wait.total_seconds())
        return None


class ManualTimers:
    """Timers that fire when they are told to: for the stepping runtime.  Not safe for threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._schedule = _Schedule()

    def schedule(self, key: str, at: datetime, callback: Callable[[], None]) -> None:
        """See `Timers`."""
        self._schedule.put(key, at, callback)

    def cancel(self, key: str) -> None:
        """See `Timers`."""
        self._schedule.drop(key)

    def next_due(self) -> datetime | None:
        """The earliest moment at which a timer is due; None: nothing is scheduled."""
        first = self._schedule.first()
        return None if first is None else first.at

    def fire_due(self) -> int:
        """Call back what is due now, in the order of time, then of asking; answers how many.

        What a callback schedules anew waits for the next call, so that one that asks for "now"
        again and again cannot hold this call for ever.
        """
        now, before, fired = self._clock.now(), self._schedule.next_order, 0
        while (entry := self._schedule.take_due(now, before)) is not None:
            _call(entry)
            fired += 1
        return fired

"""Handing events to readers (design §5): bounded, each reader from its own call on, or from the
start on.

A reader that is too slow loses the oldest events, and is told how many; it never slows the driver.
"""

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from datetime import datetime

from cluster_reconciler.actors.events import ClusterEvent, EventKind

EVENTS_MAX = 10_000
"""So many wait for a reader."""
PAST_MAX = 1_000
"""So many are kept for those who come later."""


class Subscriptions:
    """Safe for threads: one side publishes, each reader reads its own."""

    def __init__(self, events_max: int = EVENTS_MAX, past_max: int = PAST_MAX) -> None:
        self._events_max = events_max
        self._past: deque[ClusterEvent] = deque(maxlen=past_max)
        self._published = 0
        self._lock = threading.Lock()
        self._readers: list[weakref.ref[_Reader]] = []
        """Each is kept by its iterator alone: one that is dropped is fed no more."""
        self._closed = False

    def publish(self, event: ClusterEvent) -> None:
        """To every reader; never blocks."""
        with self._lock:
            self._past.append(event)
            self._published += 1
            if self._readers:
                for reader in self._live_readers():
                    reader.put(event)

    def subscribe(self, *, past: bool = False) -> Iterator[ClusterEvent]:
        """Events from now on (not from the first `next` on), until `close`; with `past` after those
        that are kept."""
        reader = _Reader(self._events_max)
        with self._lock:
            if past and self._past:
                reader.missed(self._published - len(self._past), self._past[0].at)
                for event in self._past:
                    reader.put(event)
            if self._closed:
                reader.close()
            else:
                self._readers = [weakref.ref(each) for each in (*self._live_readers(), reader)]
        return _read(reader)

    def close(self) -> None:
        """End every reader, once it has read what is there; idempotent."""
        with self._lock:
            self._closed = True
            for reader in self._live_readers():
                reader.close()

    def _live_readers(self) -> "list[_Reader]":
        found = [reader for known in self._readers if (reader := known()) is not None]
        if len(found) < len(self._readers):
            self._readers = [weakref.ref(reader) for reader in found]
        return found


def _read(reader: "_Reader") -> Iterator[ClusterEvent]:
    while (event := reader.get()) is not None:
        yield event


class _Reader:
    def __init__(self, events_max: int) -> None:
        self._events: deque[ClusterEvent] = deque()
        self._events_max = events_max
        self._changed = threading.Condition()
        self._dropped = 0
        self._dropped_at: datetime | None = None
        self._closed = False

    def put(self, event: ClusterEvent) -> None:
        with self._changed:
            if len(self._events) >= self._events_max:
                self._dropped_at = self._events.popleft().at
                self._dropped += 1
            self._events.append(event)
            self._changed.notify()

    def missed(self, count: int, at: datetime) -> None:
        with self._changed:
            self._dropped, self._dropped_at = count, at

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def get(self) -> ClusterEvent | None:
        """The next event; None when there will be none.  Waits, and wakes for signals."""
        with self._changed:
            while not self._events and not self._closed:
                self._changed.wait(timeout=1.0)
            if self._dropped and self._dropped_at is not None:
                text = f"{self._dropped} events were dropped: this reader is too slow or too late"
                self._dropped = 0
                return ClusterEvent(self._dropped_at, EventKind.DROPPED, None, None, text)
            return self._events.popleft() if self._events else None

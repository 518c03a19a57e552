"""The log's side of the mailbox: each message at TRACE, and failures that repeat folded.

An identical failure is written at its 1st, 2nd, 4th, 8th, ... occurrence, then hourly, with its
count.  `RepeatedFailureFilter` is pure; only `FoldedLog` reads a clock and writes.
"""

import threading
import traceback
from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta

from loguru import logger
from msgspec import Struct

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.mailbox import MailboxRecord

REPEAT_AT_LEAST_EVERY = timedelta(hours=1)
KEYS_MAX = 10_000


def log_message(record: MailboxRecord) -> None:
    """Write one handled message at TRACE, its record bound as `mailbox`.  What it says stands in
    the story and in the trace file, not in the log."""
    logger.trace(
        "{} handles {} #{}", record.actor, record.message_type, record.sequence, mailbox=record
    )


def traceback_text(error: BaseException) -> str:
    """The traceback as plain text.  loguru's own (`opt(exception=...)`) is not used for failures of
    calls: with its default sinks it prints the values of variables, and among those of an executor
    are resolved secrets."""
    return "".join(traceback.format_exception(error)).rstrip()


class _Repeats(Struct):
    count: int
    written_at: datetime


class RepeatedFailureFilter:
    """Says which occurrences of a failure are worth a line.  Safe for threads."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        if keys_max < 1:
            raise ValueError(f"at least 1 key must be remembered, found keys_max={keys_max}")
        self._keys_max = keys_max
        self._repeats: OrderedDict[Hashable, _Repeats] = OrderedDict()
        """The latest seen stands last; the one that was not seen for longest is forgotten first."""
        self._lock = threading.Lock()

    def count(self, key: Hashable, now: datetime) -> int | None:
        """How often `key` has occurred, this time included, if that is worth a line: at a power of
        two, and when the last line is an hour old.  None otherwise."""
        with self._lock:
            return self._count(key, now)

    def forget(self, key: Hashable) -> None:
        """The failure is over: its next occurrence is a first one again."""
        with self._lock:
            self._repeats.pop(key, None)

    def _count(self, key: Hashable, now: datetime) -> int | None:
        repeats = self._repeats.get(key)
        if repeats is None:
            if len(self._repeats) >= self._keys_max:
                self._repeats.popitem(last=False)
            self._repeats[key] = _Repeats(1, now)
            return 1
        repeats.count += 1
        self._repeats.move_to_end(key)
        is_power_of_two = repeats.count & (repeats.count - 1) == 0
        if not is_power_of_two and now - repeats.written_at < REPEAT_AT_LEAST_EVERY:
            return None
        repeats.written_at = now
        return repeats.count


class FoldedLog:
    """Writes to the log what `RepeatedFailureFilter` lets through.  Safe for threads."""

    def __init__(self, clock: Clock, keys_max: int = KEYS_MAX) -> None:
        self._clock = clock
        self._filter = RepeatedFailureFilter(keys_max)

    def write(self, level: str, key: Hashable, text: str, **bound: object) -> int | None:
        """Write `text` at the level if its turn has come, with the count from the second time on;
        answers the count when it was written.  `key` says what counts as identical."""
        count = self._filter.count(key, self._clock.now())
        if count is not None:
            repeated = f" (occurrence {count})" if count > 1 else ""
            logger.bind(repeats=count, **bound).log(level, "{}{}", text, repeated)
        return count

    def forget(self, key: Hashable) -> None:
        """The failure is over: its next occurrence is written as a first one."""
        self._filter.forget(key)

"""The time that everything in the shell goes by.  It knows no timer and waits for nothing.

State and messages carry aware UTC datetimes that are only ever passed in; this is where they come
from.  A clock never steps back and never raises: at the end of time it stands still.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The present moment, aware and in UTC; never earlier than what was told before."""


class SystemClock:
    """Reads the wall clock once, when made, and from then on advances with the monotonic clock, so
    that a stepped wall clock moves no deadline (design §3).  Safe for threads."""

    def __init__(
        self,
        wall: Callable[[], datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = _utc(wall() if wall is not None else datetime.now(UTC))
        self._monotonic = monotonic
        self._zero = monotonic()

    def now(self) -> datetime:
        """The present moment; `END_OF_TIME` once that is passed."""
        try:
            return self._start + timedelta(0, self._monotonic() - self._zero)
        except OverflowError:
            return END_OF_TIME


class ManualClock:
    """Stands still until it is moved by hand: for the stepping runtime and for tests."""

    def __init__(self, start: datetime) -> None:
        self._now = _utc(start)

    def now(self) -> datetime:
        """The moment that the clock was last moved to."""
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move on by a span of at least zero; answers the new time.  Stops at `END_OF_TIME`.

        Raises:
            ValueError: the span is negative.
        """
        if by < timedelta(0):
            raise ValueError(f"a clock cannot go back: advance by at least 0, asked for {by}")
        try:
            self._now = self._now + by
        except OverflowError:
            self._now = END_OF_TIME
        return self._now

    def set(self, to: datetime) -> datetime:
        """Move on to a moment that is not before the present one; answers it.

        Raises:
            ValueError: the moment is naive, or earlier than now.
        """
        moment = _utc(to)
        if moment < self._now:
            raise ValueError(
                f"a clock cannot go back: it is {self._now.isoformat()}, asked for "
                f"{moment.isoformat()}; make a new clock for an earlier time"
            )
        self._now = moment
        return moment


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(
            f"a clock needs an aware time, found the naive {moment.isoformat()}; "
            "give it a time zone, such as tzinfo=UTC"
        )
    return moment.astimezone(UTC)

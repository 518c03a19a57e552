"""What an executor knows of the lease, and of the session, that one attempt may hold.  Pure.

The rules (design 13-16), the same for both:

- A call that makes something and has no certain answer leaves its outcome *unresolved*: the thing
  may exist.  From then on it is looked for, and never made again blindly.
- An "absent" is conclusive only when the settle time has passed since the *end* of the last call
  that may have made the thing.  A look never moves that end.  An end that nobody knows is the
  moment at which it is first asked for.
- Conclusive absence resolves: the next request makes the thing afresh.
- Time is passed in; `asked_at` is when a look was *sent*, which is the careful end of it.
"""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")


class Holding(Struct, Generic[T], frozen=True):
    """One thing that an attempt has, may have, or has not.  At first it has not."""

    known: T | None = None
    """It exists, by a certain answer."""
    unresolved: bool = False
    """It may exist; `known` is None then."""
    call_ended_at: datetime | None = None
    """The end of the last call that may have made it."""
    gone: bool = False
    """It existed, and is known to exist no more."""

    def making(self) -> "Holding[T]":
        """A call that may make it is about to be sent."""
        return Holding(unresolved=True)

    def refused(self) -> "Holding[T]":
        """That call has certainly made nothing."""
        return Holding()

    def interrupted(self, at: datetime) -> "Holding[T]":
        """That call has ended, and nobody knows with what effect."""
        if not self.unresolved or self.call_ended_at is not None:
            return self
        return replace(self, call_ended_at=at)

    def made(self, thing: T, at: datetime) -> "Holding[T]":
        """That call has ended with the thing made."""
        return Holding(known=thing, call_ended_at=at)

    def found(self, thing: T) -> "Holding[T]":
        """A look has shown it."""
        return Holding(known=thing, call_ended_at=self.call_ended_at)

    def not_seen(self, asked_at: datetime, settle_time: timedelta) -> tuple["Holding[T]", bool]:
        """A look has not shown it; with it, whether that is conclusive."""
        if not self.unresolved and self.known is None:
            return self, True  # No call of unknown outcome was ever sent.
        ended_at = self.call_ended_at if self.call_ended_at is not None else asked_at
        if asked_at - ended_at < settle_time:
            return replace(self, call_ended_at=ended_at), False
        return Holding(gone=self.known is not None), True

    def ended(self) -> "Holding[T]":
        """Its end is confirmed."""
        return Holding(gone=True)

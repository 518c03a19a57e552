"""Chance without dice: every choice is a pure function of the seed and of the choice's own name.

No two choices share a stream, so that one that is not made any more changes no other.  It depends
on nothing else: not on the order of asking, not on hash seeds, not on the machine.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """All choices of one seed."""

    def __init__(self, seed: int) -> None:
        self._state = blake2b(f"{seed}/".encode(), digest_size=8)

    def number(self, name: str) -> int:
        """In [0, 2^64)."""
        state = self._state.copy()
        state.update(name.encode())
        return int.from_bytes(state.digest(), "big")

    def below(self, name: str, end: int) -> int:
        """In [0, end)."""
        return self.number(name) % end

    def hit(self, name: str, permille: int) -> bool:
        """True so many times in a thousand."""
        return self.number(name) % 1000 < permille

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of them; one that stands there twice is twice as likely."""
        return options[self.number(name) % len(options)]

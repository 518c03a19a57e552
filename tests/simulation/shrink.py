"""Takes away from a failing life all that it fails without: moves first, then single faults.

A life is data and its faults are decided by name, so that what is left behaves as before.  The same
failure is one of the same kind whose words are the same but for their numbers.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from tests.simulation.life import Life
from tests.simulation.running import Failure, Mode, Outcome, run

SECONDS = 60.0
"""Real time that shrinking one failure may take."""
SAME_LETTERS = 30


class Shrunk(Struct, frozen=True):
    """What is left of a failing life."""

    outcome: Outcome
    moves: tuple[str, ...]
    faults: tuple[str, ...]
    runs: int


def shrink(outcome: Outcome, seconds: float = SECONDS) -> Shrunk:
    """The smallest life that was found within that time."""
    return _Search(outcome, time.monotonic() + seconds).shrunk()


def same(one: Failure | None, other: Failure | None) -> bool:
    """Whether two failures are the same defect, as far as their words tell."""
    if one is None or other is None:
        return False
    return (one.kind, _letters(one.text)) == (other.kind, _letters(other.text))


def _letters(text: str) -> str:
    return re.sub(r"[^a-z ]", "", text.lower())[:SAME_LETTERS]


class _Search:
    def __init__(self, outcome: Outcome, deadline: float) -> None:
        assert outcome.failure is not None, "only a failing life can be shrunk"
        self._best = outcome
        self._failure = outcome.failure
        self._life: Life = outcome.life
        self._mode: Mode = outcome.mode
        self._deadline = deadline
        self._runs = 0

    def shrunk(self) -> Shrunk:
        moves = [move.name for move in self._life.moves]
        faults: list[str] | None = None
        before = len(moves) + 1
        while len(moves) + len(faults or ()) < before:
            before = len(moves) + len(faults or ())
            moves = self._fewer(moves, partial(self._fails, faults=faults))
            faults = self._fewer(list(self._best.fired), partial(self._fails, moves))
        return Shrunk(self._best, tuple(moves), tuple(faults or ()), self._runs)

    def _fails(self, moves: Sequence[str], faults: Sequence[str] | None) -> bool:
        self._runs += 1
        outcome = run(self._life, self._mode, moves=moves, faults=faults)
        if same(outcome.failure, self._failure):
            self._best = outcome
            return True
        return False

    def _fewer(self, names: list[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
        """Delta debugging: take away halves, then quarters, ... then one by one."""
        size = len(names)
        while size > 0 and time.monotonic() < self._deadline:
            at = 0
            while at < len(names) and time.monotonic() < self._deadline:
                fewer = names[:at] + names[at + size :]
                if fails(fewer):
                    names = fewer
                else:
                    at += size
            size //= 2
        return names

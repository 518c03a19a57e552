"""Provider calls that take time, in a runtime that is stepped: for tests, deterministic.

A call that is to take a minute must not block the thread that steps the clock.  So the work runs on
a thread that is lent to it, and at any moment exactly one of the threads runs: the others wait for
their turn.  It knows neither providers nor actors, and reads no clock but the one that it is given.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from cluster_reconciler.decider import later

HAND_OVER_LIMIT = 60.0
"""Seconds of real time in which work must end or pause; more is a deadlock, and an error."""


class _Strand:
    """One piece of work on its own thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.until: datetime | None = None
        self.error: BaseException | None = None
        self.ended = False
        self.go = threading.Event()
        self.back = threading.Event()


class PausedCalls:
    """Runs work that may pause.  `run` and `resume_due` are called by the stepping thread only,
    `pause` from within the work."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._strands: dict[int, _Strand] = {}
        """Those that are paused, in the order in which they began."""
        self._current = threading.local()
        self._begun = 0

    def run(self, work: Callable[[], object]) -> None:
        """Run the work until it ends or pauses; what it raises is raised here."""
        self._begun += 1
        strand = _Strand(self._begun)

        def body() -> None:
            self._current.strand = strand
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again where it was stepped
                strand.error = error
            strand.ended = True
            strand.back.set()

        threading.Thread(target=body, name=f"paused-call-{strand.number}", daemon=True).start()
        self._wait(strand)

    def pause(self, seconds: float) -> None:
        """From within the work: let the others go on until so much later."""
        strand: _Strand = self._current.strand
        strand.until = later(self._now(), timedelta(seconds=seconds))
        self._strands[strand.number] = strand
        strand.back.set()
        strand.go.wait()
        strand.go.clear()

    @property
    def due_at(self) -> datetime | None:
        """When the next paused work goes on; None: nothing is paused."""
        return min((s.until for s in self._strands.values() if s.until is not None), default=None)

    @property
    def paused(self) -> int:
        """How many are paused now."""
        return len(self._strands)

    def resume_due(self) -> bool:
        """Let everything go on that is due, one after another; whether anything was."""
        now = self._now()
        due = [s for s in self._strands.values() if s.until is not None and s.until <= now]
        for strand in sorted(due, key=lambda s: (s.until, s.number)):
            self._resume(strand)
        return bool(due)

    def release(self) -> None:
        """Let everything go on now, whenever it is due."""
        while self._strands:
            self._resume(next(iter(self._strands.values())))

    def _resume(self, strand: _Strand) -> None:
        del self._strands[strand.number]
        strand.until = None
        strand.go.set()
        self._wait(strand)

    @staticmethod
    def _wait(strand: _Strand) -> None:
        if not strand.back.wait(HAND_OVER_LIMIT):
            raise AssertionError(f"a stepped call neither ended nor paused in {HAND_OVER_LIMIT} s")
        strand.back.clear()
        if strand.error is not None:
            raise strand.error

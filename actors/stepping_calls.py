"""Provider calls that take time, in a runtime that is stepped: for tests, deterministic.

A call that is to take a minute must not block the thread that steps the clock.  So the work runs on
a thread that is lent to it, and at any moment exactly one of the threads runs: the others wait for
their turn.  It knows neither providers nor actors, and reads no clock but the one that it is given.
"""

import threading
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta

from cluster_reconciler.decider import later

HAND_OVER_LIMIT = 60.0
"""Seconds of real time in which work must end or pause; more is a deadlock, and an error."""


class _Strand:
    """A thread that is lent to one piece of work after another, and waits for its turn between."""

    def __init__(self) -> None:
        self.number = 0
        """Of the work that it has: the order in which they began."""
        self.work: Callable[[], object] | None = None
        """None: the thread is to end."""
        self.until: datetime | None = None
        self.error: BaseException | None = None
        self.ended = False
        self.go = threading.Lock()
        """Free: the thread may run.  It and `back` hand the one turn to and fro."""
        self.back = threading.Lock()
        self.go.acquire()
        self.back.acquire()

    def loop(self) -> None:
        """The thread's own."""
        _current.strand = self
        while True:
            self.go.acquire()
            if self.work is None:
                return
            try:
                self.work()
            except BaseException as error:  # noqa: BLE001 - raised again where it was stepped
                self.error = error
            self.ended = True
            self.back.release()


_current = threading.local()
"""`strand`: the one that this thread is."""


def _end(idle: list[_Strand]) -> None:
    while idle:
        strand = idle.pop()
        strand.work = None
        strand.go.release()


class PausedCalls:
    """Runs work that may pause.  `run` and `resume_due` are called by the stepping thread only,
    `pause` from within the work."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._strands: dict[int, _Strand] = {}
        """Those that are paused, in the order in which they paused."""
        self._idle: list[_Strand] = []
        self._begun = 0
        weakref.finalize(self, _end, self._idle)

    def run(self, work: Callable[[], object]) -> None:
        """Run the work until it ends or pauses; what it raises is raised here."""
        self._begun += 1
        strand = self._idle.pop() if self._idle else self._fresh()
        strand.number, strand.work = self._begun, work
        self._step(strand)

    def pause(self, seconds: float) -> None:
        """From within the work: let the others go on until so much later."""
        strand: _Strand = _current.strand
        strand.until = later(self._now(), timedelta(seconds=seconds))
        self._strands[strand.number] = strand
        strand.back.release()
        strand.go.acquire()

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
        """Let everything go on now, whenever it is due; no thread stays behind."""
        while self._strands:
            self._resume(next(iter(self._strands.values())))
        _end(self._idle)

    def _resume(self, strand: _Strand) -> None:
        del self._strands[strand.number]
        strand.until = None
        self._step(strand)

    @staticmethod
    def _fresh() -> _Strand:
        strand = _Strand()
        threading.Thread(target=strand.loop, name="paused-calls", daemon=True).start()
        return strand

    def _step(self, strand: _Strand) -> None:
        """Give the strand the turn, and wait for it to come back."""
        strand.go.release()
        if not strand.back.acquire(timeout=HAND_OVER_LIMIT):
            raise AssertionError(f"a stepped call neither ended nor paused in {HAND_OVER_LIMIT} s")
        if not strand.ended:
            return
        error, strand.error, strand.ended, strand.work = strand.error, None, False, None
        self._idle.append(strand)
        if error is not None:
            raise error

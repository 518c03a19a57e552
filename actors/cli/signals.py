"""Signals as calls on a thread of their own, so that none of them can find us deaf.

The interpreter writes each signal's number into a pipe the moment it arrives; a thread reads the
pipe.  So a main thread that is stuck in a write or a lock delays nothing, and what a signal leads
to may take locks and start threads, which a signal handler may not.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SAME_MOMENT_S = 0.002
"""Seconds.  Signals closer together are one, while nobody has answered the first: whoever ends a
process and its group sends two, and nobody means "now, at once" by that.  On a busy machine we may
hear late of two that came far apart; who has read our answer and presses again is always heard."""

SUPERVISED_S = 0.25
"""The same for SIGTERM and SIGHUP, answered or not: they come from programs (`timeout`, a service
manager), which on a busy machine take their time between the process and its group."""

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While entered (on the main thread), `came(number, count)` is called for each signal.
    `answered()`: whether the user has been told what the first one did."""

    def __init__(
        self, came: Callable[[signal.Signals, int], None], answered: Callable[[], bool]
    ) -> None:
        self._came = came
        self._answered = answered
        self._before: dict[signal.Signals, Any] = {}
        self._fd_before = -1
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._fd_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in HANDLED:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: the terminal may go
            self._before[number] = signal.signal(number, _heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.write(self._write_end, b"\0")
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            os.close(self._read_end)
            os.close(self._write_end)

    def _listen(self) -> None:
        count, last = 0, -SUPERVISED_S
        while True:
            for number in os.read(self._read_end, 64):
                if number == 0:
                    return
                now = time.monotonic()
                if number in HANDLED and self._is_apart(number, now - last):
                    count, last = count + 1, now
                    self._came(signal.Signals(number), count)

    def _is_apart(self, number: int, seconds: float) -> bool:
        """Whether it is another signal than the one so long ago."""
        if number == signal.SIGINT:
            return seconds >= SAME_MOMENT_S or self._answered()
        return seconds >= SUPERVISED_S


def _heard(number: int, frame: FrameType | None) -> None:
    """The pipe has it already; a handler must stand here for that."""

"""The live view of `up`: two threads of its own, one that asks for the status and one that paints.

Neither holds up anybody: who has a line to tell leaves it here, and a cluster that does not answer
or a terminal that does not take more (Ctrl-S) stops the view alone.  The rendering is in
`live_model`, the way of the cursor in `live_painter`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import FrameType
from typing import Any

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from cluster_reconciler.actors.cli.live_cells import Line, Tone
from cluster_reconciler.actors.cli.live_model import Memory, Moment, Size, live_lines, remembered
from cluster_reconciler.actors.cli.live_painter import PaintedLine, Painter
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.status import ClusterStatus

TICK_S = 0.25
"""Between two pictures at least; between two questions for the status also."""

REST_S = 1.0
"""Between two questions while the answers are the same; a line to tell makes it ask anew."""

SHARE, PAUSE_S_MAX = 15, 2.0
"""A status that takes long is asked for seldom: after so many times what the last one took, but
after so many seconds at the latest."""

ABOVE_MAX = 2000
"""Lines that wait to be written; who brings one more waits, so that a reader can be told that it
was too slow."""

END_S = 1.0
"""How long the last picture may take."""

_STYLES = {
    Tone.PLAIN: Style(),
    Tone.DIM: Style(dim=True),
    Tone.GOOD: Style(color="green"),
    Tone.BUSY: Style(color="yellow"),
    Tone.BAD: Style(color="red"),
}


class LiveView:
    """Safe for threads.  Begins with `start`, which must be called on the main thread if Ctrl-Z is
    to be looked after, and ends with `stop`."""

    def __init__(self, output: Output, status: Callable[[], ClusterStatus]) -> None:
        self.hint: str | None = None
        """While it drains: how to end that at once."""
        self._output = output
        self._ask = status
        self._unicode = output.shows_unicode and _locale_has_unicode()
        self._change = threading.Condition()
        """Guards what follows; notified when there is room for lines, and at the end."""
        self._above: list[str] = []
        self._latest: tuple[ClusterStatus, float] | None = None
        self._memory = Memory()
        self._has_news = False
        """A line was told since the status was asked for."""
        self._stopping = False
        self._ended = False
        self._painting = threading.Lock()
        """Held while the terminal is written to, for as long as that takes."""
        self._painter = Painter()
        self._painted_moment: Moment | None = None
        self._painted_lines: list[PaintedLine] = []
        self._suspended = False
        self._handlers: dict[signal.Signals, Any] = {}
        self._thread = threading.Thread(target=self._paint_on, name="live view", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._take_signals()
        self._thread.start()
        threading.Thread(target=self._ask_on, name="live status", daemon=True).start()

    @property
    def is_shown(self) -> bool:
        """It has begun and not ended, by a failure of its own either."""
        return not self._ended

    def above(self, text: str, *, patient: bool) -> bool:
        """A line, or several, that stay above the view.  `patient`: wait while too many are
        waiting.  False: the view has ended, and has not taken it."""
        with self._change:
            if patient:
                self._change.wait_for(lambda: len(self._above) < ABOVE_MAX or self._ended)
            if self._ended:
                return False
            self._above.append(text + "\n")
            self._has_news = True
            self._change.notify_all()
            return True

    def stop(self) -> None:
        """The view is gone, all lines are written, and the terminal is as it was; at the latest
        after `END_S`, then perhaps without that.  May be called more than once."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(END_S)
        with self._change:
            self._ended = True
            self._change.notify_all()
        self._give_signals_back()

    # -- asking -----------------------------------------------------------------------------------

    def _ask_on(self) -> None:
        rest = TICK_S
        while not self._stopping:
            began = time.monotonic()
            self._has_news = False
            with suppress(Exception):  # The one who waits for the cluster hears of it.
                status = self._ask()
                before = self._latest
                same = before is not None and before[0].nodes == status.nodes
                rest = REST_S if same else TICK_S
                with self._change:
                    self._memory = remembered(self._memory, status)
                    self._latest = status, time.monotonic()
            took = time.monotonic() - began
            with self._change:
                pause = max(TICK_S, min(PAUSE_S_MAX, SHARE * took))
                self._change.wait_for(lambda: self._stopping, pause)
                self._change.wait_for(lambda: self._stopping or self._has_news, rest - pause)

    # -- painting ---------------------------------------------------------------------------------

    def _paint_on(self) -> None:
        failure = None
        try:
            while not self._stopping:
                self._paint()
                with self._change:
                    self._change.wait_for(lambda: self._stopping, TICK_S)
        except Exception as error:  # noqa: BLE001  # a picture less must not end anything else
            failure = f"the live view has ended: {type(error).__name__}: {error}"
        with self._painting:
            above = self._taken(last=True)
            self._output.paint(self._painter.erase(_size().columns, above))
        if failure is not None:
            self._output.say(failure)

    def _paint(self) -> None:
        with self._painting:
            if self._suspended:
                return
            if not _in_foreground():
                # The shell has the terminal now: lines, as any program in the background.
                self._painter.forget()
                self._output.paint(self._taken())
                return
            size = _size()
            lines = self._lines(size)
            self._output.paint(self._painter.paint(lines, size.columns, self._taken()))

    def _lines(self, size: Size) -> list[PaintedLine]:
        with self._change:
            latest, memory = self._latest, self._memory
        if latest is None:
            return []
        status, at = latest
        # Whole seconds, so that all that counts time changes in the same picture.
        now = (status.at + timedelta(seconds=time.monotonic() - at)).replace(microsecond=0)
        moment = Moment(status, memory, now, size, unicode=self._unicode, hint=self.hint)
        if moment != self._painted_moment:
            colours = self._output.colours_data
            self._painted_lines = [_painted(line, colours) for line in live_lines(moment)]
            self._painted_moment = moment
        return self._painted_lines

    def _taken(self, *, last: bool = False) -> str:
        with self._change:
            above = "".join(self._above)
            self._above.clear()
            self._ended = self._ended or last
            self._change.notify_all()
            return above

    # -- Ctrl-Z and fg ----------------------------------------------------------------------------

    def _take_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in ((signal.SIGTSTP, self._pause), (signal.SIGCONT, self._go_on)):
            if signal.getsignal(number) == signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, handler)

    def _give_signals_back(self) -> None:
        if threading.current_thread() is threading.main_thread():
            while self._handlers:
                signal.signal(*self._handlers.popitem())

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Take the view away, then stop as if nobody had handled the signal."""
        del frame
        has_lock = self._painting.acquire(timeout=END_S)
        self._suspended = True
        if has_lock:
            self._output.paint(self._painter.erase(_size().columns))
            self._painting.release()
        before = signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        # Here the process stands still until it is continued; not when nobody could continue it.
        signal.signal(number, before)
        self._suspended = False

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        """Continued: unless it was we who stopped, the view stands where the shell has written."""
        del number, frame
        if not self._suspended:
            self._painter.forget()


def can_live() -> bool:
    """The terminal obeys."""
    return os.environ.get("TERM", "") not in {"", "dumb", "unknown"}


def _locale_has_unicode() -> bool:
    """Python writes UTF-8 in the C locale too; a terminal whose user has chosen that may show it as
    rubbish.  Where nothing is chosen, it is UTF-8 nearly always."""
    everything, letters, language = (
        os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")
    )
    if letters in {"C.UTF-8", "C.utf8", "UTF-8"}:
        letters = ""  # Python itself sets these where it finds the C locale (PEP 538).
    return (everything or letters or language) not in {"C", "POSIX"}


def _size() -> Size:
    with suppress(OSError, ValueError, AttributeError):
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        if columns > 0 and lines > 0:
            return Size(columns, lines)
    return Size(80, 24)


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return True  # It is nobody's terminal, or none of ours: no shell writes to it.


def _painted(line: Line, colours: bool) -> PaintedLine:
    text = "".join(span.text for span in line)
    cells = cell_len(text)
    if colours:
        text = "".join(
            _STYLES[span.tone].render(span.text, color_system=ColorSystem.STANDARD) for span in line
        )
    return PaintedLine(text, cells)

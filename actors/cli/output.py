"""Where the command line writes: data to stdout, prose to stderr (design §6; case F28).

A reader that went away (`| head`, a closed terminal, a full disk) never raises here: the first
failed write of data is told once, and everything after it goes nowhere.
"""

import errno
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_FULL_S = 0.01
"""After so long a full terminal is tried again; `select` is no help, it calls a full one ready."""


class LinesAbove(Protocol):
    """What keeps a picture at the end of the terminal, and takes the lines that go above it."""

    def above(self, text: str, *, patient: bool) -> bool:
        """Whether it has taken the text; if not, it is gone."""


class Output:
    """Safe for threads.  A line is written whole or not at all, and flushed."""

    def __init__(self, *, colour: bool) -> None:
        self.lost: Callable[[OSError], None] = _ignore
        """Called once, from the writing thread, when stdout takes no more."""
        self.live: LinesAbove | None = None
        """While it is there, lines for the terminal that stdout is go through it."""
        self._lock = threading.Lock()
        self._gone = False
        self._colour = colour and not os.environ.get("NO_COLOR")

    @property
    def stdout_is_terminal(self) -> bool:
        """A person reads stdout."""
        terminal = _is_terminal(sys.stdout) and os.environ.get("TERM", "") != "dumb"
        return terminal and not self._gone

    @property
    def stderr_is_terminal(self) -> bool:
        """A person reads stderr."""
        return _is_terminal(sys.stderr)

    @property
    def colours_errors(self) -> bool:
        """What goes to stderr may be coloured."""
        return self._colour and self.stderr_is_terminal

    @property
    def colours_data(self) -> bool:
        """What goes to stdout may be coloured."""
        return self._colour and self.stdout_is_terminal

    @property
    def shows_unicode(self) -> bool:
        """stdout takes more than ASCII."""
        return "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()

    def data(self, text: str) -> None:
        """One line, or several, on stdout."""
        live = self.live
        if live is not None and live.above(text, patient=True):
            return
        with self._lock:
            self._write(text + "\n")

    def paint(self, text: str) -> None:
        """What the live view draws, as it is."""
        if text:
            with self._lock:
                self._write(text)

    def table(self, table: "Table") -> None:
        """A table on a terminal."""
        console = self._console()
        with console.capture() as capture:
            console.print(table)
        self.data(capture.get().removesuffix("\n"))

    @property
    def width(self) -> int:
        """How many cells a line of the terminal that stdout is has."""
        return self._console().width

    def _console(self) -> "Console":
        from rich.console import Console  # noqa: PLC0415  # who writes lines need not wait for it

        colours: Literal["auto"] | None = "auto" if self._colour else None
        return Console(file=sys.stdout, color_system=colours, highlight=False)

    def say(self, text: str) -> None:
        """Prose on stderr; if nobody listens, so be it."""
        live = self.live
        if live is not None and _same_terminal() and live.above(text, patient=False):
            return
        try:
            if sys.stderr is not None:
                _write_whole(sys.stderr, text + "\n")
        except (OSError, ValueError):
            _to_nowhere(sys.stderr)

    def look_for_reader(self) -> None:
        """For who has nothing to write for long: a reader that has gone is told as by a write.
        Never waits: whoever writes just now will see it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._gone and _has_no_reader(sys.stdout):
                self._lose(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
        finally:
            self._lock.release()

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            if stdout_is_closed():
                raise OSError(errno.EBADF, "it is closed")
            _write_whole(sys.stdout, text)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self._gone = True
        _to_nowhere(sys.stdout)
        self.lost(error)


def stdout_is_closed() -> bool:
    """We were started without one (`>&-`)."""
    return sys.stdout is None


def prepare_streams() -> None:
    """Let no character that a stream cannot encode raise, and no file that is opened later take the
    place of a stream that is closed: what is meant for the stream would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _ignore(error: OSError) -> None:
    """Nobody wants to know."""


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _write_whole(stream: TextIO, text: str) -> None:
    """Also when another program that shares the terminal, or pipe, has made it one that does not
    wait: a stream loses what does not fit at once."""
    if _waits(stream):
        stream.write(text)
        stream.flush()
        return
    rest = memoryview(text.encode(stream.encoding, "backslashreplace"))
    while rest:
        try:
            rest = rest[os.write(stream.fileno(), rest) :]
        except BlockingIOError:
            time.sleep(_FULL_S)


def _waits(stream: TextIO) -> bool:
    try:
        return os.get_blocking(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return True  # It is no file.


def _has_no_reader(stream: TextIO | None) -> bool:
    """A pipe or socket whose other end is closed, or a terminal that has gone; a file never."""
    if stream is None:
        return False
    watch = select.poll()
    try:
        watch.register(stream.fileno(), 0)  # Nothing to wait for: these two are always told.
    except (OSError, ValueError, AttributeError):
        return False  # It is no file.
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def _same_terminal() -> bool:
    """stdout and stderr are one terminal: what is written to either stands on it."""
    try:
        out, error = sys.stdout.fileno(), sys.stderr.fileno()
        return os.isatty(error) and os.fstat(out).st_rdev == os.fstat(error).st_rdev
    except (OSError, ValueError, AttributeError):
        return False


def _to_nowhere(stream: TextIO | None) -> None:
    """What is still buffered would raise again, with a traceback, when the interpreter ends."""
    if stream is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
    except (OSError, ValueError):
        return

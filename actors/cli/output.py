"""Where the command line writes: data to stdout, prose to stderr (design §6; case F28).

A reader that went away (`| head`, a closed terminal, a full disk) never raises here: the first
failed write of data is told once, and everything after it goes nowhere.
"""

import os
import sys
import threading
from collections.abc import Callable
from typing import Literal, TextIO

from rich.console import Console
from rich.table import Table


class Output:
    """Safe for threads.  A line is written whole or not at all, and flushed."""

    def __init__(self, *, colour: bool) -> None:
        self.lost: Callable[[OSError], None] = _ignore
        """Called once, from the writing thread, when stdout takes no more."""
        self._lock = threading.Lock()
        self._gone = sys.stdout is None
        self._colour = colour and not os.environ.get("NO_COLOR")

    @property
    def stdout_is_terminal(self) -> bool:
        """A person reads stdout."""
        terminal = _is_terminal(sys.stdout) and os.environ.get("TERM", "") != "dumb"
        return terminal and not self._gone

    @property
    def colours_errors(self) -> bool:
        """What goes to stderr may be coloured."""
        return self._colour and _is_terminal(sys.stderr)

    def data(self, text: str) -> None:
        """One line, or several, on stdout."""
        with self._lock:
            self._write(text + "\n")

    def table(self, table: Table) -> None:
        """A table on a terminal."""
        colours: Literal["auto"] | None = "auto" if self._colour else None
        console = Console(file=sys.stdout, color_system=colours, highlight=False)
        with console.capture() as capture:
            console.print(table)
        with self._lock:
            self._write(capture.get())

    def say(self, text: str) -> None:
        """Prose on stderr; if nobody listens, so be it."""
        try:
            if sys.stderr is not None:
                sys.stderr.write(text + "\n")
                sys.stderr.flush()
        except (OSError, ValueError):
            _to_nowhere(sys.stderr)

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            self._gone = True
            _to_nowhere(sys.stdout)
            self.lost(error)


def prepare_streams() -> None:
    """Let no character that a stream cannot encode raise."""
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


def _to_nowhere(stream: TextIO) -> None:
    """What is still buffered would raise again, with a traceback, when the interpreter ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
    except (OSError, ValueError):
        return

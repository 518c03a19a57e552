"""Sets up the log of the command line: prose on stderr, and a file only when one is asked for.

Variables never stand in its tracebacks: they could hold secrets.  A file that takes no more is told
of once and given up; it never harms what is logged.
"""

import os
import re
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from loguru import logger

from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.trace_log import RepeatedFailureFilter

if TYPE_CHECKING:
    from loguru import Message, Record

_LEVELS = ("WARNING", "INFO", "DEBUG", "TRACE")
_over = threading.Event()
"""The final report is being told."""
_EVENTS = "cluster_reconciler.actors.driver_host"
_TRACEBACK = re.compile(
    r"\s*(?:^  \+ Exception Group )?Traceback \(most recent call last\):\n", re.MULTILINE
)
_FORMAT = "<dim>{time:HH:mm:ss}</dim> <level>{level: <8}</level> {message}"
_FILE_FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSSZ} {level: <8} {name}: {message}"


def configure_log(output: Output, *, verbose: int, quiet: bool, file: str | None) -> None:
    """Replace every sink.  `verbose` counts the -v.  Raises OSError: `file` cannot be opened."""
    level = "ERROR" if quiet else _LEVELS[min(verbose, len(_LEVELS) - 1)]
    logger.remove()
    _over.clear()
    repeats = RepeatedFailureFilter()

    def write(message: "Message") -> None:
        text, record = message.rstrip("\n"), message.record
        if verbose > 1 or not _TRACEBACK.search(text):
            output.say(text)
        elif count := repeats.count(_without_traceback(record["message"]), record["time"]):
            repeated = f" (occurrence {count})" if count > 1 else ""
            output.say(f"{_without_traceback(text)}{repeated}")

    def is_news(record: "Record") -> bool:
        # What happens to the cluster is told as it happens; the log need not say it again.
        if _over.is_set() and record["level"].no < logger.level("ERROR").no:
            return False
        return record["name"] != _EVENTS or quiet

    logger.add(
        write, level=level, format=_FORMAT, colorize=output.colours_errors, diagnose=False,
        backtrace=False, filter=is_news,
    )  # fmt: skip
    if file is not None:
        logger.add(
            _LogFile(file, output.say), level=_LEVELS[max(1, min(verbose, 3))],
            format=_FILE_FORMAT, diagnose=False, backtrace=False,
        )  # fmt: skip


def end_news() -> None:
    """From now on only errors reach stderr: the final report says what a warning could, and it is
    to stand last.  The file gets everything all the same."""
    _over.set()


def restore_log() -> None:
    """The state in which loguru begins, for a process that goes on after the command."""
    logger.remove()
    if sys.stderr is not None:
        logger.add(sys.stderr, diagnose=False)


class _LogFile:
    """A sink that ends with the first failure.  It buffers nothing, so that nothing can fail later;
    loguru calls it by one thread at a time."""

    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        """Raises OSError: it cannot be opened."""
        self._path = path
        self._tell = tell
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor: int | None = os.open(path, flags, 0o666)

    def write(self, text: str) -> None:
        """Append it."""
        if self._descriptor is None:
            return
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self._end(error)

    def stop(self) -> None:
        """Close it; again is fine."""
        self._end(None)

    def _end(self, error: OSError | None) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError as second:  # Some file systems say only now that there is no room.
                error = error or second
        if error is not None:
            name, why = printable(self._path), error.strerror
            self._tell(f"--log {name} ends here, it cannot be written: {why}")


def _without_traceback(text: str) -> str:
    """One line for it: what was raised, unless the text before it says that."""
    found = list(_TRACEBACK.finditer(text))
    if not found:
        return text
    said = text[: found[0].start()].rstrip(": ")
    # Of a chain of errors the last one is what was raised.
    lines = text[found[-1].end() :].splitlines()
    raised = next((line for line in lines if line and line[0] not in " |+"), "")
    kind = raised.partition(":")[0].rpartition(".")[2]
    return said if not raised or kind in said else f"{said}: {raised}"

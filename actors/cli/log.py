"""Sets up the log of the command line: prose on stderr, and a file only when one is asked for.

Variables never stand in its tracebacks: they could hold secrets.
"""

import sys
import threading
from typing import TYPE_CHECKING

from loguru import logger

from cluster_reconciler.actors.cli.output import Output

if TYPE_CHECKING:
    from loguru import Message, Record

_LEVELS = ("WARNING", "INFO", "DEBUG", "TRACE")
_over = threading.Event()
"""The final report is being told."""
_EVENTS = "cluster_reconciler.actors.driver_host"
_FORMAT = "<dim>{time:HH:mm:ss}</dim> <level>{level: <8}</level> {message}"
_FILE_FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSSZ} {level: <8} {name}: {message}"


def configure_log(output: Output, *, verbose: int, quiet: bool, file: str | None) -> None:
    """Replace every sink.  `verbose` counts the -v.  Raises OSError: `file` cannot be opened."""
    level = "ERROR" if quiet else _LEVELS[min(verbose, len(_LEVELS) - 1)]
    logger.remove()
    _over.clear()

    def write(message: "Message") -> None:
        output.say(message.rstrip("\n"))

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
            file, level=_LEVELS[max(1, min(verbose, 3))], format=_FILE_FORMAT, diagnose=False,
            backtrace=False, encoding="utf-8", errors="backslashreplace",
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

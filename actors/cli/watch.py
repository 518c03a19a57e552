"""Follows one file by looking at it now and then: tells when what it holds has changed and rests.

Judges by content alone: editors replace a file by renaming another one, or cut it short and write
it anew, and a network file system has coarse times.  What still changes from one look to the next
is half written, and waits.  Reads and judges the file (`load`); acts on nothing.
"""

import os
import stat
import threading
from collections.abc import Callable
from hashlib import blake2b

from loguru import logger
from msgspec import Struct

from cluster_reconciler.actors.cli.read_file import SIZE_MAX
from cluster_reconciler.actors.cli.shape_file import Loading, load

INTERVAL_S = 0.5
"""Seconds between two looks: an edit is taken up after one to two of them."""

TOLD_MAX = 1000
"""Of the wrong contents so many are remembered, so as not to tell one of them twice."""


class Seen(Struct, frozen=True):
    """What one look found."""

    digest: str | None = None
    """Of the content; None: there is none to be read."""
    trouble: str = ""
    """Why there is none."""


def look_at(file: str) -> Seen:
    """One look; never raises, and never waits for a writer."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return Seen(trouble="it is no file")
        with open(file, "rb") as opened:
            content = opened.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return Seen(trouble="nothing is there")
    except (OSError, ValueError) as error:
        return Seen(trouble=str(error))
    return Seen(blake2b(content, digest_size=16).hexdigest())


class FileWatch:
    """Looks on a thread of its own.  `take` may be called from another one."""

    def __init__(self, file: str, settled: Seen | None, interval_s: float = INTERVAL_S) -> None:
        """`settled`: what the file held when it was read last; None: not known."""
        self.file = file
        self._interval_s = interval_s
        self._settled = settled
        """The content that was taken up last, right or wrong."""
        self._last: Seen | None = None
        """What the latest look found."""
        self._absent: Seen | None = None
        """That there is no content has been told, with this trouble."""
        self._told: set[Seen] = set()
        """Wrong contents that were told since the last right one."""
        self._lock = threading.Lock()
        self._news: Loading | None = None
        self._changed: Callable[[], None] = _nobody
        self._ended = threading.Event()

    def start(self, changed: Callable[[], None]) -> None:
        """Begin; `changed` is called on the thread of the watch whenever there is something to
        take."""
        self._changed = changed
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def take(self) -> Loading | None:
        """The latest news, once; what came before it does not count any more."""
        with self._lock:
            news, self._news = self._news, None
        return news

    def forget(self) -> None:
        """What was taken last could not be used just now: it is news again."""
        self._settled = None

    def look(self) -> None:
        """One look.  Content that the look before saw as well is at rest, and is judged."""
        seen = look_at(self.file)
        rests, self._last = seen == self._last, seen
        if seen == self._settled:
            self._absent = None  # It was away, perhaps, and is back.
        elif rests and seen.digest is None:
            if seen != self._absent:
                self._absent = seen
                self._publish(load(self.file))
        elif rests:
            loading = load(self.file)
            if look_at(self.file) == seen:  # Else it was written while it was read.
                self._settle(seen, loading)

    def _settle(self, seen: Seen, loading: Loading) -> None:
        self._settled, self._absent = seen, None
        if loading.loaded is not None:
            self._told.clear()
        elif seen in self._told:
            return
        elif len(self._told) < TOLD_MAX:
            self._told.add(seen)
        self._publish(loading)

    def _publish(self, loading: Loading) -> None:
        with self._lock:
            self._news = loading
        self._changed()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # one look that fails must not be the last
                logger.error("the watch of {} failed: {!r}", self.file, error)


def _nobody() -> None:
    """It has not been started."""

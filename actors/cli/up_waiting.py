"""How the main thread of `up` waits: at one inbox, for a job, a signal, a lost reader, an edit.

Other threads only put something in.  The main thread takes one message after another, and what it
did not wait for just now is remembered, never lost.  Nothing is decided here but what interrupts.
"""

import signal
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from cluster_reconciler.actors.cli import exit_codes
from cluster_reconciler.actors.cli.jobs import Job

TELL_EVERY_S = 5.0
"""How often somebody who waits long is told what for."""

T = TypeVar("T")


class Stopped(Exception):
    """A signal, or the loss of stdout's reader, ends the stay; `code` if all goes well."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _SignalCame:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number


class _ReaderGone:
    def __init__(self, code: int) -> None:
        self.code = code


class _EventsEnded:
    """The cluster has ended, by our own doing or not."""


class _FileChanged:
    """The watch of the shape file has news."""


class Waiting:
    """The first four methods may be called from any thread, the others from the main thread."""

    def __init__(self, already: Callable[[signal.Signals], None]) -> None:
        """`already`: called when a signal comes while nothing can be stopped any more."""
        self._already = already
        self._inbox: SimpleQueue[object] = SimpleQueue()
        self._ended: set[Job[Any]] = set()
        """Jobs that have ended and whose result nobody has taken."""
        self.events_ended = False
        self.file_changed = False
        """Since somebody set it back."""

    def signal_came(self, number: signal.Signals) -> None:
        """Interrupts what can be stopped."""
        self._inbox.put(_SignalCame(number))

    def reader_gone(self, code: int) -> None:
        """Interrupts what can be stopped, which then ends with this code."""
        self._inbox.put(_ReaderGone(code))

    def end_of_events(self) -> None:
        """The cluster has ended."""
        self._inbox.put(_EventsEnded())

    def change_of_file(self) -> None:
        """The shape file has changed, or what is known of it."""
        self._inbox.put(_FileChanged())

    def job(self, name: str, work: Callable[[], T]) -> Job[T]:
        """Begin something that may block, on a thread of its own."""
        return Job(name, work, self._inbox.put)

    def result(
        self, job: Job[T], *, stoppable: bool = True, idle: Callable[[], None] | None = None
    ) -> T:
        """The job's result; raises what it raised, and Stopped when stoppable.  `idle` is called
        now and then."""
        while job not in self._ended:
            self._take(stoppable, idle)
        self._ended.discard(job)
        return job.result()

    def news(self, job: Job[T] | None, idle: Callable[[], None] | None = None) -> None:
        """Wait until the job has ended, the file has changed, or, when there is no job that would
        say why, the cluster has ended.  `idle` is called now and then.  Raises Stopped."""
        while not self.file_changed and not self.has_ended(job):
            if job is None and self.events_ended:
                return
            self._take(True, idle)

    def has_ended(self, job: Job[T] | None) -> bool:
        """Whether its result can be taken."""
        return job in self._ended

    def _take(self, stoppable: bool, idle: Callable[[], None] | None) -> None:
        """One message."""
        try:
            message = self._inbox.get(timeout=TELL_EVERY_S if idle is not None else None)
        except Empty:
            assert idle is not None, "there is no other timeout"
            idle()
            return
        if isinstance(message, Job):
            self._ended.add(message)
        elif isinstance(message, _SignalCame):
            if stoppable:
                raise Stopped(exit_codes.after_signal(message.number))
            self._already(message.number)
        elif isinstance(message, _ReaderGone) and stoppable:
            raise Stopped(message.code)
        elif isinstance(message, _EventsEnded):
            self.events_ended = True  # Perhaps before anybody stays: it is not forgotten.
        elif isinstance(message, _FileChanged):
            self.file_changed = True

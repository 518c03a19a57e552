"""One run of `up`: start, converge, stay, drain, and what interrupts them (design §6; case F24).

The main thread waits for one thing at a time at a single inbox; whatever may block runs as a job.
The second signal is acted upon by the signals' own thread, so that nothing can hold it up.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from msgspec.structs import replace

from cluster_reconciler.actors.cli import exit_codes
from cluster_reconciler.actors.cli.arguments import ONCE_TIMEOUT, UpOptions
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.jobs import Job, bounded
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.shape_file import LoadedShape
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.cli.words import counted, leftover_line, summary, waits
from cluster_reconciler.actors.errors import (
    ClusterError,
    DrainIncomplete,
    LeftLease,
    NotConverged,
    RunLocked,
)
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.actors.swarm_address import SwarmListenError
from cluster_reconciler.executors.provider import ListedLease, ProviderError
from cluster_reconciler.messages import ShapeRefused

TELL_EVERY_S = 5.0
"""How often a drain says what it still waits for."""

READER_S = 10.0
"""How long a reader that stalls is waited for with the report."""

_REFUSALS = (ShapeRefused, RunLocked, SwarmListenError, ProviderError, OSError)
"""A start that fails so has made nothing."""

T = TypeVar("T")


class DrivenCluster(Protocol):
    """What `up` needs of a `Cluster`."""

    @property
    def leftovers(self) -> tuple[ListedLease, ...]:
        """See `Cluster`, as for all of these."""

    def wait_converged(self, timeout: float | timedelta | None = None) -> ClusterStatus:
        """Wait."""

    def status(self) -> ClusterStatus:
        """A snapshot."""

    def events(self, *, past: bool = False) -> Iterator[ClusterEvent]:
        """From now on, or from the start on."""

    def drain(self, timeout: timedelta | None = None) -> None:
        """To nothing."""

    def possibly_left(self) -> tuple[LeftLease, ...]:
        """What exists or may."""

    def close(self, drain: bool = True) -> None:
        """End."""


StartCluster = Callable[[LoadedShape, Path | None, timedelta], DrivenCluster]


class _Stopped(Exception):
    """A signal, or the loss of stdout's reader, ends the stay; `code` if all goes well."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _SignalCame:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number


class _ReaderGone:
    """stdout takes no more."""


class _EventsEnded:
    """The cluster has ended, by our own doing or not."""


class UpSession:
    """Made and run once, on the main thread; `signal_came` and `reader_gone` come from others."""

    def __init__(
        self,
        options: UpOptions,
        loaded: LoadedShape,
        start: StartCluster,
        screen: UpScreen,
        report: UpReport,
        end_process: Callable[[int], None] = os._exit,
    ) -> None:
        self._options = options
        self._loaded = loaded
        self._start_cluster = start
        self._screen = screen
        self._report = report
        self._end_process = end_process
        self._inbox: SimpleQueue[object] = SimpleQueue()
        self._cluster: DrivenCluster | None = None
        self._first_signal: signal.Signals | None = None
        self._code_of_reader: int | None = None
        self._pump: threading.Thread | None = None
        self._events_ended = False
        self._reported: SimpleQueue[object] = SimpleQueue()
        self._forced = False
        self.has_answered = False
        """The user is told what the first signal does, and how to force."""

    # -- called from other threads ----------------------------------------------------------------

    def signal_came(self, number: signal.Signals, count: int) -> None:
        """The first one drains, the second one ends the process."""
        if count == 1:
            self._first_signal = number
            self._inbox.put(_SignalCame(number))
        elif count == 2:
            self._force(number)

    def reader_gone(self, error: OSError) -> None:
        """Nobody reads our data: drain, and say so by the exit code."""
        broken = isinstance(error, BrokenPipeError)
        self._code_of_reader = exit_codes.READER_GONE if broken else exit_codes.LEFT_OR_DIED
        self._screen.warn(f"stdout takes no more data: {error.strerror}")
        self._inbox.put(_ReaderGone())

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> int:
        """The exit code."""
        code = exit_codes.DONE
        try:
            self._start()
            self._live()
        except _Stopped as stopped:
            code = stopped.code
        except NotConverged as error:
            code = exit_codes.NOT_CONVERGED
            self._observe(error.status)
            self._failed(str(error))
        except _REFUSALS as error:
            code = exit_codes.INVALID if self._cluster is None else exit_codes.LEFT_OR_DIED
            self._failed(_told(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the machines must go
            code = exit_codes.LEFT_OR_DIED
            self._failed(_told(error))
        if self._cluster is not None:
            code = self._drain(self._cluster, code)
        return self._end(code)

    def _start(self) -> None:
        options = self._options
        job = self._job(
            "start",
            lambda: self._start_cluster(self._loaded, options.trace, options.drain_timeout),
        )
        stopped = None
        try:
            cluster = self._wait(job)
        except _Stopped as early:
            # Half a start cannot be drained: what it makes must be known first.
            stopped = early
            self.has_answered = True
            self._screen.warn(
                f"{self._cause()}: drains as soon as the start is done; {_how_to_force()}"
            )
            cluster = self._wait(job, stoppable=False)
        self._cluster = cluster
        leftovers = tuple(leftover_line(lease) for lease in cluster.leftovers)
        for line in leftovers:
            self._screen.warn(f"left by an earlier process: {line}")
        self._report = replace(self._report, leftovers=leftovers)
        events = cluster.events(past=True)
        self._pump = threading.Thread(target=self._tell_events, args=(events,), daemon=True)
        self._pump.start()
        if stopped is not None:
            raise stopped

    def _live(self) -> None:
        cluster = self._cluster
        assert cluster is not None, "the cluster has started"
        options = self._options
        timeout = options.timeout
        if timeout is None and options.once:
            timeout = ONCE_TIMEOUT
        status = self._wait(self._job("converge", lambda: cluster.wait_converged(timeout)))
        self._report = replace(self._report, converged=True)
        self._observe(status)
        if options.once:
            return
        self._screen.say(f"converged: {summary(status)}; Ctrl-C drains")
        self._wait(None)

    def _drain(self, cluster: DrivenCluster, code: int) -> int:
        timeout = self._options.drain_timeout
        if self._report.counts is None and (status := bounded(cluster.status, 2.0, None)):
            # It was interrupted before anybody looked: how it stood then belongs in the report.
            self._report = replace(self._report, counts=status.counts, nodes=status.nodes)
        self._say_drain(cluster)
        job = self._job("drain", lambda: cluster.drain(timeout))
        try:
            self._wait(job, stoppable=False, idle=lambda: self._say_waits(cluster))
            self._report = replace(self._report, drained=True)
        except DrainIncomplete as error:
            code = exit_codes.LEFT_OR_DIED
            self._report = replace(self._report, left=error.left)
            self._failed(f"the drain is not complete after {format_duration(timeout)}")
        except Exception as error:  # noqa: BLE001  # what may be left must still be named
            code = exit_codes.LEFT_OR_DIED
            left = bounded(cluster.possibly_left, 5.0, ())
            self._report = replace(self._report, left=left)
            self._failed(_told(error))
        bounded(lambda: cluster.close(drain=False), 5.0, None)
        if self._pump is not None:
            self._pump.join(timeout=2)
        return code

    def _end(self, code: int) -> int:
        if code == exit_codes.DONE and self._code_of_reader is not None:
            code = self._code_of_reader
        self._report = self._closed_report(code)
        told = self._tell_report()
        if code == exit_codes.DONE and not told:
            # What was not read is no success.
            code = self._code_of_reader or exit_codes.READER_GONE
        if not told or (self._pump is not None and self._pump.is_alive()):
            # A write is stuck that nobody reads, and the interpreter, which flushes the same stream
            # when it ends, would abort over it.
            self._end_process(code)
        return code

    def _tell_report(self) -> bool:
        """Whether stdout's reader has taken it."""
        report = self._report
        telling = Job("report", lambda: self._screen.end(report), self._reported.put)
        try:
            self._reported.get(timeout=READER_S / 5)
        except Empty:
            self._screen.warn(
                f"stdout's reader does not read; it is waited for, {READER_S:g} s at most"
            )
            try:
                self._reported.get(timeout=READER_S)
            except Empty:
                self._screen.warn("stdout's reader has not read: the report is lost")
                return False
        telling.result()
        return self._code_of_reader is None

    # -- waiting ----------------------------------------------------------------------------------

    def _job(self, name: str, work: Callable[[], T]) -> Job[T]:
        return Job(name, work, self._inbox.put)

    def _wait(
        self, job: Job[T] | None, *, stoppable: bool = True, idle: Callable[[], None] | None = None
    ) -> T:
        """The job's result; without a job only an interruption ends it.  Raises _Stopped when
        stoppable, and what the job raised.  `idle` is called now and then."""
        while True:
            if job is None and self._events_ended:
                self._cluster_ended()
            try:
                message = self._inbox.get(timeout=TELL_EVERY_S if idle is not None else None)
            except Empty:
                assert idle is not None, "there is no other timeout"
                idle()
                continue
            if job is not None and message is job:
                return job.result()
            if isinstance(message, _SignalCame):
                if stoppable:
                    raise _Stopped(exit_codes.after_signal(message.number))
                self.has_answered = True
                self._screen.warn(f"{message.number.name}: already draining; {_how_to_force()}")
            elif isinstance(message, _ReaderGone) and stoppable:
                raise _Stopped(self._code_of_reader or exit_codes.READER_GONE)
            elif isinstance(message, _EventsEnded):
                self._events_ended = True  # Perhaps before anybody stays: it is not forgotten.

    def _cluster_ended(self) -> None:
        """Nobody asked it to: raises the reason."""
        assert self._cluster is not None, "only a started cluster has events"
        self._wait(self._job("status", self._cluster.status))
        raise ClusterError("the cluster has ended by itself")

    def _tell_events(self, events: Iterator[ClusterEvent]) -> None:
        for event in events:
            self._screen.event(event)
        self._inbox.put(_EventsEnded())

    # -- telling ----------------------------------------------------------------------------------

    def _observe(self, status: ClusterStatus) -> None:
        self._report = replace(
            self._report,
            counts=status.counts,
            nodes=status.nodes,
            warnings=(*self._report.warnings, *status.warnings),
        )
        self._screen.nodes(status)

    def _failed(self, text: str) -> None:
        if self._forced:
            return  # The last word is being spoken, and this is only its consequence.
        self._screen.warn(text)
        earlier = self._report.error
        self._report = replace(
            self._report, error=text if earlier is None else f"{earlier}\n{text}"
        )

    def _cause(self) -> str:
        return self._first_signal.name if self._first_signal is not None else "stdout is closed"

    def _say_drain(self, cluster: DrivenCluster) -> None:
        left = bounded(cluster.possibly_left, 1.0, ())
        certain = sum(lease.certain for lease in left)
        awaited = [
            (certain, "lease", "to end"),
            (len(left) - certain, "create", "in flight"),
        ]
        named = " and ".join(f"{counted(n, thing)} {how}" for n, thing, how in awaited if n)
        what = f"waits for {named}" if named else "no lease is left to wait for"
        limit = format_duration(self._options.drain_timeout)
        if self._first_signal is None:
            self._screen.say(f"draining: {what}, at most {limit}")
        else:
            text = f"{self._cause()}: draining, {what}, at most {limit}; {_how_to_force()}"
            self.has_answered = True
            self._screen.warn(text)

    def _say_waits(self, cluster: DrivenCluster) -> None:
        status = bounded(cluster.status, 2.0, None)
        if status is not None:
            self._screen.say("\n".join(["still draining:", *waits(status.nodes, status.at)]))

    def _closed_report(self, code: int) -> UpReport:
        number = self._first_signal
        return replace(self._report, exit_code=code, signal=number.name if number else None)

    # -- the second signal ------------------------------------------------------------------------

    def _force(self, number: signal.Signals) -> None:
        """End the process within two seconds, whatever the other threads do."""
        self._forced = True
        cluster = self._cluster
        left = bounded(cluster.possibly_left, 0.5, None) if cluster is not None else None
        first = self._first_signal or number
        code = exit_codes.after_signal(first) if left == () else exit_codes.LEFT_OR_DIED
        text = f"{number.name} again: ends at once, without waiting for the drain"
        if left is None:
            text += "; whether leases are left is not known: the next `up` of this run names them"
        report = replace(self._closed_report(code), left=left or (), drained=left == (), error=text)
        bounded(lambda: self._tell_force(text, report), 0.5, None)
        if cluster is not None:
            bounded(lambda: cluster.close(drain=False), 0.6, None)
        self._end_process(code)

    def _tell_force(self, text: str, report: UpReport) -> None:
        self._screen.warn(text)
        self._screen.end(report)
        with suppress(OSError, ValueError):
            sys.stdout.flush()


def _how_to_force() -> str:
    return f"Ctrl-C again, or `kill {os.getpid()}`, ends it at once and may leave machines behind"


def _told(error: Exception) -> str:
    """Errors of ours speak for themselves; others need their kind, or their file."""
    if isinstance(error, OSError) and error.strerror is not None:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}"
    if isinstance(error, (ClusterError, *_REFUSALS)):
        return str(error)
    return f"{type(error).__name__}: {error}"

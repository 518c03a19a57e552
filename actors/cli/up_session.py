"""One run of `up`: start, converge, stay, drain, and what interrupts them (design §6; case F24).

The main thread is the only one that acts: it waits for one thing at a time (`up_waiting`), and
whatever may block runs as a job.  The second signal is acted upon by the signals' own thread, so
that nothing can hold it up (`up_forcing`).
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from queue import Empty, SimpleQueue

from msgspec.structs import replace

from cluster_reconciler.actors.cli import exit_codes
from cluster_reconciler.actors.cli.arguments import ONCE_TIMEOUT, UpOptions
from cluster_reconciler.actors.cli.driven_cluster import DrivenCluster, StartCluster
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.jobs import Job, bounded
from cluster_reconciler.actors.cli.log import end_news
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.shape_file import LoadedShape
from cluster_reconciler.actors.cli.up_following import Following
from cluster_reconciler.actors.cli.up_forcing import force_end, how_to_force, how_to_force_shortly
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.cli.up_waiting import Stopped, Waiting
from cluster_reconciler.actors.cli.words import counted, leftover_line, one_line, summary, waits
from cluster_reconciler.actors.errors import (
    ClusterError,
    DrainIncomplete,
    NotConverged,
    RunLocked,
    StartFailed,
)
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.actors.swarm_address import SwarmListenError
from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.messages import ShapeRefused

READER_S = 10.0
"""How long a reader that stalls is waited for with the report; before a word is said of it, and
with the events before it, a fifth of that each."""

_REFUSALS = (ShapeRefused, RunLocked, StartFailed, SwarmListenError, ProviderError, OSError)
"""A start that fails so has made nothing."""


class UpSession:
    """Made and run once, on the main thread; `signal_came` and `reader_gone` come from others."""

    def __init__(
        self,
        options: UpOptions,
        loaded: LoadedShape,
        start: StartCluster,
        screen: UpScreen,
        report: UpReport,
        *,
        following: Following | None = None,
        end_process: Callable[[int], None] = os._exit,
    ) -> None:
        """`following`: of the shape file; None: it was read once."""
        self._options = options
        self._loaded = loaded
        self._start_cluster = start
        self._screen = screen
        self._report = report
        self._following = following
        self._end_process = end_process
        self._waiting = Waiting(self._say_already)
        self._cluster: DrivenCluster | None = None
        self._first_signal: signal.Signals | None = None
        self._code_of_reader: int | None = None
        self._pump: threading.Thread | None = None
        self._has_converged = False
        self._changed_meanwhile = False
        """Another shape was accepted since the current wait for convergence began."""
        self._reported: SimpleQueue[object] = SimpleQueue()
        self._forced = False
        self.has_answered = False
        """The user is told what the first signal does, and how to force."""

    # -- called from other threads ----------------------------------------------------------------

    def signal_came(self, number: signal.Signals, count: int) -> None:
        """The first one drains, the second one ends the process."""
        if count == 1:
            self._first_signal = number
            self._waiting.signal_came(number)
        elif count == 2:
            self._force(number)

    def reader_gone(self, error: OSError) -> None:
        """Nobody reads our data: drain, and say so by the exit code."""
        broken = isinstance(error, BrokenPipeError)
        self._code_of_reader = exit_codes.READER_GONE if broken else exit_codes.LEFT_OR_DIED
        self._screen.warn(f"stdout takes no more data: {error.strerror}")
        self._waiting.reader_gone(self._code_of_reader)

    # -- the run ----------------------------------------------------------------------------------

    def run(self) -> int:
        """The exit code."""
        code = exit_codes.DONE
        try:
            self._start()
            self._live()
        except Stopped as stopped:
            code = stopped.code
        except NotConverged as error:
            code = exit_codes.NOT_CONVERGED
            self._observe(error.status)
            self._failed(str(error))
        except _REFUSALS as error:
            code = exit_codes.INVALID if self._cluster is None else exit_codes.LEFT_OR_DIED
            self._failed(_told(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the machines must go
            refused = self._cluster is None and isinstance(error, (TypeError, ValueError))
            code = exit_codes.INVALID if refused else exit_codes.LEFT_OR_DIED
            self._failed(_told(error))
        if self._following is not None:
            self._following.end()
        if self._cluster is not None:
            code = self._drain(self._cluster, code)
        return self._end(code)

    def _start(self) -> None:
        options = self._options
        if self._following is not None:
            self._following.begin(self._waiting.change_of_file)
        job = self._waiting.job(
            "start",
            lambda: self._start_cluster(self._loaded, options.trace, options.drain_timeout),
        )
        stopped = None
        try:
            cluster = self._waiting.result(job)
        except Stopped as early:
            # Half a start cannot be drained: what it makes must be known first.
            stopped = early
            self.has_answered = True
            self._screen.warn(
                f"{self._cause()}: drains as soon as the start is done{self._or_force()}"
            )
            cluster = self._waiting.result(job, stoppable=False)
        self._cluster = cluster
        # The log has named each, and what became of it.
        leftovers = tuple(leftover_line(lease) for lease in cluster.leftovers)
        self._report = replace(self._report, leftovers=leftovers)
        self._screen.follow(lambda: cluster.status(details=False))
        events = cluster.events(past=True)
        self._pump = threading.Thread(target=self._tell_events, args=(events,), daemon=True)
        self._pump.start()
        if stopped is not None:
            raise stopped

    def _live(self) -> None:
        cluster = self._cluster
        assert cluster is not None, "the cluster has started"
        options = self._options
        limit = options.timeout
        if limit is None and options.once:
            limit = ONCE_TIMEOUT
        converging: Job[ClusterStatus] | None = self._converging(cluster, limit)
        while True:
            self._waiting.news(converging, self._screen.look_for_reader)
            if self._waiting.file_changed:
                self._waiting.file_changed = False
                if self._follow(cluster) and converging is None:
                    converging = self._converging(cluster, limit)
            elif converging is None:
                self._cluster_ended(cluster)
            else:
                converging = self._after(converging, cluster, limit)
                if options.once:
                    return

    def _converging(self, cluster: DrivenCluster, limit: timedelta | None) -> Job[ClusterStatus]:
        self._changed_meanwhile = False
        return self._waiting.job("converge", lambda: cluster.wait_converged(limit))

    def _after(
        self, job: Job[ClusterStatus], cluster: DrivenCluster, limit: timedelta | None
    ) -> Job[ClusterStatus] | None:
        """The wait for convergence has ended; the next one, if there is to be one."""
        try:
            status = self._waiting.result(job)
        except NotConverged as error:
            if self._changed_meanwhile:
                return self._converging(cluster, limit)
            if not self._has_converged:
                raise
            # What runs well but for an edit is not drained for it.
            self._screen.warn(f"{error}\nit goes on")
            return self._converging(cluster, None)
        if self._changed_meanwhile:
            return self._converging(cluster, limit)
        self._has_converged = True
        self._report = replace(self._report, converged=True)
        self._observe(status)
        if not self._options.once:
            self._screen.say(f"converged: {summary(status)}; Ctrl-C drains")
        return None

    def _follow(self, cluster: DrivenCluster) -> bool:
        """Whether the file brought another shape."""
        following = self._following
        if following is None or not following.follow(cluster, self._waiting):
            return False
        self._changed_meanwhile = True
        # How it stands is not known now; whoever drains looks anew.
        self._report = replace(
            self._report, generation=following.generation, converged=False, counts=None, nodes=()
        )
        following.tell_waits(cluster, self._waiting)
        return True

    def _drain(self, cluster: DrivenCluster, code: int) -> int:
        timeout = self._options.drain_timeout
        self._say_drain(cluster)
        if self._report.counts is None and (
            status := bounded(cluster.status, 4.0, None)  # With details: it is for the report.
        ):
            # It was interrupted before anybody looked: how it stood then belongs in the report.
            self._report = replace(self._report, counts=status.counts, nodes=status.nodes)
        job = self._waiting.job("drain", lambda: cluster.drain(timeout))
        try:
            self._waiting.result(job, stoppable=False, idle=lambda: self._say_waits(cluster))
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
            self._pump.join(timeout=READER_S / 5)
        return code

    def _end(self, code: int) -> int:
        if code == exit_codes.DONE and self._code_of_reader is not None:
            code = self._code_of_reader
        self._report = self._closed_report(code)
        end_news()
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

    def _cluster_ended(self, cluster: DrivenCluster) -> None:
        """Nobody asked it to: raises the reason."""
        self._waiting.result(self._waiting.job("status", cluster.status))
        raise ClusterError("the cluster has ended by itself")

    def _tell_events(self, events: Iterator[ClusterEvent]) -> None:
        for event in events:
            self._screen.event(event)
        self._waiting.end_of_events()

    # -- telling ----------------------------------------------------------------------------------

    def _observe(self, status: ClusterStatus) -> None:
        self._report = replace(
            self._report,
            counts=status.counts,
            nodes=status.nodes,
            warnings=tuple(dict.fromkeys((*self._report.warnings, *status.warnings))),
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

    def _or_force(self) -> str:
        return f"; {how_to_force(self._first_signal)}" if self._first_signal is not None else ""

    def _say_already(self, number: signal.Signals) -> None:
        self.has_answered = True
        self._screen.warn(f"{number.name}: already draining{self._or_force()}")
        self._screen.draining(how_to_force_shortly(number))

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
        first = self._first_signal
        self._screen.draining(how_to_force_shortly(first))
        if first is None:
            self._screen.say(f"draining: {what}, at most {limit}")
        else:
            self.has_answered = True
            self._screen.warn(f"{first.name}: draining, {what}, at most {limit}{self._or_force()}")

    def _say_waits(self, cluster: DrivenCluster) -> None:
        if self._screen.following:
            return  # It shows them.
        status = bounded(lambda: cluster.status(details=False), 2.0, None)
        if status is not None:
            self._screen.say("\n".join(["still draining:", *waits(status.nodes, status.at)]))

    def _closed_report(self, code: int) -> UpReport:
        number = self._first_signal
        return replace(self._report, exit_code=code, signal=number.name if number else None)

    def _force(self, number: signal.Signals) -> None:
        self._forced = True
        first = self._first_signal or number
        force_end(number, first, self._cluster, self._screen, self._report, self._end_process)


def _told(error: Exception) -> str:
    """Errors of ours speak for themselves; others need their kind, or their file."""
    if isinstance(error, OSError) and error.strerror is not None:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}"
    if isinstance(error, (ClusterError, *_REFUSALS)):
        return str(error)
    return one_line(f"{type(error).__name__}: {error}")

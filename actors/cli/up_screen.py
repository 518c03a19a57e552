"""What `up` says, and on which stream: lines or JSON, quiet or verbose (design §6).

With --once the data is the table, or the one document, and the events are prose; without it the
events are the data.  On a terminal a live view of the nodes stands below them.  Nothing follows the
end.
"""

import atexit
import threading
from collections.abc import Callable

from msgspec import Struct

from cluster_reconciler.actors.cli.arguments import UpOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.live_view import LiveView, can_live
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import EventLine, UpReport
from cluster_reconciler.actors.cli.words import (
    DETAILS,
    STEPS,
    TROUBLE,
    event_line,
    left_lines,
    plain_table,
    rich_table,
)
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.status import ClusterStatus


class UpScreen:
    """Safe for threads."""

    def __init__(self, options: UpOptions, output: Output) -> None:
        self._options = options
        self._output = output
        self._writing = threading.Lock()
        """Held while data is written: for as long as the reader stalls."""
        self._ending = threading.Lock()
        self._ended = False
        self._view: LiveView | None = None

    @property
    def errors_are_read(self) -> bool:
        """Prose goes to a person, not to a file or a program."""
        return self._output.stderr_is_terminal

    def look_for_reader(self) -> None:
        """While there is nothing to tell: notice that nobody reads any more."""
        self._output.look_for_reader()

    @property
    def following(self) -> bool:
        """The live view is there: it says what nodes wait for."""
        view = self._view
        return view is not None and view.is_shown

    def follow(self, status: Callable[[], ClusterStatus]) -> None:
        """Begin the live view, where a person looks at a terminal and wants one: once, after the
        start, on the main thread.  `status` is called a few times a second, on another thread."""
        output, options = self._output, self._options
        if options.json or options.quiet or not output.stdout_is_terminal or not can_live():
            return
        with self._ending:
            if self._ended or self._view is not None:
                return
            self._view = output.live = LiveView(output, status)
            atexit.register(self.stop_following)
            # Here, where no end can come between: a view that has not begun cannot be stopped.
            self._view.start()

    def draining(self, how_to_force: str) -> None:
        """From now on the live view says so, and this."""
        view = self._view
        if view is not None:
            view.hint = how_to_force

    def stop_following(self) -> None:
        """End the live view; the terminal is as it was.  Nothing to do: fine."""
        view = self._view
        if view is None:
            return
        view.stop()
        self._view = self._output.live = None
        atexit.unregister(self.stop_following)

    def event(self, event: ClusterEvent) -> None:
        """Something happened."""
        options = self._options
        if event.kind in DETAILS and not options.verbose:
            return
        if event.kind in STEPS and not options.verbose and self.following:
            return  # The view shows them as they are taken.
        if options.quiet and event.kind not in TROUBLE:
            return
        with self._writing:
            if self._ended:
                return
            if options.once:
                self._output.say(event_line(event))
            elif options.json:
                self._output.data(as_json(EventLine(event)))
            else:
                self._output.data(event_line(event))

    def line(self, said: Struct) -> None:
        """A line of --json besides those of events."""
        with self._writing:
            if self._options.json and not self._ended:
                self._output.data(as_json(said))

    def nodes(self, status: ClusterStatus) -> None:
        """The nodes as they are, before the drain: the data of --once.  With --quiet only when
        something is wrong: otherwise the exit code says it."""
        options = self._options
        if options.json or not options.once or (options.quiet and status.converged):
            return
        with self._writing:
            if self._ended:
                return
            if self._output.stdout_is_terminal:
                self._output.table(rich_table(status, self._output.width))
            else:
                self._output.data(plain_table(status))

    def say(self, text: str) -> None:
        """Prose that --quiet leaves out, and that nobody needs after the end."""
        if not self._options.quiet and not self._ended:
            self._output.say(text)

    def warn(self, text: str) -> None:
        """Prose that is always told."""
        self._output.say(text)

    def end(self, report: UpReport) -> bool:
        """The last word.  False: it has been spoken already."""
        with self._ending:
            if self._ended:
                return False
            self._ended = True
        self.stop_following()
        self._tell_end(report)
        if self._options.json:
            with self._writing:
                self._output.data(as_json(report))
        return True

    def _tell_end(self, report: UpReport) -> None:
        if report.left:
            count = len(report.left)
            what = "1 lease is" if count == 1 else f"{count} leases are"
            self.warn(f"{what} left, or may be:")
            self.warn("\n".join(left_lines(report.left)))
            self.warn("the next `up` of this run names them and takes back what it can")
        elif report.drained and not self._options.quiet:
            self._output.say("drained: nothing is left")

"""`trace`: the log of a run's messages as people read it.  Reads only; starts nothing.

What a line led to is found by running the messages again (see `replay`); which words that gets is
`trace_reading`'s and `trace_words`' business, how the run went as a whole `trace_summary`'s.
"""

import os
import threading
from collections.abc import Iterator

from cluster_reconciler.actors.cli.arguments import TraceOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE, INVALID
from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.trace_document import HeaderEntry, TraceSummary
from cluster_reconciler.actors.cli.trace_file import (
    BegunAnew,
    CaughtUp,
    Gone,
    check_readable,
    follow,
    read_whole,
)
from cluster_reconciler.actors.cli.trace_matching import Matching
from cluster_reconciler.actors.cli.trace_reading import Filter, Reader, read_operation
from cluster_reconciler.actors.cli.trace_summary import Summing
from cluster_reconciler.actors.cli.trace_tables import show_summary
from cluster_reconciler.actors.cli.trace_words import TraceWords, header_lines
from cluster_reconciler.actors.cli.words import counted, one_line
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.trace import TraceError, TraceHeader, TraceLine, TraceTorn
from cluster_reconciler.messages import ClusterShape, RunId, ShapeRefused

LINES_AT_ONCE = 500
"""So many lines go out together while the file is read; who follows gets each as it comes."""


def trace(options: TraceOptions, output: Output) -> int:
    """The exit code: 0 when the trace was read, to its end or to where it breaks off (also when
    nothing in it matches); 2 when there is no trace that can be read: with --json a `TraceSummary`
    says so, also where entries were asked for."""
    stopped = threading.Event()
    told = output.lost

    def lost(error: OSError) -> None:
        told(error)
        stopped.set()

    output.lost = lost
    try:
        wanted = _filter(options)
        check_readable(options.log)
        _Telling(options, output, wanted, stopped).run()
    except TraceError as error:
        text = one_line(str(error))
        output.say(text)
        if options.json:
            output.data(as_json(TraceSummary(str(options.log), INVALID, error=text)))
        return INVALID
    return DONE


def _filter(options: TraceOptions) -> Filter:
    """Raises TraceError."""
    try:
        operation = read_operation(options.operation) if options.operation is not None else None
    except ValueError as error:
        found = printable(repr(options.operation))
        raise TraceError(f"--operation: {error}, found {found}") from error
    return Filter(options.node, options.attempt, operation)


class _Telling:
    """One reading of one file."""

    def __init__(
        self, options: TraceOptions, output: Output, wanted: Filter, stopped: threading.Event
    ) -> None:
        self._options = options
        self._output = output
        self._wanted = wanted
        self._stopped = stopped
        no_colour = options.no_color or bool(os.environ.get("NO_COLOR"))
        self._colour = output.stdout_is_terminal and not no_colour
        self._waiting: list[str] = []
        self._left_out = 0
        self._caught_up = False
        self._differs = False
        self._replay: Replay | None = None
        self._reader = Reader()
        self._words = TraceWords(ClusterShape(RunId(0), 0, ()), colour=False)
        self._matching = Matching(wanted)
        self._summing = Summing(wanted)

    def run(self) -> None:
        """Raises TraceError."""
        try:
            for item in self._items():
                self._take(item)
                if self._stopped.is_set():
                    return
        except KeyboardInterrupt:
            if not self._options.follow:
                raise
        finally:
            self._flush()
        if not self._stopped.is_set():
            self._end()

    def _items(self) -> Iterator[object]:
        if self._options.follow:
            return follow(self._options.log, self._stopped, self._output.look_for_reader)
        return read_whole(self._options.log)

    def _take(self, item: object) -> None:
        if isinstance(item, TraceLine):
            self._line(item)
        elif isinstance(item, TraceHeader):
            self._begin(item)
        elif isinstance(item, CaughtUp):
            self._flush()
            if self._options.summary and not self._caught_up:
                self._output.say("read to its end; following until Ctrl-C, then comes the summary")
            self._caught_up = True
        elif isinstance(item, Gone):
            self._flush()
            self._output.say("the file is gone: nothing more can come")
        elif isinstance(item, BegunAnew):
            self._flush()
            self._output.say("the file was written anew, by another run:")
        elif isinstance(item, TraceTorn):
            self._flush()
            rest = "what came before it was read" if item.line > 1 else "there is nothing else"
            self._output.say(f"{one_line(item.reason)}; {rest}")

    def _begin(self, header: TraceHeader) -> None:
        try:
            self._replay = Replay(header, quick=True)
        except ShapeRefused as refused:
            name = printable(str(self._options.log))
            raise TraceError(
                f"{name} is no sound trace, its header's shape is refused: {refused}"
            ) from refused
        self._reader = Reader()
        self._words = TraceWords(header.shape, colour=self._colour)
        self._matching = Matching(self._wanted)
        self._summing = Summing(self._wanted)
        if self._options.summary:
            self._summing.begin(header)
        elif self._options.json:
            self._show(as_json(_header_entry(header)))
        else:
            for line in header_lines(header):
                self._show(line)

    def _line(self, line: TraceLine) -> None:
        assert self._replay is not None, "a line before the header"
        replayed = self._replay.feed(line)
        if self._replay.difference is not None and not self._differs:
            self._differs = True
            first = one_line(str(self._replay.difference))
            self._output.say(
                f"the trace and its replay differ from here on, {first}; "
                "what is told of states, times and reasons after it may be wrong"
            )
        self._matching.see(replayed)
        entry = self._reader.entry(replayed, self._replay.desired)
        if self._options.summary:
            self._summing.add(entry, replayed)
            return
        if entry.is_idle and (self._wanted or not self._options.json):
            self._left_out += 1
            return
        kept = self._wanted.kept(entry)
        if kept is None:
            return
        self._matching.found = True
        if self._options.json:
            self._show(as_json(kept))
            return
        for text in self._words.lines(kept):
            self._show(text)

    def _end(self) -> None:
        if self._options.summary:
            show_summary(self._summing.summary(self._options.log), self._options.json, self._output)
            self._matching.found = self._matching.found or self._summing.matched
        if word := self._matching.word():
            self._output.say(word)
        elif self._left_out and not (self._options.json or self._options.follow or self._wanted):
            self._output.say(
                f"{counted(self._left_out, 'message')} that changed nothing "
                f"{'is' if self._left_out == 1 else 'are'} left out; --json shows all"
            )

    def _show(self, text: str) -> None:
        self._waiting.append(text)
        if len(self._waiting) >= LINES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            lines, self._waiting = self._waiting, []
            self._output.data("\n".join(lines))


def _header_entry(header: TraceHeader) -> HeaderEntry:
    shape = header.shape
    return HeaderEntry(
        shape.run_id,
        shape.generation,
        len(shape.groups),
        sum(group.count for group in shape.groups),
        header.seed,
        header.started_at,
        header.first_attempt,
        header.version,
        header.versions,
    )

"""`replay`: a log of a run goes through a fresh driver, message by message, and both are compared.

Reads only; nothing of the world is touched, see `actors.replay`.  What is compared, and how a
difference is worded, is `actors.replay_differences`' business; how it is shown `replay_view`'s.
"""

import stat
from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.cli.arguments import ReplayOptions
from cluster_reconciler.actors.cli.exit_codes import DONE, INVALID
from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.replay_document import (
    ReplayDifference,
    ReplayedState,
    ReplayReport,
    replayed_node,
)
from cluster_reconciler.actors.cli.replay_view import show_report
from cluster_reconciler.actors.cli.trace_file import check_readable, read_whole
from cluster_reconciler.actors.cli.trace_matching import Matching
from cluster_reconciler.actors.cli.trace_reading import Entry, Filter, Reader
from cluster_reconciler.actors.cli.words import one_line
from cluster_reconciler.actors.replay import Replay, Replayed
from cluster_reconciler.actors.trace import (
    OpaqueMessage,
    TraceAltered,
    TraceError,
    TraceHeader,
    TraceLine,
    TraceTorn,
)
from cluster_reconciler.actors.trace_versions import program_versions
from cluster_reconciler.messages import RunPass, ShapeRefused

BEFORE_MAX = 5
"""So many messages before a difference are shown, of those that led to anything."""

STORY_MAX = 20
"""So many entries of the story of a node that differs are kept."""

DIFFERS = 1

OURS = "cluster-reconciler"


class Context(Struct, frozen=True):
    """What stands around the result, for people."""

    header: TraceHeader | None
    notes: tuple[str, ...]
    """What was asked for and is not so."""


def replay(options: ReplayOptions, output: Output) -> int:
    """The exit code: 0 when every message is equal, also of a log whose last line is broken off; 1
    at the first difference; 2 when there is no log that can be read."""
    replaying = _Replaying(options)
    try:
        check_readable(options.log)
        replaying.run()
    except TraceError as error:
        replaying.error = one_line(str(error))
    report = replaying.report()
    if report.difference is not None and not options.node:
        report = replace(report, story=_story(options, report.difference))
    show_report(report, replaying.context(), options, output)
    return report.exit_code


def _story(options: ReplayOptions, difference: ReplayDifference) -> tuple[Entry, ...]:
    """What happened to the node that differs; nothing where the file can be read only once."""
    again = ReplayOptions()
    again.log, again.node, again.until = options.log, difference.node, difference.sequence
    again.state = again.json = again.no_color = False
    replaying = _Replaying(again)
    try:
        if difference.node is None or not stat.S_ISREG(options.log.stat().st_mode):
            return ()
        replaying.run()
    except (OSError, TraceError):
        return ()
    return replaying.report().story[-STORY_MAX:]


class _Replaying:
    """One log, up to its end, to `--until`, or to the first difference."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self.error: str | None = None
        self._header: TraceHeader | None = None
        self._replay: Replay | None = None
        self._reader = Reader()
        self._last: TraceLine | None = None
        self._counts = {"messages": 0, "passes": 0, "effects": 0, "defects": 0}
        self._altered: int | None = None
        self._torn: str | None = None
        self._is_beyond = False
        """Messages came after `--until`."""
        self._latest: deque[Entry] = deque(maxlen=BEFORE_MAX)
        self._wanted = Filter(options.node)
        self._matching = Matching(self._wanted)
        self._story: list[Entry] = []

    def run(self) -> None:
        """Raises TraceError."""
        for item in read_whole(self._options.log):
            if isinstance(item, TraceHeader):
                self._begin(item)
            elif isinstance(item, TraceLine):
                if self._options.until is not None and item.sequence > self._options.until:
                    self._is_beyond = True
                    return
                self._feed(item)
                if self._replay is not None and self._replay.difference is not None:
                    return
            elif isinstance(item, TraceAltered):
                self._altered = self._altered or item.line
            elif isinstance(item, TraceTorn):
                self._torn = one_line(item.reason)

    def _begin(self, header: TraceHeader) -> None:
        try:
            self._replay = Replay(header)
        except ShapeRefused as refused:
            name = printable(str(self._options.log))
            raise TraceError(
                f"{name} is no sound trace, its header's shape is refused: {refused}"
            ) from refused
        self._header = header

    def _feed(self, line: TraceLine) -> None:
        assert self._replay is not None, "a line before the header"
        replayed = self._replay.feed(line)
        self._last = line
        self._counts["messages"] += 1
        self._counts["passes"] += isinstance(line.message, RunPass)
        self._counts["effects"] += len(replayed.effects)
        self._counts["defects"] += replayed.raised is not None
        self._remember(replayed)

    def _remember(self, replayed: Replayed) -> None:
        assert self._replay is not None, "a line before the header"
        self._matching.see(replayed)
        entry = self._reader.entry(replayed, self._replay.desired)
        is_last = self._replay.difference is not None
        if not entry.is_idle or is_last:
            self._latest.append(entry)
        kept = self._wanted.kept(entry) if self._wanted else None
        if kept is not None:
            self._matching.found = True
            self._story.append(kept)

    # -- what came out ----------------------------------------------------------------------------

    def report(self) -> ReplayReport:
        """The document."""
        options, header, replay = self._options, self._header, self._replay
        file = str(options.log)
        if header is None or replay is None:
            torn = f"{self._torn}; there is nothing to replay" if self._torn else None
            return ReplayReport(file, INVALID, False, self.error or torn, until=options.until)
        equal = replay.difference is None and self._altered is None and self.error is None
        nodes = replay.state.nodes.values()
        return ReplayReport(
            file=file,
            exit_code=INVALID if self.error is not None else DONE if equal else DIFFERS,
            equal=equal,
            error=self.error,
            run_id=header.shape.run_id,
            seed=header.seed,
            format=header.version,
            versions=header.versions,
            compared=replay.compared,
            plans_compared=replay.plans_compared,
            effects_compared=replay.effects_compared,
            started_at=header.started_at,
            ended_at=header.started_at if self._last is None else self._last.at,
            nodes=len(nodes),
            ready=sum(node.record.ready for node in nodes),
            difference=self._difference(),
            altered_line=self._altered,
            torn=self._torn,
            advice=self._advice(),
            until=options.until,
            state=self._state() if options.state else None,
            before=tuple(self._latest) if replay.difference is not None else (),
            story=tuple(self._story),
            **self._counts,
        )

    def context(self) -> Context:
        """For people."""
        return Context(self._header, tuple(self._notes()))

    def _difference(self) -> ReplayDifference | None:
        found = self._replay.difference if self._replay is not None else None
        if found is None or self._last is None:
            return None
        message = self._last.message
        kind = type(message).__name__
        if isinstance(message, OpaqueMessage):
            kind = message.message_type
        return ReplayDifference(
            found.line, found.sequence, self._last.at, kind, found.reason,
            found.node, found.field, found.expected, found.found,
        )  # fmt: skip

    def _advice(self) -> str | None:
        difference = self._replay.difference if self._replay is not None else None
        altered = self._altered
        if altered is not None and (difference is None or altered <= difference.line):
            return (
                f"line {altered} was changed after it was written, or lines before it were taken "
                "out, doubled or moved: take the file as `up --trace` wrote it"
            )
        if difference is None or self._header is None:
            return None
        wrote, ours = self._header.versions.get(OURS, "unknown"), program_versions()[OURS]
        if wrote != ours:
            return (
                f"it was written by cluster-reconciler {wrote}, this is {ours}: the two decide "
                f"differently here; replay it with {wrote}, or read what changed in between"
            )
        return (
            "the same program decided otherwise on the same messages: a defect of ours (chance, a "
            "clock or an order that no message holds); please report it with this log"
        )

    def _state(self) -> ReplayedState | None:
        replay, header = self._replay, self._header
        if replay is None or header is None:
            return None
        state = replay.state
        return ReplayedState(
            0 if self._last is None else self._last.sequence,
            header.started_at if self._last is None else self._last.at,
            header.shape.run_id,
            replay.desired.shape.generation,
            state.observed_generation,
            state.next_attempt_id,
            tuple(
                replayed_node(node_id, node)
                for node_id, node in sorted(state.nodes.items())
                if self._options.node in (None, node_id)
            ),
        )

    def _notes(self) -> list[str]:
        notes = []
        until, last = self._options.until, self._last
        if self._header is not None and until is not None and self._replay is not None:
            if last is None:
                notes.append(f"message {until} is before the first one: nothing had happened yet")
            elif not self._is_beyond and until > last.sequence and self._difference() is None:
                notes.append(f"the last message is {last.sequence}, before {until}: to its end")
        if self._header is not None and (word := self._matching.word()):
            notes.append(word)
        return notes

"""A replay's result for people: the counts, the verdict, a difference with what led to it, a state.

Pure words and tables from the document that `--json` prints.  Everything that came from the log is
made harmless for a terminal here.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cluster_reconciler.actors.cli.arguments import ReplayOptions
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.replay_document import (
    ReplayDifference,
    ReplayedNode,
    ReplayedState,
    ReplayReport,
)
from cluster_reconciler.actors.cli.trace_reading import Entry
from cluster_reconciler.actors.cli.trace_words import TraceWords, header_lines
from cluster_reconciler.actors.cli.words import aligned, counted, empty_table, one_line
from cluster_reconciler.messages import ClusterShape, RunId

if TYPE_CHECKING:
    from rich.table import Table

    from cluster_reconciler.actors.cli.replay import Context

_RED, _GREEN = "31", "32"
_COLUMNS = ("NODE", "ATTEMPT", "STAGE", "INTENT", "READY", "PENDING", "FAILURES", "DUE", "LEASE")


def show_report(
    report: ReplayReport, context: "Context", options: ReplayOptions, output: Output
) -> None:
    """One document, or lines; what is no data goes to stderr."""
    if report.error is not None:
        output.say(report.error)
    if options.json:
        for note in (*context.notes, *_torn(report)):
            output.say(one_line(note))
        output.data(as_json(report))
        return
    if context.header is None:
        return
    for line in header_lines(context.header):
        output.data(line)
    if options.node is not None:
        _show_lines(output, _told(_words(context, output), report.story))
    if report.state is not None:
        _show_state(report.state, output)
    _show_result(report, context, options, output)
    for note in (*context.notes, *_torn(report)):
        output.say(one_line(note))


def _torn(report: ReplayReport) -> list[str]:
    if report.torn is None:
        return []
    return [f"{report.torn}; what came before it was replayed"]


def _show_lines(output: Output, lines: Sequence[str]) -> None:
    if lines:
        output.data("\n".join(lines))


def _words(context: "Context", output: Output) -> TraceWords:
    shape = context.header.shape if context.header is not None else ClusterShape(RunId(0), 0, ())
    return TraceWords(shape, colour=output.colours_data)


def _told(words: TraceWords, entries: Sequence[Entry]) -> list[str]:
    return [line for entry in entries for line in words.lines(entry)]


# -- the result -----------------------------------------------------------------------------------


def _show_result(
    report: ReplayReport, context: "Context", options: ReplayOptions, output: Output
) -> None:
    output.data(_counts(report))
    if report.equal:
        output.data(_styled(_equal(report), _GREEN, output))
    if report.difference is not None:
        _show_lines(output, list(_difference(report.difference, output)))
        output.data("what led to it:")
        _show_lines(output, _told(_words(context, output), report.before))
        if report.story and options.node is None:
            output.data(one_line(f"the story of {report.difference.node}:"))
            _show_lines(output, _told(_words(context, output), report.story))
    elif report.altered_line is not None:
        said = f"ALTERED: line {report.altered_line} does not follow the lines before it"
        output.data(_styled(f"{said}; every message replays equal all the same", _RED, output))
    if report.advice is not None:
        output.data(one_line(f"what to do: {report.advice}"))


def _counts(report: ReplayReport) -> str:
    span = ""
    if report.started_at is not None and report.ended_at is not None:
        span = f" over {format_duration(report.ended_at - report.started_at)}"
    raised = f", {counted(report.defects, 'defect')} raised" if report.defects else ""
    return (
        f"replayed {counted(report.messages, 'message')}{span}: "
        f"{report.passes} {'pass' if report.passes == 1 else 'passes'}, "
        f"{counted(report.effects, 'effect')}{raised}; "
        f"at the end {counted(report.nodes, 'node')}, {report.ready} ready"
    )


def _equal(report: ReplayReport) -> str:
    return (
        f"EQUAL: every message led to the same: {counted(report.compared, 'state')}, "
        f"{counted(report.plans_compared, 'plan')}, {counted(report.effects_compared, 'effect')} "
        "compared"
    )


def _difference(difference: ReplayDifference, output: Output) -> Iterator[str]:
    at = _time(difference.at)
    head = f"DIFFERS at line {difference.line}, message {difference.sequence}"
    yield _styled(one_line(f"{head} ({difference.message}, {at})"), _RED, output)
    if not (difference.expected and difference.found):  # Those say it all, in fewer words.
        yield one_line(f"  {difference.reason}")
    rows = {
        "node": difference.node or "",
        "field": difference.field,
        "in the run": difference.expected,
        "in the replay": difference.found,
    }
    for name, value in rows.items():
        if value:
            yield one_line(f"  {name + ':':<15}{value}")


# -- a state --------------------------------------------------------------------------------------


def _show_state(state: ReplayedState, output: Output) -> None:
    output.data(
        f"state after message {state.sequence}, {_time(state.at)}: generation {state.generation} "
        f"is desired, {state.observed_generation} was looked at last; the next attempt is "
        f"{state.next_attempt}; {counted(len(state.nodes), 'node')}"
    )
    if not state.nodes:
        return
    rows = [_row(node, state.at) for node in state.nodes]
    if output.stdout_is_terminal:
        output.table(_table(rows, state.nodes))
    else:
        output.data(aligned(_COLUMNS, rows))
    errors = [
        one_line(f"  {node.node}: {node.last_error}")
        for node in state.nodes
        if node.last_error is not None
    ]
    _show_lines(output, errors)


def _table(rows: Sequence[tuple[str, ...]], nodes: Sequence[ReplayedNode]) -> "Table":
    from rich.text import Text  # noqa: PLC0415  # who writes lines need not wait for it

    table = empty_table(_COLUMNS)
    for node, row in zip(nodes, rows, strict=True):
        cells = [Text(cell) for cell in row]
        cells[2].stylize("green" if node.ready else "red" if node.failed_at else "yellow")
        table.add_row(*cells)
    return table


def _row(node: ReplayedNode, now: datetime) -> tuple[str, ...]:
    pending = "-"
    if node.pending is not None:
        looks = ", adopt only" if node.adopt_only else ""
        pending = f"{node.pending} {node.pending_kind}{looks}"
    elif node.ambiguous is not None:
        pending = f"{node.ambiguous} may have run"
    cells = (
        node.node,
        str(node.attempt),
        node.stage.replace("_", " "),
        node.intent,
        "yes" if node.ready else "no",
        pending,
        str(node.failures),
        _due(node, now),
        node.lease_id or "-",
    )
    return tuple(one_line(cell) for cell in cells)


def _due(node: ReplayedNode, now: datetime) -> str:
    """The next moment that it waits for, from that message on."""
    moments = (node.next_effect_at, node.restart_at, node.wait_deadline)
    waits = (moment for moment in moments if moment is not None)
    due = node.deadline if node.pending is not None else min(waits, default=None)
    if due is None:
        return "-"
    return "now" if due <= now else f"in {format_duration(due - now)}"


def _time(moment: datetime) -> str:
    local = moment.astimezone()
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"


def _styled(text: str, code: str, output: Output) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if output.colours_data else text

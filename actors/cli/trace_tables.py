"""The summary of a trace for people: tables on a terminal, aligned lines in a pipe.

Pure layout: what is counted, and how, is `trace_summary`'s business.
"""

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.trace_document import (
    GroupSummary,
    NodeSummary,
    PhaseSummary,
    SlowOperation,
    TraceSummary,
)
from cluster_reconciler.actors.cli.trace_words import took_words
from cluster_reconciler.actors.cli.words import aligned, counted, empty_table, one_line

NODES_SHOWN = 20
GROUPS_SHOWN = 6
REASONS_SHOWN = 10


class _Section(Struct, frozen=True):
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""
    """What is left out."""


def show_summary(summary: TraceSummary, json: bool, output: Output) -> None:
    """One document, or tables."""
    if json:
        output.data(as_json(summary))
        return
    for line in _head(summary):
        output.data(line)
    for section in _sections(summary):
        output.data(f"\n{section.title}")
        if output.stdout_is_terminal:
            output.table(_rich(section))
        else:
            output.data(aligned(section.columns, section.rows))
        if section.more:
            output.data(section.more)


def _rich(section: _Section) -> Table:
    table = empty_table(section.columns)
    for row in section.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _head(summary: TraceSummary) -> list[str]:
    if summary.started_at is None or summary.ended_at is None:
        return [f"{one_line(summary.file)}: nothing could be read"]
    began = summary.started_at.astimezone()
    lasted = format_duration(summary.ended_at - summary.started_at)
    total = sum(summary.messages.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in summary.messages.items())
    refused = f"; {summary.refused} of them refused" if summary.refused else ""
    return [
        f"run {summary.run_id}: began {began:%Y-%m-%d %H:%M:%S %z}, last message after {lasted}",
        one_line(f"{counted(total, 'message')}: {kinds or 'none'}{refused}"),
    ]


def _sections(summary: TraceSummary) -> list[_Section]:
    made = (
        _nodes(summary),
        _groups(summary),
        _phases(summary),
        _group_phases(summary),
        _reasons(summary),
        _operations(summary),
    )
    return [section for section in (*made, _slowest(summary)) if section.rows]


def _nodes(summary: TraceSummary) -> _Section:
    """Those with most trouble first."""

    def trouble(node: NodeSummary) -> tuple[int, int, int]:
        return -node.attempts, -node.failures, -node.retries

    shown = sorted(summary.nodes, key=trouble)[:NODES_SHOWN]
    left = len(summary.nodes) - len(shown)
    attempts = sum(node.attempts for node in summary.nodes)
    return _Section(
        f"{counted(attempts, 'attempt')} of {counted(len(summary.nodes), 'node')}",
        ("NODE", "PROVIDER", "ATTEMPTS", "LATEST", "NOW", "FAILED", "RETRIES"),
        tuple(
            _cells(
                node.node,
                node.provider,
                node.attempts,
                node.attempt,
                node.phase.replace("_", " "),
                node.failures,
                node.retries,
            )
            for node in shown
        ),
        f"and {counted(left, 'node')} more with no more attempts than these" if left else "",
    )


def _phases(summary: TraceSummary) -> _Section:
    return _Section(
        "time in each stage",
        ("STAGE", "TIMES", "MEAN", "LONGEST", "OF", "THERE NOW"),
        tuple(_cells(*_phase(phase)) for phase in summary.phases),
    )


def _groups(summary: TraceSummary) -> _Section:
    """Nothing where one group is all."""
    groups = summary.groups if len(summary.groups) > 1 else ()
    left = len(groups) - NODES_SHOWN

    def trouble(group: GroupSummary) -> tuple[int, int]:
        return -group.failures, -group.retries

    return _Section(
        "groups",
        ("GROUP", "NODES", "ATTEMPTS", "FAILED", "RETRIES", "SLOWEST OPERATION"),
        tuple(
            _cells(
                group.group,
                group.nodes,
                group.attempts,
                group.failures,
                group.retries,
                _slow_words(group.slowest),
            )
            for group in sorted(groups, key=trouble)[:NODES_SHOWN]
        ),
        f"and {counted(left, 'more group')} with no more failures" if left > 0 else "",
    )


def _slow_words(slow: SlowOperation | None) -> str:
    if slow is None:
        return "-"
    return f"{took_words(slow.seconds)}, {slow.operation} {slow.kind} of {slow.node}, {slow.result}"


def _group_phases(summary: TraceSummary) -> _Section:
    """Nothing where one group is all."""
    groups = list(dict.fromkeys(phase.group for phase in summary.group_phases))
    shown, left = groups[:GROUPS_SHOWN], len(groups) - GROUPS_SHOWN
    return _Section(
        "time in each stage, by group",
        ("GROUP", "STAGE", "TIMES", "MEAN", "LONGEST", "OF", "THERE NOW"),
        tuple(
            _cells(phase.group, *_phase(phase))
            for phase in summary.group_phases
            if phase.group in shown and len(groups) > 1
        ),
        f"and {counted(left, 'more group')}; --json has all" if left > 0 else "",
    )


def _phase(phase: PhaseSummary) -> tuple[object, ...]:
    return (
        phase.phase.replace("_", " "),
        phase.stays,
        took_words(phase.mean_seconds),
        took_words(phase.longest_seconds),
        f"{phase.longest_node} (attempt {phase.longest_attempt})",
        phase.going_on,
    )


def _reasons(summary: TraceSummary) -> _Section:
    left = summary.reasons[REASONS_SHOWN:]
    number = sum(reason.count for reason in left)
    return _Section(
        "failures and retries by reason",
        ("COUNT", "WHAT", "LATEST", "REASON"),
        tuple(
            _cells(
                reason.count,
                "attempt over" if reason.what == "failed" else "retry",
                f"{reason.node} (attempt {reason.attempt})",
                reason.reason,
            )
            for reason in summary.reasons[:REASONS_SHOWN]
        ),
        f"and {counted(len(left), 'more reason')}, {number} times" if left else "",
    )


def _operations(summary: TraceSummary) -> _Section:
    return _Section(
        "operations",
        ("PROVIDER", "KIND", "COUNT", "FAILED", "EXPIRED", "MEAN", "LONGEST"),
        tuple(
            _cells(
                kind.provider,
                kind.kind,
                kind.count,
                kind.failed,
                kind.expired,
                took_words(kind.mean_seconds),
                took_words(kind.longest_seconds),
            )
            for kind in summary.operations
        ),
    )


def _slowest(summary: TraceSummary) -> _Section:
    return _Section(
        "slowest operations",
        ("PROVIDER", "TOOK", "OPERATION", "KIND", "NODE", "RESULT"),
        tuple(
            _cells(
                slow.provider,
                took_words(slow.seconds),
                slow.operation,
                slow.kind,
                slow.node,
                slow.result,
            )
            for slow in summary.slowest
        ),
    )


def _cells(*values: object) -> tuple[str, ...]:
    return tuple(one_line(str(value)) for value in values)

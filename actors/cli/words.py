"""How nodes, events and leases are told to people: lines and tables, pure text from snapshots."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cluster_reconciler.actors import mailbox_words
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.errors import LeftLease
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus, state_of
from cluster_reconciler.executors.provider import ListedLease

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("NODE", "PROVIDER", "STAGE", "READY", "ATTEMPT", "AGE", "LEASE", "REMARK")
WAITS_NAMED_MAX = 10
REMARK_MIN = 30
"""A remark that has so many cells can be read."""

TROUBLE = frozenset({EventKind.FAILED, EventKind.RETRY, EventKind.WARNING, EventKind.DROPPED})
"""The events that are told with --quiet too."""

DETAILS = frozenset({EventKind.OUTPUT, EventKind.REFUSED})
"""Those that are told with --verbose only: they change nothing."""

STEPS = frozenset({EventKind.INSERTED, EventKind.STAGE, EventKind.DELETING, EventKind.DESTROYED})
"""Those that lead to another that says it all: `ready`, `begins anew`, `gone`."""

counted = mailbox_words.counted
"""`1 node`, `5 nodes`."""


def one_line(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    return printable(" | ".join(line for line in text.splitlines() if line.strip()))


def event_line(event: ClusterEvent) -> str:
    """`HH:MM:SS node message`, in local time."""
    who = event.node if event.node is not None else "cluster"
    attempt = f" (attempt {event.attempt})" if event.attempt is not None else ""
    return f"{event.at.astimezone():%H:%M:%S} {one_line(who)} {one_line(event.text)}{attempt}"


def rows(status: ClusterStatus) -> list[tuple[str, ...]]:
    """The cells of a table of nodes, under `COLUMNS`."""
    return [_row(node, status.at) for node in status.nodes]


def plain_table(status: ClusterStatus) -> str:
    """Aligned lines, for pipes."""
    return aligned(COLUMNS, rows(status))


def aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table as lines of text, each column as wide as what stands in it."""
    lines = [columns, *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def empty_table(columns: Sequence[str]) -> "Table":
    """One for a terminal, with nothing but the names of its columns."""
    from rich.table import Table  # noqa: PLC0415  # who writes lines need not wait for it

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def rich_table(status: ClusterStatus, width: int) -> "Table":
    """The nodes for a terminal.  A node takes one line, but for its remark: where the names of the
    leases leave no room for that, they are left out."""
    from rich.cells import cell_len  # noqa: PLC0415  # as above
    from rich.text import Text  # noqa: PLC0415

    shown = list(COLUMNS)
    lines = [shown, *rows(status)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(shown))]
    if sum(widths[:-1]) + min(widths[-1], REMARK_MIN) + 2 * (len(widths) - 1) > width:
        shown.remove("LEASE")
    table = empty_table(shown)
    for node, row in zip(status.nodes, rows(status), strict=True):
        style = "green" if node.ready else "red" if node.last_error is not None else "yellow"
        cells = [Text(cell) for name, cell in zip(COLUMNS, row, strict=True) if name in shown]
        cells[2].stylize(style)
        cells[3].stylize(style)
        table.add_row(*cells)
    return table


def summary(status: ClusterStatus) -> str:
    """One line of counts."""
    counts = status.counts
    others = (
        f"{getattr(counts, name)} {name.replace('_', ' ')}"
        for name in ("starting", "replacing", "backing_off", "missing", "leaving")
        if getattr(counts, name)
    )
    return ", ".join([f"{counts.ready} of {counts.wanted} nodes are ready", *others])


def waits(nodes: Iterable[NodeStatus], now: datetime) -> list[str]:
    """What the nodes that are not at rest wait for, one line each, the rest counted."""
    busy = [node for node in nodes if not (node.ready and node.desired)]
    lines = []
    for node in busy[:WAITS_NAMED_MAX]:
        what = node.waits_for or state_of(node)
        left = ""
        if node.until is not None and node.until > now:
            left = f", at most {format_duration(node.until - now)} more"
        lines.append(f"  {one_line(node.node)}: waits for {what}{left}")
    if len(busy) > WAITS_NAMED_MAX:
        lines.append(f"  and {len(busy) - WAITS_NAMED_MAX} more")
    return lines


def left_lines(left: Sequence[LeftLease]) -> list[str]:
    """Every lease that is left, one line each: none is ever folded away."""
    return [f"  {one_line(str(lease))}" for lease in left]


def leftover_line(lease: ListedLease) -> str:
    """A lease that an earlier process left."""
    detail = f" ({lease.detail})" if lease.detail else ""
    return one_line(f"lease {lease.lease.lease_id} of {lease.identity} is {lease.state}{detail}")


def _row(node: NodeStatus, now: datetime) -> tuple[str, ...]:
    cells = (
        node.node,
        node.provider,
        state_of(node),
        "yes" if node.ready else "no",
        "-" if node.attempt is None else str(node.attempt),
        "-" if node.started_at is None else format_duration(now - node.started_at),
        node.lease_id or "-",
        _remark(node),
    )
    return tuple(one_line(cell) for cell in cells)


def _remark(node: NodeStatus) -> str:
    parts = []
    if not node.desired:
        parts.append("not wanted")
    if node.waits_for is not None:
        parts.append(f"waits for {node.waits_for}")
    if node.last_error is not None:
        parts.append(node.last_error)
    return "; ".join(parts)

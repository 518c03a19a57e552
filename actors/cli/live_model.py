"""What the live view of `up` shows: a status, a time and a size become lines of cut, toned text.

Pure: nothing here reads a clock, a terminal or a cluster.  Rows keep their places: nodes stand in
the order of the status, widths follow from the whole cluster and not from what is visible, and a
node that is shown stays until it is at rest.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from cluster_reconciler.actors.cli.live_cells import (
    Line,
    Span,
    Tone,
    at_rest,
    clock_text,
    columns_for,
    cut,
    error_line,
    heading,
    node_line,
    span_text,
)
from cluster_reconciler.actors.cli.words import counted, one_line
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus
from cluster_reconciler.messages import NodeGroupId

BAR_MAX, BAR_MIN = 24, 8
STALE = timedelta(seconds=5)
"""A status older than that is called old."""
WARNINGS_MAX = 2


class Size(Struct, frozen=True, gc=False):
    """Of the terminal, in cells."""

    columns: int
    lines: int


class Memory(Struct, frozen=True, gc=False):
    """What one picture must know of those before it."""

    began: datetime | None = None
    """The second of the first status."""
    busy: tuple[str, ...] = ()
    """The nodes that are not at rest, those that have been so for longest first."""
    most: int = 0
    """The nodes that there were when the cluster was last wanted."""


class Moment(Struct, frozen=True, gc=False):
    """What the lines are made from."""

    status: ClusterStatus
    memory: Memory
    now: datetime
    """On the clock of the status."""
    size: Size
    unicode: bool = True
    """The terminal shows more than ASCII."""
    hint: str | None = None
    """It drains, and this is how to end that at once."""


def remembered(memory: Memory, status: ClusterStatus) -> Memory:
    """The memory after a further status."""
    busy = {str(node.node): None for node in status.nodes if not at_rest(node)}
    known = [node for node in memory.busy if node in busy]
    old = set(known)
    return Memory(
        began=memory.began or status.at.replace(microsecond=0),
        busy=(*known, *(node for node in busy if node not in old)),
        most=max(len(status.nodes), 0 if status.counts.wanted else memory.most),
    )


def live_lines(moment: Moment) -> list[Line]:
    """At most as many lines as leave room for what is written above, none wider than the terminal
    less one cell: a line that fills the last one may wrap."""
    status, size = moment.status, moment.size
    room = max(1, size.lines - 1 - max(1, size.lines // 4))
    lines = [_progress(moment)]
    if moment.hint is not None and status.counts.leaving and room > 4:
        to_go = counted(status.counts.leaving, "node")
        lines.append((Span(f"draining, {to_go} to go; {moment.hint}", Tone.BUSY),))
    warnings = [
        (Span(f"warning: {one_line(text)}", Tone.BAD),) for text in status.warnings[:WARNINGS_MAX]
    ]
    left = room - len(lines) - len(warnings)
    if left >= 3 and status.nodes:
        lines += _table(moment, left)
    lines += warnings[: max(0, room - len(lines))]
    return [cut(line, size.columns - 1, unicode=moment.unicode) for line in lines]


# -- the line over all ----------------------------------------------------------------------------


def _progress(moment: Moment) -> Line:
    status, counts = moment.status, moment.status.counts
    draining = counts.wanted == 0
    done, whole = counts.ready, counts.wanted
    if draining:
        done, whole = moment.memory.most - counts.leaving, moment.memory.most
    width = max(BAR_MIN, min(BAR_MAX, moment.size.columns // 4))
    # A bar is full only when all is done.
    full = width if done >= whole else width * done // whole
    on, off = ("\u2588", "\u2591") if moment.unicode else ("#", "-")
    news = [(f"{done} of {whole} {'gone' if draining else 'ready'}", Tone.PLAIN)]
    news += [
        (f"{getattr(counts, name)} {name.replace('_', ' ')}", tone)
        for name, tone in (
            ("starting", Tone.BUSY),
            ("replacing", Tone.BUSY),
            ("backing_off", Tone.BAD),
            ("missing", Tone.BUSY),
            ("leaving", Tone.BUSY),
        )
        if getattr(counts, name)
    ]
    news.append((f"generation {status.generation}", Tone.DIM))
    if moment.now - status.at >= STALE:
        news.append((f"this is {span_text(moment.now - status.at)} old", Tone.BAD))
    return (
        Span(f"{clock_text(moment.now - (moment.memory.began or moment.now)):>7} ", Tone.DIM),
        Span(on * full, Tone.GOOD if done >= whole and not draining else Tone.BUSY),
        Span(off * (width - full), Tone.DIM),
        *(Span(f"  {text}", tone) for text, tone in news),
    )


# -- groups and nodes -----------------------------------------------------------------------------


def _table(moment: Moment, room: int) -> list[Line]:
    """The heading, and groups with their nodes, in `room` lines."""
    status = moment.status
    groups: dict[NodeGroupId, list[NodeStatus]] = {}
    for node in status.nodes:
        groups.setdefault(node.group, []).append(node)
    columns = columns_for(status.nodes, moment.size.columns)
    room -= 1
    failing = sum(node.last_error is not None for node in status.nodes)
    if len(groups) + len(status.nodes) + failing <= room:
        shown = {str(node.node) for node in status.nodes}
        named, hidden = set(groups), 0
    else:
        shown, named, hidden = _folded(moment, groups, room)
    room -= len(named) + len(shown) + (len(named) < len(groups)) + (hidden > 0)
    errors = _errors_shown(status, shown, room)
    lines = [heading(columns)]
    for group, nodes in groups.items():
        if group not in named:
            continue
        lines.append(_group_line(group, nodes))
        for node in nodes:
            if node.node in shown:
                lines.append(node_line(node, columns, moment.now))
            if node.node in errors:
                lines.append(error_line(node))
    if len(named) < len(groups):
        lines.append(_other_groups([groups[group] for group in groups if group not in named]))
    if hidden:
        lines.append((Span(f"  and {counted(hidden, 'node')} more at work", Tone.DIM),))
    return lines


def _folded(
    moment: Moment, groups: dict[NodeGroupId, list[NodeStatus]], room: int
) -> tuple[set[str], set[NodeGroupId], int]:
    """Which nodes and which groups have a line of their own, and how many nodes at work have none.

    Failing nodes come first, then those that have been at work for longest.
    """
    by_id = {str(node.node): node for node in moment.status.nodes}
    busy = [by_id[node] for node in moment.memory.busy if node in by_id]
    ordered = sorted(busy, key=lambda node: node.last_error is None)
    # As many group lines as leave half of the room to nodes; what is over is told in one line.
    named = set(groups) if len(groups) <= room // 2 else set()
    room -= len(named) or 1
    failing = sum(node.last_error is not None for node in busy)
    fits = len(busy) + failing + len({node.group for node in busy} - named) <= room
    if not fits:
        room -= 1  # for "and 12 more"
    shown: set[str] = set()
    for node in ordered:
        cost = 1 + (node.group not in named)
        if cost > room:
            break
        if node.last_error is not None:
            cost += 1  # The error has a line of its own; the last one's may have no room.
        shown.add(str(node.node))
        named.add(node.group)
        room -= cost
    return shown, named, len(busy) - len(shown)


def _errors_shown(status: ClusterStatus, shown: set[str], room: int) -> set[str]:
    failing = [str(n.node) for n in status.nodes if n.node in shown and n.last_error is not None]
    return set(failing[: max(0, room)])


def _group_line(group: NodeGroupId, nodes: Sequence[NodeStatus]) -> Line:
    ready = sum(node.ready and node.desired for node in nodes)
    wanted = sum(node.desired for node in nodes)
    parts = [f"{ready} of {wanted} ready"] if wanted else []
    if wanted < len(nodes):
        parts.append(f"{len(nodes) - wanted} leaving")
    tone = Tone.GOOD if ready == len(nodes) else Tone.BUSY
    return Span(f"{one_line(group)}: "), Span(", ".join(parts), tone)


def _other_groups(others: Sequence[Sequence[NodeStatus]]) -> Line:
    nodes = [node for group in others for node in group]
    ready = sum(node.ready and node.desired for node in nodes)
    return (
        Span(f"{counted(len(others), 'other group')}: {ready} of {len(nodes)} ready", Tone.DIM),
    )

"""What the live view of `up` shows: a status, a time and a size become lines of cut, toned text.

Pure: nothing here reads a clock, a terminal or a cluster.  Rows keep their places: nodes stand in
the order of the status, widths follow from the whole cluster and not from what is visible, and a
node that is shown stays until it is at rest.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum, auto

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from cluster_reconciler.actors.cli.words import counted, one_line
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus
from cluster_reconciler.messages import NodeGroupId, NodeIntent, NodeStage

BAR_MAX, BAR_MIN = 24, 8
NODE_MAX = 32
"""A longer node id is cut."""
WAITS_MIN = 14
"""Columns are dropped until what a node waits for has so much room."""
STALE = timedelta(seconds=5)
"""A status older than that is called old."""
WARNINGS_MAX = 2


class Tone(StrEnum):
    """What a piece of text means, from which its colour follows."""

    PLAIN = auto()
    DIM = auto()
    GOOD = auto()
    BUSY = auto()
    BAD = auto()


class Span(Struct, frozen=True, gc=False):
    """A piece of a line."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


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


def at_rest(node: NodeStatus) -> bool:
    """Nothing is to be done about it, and nothing is wrong with it."""
    return node.ready and node.desired and node.last_error is None


def remembered(memory: Memory, status: ClusterStatus) -> Memory:
    """The memory after a further status."""
    busy = {str(node.node): None for node in status.nodes if not at_rest(node)}
    known = [node for node in memory.busy if node in busy]
    new = busy.keys() - set(known)
    return Memory(
        began=memory.began or status.at.replace(microsecond=0),
        busy=(*known, *(node for node in busy if node in new)),
        most=max(len(status.nodes), 0 if status.counts.wanted else memory.most),
    )


def live_lines(moment: Moment) -> list[Line]:
    """At most as many lines as leave room for what is written above, none wider than the terminal
    less one cell: a line that fills the last one may wrap."""
    status, size = moment.status, moment.size
    room = max(1, size.lines - 1 - max(3, size.lines // 4))
    lines = [_progress(moment)]
    if status.counts.wanted == 0 and status.nodes and room > 4:
        lines.append(_how_to_force(status))
    warnings = [
        (Span(f"warning: {one_line(text)}", Tone.BAD),) for text in status.warnings[:WARNINGS_MAX]
    ]
    left = room - len(lines) - len(warnings)
    if left >= 3 and status.nodes:
        lines += _table(moment, left)
    lines += warnings[: max(0, room - len(lines))]
    cut = _cutter(moment)
    return [cut(line, size.columns - 1) for line in lines]


# -- the line over all ----------------------------------------------------------------------------


def _progress(moment: Moment) -> Line:
    status, counts = moment.status, moment.status.counts
    draining = counts.wanted == 0
    done, whole = counts.ready, counts.wanted
    if draining:
        done, whole = moment.memory.most - counts.leaving, moment.memory.most
    width = max(BAR_MIN, min(BAR_MAX, moment.size.columns // 4))
    # A bar is full only when all is done.
    full = width if done >= whole else min(width - 1, width * done // max(1, whole))
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
        news.append((f"this is {_span(moment.now - status.at)} old", Tone.BAD))
    return (
        Span(f"{_clock(moment.now - (moment.memory.began or moment.now)):>7} ", Tone.DIM),
        Span(on * full, Tone.GOOD if done >= whole and not draining else Tone.BUSY),
        Span(off * (width - full), Tone.DIM),
        *(Span(f"  {text}", tone) for text, tone in news),
    )


def _how_to_force(status: ClusterStatus) -> Line:
    to_go = counted(status.counts.leaving, "node")
    return (
        Span(f"draining, {to_go} to go; Ctrl-C again ends at once, ", Tone.BUSY),
        Span("and may leave machines behind", Tone.BUSY),
    )


# -- groups and nodes -----------------------------------------------------------------------------


class _Column(Struct, frozen=True, gc=False):
    name: str
    width: int
    text: Callable[[NodeStatus, datetime], str]
    right: bool = False


def _table(moment: Moment, room: int) -> list[Line]:
    """The heading, and groups with their nodes, in `room` lines."""
    status = moment.status
    groups: dict[NodeGroupId, list[NodeStatus]] = {}
    for node in status.nodes:
        groups.setdefault(node.group, []).append(node)
    columns = _columns(status, moment.size.columns)
    room -= 1
    if len(groups) + len(status.nodes) <= room:
        shown = {str(node.node) for node in status.nodes}
        named, hidden = set(groups), 0
    else:
        shown, named, hidden = _folded(moment, groups, room)
    errors = _errors_shown(status, shown, room - len(named) - len(shown) - bool(hidden))
    lines = [_heading(columns)]
    for group, nodes in groups.items():
        if group not in named:
            continue
        lines.append(_group_line(group, nodes))
        for node in nodes:
            if node.node in shown:
                lines.append(_node_line(node, columns, moment.now))
            if node.node in errors:
                lines.append(_error_line(node))
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
    fits = len(busy) + len({node.group for node in busy} - named) <= room
    if not fits:
        room -= 1  # for "and 12 more"
    shown: set[str] = set()
    for node in ordered:
        cost = 1 + (node.group not in named)
        if cost > room:
            break
        shown.add(str(node.node))
        named.add(node.group)
        room -= cost
    return shown, named, len(busy) - len(shown)


def _errors_shown(status: ClusterStatus, shown: set[str], room: int) -> set[str]:
    failing = [str(n.node) for n in status.nodes if n.node in shown and n.last_error is not None]
    return set(failing[: max(0, room)])


def _columns(status: ClusterStatus, width: int) -> list[_Column]:
    """Those that there is room for; the age goes first, what a node waits for last."""
    longest = max(cell_len(one_line(str(node.node))) for node in status.nodes)
    columns = [
        _Column("NODE", max(4, min(NODE_MAX, longest)), lambda node, _: one_line(node.node)),
        _Column("STAGE", 17, lambda node, _: _stage(node)),
        _Column("ATTEMPT", 7, _attempt, right=True),
        _Column("AGE", 6, _age, right=True),
        _Column("UNTIL", 6, _until, right=True),
    ]
    for name in ("AGE", "ATTEMPT", "UNTIL"):
        if _width(columns) + WAITS_MIN < width:
            break
        columns = [column for column in columns if column.name != name]
    rest = width - 1 - _width(columns)
    if rest >= WAITS_MIN // 2:
        columns.append(_Column("WAITS FOR", rest, lambda node, _: one_line(node.waits_for or "")))
    return columns


def _width(columns: Sequence[_Column]) -> int:
    return sum(2 + column.width for column in columns) + 2


def _heading(columns: Sequence[_Column]) -> Line:
    return (Span(_row([(column, column.name) for column in columns]), Tone.DIM),)


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


def _node_line(node: NodeStatus, columns: Sequence[_Column], now: datetime) -> Line:
    cells = [(column, column.text(node, now)) for column in columns]
    return (
        Span(_row(cells[:1]) + "  "),
        Span(_padded(*cells[1]), _tone(node)),
        Span("".join("  " + _padded(*cell) for cell in cells[2:]), Tone.PLAIN),
    )


def _error_line(node: NodeStatus) -> Line:
    which = ""
    if node.last_error_attempt is not None and node.last_error_attempt != node.attempt:
        which = f"attempt {node.last_error_attempt}: "
    return (Span(f"    {which}{one_line(node.last_error or '')}", Tone.BAD),)


def _row(cells: Sequence[tuple[_Column, str]]) -> str:
    return "  " + "  ".join(_padded(column, text) for column, text in cells)


def _padded(column: _Column, text: str) -> str:
    if cell_len(text) > column.width:
        return set_cell_size(text, column.width - 1) + "\u2026"
    padding = " " * (column.width - cell_len(text))
    return padding + text if column.right else text + padding


# -- cells ----------------------------------------------------------------------------------------


def _stage(node: NodeStatus) -> str:
    if node.attempt is None:
        return "missing"
    if node.stage is NodeStage.DESTROYED:
        return "backing off" if node.desired else "gone"
    if node.intent is NodeIntent.DELETING:
        return "deleting"
    return "ready" if node.ready else node.stage.replace("_", " ")


def _tone(node: NodeStatus) -> Tone:
    if node.last_error is not None and node.desired:
        return Tone.BAD
    return Tone.GOOD if at_rest(node) else Tone.BUSY


def _attempt(node: NodeStatus, now: datetime) -> str:
    del now  # An attempt has its number for good.
    return "-" if node.attempt is None else str(node.attempt)


def _age(node: NodeStatus, now: datetime) -> str:
    return "-" if node.started_at is None else _span(now - node.started_at)


def _until(node: NodeStatus, now: datetime) -> str:
    return "" if node.waits_for is None or node.until is None else _span(node.until - now)


def _span(value: timedelta) -> str:
    """At most six cells; the longer it is, the less often it changes."""
    seconds = max(0, int(value.total_seconds()))
    if seconds < 100:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 1:
        return f"{minutes}m"
    days, hours = divmod(hours, 24)
    if days < 1:
        return f"{hours}h{minutes:02}m"
    return f"{days}d{hours:02}h" if days < 100 else f"{days}d"


def _clock(value: timedelta) -> str:
    minutes, seconds = divmod(max(0, int(value.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _cutter(moment: Moment) -> Callable[[Line, int], Line]:
    mark = "\u2026" if moment.unicode else "."

    def cut(line: Line, width: int) -> Line:
        """No wider than `width`, without spaces at its end."""
        kept: list[Span] = []
        room = max(0, width)
        for span in line:
            text = span.text if moment.unicode else span.text.replace("\u2026", ".")
            if cell_len(text) > room:
                text = set_cell_size(text, room - 1) + mark if room else ""
            room -= cell_len(text)
            kept.append(Span(text, span.tone))
        while kept and not kept[-1].text.strip():
            kept.pop()
        if kept:
            kept[-1] = Span(kept[-1].text.rstrip(), kept[-1].tone)
        return tuple(kept)

    return cut

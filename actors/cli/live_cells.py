"""The pieces of the live view's lines: toned text, cut to a width, and the columns of a node.

Pure.  A width is a number of cells, of which some characters take two.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum, auto

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from cluster_reconciler.actors.cli.words import one_line
from cluster_reconciler.actors.status import NodeStatus
from cluster_reconciler.messages import NodeIntent, NodeStage

NODE_MAX = 32
"""A longer node id is cut."""
WAITS_MIN = 14
"""Columns are dropped until what a node waits for has so much room."""


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


def at_rest(node: NodeStatus) -> bool:
    """Nothing is to be done about it, and nothing is wrong with it."""
    return node.ready and node.desired and node.last_error is None


class Column(Struct, frozen=True, gc=False):
    """One thing that is said of every node, in a place of its own."""

    name: str
    width: int
    text: Callable[[NodeStatus, datetime], str]
    right: bool = False


def columns_for(nodes: Sequence[NodeStatus], width: int) -> list[Column]:
    """Those that there is room for; the age goes first, what a node waits for last."""
    longest = max(cell_len(one_line(str(node.node))) for node in nodes)
    columns = [
        Column("NODE", max(4, min(NODE_MAX, longest)), lambda node, _: one_line(node.node)),
        Column("STAGE", 17, lambda node, _: _stage(node)),
        Column("ATTEMPT", 7, _attempt, right=True),
        Column("AGE", 6, _age, right=True),
        Column("UNTIL", 6, _until, right=True),
    ]
    for name in ("AGE", "ATTEMPT", "UNTIL"):
        if _width(columns) + WAITS_MIN < width:
            break
        columns = [column for column in columns if column.name != name]
    rest = width - 1 - _width(columns)
    if rest >= WAITS_MIN // 2:
        columns.append(Column("WAITS FOR", rest, lambda node, _: one_line(node.waits_for or "")))
    return columns


def _width(columns: Sequence[Column]) -> int:
    return sum(2 + column.width for column in columns) + 2


def heading(columns: Sequence[Column]) -> Line:
    """The names of the columns."""
    return (Span(_row([(column, column.name) for column in columns]), Tone.DIM),)


def node_line(node: NodeStatus, columns: Sequence[Column], now: datetime) -> Line:
    """A node at a moment."""
    cells = [(column, column.text(node, now)) for column in columns]
    return (
        Span(_row(cells[:1]) + "  "),
        Span(_padded(*cells[1]), _tone(node)),
        Span("".join("  " + _padded(*cell) for cell in cells[2:]), Tone.PLAIN),
    )


def error_line(node: NodeStatus) -> Line:
    """Its last error, below it, and of which attempt it was unless of the present one."""
    which = ""
    if node.last_error_attempt is not None and node.last_error_attempt != node.attempt:
        which = f"attempt {node.last_error_attempt}: "
    return (Span(f"    {which}{one_line(node.last_error or '')}", Tone.BAD),)


def _row(cells: Sequence[tuple[Column, str]]) -> str:
    return "  " + "  ".join(_padded(column, text) for column, text in cells)


def _padded(column: Column, text: str) -> str:
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
    return "-" if node.started_at is None else span_text(now - node.started_at)


def _until(node: NodeStatus, now: datetime) -> str:
    return "" if node.waits_for is None or node.until is None else span_text(node.until - now)


def span_text(value: timedelta) -> str:
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


def clock_text(value: timedelta) -> str:
    """`0:05`, `1:02:05`."""
    minutes, seconds = divmod(max(0, int(value.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def cut(line: Line, width: int, *, unicode: bool) -> Line:
    """No wider than `width`, without spaces at its end."""
    mark = "\u2026" if unicode else "."
    kept: list[Span] = []
    room = max(0, width)
    for span in line:
        text = span.text if unicode else span.text.replace("\u2026", mark)
        if cell_len(text) > room:
            text = set_cell_size(text, room - 1) + mark if room else ""
        room -= cell_len(text)
        kept.append(Span(text, span.tone))
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        kept[-1] = Span(kept[-1].text.rstrip(), kept[-1].tone)
    return tuple(kept)

"""The pieces of the live view's lines: toned text, cut to a width, and the columns of a node.

Pure.  A width is a number of cells, of which some characters take two.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum, auto

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from cluster_reconciler.actors.cli.words import one_line
from cluster_reconciler.actors.status import NodeStatus, state_of

NODE_MAX = 32
"""A longer node id is cut at its start: its number tells it from its neighbours."""
WAITS_MIN = 26
"""Columns are dropped until what a node waits for has so much room: then it can be read."""
MERGED_BELOW = 14
"""With less room than that for it, one column says the stage or the wait."""


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
    keeps_end: bool = False
    """Cut at its start."""

    @property
    def gap(self) -> int:
        """Before it: what stands at the right has room before it anyhow."""
        return 1 if self.right else 2


def columns_for(nodes: Sequence[NodeStatus], width: int) -> list[Column]:
    """Those that there is room for; the age goes first, then the attempt; never what a node waits
    for and until when."""
    longest = max(cell_len(one_line(str(node.node))) for node in nodes)
    name = Column(
        "NODE", max(4, min(NODE_MAX, longest, width // 4)), lambda node, _: one_line(node.node),
        keeps_end=True,
    )  # fmt: skip
    stage = Column("STAGE", 17, lambda node, _: state_of(node))
    until = Column("UNTIL", 5, _until, right=True)
    attempt = Column("ATTEMPT", 7, _attempt, right=True)
    age = Column("AGE", 5, _age, right=True)
    for columns in (
        [name, stage, attempt, age, until],
        [name, stage, attempt, until],
        [name, stage, until],
    ):
        if _room_beside(columns, width) >= WAITS_MIN:
            break
    if _room_beside(columns, width) < MERGED_BELOW:
        columns = [name, until]
        rest = max(1, _room_beside(columns, width))
        return [
            *columns,
            Column("STAGE OR WAIT", rest, lambda node, _: _waits(node) or state_of(node)),
        ]
    rest = _room_beside(columns, width)
    return [*columns, Column("WAITS FOR", rest, lambda node, _: _waits(node))]


def _room_beside(columns: Sequence[Column], width: int) -> int:
    """For a further column, in a terminal so wide, whose last cell is left free."""
    return width - 1 - sum(column.gap + column.width for column in columns) - 2


def heading(columns: Sequence[Column]) -> Line:
    """The names of the columns."""
    names = (" " * column.gap + _padded(column, column.name) for column in columns)
    return (Span("".join(names), Tone.DIM),)


def node_line(node: NodeStatus, columns: Sequence[Column], now: datetime) -> Line:
    """A node at a moment."""
    return tuple(
        Span(
            " " * column.gap + _padded(column, column.text(node, now)),
            _tone(node) if column.name.startswith("STAGE") else Tone.PLAIN,
        )
        for column in columns
    )


def error_line(node: NodeStatus) -> Line:
    """Its last error, below it, and of which attempt it was unless of the present one."""
    which = ""
    if node.last_error_attempt is not None and node.last_error_attempt != node.attempt:
        which = f"attempt {node.last_error_attempt}: "
    return (Span(f"    {which}{one_line(node.last_error or '')}", Tone.BAD),)


def _padded(column: Column, text: str) -> str:
    if cell_len(text) > column.width:
        if column.keeps_end:
            return "\u2026" + set_cell_size(text[::-1], column.width - 1)[::-1]
        return set_cell_size(text, column.width - 1) + "\u2026"
    padding = " " * (column.width - cell_len(text))
    return padding + text if column.right else text + padding


# -- cells ----------------------------------------------------------------------------------------


def _tone(node: NodeStatus) -> Tone:
    if node.last_error is not None and node.desired:
        return Tone.BAD
    return Tone.GOOD if at_rest(node) else Tone.BUSY


def _waits(node: NodeStatus) -> str:
    """Without the words that do not tell one wait from another."""
    text = one_line(node.waits_for or "")
    for word in ("the ", "its "):
        text = text.removeprefix(word)
    return text.replace("(bootstrap: ", "(")


def _attempt(node: NodeStatus, now: datetime) -> str:
    del now  # An attempt has its number for good.
    return "-" if node.attempt is None else str(node.attempt)


def _age(node: NodeStatus, now: datetime) -> str:
    return "-" if node.started_at is None else span_text(now - node.started_at)


def _until(node: NodeStatus, now: datetime) -> str:
    return "" if node.waits_for is None or node.until is None else span_text(node.until - now)


def span_text(value: timedelta) -> str:
    """At most five cells; the longer it is, the less often it changes."""
    seconds = max(0, int(value.total_seconds()))
    if seconds < 100:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 1:
        return f"{minutes}m"
    if hours < 10:
        return f"{hours}h{minutes:02}m"
    return f"{hours}h" if hours < 100 else f"{hours // 24}d"


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

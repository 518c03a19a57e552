"""Entries of a trace as lines for people: one for a message, below it what a pass did.

Pure text from entries.  Everything that came from outside is made harmless for a terminal here.
"""

from collections import Counter
from datetime import date, timedelta

from cluster_reconciler.actors import mailbox_words
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.trace_reading import OF_OPERATIONS, Change, Entry
from cluster_reconciler.actors.cli.words import counted, one_line
from cluster_reconciler.actors.trace import TraceHeader
from cluster_reconciler.messages import ClusterShape, OperationKind

NODE_WIDTH_MAX = 24
REFUSAL_LENGTH_MAX = 100
"""It repeats what lines before it say; --json has all of it."""

_RED, _GREEN, _YELLOW, _DIM = "31", "32", "33", "2"
_COLOURS = {
    "failed": _RED,
    "warning": _RED,
    "expired": _RED,
    "retry": _YELLOW,
    "refused": _YELLOW,
    "withdrawn": _YELLOW,
    "ready": _GREEN,
    "converged": _GREEN,
}
_CLUSTER = frozenset({"generation", "converged", "diverged"})

_PASS = {
    "inserted": "inserted",
    "dispatched": "dispatched",
    "deleting": "turned to deleting",
    "destroyed": "destroyed",
    "restarted": "restarted",
    "reaped": "reaped",
    "expired": "expired",
    "withdrawn": "withdrawn",
    "failed": "failed",
    "retry": "to be tried again",
    "refused": "stale",
}
"""What a pass did, in the order of these words; what else there is follows from these."""


def header_lines(header: TraceHeader) -> list[str]:
    """Which run this is, and what wrote it."""
    shape, versions = header.shape, dict(header.versions)
    program = versions.pop("cluster-reconciler", "unknown")
    others = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    first = f"; attempts from {header.first_attempt} on" if header.first_attempt != 1 else ""
    began = header.started_at.astimezone()
    return [
        f"run {shape.run_id}, generation {shape.generation}: {_size(shape)}{first}",
        f"began {began:%Y-%m-%d %H:%M:%S %z}, seed {header.seed}",
        one_line(f"written by cluster-reconciler {program} ({others})"),
    ]


def _size(shape: ClusterShape) -> str:
    nodes = sum(group.count for group in shape.groups)
    return f"{counted(nodes, 'node')} in {counted(len(shape.groups), 'group')}"


class TraceWords:
    """Lines that stand under one another; it knows the day that the latest one was of."""

    def __init__(self, shape: ClusterShape, *, colour: bool) -> None:
        self._colour = colour
        longest = max(
            (len(group.group_id) + len(str(max(group.count - 1, 0))) for group in shape.groups),
            default=0,
        )
        self._width = min(max(longest + 1, len("cluster")), NODE_WIDTH_MAX)
        self._day: date | None = None

    def lines(self, entry: Entry) -> list[str]:
        """The message, and below it what it led to; first the day, where another one begins."""
        at = entry.at.astimezone()
        lines = []
        if at.date() != self._day:
            self._day = at.date()
            lines.append(self._styled(f"-- {self._day} --", _DIM))
        time = self._styled(f"{at:%H:%M:%S}.{at.microsecond // 1000:03}", _DIM)
        inline = [c for c in entry.changes if _is_inline(entry, c)]
        below: dict[tuple[str | None, int | None], list[Change]] = {}
        for change in entry.changes:
            if change not in inline:
                below.setdefault((change.node, change.attempt), []).append(change)
        if len(below) == 1 and not inline and entry.node is None:
            [(who, changes)] = below.items()
            lines.append(f"{time} {self._who(*who)} {_brief(entry)}: {self._told(changes)}")
            return lines
        said = _said(entry, [c.what for c in entry.changes])
        if inline:
            said += f" -> {self._told([c for c in inline if not _is_said(entry, c)])}"
        if entry.refused is not None:
            said += self._styled(
                f" [refused, {mailbox_words.one_line(entry.refused, REFUSAL_LENGTH_MAX)}]", _YELLOW
            )
        lines.append(f"{time} {self._who(entry.node, entry.attempt)} {said.removesuffix(' -> ')}")
        indent = " " * len("HH:MM:SS.mmm")
        for who, changes in below.items():
            lines.append(f"{indent} {self._who(*who)}   {self._told(changes)}")
        return lines

    def _told(self, changes: list[Change]) -> str:
        return " -> ".join(
            self._styled(one_line(_change_words(c)), _COLOURS.get(c.what)) for c in changes
        )

    def _who(self, node: str | None, attempt: int | None) -> str:
        name = one_line(node) if node is not None else "cluster"
        number = "-" if attempt is None else str(attempt)
        return f"{name:<{self._width}} {number:>4}"

    def _styled(self, text: str, code: str | None) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour and code is not None else text


def _is_inline(entry: Entry, change: Change) -> bool:
    """Whether it fits behind its message: it is about the same, and there is little of it."""
    if change.what in _CLUSTER:
        return entry.node is None
    return entry.node is not None and change.node == entry.node and change.what not in OF_OPERATIONS


def _is_said(entry: Entry, change: Change) -> bool:
    """Whether the message says it in the same words."""
    return change.what == "stage" and change.text in entry.text


def _brief(entry: Entry) -> str:
    """In front of the one thing that it led to."""
    return {"RunPass": "pass", "DeadlineDue": "deadline"}.get(entry.message, _said(entry, []))


def _said(entry: Entry, led_to: list[str]) -> str:
    """What the message says, in the words of this log."""
    text = one_line(entry.text)
    if entry.operation is not None:
        return f"{_operation(entry.operation, entry.kind)} {_result(entry, text)}"
    match entry.message:
        case "RunPass":
            counts = Counter(led_to)
            did = [f"{counts[what]} {word}" for what, word in _PASS.items() if counts[what]]
            return f"pass: {', '.join(did) or 'nothing changed'}"
        case "DeadlineDue":
            return f"deadline: {counted(led_to.count('expired'), 'operation')} expired"
        case "UpdateDesired":
            return f"shape offered: {text}"
        case "Drain":
            return "drain asked for"
        case "UpdateRetry":
            return "another retry policy is in force"
        case "NodeObserved":
            return text
        case _:
            return f"{one_line(entry.message)}{': ' if text else ''}{text}"


def _result(entry: Entry, text: str) -> str:
    took = "" if entry.seconds is None else f" after {took_words(entry.seconds)}"
    if entry.ok:
        return f"ok{took}: {text}"
    head, colon, reason = text.partition(": ")
    return f"{head}{took}{colon}{reason}"


def _operation(operation: str, kind: OperationKind | None) -> str:
    return f"{operation} {kind}" if kind is not None else operation


def _change_words(change: Change) -> str:
    if change.operation is None or change.what not in OF_OPERATIONS:
        return change.text
    took = f" after {took_words(change.seconds)}" if change.seconds is not None else ""
    more = f" ({change.text})" if change.text else ""
    return f"{_operation(change.operation, change.kind)} {change.what}{took}{more}"


def took_words(seconds: float) -> str:
    """`<1 ms`, `340 ms`, `1.24 s`, `59.9 s`, `2m5s`."""
    if seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    return format_duration(timedelta(seconds=seconds))

"""What programs read from `trace --json`: the first line of the stream, and the summary.

Their shape is a promise: fields are added, none is renamed or removed.  Times of day are RFC 3339,
spans are seconds.  The other lines of the stream are `trace_reading.Entry`.
"""

from datetime import datetime

from msgspec import Struct

from cluster_reconciler.messages import RunId


class HeaderEntry(Struct, frozen=True, tag="header", tag_field="type"):
    """What the run began with: with `--json` the first line, and again if the file begins anew."""

    run_id: RunId
    generation: int
    groups: int
    nodes: int
    seed: int
    started_at: datetime
    first_attempt: int
    format: int
    versions: dict[str, str]


class NodeSummary(Struct, frozen=True, gc=False):
    """One node over the whole trace."""

    node: str
    provider: str
    attempts: int
    attempt: int
    """The latest."""
    phase: str
    """Where it is at the end: a stage, `ready`, `deleting`, or `gone`."""
    failures: int
    """Attempts that failed."""
    retries: int
    """Effects that failed and were to be tried again."""


class PhaseSummary(Struct, frozen=True, gc=False):
    """The time that attempts spent in one stage, or `ready`, or `deleting`.  A stay that goes on
    counts up to the last message."""

    phase: str
    stays: int
    mean_seconds: float
    longest_seconds: float
    longest_node: str
    longest_attempt: int
    going_on: int
    """How many are in it at the end."""
    group: str | None = None
    """None: of all groups together."""


class ReasonSummary(Struct, frozen=True, gc=False):
    """Failures whose reasons begin alike: numbers, and what a node printed last, do not count."""

    what: str
    """`failed`: the attempt was over; `retry`: the effect was to be tried again."""
    reason: str
    """In the words of the first one; `…` at its end: it is longer."""
    count: int
    node: str
    """Of the latest one."""
    attempt: int


class OperationsSummary(Struct, frozen=True, gc=False):
    """All operations of one kind at one provider that ended."""

    provider: str
    kind: str
    count: int
    failed: int
    expired: int
    mean_seconds: float
    longest_seconds: float


class SlowOperation(Struct, frozen=True, gc=False):
    """One of the slowest of its provider."""

    provider: str
    seconds: float
    operation: str
    kind: str
    node: str
    attempt: int
    result: str
    """`ok`, `failed`, `expired`, `withdrawn`, or `in flight` at the end."""


class GroupSummary(Struct, frozen=True, gc=False):
    """All nodes of one group over the whole trace."""

    group: str
    nodes: int
    attempts: int
    failures: int
    retries: int
    slowest: SlowOperation | None
    """None: no operation of it was dispatched."""


class TraceSummary(Struct, frozen=True, tag="summary", tag_field="type"):
    """The one document of `trace --summary --json`.  Times in seconds."""

    file: str
    exit_code: int = 0
    error: str | None = None
    """Why there is nothing else here: the file is no trace that can be read."""
    run_id: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    """The time of the last message."""
    messages: dict[str, int] = {}
    """How many there were of each type."""
    refused: int = 0
    nodes: tuple[NodeSummary, ...] = ()
    groups: tuple[GroupSummary, ...] = ()
    """In the order of their names."""
    phases: tuple[PhaseSummary, ...] = ()
    group_phases: tuple[PhaseSummary, ...] = ()
    """The same for each group, in the order of their names."""
    reasons: tuple[ReasonSummary, ...] = ()
    """The most frequent first."""
    operations: tuple[OperationsSummary, ...] = ()
    slowest: tuple[SlowOperation, ...] = ()
    """By provider, the slowest first, at most 10 of each."""

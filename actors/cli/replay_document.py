"""What programs read from `replay --json`: one document.

Its shape is a promise: fields are added, none is renamed or removed.  Times of day are RFC 3339,
spans are seconds.  Of a node it shows what a log shows: no spec, no environment, no secret.
"""

from datetime import datetime

from msgspec import Struct

from cluster_reconciler.actors.cli.trace_reading import Entry
from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import OperationKind


class ReplayedNode(Struct, frozen=True, gc=False):
    """One node of a replayed state."""

    node: str
    group: str
    provider: str
    attempt: int
    intent: str
    """`active` or `deleting`."""
    stage: str
    ready: bool
    pending: str | None
    """The operation under way, such as `op(3,1)`."""
    pending_kind: OperationKind | None
    adopt_only: bool
    """That operation only looks for what there is."""
    deadline: datetime | None
    """That operation's."""
    next_operation: int
    """The sequence that the next operation of the attempt gets."""
    failures: int
    """In a row."""
    next_effect_at: datetime | None
    """Nothing is dispatched for it before."""
    restart_at: datetime | None
    """It is not replaced before."""
    waits_for: str | None
    """`endpoint` or `join`: the progress that it may wait for until `wait_deadline`."""
    wait_deadline: datetime | None
    ambiguous: str | None
    """The operation of which nobody knows whether it had its effect."""
    lease_id: str | None
    session: int | None
    """The bootstrap session that can be addressed now."""
    swactor_id: str | None
    started_at: datetime | None
    ready_at: datetime | None
    failed_at: datetime | None
    deleting_since: datetime | None
    last_error: str | None
    """Why the latest failure that counted was one."""


class ReplayedState(Struct, frozen=True, gc=False):
    """All that the driver knew after one message."""

    sequence: int
    """Of that message; 0: before any."""
    at: datetime
    run_id: int
    generation: int
    """Of the shape that is asked for."""
    observed_generation: int
    """The latest that a pass has evaluated."""
    next_attempt: int
    """The number that the next attempt gets."""
    nodes: tuple[ReplayedNode, ...]
    """By name; with --node that one alone."""


class ReplayDifference(Struct, frozen=True, gc=False):
    """The first message that the replay handles otherwise than the run did."""

    line: int
    """In the file, the header being line 1."""
    sequence: int
    at: datetime
    message: str
    """Its type."""
    reason: str
    node: str | None
    """The node that differs; null: it is not one node's."""
    field: str
    """What of it differs, such as `retry.restart_at` or `plan.requeue_at`."""
    expected: str
    """What the run had; empty: the log keeps only a checksum of it."""
    found: str
    """What the replay has."""


class ReplayReport(Struct, frozen=True, tag="replay", tag_field="type"):
    """The one document of `replay --json`."""

    file: str
    exit_code: int
    equal: bool
    """Every message that was replayed is equal, and the file is as it was written."""
    error: str | None = None
    """Why nothing, or no more, was replayed: the file is no log that can be read."""
    run_id: int | None = None
    seed: int | None = None
    format: int | None = None
    versions: dict[str, str] = {}
    """What the log was written by."""
    messages: int = 0
    """How many were replayed, the one that differs included."""
    compared: int = 0
    """How many states were compared."""
    passes: int = 0
    plans_compared: int = 0
    effects: int = 0
    """How many were submitted, in the replay."""
    effects_compared: int = 0
    defects: int = 0
    """Messages whose handling raised, in the run and in the replay alike."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    """The time of the last message that was replayed."""
    nodes: int = 0
    """At the end."""
    ready: int = 0
    difference: ReplayDifference | None = None
    altered_line: int | None = None
    """The first line that is not as it was written, by its checksum."""
    torn: str | None = None
    """The last line is broken off: what came before it was replayed."""
    advice: str | None = None
    """What to do, where it is not equal."""
    until: int | None = None
    """As it was asked for."""
    state: ReplayedState | None = None
    """With --state."""
    before: tuple[Entry, ...] = ()
    """Where it differs: the latest messages that led to anything, the one that differs last."""
    story: tuple[Entry, ...] = ()
    """Of the node of --node, or of the one that differs: the messages that concern it."""


def replayed_node(name: str, node: ManagedNode) -> ReplayedNode:
    """What of a node is shown."""
    record, pending, retry, progress = node.record, node.pending, node.retry, node.progress
    ambiguous = retry.ambiguous_operation
    return ReplayedNode(
        node=name,
        group=record.group_id,
        provider=record.desired.provider,
        attempt=node.attempt,
        intent=node.intent.value,
        stage=record.stage.value,
        ready=record.ready,
        pending=None if pending is None else str(pending.id),
        pending_kind=None if pending is None else pending.kind,
        adopt_only=pending is not None and pending.adopt_only,
        deadline=None if pending is None else pending.deadline,
        next_operation=node.next_operation_sequence,
        failures=retry.consecutive_failures,
        next_effect_at=retry.next_effect_at,
        restart_at=retry.restart_at,
        waits_for=None if progress is None else progress.wait.value,
        wait_deadline=None if progress is None else progress.deadline,
        ambiguous=None if ambiguous is None else str(ambiguous),
        lease_id=None if record.lease is None else record.lease.lease_id,
        session=node.active_bootstrap,
        swactor_id=None if record.swactor is None else record.swactor.swactor_id,
        started_at=node.started_at,
        ready_at=node.ready_at,
        failed_at=record.failed_at,
        deleting_since=node.deleting_since,
        last_error=retry.last_error,
    )

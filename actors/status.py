"""Typed snapshots of a cluster for people and programs (design §5, §6; cases F7, F27).

Made from a state, a shape and `now` alone, but for what providers say of their nodes.  Every
waiting node says what it waits for and until when; the counts add up to the shape.
"""

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from time import monotonic

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.mailbox_words import one_line
from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    ManagedNode,
    ProgressWait,
    ReconcilePlan,
)
from cluster_reconciler.decider.convergence import is_converged
from cluster_reconciler.decider.node import is_steady, row_of
from cluster_reconciler.executors.checked_provider import said
from cluster_reconciler.executors.provider import DescribesNodes, Provider
from cluster_reconciler.executors.wrong_values import kind_of
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    NodeIntent,
    NodeStage,
    OperationKind,
    ProviderKind,
    RunId,
)

DETAILS_MAX = 32
"""Of one node, so many details are shown."""

DETAILS_LIMIT = timedelta(seconds=3)
"""So long providers are asked for the details of all nodes, and no longer."""
UNANSWERED_MAX = 4
"""So many threads may be stuck in one provider's answer: a status that is read for ever, of a
provider that never answers, must not cost a thread each time."""


class FailureNote(Struct, frozen=True, gc=False):
    """A failure that was counted: what happened, when, to which attempt."""

    at: datetime
    attempt: NodeAttemptId
    reason: str


class NodeStatus(Struct, frozen=True, gc=False):
    """One node as it is now."""

    node: LogicalNodeId
    group: NodeGroupId
    provider: ProviderKind
    desired: bool
    attempt: NodeAttemptId | None
    """None: wanted, and not inserted yet."""
    stage: NodeStage
    intent: NodeIntent
    ready: bool
    waits_for: str | None
    """None: nothing, the node is as it should be or its next step is due at once."""
    until: datetime | None
    """When that wait ends at the latest; of a wait that others end, when it is judged again."""
    started_at: datetime | None
    """When the attempt began."""
    lease_id: str | None
    session_id: int | None
    consecutive_failures: int
    last_error: str | None
    """Current: only while the node fails."""
    last_failure: FailureNote | None
    """History: the latest failure of this slot, also when it is long over."""
    last_error_attempt: NodeAttemptId | None = None
    """The attempt that the last error is of: it may be an earlier one."""
    details: dict[str, str] = {}
    """What its provider says of it: where its logs are, which its processes are."""


class StatusCounts(Struct, frozen=True, gc=False):
    """`wanted` is the sum of ready, starting, replacing, backing_off and missing."""

    wanted: int
    ready: int
    starting: int
    """On the way to ready."""
    replacing: int
    """Wanted, but the present attempt is being cleaned up."""
    backing_off: int
    """Wanted, destroyed, waiting for its restart deadline."""
    missing: int
    """Wanted, and not inserted yet."""
    leaving: int
    """Not wanted, and not gone yet."""


_Wait = tuple[str | None, datetime | None]
"""What a node waits for, and until when at the latest."""


class ClusterStatus(Struct, frozen=True, gc=False):
    """The whole cluster at one moment."""

    at: datetime
    run_id: RunId
    generation: int
    observed_generation: int
    """The latest generation that was looked at: an acknowledgment, not readiness."""
    converged: bool
    counts: StatusCounts
    nodes: tuple[NodeStatus, ...]
    """In the order of node ids, counted nodes of a group in number order."""
    requeue_at: datetime | None
    warnings: tuple[str, ...] = ()
    """What a person should know and no node shows: a failed pass, a disagreement, leftovers."""


def state_of(node: NodeStatus) -> str:
    """The one word for how a node stands, wherever people read it; `stage` is for programs."""
    if node.attempt is None:
        return "missing"
    if node.stage is NodeStage.DESTROYED:
        return "backing off" if node.desired else "gone"
    if node.intent is NodeIntent.DELETING:
        return "deleting"
    return "ready" if node.ready else node.stage.replace("_", " ")


_OPERATIONS = {
    OperationKind.CREATE_LEASE: "its lease",
    OperationKind.LOOKUP_ENDPOINT: "the look-up of its endpoint",
    OperationKind.START_BOOTSTRAP: "the start of its bootstrap",
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED: "its hand-over",
    OperationKind.CANCEL_BOOTSTRAP: "the cancel of its bootstrap",
    OperationKind.DESTROY_LEASE: "the destroy of its lease",
}


def cluster_status(
    state: ClusterState,
    desired: ExpandedShape,
    now: datetime,
    *,
    plan: ReconcilePlan | None = None,
    failures: Mapping[LogicalNodeId, FailureNote] | None = None,
    requeue_at: datetime | None = None,
    warnings: tuple[str, ...] = (),
) -> ClusterStatus:
    """A snapshot; costs one walk over the nodes.

    `plan`: the latest pass's, for who waits for a place under a limit, and whether it had no
    attempt id left.  `requeue_at`: when the driver looks again.
    """
    held = frozenset(plan.held_back if plan is not None else ())
    exhausted = plan is not None and plan.allocator_exhausted
    notes = failures or {}

    def status_of(node_id: LogicalNodeId) -> NodeStatus:
        node, spec, note = state.nodes.get(node_id), desired.nodes.get(node_id), notes.get(node_id)
        if node is None:
            assert spec is not None, f"{node_id} is neither observed nor desired"
            return _missing(spec, note, now, exhausted)
        if node_id in held:
            wait: _Wait = "its turn under its provider's limit", requeue_at
        else:
            wait = _wait(node, spec, now, exhausted)
        return _node_status(node_id, node, spec, wait, note)

    ids = sorted(state.nodes.keys() | desired.nodes.keys(), key=_natural)
    nodes = tuple(status_of(node_id) for node_id in ids)
    return ClusterStatus(
        at=now,
        run_id=desired.shape.run_id,
        generation=desired.shape.generation,
        observed_generation=state.observed_generation,
        converged=is_converged(state, desired),
        counts=_counts(nodes),
        nodes=nodes,
        requeue_at=requeue_at,
        warnings=warnings,
    )


def _natural(node_id: LogicalNodeId) -> tuple[str, int, str]:
    """People expect g-2 before g-10."""
    group, _, index = node_id.rpartition("-")
    return (group, int(index) if index.isdecimal() else 0, node_id)


_NO_ATTEMPT_ID: _Wait = "an attempt id, and this run has used up all of them", None


def _missing(
    spec: LogicalNodeSpec, failure: FailureNote | None, now: datetime, exhausted: bool
) -> NodeStatus:
    """A node that is wanted and not inserted."""
    waits_for, until = _NO_ATTEMPT_ID if exhausted else ("the next pass", now)
    return NodeStatus(
        spec.logical_node_id, spec.group_id, spec.provider, True, None, NodeStage.NEW,
        NodeIntent.ACTIVE, False, waits_for, until, None, None, None, 0, None, failure,
    )  # fmt: skip


def _node_status(
    node_id: LogicalNodeId,
    node: ManagedNode,
    spec: LogicalNodeSpec | None,
    wait: _Wait,
    failure: FailureNote | None,
) -> NodeStatus:
    record = node.record
    waits_for, until = wait
    return NodeStatus(
        node=node_id,
        group=record.group_id,
        provider=record.desired.provider,
        desired=spec is not None,
        attempt=node.attempt,
        stage=record.stage,
        intent=node.intent,
        ready=record.ready,
        waits_for=waits_for,
        until=until,
        started_at=node.started_at,
        lease_id=record.lease.lease_id if record.lease is not None else None,
        session_id=node.active_bootstrap,
        consecutive_failures=node.retry.consecutive_failures,
        last_error=node.retry.last_error,
        last_failure=failure,
        last_error_attempt=node.retry.last_error_attempt,
    )


def _wait(node: ManagedNode, spec: LogicalNodeSpec | None, now: datetime, exhausted: bool) -> _Wait:
    if spec is not None and is_steady(node, spec):
        return None, None  # As the table would answer, and most nodes are so most of the time.
    record, row = node.record, row_of(node, spec, now)
    until = row.decide(node, spec, now).requeue_at
    match row.name:
        case "pending":
            assert node.pending is not None, f"{record.logical_node_id}: nothing is pending"
            what = _OPERATIONS[node.pending.kind]
            return f"{what}, {node.pending.id}" + (" (adopt only)" * node.pending.adopt_only), until
        case "restart" if exhausted:
            return _NO_ATTEMPT_ID
        case "await restart":
            return "its restart after a failure", until
        case "cleanup backoff":
            return "the next try of its cleanup", until
        case "await join":
            stage = record.bootstrap.last_stage if record.bootstrap is not None else None
            at = f" (bootstrap: {stage.replace('_', ' ')})" if stage is not None else ""
            return f"the node to join the swarm{at}", until
        case "backoff":
            probing = node.progress is not None and node.progress.wait is ProgressWait.ENDPOINT
            what = "the next look for its endpoint" if probing else "the next try"
            return what, until
        case _:
            return None, None


def described(
    status: ClusterStatus, providers: Iterable[Provider], limit: timedelta = DETAILS_LIMIT
) -> tuple[NodeStatus, ...]:
    """The nodes, with what those providers say of them that can; not for the driver's thread.

    Each provider is asked on a thread of its own: one that does not answer within `limit` costs
    the details of its nodes that it has not told of yet, and nobody else's.
    """
    able = {p.kind: p for p in providers if isinstance(p, DescribesNodes)}
    found: dict[LogicalNodeId, dict[str, str]] = {}
    over, asking = threading.Event(), []
    untold: dict[ProviderKind, str] = {}
    for kind, provider in able.items():
        name = f"describe-{status.run_id}-{kind}"
        if sum(thread.name == name for thread in threading.enumerate()) >= UNANSWERED_MAX:
            untold[kind] = f"not asked: {UNANSWERED_MAX} earlier questions are unanswered"
            continue
        untold[kind] = f"not told within {limit.total_seconds():g} s"
        nodes = [n for n in status.nodes if n.provider == kind and n.attempt is not None]
        work = partial(_ask_all, status.run_id, nodes, provider, found, over)
        asking.append(threading.Thread(target=work, name=name, daemon=True))
        asking[-1].start()
    deadline = monotonic() + limit.total_seconds()
    for thread in asking:
        thread.join(max(0.0, deadline - monotonic()))
    over.set()
    return tuple(
        replace(node, details=found.get(node.node, {"details": untold[node.provider]}))
        if node.provider in able and node.attempt is not None
        else node
        for node in status.nodes
    )


def _ask_all(
    run_id: RunId,
    nodes: Iterable[NodeStatus],
    provider: DescribesNodes,
    found: dict[LogicalNodeId, dict[str, str]],
    over: threading.Event,
) -> None:
    for node in nodes:
        if over.is_set():
            return
        assert node.attempt is not None, f"{node.node}: nothing is to be described"
        found[node.node] = _details(AttemptIdentity(run_id, node.node, node.attempt), provider)


def _details(identity: AttemptIdentity, provider: DescribesNodes) -> dict[str, str]:
    try:
        found = _described(provider.describe_node(identity))
    except BaseException as error:  # noqa: BLE001 - a status must not fail for it
        found = {"details": f"cannot be told: {said(error)}"}
    details = {one_line(name): one_line(text) for name, text in found.items()}
    return dict(islice(details.items(), DETAILS_MAX))


def _described(answer: object) -> dict[str, str]:
    try:
        return msgspec.convert(answer, dict[str, str])
    except msgspec.ValidationError:
        is_dict = isinstance(answer, dict)
        what = "a dict with a key or value that is no str" if is_dict else kind_of(answer)
        return {"details": f"cannot be told: expected dict[str, str]: found {what}"}


def _counts(nodes: tuple[NodeStatus, ...]) -> StatusCounts:
    places = [_place(node) for node in nodes]
    counted = {name: places.count(name) for name in StatusCounts.__struct_fields__}
    counted["wanted"] = sum(node.desired for node in nodes)
    return StatusCounts(**counted)


def _place(node: NodeStatus) -> str:
    """The one count that the node is part of."""
    if not node.desired:
        return "leaving"
    if node.attempt is None:
        return "missing"
    if node.stage is NodeStage.DESTROYED:
        return "backing_off"
    if node.intent is NodeIntent.DELETING:
        return "replacing"
    return "ready" if node.ready else "starting"

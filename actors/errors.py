"""What an embedding host may catch (design §5).  Every message says what is missing and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from cluster_reconciler.actors.status import ClusterStatus, NodeStatus, state_of
from cluster_reconciler.decider import ClusterState, ManagedNode
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    OperationId,
    OperationKind,
    ProviderKind,
)

NAMED_MAX = 20
"""So many nodes are named in one error; the rest are counted."""


class LeftLease(Struct, frozen=True, gc=False):
    """A lease that exists, or may."""

    node: LogicalNodeId
    attempt: NodeAttemptId
    provider: ProviderKind
    lease_id: str | None
    """None: not known, since the create has no known outcome."""
    identity: str
    """What the provider's own name for it is derived from."""
    certain: bool
    """False: it may exist."""
    detail: str

    def __str__(self) -> str:
        lease = f"lease {self.lease_id}" if self.lease_id is not None else "a lease"
        certainty = "" if self.certain else " may exist"
        return f"{self.provider}: {lease} of {self.identity}{certainty} ({self.detail})"


class ClusterError(Exception):
    """The base of what this package raises to its host."""


class RunLocked(ClusterError):
    """Another process drives this run already."""


class StartFailed(ClusterError):
    """A provider could not say which leases of this run exist, so that no attempt id is safe."""


class ClusterClosed(ClusterError):
    """The cluster was closed, before or while it was asked."""

    def __init__(self) -> None:
        super().__init__("the cluster is closed: start another one")


class DriverDied(ClusterError):
    """The driver is gone: nobody keeps the cluster any more.  `left` may still run."""

    def __init__(self, reason: str, left: Sequence[LeftLease] = ()) -> None:
        super().__init__(_with_left(f"the driver died: {reason}", left))
        self.left = tuple(left)


class NotConverged(ClusterError):
    """The time is up and some nodes are not as they should be."""

    def __init__(self, status: ClusterStatus) -> None:
        missing = [node for node in status.nodes if not (node.desired and node.ready)]
        counts = status.counts
        summary = (
            f"generation {status.generation} is not converged: {counts.ready} of "
            f"{counts.wanted} nodes are ready, {counts.leaving} are leaving"
        )
        lines = [
            summary,
            *[f"  {_describe(node, status.at)}" for node in missing[:NAMED_MAX]],
            *_and_more(len(missing)),
        ]
        super().__init__("\n".join(lines))
        self.status = status


class DrainIncomplete(ClusterError):
    """The time is up and some leases still exist, or may."""

    def __init__(self, left: Sequence[LeftLease]) -> None:
        super().__init__(_with_left("the drain is not complete", left))
        self.left = tuple(left)


def possibly_left(
    state: ClusterState, unanswered: Mapping[OperationId, timedelta] | None = None
) -> tuple[LeftLease, ...]:
    """Every lease that exists or may exist, by node id.  `unanswered`: how long ago what may still
    be under way was sent."""
    ages = unanswered or {}
    found = (_left_of(node_id, node, ages) for node_id, node in sorted(state.nodes.items()))
    return tuple(lease for lease in found if lease is not None)


def _left_of(
    node_id: LogicalNodeId, node: ManagedNode, ages: Mapping[OperationId, timedelta]
) -> LeftLease | None:
    record = node.record
    creating = node.pending is not None and node.pending.kind is OperationKind.CREATE_LEASE
    if record.lease is None and not creating and node.retry.ambiguous_operation is None:
        return None
    known = [_known_of(node, ages)]
    if node.retry.last_error is not None:
        known.append(f"last error: {node.retry.last_error}")
    return LeftLease(
        node=node_id,
        attempt=node.attempt,
        provider=record.desired.provider,
        lease_id=record.lease.lease_id if record.lease is not None else None,
        identity=str(AttemptIdentity(record.run_id, node_id, node.attempt)),
        certain=record.lease is not None,
        detail="; ".join(known),
    )


def _known_of(node: ManagedNode, ages: Mapping[OperationId, timedelta]) -> str:
    """What was asked for last, and what was not asked for yet."""
    pending, has_lease = node.pending, node.record.lease is not None
    if pending is not None:
        age = ages.get(pending.id)
        so_far = f" for {age.total_seconds():.1f} s" if age is not None else ""
        asked = f"{pending.kind}, {pending.id}, is in flight, unanswered{so_far}"
        if not has_lease or pending.kind is OperationKind.DESTROY_LEASE:
            return asked
        return f"{asked}; its destroy is not asked for yet"
    if not has_lease:
        return f"{node.retry.ambiguous_operation} has no known outcome"
    if node.intent is NodeIntent.DELETING and node.retry.next_effect_at is not None:
        return "its cleanup waits for its next try"
    return f"stage {node.record.stage}; its destroy is not asked for yet"


def _describe(node: NodeStatus, now: datetime) -> str:
    wanted = "" if node.desired else ", not wanted"
    attempt = f"attempt {node.attempt}" if node.attempt is not None else "no attempt yet"
    parts = [f"{node.node}: {state_of(node)} ({attempt}{wanted})"]
    if node.waits_for is not None:
        left = (node.until - now).total_seconds() if node.until is not None else 0.0
        limit = f" for at most {left:.3g} s more" if left > 0 else ""
        parts.append(f", waits for {node.waits_for}{limit}")
    if node.consecutive_failures > 1:
        parts.append(f"; {node.consecutive_failures} failures in a row")
    if node.last_error is not None:
        of = node.last_error_attempt
        earlier = f" (attempt {of})" if of is not None and of != node.attempt else ""
        parts.append(f"; last error{earlier}: {node.last_error}")
    return "".join(parts)


def _and_more(total: int) -> list[str]:
    return [f"  and {total - NAMED_MAX} more"] if total > NAMED_MAX else []


def _with_left(what: str, left: Sequence[LeftLease]) -> str:
    if not left:
        return what
    named = [f"  {lease}" for lease in left[:NAMED_MAX]]
    return "\n".join([f"{what}; still there, or possibly:", *named, *_and_more(len(left))])

"""What the rows of the decision table read and answer; the table itself stands in `node.py`.

A condition answers yes or no about one node; an answer is a `NodeDecision`.  Neither knows of the
order in which the rows are asked.
"""

from datetime import datetime

from cluster_reconciler.decider.plan import (
    UNASSIGNED,
    BeginDelete,
    Dispatch,
    Insert,
    MarkDestroyed,
    NodeDecision,
    Reap,
    Restart,
)
from cluster_reconciler.decider.state import ManagedNode
from cluster_reconciler.messages import (
    BootstrapConvergenceObserved,
    BootstrapSessionSpec,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeIntent,
    NodeManagerCommand,
    NodeStage,
    OperationId,
    PlannedEffect,
    StartBootstrap,
)

ACTIVE = NodeIntent.ACTIVE
DESTROYED = NodeStage.DESTROYED
NOTHING = NodeDecision()

Desired = LogicalNodeSpec | None


def due(deadline: datetime | None, now: datetime) -> bool:
    """Whether a deadline is absent or has come; inclusive."""
    return deadline is None or deadline <= now


def holds_nothing(node: ManagedNode) -> bool:
    """Whether no resource of the attempt is left, known or unseen."""
    return (
        node.record.lease is None
        and node.active_bootstrap is None
        and node.retry.ambiguous_operation is None
    )


def has_failed(node: ManagedNode) -> bool:
    """Whether the attempt is over; a record that was made by hand may say so by its stage alone."""
    return node.record.failed_at is not None or node.record.stage is NodeStage.FAILED


def is_deleting(node: ManagedNode) -> bool:
    """Whether cleanup has begun."""
    return node.intent is not ACTIVE


def cancel_gave_way(node: ManagedNode, now: datetime) -> bool:
    """A machine that no longer answers is not rented for ever: after `cancel_timeout` of failed
    cancels the lease goes, and takes the session with it (design rule 17)."""
    return (
        node.record.lease is not None
        and node.cancel_failures > 0
        and node.cancel_deadline is not None
        and node.cancel_deadline <= now
    )


def next_moment(node: ManagedNode, now: datetime) -> datetime | None:
    """The earliest moment ahead that a row asks for: until then, and while node and spec are the
    same, the table answers the same."""
    retry, earliest = node.retry, None
    for moment in (retry.next_effect_at, retry.restart_at, node.cancel_deadline):
        if moment is not None and moment > now and (earliest is None or moment < earliest):
            earliest = moment
    return earliest


# -- what the rows answer -------------------------------------------------------------------------


def _earliest(*deadlines: datetime | None) -> datetime | None:
    return min((d for d in deadlines if d is not None), default=None)


def _progress_alarm(node: ManagedNode) -> datetime | None:
    """A progress deadline wakes only once a session is known: a node that is held back by a limit
    must not fail for waiting its turn (design rule 12)."""
    if node.progress is None or node.active_bootstrap is None:
        return None
    return node.progress.deadline


def _dispatch(node: ManagedNode, command: NodeManagerCommand) -> NodeDecision:
    operation = OperationId(node.attempt, node.next_operation_sequence)
    effect = PlannedEffect(node.record.logical_node_id, operation, command)
    return NodeDecision(Dispatch(effect), _progress_alarm(node))


def _session_of(node: ManagedNode) -> BootstrapSessionSpec:
    record = node.record
    assert record.lease is not None, f"{record.logical_node_id}: a bootstrap needs a lease"
    assert record.connection is not None, f"{record.logical_node_id}: a bootstrap needs an endpoint"
    return BootstrapSessionSpec(
        run_id=record.run_id,
        logical_node_id=record.logical_node_id,
        lease_id=record.lease.lease_id,
        endpoint=record.connection,
        boot=record.desired.boot,
        swarm_join=record.desired.swarm_join,
    )


def insert(desired: LogicalNodeSpec) -> NodeDecision:
    """A slot that is desired and empty gets its first attempt; `reconcile` allocates its id."""
    return NodeDecision(Insert(UNASSIGNED, desired))


def reap(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """The slot goes."""
    return NodeDecision(Reap(node.record.logical_node_id, node.attempt))


def restart(node: ManagedNode, desired: Desired, _now: datetime) -> NodeDecision:
    """A fresh attempt; `reconcile` allocates its id."""
    assert desired is not None, f"{node.record.logical_node_id}: a restart needs a desired spec"
    return NodeDecision(Restart(node.record.logical_node_id, node.attempt, UNASSIGNED, desired))


def begin_delete(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Turn to cleanup."""
    return NodeDecision(BeginDelete(node.record.logical_node_id, node.attempt))


def mark_destroyed(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Cleanup is complete."""
    return NodeDecision(MarkDestroyed(node.record.logical_node_id, node.attempt))


def wait_restart(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Until the restart deadline."""
    return NodeDecision(None, node.retry.restart_at)


def wait_pending(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """For the result, or the operation's deadline."""
    assert node.pending is not None, f"{node.record.logical_node_id}: nothing is pending"
    return NodeDecision(None, _earliest(node.pending.deadline, _progress_alarm(node)))


def wait_backoff(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Until the retry or probe deadline."""
    return NodeDecision(None, _earliest(node.retry.next_effect_at, _progress_alarm(node)))


def wait_join(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """For the node's own news, or the join deadline."""
    return NodeDecision(None, _progress_alarm(node))


def nothing(_node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Steady."""
    return NOTHING


def create(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Rent; while deleting only look."""
    return _dispatch(node, CreateLease(node.record.desired, adopt_only=is_deleting(node)))


def look_up(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Ask where the machine is reached."""
    assert node.record.lease is not None, f"{node.record.logical_node_id}: a look-up needs a lease"
    return _dispatch(node, LookupEndpoint(node.record.lease))


def start(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """Start the bootstrap; while deleting only look."""
    return _dispatch(node, StartBootstrap(_session_of(node), adopt_only=is_deleting(node)))


def hand_over(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """End the bootstrap of a joined node."""
    swactor, session = node.record.swactor, node.active_bootstrap
    assert swactor is not None, f"{node.record.logical_node_id}: a hand-over needs a join"
    assert session is not None, f"{node.record.logical_node_id}: a hand-over needs a session"
    return _dispatch(node, BootstrapConvergenceObserved(session, swactor.swactor_id))


def cancel(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """End the session."""
    assert node.active_bootstrap is not None, f"{node.record.logical_node_id}: no session to cancel"
    return _dispatch(node, CancelBootstrap(node.active_bootstrap))


def destroy(node: ManagedNode, _desired: Desired, _now: datetime) -> NodeDecision:
    """End the lease."""
    assert node.record.lease is not None, f"{node.record.logical_node_id}: no lease to destroy"
    return _dispatch(node, DestroyLease(node.record.lease.handle))

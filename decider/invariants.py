"""The invariants of spec §14, as far as a state, a step or a plan can show them.

Each check raises AssertionError that names the node and what it found.  Nothing here repairs or
decides; drivers call it in tests and when asked to, and pay for it only then.

Where each of the fifteen is checked: 1, 2, 3, 15 `check_plan` (same input, same plan); 4 by the
driver's ownership; 5 by `observe` having no way to emit; 6 `check_plan`; 7 `check_dispatch`; 8, 10,
11 `check_step`; 9 by the driver's queue; 12 `check_plan` (held-back nodes); 13 by the layers; 14
`check_converged`.  States are checked by `check_state`.
"""

from datetime import datetime

from cluster_reconciler.decider.convergence import is_converged
from cluster_reconciler.decider.plan import (
    UNASSIGNED,
    Dispatch,
    ExpandedShape,
    Insert,
    ReconcilePlan,
    Restart,
)
from cluster_reconciler.decider.reconcile import reconcile
from cluster_reconciler.decider.sessions import ORDERED_STAGES
from cluster_reconciler.decider.state import (
    ClusterState,
    ManagedNode,
    has_ambiguous_start,
    is_live,
)
from cluster_reconciler.decider.transitions import refusal
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeIntent,
    NodeStage,
    OperationKind,
    PlannedEffect,
)


def check_state(state: ClusterState) -> None:
    """Everything that must hold of any state."""
    attempts = [node.attempt for node in state.nodes.values()]
    assert len(set(attempts)) == len(attempts), f"two nodes share an attempt: {sorted(attempts)}"
    for node_id, node in state.nodes.items():
        _check_identity(state, node_id, node)
        _check_resources(node_id, node)
        _check_lifecycle(node_id, node)


def _check_identity(state: ClusterState, node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    assert record.logical_node_id == node_id, f"{node_id}: holds {record.logical_node_id}"
    assert record.desired.logical_node_id == node_id, f"{node_id}: has another node's spec"
    assert UNASSIGNED < node.attempt < state.next_attempt_id, (
        f"{node_id}: attempt {node.attempt} was never allocated (next {state.next_attempt_id})"
    )
    pending = node.pending.id if node.pending is not None else None
    for operation in (node.retry.ambiguous_operation, pending):
        if operation is not None:
            assert operation.attempt == node.attempt, f"{node_id}: {operation}: another attempt's"
            assert operation.sequence < node.next_operation_sequence, (
                f"{node_id}: {operation} was never recorded"
            )
    since, ambiguous = node.retry.ambiguous_since, node.retry.ambiguous_operation
    assert (since is None) == (ambiguous is None), f"{node_id}: an ambiguity without its time"


def _check_resources(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    if record.connection is not None:
        assert record.lease is not None, f"{node_id}: an endpoint without a lease"
    if node.active_bootstrap is not None:
        assert record.lease is not None, f"{node_id}: a session without a lease"
        assert record.bootstrap is not None, f"{node_id}: a session without facts"
        assert record.bootstrap.session_id == node.active_bootstrap, (
            f"{node_id}: session {node.active_bootstrap}, facts of {record.bootstrap.session_id}"
        )
    if record.stage is NodeStage.DESTROYED:
        left = (record.lease, record.connection, node.active_bootstrap, node.pending)
        assert left == (None, None, None, None), f"{node_id}: destroyed, but holds {left}"
        assert node.retry.ambiguous_operation is None, f"{node_id}: destroyed, but ambiguous"
        assert record.destroyed_at is not None, f"{node_id}: destroyed at no time"


def _check_lifecycle(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    if node.intent is NodeIntent.DELETING:
        assert not record.ready, f"{node_id}: deleting and ready"
        assert node.deleting_since is not None, f"{node_id}: deleting since no time"
    else:
        assert record.stage is not NodeStage.DESTROYED, f"{node_id}: active and destroyed"
    if record.ready:
        assert record.lease is not None, f"{node_id}: ready without a lease"
        assert record.connection is not None, f"{node_id}: ready without an endpoint"
        assert record.swactor is not None, f"{node_id}: ready without a join"
        assert record.swactor.handed_off_at is not None, f"{node_id}: ready without a hand-over"
        assert record.stage is NodeStage.DORMANT, f"{node_id}: ready at stage {record.stage}"
        assert node.active_bootstrap is None, f"{node_id}: ready with a session"
        assert node.ready_at is not None, f"{node_id}: ready since no time"
    if record.failed_at is not None:
        assert not record.ready, f"{node_id}: failed and ready"
        assert record.failed_reason is not None, f"{node_id}: failed for no reason"
        assert node.retry.restart_at is not None, f"{node_id}: failed without a restart deadline"
        assert record.stage in (NodeStage.FAILED, NodeStage.DESTROYED), (
            f"{node_id}: failed at stage {record.stage}"
        )
    else:
        assert record.stage is not NodeStage.FAILED, f"{node_id}: stage failed, at no time"
        assert node.retry.restart_at is None, f"{node_id}: a restart deadline without a failure"
    if node.progress is not None:
        assert is_live(node), f"{node_id}: waits for progress and strives for none"
        assert not record.ready, f"{node_id}: waits for progress and is ready"
    if node.kept:
        starting = node.pending is not None and node.pending.kind is OperationKind.START_BOOTSTRAP
        assert starting or has_ambiguous_start(node), f"{node_id}: keeps news of no start's session"


def check_step(before: ClusterState, after: ClusterState) -> None:
    """Everything that must hold between a state and the next one."""
    assert after.next_attempt_id >= before.next_attempt_id, "the attempt allocator went back"
    assert after.observed_generation >= before.observed_generation, "observed_generation went back"
    for node_id, old in before.nodes.items():
        new = after.nodes.get(node_id)
        if new is old:
            continue
        if new is None:
            assert old.record.stage is NodeStage.DESTROYED, f"{node_id}: reaped before destroyed"
        elif new.attempt == old.attempt:
            _check_same_attempt(node_id, old, new)
        else:
            assert old.record.stage is NodeStage.DESTROYED, f"{node_id}: restarted before destroyed"
            assert new.attempt >= before.next_attempt_id, f"{node_id}: an attempt id was reused"
            assert new.retry.consecutive_failures == old.retry.consecutive_failures, (
                f"{node_id}: a restart changed the failure count"
            )
    for node_id in after.nodes.keys() - before.nodes.keys():
        assert after.nodes[node_id].attempt >= before.next_attempt_id, f"{node_id}: reused an id"


def _check_same_attempt(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    assert new.record.desired == old.record.desired, f"{node_id}: an attempt's spec changed"
    if old.intent is NodeIntent.DELETING:
        assert new.intent is NodeIntent.DELETING, f"{node_id}: a deletion was taken back"
        assert new.retry.restart_at == old.retry.restart_at, f"{node_id}: restart_at moved"
    if old.record.stage is NodeStage.DESTROYED:
        assert new == old, f"{node_id}: changed after it was destroyed"
    if old.record.failed_at is not None:
        first = (old.record.failed_reason, old.record.failed_at, old.retry.restart_at)
        now = (new.record.failed_reason, new.record.failed_at, new.retry.restart_at)
        assert now == first, f"{node_id}: failed twice, {first} and {now}"
    _check_operations(node_id, old, new)
    _check_monotone_facts(node_id, old, new)


def _check_operations(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    assert new.next_operation_sequence >= old.next_operation_sequence, f"{node_id}: sequence back"
    if new.pending is not None and new.pending != old.pending:
        assert old.pending is None, f"{node_id}: {new.pending.id} overtook {old.pending}"
        assert new.pending.id.sequence == old.next_operation_sequence, (
            f"{node_id}: {new.pending.id} is not the next operation"
        )


def _check_monotone_facts(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    was, now = old.record.bootstrap, new.record.bootstrap
    if was is not None and now is not None and was.session_id == now.session_id:
        rank = ORDERED_STAGES.index
        assert rank(now.furthest_stage) >= rank(was.furthest_stage), f"{node_id}: stage went back"
        assert (now.last_stdout_seq or 0) >= (was.last_stdout_seq or 0), f"{node_id}: stdout back"
        assert (now.last_stderr_seq or 0) >= (was.last_stderr_seq or 0), f"{node_id}: stderr back"
    if old.record.swactor is not None:
        assert new.record.swactor is not None, f"{node_id}: a join was forgotten"


def check_plan(
    observed: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
) -> None:
    """Everything that must hold of a plan for the state that it was made from."""
    assert reconcile(observed, desired, now) == plan, "the same input gave two plans"
    ids = [action.node for action in plan.actions]
    assert ids == sorted(set(ids)), f"actions are not one for each node, in order: {ids}"
    assert not set(ids) & set(plan.held_back), "a node acts and is held back"
    allocated = [
        action.attempt if isinstance(action, Insert) else action.new_attempt
        for action in plan.actions
        if isinstance(action, Insert | Restart)
    ]
    first = observed.next_attempt_id
    assert allocated == list(range(first, first + len(allocated))), f"attempt ids {allocated}"
    for action in plan.actions:
        if isinstance(action, Insert | Restart):
            assert action.desired == desired.nodes[action.node], f"{action.node}: an older spec"
        else:
            assert refusal(observed, action) is None, f"stale when made: {action}"
        if isinstance(action, Dispatch):
            _check_dispatchable(observed.nodes[action.node], now)


def _check_dispatchable(node: ManagedNode, now: datetime) -> None:
    node_id = node.record.logical_node_id
    assert not node.record.ready, f"{node_id}: an effect for a ready node"
    due = node.retry.next_effect_at
    assert due is None or due <= now, f"{node_id}: an effect before {due}"


def check_dispatch(observed: ClusterState, effect: PlannedEffect) -> None:
    """The effect that is about to be submitted stands in the state as pending (§14.7)."""
    node = observed.nodes[effect.node]
    assert node.pending is not None, f"{effect.node}: {effect.operation} is not recorded"
    assert node.pending.id == effect.operation, f"{effect.node}: {node.pending.id} is recorded"


def check_converged(observed: ClusterState, desired: ExpandedShape) -> None:
    """A converged cluster has nothing left to do (§14.14)."""
    if is_converged(observed, desired):
        for node_id, node in observed.nodes.items():
            assert node.record.ready, f"{node_id}: converged and not ready"
            assert node.pending is None, f"{node_id}: converged with {node.pending}"

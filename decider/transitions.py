"""Applying a plan's actions to the state, one node at a time (spec §6).

Pure: it answers with the node's new value; the driver alone puts it into its map.  An action that
does not fit the node as it is now is stale: `refusal` says why, and nothing changes.
"""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from cluster_reconciler.decider.plan import (
    BeginDelete,
    Dispatch,
    Insert,
    MarkDestroyed,
    NodeAction,
    Reap,
    Restart,
)
from cluster_reconciler.decider.retry import RetryPolicy, deadline_after, later
from cluster_reconciler.decider.state import (
    ATTEMPT_ID_MAX,
    FIRST_SEQUENCE,
    ClusterState,
    ManagedNode,
    PendingOperation,
    ProgressDeadline,
    ProgressWait,
    RetryState,
)
from cluster_reconciler.decider.steps import ACTIVE, DESTROYED, holds_nothing
from cluster_reconciler.messages import (
    CreateLease,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeIntent,
    NodeRecord,
    NodeStage,
    PlannedEffect,
    StartBootstrap,
    is_adopt_only,
    kind_of,
)


def refusal(state: ClusterState, action: NodeAction) -> str | None:
    """Why the action is stale; None: it may be applied."""
    node = state.nodes.get(action.node)
    if isinstance(action, Insert):
        if node is not None:
            return f"{action.node} has attempt {node.attempt} already"
        return _allocator_refusal(state, action.attempt)
    if node is None:
        return f"{action.node} is not there any more"
    expected = (
        action.effect.operation.attempt if isinstance(action, Dispatch) else action.expected_attempt
    )
    if node.attempt != expected:
        return f"{action.node} is at attempt {node.attempt}, the plan meant attempt {expected}"
    if isinstance(action, Dispatch):
        return _dispatch_refusal(node, action.effect)
    return _node_refusal(state, node, action)


def _node_refusal(
    state: ClusterState,
    node: ManagedNode,
    action: BeginDelete | MarkDestroyed | Restart | Reap,
) -> str | None:
    destroyed = node.record.stage is DESTROYED
    match action:
        case BeginDelete():
            return None if node.intent is ACTIVE else f"{action.node} is deleting"
        case MarkDestroyed():
            clean = node.pending is None and holds_nothing(node) and not destroyed
            if node.intent is NodeIntent.DELETING and clean:
                return None
            return f"{action.node} is not cleaned up, or was marked before"
        case Restart():
            if not destroyed:
                return f"{action.node} is at stage {node.record.stage}, not destroyed"
            return _allocator_refusal(state, action.new_attempt)
        case Reap():
            return None if destroyed else f"{action.node} is at stage {node.record.stage}"
        case _:
            assert_never(action)


def _dispatch_refusal(node: ManagedNode, effect: PlannedEffect) -> str | None:
    if node.record.stage is DESTROYED:
        return f"{effect.node} is destroyed"
    if node.pending is not None:
        return f"{effect.node} waits for {node.pending.id}"
    if effect.operation.sequence != node.next_operation_sequence:
        return (
            f"{effect.node} is at sequence {node.next_operation_sequence}, "
            f"the plan meant {effect.operation.sequence}"
        )
    return None


def _allocator_refusal(state: ClusterState, attempt: NodeAttemptId) -> str | None:
    if attempt != state.next_attempt_id:
        return f"the allocator is at {state.next_attempt_id}, the plan meant {attempt}"
    if attempt >= ATTEMPT_ID_MAX:
        return f"the attempt allocator is exhausted at {attempt}"
    return None


def apply(
    node: ManagedNode | None, action: NodeAction, now: datetime, retry: RetryPolicy
) -> ManagedNode | None:
    """The node after the action, None when it goes.  Only for an action without `refusal`."""
    if isinstance(action, Insert):
        return fresh_node(action.attempt, action.desired, now)
    assert node is not None, f"{action}: only Insert meets an empty slot"
    match action:
        case Dispatch(effect):
            return _record_pending(node, effect, now, retry)
        case BeginDelete():
            return _begin_delete(node, now, retry)
        case MarkDestroyed():
            return _mark_destroyed(node, now)
        case Restart(_, _, new_attempt, desired):
            return _restart(node, new_attempt, desired, now)
        case Reap():
            return None
        case _:
            assert_never(action)


def fresh_node(attempt: NodeAttemptId, desired: LogicalNodeSpec, now: datetime) -> ManagedNode:
    """A new attempt, with nothing done yet."""
    record = NodeRecord(
        logical_node_id=desired.logical_node_id,
        run_id=desired.run_id,
        group_id=desired.group_id,
        role=desired.role,
        desired=desired,
    )
    return ManagedNode(attempt, NodeIntent.ACTIVE, record, started_at=now)


def _begin_delete(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    """Facts and the pending operation stay.  An old backoff must not delay cleanup, unless it is
    the wait before the look that an ambiguity needs (design rule 19)."""
    kept_wait = node.retry.next_effect_at if node.retry.ambiguous_operation else None
    return replace(
        node,
        intent=NodeIntent.DELETING,
        record=replace(node.record, ready=False),
        retry=replace(node.retry, next_effect_at=kept_wait),
        progress=None,
        deleting_since=now,
        cancel_deadline=later(now, retry.cancel_timeout),
    )


def _mark_destroyed(node: ManagedNode, now: datetime) -> ManagedNode:
    """What it held is gone already: that is why it may be marked."""
    return replace(
        node,
        record=replace(node.record, stage=NodeStage.DESTROYED, destroyed_at=now),
        retry=replace(node.retry, next_effect_at=None),
    )


def _restart(
    node: ManagedNode, new_attempt: NodeAttemptId, desired: LogicalNodeSpec, now: datetime
) -> ManagedNode:
    """Only the failure count, and the error that it stands for, outlive the attempt (§5.2)."""
    retry = RetryState(
        node.retry.consecutive_failures,
        last_error=node.retry.last_error,
        last_error_attempt=node.retry.last_error_attempt,
    )
    return replace(fresh_node(new_attempt, desired, now), retry=retry)


def _record_pending(
    node: ManagedNode, effect: PlannedEffect, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    """Everything that must be known before the effect is submitted (§6, §14.7)."""
    command = effect.command
    assert node.next_operation_sequence >= FIRST_SEQUENCE, f"{node}: the sequence only grows"
    record, progress = node.record, node.progress
    if node.intent is ACTIVE and isinstance(command, CreateLease):
        record = replace(record, stage=NodeStage.LEASE_REQUESTED)
    if node.intent is ACTIVE and isinstance(command, StartBootstrap):
        # From the *first* dispatch on: retrying an ambiguous start does not renew the wait.
        progress = progress or ProgressDeadline(
            ProgressWait.JOIN, deadline_after(now, retry.join_timeout, retry)
        )
    return replace(
        node,
        record=record,
        pending=PendingOperation(
            id=effect.operation,
            kind=kind_of(command),
            deadline=deadline_after(now, retry.operation_timeout, retry),
            adopt_only=is_adopt_only(command),
        ),
        next_operation_sequence=node.next_operation_sequence + 1,
        progress=progress,
    )

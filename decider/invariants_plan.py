"""What must hold of a plan, for the state and the shape that it was made from (spec §7.2, §8).

Said from the specification's table, action by action, and never by asking the decider again: each
action must be one that its node's facts allow, and each node without one must have something to
wait for.  Together they leave no node a choice.
"""

from collections.abc import Iterator
from datetime import datetime

from cluster_reconciler.decider.invariants_node import facts_of
from cluster_reconciler.decider.plan import (
    BeginDelete,
    Dispatch,
    ExpandedShape,
    Insert,
    MarkDestroyed,
    NodeAction,
    Reap,
    ReconcilePlan,
    Restart,
)
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX, ClusterState, ManagedNode
from cluster_reconciler.messages import (
    DEFAULT_IN_FLIGHT,
    BootstrapConvergenceObserved,
    BootstrapSessionSpec,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LogicalNodeId,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeIntent,
    NodeManagerCommand,
    NodeStage,
    OperationId,
    OperationKind,
    PlannedEffect,
    ProviderKind,
    StartBootstrap,
)

_ACQUIRES = (CreateLease, LookupEndpoint, StartBootstrap)
_ACQUIRING = frozenset(
    {OperationKind.CREATE_LEASE, OperationKind.LOOKUP_ENDPOINT, OperationKind.START_BOOTSTRAP}
)
_HAND_OVER = OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED

KIND_OF: dict[type, OperationKind] = {
    CreateLease: OperationKind.CREATE_LEASE,
    LookupEndpoint: OperationKind.LOOKUP_ENDPOINT,
    StartBootstrap: OperationKind.START_BOOTSTRAP,
    BootstrapConvergenceObserved: OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED,
    CancelBootstrap: OperationKind.CANCEL_BOOTSTRAP,
    DestroyLease: OperationKind.DESTROY_LEASE,
}
"""Under which kind each command must stand in the state."""

Place = tuple[ProviderKind, bool]
"""Where a limit counts: a provider, and whether the operation releases."""


def check_actions(
    observed: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
) -> None:
    """Everything that must hold of a plan, but for determinism."""
    _check_generation(desired, plan)
    _check_one_action_each(plan)
    for action in plan.actions:
        _check_action(observed, desired, now, action)
    _check_allocated(observed, plan)
    _check_nobody_is_forgotten(observed, desired, now, plan)
    _check_limits(observed, desired, plan)
    _check_requeue(observed, desired, now, plan)


def _check_generation(desired: ExpandedShape, plan: ReconcilePlan) -> None:
    found, generation = plan.observed_generation, desired.shape.generation
    assert found == generation, f"the plan is of generation {found}, the shape of {generation}"


def _check_one_action_each(plan: ReconcilePlan) -> None:
    """At most one action for each node, in the order of ids (§14.6)."""
    ids = [action.node for action in plan.actions]
    assert ids == sorted(set(ids)), f"actions are not one for each node, in order: {ids}"
    held = list(plan.held_back)
    assert held == sorted(set(held)), f"held back are not distinct nodes, in order: {held}"
    both = set(ids) & set(held)
    assert not both, f"act and are held back: {sorted(both)}"


# -- who acts -------------------------------------------------------------------------------------


def _check_action(
    observed: ClusterState, desired: ExpandedShape, now: datetime, action: NodeAction
) -> None:
    node_id = action.node
    node, spec = observed.nodes.get(node_id), desired.nodes.get(node_id)
    if isinstance(action, Insert):
        assert node is None, f"{node_id}: inserted into a slot that is taken"
        _check_latest_spec(action, spec)
        return
    assert node is not None, f"{node_id}: nothing is there for {action}"
    meant = (
        action.effect.operation.attempt if isinstance(action, Dispatch) else action.expected_attempt
    )
    assert meant == node.attempt, f"{node_id}: meant attempt {meant}, found {node.attempt}"
    if isinstance(action, BeginDelete):
        assert _must_go(node, spec), f"{node_id}: BeginDelete of a wanted node; {facts_of(node)}"
    elif isinstance(action, MarkDestroyed):
        gone = _is_cleaned_up(node) and node.pending is None
        assert gone, f"{node_id}: MarkDestroyed, not cleaned up; {facts_of(node)}"
    elif isinstance(action, Reap):
        assert _is_destroyed(node), f"{node_id}: Reap before destroyed; {facts_of(node)}"
        assert spec is None, f"{node_id}: Reap of a desired slot"
    elif isinstance(action, Restart):
        assert _is_destroyed(node), f"{node_id}: Restart before destroyed; {facts_of(node)}"
        assert spec is not None, f"{node_id}: Restart of an undesired slot"
        _check_latest_spec(action, spec)
        due = node.retry.restart_at
        assert not _is_ahead(due, now), f"{node_id}: Restart at {now}, not due before {due}"
    else:
        assert not _must_go(node, spec), f"{node_id}: an effect, expected BeginDelete"
        _check_dispatch(node_id, node, now, action.effect)


def _check_latest_spec(action: Insert | Restart, spec: LogicalNodeSpec | None) -> None:
    """A new attempt is of the latest desired spec, whatever was wanted before (§14.3)."""
    name = f"{action.node}: {type(action).__name__}"
    assert action.desired == spec, f"{name} with an older spec {action.desired}"


def _check_dispatch(
    node_id: LogicalNodeId, node: ManagedNode, now: datetime, effect: PlannedEffect
) -> None:
    command, name = effect.command, type(effect.command).__name__
    assert node.pending is None, f"{node_id}: {name} while {node.pending} is out"
    following = OperationId(node.attempt, node.next_operation_sequence)
    assert effect.operation == following, f"{node_id}: {effect.operation}, next is {following}"
    due = node.retry.next_effect_at
    assert not _is_ahead(due, now), f"{node_id}: an effect before {due}, at {now}"
    found = f"{node_id}: {name} (adopt only: {_only_looks(command)}) is not allowed"
    if node.intent is NodeIntent.DELETING:
        _check_cleanup_order(node, command, now, found)
    else:
        assert _strives(node, command), f"{found} while active; {facts_of(node)}"
    expected = [filled for filled in _commands(node) if type(filled) is type(command)]
    assert command in expected, f"{node_id}: expected {expected}, found {command}"


def _check_cleanup_order(
    node: ManagedNode, command: NodeManagerCommand, now: datetime, found: str
) -> None:
    """Nothing is ended before what it carries has ended (§7.2, §14.10)."""
    assert _cleans(node, command, now), f"{found} while deleting; {facts_of(node)}"


def _strives(node: ManagedNode, command: NodeManagerCommand) -> bool:
    """Whether an active node may ask for this now: nothing that it has or had already."""
    record = node.record
    if record.ready or _only_looks(command):
        return False
    if isinstance(command, CreateLease):
        return record.lease is None
    if isinstance(command, LookupEndpoint):
        return record.lease is not None and record.connection is None
    if isinstance(command, StartBootstrap):
        return record.connection is not None and record.bootstrap is None
    hands_over = isinstance(command, BootstrapConvergenceObserved)
    return hands_over and node.active_bootstrap is not None and record.swactor is not None


def _cleans(node: ManagedNode, command: NodeManagerCommand, now: datetime) -> bool:
    """Whether a deleting node may ask for this now: what may exist unseen is looked for, the
    session ends, the lease goes, strictly in this order (§7.2), unless the cancel gave way."""
    record, unsure = node.record, node.retry.ambiguous_operation is not None
    if record.lease is None:
        return isinstance(command, CreateLease) and command.adopt_only and unsure
    gave_way = node.cancel_failures > 0 and not _is_ahead(node.cancel_deadline, now)
    if gave_way or not (unsure or node.active_bootstrap is not None):
        return isinstance(command, DestroyLease)
    if unsure:
        return isinstance(command, StartBootstrap) and command.adopt_only
    return isinstance(command, CancelBootstrap)


def _commands(node: ManagedNode) -> list[NodeManagerCommand]:
    """Every command that can be filled from the facts of the node's own attempt."""
    record, session = node.record, node.active_bootstrap
    looks = node.intent is NodeIntent.DELETING
    filled: list[NodeManagerCommand] = [CreateLease(record.desired, looks)]
    if record.lease is not None:
        filled += [LookupEndpoint(record.lease), DestroyLease(record.lease.handle)]
        if record.connection is not None:
            boot, join = record.desired.boot, record.desired.swarm_join
            identity = (record.run_id, record.logical_node_id, record.lease.lease_id)
            start = BootstrapSessionSpec(*identity, record.connection, boot, join)
            filled.append(StartBootstrap(start, looks))
    if session is not None:
        filled.append(CancelBootstrap(session))
        if record.swactor is not None:
            filled.append(BootstrapConvergenceObserved(session, record.swactor.swactor_id))
    return filled


def _only_looks(command: NodeManagerCommand) -> bool:
    return isinstance(command, CreateLease | StartBootstrap) and command.adopt_only


# -- who does not act -----------------------------------------------------------------------------


def _check_nobody_is_forgotten(
    observed: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
) -> None:
    """A node without an action has something to wait for (§14.3, §14.12)."""
    acting, held = {action.node for action in plan.actions}, set(plan.held_back)
    starved = []
    for node_id in sorted(desired.nodes.keys() - observed.nodes.keys() - acting):
        assert plan.allocator_exhausted, f"{node_id}: desired only, expected Insert, found nothing"
        starved.append(node_id)
    for node_id, node in observed.nodes.items():
        if node_id in acting:
            continue
        due = _is_destroyed(node) and not _is_ahead(node.retry.restart_at, now)
        if plan.allocator_exhausted and due and node_id in desired.nodes:
            starved.append(node_id)
            continue
        _check_waits(node_id, node, desired.nodes.get(node_id), now, held=node_id in held)
    unknown = held - observed.nodes.keys()
    assert not unknown, f"held back, but not there: {sorted(unknown)}"
    if plan.allocator_exhausted:
        assert starved, "no attempt id is left, and no node needs one"


def _check_waits(
    node_id: LogicalNodeId,
    node: ManagedNode,
    spec: LogicalNodeSpec | None,
    now: datetime,
    *,
    held: bool,
) -> None:
    found = f"{node_id}: found no action, expected"
    assert not _must_go(node, spec), f"{found} BeginDelete; {facts_of(node)}"
    if _is_destroyed(node):
        assert spec is not None, f"{found} Reap"
        due = node.retry.restart_at
        assert _is_ahead(due, now), f"{found} Restart, due since {due}"
        reason: str | None = "destroyed"
    elif node.pending is not None:
        reason = "an operation is pending"
    elif _is_cleaned_up(node):
        raise AssertionError(f"{found} MarkDestroyed; {facts_of(node)}")
    elif _is_ahead(node.retry.next_effect_at, now):
        reason = "backing off"
    elif node.record.ready:
        reason = "ready"
    else:
        running = node.active_bootstrap is not None and node.intent is NodeIntent.ACTIVE
        hands_over = running and node.record.swactor is not None
        assert not hands_over, f"{found} a hand-over, which no limit holds back"
        reason = "awaiting its join" if running else None
    if held:
        assert reason is None, f"{node_id}: held back, but {reason}"
    else:
        assert reason is not None, f"{found} an effect; {facts_of(node)}"


def _check_allocated(observed: ClusterState, plan: ReconcilePlan) -> None:
    allocated = [
        action.attempt if isinstance(action, Insert) else action.new_attempt
        for action in plan.actions
        if isinstance(action, Insert | Restart)
    ]
    first = observed.next_attempt_id
    following = first + len(allocated)
    assert allocated == list(range(first, following)), f"attempt ids {allocated}, from {first} on"
    assert following <= ATTEMPT_ID_MAX, f"attempt ids beyond the end: {allocated}"
    if plan.allocator_exhausted:
        assert following >= ATTEMPT_ID_MAX, f"called exhausted, and {following} is left"


def _must_go(node: ManagedNode, spec: LogicalNodeSpec | None) -> bool:
    """Whether an active attempt is to be deleted: undesired, of another spec, or failed (§8)."""
    failed = node.record.failed_at is not None
    return node.intent is NodeIntent.ACTIVE and (node.record.desired != spec or failed)


def _is_destroyed(node: ManagedNode) -> bool:
    return node.record.stage is NodeStage.DESTROYED


def _is_cleaned_up(node: ManagedNode) -> bool:
    """Whether cleanup is observed complete, and not yet marked (§14.10)."""
    left = (node.record.lease, node.active_bootstrap, node.retry.ambiguous_operation)
    deleting = node.intent is NodeIntent.DELETING and not _is_destroyed(node)
    return deleting and left == (None, None, None)


def _is_ahead(deadline: datetime | None, now: datetime) -> bool:
    return deadline is not None and deadline > now


# -- limits, and when to look again ---------------------------------------------------------------


def _check_limits(observed: ClusterState, desired: ExpandedShape, plan: ReconcilePlan) -> None:
    """No more at once than a provider allows, nobody held back beside a free place, and places go
    to those who failed least and asked least, so that nobody starves (design rule 28)."""
    out: dict[Place, int] = {}
    for node in observed.nodes.values():
        if node.pending is not None and node.pending.kind is not _HAND_OVER:
            releases = node.pending.kind not in _ACQUIRING or node.pending.adopt_only
            place = (node.record.desired.provider, releases)
            out[place] = out.get(place, 0) + 1
    asking: dict[Place, list[LogicalNodeId]] = {}
    for action in plan.actions:
        if isinstance(action, Dispatch):
            command = action.effect.command
            if not isinstance(command, BootstrapConvergenceObserved):
                releases = not isinstance(command, _ACQUIRES) or _only_looks(command)
                provider = observed.nodes[action.node].record.desired.provider
                asking.setdefault((provider, releases), []).append(action.node)
    held: dict[Place, list[LogicalNodeId]] = {}
    for node_id in plan.held_back:
        node = observed.nodes[node_id]
        releases = node.intent is NodeIntent.DELETING
        held.setdefault((node.record.desired.provider, releases), []).append(node_id)
    for place in {**asking, **held}:
        limits = desired.shape.limits.get(place[0])
        limit = DEFAULT_IN_FLIGHT if limits is None else limits.in_flight
        taken, takers, others = out.get(place, 0), asking.get(place, []), held.get(place, [])
        total = taken + len(takers)
        assert not takers or total <= limit, (
            f"{takers[0]}: {total} at once at {place}, the limit is {limit}"
        )
        assert not others or total >= limit, (
            f"{others[0]}: held back at {place}, only {total} of {limit} are out"
        )
        last = max((_turn(observed.nodes[node_id]) for node_id in takers), default=None)
        first = min((_turn(observed.nodes[node_id]) for node_id in others), default=None)
        in_turn = last is None or first is None or last < first
        assert in_turn, f"{others[0]}: held back at {place} out of turn, {first} behind {last}"


def _turn(node: ManagedNode) -> tuple[int, int, LogicalNodeId]:
    return (
        node.retry.consecutive_failures,
        node.next_operation_sequence,
        node.record.logical_node_id,
    )


def _check_requeue(
    observed: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
) -> None:
    """The earliest deadline that some node waits for.  It lies in the past only where an operation
    or a progress deadline is overdue: the driver judges those after what it has received (rule 22),
    so a pass may come before.  Retry and restart deadlines that have come are no waits at all."""
    waits = [
        (deadline, node_id)
        for node_id, node in observed.nodes.items()
        for deadline in _waits(node, desired.nodes.get(node_id), now)
    ]
    expected, who = min(waits, default=(None, "no node waits"))
    assert plan.requeue_at == expected, f"{who}: requeue at {plan.requeue_at}, expected {expected}"


def _waits(node: ManagedNode, spec: LogicalNodeSpec | None, now: datetime) -> Iterator[datetime]:
    """What time alone can change for the node, as it is now."""
    if _must_go(node, spec):
        return
    waits: list[datetime | None] = []
    if _is_destroyed(node):
        waits = [node.retry.restart_at] if spec is not None else []
    elif node.pending is not None:
        yield node.pending.deadline
    elif not _is_cleaned_up(node):
        waits = [node.retry.next_effect_at]
    yield from (wait for wait in waits if wait is not None and wait > now)
    if node.progress is not None and node.active_bootstrap is not None:
        yield node.progress.deadline

"""The invariants of spec §14, as far as a state, a step or a plan can show them.

Each check raises AssertionError that names the node, what was expected and what was found.  Nothing
here repairs or decides; drivers call it in tests and when asked to, and pay for it only then.

Where each of the fifteen is checked:

1. Purity: `check_plan`, the inputs are as they were; what is imported is import-linter's.
2. Level-based: `check_plan`, the action follows from facts alone; no event is at hand there.
3. Latest desired wins: `check_plan`, each action and each wait against the latest shape.
4. One owner: `check_owner`, the live map is what the driver has put there.
5. Observation emits nothing: `observe` answers with a node and has no way to emit; that it records
   no operation either, `check_change`.
6. One action: `check_plan`; and each change is one step, `check_change`.
7. Record before dispatch: `check_dispatch`; that it is recorded alone, `check_change`.
8. Attempt correlation: `check_correlation`, what is folded is of the node's own attempt and
   operation; `check_change`, each fact comes with the operation that can bring it.
9. Non-reentrant: the driver asserts it at each pass.
10. Cleanup before reuse: `check_change` (destroyed, restarted, reaped), `check_node` (destroyed),
    `check_plan` (order of cleanup).
11. Distinct identities: `check_node`, `check_state` (attempts), `check_change` (allocator).
12. Isolation: `check_plan`, no node without an action unless it waits for something of its own, and
    nobody held back beside a free place.
13. No waiting: by the layers, nothing here or in `reconcile` can wait.
14. Acknowledgment is not readiness: `check_converged`; `check_plan` for the generation.
15. Determinism: `check_plan`, the same input gives the same plan; that deadlines are stored when
    something is folded, `check_change`.

`invariants_node`, `invariants_change` and `invariants_plan` hold what is said of each.
"""

from collections.abc import Mapping
from datetime import datetime

from cluster_reconciler.decider.convergence import is_converged
from cluster_reconciler.decider.invariants_change import check_change
from cluster_reconciler.decider.invariants_node import check_node
from cluster_reconciler.decider.invariants_plan import KIND_OF, check_actions
from cluster_reconciler.decider.plan import ExpandedShape, ReconcilePlan
from cluster_reconciler.decider.reconcile import reconcile
from cluster_reconciler.decider.state import ClusterState, ManagedNode
from cluster_reconciler.messages import (
    CreateLease,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeObservation,
    OperationFailed,
    OperationSucceeded,
    PlannedEffect,
    StartBootstrap,
)

__all__ = [
    "check_change",
    "check_converged",
    "check_correlation",
    "check_dispatch",
    "check_node",
    "check_owner",
    "check_plan",
    "check_state",
    "check_step",
]


def check_state(state: ClusterState) -> None:
    """Everything that must hold of any state."""
    owners: dict[NodeAttemptId, LogicalNodeId] = {}
    for node_id, node in state.nodes.items():
        check_node(node_id, node, state.next_attempt_id)
        other = owners.setdefault(node.attempt, node_id)
        assert other == node_id, f"{node_id}: shares attempt {node.attempt} with {other}"


def check_step(before: ClusterState, after: ClusterState) -> None:
    """Everything that must hold between a state and the next one, in which any number of nodes
    have taken one step each."""
    went = (before.next_attempt_id, after.next_attempt_id)
    assert went[0] <= went[1], f"the attempt allocator went back from {went[0]} to {went[1]}"
    seen = (before.observed_generation, after.observed_generation)
    assert seen[0] <= seen[1], f"observed_generation went back from {seen[0]} to {seen[1]}"
    for node_id in {**before.nodes, **after.nodes}:
        old, new = before.nodes.get(node_id), after.nodes.get(node_id)
        if new is not old:
            check_change(node_id, old, new, next_before=went[0], next_after=went[1])


def check_plan(
    observed: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
) -> None:
    """Everything that must hold of a plan for the state that it was made from."""
    nodes, specs = dict(observed.nodes), dict(desired.nodes)
    limits = dict(desired.shape.limits)
    again = reconcile(observed, desired, now)
    same = (observed.nodes, desired.nodes, desired.shape.limits) == (nodes, specs, limits)
    _check_inputs_kept(same)
    _check_same_plan(plan, again)
    check_actions(observed, desired, now, plan)


def _check_inputs_kept(same: bool) -> None:
    """A pure function leaves what it was given (§14.1)."""
    assert same, "reconcile has changed its input"


def _check_same_plan(plan: ReconcilePlan, again: ReconcilePlan) -> None:
    """The same input gives the same plan (§14.15)."""
    assert again == plan, f"the same input gave two plans: {plan} and {again}"


def check_owner(observed: ClusterState, put: Mapping[LogicalNodeId, ManagedNode]) -> None:
    """The live map holds the very nodes that the driver has put there, `put`, and no other: nobody
    else writes to it (§14.4)."""
    for node_id in {**observed.nodes, **put}:
        found, own = observed.nodes.get(node_id), put.get(node_id)
        assert found is own, f"{node_id}: changed by another than the driver: {found}, was {own}"


def check_correlation(
    node_id: LogicalNodeId,
    node: ManagedNode,
    attempt: NodeAttemptId,
    observation: NodeObservation,
) -> None:
    """What is about to be folded is of the node's own attempt, and a result of the operation that
    is pending (§14.8)."""
    assert attempt == node.attempt, (
        f"{node_id}: news of attempt {attempt} folded into attempt {node.attempt}"
    )
    if isinstance(observation, OperationSucceeded | OperationFailed):
        pending = node.pending.id if node.pending is not None else None
        answered = observation.operation
        assert answered == pending, f"{node_id}: answered was {answered}, pending is {pending}"


def check_dispatch(observed: ClusterState, effect: PlannedEffect) -> None:
    """The effect that is about to be submitted stands in the state as pending (§14.7)."""
    node = observed.nodes.get(effect.node)
    assert node is not None, f"{effect.node}: {effect.operation} for a node that is not there"
    pending = node.pending
    assert pending is not None, f"{effect.node}: {effect.operation} is not recorded"
    assert pending.id == effect.operation, (
        f"{effect.node}: {pending.id} is recorded, submitted {effect.operation}"
    )
    command = effect.command
    looks = isinstance(command, CreateLease | StartBootstrap) and command.adopt_only
    recorded, submitted = (pending.kind, pending.adopt_only), (KIND_OF[type(command)], looks)
    assert recorded == submitted, (
        f"{effect.node}: {effect.operation} is recorded as {recorded}, submitted as {submitted}"
    )


def check_converged(observed: ClusterState, desired: ExpandedShape) -> None:
    """Called converged exactly when nothing is left to do (§9, §14.14)."""
    left = _left_to_do(observed, desired)
    if is_converged(observed, desired):
        assert left is None, f"called converged, but {left}"
    else:
        assert left is not None, "every node is as wanted, and it is not called converged"


def _left_to_do(observed: ClusterState, desired: ExpandedShape) -> str | None:
    """The first thing that stands between the state and the desired one."""
    for node_id in desired.nodes:
        if node_id not in observed.nodes:
            return f"{node_id}: desired, and there is no node"
    for node_id, node in observed.nodes.items():
        record = node.record
        if node_id not in desired.nodes:
            return f"{node_id}: not desired, and at stage {record.stage}"
        if record.desired != desired.nodes[node_id]:
            return f"{node_id}: of another spec"
        if node.intent is not NodeIntent.ACTIVE:
            return f"{node_id}: {node.intent}"
        if not record.ready:
            return f"{node_id}: not ready, at stage {record.stage}"
        if node.pending is not None:
            return f"{node_id}: {node.pending.id} is pending"
    return None

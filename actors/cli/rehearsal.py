"""In which order the reconciler would go from one shape to another: the decider itself, asked.

Nothing here decides.  The old shape is taken for converged; from there every pass is the decider's
own, every action is applied and every result folded by it, as the driver does, with every call
succeeding.  No thread, no clock, no effect: a rehearsal touches nothing.

All that goes out before any answer comes is one wave.  What a provider's limit holds back comes in
a later one.  A rehearsal of thousands of changed nodes under a small limit would take minutes to
tell what nobody reads to its end: it stops after `WORK_MAX`, and says so.
"""

from datetime import UTC, datetime
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ExpandedShape,
    Insert,
    ManagedNode,
    NodeAction,
    Restart,
    RetryPolicy,
    is_converged,
    observe,
    reconcile,
    reconcile_node,
    transitions,
)
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    EndpointLookup,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeAttemptId,
    NodeGroupId,
    OperationOutcome,
    OperationSucceeded,
    PlannedEffect,
    ProviderLeaseId,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
    kind_of,
)

WORK_MAX = 60_000
"""Nodes looked at by passes, steady ones not counted: well under a second."""

NODES_MAX = 100_000
"""A shape with more nodes than this is not rehearsed at all: its first wave takes seconds."""

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Time stands still: nothing fails, so nothing waits for it."""
_RETRY = RetryPolicy()
_ENDPOINT = LocalEndpoint("rehearsal")


class Step(Struct, frozen=True):
    """One kind of action, and the nodes that take it together."""

    action: str
    """`begin_delete`, `insert`, `restart`, `mark_destroyed`, `reap`, or the kind of an operation:
    `create_lease`, `start_bootstrap`, `bootstrap_convergence_observed`, `destroy_lease`, ..."""
    nodes: tuple[LogicalNodeId, ...]
    """In the order in which the decider names them."""


class Wave(Struct, frozen=True):
    """What happens before any call has answered."""

    steps: tuple[Step, ...]
    held_back: tuple[LogicalNodeId, ...]
    """Nodes whose call waits for a place under its provider's limit."""


class Rehearsal(Struct, frozen=True):
    """The way to the new shape."""

    waves: tuple[Wave, ...]
    complete: bool
    """False: it goes on like this; the rest was not rehearsed.  Without any wave: nothing was."""


def rehearse(old: ExpandedShape, new: ExpandedShape) -> Rehearsal:
    """From a converged `old` to a converged `new`, every call succeeding."""
    if max(len(old.nodes), len(new.nodes)) > NODES_MAX:
        return Rehearsal((), False)
    stage = _Stage(old, new)
    waves = []
    while (wave := stage.wave()) is not None:
        waves.append(wave)
        if stage.work > WORK_MAX:
            break
    complete = is_converged(stage.state, new)
    assert complete or stage.work > WORK_MAX, f"the rehearsal is stuck after {waves[-1:]}"
    return Rehearsal(tuple(waves), complete)


def converged_state(shape: ExpandedShape) -> ClusterState:
    """The state in which every node of the shape is ready, as the decider itself gets there.  Of
    each group it brings one up; the others are as that one, under their own names."""
    nodes: dict[LogicalNodeId, ManagedNode] = {}
    first_of: dict[NodeGroupId, ManagedNode] = {}
    for number, node_id in enumerate(sorted(shape.nodes), start=1):
        spec, attempt = shape.nodes[node_id], NodeAttemptId(number)
        first = first_of.get(spec.group_id)
        if first is None:
            first = first_of[spec.group_id] = _brought_up(spec, attempt)
        nodes[node_id] = _named(first, spec, attempt)
    return ClusterState(shape.shape.generation, NodeAttemptId(len(nodes) + 1), nodes)


def _brought_up(spec: LogicalNodeSpec, attempt: NodeAttemptId) -> ManagedNode:
    """A node alone, from its first action to ready."""
    node = transitions.fresh_node(attempt, spec, _NOW)
    while not node.record.ready:
        action = reconcile_node(node, spec, _NOW).action
        assert isinstance(action, Dispatch), f"{spec.logical_node_id}: {action}"
        applied = transitions.apply(node, action, _NOW, _RETRY)
        assert applied is not None, f"{spec.logical_node_id} is gone"
        node = _answered(applied, action.effect)
    return node


def _named(ready: ManagedNode, spec: LogicalNodeSpec, attempt: NodeAttemptId) -> ManagedNode:
    """The ready node as the one of this spec."""
    record = ready.record
    assert record.bootstrap is not None, f"{record.logical_node_id}: ready without a bootstrap"
    assert record.swactor is not None, f"{record.logical_node_id}: ready without a join"
    record = replace(
        record,
        logical_node_id=spec.logical_node_id,
        desired=spec,
        lease=LeaseFacts(spec.provider, _lease_id(spec.logical_node_id, attempt)),
        bootstrap=replace(record.bootstrap, session_id=BootstrapSessionId(attempt)),
        swactor=replace(record.swactor, swactor_id=SwactorId(spec.logical_node_id)),
    )
    return replace(ready, attempt=attempt, record=record)


def _lease_id(node_id: LogicalNodeId, attempt: NodeAttemptId) -> ProviderLeaseId:
    return ProviderLeaseId(f"{node_id}/{attempt}")


class _Stage:
    """The state, and what the driver does with it."""

    def __init__(self, old: ExpandedShape, new: ExpandedShape) -> None:
        self.state = converged_state(old)
        self.work = 0
        self._new = new

    def wave(self) -> Wave | None:
        """Passes until nothing is left to do but to wait for answers, then the answers; None:
        there was nothing to do."""
        steps: dict[str, list[LogicalNodeId]] = {}
        effects: list[PlannedEffect] = []
        while True:
            plan = reconcile(self.state, self._new, _NOW)
            for action in plan.actions:
                self._apply(action)
                steps.setdefault(_name(action), []).append(action.node)
                if isinstance(action, Dispatch):
                    effects.append(action.effect)
            self.work += sum(not node.record.ready for node in self.state.nodes.values())
            if all(isinstance(action, Dispatch) for action in plan.actions):
                break  # As in the driver: an effect alone asks for no further pass.
        for effect in effects:
            self.state.nodes[effect.node] = _answered(self.state.nodes[effect.node], effect)
        if not steps:
            return None
        told = tuple(Step(name, tuple(nodes)) for name, nodes in steps.items())
        return Wave(told, plan.held_back)

    def _apply(self, action: NodeAction) -> None:
        refusal = transitions.refusal(self.state, action)
        assert refusal is None, f"a plan that does not fit its own state: {refusal}"
        node = transitions.apply(self.state.nodes.get(action.node), action, _NOW, _RETRY)
        if isinstance(action, Insert | Restart):
            following = NodeAttemptId(self.state.next_attempt_id + 1)
            self.state = replace(self.state, next_attempt_id=following)
        if node is None:
            del self.state.nodes[action.node]
        else:
            self.state.nodes[action.node] = node


def _name(action: NodeAction) -> str:
    if isinstance(action, Dispatch):
        return kind_of(action.effect.command).value
    return _NAMES[type(action).__name__]


_NAMES = {
    "Insert": "insert",
    "BeginDelete": "begin_delete",
    "MarkDestroyed": "mark_destroyed",
    "Restart": "restart",
    "Reap": "reap",
}


def _answered(node: ManagedNode, effect: PlannedEffect) -> ManagedNode:
    """The node after its call has succeeded; one that was started joins at once."""
    outcome = _success(node, effect)
    node = observe(node, OperationSucceeded(effect.operation, outcome), _NOW, _RETRY)
    if isinstance(outcome, BootstrapStarted):
        joined = SwactorJoined(outcome.session_id, SwactorId(effect.node))
        node = observe(node, joined, _NOW, _RETRY)
    return node


def _success(node: ManagedNode, effect: PlannedEffect) -> OperationOutcome:
    match effect.command:
        case CreateLease(spec):
            lease_id = _lease_id(effect.node, node.attempt)
            return LeaseCreated(LeaseFacts(spec.provider, lease_id), _ENDPOINT)
        case LookupEndpoint():
            return EndpointLookup(_ENDPOINT)
        case StartBootstrap():
            return BootstrapStarted(BootstrapSessionId(node.attempt))
        case BootstrapConvergenceObserved():
            return BootstrapConvergenceAccepted()
        case CancelBootstrap():
            return BootstrapCancelled()
        case DestroyLease():
            return LeaseDestroyed()
        case _:
            assert_never(effect.command)

"""Places: how many operations a limit lets run at once, and whose turn is next (design rule 28).

Rules for what may live here: it reads one action or one node.  Who counts together, and what is
held back, is for `reconcile` and `incremental`, which both go by what stands here.

Places go first to the nodes that have failed least and asked least: in plain id order, nodes whose
creates hang for ever would keep the ones behind them from ever being tried (§14.12).
"""

from cluster_reconciler.decider.plan import Dispatch, NodeAction
from cluster_reconciler.decider.state import ManagedNode
from cluster_reconciler.messages import (
    DEFAULT_IN_FLIGHT,
    ClusterShape,
    LogicalNodeId,
    OperationKind,
    ProviderKind,
    is_adopt_only,
    kind_of,
)

_HAND_OVER = OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED
_ACQUIRING = frozenset(
    {OperationKind.CREATE_LEASE, OperationKind.LOOKUP_ENDPOINT, OperationKind.START_BOOTSTRAP}
)

Gate = tuple[ProviderKind, bool]
"""Where a limit counts: a provider, and whether the operations release rather than acquire."""

Turn = tuple[int, int, LogicalNodeId]
"""What a node's place in the queue of its gate goes by, least first."""


def gate_of(action: NodeAction, node: ManagedNode | None) -> Gate | None:
    """Where the action must find a place; None: it needs none.  An attempt counts against its own
    provider, whatever its slot's latest spec says."""
    if not isinstance(action, Dispatch):
        return None
    assert node is not None, f"{action.node}: an effect of a node that is not there"
    command = action.effect.command
    return _gate(node, kind_of(command), is_adopt_only(command))


def occupied_gate(node: ManagedNode) -> Gate | None:
    """Where the node's pending operation holds a place; None: nowhere."""
    pending = node.pending
    return None if pending is None else _gate(node, pending.kind, pending.adopt_only)


def turn_of(node: ManagedNode) -> Turn:
    """When it is the node's turn."""
    failures = node.retry.consecutive_failures
    return failures, node.next_operation_sequence, node.record.logical_node_id


def places_of(gate: Gate, shape: ClusterShape) -> int:
    """How many operations may be in flight there at once."""
    limit = shape.limits.get(gate[0])
    return limit.in_flight if limit else DEFAULT_IN_FLIGHT


def _gate(node: ManagedNode, kind: OperationKind, adopt_only: bool) -> Gate | None:
    if kind is _HAND_OVER:
        return None
    return (node.record.desired.provider, adopt_only or kind not in _ACQUIRING)

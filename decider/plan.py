"""What a decision can say: driver transitions and effects, as data (spec §6).

Every action carries the identity or precondition that makes it safe to apply after the state has
changed under it.
"""

from datetime import datetime

from msgspec import Struct

from cluster_reconciler.messages import (
    ClusterShape,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    PlannedEffect,
)

UNASSIGNED = NodeAttemptId(0)
"""Stands in a decision about one node; `reconcile` puts the allocated id in its place."""


class Insert(Struct, frozen=True, gc=False, tag=True):
    """A slot that is desired and empty gets its first attempt."""

    attempt: NodeAttemptId
    desired: LogicalNodeSpec

    @property
    def node(self) -> LogicalNodeId:
        """The slot."""
        return self.desired.logical_node_id


class BeginDelete(Struct, frozen=True, gc=False, tag=True):
    """The attempt is not wanted any more; never taken back (§4.5)."""

    node: LogicalNodeId
    expected_attempt: NodeAttemptId


class MarkDestroyed(Struct, frozen=True, gc=False, tag=True):
    """Nothing of the attempt is left."""

    node: LogicalNodeId
    expected_attempt: NodeAttemptId


class Restart(Struct, frozen=True, gc=False, tag=True):
    """A destroyed attempt's slot gets a fresh one, from the latest desired spec."""

    node: LogicalNodeId
    expected_attempt: NodeAttemptId
    new_attempt: NodeAttemptId
    desired: LogicalNodeSpec


class Reap(Struct, frozen=True, gc=False, tag=True):
    """A destroyed attempt's slot goes."""

    node: LogicalNodeId
    expected_attempt: NodeAttemptId


class Dispatch(Struct, frozen=True, gc=False, tag=True):
    """Record the operation as pending, then submit its effect."""

    effect: PlannedEffect

    @property
    def node(self) -> LogicalNodeId:
        """The slot."""
        return self.effect.node


NodeAction = Insert | BeginDelete | MarkDestroyed | Restart | Reap | Dispatch

ALLOCATED = (Insert, Restart)
"""The actions that bring a new attempt."""


class NodeDecision(Struct, frozen=True, gc=False):
    """What one node's next step is, and when it must be looked at again without an event."""

    action: NodeAction | None = None
    requeue_at: datetime | None = None


class ReconcilePlan(Struct, frozen=True, gc=False):
    """One pass's decisions."""

    actions: tuple[NodeAction, ...]
    """At most one for each node, sorted by node id."""
    observed_generation: int
    requeue_at: datetime | None = None
    """The earliest deadline that needs another pass without an event."""
    held_back: tuple[LogicalNodeId, ...] = ()
    """Sorted: nodes whose effect waits for a place under its provider's limit (design rule 28)."""
    allocator_exhausted: bool = False
    """Some node needs an attempt and there is no attempt id left."""


class ExpandedShape(Struct, frozen=True, gc=False):
    """A checked shape and its nodes, made once for each generation."""

    shape: ClusterShape
    nodes: dict[LogicalNodeId, LogicalNodeSpec]


def expand_shape(shape: ClusterShape, previous: ExpandedShape | None = None) -> ExpandedShape:
    """Check and expand; raises ShapeError.  Specs that equal the previous generation's are the
    same objects as there, so that a decision about an unchanged node compares by identity."""
    nodes = shape.expand()
    if previous is not None:
        for node_id, spec in nodes.items():
            before = previous.nodes.get(node_id)
            if before is not None and before == spec:
                nodes[node_id] = before
    return ExpandedShape(shape.canonical(), nodes)

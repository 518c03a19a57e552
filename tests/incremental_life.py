"""Some nodes of group g, and an incremental reconciler that is told of their changes.

Each plan that is asked for is held to the full one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ExpandedShape,
    IncrementalReconciler,
    ManagedNode,
    NodeDecision,
    ReconcilePlan,
    expand_shape,
    reconcile,
    reconcile_node,
)
from cluster_reconciler.decider.transitions import apply
from cluster_reconciler.messages import (
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
)
from tests.decider_words import (
    POLICY,
    SPEC,
    at,
    group,
    shape,
)


class Life:
    """Some nodes of group g, and the reconciler that is told of their changes."""

    def __init__(
        self, *nodes: ManagedNode, count: int | None = None, in_flight: int = 64, next_attempt: int
    ) -> None:
        self.nodes = {node.record.logical_node_id: node for node in nodes}
        self.next_attempt = next_attempt
        self.incremental = IncrementalReconciler()
        self.in_flight = in_flight
        self.desired = self.wanted(1, len(nodes) if count is None else count)

    def wanted(
        self, generation: int, count: int, previous: ExpandedShape | None = None
    ) -> ExpandedShape:
        limits = {"memory": self.in_flight}
        return expand_shape(
            shape(group(count=count), generation=generation, limits=limits), previous
        )

    def put(self, *nodes: ManagedNode) -> None:
        for node in nodes:
            self.nodes[node.record.logical_node_id] = node
            self.incremental.touch(node.record.logical_node_id)

    @property
    def state(self) -> ClusterState:
        return ClusterState(0, NodeAttemptId(self.next_attempt), self.nodes)

    def plan(self, seconds: float = 0) -> ReconcilePlan:
        """From what is kept, with the names of all who wait; it must be the full one."""
        plan = self.incremental.reconcile(self.state, self.desired, at(seconds))
        named = replace(plan, held_back=self.incremental.held_back())
        assert named == reconcile(self.state, self.desired, at(seconds))
        return named

    def dispatch(self, plan: ReconcilePlan, seconds: float = 0) -> None:
        """Apply every effect of the plan."""
        for action in plan.actions:
            assert isinstance(action, Dispatch)
            after = apply(self.nodes[action.node], action, at(seconds), POLICY)
            assert after is not None
            self.put(after)


def named(node: ManagedNode, number: int) -> ManagedNode:
    """The same in slot g-NUMBER."""
    name = LogicalNodeId(f"g-{number}")
    join = replace(SPEC.swarm_join, expected_logical_node_id=name)
    desired = replace(node.record.desired, logical_node_id=name, swarm_join=join)
    return replace(
        node,
        attempt=NodeAttemptId(number + 1),
        record=replace(node.record, logical_node_id=name, desired=desired),
    )


def many(node: ManagedNode, count: int) -> tuple[ManagedNode, ...]:
    return tuple(named(node, number) for number in range(count))


def told(plan: ReconcilePlan) -> list[tuple[str, LogicalNodeId]]:
    """Who does what."""
    return [
        (type(a.effect.command if isinstance(a, Dispatch) else a).__name__, a.node)
        for a in plan.actions
    ]


@contextmanager
def decisions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LogicalNodeId]]:
    """The nodes that are decided meanwhile, each time that they are."""
    decided: list[LogicalNodeId] = []

    def watched(node: ManagedNode, spec: LogicalNodeSpec | None, now: datetime) -> NodeDecision:
        decided.append(node.record.logical_node_id)
        return reconcile_node(node, spec, now)

    with monkeypatch.context() as patch:
        patch.setattr("cluster_reconciler.decider.incremental.reconcile_node", watched)
        yield decided

"""Which nodes a replayed pass need look at, so that its cost follows what happens and not the size
of the cluster.

A node that decided to wait decides the same until it is changed, until the moment that it waits
for, or until another shape is desired.  Only the others, and those that compete with them for a
provider's places, can act.  Whoever uses this checks the outcome against the trace's digest and
runs the pass over all nodes where it does not fit: a wrong guess here costs time and nothing else.
"""

import heapq
from collections.abc import Container, Iterable
from datetime import datetime

from cluster_reconciler.decider import ClusterState, ExpandedShape, ManagedNode
from cluster_reconciler.decider.node import is_steady, reconcile_node
from cluster_reconciler.messages import DEFAULT_IN_FLIGHT, LogicalNodeId


class Agenda:
    """Kept up to date with every change of a node and every pass."""

    def __init__(self) -> None:
        self._desired: ExpandedShape | None = None
        self._open: set[LogicalNodeId] = set()
        """Changed since they were last looked at, held back by a limit, or missing."""
        self._wakes: dict[LogicalNodeId, datetime] = {}
        self._heap: list[tuple[datetime, LogicalNodeId]] = []
        """May hold moments that are not in `_wakes` any more."""
        self._busy: set[LogicalNodeId] = set()
        self._unsteady: set[LogicalNodeId] = set()
        """Present, and not ready as wanted."""
        self._places = 0

    def changed(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        """The node is another value now; None: it is gone."""
        self._open.add(node_id)
        self._wakes.pop(node_id, None)
        self._busy.discard(node_id)
        self._unsteady.discard(node_id)
        if node is None:
            return
        if node.pending is not None:
            self._busy.add(node_id)
        if not self._is_steady(node_id, node):
            self._unsteady.add(node_id)

    def subset(
        self, state: ClusterState, desired: ExpandedShape, now: datetime
    ) -> set[LogicalNodeId]:
        """The nodes that can act now, with those that must be seen for the pass to decide as it
        would over all: what is in flight, where places may be short, and one more that is not
        ready."""
        if desired is not self._desired:
            self._take(desired, state)
        while self._heap and self._heap[0][0] <= now:
            moment, node_id = heapq.heappop(self._heap)
            if self._wakes.get(node_id) == moment:
                del self._wakes[node_id]
                self._open.add(node_id)
        chosen = {n for n in self._open if n in state.nodes or n in desired.nodes}
        self._open = set(chosen)
        if chosen and len(self._busy) + len(chosen) > self._places:
            chosen |= self._busy
        other = next((node_id for node_id in self._unsteady if node_id not in chosen), None)
        return chosen if other is None else chosen | {other}

    def passed(
        self,
        looked_at: Iterable[LogicalNodeId],
        touched: set[LogicalNodeId],
        held_back: Container[LogicalNodeId],
        state: ClusterState,
        now: datetime,
    ) -> None:
        """A pass is over; `touched` are told to `changed` as well, those held back stay open."""
        assert self._desired is not None, "a pass without a subset"
        for node_id in looked_at:
            node = state.nodes.get(node_id)
            if node is None or node_id in touched or node_id in held_back:
                continue
            if node.pending is not None:  # Its result or its expiry changes it.
                self._open.discard(node_id)
                continue
            decision = reconcile_node(node, self._desired.nodes.get(node_id), now)
            if decision.action is not None:
                self._open.add(node_id)
                continue
            self._open.discard(node_id)
            if decision.requeue_at is not None:
                self._wakes[node_id] = decision.requeue_at
                heapq.heappush(self._heap, (decision.requeue_at, node_id))
        if len(self._heap) > 4 * len(self._wakes) + 64:
            self._heap = sorted((moment, node_id) for node_id, moment in self._wakes.items())

    def _take(self, desired: ExpandedShape, state: ClusterState) -> None:
        """Another shape: everybody is to be looked at."""
        self._desired = desired
        self._places = min(
            (limit.in_flight for limit in desired.shape.limits.values()), default=DEFAULT_IN_FLIGHT
        )
        self._places = min(self._places, DEFAULT_IN_FLIGHT)
        self._open = set(state.nodes) | set(desired.nodes)
        self._unsteady = {n for n, node in state.nodes.items() if not self._is_steady(n, node)}

    def _is_steady(self, node_id: LogicalNodeId, node: ManagedNode) -> bool:
        spec = self._desired.nodes.get(node_id) if self._desired is not None else None
        return spec is not None and is_steady(node, spec)

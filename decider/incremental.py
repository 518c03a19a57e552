"""The plan of `reconcile`, at the cost of what has changed and not of the size of the cluster.

Rules for what may live here: no rule of its own.  A node is decided by `reconcile_node`, places go
by `places`, ids by `number`; what stands here is only when a decision may be kept.  Pure in this
sense: what it answers follows from what it was told, in that order, and from the time it is given.

Theory of operation.  A decision reads the node's value, its spec, and the moments that the value
holds.  It is kept until one of them is another: the owner of the state says which values it has put
(`touch`), a new shape is compared spec by spec (by identity: `expand_shape` keeps equal ones), and
a heap tells which moments have come.  Two more kinds are open again at the next pass: a node whose
action was in the plan (the action may have been found stale), and, among those that wait for a
place under a limit, the ones whose turn it is: they stand in a queue for each gate, with their
decisions.

A queue or heap is never searched: an entry counts only while its decision is the one that is kept.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from typing import Generic, TypeVar

from cluster_reconciler.decider.convergence import is_converged
from cluster_reconciler.decider.node import is_steady, reconcile_node
from cluster_reconciler.decider.observe import is_overdue
from cluster_reconciler.decider.places import Gate, Turn, gate_of, occupied_gate, places_of, turn_of
from cluster_reconciler.decider.plan import (
    ExpandedShape,
    NodeAction,
    NodeDecision,
    ReconcilePlan,
)
from cluster_reconciler.decider.reconcile import number
from cluster_reconciler.decider.state import ClusterState, ManagedNode
from cluster_reconciler.decider.steps import NOTHING, insert, next_moment
from cluster_reconciler.messages import LogicalNodeId

Key = TypeVar("Key", datetime, Turn)

STALE_MIN = 64
"""Fewer entries than this, beyond twice the decisions that are kept, are not worth clearing out."""


class _Heap(Generic[Key]):
    """Nodes by a key, the least first."""

    def __init__(self, kept: Mapping[LogicalNodeId, NodeDecision]) -> None:
        self._kept = kept
        self._entries: list[tuple[Key, int, LogicalNodeId, NodeDecision]] = []
        self._order = count()
        """Distinct, so that equal keys never make the heap compare what stands behind them."""

    def put(self, key: Key, node_id: LogicalNodeId, decision: NodeDecision) -> None:
        if len(self._entries) >= 2 * len(self._kept) + STALE_MIN:
            self._entries = [e for e in self._entries if self._kept.get(e[2]) is e[3]]
            heapq.heapify(self._entries)
        heapq.heappush(self._entries, (key, next(self._order), node_id, decision))

    def first(self) -> Key | None:
        while self._entries:
            key, _, node_id, decision = self._entries[0]
            if self._kept.get(node_id) is decision:
                return key
            heapq.heappop(self._entries)
        return None

    def take(self) -> LogicalNodeId:
        """The one whose key `first` has answered; once."""
        return heapq.heappop(self._entries)[2]


class IncrementalReconciler:
    """Keeps the decisions of one cluster; the owner of its state tells every change by `touch`."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Decide everything anew in the next pass."""
        self._nodes: dict[LogicalNodeId, ManagedNode] | None = None
        """The map that the decisions are of: another one is another cluster."""
        self._desired: ExpandedShape | None = None
        self._open: set[LogicalNodeId] = set()
        """To be decided anew in the next pass."""
        self._kept: dict[LogicalNodeId, NodeDecision] = {}
        """The latest decision of each node that is not steady, and of each empty slot."""
        self._alarms: _Heap[datetime] = _Heap(self._kept)
        """By `requeue_at`.  One that is overdue stays until the node is decided anew."""
        self._moments: _Heap[datetime] = _Heap(self._kept)
        """By the moment at which the table may answer otherwise."""
        self._queues: defaultdict[Gate, _Heap[Turn]] = defaultdict(lambda: _Heap(self._kept))
        """Those whose effect waits for a place, by the turn of each."""
        self.waiting: set[LogicalNodeId] = set()
        """The same, of the latest plan."""
        self._occupied: dict[LogicalNodeId, Gate] = {}
        """Where each pending operation holds its place."""
        self._in_flight: defaultdict[Gate, int] = defaultdict(int)

    def touch(self, node_id: LogicalNodeId) -> None:
        """The node is another value now, or has come, or gone."""
        self._open.add(node_id)

    def reconcile(
        self, observed: ClusterState, desired: ExpandedShape, now: datetime
    ) -> ReconcilePlan:
        """What `reconcile` answers, but for `held_back`, which is left empty: naming all who wait
        would cost as much as there are of them.  See `held_back`."""
        if observed.nodes is not self._nodes or desired is not self._desired:
            self._open_what_is_new(observed, desired)
        while (moment := self._moments.first()) is not None and moment <= now:
            self._open.add(self._moments.take())
        opened, self._open = self._open, set()
        actions: list[NodeAction] = []
        for node_id in opened:
            self._decide(node_id, observed, desired, now, actions)
        for gate, queue in self._queues.items():
            if queue.first() is None:
                continue
            places = places_of(gate, desired.shape) - self._in_flight[gate]
            while places > 0 and queue.first() is not None:
                node_id = queue.take()
                self.waiting.remove(node_id)
                self._act(node_id, actions)
                places -= 1
        numbered, exhausted = number(actions, observed.next_attempt_id)
        generation, requeue_at = desired.shape.generation, self._alarms.first()
        return ReconcilePlan(tuple(numbered), generation, requeue_at, (), exhausted)

    def held_back(self) -> tuple[LogicalNodeId, ...]:
        """Of the latest plan: sorted, all whose effect waits for a place under a limit."""
        return tuple(sorted(self.waiting))

    def overdue(self, observed: ClusterState, now: datetime) -> list[LogicalNodeId]:
        """Sorted: all of whom something `is_overdue`."""
        nodes = observed.nodes
        if nodes is not self._nodes:
            self._open.update(nodes)
        while (alarm := self._alarms.first()) is not None and alarm <= now:
            self._open.add(self._alarms.take())
        return sorted(n for n in self._open if n in nodes and is_overdue(nodes[n], now))

    def is_converged(self, observed: ClusterState, desired: ExpandedShape) -> bool:
        """What `is_converged` answers; only after a pass over this shape."""
        nodes, specs = observed.nodes, desired.nodes
        if nodes is not self._nodes:
            return is_converged(observed, desired)
        if len(nodes) != len(specs) or not self._kept.keys() <= self._open:
            return False
        return all(n in nodes and is_steady(nodes[n], specs[n]) for n in self._open if n in specs)

    def _open_what_is_new(self, observed: ClusterState, desired: ExpandedShape) -> None:
        if observed.nodes is not self._nodes:
            self.forget()
            self._nodes = observed.nodes
            self._open.update(observed.nodes)
        old = self._desired.nodes if self._desired is not None else {}
        new, self._desired = desired.nodes, desired
        self._open.update(n for n in old.keys() | new.keys() if old.get(n) is not new.get(n))

    def _decide(
        self,
        node_id: LogicalNodeId,
        observed: ClusterState,
        desired: ExpandedShape,
        now: datetime,
        actions: list[NodeAction],
    ) -> None:
        """Keep what the node decides.  Its action is added, or waits for its turn."""
        node, spec = observed.nodes.get(node_id), desired.nodes.get(node_id)
        self._count(node_id, node)
        self.waiting.discard(node_id)
        if node is not None:
            decision = reconcile_node(node, spec, now)
        else:
            decision = NOTHING if spec is None else insert(spec)
        if decision is NOTHING:
            self._kept.pop(node_id, None)
            return
        self._kept[node_id] = decision
        if decision.requeue_at is not None:
            self._alarms.put(decision.requeue_at, node_id, decision)
        if decision.action is not None:
            gate = gate_of(decision.action, node)
            if gate is None or node is None:
                self._act(node_id, actions)
                return
            self._queues[gate].put(turn_of(node), node_id, decision)
            self.waiting.add(node_id)
        if node is not None and (moment := next_moment(node, now)) is not None:
            self._moments.put(moment, node_id, decision)

    def _act(self, node_id: LogicalNodeId, actions: list[NodeAction]) -> None:
        """Its action is in the plan; should it be found stale, the node must decide anew."""
        action = self._kept[node_id].action
        assert action is not None, f"{node_id}: its turn has come, and it has no action"
        actions.append(action)
        self._open.add(node_id)

    def _count(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        """Where the node's pending operation holds a place, and no other one of it."""
        before = self._occupied.pop(node_id, None)
        if before is not None:
            self._in_flight[before] -= 1
        gate = occupied_gate(node) if node is not None else None
        if gate is not None:
            self._occupied[node_id] = gate
            self._in_flight[gate] += 1

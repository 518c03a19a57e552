"""The pure decider: desired and observed state in, one plan out (spec §6, §8).

Rules for what may live here: it reads two snapshots and `now`, and mutates neither.  The same input
gives the same plan, always.  It never asks what event brought it here.

Theory of operation.  Each node decides for itself (`node.py`).  Three things concern several nodes
and are done here: slots that exist on one side only, attempt ids (handed out in id order, from the
snapshot's allocator on), and the places that a provider's limit leaves (`places.py`).

This is the definition of a plan.  `incremental.py` comes to the same one at the cost of what has
changed.
"""

from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from cluster_reconciler.decider.node import is_steady, reconcile_node
from cluster_reconciler.decider.places import Gate, Turn, gate_of, occupied_gate, places_of, turn_of
from cluster_reconciler.decider.plan import (
    ALLOCATED,
    ExpandedShape,
    Insert,
    NodeAction,
    NodeDecision,
    ReconcilePlan,
    expand_shape,
)
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX, ClusterState
from cluster_reconciler.decider.steps import ACTIVE, insert
from cluster_reconciler.messages import ClusterShape, LogicalNodeId, NodeAttemptId

_NODE = attrgetter("node")


def reconcile(
    observed: ClusterState, desired: ClusterShape | ExpandedShape, now: datetime
) -> ReconcilePlan:
    """Every node's next step (§6).  Raises ShapeError for a `ClusterShape` that is not valid."""
    expanded = desired if isinstance(desired, ExpandedShape) else expand_shape(desired)
    decisions = _decisions(observed, expanded, now)
    admitted, held_back = _admit(decisions, observed, expanded.shape)
    actions, exhausted = number(admitted, observed.next_attempt_id)
    return ReconcilePlan(
        actions=tuple(actions),
        observed_generation=expanded.shape.generation,
        requeue_at=min((d.requeue_at for d in decisions if d.requeue_at is not None), default=None),
        held_back=tuple(sorted(held_back)),
        allocator_exhausted=exhausted,
    )


def _decisions(
    observed: ClusterState, expanded: ExpandedShape, now: datetime
) -> list[NodeDecision]:
    """What every node that is not steady decides; one pass over each side (§8)."""
    nodes, specs = observed.nodes, expanded.nodes
    missing = 0
    decisions = []
    for node_id, spec in specs.items():
        node = nodes.get(node_id)
        if node is None:
            missing += 1
            decisions.append(insert(spec))
        elif (
            # `is_steady` without the call, which costs more than all that it asks; most nodes of
            # most passes end here.
            node.pending is None
            and (record := node.record).desired is spec
            and record.ready
            and node.intent is ACTIVE
        ):
            continue
        elif not is_steady(node, spec):
            decisions.append(reconcile_node(node, spec, now))
    if len(specs) - missing < len(nodes):
        decisions.extend(
            reconcile_node(node, None, now)
            for node_id, node in nodes.items()
            if node_id not in specs
        )
    return decisions


def _admit(
    decisions: list[NodeDecision], observed: ClusterState, shape: ClusterShape
) -> tuple[list[NodeAction], list[LogicalNodeId]]:
    """The actions that may be done now, and the nodes whose effect must wait for a place."""
    admitted: list[NodeAction] = []
    contenders: dict[Gate, list[tuple[Turn, NodeAction]]] = {}
    for decision in decisions:
        action = decision.action
        if action is None:
            continue
        node = observed.nodes.get(action.node)
        gate = gate_of(action, node)
        if gate is None or node is None:
            admitted.append(action)
        else:
            contenders.setdefault(gate, []).append((turn_of(node), action))
    if not contenders:
        return admitted, []
    held_back: list[LogicalNodeId] = []
    occupied = in_flight(observed)
    for gate, turns in contenders.items():
        places = max(places_of(gate, shape) - occupied.get(gate, 0), 0)
        turns.sort(key=lambda contender: contender[0])
        admitted.extend(action for _, action in turns[:places])
        held_back.extend(action.node for _, action in turns[places:])
    return admitted, held_back


def in_flight(observed: ClusterState) -> dict[Gate, int]:
    """How many operations are pending, by where they count."""
    counts: dict[Gate, int] = {}
    for node in observed.nodes.values():
        if node.pending is not None and (gate := occupied_gate(node)) is not None:
            counts[gate] = counts.get(gate, 0) + 1
    return counts


def number(
    actions: list[NodeAction], next_attempt_id: NodeAttemptId
) -> tuple[list[NodeAction], bool]:
    """Sorted by node id, with attempt ids put in; what finds no id left is dropped (rule 6)."""
    numbered: list[NodeAction] = []
    exhausted = False
    for action in sorted(actions, key=_NODE):
        if not isinstance(action, ALLOCATED):
            numbered.append(action)
        elif next_attempt_id >= ATTEMPT_ID_MAX:  # The driver could not advance past it.
            exhausted = True
        else:
            attempt, next_attempt_id = next_attempt_id, NodeAttemptId(next_attempt_id + 1)
            if isinstance(action, Insert):
                numbered.append(Insert(attempt, action.desired))
            else:
                numbered.append(replace(action, new_attempt=attempt))
    return numbered, exhausted

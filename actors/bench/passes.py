"""The cost of a pass over a converged cluster, and of planning after one event.

Only `decider` is measured here: no driver, no message.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct

from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.replies import POLICY
from cluster_reconciler.actors.bench.stopwatch import quiet, spread, took, took_briefly
from cluster_reconciler.decider import ClusterState, IncrementalReconciler, observe, reconcile
from cluster_reconciler.messages import LogicalNodeId, NodeLost


class PassCost(Struct, frozen=True):
    """Microseconds, each the least of all turns: what others who use the machine cost us is only
    ever added."""

    full: float
    """CPU time."""
    walk: float
    """CPU time."""
    after_one_event: float
    """Wall time; of a turn the median of its nodes counts."""


def pass_cost(ready: Ready, *, turns: int, planned: int) -> PassCost:
    """All three on the same cluster, in turns, once all of its nodes are stable; in each turn so
    many nodes are planned after one event, or all, where there are fewer."""
    state, desired = ready.copy(), ready.desired
    now = _when_stable(state)
    planner = IncrementalReconciler()
    planner.reconcile(state, desired, now)
    nodes = list(state.nodes)

    def full() -> None:
        actions = reconcile(state, desired, now).actions
        assert not actions, "there is something to do"

    def walk() -> None:
        found = bare_walk(state, desired.nodes)
        assert found == len(state.nodes), "something is pending"

    fulls, walks, plans = [], [], []
    with quiet():
        for turn in range(turns):
            fulls.append(took(full))
            walks.append(took(walk))
            first = turn % len(nodes)  # Each turn has other nodes, if there are so many.
            chosen = spread(nodes[first:] + nodes[:first], planned)
            plans.append(median(_after_loss(planner, state, ready, now, n) for n in chosen))
    return PassCost(min(fulls), min(walks), min(plans))


def bare_walk(state: ClusterState, wanted: Iterable[LogicalNodeId]) -> int:
    """Look up each desired id in the state's map and read one field of what is there: the least
    that any pass which looks at every node has to do."""
    nodes = state.nodes
    found = 0
    for node_id in wanted:
        if nodes[node_id].pending is None:
            found += 1
    return found


def _after_loss(
    planner: IncrementalReconciler,
    state: ClusterState,
    ready: Ready,
    now: datetime,
    node_id: LogicalNodeId,
) -> float:
    """Of the plan alone; the state is put back."""
    before = state.nodes[node_id]
    state.nodes[node_id] = observe(before, NodeLost("its power failed"), now, POLICY)
    planner.touch(node_id)

    def plan() -> None:
        actions = planner.reconcile(state, ready.desired, now).actions
        assert len(actions) == 1, f"one node was lost, the plan has {len(actions)} actions"

    time = took_briefly(plan)
    state.nodes[node_id] = before
    planner.touch(node_id)
    planner.reconcile(state, ready.desired, now)
    return time


def _when_stable(state: ClusterState) -> datetime:
    latest = max(node.ready_at for node in state.nodes.values() if node.ready_at is not None)
    return latest + POLICY.stable_after + timedelta(seconds=1)

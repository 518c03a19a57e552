"""The cost of a pass over a converged cluster, and of planning after one event.

Only `decider` is measured here: no driver, no message.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct

from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.replies import POLICY
from cluster_reconciler.actors.bench.stopwatch import quiet, spread, took
from cluster_reconciler.decider import ClusterState, IncrementalReconciler, observe, reconcile
from cluster_reconciler.messages import LogicalNodeId, NodeLost

PASSES = 11
EVENTS = 301


class PassCost(Struct, frozen=True):
    """Microseconds of CPU time, each the median of several runs."""

    full: float
    walk: float
    after_one_event: float


def pass_cost(ready: Ready, *, passes: int = PASSES, events: int = EVENTS) -> PassCost:
    """All three on the same cluster, once all of its nodes are stable."""
    state, desired = ready.copy(), ready.desired
    now = _when_stable(state)

    def full() -> None:
        assert not reconcile(state, desired, now).actions, "there is something to do"

    def walk() -> None:
        assert bare_walk(state, desired.nodes) == len(state.nodes), "something is pending"

    with quiet():
        # In turns: what slows the machine down slows both.
        turns = [(took(full), took(walk)) for _ in range(passes)]
        after_one = _after_one_event(state, ready, now, events)
    return PassCost(median(turn[0] for turn in turns), median(turn[1] for turn in turns), after_one)


def bare_walk(state: ClusterState, wanted: Iterable[LogicalNodeId]) -> int:
    """Look up each desired id in the state's map and read one field of what is there: the least
    that any pass which looks at every node has to do."""
    nodes = state.nodes
    found = 0
    for node_id in wanted:
        if nodes[node_id].pending is None:
            found += 1
    return found


def _after_one_event(state: ClusterState, ready: Ready, now: datetime, events: int) -> float:
    """The state is put back after each."""
    planner = IncrementalReconciler()
    planner.reconcile(state, ready.desired, now)
    times = []
    for node_id in spread(state.nodes, events):
        before = state.nodes[node_id]
        state.nodes[node_id] = observe(before, NodeLost("its power failed"), now, POLICY)
        planner.touch(node_id)

        def plan() -> None:
            actions = planner.reconcile(state, ready.desired, now).actions
            assert len(actions) == 1, f"one node was lost, the plan has {len(actions)} actions"

        times.append(took(plan))
        state.nodes[node_id] = before
        planner.touch(node_id)
        planner.reconcile(state, ready.desired, now)
    return median(times)


def _when_stable(state: ClusterState) -> datetime:
    latest = max(node.ready_at for node in state.nodes.values() if node.ready_at is not None)
    return latest + POLICY.stable_after + timedelta(seconds=1)

"""The plan of what has changed is the plan of all nodes, whatever happened and whenever asked.

`IncrementalReconciler` keeps decisions; a kept one must never be another than the one that would be
made now.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    IncrementalReconciler,
    ManagedNode,
    is_converged,
    is_overdue,
    reconcile,
)
from cluster_reconciler.messages import LogicalNodeId
from tests.decider_world import Step, Trace, World
from tests.test_decider_random import STEPS

ASKED = st.sets(st.integers(0, 119))
"""After which steps the incremental one is asked as well; a pass may come to nothing."""


class WatchedWorld(World):
    """A world whose every change is told, and both ways to its plan."""

    def __init__(self, asked: set[int]) -> None:
        super().__init__()
        self.live = ClusterState(nodes={})
        """The same state, in one map that is changed in place, as the driver's is."""
        self.incremental = IncrementalReconciler()
        self.compared = 0
        self._asked = asked
        self._steps = 0

    def put(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        super().put(node_id, node)
        if node is None:
            self.live.nodes.pop(node_id, None)
        else:
            self.live.nodes[node_id] = node
        self.incremental.touch(node_id)

    def take(self, step: Step, number: int) -> None:
        super().take(step, number)
        if self._steps in self._asked:
            self.compare()
        self._steps += 1

    def reconcile(self) -> int:
        self.compare()
        done = super().reconcile()
        converged = self.incremental.is_converged(self.live, self.desired)
        assert converged == is_converged(self.state, self.desired)
        return done

    def compare(self) -> None:
        self.live = replace(self.state, nodes=self.live.nodes)
        assert self.live == self.state
        every = sorted(n for n, node in self.live.nodes.items() if is_overdue(node, self.now))
        assert self.incremental.overdue(self.live, self.now) == every
        plan = self.incremental.reconcile(self.live, self.desired, self.now)
        named = replace(plan, held_back=self.incremental.held_back())
        assert named == reconcile(self.state, self.desired, self.now)
        self.compared += 1


@settings(max_examples=250)
@given(st.lists(STEPS, min_size=15, max_size=120), ASKED)
def test_on_every_trace_the_incremental_plan_is_the_full_one(trace: Trace, asked: set[int]) -> None:
    world = WatchedWorld(asked)
    world.run(trace)
    world.compare()

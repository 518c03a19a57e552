"""The plan of what has changed is the plan of all nodes, whatever happened and whenever asked.

`IncrementalReconciler` keeps decisions; a kept one must never be another than the one that would be
made now.  Two kinds of life: histories, as a driver has them, and nodes in any consistent state at
all, put and taken away at will.  What is kept is compared as well: a decision that no plan shows
yet is wrong already.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    IncrementalReconciler,
    ManagedNode,
    expand_shape,
    incremental,
    is_converged,
    is_overdue,
    reconcile,
)
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from cluster_reconciler.messages import (
    LeaseCreated,
    LogicalNodeId,
    NodeAttemptId,
    OperationOutcome,
    PlannedEffect,
    ProviderKind,
)
from tests.decider_words import ONE, at, group, shape
from tests.decider_world import Step, Trace, World
from tests.kept_decisions import kept_by
from tests.test_decider_product import cases
from tests.test_decider_random import STEPS

ASKED = st.sets(st.integers(0, 119))
"""After which steps the incremental one is asked as well; a pass may come to nothing."""
CLEARED_OUT = st.sampled_from((incremental.STALE_MIN, 1, -4))
"""How soon a heap is cleared out; below 0: at nearly every change."""
FIRST_ATTEMPTS = st.sampled_from((1, 1, ATTEMPT_ID_MAX - 1, ATTEMPT_ID_MAX - 4))
"""The last ones leave a few attempts, or one."""


class Watched:
    """An incremental reconciler, held to the full one over the same nodes."""

    def __init__(self) -> None:
        self.incremental = IncrementalReconciler()
        self.nodes: dict[LogicalNodeId, ManagedNode] = {}
        """Changed in place, as the driver's are."""

    def put(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        """A change, told."""
        if node is None:
            self.nodes.pop(node_id, None)
        else:
            self.nodes[node_id] = node
        self.incremental.touch(node_id)

    def compare(self, desired: ExpandedShape, seconds: float, next_attempt: int) -> None:
        """Both at this moment: the plan, and whether it is converged; and what is kept then, beside
        one who sees all this for the first time."""
        ours, now = self.incremental, at(seconds)
        state = ClusterState(0, NodeAttemptId(next_attempt), self.nodes)
        plan = ours.reconcile(state, desired, now)
        assert replace(plan, held_back=ours.held_back()) == reconcile(state, desired, now)
        anew = IncrementalReconciler()
        assert anew.reconcile(state, desired, now) == plan
        assert kept_by(ours) == kept_by(anew)
        assert ours.is_converged(state, desired) == is_converged(state, desired)

    def compare_overdue(self, seconds: float) -> None:
        """What is overdue.  It opens what has come, and so hides what a plan should have seen: it
        is not asked before every plan."""
        now = at(seconds)
        every = sorted(n for n, node in self.nodes.items() if is_overdue(node, now))
        assert self.incremental.overdue(ClusterState(nodes=self.nodes), now) == every


class WatchedWorld(World):
    """A world whose every change is told, of two providers with their limits, and maybe with few
    attempt ids."""

    def __init__(self, asked: set[int], first_attempt: int) -> None:
        super().__init__()
        self.state = ClusterState(next_attempt_id=NodeAttemptId(first_attempt))
        self.watched = Watched()
        self._asked = asked
        self._steps = 0

    def put(self, node_id: LogicalNodeId, node: ManagedNode | None) -> None:
        super().put(node_id, node)
        self.watched.put(node_id, node)

    def take(self, step: Step, number: int) -> None:
        super().take(step, number)
        if self._steps in self._asked:
            self.compare()
        elif number % 2:
            self.watched.compare_overdue(self._seconds)
        self._steps += 1

    def reconcile(self) -> int:
        self.compare()
        done = super().reconcile()
        live = replace(self.state, nodes=self.watched.nodes)
        converged = self.watched.incremental.is_converged(live, self.desired)
        assert converged == is_converged(self.state, self.desired)
        return done

    def compare(self) -> None:
        assert self.watched.nodes == self.state.nodes
        self.watched.compare(self.desired, self._seconds, self.state.next_attempt_id)

    @property
    def _seconds(self) -> float:
        return (self.now - at(0)).total_seconds()

    def reshape(self, step: Step, number: int) -> None:
        """Another number of nodes on either provider, or another spec, or another limit."""
        self.generation += 1
        first = number % 4 if step is Step.RESIZE else len(self.desired.nodes)
        groups = (
            group(count=first, command=str(number % 2) if step is Step.CHANGE else ""),
            group("h", count=number % 3, provider="other"),
        )
        limits = {"memory": 1 + number % 2, "other": 1}
        wanted = shape(*groups, generation=self.generation, limits=limits)
        self.desired = expand_shape(wanted, self.desired)

    def happen(self, effect: PlannedEffect) -> OperationOutcome:
        outcome = super().happen(effect)
        if isinstance(outcome, LeaseCreated):
            provider = self.state.nodes[effect.node].record.desired.provider
            outcome = replace(outcome, lease=replace(outcome.lease, provider=provider))
        return outcome


@settings(max_examples=250)
@given(st.lists(STEPS, min_size=15, max_size=120), ASKED, FIRST_ATTEMPTS, CLEARED_OUT)
def test_on_every_trace_the_incremental_plan_is_the_full_one(
    trace: Trace, asked: set[int], first_attempt: int, stale_min: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "STALE_MIN", stale_min)
        world = WatchedWorld(asked, first_attempt)
        world.run(trace)
        world.compare()


# -- any state at all -----------------------------------------------------------------------------

GROUPS = {"g": "memory", "h": "other"}
NAMES = tuple(LogicalNodeId(f"{name}-{n}") for name in GROUPS for n in range(3))
MOMENTS = (0, 1, 50, 51, 1_000)
"""Seconds that go; the made states have deadlines at 99, 100, 101 and 150."""


class Put(Struct, frozen=True):
    """A slot holds another node."""

    node: LogicalNodeId
    case: int
    failures: int


class Take(Struct, frozen=True):
    """A slot is empty."""

    node: LogicalNodeId


class Wait(Struct, frozen=True):
    """Time goes."""

    seconds: float


class Want(Struct, frozen=True):
    """Another shape, the same specs where they are equal."""

    counts: tuple[int, int]
    command: str
    in_flight: tuple[int, int]


class Reload(Struct, frozen=True):
    """The owner of the state has another map from now on."""


class Plan(Struct, frozen=True):
    """A pass, whose actions nobody applies."""


class Judge(Struct, frozen=True):
    """Somebody asks what is overdue."""


Act = Put | Take | Wait | Want | Reload | Judge | Plan
NODES = st.sampled_from(NAMES)
COUNTS = st.sampled_from(((2, 2), (2, 2), (3, 1), (1, 3), (0, 0)))
LIMITS = st.tuples(st.integers(1, 3), st.integers(1, 2))
ACTS: st.SearchStrategy[Act] = st.one_of(
    st.builds(Put, NODES, st.integers(0, len(cases()) - 1), st.integers(0, 2)),
    st.builds(Put, NODES, st.integers(0, len(cases()) - 1), st.integers(0, 2)),
    st.builds(Take, NODES),
    st.builds(Wait, st.sampled_from(MOMENTS)),
    st.builds(Want, COUNTS, st.sampled_from(("", "another command")), LIMITS),
    st.builds(Reload),
    st.builds(Judge),
    st.builds(Plan),
    st.builds(Plan),
)


class MadeStates:
    """Nodes of any consistent kind; nothing is folded or applied, only put."""

    def __init__(self) -> None:
        self.watched = Watched()
        self.desired = expand_shape(shape(group(), limits={"memory": 1}))
        self.seconds = 98.0
        self.generation = 1

    def take(self, act: Act, next_attempt: int) -> None:
        """One act."""
        if isinstance(act, Put):
            self.watched.put(act.node, made(act))
        elif isinstance(act, Take):
            self.watched.put(act.node, None)
        elif isinstance(act, Wait):
            self.seconds += act.seconds
        elif isinstance(act, Want):
            self._want(act)
        elif isinstance(act, Reload):
            self.watched.nodes = dict(self.watched.nodes)
        elif isinstance(act, Judge):
            self.watched.compare_overdue(self.seconds)
        else:
            self.watched.compare(self.desired, self.seconds, next_attempt)

    def _want(self, act: Want) -> None:
        self.generation += 1
        groups = (
            group(name, count, provider=provider, command=act.command)
            for (name, provider), count in zip(GROUPS.items(), act.counts, strict=True)
        )
        limits = dict(zip(GROUPS.values(), act.in_flight, strict=True))
        wanted = shape(*groups, generation=self.generation, limits=limits)
        self.desired = expand_shape(wanted, self.desired)


MADE: tuple[ManagedNode, ...] = tuple(cases().values())


def made(act: Put) -> ManagedNode:
    """The node of that case, in that slot and on its provider, with so many failures behind it."""
    node = MADE[act.case]
    provider = ProviderKind(GROUPS[act.node[0]])
    desired = replace(
        node.record.desired,
        logical_node_id=act.node,
        group_id=act.node[0],
        provider=provider,
        swarm_join=replace(node.record.desired.swarm_join, expected_logical_node_id=act.node),
    )
    lease = node.record.lease
    record = replace(
        node.record,
        logical_node_id=act.node,
        group_id=act.node[0],
        desired=desired,
        lease=replace(lease, provider=provider) if lease is not None else None,
    )
    retry = replace(node.retry, consecutive_failures=act.failures)
    return replace(node, attempt=ONE, record=record, retry=retry)


@settings(max_examples=300)
@given(st.lists(ACTS, min_size=10, max_size=60), FIRST_ATTEMPTS, CLEARED_OUT)
def test_whatever_state_nodes_are_put_in_the_incremental_plan_is_the_full_one(
    acts: list[Act], next_attempt: int, stale_min: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "STALE_MIN", stale_min)
        states = MadeStates()
        for act in acts:
            states.take(act, next_attempt)
        states.take(Plan(), next_attempt)

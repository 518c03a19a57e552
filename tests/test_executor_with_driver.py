"""The real driver, executors and memory provider together, stepped: field cases of cases.md."""

from datetime import timedelta

import pytest

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.spawning import SteppingSpawner
from cluster_reconciler.actors.stepping import DEFAULT_START, SteppingCluster
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import Executors, MemoryProvider, SwarmTicket
from cluster_reconciler.messages import (
    AttemptIdentity,
    ClusterShape,
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    ProviderKind,
    RoleId,
    RunId,
    RunNodeGroupSpec,
)

RUN = RunId(7)


def shape(count: int, generation: int = 1) -> ClusterShape:
    group = RunNodeGroupSpec(RUN, NodeGroupId("g"), RoleId("worker"), count, ProviderKind("memory"))
    return ClusterShape(RUN, generation, (group,))


class World:
    """A stepped cluster whose executors are stepped as well."""

    def __init__(self, count: int = 1, settle: float = 0.0) -> None:
        self.clock = ManualClock(DEFAULT_START)
        self.provider = MemoryProvider(
            now=self.clock.now, settle_time=timedelta(seconds=settle), history_max=1000
        )
        self.spawner = SteppingSpawner(ActorSystem("test", self.clock, ticks=lambda: 0.0))
        self.executors = Executors(
            RUN,
            [self.provider],
            self.spawner,
            self.tell,
            self.clock.now,
            lambda identity: SwarmTicket("127.0.0.1:1", "token"),
        )
        self.cluster = SteppingCluster(
            shape(count), retry=RetryPolicy(jitter=0.0), executor=self.executors
        )

    def tell(self, message: object) -> None:
        self.cluster.tell(message)

    def settle(self) -> None:
        """Drive and pump until both are at rest."""
        self.cluster.drive()
        while self.spawner.pump():
            self.cluster.drive()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.advance(1)
            self.clock.set(self.cluster.now)
            self.settle()

    def live_as_the_state_says(self) -> bool:
        known = {
            AttemptIdentity(RUN, node_id, node.attempt)
            for node_id, node in self.cluster.state.nodes.items()
            if node.record.lease is not None
        }
        return known == self.provider.world.live and not self.provider.world.doubles


def identity(node: str, attempt: int) -> AttemptIdentity:
    return AttemptIdentity(RUN, LogicalNodeId(node), NodeAttemptId(attempt))


def test_a_cluster_converges_and_goes() -> None:
    world = World(count=5)
    world.settle()
    assert world.cluster.converged
    assert world.live_as_the_state_says()
    world.cluster.update_desired(shape(0, generation=2))
    world.settle()
    assert world.provider.world.live == frozenset()
    assert (world.executors.attempts, world.executors.recorded) == (0, 0)


def test_f1_a_create_whose_reply_is_lost_ends_on_one_machine() -> None:
    world = World()
    world.provider.script.create().lose_reply()
    world.settle()
    world.wait(5)
    assert world.cluster.converged
    assert world.live_as_the_state_says()
    assert world.provider.world.creations() == 1
    assert world.provider.world.story()[:2] == ["create_lease", "find_lease"]


def test_f4_a_killed_executor_ends_on_one_machine_and_the_others_are_ready_at_once() -> None:
    world = World(count=3)
    world.provider.script.create("g-1").fail_after_effect(SystemExit("killed"))
    world.settle()
    ready = {node_id: node.record.ready for node_id, node in world.cluster.state.nodes.items()}
    assert ready == {"g-0": True, "g-1": False, "g-2": True}
    world.wait(5)
    assert world.cluster.converged
    assert world.provider.world.creations("g-1") == 1
    assert world.live_as_the_state_says()


def test_f6_a_machine_deleted_by_hand_is_reaped_at_once() -> None:
    world = World()
    world.settle()
    assert world.provider.remove(identity("g-0", 1))
    world.cluster.update_desired(shape(0, generation=2))
    world.settle()
    assert world.cluster.state.nodes == {}


def test_a_delete_during_an_unknown_create_looks_and_never_rents() -> None:
    world = World(settle=5)
    world.provider.script.create().lose_reply()
    world.provider.read_lag = timedelta(seconds=4)
    world.settle()
    world.cluster.update_desired(shape(0, generation=2))
    world.settle()
    assert len(world.provider.world.live) == 1
    world.wait(10)
    assert world.provider.world.live == frozenset()
    assert world.provider.world.creations() == 1
    assert world.cluster.state.nodes == {}


@pytest.mark.parametrize("fault", ["lost start", "early end", "failing check", "wrong answer"])
def test_with_every_fault_of_a_start_the_node_comes_up_and_nothing_is_left(fault: str) -> None:
    world = World(count=2)
    start = world.provider.script.start("g-0", 1)
    match fault:
        case "lost start":
            start.lose_reply()
        case "early end":
            start.close_early()
        case "failing check":
            start.fail_later("test -w . failed")
        case _:
            start.answer("started", effect=True)
    world.settle()
    world.wait(10)
    assert world.cluster.converged
    assert world.live_as_the_state_says()
    assert len(world.provider.world.sessions) == 0


def test_two_hundred_attempts_that_fail_leave_nothing_behind() -> None:
    world = World()
    world.cluster = SteppingCluster(
        shape(1),
        retry=RetryPolicy(
            jitter=0.0,
            initial_delay=timedelta(milliseconds=10),
            max_delay=timedelta(milliseconds=10),
        ),
        executor=world.executors,
        check_invariants=False,
    )
    world.provider.script.start().fail_later(times=None)
    world.settle()
    while world.cluster.state.next_attempt_id < 200:
        world.cluster.advance(0.01)
        world.clock.set(world.cluster.now)
        world.settle()
    assert world.live_as_the_state_says()
    assert world.executors.attempts <= 1
    assert world.executors.recorded <= 32

"""Field cases of cases.md about effects nobody heard of: lost replies, lags, machines that vanish.

The real driver and the real executors, stepped; the provider's world says what really exists.
"""

from datetime import timedelta
from functools import partial

import pytest

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.lease_check import LeaseCheck
from cluster_reconciler.actors.stepping_words import NO_JITTER, group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.messages import NodeIntent


def world_of(count: int = 1, *, settle: float = 0.0) -> SteppingWorld:
    return SteppingWorld(
        shape(group(count=count)), retry=NO_JITTER, settle_time=timedelta(seconds=settle)
    )


def lease_id(world: SteppingWorld, node_id: str) -> str:
    lease = world.node(node_id).record.lease
    assert lease is not None, f"{node_id} has no lease"
    return lease.lease_id


@pytest.mark.parametrize("late", [121, 300, 3000])
def test_f01_a_create_that_answers_after_its_deadline_ends_on_one_machine(late: float) -> None:
    # given the first create makes the machine, and its reply comes after the deadline
    world = world_of()
    world.slow(world.provider.script.create(), seconds=late, late_reply=True)

    # when
    world.run(late + 60)

    # then there is one machine, the node is ready on it, and nothing was made a second time
    assert world.cluster.converged
    assert lease_id(world, "g-0") == "memory-7-g-0-1"
    assert world.provider.world.creations() == 1


def test_f01_a_create_that_fails_after_its_effect_is_looked_for_at_once_after_the_backoff() -> None:
    world = world_of()
    world.provider.script.create().lose_reply()

    world.run(1)

    assert world.cluster.converged
    assert world.provider.world.story()[:2] == ["create_lease", "find_lease"]
    assert world.provider.world.creations() == 1


def test_f01_a_create_that_was_lost_before_its_effect_is_looked_for_and_then_made() -> None:
    world = world_of()
    world.provider.script.create().fail(ConnectionResetError("reset by peer"))

    world.run(5)

    assert world.cluster.converged
    story = world.provider.world.story()[:3]
    assert story == ["create_lease", "find_lease", "create_lease"]
    assert len(world.live) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_f02_a_list_that_lags_and_fifty_triggers_make_one_create(lost: bool) -> None:
    # given a provider that shows each new machine only after 3 s (and a lost reply, or not)
    world = world_of(settle=4)
    world.provider.read_lag = timedelta(seconds=3)
    if lost:
        world.provider.script.create().lose_reply()

    # when fifty triggers come in the first second
    for _ in range(50):
        world.run(0.02)
        world.cluster.trigger()
    world.run(20)

    # then
    assert world.cluster.converged
    assert world.provider.world.creations() == 1


def test_f03_a_machine_that_dies_before_it_can_be_reached_is_replaced() -> None:
    # given every first machine is gone 4 s after its creation, and none can be reached before 5 s
    world = world_of(2)
    world.provider.endpoint_delay = timedelta(seconds=5)
    world.settle()
    for identity in sorted(world.live):
        world.after(4, partial(world.provider.remove, identity))

    # when
    world.run(30)

    # then
    assert world.cluster.converged
    assert {world.node(node_id).attempt for node_id in ("g-0", "g-1")} == {3, 4}
    failures = [event.text for event in world.cluster.events if event.kind is EventKind.FAILED]
    assert failures == ["failed: the provider says that the lease is gone, next try in 1 s"] * 2


def test_f03_the_reason_of_a_machine_that_dies_in_its_bootstrap_is_shown() -> None:
    world = world_of()
    world.provider.script.start("g-0", 1).never_join()
    world.settle()
    first = world.identity("g-0")

    def die() -> None:
        world.provider.lose(first, "exit code 255: address space exhausted")
        world.provider.remove(first)

    world.after(4, die)
    world.run(4)
    [status] = world.cluster.status().nodes
    assert status.last_error == "the node is lost: exit code 255: address space exhausted"

    world.run(10)
    assert world.cluster.converged
    [status] = world.cluster.status().nodes
    assert (status.attempt, status.last_error) == (2, None)
    assert status.last_failure is not None
    assert "exit code 255: address space exhausted" in status.last_failure.reason


@pytest.mark.parametrize("killer", [SystemExit("killed"), GeneratorExit()])
def test_f04_an_executor_killed_between_create_and_record(killer: BaseException) -> None:
    world = world_of(3)
    world.provider.script.create("g-1").fail_after_effect(killer)

    world.settle()
    assert world.ready == {"g-0", "g-2"}

    world.run(5)
    assert world.cluster.converged
    assert world.provider.world.creations("g-1") == 1


def test_f06_a_destroy_that_says_not_found_is_done() -> None:
    world = world_of()
    world.settle()
    assert world.provider.remove(world.identity("g-0"))

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(1)

    assert world.cluster.state.nodes == {}


def test_f06_a_destroy_that_raises_not_found_once_is_done_within_one_retry() -> None:
    world = world_of()
    world.settle()
    assert world.provider.remove(world.identity("g-0"))
    world.provider.script.destroy().refuse("404 not found")

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(1)

    assert world.cluster.state.nodes == {}


def test_f09_a_ready_nodes_machine_removed_out_of_band_is_replaced_alone() -> None:
    # given four ready nodes
    world = world_of(4)
    world.settle()
    before = {node_id: lease_id(world, node_id) for node_id in world.ready}

    # when the machine of node 1 is deleted, and its swarm member disappears
    assert world.provider.remove(world.identity("g-1"))
    world.lose("g-1", "no heartbeat for 5 s")
    world.cluster.drive()
    assert world.ready == {"g-0", "g-2", "g-3"}
    assert not world.cluster.status().converged
    world.run(5)

    # then exactly one machine was made, and the others keep theirs
    assert world.cluster.converged
    assert world.provider.world.creations() == 5
    after = {node_id: lease_id(world, node_id) for node_id in world.ready}
    assert {node_id for node_id in before if before[node_id] != after[node_id]} == {"g-1"}


@pytest.mark.parametrize("alive", [False, True])
def test_f09_the_lease_check_tells_of_a_machine_that_is_gone_unless_the_swarm_says_alive(
    alive: bool,
) -> None:
    world = world_of(4)
    world.settle()
    warnings: dict[str, str | None] = {}
    check = LeaseCheck(
        world.provider,
        world.cluster.desired.run_id,
        timedelta(seconds=30),
        ManualClock(world.now),
        known=lambda: [world.identity(node_id) for node_id in sorted(world.ready)],
        is_alive=lambda _identity: alive,
        lost=lambda identity, reason: world.lose(identity.node, reason),
        warn=lambda topic, text: warnings.update({topic: text}),
    )
    first = world.identity("g-1")
    world.provider.remove(first)
    for _ in range(2):
        world.run(30)
        world.settle()
        check.check_once()
    world.run(5)

    assert world.cluster.converged
    replaced = world.identity("g-1") != first
    assert replaced is not alive
    assert world.provider.world.creations() == (4 if alive else 5)
    assert ("g-1" in (warnings["dispute with memory"] or "")) is alive


def test_f14_a_shape_of_zero_leaves_nothing_whatever_the_nodes_were_at() -> None:
    # given two ready nodes, two with a lease and no endpoint, one with its create in flight
    world = world_of(5)
    for node_id in ("g-2", "g-3"):
        world.provider.script.lookup(node_id).not_yet(looks=None)
    world.slow(world.provider.script.create("g-4"), seconds=40, late_reply=True)
    world.run(5)
    assert world.ready == {"g-0", "g-1"}
    assert len(world.live) == 5

    # when
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(40)

    # then
    assert world.live == frozenset()
    assert world.cluster.converged


@pytest.mark.parametrize("late_reply", [False, True])
def test_f14_a_create_that_is_lost_while_all_is_taken_down_leaves_nothing(late_reply: bool) -> None:
    world = world_of(settle=10)
    world.provider.read_lag = timedelta(seconds=9)
    world.slow(world.provider.script.create(), seconds=500, late_reply=late_reply)
    world.run(5)

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(450)
    assert list(world.cluster.state.nodes) == ["g-0"], "a machine may still come of that call"
    world.run(120)

    assert world.cluster.converged
    assert world.live == frozenset()
    assert world.provider.world.creations() == 1
    assert world.provider.world.calls(CallKind.START_BOOTSTRAP) == ()


def test_f14_a_node_that_is_deleting_says_so() -> None:
    world = world_of()
    world.slow(world.provider.script.create(), seconds=40)
    world.run(5)
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.settle()
    [status] = world.cluster.status().nodes
    assert (status.intent, status.desired) == (NodeIntent.DELETING, False)
    assert status.waits_for is not None
    world.close()

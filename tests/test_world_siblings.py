"""Field cases of cases.md about nodes that must not hinder one another, and about waiting.

The real driver and the real executors, stepped; the provider's world says what really exists.
"""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping_words import NO_JITTER, group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.providers.memory import Call, CallKind
from cluster_reconciler.messages import (
    ClusterShape,
    DestroyHandle,
    NodeIntent,
    ProviderKind,
    ProviderLimits,
)

pytestmark = pytest.mark.usefixtures("quiet_log")

FOREVER = timedelta(days=30).total_seconds()


def destroyed(calls: tuple[Call, ...]) -> list[str]:
    handles = [call.argument for call in calls if call.kind is CallKind.DESTROY_LEASE]
    return [handle.lease_id for handle in handles if isinstance(handle, DestroyHandle)]


def test_f05_the_nodes_that_can_be_made_do_not_wait_for_those_that_cannot() -> None:
    # given a provider that can make two of five machines now, and the rest after a minute
    world = SteppingWorld(shape(group(count=5)), retry=NO_JITTER)
    world.provider.capacity = 2
    world.after(60, lambda: setattr(world.provider, "capacity", None))

    # when
    world.settle()
    assert len(world.ready) == 2
    assert len(world.live) == 2
    world.run(130)

    # then
    assert world.cluster.converged
    assert world.provider.world.creations() == 5


def test_f07_one_node_that_cannot_be_deleted_does_not_block_its_siblings() -> None:
    # given eight nodes to remove, and a first destroy that never returns
    world = SteppingWorld(shape(group(count=8)), retry=NO_JITTER)
    world.settle()
    world.slow(world.provider.script.destroy("g-0"), seconds=FOREVER, times=None)

    # when
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.settle()

    # then the others are gone at once
    assert list(world.cluster.state.nodes) == ["g-0"]
    assert len(world.live) == 1

    # and the one that is left says what it does, and how often it failed
    world.run(1000)
    [status] = world.cluster.status().nodes
    assert status.intent is NodeIntent.DELETING
    assert status.consecutive_failures > 1
    assert status.last_error is not None
    assert "destroy" in status.last_error
    world.close()


@pytest.mark.parametrize("limit", [64, 3])
def test_f08_deletions_that_hang_do_not_delay_a_scale_up(limit: int) -> None:
    def wanted(a: int, b: int, generation: int) -> ClusterShape:
        limits = {ProviderKind("memory"): ProviderLimits(in_flight=limit)}
        return ClusterShape(shape().run_id, generation, (group("a", a), group("b", b)), limits)

    # given three nodes of group a that hang in their deletion
    world = SteppingWorld(wanted(3, 2, 1), retry=NO_JITTER)
    world.settle()
    for node_id in ("a-0", "a-1", "a-2"):
        world.slow(world.provider.script.destroy(node_id), seconds=FOREVER, times=None)
    world.cluster.update_desired(wanted(0, 2, 2))
    world.run(3600)

    # when group b grows
    world.cluster.update_desired(wanted(0, 20, 3))
    world.settle()

    # then it is there at once, as it would be without a
    assert world.ready == {f"b-{index}" for index in range(20)}
    world.close()


def test_f10_a_node_that_boots_and_never_joins_is_replaced_after_its_window() -> None:
    retry = RetryPolicy(jitter=0.0, join_timeout=timedelta(minutes=15))
    world = SteppingWorld(shape(), retry=retry)
    world.provider.script.start("g-0", 1).never_join()

    world.run(899)
    first = world.identity("g-0")
    assert world.live == {first}
    world.run(1.5)
    [status] = world.cluster.status().nodes
    assert status.last_error == (
        "the node has not joined the swarm and been handed over for join_timeout (900 s), "
        "its bootstrap is at waiting_for_swactor_join"
    )
    assert world.live == frozenset()

    world.run(1)
    assert world.cluster.converged
    assert world.identity("g-0").attempt == first.attempt + 1


def test_f12_nodes_that_are_going_are_not_counted_as_present() -> None:
    # given six nodes whose deletes are slow
    world = SteppingWorld(shape(group(count=6)), retry=NO_JITTER)
    world.settle()
    world.slow(world.provider.script.destroy(), seconds=50, times=None)

    # when four are asked for, and again while two are going
    world.cluster.update_desired(shape(group(count=4), generation=2))
    world.run(10)
    world.cluster.update_desired(shape(group(count=4), generation=3))
    world.run(10)
    assert len(world.cluster.state.nodes) == 6
    world.run(40)

    # then four are left, the first ones
    assert world.cluster.converged
    assert world.ready == {"g-0", "g-1", "g-2", "g-3"}
    assert world.provider.world.creations() == 6


def test_f13_a_pending_delete_is_asked_once_and_names_no_neighbour() -> None:
    # given six ready nodes, one removed, its destroy pending for five minutes
    world = SteppingWorld(shape(group(count=6)), retry=RetryPolicy(jitter=0.0))
    world.settle()
    world.slow(world.provider.script.destroy("g-5"), seconds=300, times=None)
    world.cluster.update_desired(shape(group(count=5), generation=2))

    # when there is a pass every second
    for _ in range(300):
        world.cluster.trigger()
        world.run(1)
        assert len(world.executors.running) <= 1
    world.run(700)

    # then only that lease was ever named, and the others stand
    assert world.cluster.converged
    assert destroyed(world.provider.world.calls()) == ["memory-7-g-5-6"]
    assert len(world.live) == 5


def test_f13_a_delete_that_goes_on_for_long_is_asked_again_at_the_probe_interval_only() -> None:
    world = SteppingWorld(shape(group(count=6)), retry=NO_JITTER)
    world.settle()
    world.provider.script.destroy("g-5").unfinished(times=150)
    world.cluster.update_desired(shape(group(count=5), generation=2))
    for _ in range(300):
        world.cluster.trigger()
        world.run(1)
    asked = world.provider.world.calls(CallKind.DESTROY_LEASE)
    assert {call.identity.node for call in asked if call.identity is not None} == {"g-5"}
    assert len(asked) == 151
    assert world.cluster.converged


def test_f15_a_converged_cluster_is_left_alone() -> None:
    world = SteppingWorld(
        shape(group(count=50)), retry=NO_JITTER, safety_tick=timedelta(seconds=30)
    )
    world.settle()
    assert world.cluster.converged
    world.provider.world.forget()
    world.cluster.forget_events()
    passes = world.cluster.passes

    world.run(600)

    assert world.cluster.passes - passes == 20
    assert world.provider.world.calls() == ()
    assert world.cluster.events == ()


def test_f17_success_elsewhere_does_not_reset_a_nodes_backoff() -> None:
    world = SteppingWorld(shape(group(count=10)), retry=NO_JITTER)
    world.provider.script.create("g-0").refuse("no such image", times=8)

    world.run(400)

    times = [call.at for call in world.provider.world.calls(CallKind.CREATE_LEASE, "g-0")]
    waits = [(b - a).total_seconds() for a, b in pairwise(times)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert world.cluster.converged


def test_f18_a_bootstrap_that_fails_at_once_respects_its_restart_delay() -> None:
    # given a bootstrap that fails within 100 ms every time, and is reported twice
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.provider.script.start().never_join(times=None)
    restart_at: dict[int, datetime] = {}
    began: dict[int, datetime] = {}

    # when it runs for an hour
    end = world.now + timedelta(hours=1)
    while world.now < end:
        world.settle()
        node = world.node("g-0")
        if node.active_bootstrap is not None:
            began[node.attempt] = world.now
            world.run(0.1)
            world.lose("g-0", "exit code 1")
            world.provider.end_session(world.identity("g-0"), "exit code 1")
            world.cluster.drive()
            due = world.node("g-0").retry.restart_at
            assert due is not None
            restart_at[node.attempt] = due
            world.settle()
        world.run_to_next()

    # then no attempt began early, and there are as many as the capped backoff allows
    for attempt, moment in began.items():
        if attempt > 1:
            assert moment >= restart_at[attempt - 1]
    failures = [e for e in world.cluster.events if e.kind is EventKind.FAILED]
    assert len(failures) == len(restart_at)
    assert 60 <= len(began) <= 67
    assert world.cluster.state.next_attempt_id - 1 - len(began) in (0, 1)


def test_f23_an_unknown_error_that_lasts_ends_by_itself() -> None:
    class NeverSeenBeforeError(Exception):
        pass

    world = SteppingWorld(shape(), retry=NO_JITTER)
    script = world.provider.script
    for calls in (script.create(), script.find()):
        calls.fail(NeverSeenBeforeError("E-4711"), times=None)
    world.run(1800)
    [status] = world.cluster.status().nodes
    assert status.last_error is not None
    assert "E-4711" in status.last_error

    script.clear()
    took = world.run_until(lambda: world.cluster.converged, within=180)
    assert took <= 61

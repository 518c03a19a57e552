"""The test kit itself: the stepping world runs the real parts, and its checks do catch faults."""

from datetime import timedelta
from typing import cast

import pytest

from cluster_reconciler.actors.stepping_words import NO_JITTER, group, shape
from cluster_reconciler.actors.stepping_world import Now, SteppingWorld
from cluster_reconciler.executors import MemoryProvider, Provider
from cluster_reconciler.messages import AttemptIdentity, LogicalNodeId, NodeAttemptId


def test_a_world_converges_and_goes() -> None:
    world = SteppingWorld(shape(group(count=5)), retry=NO_JITTER)
    world.settle()
    assert world.cluster.converged
    assert len(world.live) == 5

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.settle()
    assert (world.live, world.cluster.state.nodes) == (frozenset(), {})
    assert (world.executors.attempts, world.executors.recorded) == (0, 0)


def test_time_stops_at_each_moment_at_which_something_is_due() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.provider.script.create().refuse(times=3)
    begun = world.now
    moments: list[float] = []
    while world.run_to_next():
        moments.append((world.now - begun).total_seconds())
    assert moments == [1, 3, 7]
    assert world.cluster.converged


def test_a_slow_call_takes_its_time_and_delays_nobody_else() -> None:
    world = SteppingWorld(shape(group(count=2)), retry=NO_JITTER)
    world.slow(world.provider.script.create("g-0"), seconds=50)
    world.settle()
    assert world.ready == {"g-1"}
    world.run(49.9)
    assert world.ready == {"g-1"}
    assert world.provider.world.creations("g-0") == 0
    world.run(0.1)
    assert world.ready == {"g-0", "g-1"}


def test_an_operation_behind_an_overdue_slow_call_waits_for_it() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.slow(world.provider.script.create(), seconds=300, late_reply=True)
    world.run(299)
    assert (world.ready, len(world.executors.running)) == (frozenset(), 1)
    world.run(1)
    assert world.cluster.converged
    assert world.provider.world.story()[0] == "create_lease"
    assert world.provider.world.creations() == 1


def test_a_machine_that_nobody_knows_of_is_found() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.settle()
    spec = world.node("g-0").record.desired
    world.provider.world.create(world.identity("g-0", attempt=99), spec)
    with pytest.raises(AssertionError, match=r"nobody knows of.*attempt=99"):
        world.settle()


def test_a_second_machine_of_an_attempt_is_found() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.settle()
    world.provider.world.create(world.identity("g-0"), world.node("g-0").record.desired)
    with pytest.raises(AssertionError, match="two machines"):
        world.settle()


def test_a_provider_that_lies_about_a_destroy_is_found_out() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.settle()
    world.provider.script.destroy().lie()
    world.cluster.update_desired(shape(group(count=0), generation=2))
    with pytest.raises(AssertionError, match="nobody knows of"):
        world.settle()


def test_what_is_not_reached_in_time_is_an_error() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.provider.script.create().refuse(times=None)
    with pytest.raises(AssertionError, match="not reached within 30"):
        world.run_until(lambda: world.cluster.converged, within=30)


def test_closing_lets_paused_calls_end() -> None:
    world = SteppingWorld(shape(), retry=NO_JITTER)
    world.slow(world.provider.script.create(), seconds=timedelta(days=1).total_seconds())
    world.settle()
    assert len(world.executors.running) == 1
    world.close()
    assert len(world.executors.running) == 0


def a_world_of_a_plain_provider() -> tuple[SteppingWorld, MemoryProvider]:
    """At rest, with two nodes, of a provider that gives no account of its own."""
    hidden: list[MemoryProvider] = []

    class Plain:
        def __getattr__(self, name: str) -> object:
            if name == "world":
                raise AttributeError(name)
            return getattr(hidden[0], name)

    def made(now: Now) -> list[Provider]:
        hidden.append(MemoryProvider(now=now))
        return [cast("Provider", Plain())]

    world = SteppingWorld(shape(group(count=2)), retry=NO_JITTER, providers=made)
    world.settle()
    assert (world.cluster.converged, len(world.live)) == (True, 2)
    return world, hidden[0]


def test_any_provider_can_be_in_the_world_and_its_listing_is_its_witness() -> None:
    world, hidden = a_world_of_a_plain_provider()

    # when one node has a second machine, then the oracle says so, at once and once both are gone
    spec = world.node("g-0").record.desired
    second = hidden.world.create(world.identity("g-0"), spec)
    with pytest.raises(AssertionError, match="two machines or sessions of one attempt"):
        world.settle()
    hidden.world.destroy(second.facts.lease_id)
    with pytest.raises(AssertionError, match="two machines or sessions of one attempt"):
        world.settle()


def test_a_listing_that_holds_what_nobody_asked_for_is_told() -> None:
    world, hidden = a_world_of_a_plain_provider()

    # when it holds a machine that nobody asked for, then the oracle says so
    stray = AttemptIdentity(world.cluster.desired.run_id, LogicalNodeId("g-9"), NodeAttemptId(9))
    hidden.world.create(stray, world.node("g-0").record.desired)
    with pytest.raises(AssertionError, match="machines that nobody knows of"):
        world.settle()
    with pytest.raises(ValueError, match="can be scripted"):
        _ = world.provider

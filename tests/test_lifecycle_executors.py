"""What the executors owe the driver (cases L29 to L32), seen from the driver's side.

The real driver and the real executors, stepped; the provider's world says what really exists.
"""

import pytest

from cluster_reconciler.actors.stepping_words import NO_JITTER, group, shape
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.messages import LogicalNodeId, OperationKind


def world_of(count: int = 1) -> SteppingWorld:
    return SteppingWorld(shape(group(count=count)), retry=NO_JITTER)


def test_l29_a_machine_whose_maker_raised_is_adopted_by_the_next_operation() -> None:
    world = world_of()
    world.provider.script.create().fail_after_effect(RuntimeError("after the effect"))
    world.run(1)
    assert world.cluster.converged
    assert world.provider.world.creations() == 1
    assert world.node("g-0").retry.consecutive_failures == 0


def test_l30_an_effect_submitted_twice_is_one_call_and_its_result_is_folded_once() -> None:
    world = world_of()
    [create] = world.cluster.drive()
    world.executors.submit(create)
    world.settle()
    assert world.cluster.converged
    world.executors.submit(create)
    before = world.cluster.state
    world.settle()
    assert world.cluster.state == before
    assert world.provider.world.creations() == 1


def test_l31_operations_of_different_attempts_run_together_those_of_one_do_not() -> None:
    world = world_of(3)
    world.slow(world.provider.script.create(), seconds=200, times=3)
    world.run(150)
    running = world.executors.running
    assert [operation.identity.node for operation in running] == ["g-0", "g-1", "g-2"]
    assert {operation.kind for operation in running} == {OperationKind.CREATE_LEASE}
    world.run(120)
    assert world.cluster.converged
    assert world.provider.world.creations() == 3


def test_l32_what_is_absent_is_cancelled_and_destroyed_at_once() -> None:
    world = world_of()
    world.provider.script.start().never_join()
    world.settle()
    world.provider.remove(world.identity("g-0"))
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.settle()
    assert LogicalNodeId("g-0") not in world.cluster.state.nodes
    assert world.provider.world.story()[-2:] == ["cancel_bootstrap", "destroy_lease"]


@pytest.mark.parametrize("seconds", [119, 121, 300, 1000])
def test_a_destroy_whose_success_came_too_late_is_not_asked_again(seconds: float) -> None:
    # given a provider whose every destroy takes longer than an operation may
    world = world_of()
    world.settle()
    world.slow(world.provider.script.destroy(), seconds, times=None)

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(seconds + 70)

    assert world.cluster.converged
    assert len(world.provider.world.calls(CallKind.DESTROY_LEASE)) == 1


def test_a_cancel_whose_success_came_too_late_is_not_asked_again() -> None:
    world = world_of()
    world.provider.script.start().never_join()
    world.settle()
    world.slow(world.provider.script.cancel(), 130, times=None)

    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(200)

    assert world.cluster.converged
    assert len(world.provider.world.calls(CallKind.CANCEL_BOOTSTRAP)) == 1


def test_a_hand_over_whose_success_came_too_late_makes_the_node_ready_all_the_same() -> None:
    world = world_of()
    world.slow(world.provider.script.accept(), 130, times=None, late_reply=False)

    world.run(200)

    assert world.cluster.converged
    assert world.provider.world.creations() == 1
    assert len(world.provider.world.calls(CallKind.ACCEPT_CONVERGENCE)) == 1


def test_a_destroy_that_is_not_finished_is_asked_again_until_it_is() -> None:
    world = world_of()
    world.settle()
    world.provider.script.destroy().unfinished(times=3)
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.run(6)
    assert world.cluster.converged
    assert len(world.provider.world.calls(CallKind.DESTROY_LEASE)) == 4

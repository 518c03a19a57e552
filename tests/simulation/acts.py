"""Carries out a move on a world.  It chooses nothing: a move says all but what is there by then."""

from datetime import timedelta
from typing import assert_never

from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    DeadlineDue,
    Drain,
    LogicalNodeId,
    NodeAttemptId,
    Trigger,
    UpdateDesired,
)
from tests.simulation import moves as m
from tests.simulation import shapes
from tests.simulation.machines import say_again
from tests.simulation.schedule import INVALID_RETRIES
from tests.simulation.world import SimulatedWorld


def act(world: SimulatedWorld, move: m.AnyMove) -> None:
    """Do it; the world need not be at rest, neither before nor after."""
    match move:
        case m.Reshape() | m.ThereAndBack() | m.InvalidShape() | m.Drain():
            _offer(world, move)
        case m.Die() | m.Remove() | m.FalseLoss() | m.News() | m.EndSession():
            _happen_to(world, move)
        case m.Nonsense():
            nodes = sorted(world.cluster.state.nodes)
            node = nodes[move.nth % len(nodes)] if nodes else LogicalNodeId("a-0")
            attempt = world.node(node).attempt if nodes else NodeAttemptId(1)
            world.cluster.tell(shapes.nonsense(move.kind, node, attempt))
        case m.Sleep():
            world.sleep(move.seconds)
        case m.PutOff():
            world.put_off(world.at_most(move.seconds))
            for _ in range(move.steps):
                world.pump()
        case m.KillExecutor():
            world.doom(move.nth)
        case m.Poke():
            _poke(world, move.what)
        case m.Mood():
            number = move.provider % len(world.providers)
            _change(world.providers[number], move, world.life.providers[number].capacity)
        case m.InvalidRetry():
            _refuse_retry(move.fault)
        case m.OtherRetry():
            world.policies.append(move.policy)
            world.cluster.tell(UpdateRetry(move.policy))
        case _:
            assert_never(move)


def _offer(
    world: SimulatedWorld, move: m.Reshape | m.ThereAndBack | m.InvalidShape | m.Drain
) -> None:
    match move:
        case m.Reshape():
            _reshape(world, move.shape, move.generations)
        case m.ThereAndBack():
            _there_and_back(world, move)
        case m.InvalidShape():
            _offer_invalid(world, move.fault)
        case m.Drain():
            world.cluster.tell(Drain())
        case _:
            assert_never(move)


def _reshape(world: SimulatedWorld, drawn: m.ShapeDraw, generations: int) -> None:
    kinds = [provider.kind for provider in world.providers]
    generation = world.cluster.desired.generation + generations
    world.cluster.tell(UpdateDesired(shapes.made(drawn, generation, kinds)))


def _there_and_back(world: SimulatedWorld, move: m.ThereAndBack) -> None:
    world.cluster.drive()
    before = world.cluster.desired
    _reshape(world, move.shape, 1)
    if move.between is not None:
        world.run(move.between)
    back = shapes.again(before, before.generation + 2)
    world.cluster.tell(UpdateDesired(back))


def _offer_invalid(world: SimulatedWorld, fault: str) -> None:
    world.cluster.drive()
    accepted = world.cluster.desired
    world.cluster.tell(UpdateDesired(shapes.invalid(fault, accepted)))  # type: ignore[arg-type]
    world.cluster.drive()
    found = world.cluster.desired
    assert found is accepted, f"a shape with the fault {fault!r} was accepted: {found}"


def _refuse_retry(fault: str) -> None:
    try:
        policy = RetryPolicy(**INVALID_RETRIES[fault])  # type: ignore[arg-type]  # its point
    except ValueError:
        return
    raise AssertionError(f"a policy with the fault {fault!r} was made: {policy}")


def _poke(world: SimulatedWorld, what: str) -> None:
    match what:
        case "trigger":
            world.cluster.trigger()
        case "triggers":
            for message in (Trigger(), Trigger(), DeadlineDue(), DeadlineDue(judged=True)):
                world.cluster.tell(message)
        case "deadline":
            world.cluster.tell(DeadlineDue())
        case _:
            world.lose_wake()


def _change(provider: MemoryProvider, move: m.Mood, capacity: int | None) -> None:
    """`capacity`: there are never more places than that."""
    provider.read_lag = provider.settle_time * move.lag
    provider.endpoint_delay = timedelta(seconds=move.endpoint_delay)
    places = [some for some in (move.capacity, capacity) if some is not None]
    provider.capacity = min(places, default=None)
    provider.creates_per_second = move.creates_per_second
    provider.throttle_retry_after = timedelta(seconds=2)


def _happen_to(
    world: SimulatedWorld, move: m.Die | m.Remove | m.FalseLoss | m.News | m.EndSession
) -> None:
    nodes = sorted(world.cluster.state.nodes)
    if not nodes:
        return
    node = nodes[move.nth % len(nodes)]
    identity = world.identity(node)
    provider = world.provider_named(world.node(node).record.desired.provider)
    match move:
        case m.Die(noticed=noticed):
            provider.remove(identity)
            if noticed is not None:
                world.swarm.fell_silent(identity, noticed)
        case m.Remove():
            provider.remove(identity)
            world.swarm.left(identity)
        case m.FalseLoss(comes_back=seconds):
            world.swarm.lost(identity, "its heartbeats are late")
            world.after(seconds, lambda: provider.join(identity))
        case m.EndSession(failure=failure):
            provider.end_session(identity, failure)
        case m.News():
            context = world.context_of(node, move.attempts_ago)
            if context is not None:
                say_again(context, move.word)
        case _:
            assert_never(move)

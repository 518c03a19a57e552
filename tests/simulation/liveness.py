"""What must come true once faults stop, how soon, and that nothing more happens then.

The claim depends on the world: where convergence is impossible by construction, the strongest true
one stands in its place.  How soon is computed, see `bounds`.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from cluster_reconciler.actors.clock import END_OF_TIME
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeIntent,
    NodeStage,
    OperationKind,
    ProviderKind,
)
from tests.simulation.bounds import bound, quiet_after
from tests.simulation.world import SimulatedWorld

DAY = 24 * 3600.0
HOUR = 3600.0
ATTEMPTS_A_SLOT = 3
"""New attempts of one slot after the last fault, at most: for what was failing just then, for a
machine whose loss was noticed later, and for a word that came late."""

CONVERGED = "converged, then silent for a day"
DRAINED = "drained: nothing is left, then silent for a day"
NO_IDS = "no attempt id left: what has an attempt is ready, or asks for a place; the rest is gone"
NO_PLACE = (
    "fewer places than nodes: all places are taken by ready nodes, the rest only asks, for ever"
)
NO_TIME = "time itself ends before the bound: safety only"


class Found(Struct, frozen=True):
    """What was shown."""

    claim: str = ""
    after: float | None = None
    bound: float | None = None


def show(world: SimulatedWorld) -> Found:
    """Stop the faults, and wait for what must come.

    Raises:
        AssertionError: it does not come in time, or something happens after it.
    """
    limit = bound(world.life, world.policies, timer_lost=world.wake_lost)
    _stop(world)
    world.settle()
    if world.now > END_OF_TIME - timedelta(seconds=2 * limit + 2 * DAY):
        return Found(NO_TIME)
    claim, reached = _claim(world)
    begun = became = world.now
    slots = {*world.cluster.state.nodes, *world.wanted.nodes}
    attempts = world.cluster.state.next_attempt_id
    quiet = begun + timedelta(seconds=quiet_after(world.life, world.policies))
    while not (reached(world) and world.now > quiet):
        passed = (world.now - begun).total_seconds()
        assert passed <= limit, (
            f"not so {passed:g} s after the faults ({claim}), bound {limit:g} s: {_missing(world)}"
        )
        was = reached(world)
        assert world.run_to_next(), f"nothing is ever due again, and yet: {_missing(world)}"
        if not was:
            became = world.now
        claim, reached = _claim(world)
    made = world.cluster.state.next_attempt_id - attempts
    assert made <= ATTEMPTS_A_SLOT * len(slots), f"{made} attempts for {len(slots)} slots"
    _is_true(world)
    if _places(world) is not None:
        _only_asks(world)
    else:
        _silent(world)
    return Found(claim, (became - begun).total_seconds(), limit)


def _stop(world: SimulatedWorld) -> None:
    """No more faults; each provider is again as it was drawn."""
    world.faults.on = False
    for provider, draw in zip(world.providers, world.life.providers, strict=True):
        provider.creates_per_second = None
        provider.capacity = draw.capacity
        provider.endpoint_delay = timedelta(seconds=draw.endpoint_delay)
    for identity in sorted(world.swarm.members - world.live):
        world.swarm.fell_silent(identity)


def _claim(world: SimulatedWorld) -> tuple[str, Callable[[SimulatedWorld], bool]]:
    if world.drained:
        return DRAINED, _empty
    if world.cluster.state.next_attempt_id >= ATTEMPT_ID_MAX:
        return NO_IDS, _all_ids_used
    if _places(world) is not None:
        return NO_PLACE, _all_places_taken
    return CONVERGED, _converged


def _converged(world: SimulatedWorld) -> bool:
    return world.cluster.converged


def _empty(world: SimulatedWorld) -> bool:
    return not world.cluster.state.nodes


def _all_ids_used(world: SimulatedWorld) -> bool:
    """Nothing undesired is left, and each node that is there is as wanted or gone for good; or it
    asks for a place where there is none."""
    desired = world.wanted.nodes
    nodes = world.cluster.state.nodes
    may_ask = _places(world) is not None
    return set(nodes) <= set(desired) and all(
        (node.record.ready and node.record.desired == desired[node_id] and node.pending is None)
        or node.record.stage is NodeStage.DESTROYED
        or (may_ask and node.intent is NodeIntent.ACTIVE and node.record.lease is None)
        for node_id, node in nodes.items()
    )


def _places(world: SimulatedWorld) -> dict[ProviderKind, int] | None:
    """How many nodes of each provider can be ready, where that is fewer than wanted."""
    wanted = Counter(spec.provider for spec in world.wanted.nodes.values())
    ghosts = Counter(world.provider_of(i).kind for i in sorted(world.excused & world.live))
    can = {
        provider.kind: wanted[provider.kind]
        if provider.capacity is None
        else min(wanted[provider.kind], max(0, provider.capacity - ghosts[provider.kind]))
        for provider in world.providers
    }
    return can if any(can[kind] < count for kind, count in wanted.items()) else None


def _all_places_taken(world: SimulatedWorld) -> bool:
    places = _places(world)
    desired = world.wanted.nodes
    nodes = world.cluster.state.nodes
    ready = Counter(
        desired[node].provider
        for node in map(LogicalNodeId, sorted(world.ready))
        if node in desired
    )
    return (
        places is not None
        and set(nodes) == set(desired)
        and {kind: ready[kind] for kind in sorted(ready)}
        == {kind: count for kind, count in sorted(places.items()) if count}
        and all(node.record.desired == desired[n] for n, node in nodes.items())
    )


def _missing(world: SimulatedWorld) -> str:
    nodes = world.cluster.state.nodes
    desired = world.wanted.nodes
    text = []
    for node_id in sorted({*nodes, *desired}):
        node = nodes.get(node_id)
        if node is None:
            text.append(f"{node_id} is not there")
        elif not node.record.ready or node_id not in desired:
            text.append(
                f"{node_id} attempt {node.attempt} is {node.intent} {node.record.stage}, "
                f"pending {node.pending}, {node.retry}, {node.progress}"
            )
    return "; ".join(text)


def _is_true(world: SimulatedWorld) -> None:
    """What the state says is what really is."""
    ready = {world.identity(node) for node in world.ready}
    live = world.live - world.excused
    assert live == ready, f"machines {sorted(live)}, ready nodes {sorted(ready)}"
    kept = len(ready) if _places(world) is None else len(world.cluster.state.nodes)
    assert world.executors.attempts <= kept, (
        f"the executors remember {world.executors.attempts} attempts, {kept} may have a future"
    )


def _silent(world: SimulatedWorld) -> None:
    before, passes, dispatched = world.cluster.state, world.cluster.passes, len(world.dispatched)
    world.run(DAY)
    found = world.cluster.state
    assert found == before, f"the state changed in silence: {before} became {found}"
    made = world.dispatched[dispatched:]
    assert not made, f"effects were dispatched in silence: {made}"
    ticks = DAY / world.life.safety_tick
    assert world.cluster.passes - passes <= ticks + 1, "passes beside the safety tick"


def _only_asks(world: SimulatedWorld) -> None:
    """Who is ready stays so; the others try their create again, and nothing else."""
    ready, dispatched = world.ready, len(world.dispatched)
    world.run(HOUR)
    assert world.ready == ready, f"ready were {sorted(ready)}, now {sorted(world.ready)}"
    kinds = {effect[1] for effect in world.dispatched[dispatched:]}
    assert kinds <= {OperationKind.CREATE_LEASE}, f"more than creates was tried: {sorted(kinds)}"

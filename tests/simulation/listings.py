"""The real lease check on the virtual clock: a listing now and then, for as long as a world lives.

What it finds missing is told as a loss, with the swarm's word against it where that has one.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from cluster_reconciler.actors.clock import END_OF_TIME, Clock
from cluster_reconciler.actors.lease_check import LeaseCheck
from cluster_reconciler.actors.stepping_record import RecordedCluster
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import AttemptIdentity, NodeLost, NodeObserved
from tests.simulation.faults import Faults
from tests.simulation.life import Life
from tests.simulation.machines import Swarm


class World(Protocol):
    """What a check needs of the world around it."""

    life: Life
    faults: Faults
    swarm: Swarm
    cluster: RecordedCluster

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        """Do it so much later."""

    def observed(self, message: NodeObserved) -> None:
        """News of a node."""


def check_from_now_on(world: World, provider: MemoryProvider, clock: Clock) -> None:
    """Ask this provider at every interval."""
    interval = world.life.lease_check

    def lost(identity: AttemptIdentity, reason: str) -> None:
        world.faults.count("listing: a lease is missing")
        world.observed(NodeObserved(identity.node, identity.attempt, NodeLost(reason)))

    def warned(topic: str, text: str | None) -> None:
        if text is not None and topic.startswith("dispute"):
            world.faults.count("listing: disputed by the swarm")

    check = LeaseCheck(
        provider,
        world.cluster.desired.run_id,
        timedelta(seconds=interval),
        clock,
        known=lambda: _known(world, provider),
        is_alive=world.swarm.is_alive,
        lost=lost,
        warn=warned,
    )

    def ask() -> None:
        check.check_once()
        if clock.now() < END_OF_TIME:
            world.after(interval, ask)

    world.after(interval, ask)


def _known(world: World, provider: MemoryProvider) -> list[AttemptIdentity]:
    """As the runtime asks: the provider's leases by the state."""
    return [
        AttemptIdentity(node.record.run_id, node_id, node.attempt)
        for node_id, node in world.cluster.state.nodes.items()
        if node.record.lease is not None and node.record.desired.provider == provider.kind
    ]

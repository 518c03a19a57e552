"""Lives of a driver as in production: only the safety tick holds its plans to the full ones.

    python -m tests.unwatched_lives     # exits with 1 when a plan differed, or one is not converged

In them happens whatever can make a kept decision stale.
"""

import sys
from collections.abc import Container

from loguru import logger

from cluster_reconciler.actors.invariant_guard import InvariantGuard
from cluster_reconciler.actors.planning import Planning
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from cluster_reconciler.messages import ClusterShape, ExecutorResult, NodeObserved
from tests.decider_words import group, shape
from tests.planning_counts import compared_by, planning_of


class Unwatched(SteppingWorld):
    """A world whose driver runs as in production: its plans are compared after each safety tick."""

    def __init__(self, wanted: ClusterShape, *, first_attempt: int = 1) -> None:
        self.deaf_to: Container[str] = ()
        """The nodes of which the driver hears nothing."""
        retry = RetryPolicy(jitter=0.0)
        super().__init__(wanted, retry=retry, safety_tick=30.0, first_attempt=first_attempt)
        driver = self.cluster._driver
        driver._guard = InvariantGuard(on=False)
        driver.planning = Planning(driver._differs)

    def deliver(self, message: ExecutorResult | NodeObserved) -> None:
        """See `SteppingWorld`."""
        if message.node not in self.deaf_to:
            super().deliver(message)

    def steps(self, count: int) -> None:
        """Time goes by a safety tick at once, as for a machine that is suspended again and again: a
        stale deadline spins until the tick, which in stepped time would never come.  Every second
        time the driver's own timer is lost, and the tick alone has a pass made."""
        for number in range(count):
            if number % 2 == 0:
                self.cluster.lose_wake()
            self.sleep(31)


def wanted(generation: int, count: int, command: str = "", in_flight: int = 1) -> ClusterShape:
    groups = [group(count=count, command=command)]
    return shape(*groups, generation=generation, limits={"memory": in_flight})


def eventful() -> Unwatched:
    """Whatever can make a decision stale: a backoff, a place that frees, a late join, answers that
    never come, another limit, another spec, losses, a smaller shape."""
    world = Unwatched(wanted(1, 3))
    script = world.provider.script
    script.create("g-0").refuse("sold out", times=2)
    world.provider.auto_join = False
    world.steps(4)
    for identity in sorted(world.live):
        world.provider.join(identity)
    world.provider.auto_join = True
    world.steps(4)
    world.cluster.update_desired(wanted(2, 6, in_flight=3))
    world.deaf_to = [f"g-{number}" for number in range(6)]
    world.steps(6)
    world.deaf_to = ()
    world.steps(8)
    world.cluster.update_desired(wanted(3, 6, "another", in_flight=3))
    world.steps(12)
    for node_id in sorted(world.ready)[:2]:
        world.lose(node_id)
    world.steps(4)
    world.cluster.update_desired(wanted(4, 2, "another", in_flight=1))
    world.steps(12)
    return world


def short_of_ids() -> Unwatched:
    """There are four attempts for six nodes, then only two nodes are wanted."""
    world = Unwatched(wanted(1, 6, in_flight=6), first_attempt=ATTEMPT_ID_MAX - 4)
    world.steps(4)
    world.cluster.update_desired(wanted(2, 2))
    world.steps(4)
    return world


def giving_way() -> Unwatched:
    """A cancel that has failed waits for the place of one that hangs, and gives way meanwhile."""
    world = Unwatched(wanted(1, 2))
    world.provider.auto_join = False
    world.steps(4)
    world.provider.script.cancel("g-0").refuse("no")
    world.deaf_to = ("g-1",)
    world.cluster.update_desired(wanted(2, 0))
    world.steps(5)
    world.deaf_to, world.provider.auto_join = (), True
    world.steps(8)
    world.cluster.update_desired(wanted(3, 2))
    world.steps(8)
    return world


LIVES = (eventful, short_of_ids, giving_way)


def main() -> int:
    """All of them."""
    logger.disable("cluster_reconciler")
    good = True
    for life in LIVES:
        world = life()
        compared = compared_by(planning_of(world.cluster))
        print(f"{life.__name__}: {compared}")
        differing = (e.text for e in world.cluster.events if e.text.startswith("a defect: "))
        if compared.differences:
            print(next(differing))
        good = good and compared.differences == 0 and world.cluster.converged
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""One event end to end: a node is told lost, until the destroy of its lease is handed over; and
until it is ready again.

Through the mailbox, ring, host and log of production, pumped by hand in one thread: what a switch
between threads adds is seen in `repairs`.
"""

from msgspec import Struct

from cluster_reconciler.actors.bench.executors import TakenEffects
from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.production import RESTED, Production, pumped
from cluster_reconciler.actors.bench.replies import replies_to
from cluster_reconciler.actors.bench.stopwatch import percentile, quiet, spread, took
from cluster_reconciler.messages import DestroyLease, LogicalNodeId, SafetyTick


class EventCost(Struct, frozen=True):
    """Microseconds of CPU time: nothing waits for another thread here."""

    median: float
    """Of the event, until its first effect is handed over."""
    slowest_percent: float
    """All but one in a hundred take less."""
    repair: float
    """The median of what follows until the node is ready again, the event and the making of the
    replies with it."""


def event_cost(ready: Ready, *, events: int) -> EventCost:
    """Each node is repaired before the next one is lost."""
    production, executors = at_rest(ready)
    dispatched, repaired = [], []
    with quiet():
        for node in spread(ready.state.nodes, events):
            first = took(lambda: lose(production, executors, node))  # noqa: B023  # called at once
            dispatched.append(first)
            repaired.append(first + took(lambda: repair(production, executors)))
    assert all(node.record.ready for node in production.driver.state.nodes.values())
    production.close()
    return EventCost(
        percentile(dispatched, 50), percentile(dispatched, 99), percentile(repaired, 50)
    )


def at_rest(ready: Ready) -> tuple[Production, TakenEffects]:
    """A driver that has seen all of that cluster; nothing is left to do."""
    production, executors = pumped(ready.desired.shape, ready=ready), TakenEffects()
    production.connect(executors)
    production.actor.tell(SafetyTick())
    _rest(production, executors)
    production.skip(RESTED)
    _rest(production, executors)
    return production, executors


def lose(production: Production, executors: TakenEffects, node: LogicalNodeId) -> None:
    """Tell that the node is lost, and handle messages until something is done about it."""
    pump = production.actor.pump_one
    production.lose(node)
    while not executors.effects:
        went_on = pump()
        assert went_on, f"{node} is lost, and nothing is done about it"
    assert isinstance(executors.effects[0].command, DestroyLease), executors.effects


def repair(production: Production, executors: TakenEffects) -> None:
    """All that follows, until the node is ready again, and stable."""
    _rest(production, executors)
    production.skip(RESTED)
    _rest(production, executors)
    production.clock.skip(RESTED)


def _rest(production: Production, executors: TakenEffects) -> None:
    """Until nothing more is dispatched, nor told."""
    while production.actor.pump_one() or executors.effects:
        for effect in executors.take():
            for reply in replies_to(effect):
                production.actor.tell(reply)

"""One event end to end: a node is told lost, until the destroy of its lease is handed over.

Through the mailbox, ring, host and log of production, pumped by hand in one thread: what a switch
between threads adds is seen in `repairs`.
"""

from datetime import timedelta
from time import perf_counter_ns

from msgspec import Struct

from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.production import Production, TakenEffects, pumped
from cluster_reconciler.actors.bench.replies import replies_to
from cluster_reconciler.actors.bench.stopwatch import percentile, quiet, spread
from cluster_reconciler.messages import DestroyLease, LogicalNodeId, SafetyTick

EVENTS = 300
RESTED = timedelta(hours=1)
"""Beyond every backoff, and every node is stable again."""


class EventCost(Struct, frozen=True):
    """Microseconds of wall time."""

    median: float
    slowest_percent: float
    """All but one in a hundred take less."""


def event_cost(ready: Ready, *, events: int = EVENTS) -> EventCost:
    """Each node is repaired before the next one is lost."""
    production, executors = pumped(ready.desired.shape, ready=ready), TakenEffects()
    production.connect(executors)
    production.actor.tell(SafetyTick())
    _rest(production, executors)
    production.skip(RESTED)
    with quiet():
        times = [_lose(production, executors, node) for node in spread(ready.state.nodes, events)]
    assert all(node.record.ready for node in production.driver.state.nodes.values())
    production.close()
    return EventCost(percentile(times, 50), percentile(times, 99))


def _lose(production: Production, executors: TakenEffects, node: LogicalNodeId) -> float:
    pump, effects = production.actor.pump_one, executors.effects
    begun = perf_counter_ns()
    production.lose(node)
    while not effects:
        assert pump(), f"{node} is lost, and nothing is done about it"
    spent = perf_counter_ns() - begun
    assert isinstance(effects[0].command, DestroyLease), effects[0]
    _rest(production, executors)
    production.skip(RESTED)
    _rest(production, executors)
    production.skip(RESTED)
    return spent / 1000


def _rest(production: Production, executors: TakenEffects) -> None:
    """Until nothing more is dispatched, nor told."""
    while production.actor.pump_one() or executors.effects:
        effects, executors.effects[:] = list(executors.effects), []
        for effect in effects:
            for reply in replies_to(effect):
                production.actor.tell(reply)

"""A thousand repairs a second on a ready cluster, paced by the clock, on the threads of production.

One repair: a node is told lost; its lease is destroyed; its next attempt begins after a backoff of
a millisecond, gets a lease, is started, joins, is handed over, and is ready.  Replies are there at
once, made in the driver's thread, so their making counts as the driver's time.
"""

from datetime import timedelta
from itertools import cycle
from time import clock_gettime, perf_counter, perf_counter_ns, process_time, sleep
from time import pthread_getcpuclockid as cpu_clock_of

from msgspec import Struct

from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.production import Production, TimedReplies, threaded
from cluster_reconciler.actors.bench.stopwatch import percentile
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import LogicalNodeId, SafetyTick

RATE = 1_000
"""Repairs a second that are asked for."""
SECONDS = 3.0
STEP = 7_919
"""Prime: one after the other is lost far from the one before, and each as often."""
_SHORT = timedelta(milliseconds=1)
POLICY = RetryPolicy(initial_delay=_SHORT, max_delay=_SHORT, least_delay=_SHORT, jitter=0.0, seed=1)


class RepairCost(Struct, frozen=True):
    """What the repairs took."""

    rate: float
    """Repairs a second that were reached, until the cluster was ready again."""
    driver_share: float
    """CPU time of the driver's thread, as a share of one core."""
    process_share: float
    """The same of all threads: the pace's and the timers' too."""
    messages: float
    """Of the driver's mailbox, for each repair."""
    median: float
    """Microseconds of wall time from telling of the loss until the destroy is handed over."""
    slowest_percent: float
    """All but one in a hundred take less."""


def repair_cost(ready: Ready, *, rate: int = RATE, seconds: float = SECONDS) -> RepairCost:
    """So many a second for so long."""
    production = threaded(ready.desired.shape, policy=POLICY, ready=ready)
    executors = TimedReplies(production.actor.tell)
    production.connect(executors)
    production.actor.start_contained()
    production.actor.tell(SafetyTick())
    names = sorted(ready.state.nodes)
    order = cycle(names[number * STEP % len(names)] for number in range(len(names)))
    # The first one shows that all is at work, and which thread the driver's is.
    _lose(production, executors, next(order))
    production.wait_converged(lambda: executors.handed_over == 1)
    executors.waited.clear()

    cpu_clock, total = cpu_clock_of(executors.thread), int(rate * seconds)
    cpu, process = clock_gettime(cpu_clock), process_time()
    sequence, begun = production.system.next_sequence(), perf_counter()
    for number in range(total):
        wait = begun + number / rate - perf_counter()
        if wait > 0:
            sleep(wait)
        _lose(production, executors, next(order))
    production.wait_converged(lambda: executors.handed_over == 1 + total)
    wall = perf_counter() - begun
    cpu, process = clock_gettime(cpu_clock) - cpu, process_time() - process
    messages = production.system.next_sequence() - sequence - 1
    production.close()
    waited = [nanoseconds / 1000 for nanoseconds in executors.waited]
    return RepairCost(
        rate=total / wall,
        driver_share=cpu / wall,
        process_share=process / wall,
        messages=messages / total,
        median=percentile(waited, 50),
        slowest_percent=percentile(waited, 99),
    )


def _lose(production: Production, executors: TimedReplies, node: LogicalNodeId) -> None:
    """One that is still being repaired is waited for: then the pace cannot be kept."""
    while node in executors.lost_at or not production.driver.state.nodes[node].record.ready:
        sleep(0)
    executors.lost_at[node] = perf_counter_ns()
    production.lose(node)

"""A thousand repairs a second on a ready cluster, paced by the clock, on the threads of production.

One repair: a node is told lost; its lease is destroyed; its next attempt begins after a backoff of
a millisecond, gets a lease, is started, joins, is handed over, and is ready.  Replies are there at
once, made in the driver's thread, so their making counts as the driver's time.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count, cycle
from math import gcd
from time import clock_gettime, perf_counter, perf_counter_ns, process_time, sleep
from time import pthread_getcpuclockid as cpu_clock_of
from typing import TypeVar

from msgspec import Struct

from cluster_reconciler.actors.bench.executors import TimedReplies
from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.production import Production, threaded
from cluster_reconciler.actors.bench.stopwatch import percentile
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import LogicalNodeId, SafetyTick

T = TypeVar("T")

RATE = 1_000
"""Repairs a second that are asked for."""
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


def repair_cost(ready: Ready, *, rate: int = RATE, seconds: float) -> RepairCost:
    """So many a second for so long."""
    production = threaded(ready.desired.shape, policy=POLICY, ready=ready)
    executors = TimedReplies(production.actor.tell)
    production.connect(executors)
    production.actor.start_contained()
    production.actor.tell(SafetyTick())
    order = cycle(far_apart(sorted(ready.state.nodes)))
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


def far_apart(names: Sequence[T]) -> Iterator[T]:
    """Each of them once, far from the one before."""
    golden = round(len(names) * 0.618)
    # With a divisor in common, a step would come back to the first one before it has met them all.
    step = next(step for step in count(max(1, golden)) if gcd(step, len(names)) == 1)
    return (names[number * step % len(names)] for number in range(len(names)))


def _lose(production: Production, executors: TimedReplies, node: LogicalNodeId) -> None:
    """One that is still being repaired is waited for: then the pace cannot be kept."""
    production.wait_ready(node, lambda: node not in executors.lost_at)
    executors.lost_at[node] = perf_counter_ns()
    production.lose(node)

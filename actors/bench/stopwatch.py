"""How times are taken: clocks, what is kept quiet meanwhile, and what is made of many times.

It knows nothing of what is measured.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns, thread_time_ns
from typing import TypeVar

T = TypeVar("T")


def took(work: Callable[[], object]) -> float:
    """Microseconds of CPU time of this thread, of one call."""
    begun = thread_time_ns()
    work()
    return (thread_time_ns() - begun) / 1000


def took_briefly(work: Callable[[], object]) -> float:
    """Microseconds of wall time, of a call that takes a few: asking for CPU time takes nearly one.
    Who else uses the machine is in some of many such times, and not in their median."""
    begun = perf_counter_ns()
    work()
    return (perf_counter_ns() - begun) / 1000


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage is collected meanwhile; none is there that an earlier measure has left, and none
    is left to what comes next."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if was_on:
            gc.enable()


def spread(all_of_them: Collection[T], count: int) -> list[T]:
    """So many of them, at most all, evenly from the first to the last."""
    members = list(all_of_them)
    count = min(count, len(members))
    return [members[number * len(members) // count] for number in range(count)]


def percentile(times: Sequence[float], percent: int) -> float:
    """The least time that so many percent of them do not exceed."""
    ordered = sorted(times)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]

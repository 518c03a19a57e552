"""What a full reconcile of a converged cluster costs: `python -m tests.bench`.

The aim is below 0.5 µs a node at 10 000 nodes.  It is printed beside a bare walk over the same
dict, since the times of a machine drift and their ratio does not.  What tracing costs:
`python -m tests.bench trace`.
"""

import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    ReconcilePlan,
    expand_shape,
    is_converged,
    reconcile,
)
from cluster_reconciler.messages import NodeAttemptId
from tests import bench_trace
from tests.decider_words import T0, group, ready, shape

SIZES = (1_000, 10_000, 100_000)
GROUPS = 50
REPEATS = 11


def converged(size: int) -> tuple[ClusterState, ExpandedShape]:
    """A converged cluster of that many nodes in `GROUPS` groups."""
    desired = expand_shape(shape(*(group(f"g{i}", size // GROUPS) for i in range(GROUPS))))
    one = ready()
    nodes = {
        node_id: replace(
            one,
            attempt=NodeAttemptId(number),
            record=replace(one.record, logical_node_id=node_id, desired=spec),
        )
        for number, (node_id, spec) in enumerate(desired.nodes.items(), start=1)
    }
    state = ClusterState(1, NodeAttemptId(size + 1), nodes)
    assert is_converged(state, desired)
    return state, desired


def microseconds_a_node(size: int, work: Callable[[], object]) -> float:
    """The median of several runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) / size * 1e6


def walk_over(state: ClusterState) -> int:
    """Look at every node once, and do nothing."""
    return sum(1 for node in state.nodes.values() if node.pending is None)


def full_pass(state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
    """One reconcile, which must find nothing to do."""
    plan = reconcile(state, desired, now)
    assert not plan.actions
    return plan


def main() -> None:
    """Print a line for each size."""
    print(f"{'nodes':>9} {'reconcile':>14} {'bare walk':>14}   (median of {REPEATS}, µs a node)")
    for size in SIZES:
        state, desired = converged(size)
        passed = microseconds_a_node(size, lambda: full_pass(state, desired, T0))  # noqa: B023
        walked = microseconds_a_node(size, lambda: walk_over(state))  # noqa: B023
        print(f"{size:>9} {passed:>14.3f} {walked:>14.3f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["trace"]:
        sys.exit(bench_trace.main())
    main()

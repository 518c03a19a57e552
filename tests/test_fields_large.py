"""Field cases of large shapes (F21) and of runs that go on for long (F22).

The cost is counted in lines of Python that are executed: no other load of the machine changes it.
A call into C has no lines: its cost is timed, on the processor and of this thread alone, with much
room.  Finer times are printed by `cluster-reconciler bench`; 100 000 attempts are stepped by
`python -m tests.proofs leaks`, and some thousand of them here.
"""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import ENDPOINT, NO_JITTER, group
from cluster_reconciler.messages import (
    DEFAULT_IN_FLIGHT,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    ClusterShape,
    CreateLease,
    ExecutorResult,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    NodeLost,
    NodeObserved,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RunId,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
)
from tests.fields_leaks import WARM_UP, FailingForLong, grown

pytestmark = pytest.mark.usefixtures("quiet_log")

MEMORY = ProviderKind("memory")
GROUPS = 50
TRIES = 5


class Instant:
    """An executor whose every effect succeeds at once; a session joins."""

    def __init__(self) -> None:
        self.cluster: SteppingCluster | None = None

    def submit(self, effect: PlannedEffect) -> ExecutorResult:
        node, operation = effect.node, effect.operation
        session = BootstrapSessionId(operation.attempt)
        match effect.command:
            case CreateLease():
                lease = LeaseFacts(MEMORY, ProviderLeaseId(f"lease-{operation.attempt}"))
                return ExecutorResult(node, operation, LeaseCreated(lease, ENDPOINT))
            case StartBootstrap():
                assert self.cluster is not None
                joined = SwactorJoined(session, SwactorId(f"swactor-{session}"))
                self.cluster.tell(NodeObserved(node, operation.attempt, joined))
                return ExecutorResult(node, operation, BootstrapStarted(session))
            case BootstrapConvergenceObserved():
                return ExecutorResult(node, operation, BootstrapConvergenceAccepted())
            case _:
                return ExecutorResult(node, operation, LeaseDestroyed())


def large(nodes: int, *, generation: int = 1, limit: int | None = None) -> ClusterShape:
    """So many nodes in 50 groups; a limit that lets all of them go at once, or this one."""
    limits = {} if limit == DEFAULT_IN_FLIGHT else {MEMORY: ProviderLimits(limit or nodes)}
    groups = tuple(group(f"g{number}", nodes // GROUPS) for number in range(GROUPS))
    return ClusterShape(RunId(7), generation, groups, limits)


def converged(nodes: int) -> SteppingCluster:
    executor = Instant()
    cluster = SteppingCluster(
        large(nodes), retry=NO_JITTER, executor=executor, check_invariants=False
    )
    executor.cluster = cluster
    cluster.drive()
    assert cluster.converged
    return cluster


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python the work executes."""
    count, before = 0, sys.gettrace()

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401  as its type says
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def processor_seconds_of(work: Callable[[], object]) -> float:
    """What the work takes this thread on the processor, in the best of its tries."""
    took = []
    for _ in range(TRIES):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)


def nothing_changes(cluster: SteppingCluster) -> list[PlannedEffect]:
    cluster.trigger()
    return cluster.drive()


def one_node_is_lost(cluster: SteppingCluster) -> list[PlannedEffect]:
    """The one that has been there longest: it has not failed before, and is back in a second."""
    node = min(cluster.state.nodes.values(), key=lambda node: node.attempt)
    cluster.observe(node.record.logical_node_id, node.attempt, NodeLost("its power failed"))
    return [*cluster.drive(), *cluster.advance(1)]


def one_node_more(cluster: SteppingCluster) -> list[PlannedEffect]:
    first, *others = cluster.desired.groups
    groups = (replace(first, count=first.count + 1), *others)
    generation = cluster.desired.generation + 1
    cluster.update_desired(replace(cluster.desired, generation=generation, groups=groups))
    return cluster.drive()


@pytest.fixture(scope="module")
def clusters() -> dict[int, SteppingCluster]:
    """Converged ones, by how many nodes in 50 groups they have; each change leaves them so."""
    return {nodes: converged(nodes) for nodes in (1_000, 10_000)}


@pytest.mark.parametrize("change", [one_node_is_lost, one_node_more])
def test_f21_what_one_changed_node_costs_grows_with_the_shape_and_no_faster(
    change: Callable[[SteppingCluster], list[PlannedEffect]], clusters: dict[int, SteppingCluster]
) -> None:
    costs = {}
    # given so many nodes in 50 groups, converged
    for nodes, cluster in clusters.items():
        passes = cluster.passes
        dispatched: list[PlannedEffect] = []

        # when one of them changes
        lines = lines_of(lambda: dispatched.extend(change(cluster)))  # noqa: B023

        # then it alone is worked on
        assert cluster.converged
        assert len({effect.node for effect in dispatched}) == 1
        costs[nodes] = lines / (cluster.passes - passes)

    # and a pass costs some twenty lines a node, in both: ten times the nodes are ten times the work
    assert costs[10_000] < 10 * costs[1_000] * 1.05
    assert costs[10_000] / 10_000 < 30


@pytest.mark.parametrize("change", [nothing_changes, one_node_is_lost, one_node_more])
def test_f21_a_pass_over_ten_thousand_nodes_takes_far_less_than_a_second(
    change: Callable[[SteppingCluster], list[PlannedEffect]], clusters: dict[int, SteppingCluster]
) -> None:
    seconds = {}
    # given so many nodes in 50 groups, converged
    for nodes, cluster in clusters.items():
        passes = cluster.passes

        # when nothing changes, or one of them, again and again
        best = processor_seconds_of(lambda: change(cluster))  # noqa: B023

        # then every change was carried out, and this is what a pass of the best one took
        assert cluster.converged
        seconds[nodes] = best * TRIES / (cluster.passes - passes)

    # and ten times the nodes take some ten times as long, not a hundred times
    assert seconds[10_000] < 0.5
    assert seconds[10_000] < 30 * seconds[1_000]


@pytest.mark.parametrize("limit", [DEFAULT_IN_FLIGHT, 200])
def test_f21_ten_thousand_new_nodes_keep_to_the_limit_and_say_what_they_wait_for(
    limit: int,
) -> None:
    # given 10 000 nodes to be made, and a provider that has not answered yet
    cluster = SteppingCluster(large(10_000, limit=limit), retry=NO_JITTER, check_invariants=False)

    # when
    dispatched = cluster.drive()

    # then as many are in flight as its limit says, and the others say so
    assert len(dispatched) == limit
    status = cluster.status()
    waits = [node.waits_for for node in status.nodes]
    assert waits.count("its turn under its provider's limit") == 10_000 - limit
    assert status.counts.starting == status.counts.wanted == 10_000


def test_f21_the_places_go_round_until_all_are_ready() -> None:
    # given a thousand nodes, and an executor that tells how many it has at once
    executor, most = Instant(), 0
    shape = large(1_000, limit=DEFAULT_IN_FLIGHT)
    cluster = SteppingCluster(shape, retry=NO_JITTER, check_invariants=False)
    executor.cluster = cluster

    # when each round of effects is answered before the next one
    effects = cluster.drive()
    while effects:
        acquiring = [e for e in effects if isinstance(e.command, CreateLease | StartBootstrap)]
        most = max(most, len(acquiring))
        for effect in effects:
            cluster.tell(executor.submit(effect))
        effects = cluster.drive()

    # then the limit was used in full and never passed, and none was forgotten
    assert most == DEFAULT_IN_FLIGHT == 64
    assert cluster.converged
    assert cluster.state.next_attempt_id == 1_001


def test_f22_what_a_thousand_failed_attempts_take_is_given_back() -> None:
    # given failing bootstraps, and deadlines far ahead that are replaced at every step
    life = FailingForLong()
    try:
        life.run(WARM_UP)
        first = life.level()

        # when a thousand more attempts have failed
        life.run(WARM_UP + 1_000)

        # then threads, files, children, timers and memory are at their level
        assert grown(first, life.level()) == []
    finally:
        life.close()


def test_f22_a_level_that_rises_is_seen() -> None:
    life = FailingForLong(nodes=1)
    try:
        first = life.level()
        kept = [bytearray(1) for _ in range(5_000)]
        with open("/dev/null", encoding="ascii"):
            told = grown(first, life.level())
        assert [line.partition(":")[0] for line in told] == ["files", "blocks"]
        assert len(kept) == 5_000
    finally:
        life.close()

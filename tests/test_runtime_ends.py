"""How a cluster ends, and how a start that fails ends: everything goes, once, and says why."""

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from loguru import logger
from msgspec.structs import replace

from cluster_reconciler.actors import (
    Cluster,
    ClusterClosed,
    DrainIncomplete,
    EventKind,
    RetryPolicy,
    StartFailed,
)
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.actors.trace import ExecutorCall, TraceHeader, TraceLine, read_trace
from cluster_reconciler.executors.provider import ListedLease
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    Drain,
    ExecutorResult,
    GenerationRegressed,
    LeaseFacts,
    LogicalNodeId,
    NodeAttemptId,
    ProviderKind,
    ProviderLeaseId,
    RunId,
    RunMismatch,
    ShapeError,
)

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    logger.remove()
    sink = logger.add(lambda line: lines.append(str(line)), format="{level} {message}")
    yield lines
    logger.remove(sink)


class Lock:
    """A run's lock that says whether it is held."""

    def __init__(self) -> None:
        self.held = True

    def close(self) -> None:
        self.held = False


class LockedMemory(MemoryProvider):
    """With a lock, as the process provider has one."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()

    def lock_run(self, _run_id: RunId) -> Lock:
        return self.lock


def started(provider: MemoryProvider, **options: object) -> Cluster:
    cluster = Cluster.start(shape(), providers=[provider], retry=QUICK, **options)  # type: ignore[arg-type]
    cluster.wait_converged(timeout=10)
    return cluster


# -- closing ---------------------------------------------------------------------------------------


def test_whoever_closes_second_returns_when_everything_has_ended() -> None:
    # Given a drain that takes its time
    provider = MemoryProvider()
    cluster = started(provider)
    hang = provider.script.destroy("g-0").hang()

    with ThreadPoolExecutor() as pool:
        # When two threads close
        closing = [pool.submit(cluster.close) for _ in range(2)]
        assert hang.wait_until_reached()
        assert [one.done() for one in closing] == [False, False]
        hang.release()

        # Then both return, and to the same end
        assert [one.result(timeout=10) for one in closing] == [None, None]
    assert (provider.world.leases, provider.closed) == ((), True)


def test_a_close_without_a_drain_ends_the_drain_of_another_thread() -> None:
    provider = MemoryProvider()
    cluster = started(provider)
    hang = provider.script.destroy("g-0").hang()

    with ThreadPoolExecutor() as pool:
        draining = pool.submit(cluster.close)
        assert hang.wait_until_reached()
        cluster.close(drain=False)

        with pytest.raises(DrainIncomplete) as raised:
            draining.result(timeout=10)
        hang.release()
    assert [left.node for left in raised.value.left] == ["g-0"]


def test_a_closed_cluster_says_so_to_whoever_asks() -> None:
    cluster = started(MemoryProvider())
    cluster.close()

    asks: list[Callable[[], object]] = [
        cluster.status,
        cluster.drain,
        lambda: cluster.update_desired(shape(group(count=2), generation=2)),
    ]
    for ask in asks:
        with pytest.raises(ClusterClosed, match="the cluster is closed: start another one"):
            ask()
    cluster.close()
    assert list(cluster.events()) == []


def test_what_fails_in_closing_is_told_and_the_rest_is_closed(log: list[str]) -> None:
    # Given a swarm that cannot be closed, and a provider that wants to end the process
    class Swarm(SwarmListener):
        def close(self, timeout: timedelta) -> None:
            super().close(timeout)
            raise OSError("the network is away")

    class Provider(LockedMemory):
        def close(self) -> None:
            super().close()
            raise SystemExit(3)

    provider = Provider()
    cluster = started(provider, swarm=Swarm())

    # When the cluster is closed
    cluster.close()

    # Then the run is free again, and both are in the log
    assert (provider.lock.held, provider.closed) == (False, True)
    told = [line.strip() for line in log if line.startswith(("ERROR", "WARNING"))]
    assert told == [
        "ERROR closing: a step failed, the others go on: OSError('the network is away')",
        "WARNING provider memory could not close: SystemExit(3)",
    ]


# -- a start that fails ----------------------------------------------------------------------------


def test_a_start_that_fails_half_way_ends_what_it_began(tmp_path: Path) -> None:
    # Given a swarm that cannot start, after the trace was opened
    class Swarm(SwarmListener):
        closed = False

        def start(self, joined: object, lost: object) -> None:
            raise OSError("no route")

        def close(self, timeout: timedelta) -> None:
            self.closed = True
            super().close(timeout)

    provider, swarm, threads = LockedMemory(), Swarm(), threading.active_count()

    # When the cluster is started
    with pytest.raises(OSError, match="no route"):
        Cluster.start(shape(), providers=[provider], swarm=swarm, trace=tmp_path / "trace.jsonl")

    # Then nothing of it is left but the provider, which is still its owner's
    assert threading.active_count() == threads
    assert (provider.lock.held, provider.closed, swarm.closed) == (False, False, True)
    with started(provider):
        pass
    assert provider.closed


def test_a_trace_that_cannot_be_written_frees_the_run(tmp_path: Path) -> None:
    provider, threads = LockedMemory(), threading.active_count()

    with pytest.raises(OSError, match="nowhere"):
        Cluster.start(shape(), providers=[provider], trace=tmp_path / "nowhere" / "trace.jsonl")

    assert (provider.lock.held, threading.active_count()) == (False, threads)


def lease_of(run: int) -> ListedLease:
    identity = AttemptIdentity(RunId(run), LogicalNodeId("g-0"), NodeAttemptId(3))
    return ListedLease(identity, LeaseFacts(ProviderKind("memory"), ProviderLeaseId("l-1")))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "a sequence of ListedLease: found None"),
        ("l-1", "a sequence of ListedLease: found str"),
        (["l-1"], "ListedLease: found str"),
        ([lease_of(8)], "leases of run 7: found one of run 8, node g-0, attempt 3"),
        (
            [ListedLease(None, None)],  # type: ignore[arg-type]
            "ListedLease: its identity must be AttemptIdentity, found None",
        ),
    ],
)
def test_a_listing_that_is_none_stops_the_start_and_names_the_provider(
    answer: Sequence[ListedLease], expected: str
) -> None:
    class Liar(LockedMemory):
        def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
            return answer

    provider = Liar()
    with pytest.raises(StartFailed) as raised:
        Cluster.start(shape(), providers=[provider])

    assert str(raised.value) == (
        "provider memory could not list its leases: it answered with a wrong value, "
        f"expected {expected}"
    )
    assert not provider.lock.held


# -- the trace of a real run ----------------------------------------------------------------------


def test_a_trace_holds_what_a_replay_needs(tmp_path: Path) -> None:
    """Every message with its one time, and every answer of the executor."""
    provider, trace = MemoryProvider(), tmp_path / "trace.jsonl"
    hang = provider.script.create("g-1").hang()
    retry = replace(QUICK, operation_timeout=timedelta(milliseconds=200), seed=5)
    cluster = Cluster.start(shape(group(count=2)), providers=[provider], retry=retry, trace=trace)
    expired = next(e for e in cluster.events(past=True) if e.kind is EventKind.RETRY)
    hang.release()
    cluster.wait_converged(timeout=10)
    cluster.close()

    header, *lines = read_trace(trace)
    assert isinstance(header, TraceHeader)
    assert (header.seed, header.first_attempt, header.shape) == (5, 1, shape(group(count=2)))
    assert all(isinstance(line, TraceLine) and line.digest for line in lines)
    messages = [line for line in lines if isinstance(line, TraceLine)]
    answers = [answer for line in messages for answer in line.answers]
    submitted = [a.operation for a in answers if a.call is ExecutorCall.SUBMIT]
    results = {m.message.operation for m in messages if isinstance(m.message, ExecutorResult)}
    assert len(set(submitted)) == len(submitted)
    assert results <= set(submitted)
    assert next(a.withdrawn for a in answers if a.call is ExecutorCall.EXPIRE) is False
    assert expired.at in [line.at for line in messages]
    assert any(isinstance(line.message, Drain) for line in messages)


# -- what a start draws and refuses ----------------------------------------------------------------


def test_the_seed_is_drawn_once_for_each_cluster_and_a_given_one_is_kept() -> None:
    seeds = []
    for _ in range(2):
        with started(MemoryProvider()) as cluster:
            seeds.append(cluster._driver._retry.seed)
    with Cluster.start(shape(), providers=[MemoryProvider()], retry=RetryPolicy(seed=5)) as given:
        assert given._driver._retry.seed == 5

    assert 0 not in seeds
    assert len(set(seeds)) == 2


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        ({"shape": {}}, ShapeError, "expected a ClusterShape, found dict"),
        ({"providers": [MemoryProvider]}, ValueError, r"expected MemoryProvider\(...\), found the"),
        ({"providers": [None]}, ValueError, "expected a Provider, found None"),
        ({"providers": [MemoryProvider()] * 2}, ValueError, "two providers are called 'memory'"),
        ({"retry": 5}, ValueError, "retry: expected a RetryPolicy, found 5"),
        ({"trace": 5}, ValueError, "trace: expected a Path, found 5"),
        ({"swarm": 5}, ValueError, "swarm: expected a SwarmSource, found 5"),
        (
            {"safety_tick": timedelta(0)},
            ValueError,
            "safety_tick: expected a timedelta or a number",
        ),
        ({"lease_check": "30"}, ValueError, "number of seconds above 0, found '30'"),
    ],
)
def test_what_could_not_work_is_refused_before_anything_is_begun(
    wrong: dict[str, object], kind: type[Exception], said: str
) -> None:
    given: dict[str, object] = {"shape": shape(), "providers": [MemoryProvider()], **wrong}
    threads = threading.active_count()

    with pytest.raises(kind, match=said):
        Cluster.start(**given)  # type: ignore[arg-type]

    assert threading.active_count() == threads


def test_an_update_is_refused_in_the_order_of_its_faults() -> None:
    with started(MemoryProvider()) as cluster:
        elsewhere = shape(replace(group(), provider=ProviderKind("elsewhere")), generation=2)
        with pytest.raises(RunMismatch):
            cluster.update_desired(replace(elsewhere, run_id=RunId(8)))
        with pytest.raises(GenerationRegressed):
            cluster.update_desired(replace(elsewhere, generation=0))
        with pytest.raises(ShapeError, match="asks for provider 'elsewhere', this cluster has mem"):
            cluster.update_desired(elsewhere)
        with pytest.raises(ShapeError, match="expected a ClusterShape, found NoneType"):
            cluster.update_desired(None)  # type: ignore[arg-type]


# -- events ----------------------------------------------------------------------------------------


def test_a_reader_that_is_dropped_is_fed_no_more() -> None:
    cluster = started(MemoryProvider())
    for _ in range(100):
        cluster.events(past=True)
    kept = cluster.events()
    gc.collect()

    assert len(cluster._assembly.subscriptions._live_readers()) == 1
    cluster.close()
    assert [event.kind for event in kept][-1] is EventKind.CONVERGED


def test_what_a_provider_says_of_its_nodes_is_checked() -> None:
    class Describing(MemoryProvider):
        says: object = None

        def describe_node(self, _identity: AttemptIdentity) -> object:
            if isinstance(self.says, BaseException):
                raise self.says
            return self.says

    provider = Describing()
    with started(provider) as cluster:

        def details() -> dict[str, str]:
            [node] = cluster.status().nodes
            return node.details

        provider.says = {"log": "a\nb\x1b[31m"}
        assert details() == {"log": "a\\nb\\x1b[31m"}
        provider.says = {str(number): "" for number in range(1000)}
        assert len(details()) == 32
        for wrong, why in (
            (None, "expected dict[str, str]: found None"),
            (
                {"pid": 5},
                "expected dict[str, str]: found a dict with a key or value that is no str",
            ),
            (SystemExit(3), "SystemExit: 3"),
            (OSError("no"), "OSError: no"),
        ):
            provider.says = wrong
            assert details() == {"details": f"cannot be told: {why}"}


def test_events_of_the_past_begin_with_the_start() -> None:
    cluster = started(MemoryProvider())
    past, now = cluster.events(past=True), cluster.events()
    cluster.close()

    kinds = [event.kind for event in past]
    assert kinds[0] is EventKind.INSERTED
    assert (kinds.count(EventKind.READY), kinds[-1]) == (1, EventKind.CONVERGED)
    assert EventKind.INSERTED not in [event.kind for event in now]

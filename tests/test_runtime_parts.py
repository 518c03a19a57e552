"""What a host hands over: durations, providers, swarm.  What cannot work is refused by name, at
once; nothing that was refused ever costs a drain."""

import math
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors import Cluster, DrainIncomplete, NotConverged, RetryPolicy
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.providers.process import ProcessProvider

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


# -- durations -------------------------------------------------------------------------------------


def test_a_number_of_seconds_is_a_duration_everywhere() -> None:
    provider = MemoryProvider(settle_time=0.0)
    swarm = SwarmListener(heartbeat=0.5, grace=2, reconnect_grace=1, hello_timeout=3.0)
    with Cluster.start(
        shape(group(count=2)),
        providers=[provider],
        retry=QUICK,
        swarm=swarm,
        drain_timeout=20,
        safety_tick=5,
        lease_check=0.5,
    ) as cluster:
        ready = cluster.wait_converged(10).counts.ready
        cluster.drain(timeout=10)
    asked = ProviderError("later", retry_after=2)

    assert (ready, provider.world.leases, asked.error.retry_after, swarm.heartbeat) == (
        2,
        (),
        timedelta(seconds=2),
        timedelta(seconds=0.5),
    )


def test_no_time_left_is_a_wait_that_is_over() -> None:
    provider = MemoryProvider()
    provider.script.destroy("g-0").refuse("still attached", times=None)
    provider.script.create("g-1").refuse("sold out", times=None)
    cluster = Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK)
    with pytest.raises(NotConverged):
        cluster.wait_converged(-0.1)
    with pytest.raises(DrainIncomplete):
        cluster.drain(timedelta(seconds=-1))
    cluster.close(drain=False)


WRONG = [True, "5", math.nan, math.inf, 1e300, None, [5]]


@pytest.mark.parametrize("wrong", [*WRONG, -1, timedelta(-1)], ids=repr)
@pytest.mark.parametrize("name", ["drain_timeout", "safety_tick", "lease_check"])
def test_a_start_refuses_what_is_no_duration(name: str, wrong: object) -> None:
    given: dict[str, object] = {name: wrong}
    provider, threads = MemoryProvider(), threading.active_count()
    limit = ", at least 0" if name == "drain_timeout" else " above 0"

    with pytest.raises(ValueError, match=name) as raised:
        Cluster.start(shape(), providers=[provider], **given)  # type: ignore[arg-type]

    assert (str(raised.value), provider.world.calls(), threading.active_count()) == (
        f"{name}: expected a timedelta or a number of seconds{limit}, found {wrong!r}",
        (),
        threads,
    )


Make = Callable[[object], object]
MAKERS: list[tuple[str, Make]] = [
    ("heartbeat", lambda value: SwarmListener(heartbeat=value)),  # type: ignore[arg-type]
    ("grace", lambda value: SwarmListener(grace=value)),  # type: ignore[arg-type]
    ("reconnect_grace", lambda value: SwarmListener(reconnect_grace=value)),  # type: ignore[arg-type]
    ("hello_timeout", lambda value: SwarmListener(hello_timeout=value)),  # type: ignore[arg-type]
    ("join_after", lambda value: ProcessProvider(join_after=value)),  # type: ignore[arg-type]
    ("verify_timeout", lambda value: ProcessProvider(verify_timeout=value)),  # type: ignore[arg-type]
    ("settle_time", lambda value: MemoryProvider(settle_time=value)),  # type: ignore[arg-type]
    ("retry_after", lambda value: ProviderError("later", retry_after=value)),  # type: ignore[arg-type]
    ("safety_tick", lambda value: SteppingCluster(shape(), safety_tick=value)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("wrong", [w for w in WRONG if w is not None], ids=repr)
@pytest.mark.parametrize(("name", "make"), MAKERS, ids=[name for name, _ in MAKERS])
def test_a_part_refuses_what_is_no_duration(name: str, make: Make, wrong: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected a timedelta or a number of seconds"):
        make(wrong)


@pytest.mark.parametrize("wrong", [w for w in WRONG if w is not None], ids=repr)
def test_a_wait_that_is_no_duration_changes_nothing_and_leaving_drains(wrong: object) -> None:
    provider = MemoryProvider()
    with Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK) as cluster:
        cluster.wait_converged(10)
        for ask in (cluster.wait_converged, cluster.drain):
            with pytest.raises(ValueError, match="timeout: expected a timedelta or a number of"):
                ask(wrong)  # type: ignore[arg-type]
        still = cluster.status().counts.ready

    assert (still, provider.world.leases) == (2, ())


# -- providers and swarm ---------------------------------------------------------------------------


class Begun:
    """A provider in the middle of being written."""

    kind = "memory"
    settle_time = timedelta(0)
    close = None

    def create_lease(self) -> None: ...
    def find_lease(self) -> None: ...
    def lookup_endpoint(self) -> None: ...


class NoKind(MemoryProvider):
    kind = None  # type: ignore[assignment]


class NoTime(MemoryProvider):
    settle_time = 5  # type: ignore[assignment]


class HalfSwarm:
    def ticket(self) -> None: ...
    def close(self) -> None: ...


MEMORY = MemoryProvider()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"providers": [Begun()]},
            (
                "providers[0]: expected a Provider, found Begun, which has no start_bootstrap, "
                "find_bootstrap, accept_convergence, cancel_bootstrap, destroy_lease, "
                "list_leases, close"
            ),
        ),
        (
            {"providers": [MEMORY, NoKind()]},
            "NoKind: its kind must be a text that is not empty, found None",
        ),
        (
            {"providers": [NoTime()]},
            "provider 'memory': its settle_time must be a timedelta of at least 0, found 5",
        ),
        (
            {"providers": MEMORY},
            "providers: expected a list of providers, found MemoryProvider; write providers=[...]",
        ),
        (
            {"providers": "memory"},
            "providers: expected a list of providers, found str; write providers=[...]",
        ),
        ({"providers": [7]}, "providers[0]: expected a Provider, found 7"),
        (
            {"providers": [MEMORY], "swarm": HalfSwarm()},
            "swarm: expected a SwarmSource, found HalfSwarm, which has no start, retire, is_alive",
        ),
        (
            {"providers": [MEMORY], "swarm": SwarmListener},
            "swarm: expected SwarmListener(...), found the class",
        ),
    ],
)
def test_a_part_that_could_not_work_is_refused_by_what_it_lacks(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        Cluster.start(shape(), **given)  # type: ignore[arg-type]

    assert str(raised.value) == said


def test_providers_may_come_from_an_iterator() -> None:
    with Cluster.start(shape(), providers=iter([MemoryProvider()]), retry=QUICK) as cluster:
        assert cluster.wait_converged(10).counts.ready == 1

"""Found by the attacking review: each was a leak, a hang or a spin."""

import itertools
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from loguru import logger
from msgspec.structs import replace

from cluster_reconciler.actors import (
    Cluster,
    ClusterClosed,
    ClusterStatus,
    EventKind,
    RetryPolicy,
)
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.providers.process import ProcessProvider
from cluster_reconciler.messages import BootSpec, ProviderKind, ShapeRefused
from tests.process_kit import wait_until

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


@pytest.mark.parametrize(
    "command", ["exec sleep 1000 >/dev/null 2>&1", "exec >&- 2>&-; sleep 1000"]
)
def test_a_command_that_closes_its_output_joins_all_the_same(tmp_path: Path, command: str) -> None:
    boot = BootSpec(start_swactor_command=command)
    wanted = shape(replace(group(count=1), provider=ProviderKind("process"), boot=boot))
    provider = ProcessProvider(tmp_path, join_after=timedelta(milliseconds=100))
    with Cluster.start(wanted, providers=[provider], retry=QUICK) as cluster:
        assert cluster.wait_converged(timeout=20).counts.ready == 1


def test_a_drain_wins_over_updates_that_race_with_it() -> None:
    for _ in range(5):
        provider = MemoryProvider()
        cluster = Cluster.start(shape(), providers=[provider], retry=QUICK)
        cluster.wait_converged(timeout=10)

        def update(cluster: Cluster = cluster) -> None:
            for generation in itertools.count(2):
                try:
                    cluster.update_desired(
                        shape(group(count=generation % 5), generation=generation)
                    )
                except ShapeRefused:
                    return

        updating = threading.Thread(target=update)
        updating.start()
        cluster.close()
        updating.join(10)
        assert provider.world.leases == ()


def test_closing_in_the_middle_of_a_start_ends_everything() -> None:
    before = threading.active_count()
    for number in range(20):
        provider = MemoryProvider()
        cluster = Cluster.start(shape(group(count=100)), providers=[provider], retry=QUICK)
        threading.Event().wait(0.002 * (number % 7))
        cluster.close(drain=False)
        assert provider.closed
    deadline = threading.Event()
    for _ in range(200):
        if threading.active_count() <= before:
            break
        deadline.wait(0.02)
    assert threading.active_count() <= before


def test_a_listing_that_dies_is_a_warning_and_the_check_goes_on() -> None:
    provider = MemoryProvider()
    provider.script.list(skip=1).fail(SystemExit(3), times=2)
    with Cluster.start(
        shape(group(count=2)),
        providers=[provider],
        retry=QUICK,
        lease_check=timedelta(milliseconds=40),
    ) as cluster:
        events = cluster.events()
        warned = next(e for e in events if e.kind is EventKind.WARNING)
        assert "could not list its leases: SystemExit(3)" in warned.text
        cluster.wait_converged(timeout=10)
        provider.remove(provider.world.leases[0].identity)
        failed = next(e for e in events if e.kind is EventKind.FAILED)
        assert "does not list its lease any more" in failed.text


@pytest.mark.parametrize("began", [False, True], ids=["not begun", "begun"])
def test_a_question_beside_a_close_is_answered_once_and_without_an_error_in_the_log(
    began: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a driver that is held up: in a question, or before it takes one
    told: list[str] = []
    sink = logger.add(lambda line: told.append(str(line)), level="ERROR")
    cluster = Cluster.start(shape(), providers=[MemoryProvider()], retry=QUICK)
    reached, release = threading.Event(), threading.Event()
    plain = Driver.status

    def held(driver: Driver) -> ClusterStatus:
        reached.set()
        release.wait(30)
        return plain(driver)

    monkeypatch.setattr(Driver, "status", held)
    with ThreadPoolExecutor() as pool:
        asking: list[Future[object]] = [pool.submit(cluster.status)]
        assert reached.wait(10)
        if not began:
            update = shape(group(count=2), generation=2)
            asking.append(pool.submit(cluster.update_desired, update))
            wait_until(lambda: cluster._actor.depth > 0, "the update is queued")

        # When the cluster is closed meanwhile, and the driver goes on later
        cluster.close(drain=False)
        errors = [type(one.exception(timeout=10)) for one in asking]
        release.set()
        assert cluster._actor.ended.wait(10)
    logger.remove(sink)

    # Then each was told so, what was not begun has not happened, and nothing failed
    assert errors == [ClusterClosed] * len(asking)
    assert cluster._driver.desired.shape.generation == 1
    assert (told, caplog.messages) == ([], [])

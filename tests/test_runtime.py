"""The embedding runtime on real threads, with machines in memory."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from loguru import logger

from cluster_reconciler.actors import (
    Cluster,
    DrainIncomplete,
    DriverDied,
    EventKind,
    NotConverged,
    RetryPolicy,
    RunLocked,
    StartFailed,
)
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    ContentChanged,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    ShapeError,
    ShapeRefused,
)
from tests.process_kit import wait_until

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


def identity(node: str, attempt: int) -> AttemptIdentity:
    return AttemptIdentity(RunId(7), LogicalNodeId(node), NodeAttemptId(attempt))


def test_a_cluster_converges_scales_and_drains() -> None:
    provider = MemoryProvider()
    with Cluster.start(shape(group(count=3)), providers=[provider], retry=QUICK) as cluster:
        assert cluster.wait_converged(timeout=10).counts.ready == 3
        cluster.update_desired(shape(group(count=1), generation=2))
        status = cluster.wait_converged(timeout=10)
        assert [node.node for node in status.nodes] == ["g-0"]
        assert len(provider.world.leases) == 1
    assert (len(provider.world.leases), provider.closed) == (0, True)


def test_a_lost_node_comes_back_in_its_slot() -> None:
    provider = MemoryProvider()
    with Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK) as cluster:
        cluster.wait_converged(timeout=10)
        events = cluster.events()
        provider.lose(identity("g-0", 1), "its power failed")
        back = next(e for e in events if e.kind is EventKind.READY)
        assert (back.node, back.attempt) == ("g-0", 3)
        [g0, g1] = cluster.wait_converged(timeout=10).nodes
        assert g0.last_failure is not None
        assert "its power failed" in g0.last_failure.reason
        assert (g0.attempt, g1.attempt) == (3, 2)
        assert any("its power failed" in line for line in cluster.story("g-0"))


def test_not_converged_names_the_node_the_attempt_and_the_error() -> None:
    provider = MemoryProvider()
    provider.script.create("g-1").refuse("sold out", times=None)
    with Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK) as cluster:
        wait_until(lambda: _has_failed_twice(cluster), "one that is ready, one that fails")
        with pytest.raises(NotConverged) as raised:
            cluster.wait_converged(timeout=0.1)
        text = str(raised.value)
        assert "1 of 2 nodes are ready" in text
        assert "g-1: lease requested (attempt 2)" in text
        assert re.search(
            r"waits for .* for at most \S+ s more; \d+ failures in a row; last error: sold out",
            text,
        )


def test_a_node_that_waits_for_its_restart_is_backing_off_and_nothing_else() -> None:
    provider = MemoryProvider()
    slow = RetryPolicy(initial_delay=timedelta(seconds=60), jitter=0.0)
    with Cluster.start(shape(), providers=[provider], retry=slow) as cluster:
        cluster.wait_converged(timeout=10)
        provider.lose(identity("g-0", 1), "its power failed")
        wait_until(lambda: cluster.status().counts.backing_off == 1, "one that backs off")
        with pytest.raises(NotConverged) as raised:
            cluster.wait_converged(timeout=0)
        assert re.fullmatch(
            r"generation 1 is not converged: 0 of 1 nodes are ready, 0 are leaving\n"
            r"  g-0: backing off \(attempt 1\), waits for its restart after a failure for at most "
            r"\S+ s more; last error: the node is lost: its power failed",
            str(raised.value),
        )


def _has_failed_twice(cluster: Cluster) -> bool:
    ready, failing = sorted(cluster.status().nodes, key=lambda node: not node.ready)
    return ready.ready and failing.consecutive_failures >= 2


def test_a_refused_shape_changes_nothing() -> None:
    with Cluster.start(shape(generation=3), providers=[MemoryProvider()], retry=QUICK) as cluster:
        with pytest.raises(ContentChanged):
            cluster.update_desired(shape(group(count=2), generation=3))
        with pytest.raises(ShapeError, match="asks for provider 'memory', this cluster has other"):
            Cluster.start(shape(), providers=[MemoryProvider("other")])
        cluster.update_desired(shape(generation=3))
        assert cluster.wait_converged(timeout=10).counts.wanted == 1


def test_what_is_left_after_the_drain_is_named() -> None:
    provider = MemoryProvider()
    provider.script.destroy("g-0").refuse("still attached", times=None)
    cluster = Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK)
    cluster.wait_converged(timeout=10)
    with pytest.raises(DrainIncomplete) as raised:
        cluster.drain(timedelta(milliseconds=300))
    [left] = raised.value.left
    assert (left.node, left.certain) == ("g-0", True)
    assert left.lease_id == provider.world.leases[0].facts.lease_id
    assert "still attached" in str(raised.value)
    with pytest.raises(ShapeRefused, match="draining"):
        cluster.update_desired(shape(generation=9))
    cluster.close(drain=False)


def test_a_create_in_flight_may_be_left_and_is_said_so() -> None:
    provider = MemoryProvider()
    hang = provider.script.create("g-0").hang()
    cluster = Cluster.start(shape(), providers=[provider], retry=QUICK)
    assert hang.wait_until_reached()
    [left] = cluster.possibly_left()
    assert (left.certain, left.lease_id) == (False, None)
    assert left.identity == "run 7, node g-0, attempt 1"
    cluster.close(drain=False)
    hang.release()


def test_one_hanging_call_delays_nobody_else() -> None:
    provider = MemoryProvider()
    hang = provider.script.create("g-0").hang()
    with Cluster.start(shape(group(count=5)), providers=[provider], retry=QUICK) as cluster:
        wait_until(lambda: cluster.status().counts.ready == 4, "the other four")
        with pytest.raises(NotConverged, match="4 of 5 nodes are ready"):
            cluster.wait_converged(timeout=0.1)
        [g0] = [node for node in cluster.status().nodes if not node.ready]
        assert g0.waits_for == "its lease, op(1,1)"
        hang.release()
        assert cluster.wait_converged(timeout=10).counts.ready == 5


def test_a_dead_driver_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster.start(shape(), providers=[MemoryProvider()], retry=QUICK)
    cluster.wait_converged(timeout=10)

    def kill(_message: object) -> None:
        raise SystemExit("killed")

    monkeypatch.setattr(cluster._driver, "handle", kill)
    with pytest.raises(DriverDied, match="killed") as raised:
        cluster.update_desired(shape(group(count=2), generation=2))
    [left] = raised.value.left
    assert left.node == "g-0"
    for ask in (cluster.status, lambda: cluster.wait_converged(timeout=5), cluster.drain):
        with pytest.raises(DriverDied):
            ask()
    assert list(cluster.events()) == []
    cluster.close(drain=False)


def test_events_end_with_the_cluster() -> None:
    cluster = Cluster.start(shape(), providers=[MemoryProvider()], retry=QUICK)
    cluster.wait_converged(timeout=10)
    events = cluster.events()
    cluster.close()
    kinds = [event.kind for event in events]
    assert EventKind.DELETING in kinds
    assert kinds[-1] is EventKind.CONVERGED


def test_attempts_begin_above_what_any_provider_lists_and_leftovers_are_named() -> None:
    provider = MemoryProvider()
    spec = shape(group("old", 1)).expand()[LogicalNodeId("old-0")]
    provider.create_lease(identity("old-0", 41), spec)
    with Cluster.start(shape(), providers=[provider], retry=QUICK) as cluster:
        status = cluster.wait_converged(timeout=10)
        assert [node.attempt for node in status.nodes] == [42]
        assert [lease.identity for lease in cluster.leftovers] == [identity("old-0", 41)]
        assert "left by an earlier process" in status.warnings[0]
    assert [lease.identity for lease in provider.world.leases] == [identity("old-0", 41)]


def test_leftovers_are_reclaimed_when_asked_to() -> None:
    provider = MemoryProvider()
    spec = shape(group("old", 1)).expand()[LogicalNodeId("old-0")]
    provider.create_lease(identity("old-0", 41), spec)
    with Cluster.start(
        shape(group(count=0)), providers=[provider], retry=QUICK, reclaim_leftovers=True
    ) as cluster:
        assert provider.world.leases == ()
        assert cluster.status().warnings == ()


def test_a_provider_that_cannot_list_stops_the_start() -> None:
    provider = MemoryProvider()
    provider.script.list().refuse("no credentials", times=None)
    threads = threading.active_count()
    with pytest.raises(StartFailed, match=r"memory could not list its leases: no credentials"):
        Cluster.start(shape(), providers=[provider], retry=QUICK)
    assert threading.active_count() == threads


class Locked(MemoryProvider):
    def lock_run(self, run_id: RunId) -> None:
        raise RuntimeError(f"process 4711 drives run {run_id}")


def test_a_run_that_another_process_drives_is_refused() -> None:
    with pytest.raises(RunLocked, match="process 4711 drives run 7"):
        Cluster.start(shape(), providers=[Locked()], retry=QUICK)


def test_a_node_that_is_gone_at_the_provider_is_replaced() -> None:
    provider = MemoryProvider()
    with Cluster.start(
        shape(group(count=2)),
        providers=[provider],
        retry=QUICK,
        lease_check=timedelta(milliseconds=50),
    ) as cluster:
        cluster.wait_converged(timeout=10)
        events = cluster.events()
        provider.remove(identity("g-0", 1))
        failed = next(e for e in events if e.kind is EventKind.FAILED)
        assert (failed.node, failed.attempt) == ("g-0", 1)
        assert "does not list its lease any more" in failed.text
        next(e for e in events if e.kind is EventKind.READY and e.node == "g-0")
        assert cluster.wait_converged(timeout=10).counts.ready == 2


def test_threads_return_to_their_level() -> None:
    before = threading.active_count()
    with Cluster.start(
        shape(group(count=50)), providers=[MemoryProvider()], retry=QUICK
    ) as cluster:
        cluster.wait_converged(timeout=20)
    deadline = threading.Event()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        deadline.wait(0.02)
    assert threading.active_count() <= before


def test_the_embedded_host_example_runs(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(repository / "examples" / "embedded_host.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "3 nodes are ready",
        "worker-1 crashed and is back as attempt 4",
        "scaled down: worker-0, worker-1",
        "drained: 0 leases left",
    ]

"""The field case about a driver that fails itself (F20): nobody who waits for it waits for ever."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors import Cluster, DriverDied, EventKind, RetryPolicy
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import SafetyTick, Trigger

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)
SOON = timedelta(milliseconds=50)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


class Poison(Trigger, frozen=True):
    """The one message that its handler cannot take."""


def poisoned(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    sound = Driver.handle

    def handle(driver: Driver, message: object) -> None:
        if isinstance(message, Poison):
            raise error
        sound(driver, message)

    monkeypatch.setattr(Driver, "handle", handle)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyError("g-7"), RecursionError()])
def test_f20_a_handler_that_raises_on_one_message_loses_that_message_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    # given a caller that waits for a node whose lease is being made
    poisoned(monkeypatch, error)
    provider = MemoryProvider()
    hang = provider.script.create("g-1").hang()
    with (
        Cluster.start(shape(group(count=2)), providers=[provider], retry=QUICK) as cluster,
        ThreadPoolExecutor() as pool,
    ):
        waiting = pool.submit(cluster.wait_converged, 30)
        assert hang.wait_until_reached()

        # when one message makes its handler raise, and the lease is there
        cluster._actor.tell(Poison())
        hang.release()

        # then the loop has gone on, with its state: the caller gets what it waited for
        assert waiting.result(timeout=30).counts.ready == 2
        assert [node.attempt for node in cluster.status().nodes] == [1, 2]


@pytest.mark.parametrize("error", [SystemExit("out"), KeyboardInterrupt()])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_f20_a_driver_that_dies_is_an_error_for_everyone_who_waits_or_asks(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    # given callers that wait: for convergence, for events
    poisoned(monkeypatch, error)
    provider = MemoryProvider()
    provider.script.create("g-1").refuse("sold out", times=None)
    once = RetryPolicy(initial_delay=timedelta(minutes=1), jitter=0.0)
    cluster = Cluster.start(shape(group(count=2)), providers=[provider], retry=once)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(cluster.wait_converged) for _ in range(3)]
        reading = pool.submit(list, cluster.events(past=True))
        first = next(e for e in cluster.events(past=True) if e.kind is EventKind.READY)
        next(e for e in cluster.events(past=True) if e.kind is EventKind.RETRY)  # None in flight.

        # when the driver dies
        cluster._actor.tell(Poison())

        # then each of them ends, the waiting ones with an error that names what may be left
        for one in waiting:
            with pytest.raises(DriverDied) as raised:
                one.result(timeout=30)
            assert [lease.node for lease in raised.value.left] == [first.node]
        assert reading.result(timeout=30) == list(cluster.events(past=True))
        assert first in reading.result()

    # and so does whoever asks from now on
    for ask in (cluster.status, cluster.drain, lambda: cluster.update_desired(shape(generation=2))):
        with pytest.raises(DriverDied):
            ask()
    # but what the dead one remembers of a node can still be read
    [became_ready] = [line for line in cluster.story("g-0") if line.endswith("     ready")]
    cluster.close(drain=False)
    assert became_ready in cluster.story("g-0")
    assert [t.name for t in threading.enumerate() if "driver" in t.name] == []


def test_f20_a_pass_that_fails_is_tried_again_by_the_safety_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a pass that raises three times
    sound, left = Driver._plan_and_apply, iter([True] * 3)

    def plan_and_apply(driver: Driver) -> None:
        if next(left, False):
            raise RuntimeError("a defect of a pass")
        sound(driver)

    monkeypatch.setattr(Driver, "_plan_and_apply", plan_and_apply)

    # when nothing comes but the tick, then the cluster converges all the same
    with Cluster.start(
        shape(group(count=3)), providers=[MemoryProvider()], retry=QUICK, safety_tick=SOON
    ) as cluster:
        status = cluster.wait_converged(timeout=30)
        assert (status.counts.ready, status.warnings) == (3, ())


def test_f20_a_message_of_no_known_type_is_told_of_and_ignored() -> None:
    with Cluster.start(shape(), providers=[MemoryProvider()], retry=QUICK) as cluster:
        events = cluster.events()
        cluster._actor.tell(object())
        cluster._actor.tell(SafetyTick())
        told = next(e for e in events if e.kind is EventKind.REFUSED)
        assert told.text == "ignored a message of unknown type object"
        assert cluster.wait_converged(timeout=30).counts.ready == 1

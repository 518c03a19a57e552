"""Timers: replaced, cancelled, far away, failing; stepped by hand, and on their thread."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.actors.clock import END_OF_TIME, ManualClock, SystemClock
from cluster_reconciler.actors.timers import STALE_ENTRIES_MIN, ManualTimers, ThreadTimers

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PATIENCE_S = 10.0


@pytest.fixture
def threaded() -> Iterator[ThreadTimers]:
    timers = ThreadTimers(SystemClock())
    yield timers
    assert timers.close(timedelta(seconds=PATIENCE_S))


def test_manual_timers_fire_in_the_order_of_time_then_of_asking() -> None:
    clock, fired = ManualClock(START), list[str]()
    timers = ManualTimers(clock)
    for key, seconds in (("late", 2), ("b", 1), ("a", 1), ("never", 9)):
        timers.schedule(key, START + seconds * SECOND, lambda key=key: fired.append(key))  # type: ignore[misc]  # the default binds the loop's value
    assert timers.next_due() == START + SECOND
    assert timers.fire_due() == 0

    clock.advance(2 * SECOND)

    assert timers.fire_due() == 3
    assert fired == ["b", "a", "late"]
    assert timers.next_due() == START + 9 * SECOND


def test_scheduling_a_key_again_replaces_it_and_cancel_is_idempotent() -> None:
    clock, fired = ManualClock(START), list[str]()
    timers = ManualTimers(clock)
    timers.schedule("key", START + SECOND, lambda: fired.append("first"))
    timers.schedule("key", START + 2 * SECOND, lambda: fired.append("second"))
    timers.schedule("gone", START, lambda: fired.append("gone"))
    timers.cancel("gone")
    timers.cancel("gone")

    clock.advance(SECOND)
    assert timers.fire_due() == 0
    clock.advance(SECOND)

    assert timers.fire_due() == 1
    assert fired == ["second"]
    assert timers.next_due() is None


def test_a_callback_that_asks_for_now_again_does_not_hold_the_call() -> None:
    clock, fired = ManualClock(START), list[datetime]()
    timers = ManualTimers(clock)

    def again() -> None:
        fired.append(clock.now())
        timers.schedule("key", START - SECOND, again)

    timers.schedule("key", START, again)
    timers.schedule("other", START, lambda: fired.append(END_OF_TIME))

    assert timers.fire_due() == 2
    assert fired == [START, END_OF_TIME]
    assert timers.fire_due() == 1
    assert fired == [START, END_OF_TIME, START]


def test_a_failing_callback_keeps_the_others_going() -> None:
    timers, fired = ManualTimers(ManualClock(START)), list[str]()
    timers.schedule("bad", START, lambda: fired.remove("not there"))
    timers.schedule("good", START, lambda: fired.append("good"))

    assert timers.fire_due() == 2
    assert fired == ["good"]


def test_a_key_that_is_replaced_for_ever_does_not_grow_the_heap() -> None:
    timers = ManualTimers(ManualClock(START))

    for number in range(20_000):
        timers.schedule("key", START + number * SECOND, lambda: None)

    assert len(timers._schedule.heap) <= STALE_ENTRIES_MIN + 2
    assert timers.next_due() == START + 19_999 * SECOND


def test_a_naive_moment_is_refused() -> None:
    timers = ManualTimers(ManualClock(START))

    with pytest.raises(ValueError, match="timer 'key' needs an aware time"):
        timers.schedule("key", START.replace(tzinfo=None), lambda: None)


def test_the_thread_calls_back_what_is_due_and_outlives_failing_callbacks(
    threaded: ThreadTimers,
) -> None:
    # Given far-away timers, one that raises, one whose SystemExit would end the thread
    done = threading.Event()

    def leave() -> None:
        raise SystemExit(1)

    now = datetime.now(UTC)
    threaded.schedule("end of time", END_OF_TIME, lambda: None)
    threaded.schedule("bad", now, lambda: [].remove(1))  # type: ignore[arg-type]  # it raises
    threaded.schedule("exit", now, leave)

    # When another falls due after them
    threaded.schedule("good", now + timedelta(milliseconds=20), done.set)

    # Then it is called
    assert done.wait(PATIENCE_S)


def test_an_earlier_key_overtakes_the_wait_for_a_later_one(threaded: ThreadTimers) -> None:
    done = threading.Event()
    threaded.schedule("later", datetime.now(UTC) + timedelta(days=1), lambda: None)

    threaded.schedule("sooner", datetime.now(UTC) + timedelta(milliseconds=10), done.set)

    assert done.wait(PATIENCE_S)


def test_closing_ends_the_thread_and_what_comes_later_is_ignored() -> None:
    timers = ThreadTimers(SystemClock(), name="timers-of-this-test")
    timers.schedule("key", END_OF_TIME, lambda: None)

    assert timers.close(timedelta(seconds=PATIENCE_S))

    timers.schedule("key", datetime.now(UTC), lambda: None)
    names = [thread.name for thread in threading.enumerate()]
    assert "timers-of-this-test" not in names
    assert timers.close(timedelta(0))


def test_closing_does_not_wait_longer_than_it_may_for_a_stuck_callback() -> None:
    timers, entered, release = ThreadTimers(SystemClock()), threading.Event(), threading.Event()

    def stuck() -> None:
        entered.set()
        release.wait(PATIENCE_S)

    timers.schedule("key", datetime.now(UTC), stuck)
    assert entered.wait(PATIENCE_S)

    assert not timers.close(timedelta(milliseconds=10))

    release.set()
    assert timers.close(timedelta(seconds=PATIENCE_S))

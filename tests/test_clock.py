"""The two clocks: neither ever goes back, neither ever raises at the end of time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cluster_reconciler.actors.clock import END_OF_TIME, ManualClock, SystemClock

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Ticks:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_system_clock_advances_with_the_monotonic_clock_alone() -> None:
    # Given a clock that read the wall once
    ticks, walls = Ticks(), [START]
    clock = SystemClock(wall=walls.pop, monotonic=ticks)

    # When the monotonic clock advances; a second look at the wall would raise
    ticks.seconds += 2.5

    assert clock.now() == START + timedelta(seconds=2.5)
    assert walls == []


def test_system_clock_speaks_utc_whatever_the_wall_says() -> None:
    there = START.astimezone(timezone(timedelta(hours=5)))

    now = SystemClock(wall=lambda: there, monotonic=Ticks()).now()

    assert (now, now.tzinfo) == (START, UTC)


def test_system_clock_stands_still_at_the_end_of_time() -> None:
    ticks = Ticks()
    clock = SystemClock(wall=lambda: START, monotonic=ticks)

    ticks.seconds = 1e13

    assert clock.now() == END_OF_TIME


def test_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(START)

    assert clock.advance(timedelta(seconds=3)) == START + timedelta(seconds=3)
    assert clock.set(START + timedelta(seconds=4)) == clock.now()
    assert clock.advance(timedelta(0)) == START + timedelta(seconds=4)
    assert clock.advance(timedelta.max) == END_OF_TIME
    assert clock.now() == END_OF_TIME


def test_manual_clock_refuses_to_go_back_and_stays() -> None:
    clock = ManualClock(START)

    with pytest.raises(ValueError, match="cannot go back: advance by at least 0"):
        clock.advance(timedelta(seconds=-1))
    with pytest.raises(ValueError, match=r"it is 2026-01-01T12:00:00\+00:00, asked for 2025"):
        clock.set(START - timedelta(days=1))

    assert clock.now() == START


def test_a_naive_time_is_refused() -> None:
    naive = START.replace(tzinfo=None)

    with pytest.raises(ValueError, match="needs an aware time"):
        ManualClock(naive)
    with pytest.raises(ValueError, match="needs an aware time"):
        SystemClock(wall=lambda: naive)
    with pytest.raises(ValueError, match="needs an aware time"):
        ManualClock(START).set(naive)

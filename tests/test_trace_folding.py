"""Failures that repeat: written at 1, 2, 4, 8, ... and then hourly, each key by itself."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.trace import FoldedLog, RepeatedFailureFilter, log_message

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE", format="{level} {message} {extra}")
    yield lines
    logger.remove(sink)


def test_fast_repeats_are_written_at_powers_of_two() -> None:
    repeats = RepeatedFailureFilter()

    counts = [repeats.count("key", START) for _ in range(100)]

    assert [count for count in counts if count is not None] == [1, 2, 4, 8, 16, 32, 64]
    assert counts[63] == 64


def test_slow_repeats_are_written_at_least_hourly() -> None:
    repeats = RepeatedFailureFilter()

    written = [
        (minute, count)
        for minute in range(400)
        if (count := repeats.count("key", START + timedelta(minutes=minute))) is not None
    ]

    assert written == [
        (0, 1), (1, 2), (3, 4), (7, 8), (15, 16), (31, 32), (63, 64), (123, 124), (127, 128),
        (187, 188), (247, 248), (255, 256), (315, 316), (375, 376),
    ]  # fmt: skip


def test_keys_are_counted_apart_and_forgotten_ones_begin_anew() -> None:
    repeats = RepeatedFailureFilter()

    assert [repeats.count(key, START) for key in "aab"] == [1, 2, 1]
    repeats.forget("a")
    repeats.forget("never seen")

    assert [repeats.count(key, START) for key in "ab"] == [1, 2]


def test_the_key_that_was_not_seen_for_longest_gives_way() -> None:
    repeats = RepeatedFailureFilter(keys_max=2)

    counts = [repeats.count(key, START) for key in ("a", "b", "a", "c", "a", "b")]

    # "c" pushed "b" out, not the "a" that was seen after it.
    assert counts == [1, 1, 2, 1, None, 1]


def test_a_filter_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="keys_max=0"):
        RepeatedFailureFilter(0)


def test_the_folded_log_writes_the_count_beside_the_text(log: list[str]) -> None:
    folded = FoldedLog(ManualClock(START))

    counts = [folded.write("WARNING", "key", "no {capacity}", node="w-0") for _ in range(3)]

    assert counts == [1, 2, None]
    assert log == [
        "WARNING no {capacity} {'repeats': 1, 'node': 'w-0'}\n",
        "WARNING no {capacity} (occurrence 2) {'repeats': 2, 'node': 'w-0'}\n",
    ]


def test_a_message_is_logged_at_trace_with_its_record(log: list[str]) -> None:
    record = MailboxRecord(5, START, "driver", "Trigger", "", None, None, None, 0, 0.0)

    log_message(record)

    assert log == [f"TRACE driver handles Trigger #5 {{'mailbox': {record!r}}}\n"]

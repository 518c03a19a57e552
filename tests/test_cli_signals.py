"""Signals as calls: which of them count, and that everything is as before afterwards."""

import os
import signal
from queue import SimpleQueue

import pytest

from cluster_reconciler.actors.cli import signals as signals_module
from cluster_reconciler.actors.cli.signals import Signals

SECONDS_MAX = 10


def test_each_signal_is_a_call_with_its_number_in_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals_module, "SAME_MOMENT_S", 0.0)
    monkeypatch.setattr(signals_module, "SUPERVISED_S", 0.0)
    heard: SimpleQueue[tuple[signal.Signals, int]] = SimpleQueue()
    before = signal.getsignal(signal.SIGTERM)

    with Signals(lambda number, count: heard.put((number, count)), lambda: False):
        os.kill(os.getpid(), signal.SIGTERM)
        first = heard.get(timeout=SECONDS_MAX)
        os.kill(os.getpid(), signal.SIGINT)
        second = heard.get(timeout=SECONDS_MAX)

    assert [first, second] == [(signal.SIGTERM, 1), (signal.SIGINT, 2)]
    assert signal.getsignal(signal.SIGTERM) is before


def test_two_in_the_same_instant_are_one() -> None:
    """A supervisor signals the process and then its group: nobody means `at once` by that."""
    heard: SimpleQueue[tuple[signal.Signals, int]] = SimpleQueue()

    with Signals(lambda number, count: heard.put((number, count)), lambda: False) as signals:
        # As the interpreter writes them; sent as signals, the machine may take its time between.
        os.write(signals._write_end, bytes([signal.SIGINT, signal.SIGTERM]))
        first = heard.get(timeout=SECONDS_MAX)

    assert (first, heard.empty()) == ((signal.SIGINT, 1), True)


def test_one_that_comes_after_the_answer_counts_however_late_we_hear_of_the_first() -> None:
    """On a busy machine both may be waiting when we get to read them."""
    heard: SimpleQueue[tuple[signal.Signals, int]] = SimpleQueue()

    with Signals(
        lambda number, count: heard.put((number, count)), lambda: not heard.empty()
    ) as signals:
        os.write(signals._write_end, bytes([signal.SIGINT, signal.SIGINT]))

    assert [heard.get(timeout=SECONDS_MAX) for _ in range(2)] == [
        (signal.SIGINT, 1),
        (signal.SIGINT, 2),
    ]


def test_a_supervisor_that_takes_its_time_still_means_one() -> None:
    """`timeout` signals the process and then its group; our answer may come in between."""
    heard: SimpleQueue[tuple[signal.Signals, int]] = SimpleQueue()

    with Signals(
        lambda number, count: heard.put((number, count)), lambda: not heard.empty()
    ) as signals:
        os.write(signals._write_end, bytes([signal.SIGTERM, signal.SIGTERM, signal.SIGINT]))

    assert [heard.get(timeout=SECONDS_MAX) for _ in range(2)] == [
        (signal.SIGTERM, 1),
        (signal.SIGINT, 2),
    ]
    assert heard.empty()

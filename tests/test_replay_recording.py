"""What is written for a message of the driver: also where it cannot be told, and of questions."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from loguru import logger

from cluster_reconciler.actors.ports import Asked, StatusQuery, UpdateRetry
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.trace import (
    OpaqueMessage,
    TraceAltered,
    TraceLine,
    TraceTorn,
    read_trace,
)
from cluster_reconciler.actors.trace_chain import Chain
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import Drain, RunPass, SafetyTick, Trigger, UpdateDesired
from tests.replay_kit import proved, report
from tests.trace_kit import Recording


@pytest.fixture
def errors() -> Iterator[list[str]]:
    logger.remove()
    told: list[str] = []
    sink = logger.add(told.append, level="ERROR", format="{message}")
    yield told
    logger.remove(sink)


def lines_of(path: Path) -> list[TraceLine]:
    return [line for line in read_trace(path) if isinstance(line, TraceLine)]


def asked(run: Recording, message: object, *, given_up: bool = False) -> "Future[object]":
    """A question of a host program."""
    reply: Future[object] = Future()
    if given_up:
        reply.cancel()
    run.tell(Asked(message, reply))
    return reply


def test_a_question_is_written_as_what_it_asks_for(tmp_path: Path) -> None:
    # Given questions that are answered, refused, given up, and that nobody may ask
    run = Recording(tmp_path / "run.jsonl", shape(group(count=1)))
    run.begin()
    asked(run, UpdateDesired(shape(group(count=2), generation=2)))
    asked(run, UpdateDesired(shape(group(count=3), generation=1)))
    asked(run, UpdateDesired(shape(group(count=9), generation=9)), given_up=True)
    asked(run, UpdateRetry(RetryPolicy(seed=5)))
    asked(run, StatusQuery())
    no_answer = asked(run, RunPass())
    asked(run, Drain())
    path = run.close()

    # Then each stands there as what the driver did with it, and its replay does the same
    assert isinstance(no_answer.exception(), TypeError)
    told = [line.message for line in lines_of(path) if not isinstance(line.message, RunPass)]
    assert [type(message).__name__ for message in told] == [
        "SafetyTick", "UpdateDesired", "UpdateDesired", "OpaqueMessage", "UpdateRetry",
        "OpaqueMessage", "Drain",
    ]  # fmt: skip
    assert told[3] == told[5] == OpaqueMessage("NoneType")
    assert proved(path).desired.shape.generation == 3


@pytest.mark.parametrize(
    ("name", "text", "missing"),
    [
        ("effect_mark", "trace: the effect op(1,1) has no digest: TypeError('strange')", (0, 0, 1)),
        ("state_marks", "has no digest: TypeError('strange')", (2, 2, 0)),
        ("plan_mark", "has no digest: TypeError('strange')", (0, 2, 0)),
    ],
)
def test_what_has_no_mark_costs_the_log_that_comparison_and_the_driver_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: list[str],
    name: str,
    text: str,
    missing: tuple[int, int, int],
) -> None:
    # Given a run whose marks cannot be made
    def fails(*_: object) -> None:
        raise TypeError("strange")

    run = Recording(tmp_path / "run.jsonl", shape())
    monkeypatch.setattr(f"cluster_reconciler.actors.trace_recording.{name}", fails)
    [create] = run.begin()
    monkeypatch.undo()
    run.settle([create])
    path = run.close()

    # Then it goes on, its log says so, and the replay counts what it could not compare
    assert all(node.record.ready for node in run.driver.state.nodes.values())
    assert any(text in error for error in errors)
    found = report(path)
    assert (found.exit_code, found.equal) == (0, True)
    assert (
        found.messages - found.compared,
        found.passes - found.plans_compared,
        found.effects - found.effects_compared,
    ) == missing


def test_a_message_type_of_another_s_own_stands_there_by_its_name(tmp_path: Path) -> None:
    # Given a message that is derived from one of the driver's, and can be written, not read
    class Trigger2(Trigger, frozen=True, tag=True):
        pass

    run = Recording(tmp_path / "run.jsonl", shape())
    run.tell(SafetyTick())
    run.tell(Trigger2())
    lines = lines_of(run.close())
    assert [type(line.message) for line in lines].count(OpaqueMessage) == 1
    assert OpaqueMessage("Trigger2") in [line.message for line in lines]


def test_each_line_says_what_stands_before_it() -> None:
    # Given three lines of a chain
    chain = Chain()
    lines = [chain.closed(b'{"n":%d}' % number) for number in range(3)]
    assert all(line.endswith(b'"}\n') for line in lines)

    # Then they fit in their order alone, with or without the last line's end
    def fitting(*order: int) -> list[bool]:
        reader = Chain()
        return [reader.fits(lines[number]) for number in order]

    assert fitting(0, 1, 2) == [True, True, True]
    assert fitting(0, 2) == [True, False]
    assert fitting(0, 0, 1) == [True, False, True]
    assert fitting(1, 0, 2) == [False, False, False]
    reader = Chain()
    assert [reader.fits(line.rstrip()) for line in lines] == [True, True, True]


@pytest.mark.parametrize("raw", [b"", b"\n", b"{}\n", b'{"n":1,"chain":"zzzzzzzz"}\n'])
def test_a_line_without_a_sound_checksum_does_not_fit(raw: bytes) -> None:
    assert not Chain().fits(raw)


def test_a_line_that_was_changed_is_told_behind_it_and_only_once(tmp_path: Path) -> None:
    run = Recording(tmp_path / "run.jsonl", shape())
    run.begin()
    path = run.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"actor":"driver"', b'"actor":"drover"')
    path.write_bytes(b"".join(lines) + b"{")
    kinds = [type(item) for item in read_trace(path)]
    assert kinds.count(TraceAltered) == kinds.count(TraceTorn) == 1
    assert kinds.index(TraceAltered) == 3
    assert TraceAltered(3) in list(read_trace(path))

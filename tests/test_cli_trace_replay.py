"""A replayed trace is the run: the same states, the same effects, and the first lie is named."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from loguru import logger

from cluster_reconciler.actors import Cluster, RetryPolicy
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.actors.replay import Difference, Replay, Replayed
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.actors.trace import TraceHeader, TraceLine, read_trace
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    kind_of,
)
from tests.trace_kit import POLICY, Recording, random_life

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=5), seed=3)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


def replay(path: Path, *, quick: bool = False) -> tuple[Replay, list[Replayed]]:
    header, *lines = read_trace(path)
    assert isinstance(header, TraceHeader)
    replayed = Replay(header, quick=quick)
    return replayed, [replayed.feed(line) for line in lines if isinstance(line, TraceLine)]


def rewrite(path: Path, number: int, **changed: object) -> None:
    """Line `number` of the file, the header being the first, with other fields."""
    lines = path.read_bytes().splitlines(keepends=True)
    fields = msgspec.json.decode(lines[number - 1])
    lines[number - 1] = msgspec.json.encode(fields | changed) + b"\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("quick", [False, True])
def test_a_real_run_among_faults_is_replayed_without_a_difference(
    tmp_path: Path, quick: bool
) -> None:
    # Given a cluster on real threads whose provider refuses, forgets and loses
    path = tmp_path / "trace.jsonl"
    provider = MemoryProvider()
    provider.script.create("g-1").refuse("sold out", times=3)
    provider.script.create("g-2").lose_reply(times=1)
    provider.script.start("g-3").fail_later(times=2)
    desired = shape(group(count=4))
    with Cluster.start(desired, providers=[provider], retry=QUICK, trace=path) as cluster:
        cluster.wait_converged(timeout=30)
        identity = AttemptIdentity(RunId(7), LogicalNodeId("g-0"), NodeAttemptId(1))
        cluster.update_retry(RetryPolicy(initial_delay=timedelta(milliseconds=2)))
        provider.lose(identity, "its power failed")
        cluster.update_desired(shape(group(count=5), generation=2))
        cluster.wait_converged(timeout=30)

    # When it is replayed
    replayed, told = replay(path, quick=quick)

    # Then every digest and every call of the executor is as it was, and it ends as it ended
    assert replayed.difference is None
    assert replayed.state.nodes == {}
    assert len(told) + 1 == replayed.checked == len(path.read_bytes().splitlines())
    assert all(one.line.digest for one in told)
    kinds = {event.kind for one in told for event in one.events}
    assert kinds >= {EventKind.RETRY, EventKind.FAILED, EventKind.READY, EventKind.CONVERGED}


@pytest.mark.parametrize("seed", range(8))
def test_looking_only_at_whoever_may_act_gives_the_same(tmp_path: Path, seed: int) -> None:
    # Given a life among faults
    path = random_life(tmp_path / "trace.jsonl", seed)

    # When it is replayed in full, and quickly
    strict, told = replay(path)
    quick, told_quickly = replay(path, quick=True)

    # Then both say the same of every message
    assert (strict.difference, quick.difference) == (None, None)
    assert told_quickly == told
    assert quick.state == strict.state


def test_it_tells_what_the_trace_does_not_hold(tmp_path: Path) -> None:
    # Given one node whose create is answered
    run = Recording(tmp_path / "trace.jsonl", shape())
    [create] = run.begin()
    run.clock.advance(timedelta(seconds=2))
    run.answer(create)

    # When it is replayed
    _, told = replay(run.close())

    # Then the commands and the stages are there
    effects = [(str(e.operation), kind_of(e.command).value) for t in told for e in t.effects]
    assert effects == [("op(1,1)", "create_lease"), ("op(1,2)", "start_bootstrap")]
    assert [event.text for one in told for event in one.events] == [
        "wanted", "lease requested", "endpoint known",
    ]  # fmt: skip


def test_the_first_line_whose_state_differs_is_named(tmp_path: Path) -> None:
    # Given a trace in which somebody has changed an answer
    run = Recording(tmp_path / "trace.jsonl", shape())
    [create] = run.begin()
    run.fail(create, "sold out")
    run.wait(5)
    path = run.close()
    lines = [line for line in read_trace(path) if isinstance(line, TraceLine)]
    [number] = [n for n, line in enumerate(lines, 2) if b"sold out" in msgspec.json.encode(line)]
    changed = msgspec.to_builtins(lines[number - 2].message)
    changed["error"]["reason"] = "sold in"
    rewrite(path, number, message=changed)

    # When it is replayed
    replayed, _ = replay(path)

    # Then that line is named, although later ones differ as well
    assert isinstance(replayed.difference, Difference)
    assert replayed.difference.line == number
    assert "after this ExecutorResult the state has digest" in replayed.difference.reason
    assert "the replay changed g-0" in replayed.difference.reason


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], "the replay asked the executor to submit op(1,1), the run did not"),
        (
            [{"operation": {"attempt": 1, "sequence": 9}}],
            "the replay asked the executor to submit op(1,1), the run to submit op(1,9)",
        ),
        (
            [
                {"operation": {"attempt": 1, "sequence": 1}},
                {"operation": {"attempt": 1, "sequence": 1}, "call": "withdraw"},
            ],
            "the run asked the executor to withdraw op(1,1), the replay did not",
        ),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_calls_that_were_not_made_so_are_a_difference(
    tmp_path: Path, answers: list[object], reason: str, quick: bool
) -> None:
    run = Recording(tmp_path / "trace.jsonl", shape())
    run.begin()
    path = run.close()
    lines = [line for line in read_trace(path) if isinstance(line, TraceLine)]
    [number] = [n for n, line in enumerate(lines, 2) if line.answers]
    rewrite(path, number, answers=answers)

    replayed, _ = replay(path, quick=quick)

    assert replayed.difference is not None
    found = msgspec.structs.replace(replayed.difference, expected="", found="")
    sequence = lines[number - 2].sequence
    assert found == Difference(number, sequence, reason, None, "calls")
    assert str(replayed.difference).startswith(f"line {number} (message ")


def test_another_retry_policy_counts_from_its_message_on(tmp_path: Path) -> None:
    run = Recording(tmp_path / "trace.jsonl", shape())
    [create] = run.begin()
    run.tell(UpdateRetry(msgspec.structs.replace(POLICY, initial_delay=timedelta(seconds=7))))
    run.fail(create, "sold out")

    replayed, told = replay(run.close())

    assert replayed.difference is None
    assert "next try in 7 s" in [event.text for one in told for event in one.events][-1]


def test_a_submission_that_was_not_taken_is_replayed_as_such(tmp_path: Path) -> None:
    run = Recording(tmp_path / "trace.jsonl", shape())
    run.effects.refuses = "the queue is closed"
    run.begin()

    replayed, told = replay(run.close())

    assert replayed.difference is None
    assert "the queue is closed, next try in 1 s" in [e.text for one in told for e in one.events]

"""Faults of the executors that no other test would notice: each test has killed mutants that
`python -m tests.mutation --set executors` had found alive.

Here: the worker of an attempt, and what the executors hand on.  It starts no process, and no thread
of its own.  What an attempt holds has a file of its own, `test_mutants_executors_holdings`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import cast

import pytest
from loguru import logger

from cluster_reconciler.executors import (
    BootstrapContext,
    Executors,
    Stream,
    SubmissionRefused,
)
from cluster_reconciler.executors.attempt import Attempt, Runner, Worker
from cluster_reconciler.executors.provider import ActorHandle, Behaviour
from cluster_reconciler.executors.secret_references import MASK
from cluster_reconciler.messages import (
    ExecutorResult,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
)
from tests.test_executor_adoption import IDENTITY
from tests.test_executor_operations import RUN, Rig, create, start

# -- one attempt's worker -------------------------------------------------------------------------


class Heard:
    """A runner and an actor handle in one, which notes what is asked of it."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.asked: list[str] = []
        self._fails = fails

    def run(self, _worker: Worker, effect: PlannedEffect) -> None:
        self.asked.append(f"run {effect.operation}")
        if self._fails is not None:
            raise self._fails

    def worker_died(self, _worker: Worker, reason: str) -> None:
        self.asked.append(f"died: {reason}")

    def tell(self, message: object) -> None:
        self.asked.append(f"told {message}")

    def stop(self) -> None:
        self.asked.append("stop")


def worker_of(heard: Heard, actor: ActorHandle | None) -> Worker:
    """A worker that hands everything on; it never looks at its attempt."""
    worker = Worker(cast("Runner", heard), cast("Attempt", None))
    worker.actor = actor
    return worker


def test_a_worker_runs_effects_and_nothing_else() -> None:
    heard = Heard()
    worker = worker_of(heard, heard)
    worker.handle("a word")
    worker.handle(create(1))
    assert heard.asked == ["run op(1,1)"]


@pytest.mark.parametrize("error", [SystemExit("killed"), RuntimeError("a defect")])
def test_a_worker_that_dies_says_so_and_ends_its_actor(error: BaseException) -> None:
    heard = Heard(error)
    with pytest.raises(type(error)):
        worker_of(heard, heard).handle(create(1))
    said = f"{type(error).__name__}: {error}"
    assert heard.asked == ["run op(1,1)", f"died: {said}", "stop"]


def test_a_worker_without_an_actor_has_nothing_to_stop() -> None:
    heard = Heard()
    worker_of(heard, None).stop()
    assert heard.asked == []


def test_what_was_never_submitted_is_not_withdrawn() -> None:
    rig = Rig()
    rig.run(create(1))
    unknown = OperationId(NodeAttemptId(1), 99)
    assert rig.executors.withdraw(unknown) is False
    assert rig.executors.expire(unknown) is False


# -- what the executors hand on -------------------------------------------------------------------


WRONG_NUMBER = "expected its number to be int, found str"


def session_of(rig: Rig, executors: Executors) -> BootstrapContext:
    """What the one session was given, which these executors have started."""
    for effect in (create(1), start(2)):
        executors.submit(effect)
        rig.pump()
    return rig.provider.world.sessions[0].context


def test_output_and_what_is_dropped_are_handed_on_with_whose_they_are() -> None:
    rig, lines, dropped = Rig(), Lines(), Lines()
    executors = Executors(
        RUN, [rig.provider], rig.spawner, rig.hear, rig.clock.now, rig.ticket, lines, dropped
    )
    context = session_of(rig, executors)
    context.output(Stream.STDOUT, 1, "up")
    context.output(Stream.STDOUT, "2", "of no number")  # type: ignore[arg-type]
    assert lines.heard == [(IDENTITY, Stream.STDOUT, 1, "up")]
    [(identity, why)] = dropped.heard
    assert (identity, str(why).partition("): ")[2]) == (IDENTITY, WRONG_NUMBER)


def test_what_is_dropped_is_logged_when_nobody_asked_for_it() -> None:
    rig = Rig()
    context = session_of(rig, rig.executors)
    with logged() as lines:
        context.output(Stream.STDOUT, 1, "up")
        context.output(Stream.STDOUT, "2", "of no number")  # type: ignore[arg-type]
    [line] = lines
    who, _, why = line.partition("): ")
    assert (who.startswith("WARNING run 7, node g-0, attempt 1, "), why) == (True, WRONG_NUMBER)


def test_what_a_node_says_by_another_way_is_masked_with_its_own_secrets() -> None:
    rig = Rig()
    session_of(rig, rig.executors)
    said = "the-token of \ud800"
    ids = (NodeAttemptId(1), NodeAttemptId(9))
    masked = [rig.executors.masked(attempt_id, said) for attempt_id in ids]
    assert masked == [MASK + " of \\ud800", "the-token of \\ud800"]


class Lines:
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def __call__(self, *said: object) -> None:
        self.heard.append(said)


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged meanwhile, with its level."""
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line).rstrip()), format="{level} {message}")
    try:
        yield lines
    finally:
        logger.remove(sink)


def test_a_repetition_of_what_has_no_answer_yet_tells_nothing() -> None:
    rig = Rig()
    rig.executors.submit(create(1))
    rig.executors.submit(create(1))
    assert (rig.answers, rig.observed) == ([], [])


def test_what_comes_while_the_actor_is_being_started_is_told_to_it() -> None:
    rig = Rig()
    spawn = rig.spawner.spawn

    def slowly(name: str, behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        rig.executors.withdraw(create(1).operation)
        rig.executors.submit(create(2))
        return spawn(name, behaviour, died)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.spawner, "spawn", slowly)
        rig.executors.submit(create(1))
    rig.pump()
    assert [answer.operation for answer in rig.answers] == [create(2).operation]


def test_an_attempt_that_never_was_is_retired_all_the_same() -> None:
    rig = Rig()
    rig.executors.retire(NodeAttemptId(1))
    with pytest.raises(SubmissionRefused, match="attempt 1 is retired"):
        rig.executors.submit(create(1))


def test_closed_executors_tell_no_news_of_any_session() -> None:
    rig = Rig()
    context = session_of(rig, rig.executors)
    heard = len(rig.observed)
    rig.executors.close(timedelta(0))
    context.lost("gone")
    assert len(rig.observed) == heard


def test_an_actor_that_is_given_more_inside_its_answer_is_stopped_once() -> None:
    rig, stops = Rig(), Lines()

    class Inline:
        def __init__(self, behaviour: Behaviour) -> None:
            self.tell = behaviour.handle

        def stop(self) -> None:
            stops("stop")

    def hear(message: object) -> None:
        if isinstance(message, ExecutorResult) and message.operation == create(1).operation:
            executors.submit(create(2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.spawner, "spawn", lambda _name, behaviour, _died: Inline(behaviour))
        executors = Executors(RUN, [rig.provider], rig.spawner, hear, rig.clock.now, rig.ticket)
        executors.submit(create(1))
    assert stops.heard == [("stop",)]


def test_closing_waits_for_what_runs_as_long_as_it_was_told_to() -> None:
    rig, timeout = Rig(), timedelta(milliseconds=20)
    waited: list[tuple[int, bool]] = []

    def close(_call: object, effect: Callable[[], object]) -> object:
        began = monotonic()
        left = rig.executors.close(timeout)
        waited.append((len(left), monotonic() - began >= timeout.total_seconds()))
        return effect()

    rig.provider.script.create().play(close)
    rig.executors.submit(create(1))
    rig.pump()
    assert waited == [(1, True)]


def test_an_attempt_that_is_retired_while_it_works_is_kept_until_its_answer() -> None:
    rig = Rig()
    kept: list[tuple[int, int]] = []

    def retire(_call: object, effect: Callable[[], object]) -> object:
        rig.executors.retire(NodeAttemptId(1))
        kept.append((rig.executors.attempts, len(rig.executors.running)))
        return effect()

    rig.provider.script.create().play(retire)
    rig.executors.submit(create(1))
    with logged() as lines:
        rig.pump()
    assert (kept, rig.executors.attempts, len(rig.answers), lines) == ([(1, 1)], 0, 1, [])

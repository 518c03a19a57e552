"""Faults of the executors that no other test would notice: each test has killed mutants that
`python -m tests.mutation --set executors` had found alive.

It starts no process, and no thread of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

import pytest
from loguru import logger

from cluster_reconciler.executors import (
    BootstrapContext,
    Executors,
    Stream,
    SubmissionRefused,
)
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.attempt import Attempt, Runner, Worker
from cluster_reconciler.executors.provider import ActorHandle, Behaviour
from cluster_reconciler.executors.secret_references import MASK
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    CancelBootstrap,
    Disposition,
    LeaseAbsent,
    LeaseDestroyed,
    NodeAttemptId,
    OperationId,
    PlannedEffect,
    SwactorId,
)
from tests.test_executor_adoption import (
    ADOPT_LEASE,
    ADOPT_SESSION,
    CREATE,
    DESTROY,
    FIRST,
    FOUND,
    IDENTITY,
    LOOK_UP,
    SECOND,
    START,
)
from tests.test_executor_adoption import Attempt as Held
from tests.test_executor_operations import RUN, T0, Rig, create, start

LATER = T0 + timedelta(seconds=5)
CANCEL = CancelBootstrap(FIRST)
HAND_OVER = BootstrapConvergenceObserved(FIRST, SwactorId("s"))

# -- what an attempt may hold ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Holding[str](), Holding[str]()),
        (Holding("lease"), Holding("lease")),
        (Holding[str]().making(), Holding[str](unresolved=True, call_ended_at=LATER)),
        (
            Holding[str]().making().interrupted(T0),
            Holding[str](unresolved=True, call_ended_at=T0),
        ),
    ],
)
def test_only_the_call_that_makes_it_is_interrupted_and_only_once(
    before: Holding[str], after: Holding[str]
) -> None:
    assert before.interrupted(LATER) == after


def test_what_a_look_shows_is_as_old_as_the_call_that_made_it() -> None:
    unsure = Holding[str]().making().interrupted(T0)
    assert unsure.found("lease") == Holding("lease", call_ended_at=T0)


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


# -- what is over once it has succeeded -----------------------------------------------------------


def test_what_has_succeeded_is_answered_again_without_a_call() -> None:
    held = Held()
    held.asks(CREATE)
    held.asks(START)
    said = [held.asks(command) for command in (HAND_OVER, CANCEL, HAND_OVER, CANCEL)]
    said += [held.asks(command) for command in (DESTROY, DESTROY)]
    handed_over, cancelled = BootstrapConvergenceAccepted(), BootstrapCancelled()
    assert said == [handed_over, cancelled] * 2 + [LeaseDestroyed()] * 2
    ends = ["accept_convergence", "cancel_bootstrap", "destroy_lease"]
    assert held.story == ["create_lease", "start_bootstrap", *ends]


def test_another_command_of_the_same_kind_is_carried_out() -> None:
    held = Held()
    held.asks(CREATE)
    held.asks(CANCEL)
    held.asks(CancelBootstrap(SECOND))
    assert held.story == ["create_lease", "cancel_bootstrap", "cancel_bootstrap"]


def test_a_lease_that_is_made_afresh_has_an_end_of_its_own() -> None:
    held = Held()
    for command in (CREATE, DESTROY, CREATE, DESTROY):
        held.asks(command)
    assert held.story == ["create_lease", "destroy_lease"] * 2


def test_a_destroy_that_is_not_finished_ends_neither_lease_nor_session() -> None:
    held = Held()
    held.asks(CREATE)
    held.asks(START)
    held.provider.script.destroy().unfinished(times=1)
    assert held.asks(DESTROY) == LeaseDestroyed(confirmed=False)
    assert held.asks(CANCEL) == BootstrapCancelled()
    assert held.story[-2:] == ["destroy_lease", "cancel_bootstrap"]


# -- looks ----------------------------------------------------------------------------------------


def test_a_look_for_a_lease_that_fails_is_definite_only_when_it_may_not_make_one() -> None:
    held = Held()
    held.provider.script.create().lose_reply()
    held.provider.script.find().fail(RuntimeError("throttled"), times=2)
    held.fails(CREATE)
    assert held.fails(CREATE) is Disposition.AMBIGUOUS
    assert held.fails(ADOPT_LEASE) is Disposition.DEFINITE


def test_a_lease_of_an_earlier_process_is_known_from_its_look_up() -> None:
    held = Held(settle=10)
    assert held.asks(LOOK_UP) == LeaseAbsent(conclusive=False)
    held.wait(10)
    assert held.asks(LOOK_UP) == LeaseAbsent(conclusive=True)


def test_a_look_up_forgets_nothing_of_the_lease() -> None:
    held = Held()
    held.asks(CREATE)
    held.asks(LOOK_UP)
    assert held.asks(CREATE) == FOUND


def test_only_a_look_up_may_end_the_attempt() -> None:
    held = Held()
    held.asks(CREATE)
    held.provider.script.lookup().end_attempt()
    held.provider.script.destroy().end_attempt()
    assert held.fails(LOOK_UP) is Disposition.ATTEMPT_ENDING
    held.provider.script.lookup().fail(RuntimeError("throttled"))
    assert held.fails(LOOK_UP) is Disposition.DEFINITE
    assert held.fails(DESTROY) is Disposition.DEFINITE


def test_what_the_provider_itself_is_not_sure_of_is_not_conclusive() -> None:
    held = Held()
    held.asks(CREATE)
    held.provider.script.lookup().answer(LeaseAbsent(conclusive=False))
    assert held.asks(LOOK_UP) == LeaseAbsent(conclusive=False)


# -- is the lease gone? ---------------------------------------------------------------------------


def test_a_lease_that_nobody_knows_is_not_looked_for_to_tell_that_it_is_gone() -> None:
    held = Held()
    held.provider.script.find_session().fail(RuntimeError("no such host"))
    assert held.fails(ADOPT_SESSION) is Disposition.DEFINITE
    assert held.story == ["find_bootstrap"]


def test_a_start_on_a_lease_that_nobody_knows_is_found_absent_only_after_the_settle_time() -> None:
    held = Held(settle=10)
    held.provider.script.start().fail(RuntimeError("reset"))
    held.fails(START)
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=False)
    held.wait(10)
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=True)


def test_a_look_for_the_lease_that_fails_does_not_say_that_it_is_gone() -> None:
    held = Held(settle=10)
    held.asks(CREATE)
    held.wait(10)
    held.provider.script.start().fail(RuntimeError("reset"))
    held.provider.script.find().fail(RuntimeError("throttled"), times=2)
    held.fails(START)
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=False)
    held.provider.script.find_session().fail(RuntimeError("no such host"))
    assert held.fails(ADOPT_SESSION) is Disposition.DEFINITE


def deleted_by_hand_after_a_start() -> Held:
    """The start has no known outcome; the lease is old enough to be missed, and is gone."""
    held = Held(settle=10)
    held.asks(CREATE)
    held.wait(10)
    held.provider.script.start().fail(RuntimeError("reset"))
    held.fails(START)
    held.provider.remove(IDENTITY)
    return held


def test_a_lease_that_is_gone_makes_a_look_for_its_session_conclusive() -> None:
    held = deleted_by_hand_after_a_start()
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=True)
    assert held.story[-2:] == ["find_bootstrap", "find_lease"]


def test_a_start_never_looks_whether_its_lease_is_gone() -> None:
    held = deleted_by_hand_after_a_start()
    assert held.asks(START) == BootstrapAbsent(conclusive=False)
    held.provider.script.find_session().fail(RuntimeError("no such host"))
    assert held.fails(START) is Disposition.AMBIGUOUS
    assert held.story[-2:] == ["find_bootstrap", "find_bootstrap"]


def test_a_cancel_that_fails_because_the_lease_is_gone_succeeds() -> None:
    held = deleted_by_hand_after_a_start()
    held.provider.script.cancel().fail(RuntimeError("no such host"))
    assert held.asks(CANCEL) == BootstrapCancelled()
    assert held.story[-2:] == ["cancel_bootstrap", "find_lease"]


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

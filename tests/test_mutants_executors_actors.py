"""Faults of how the actors of an attempt start, take work and end that no other test would notice:
each test has killed mutants that `python -m tests.mutation --set executors` had found alive.

It starts no process: what an actor is told, it is made to handle by hand.
"""

from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

import pytest

from cluster_reconciler.executors import Executors, SubmissionRefused
from cluster_reconciler.executors.attempt import Worker
from cluster_reconciler.executors.provider import ActorHandle, Behaviour
from cluster_reconciler.messages import Disposition, EffectError, LeaseAbsent, NodeAttemptId
from tests.test_executor_operations import CREATED_1, RUN, T0, Rig, create
from tests.test_mutants_executors import Heard, logged

PATIENCE = 10.0
"""Seconds after which what must end at once has not ended."""

# -- actors that are started, and end -------------------------------------------------------------


def test_an_actor_that_is_killed_before_it_began_has_run_nothing() -> None:
    rig = Rig()
    rig.executors.submit(create(1))
    rig.spawner.kill(0)
    rig.pump()
    [error] = [answer.error for answer in rig.answers]
    assert error is not None
    why = "actor executor-g-0-1 died: SystemExit('killed') in handling PlannedEffect"
    assert error == EffectError(f"executor died before it began: {why}", not_run=True)
    assert rig.provider.world.story() == []


@pytest.mark.parametrize("ends", ["withdrawn", "died"])
def test_an_actor_with_nothing_left_when_it_has_started_is_told_nothing(ends: str) -> None:
    rig, heard = Rig(), Heard()
    names: list[str] = []

    def spawn(name: str, _behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        names.append(name)
        if ends == "died":
            died("at once")
        else:
            rig.executors.withdraw(create(1).operation)
        return heard

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.spawner, "spawn", spawn)
        rig.executors.submit(create(1))
    assert names == ["executor-g-0-1"]
    assert heard.asked == (["stop"] if ends == "withdrawn" else [])
    assert [answer.operation for answer in rig.answers] == [create(1).operation] * (ends == "died")


class ByHand:
    """Starts actors that do nothing by themselves, and notes what they are told."""

    def __init__(self, rig: Rig, patch: pytest.MonkeyPatch) -> None:
        self.workers: list[Behaviour] = []
        self.told: list[object] = []
        self.stops = 0
        patch.setattr(rig.spawner, "spawn", self.spawn)

    def spawn(self, _name: str, behaviour: Behaviour, _died: Callable[[str], None]) -> "ByHand":
        self.workers.append(behaviour)
        return self

    def tell(self, message: object) -> None:
        self.told.append(message)

    def stop(self) -> None:
        self.stops += 1


def sequences(rig: Rig) -> list[int]:
    return [answer.operation.sequence for answer in rig.answers]


def test_an_actor_is_stopped_once_when_its_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    by_hand = ByHand(rig, monkeypatch)
    rig.executors.submit(create(1))
    [worker] = by_hand.workers
    worker.handle(create(1))
    assert (by_hand.told, by_hand.stops, sequences(rig)) == ([create(1)], 1, [1])


def test_an_actor_is_stopped_when_its_work_was_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    by_hand = ByHand(rig, monkeypatch)
    rig.executors.submit(create(1))
    rig.executors.withdraw(create(1).operation)
    [worker] = by_hand.workers
    with logged() as lines:
        worker.handle(create(1))
    assert (by_hand.stops, sequences(rig), lines) == (1, [], [])


def test_a_late_message_of_what_was_withdrawn_does_not_begin_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    by_hand = ByHand(rig, monkeypatch)
    rig.executors.submit(create(1))
    rig.executors.withdraw(create(1).operation)
    rig.executors.submit(create(2))
    [worker] = by_hand.workers
    worker.handle(create(1))
    assert (by_hand.stops, sequences(rig)) == (0, [])
    worker.handle(create(2))
    assert (by_hand.stops, sequences(rig)) == (1, [2])


def test_a_worker_that_has_died_takes_no_work_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    by_hand = ByHand(rig, monkeypatch)
    rig.executors.submit(create(1))
    [first] = by_hand.workers
    assert isinstance(first, Worker)
    with logged() as lines:
        rig.executors.worker_died(first, "killed")
    assert lines == ["ERROR run 7, node g-0, attempt 1: its executor died: killed"]
    rig.executors.submit(create(2))
    first.handle(create(2))
    rig.executors.worker_died(first, "told a second time")
    assert sequences(rig) == [1]
    by_hand.workers[1].handle(create(2))
    assert sequences(rig) == [1, 2]


def test_what_runs_is_known_with_its_state_and_its_time() -> None:
    rig = Rig()
    seen: list[object] = []

    def look(_call: object, effect: Callable[[], object]) -> object:
        seen.extend((running.operation, running.since) for running in rig.executors.running)
        with pytest.raises(SubmissionRefused, match=r"of the same attempt is running; wait for"):
            rig.executors.submit(create(2))
        return effect()

    rig.provider.script.create().play(look)
    assert rig.run(create(1)) == CREATED_1
    assert seen == [(create(1).operation, T0)]


def test_what_has_expired_lets_one_more_wait_behind_it() -> None:
    rig = Rig()

    def expire(_call: object, effect: Callable[[], object]) -> object:
        assert not rig.executors.expire(create(1).operation)
        rig.executors.submit(create(2))
        with pytest.raises(SubmissionRefused, match=r"op\(1,2\) \(create_lease\) .* is waiting"):
            rig.executors.submit(create(3))
        return effect()

    rig.provider.script.create().play(expire)
    rig.executors.submit(create(1))
    rig.pump()
    assert sequences(rig) == [1, 2]


def test_a_call_that_fails_is_answered_with_its_error() -> None:
    rig = Rig()
    rig.provider.script.create().fail(RuntimeError("no route"))
    reason = "provider memory, create_lease: RuntimeError: no route"
    assert rig.run(create(1)) == EffectError(reason, Disposition.AMBIGUOUS)


def test_a_retired_attempt_whose_actor_dies_at_work_is_forgotten() -> None:
    rig = Rig()

    def retire_and_die(_call: object, _effect: Callable[[], object]) -> object:
        rig.executors.retire(NodeAttemptId(1))
        raise SystemExit("killed")

    rig.provider.script.create().play(retire_and_die)
    assert rig.run(create(1)) == EffectError(
        "executor died: SystemExit: killed", Disposition.AMBIGUOUS
    )
    assert rig.executors.attempts == 0


def test_the_settle_time_of_a_call_runs_from_the_death_of_its_actor() -> None:
    rig = Rig(settle=10)
    rig.provider.script.create().fail(SystemExit("killed"))
    rig.run(create(1))
    rig.wait(10)
    assert rig.run(create(2)) == LeaseAbsent(conclusive=True)


def test_closing_ends_with_the_last_operation() -> None:
    # given somebody who closes the executors, and waits inside for what runs
    rig, waits = Rig(), Event()
    changed = rig.executors._changed
    wait = changed.wait

    def announced(timeout: float | None = None) -> bool:
        waits.set()
        return wait(timeout)

    closing = Thread(target=rig.executors.close, args=[timedelta(seconds=60)], daemon=True)

    def close(_call: object, effect: Callable[[], object]) -> object:
        closing.start()
        assert waits.wait(PATIENCE)
        return effect()

    # when the operation ends
    rig.provider.script.create().play(close)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed, "wait", announced)
        assert rig.run(create(1)) == CREATED_1

        # then the wait ends with it
        closing.join(PATIENCE)
    assert not closing.is_alive()


def test_an_answer_that_cannot_be_told_is_logged() -> None:
    rig = Rig()

    def deaf(_message: object) -> None:
        raise RuntimeError("mailbox closed")

    executors = Executors(RUN, [rig.provider], rig.spawner, deaf, rig.clock.now, rig.ticket)
    executors.submit(create(1))
    with logged() as lines:
        rig.pump()
    assert lines == ["ERROR ExecutorResult could not be told: RuntimeError: mailbox closed"]

"""Faults of the executors that no other test would notice: each test has killed mutants that
`python -m tests.mutation --set executors` had found alive.

It starts no process, and no thread of its own.
"""

from datetime import timedelta
from typing import cast

import pytest

from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.attempt import Attempt, Runner, Worker
from cluster_reconciler.executors.provider import ActorHandle
from cluster_reconciler.messages import NodeAttemptId, OperationId, PlannedEffect
from tests.test_executor_operations import T0, Rig, create

LATER = T0 + timedelta(seconds=5)

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

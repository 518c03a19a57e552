"""Faults of what an attempt holds that no other test would notice: each test has killed mutants
that `python -m tests.mutation --set executors` had found alive.

It starts no process and no thread.
"""

from datetime import timedelta

import pytest

from cluster_reconciler.executors import ProviderError
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    CancelBootstrap,
    Disposition,
    LeaseAbsent,
    LeaseDestroyed,
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
    T0,
)
from tests.test_executor_adoption import Attempt as Held

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


def test_what_is_known_of_a_thing_never_changes_in_place() -> None:
    holding = Holding("lease")
    with pytest.raises(AttributeError, match="immutable"):
        holding.known = "another"  # type: ignore[misc]


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
    held.provider.script.lookup().fail(ProviderError("throttled", Disposition.AMBIGUOUS))
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

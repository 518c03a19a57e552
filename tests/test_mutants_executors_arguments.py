"""What an executor hands on is what it was given: each test has killed mutants in which an argument
was none, that `python -m tests.mutation --set executors` had found alive.

It starts no process and no thread.
"""

from cluster_reconciler.executors.ledger import RunningOperation
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.executors.providers.memory_script import Effect
from cluster_reconciler.executors.providers.memory_world import Call
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapConvergenceObserved,
    BootstrapStarted,
    CancelBootstrap,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseCreated,
    OperationKind,
    SwactorId,
)
from tests.test_executor_adoption import (
    ADOPT_LEASE,
    ADOPT_SESSION,
    CREATE,
    DESTROY,
    FACTS,
    FIRST,
    FOUND,
    IDENTITY,
    LOOK_UP,
    SECOND,
    SESSION_SPEC,
    SPEC,
    START,
    Attempt,
)
from tests.test_executor_operations import T0, Rig, create

HAND_OVER = BootstrapConvergenceObserved(FIRST, SwactorId("s"))


def test_a_provider_is_called_with_what_the_command_says() -> None:
    held = Attempt()
    for command in (CREATE, LOOK_UP, START, HAND_OVER, CancelBootstrap(SECOND), DESTROY):
        held.asks(command)

    assert [(call.kind, call.argument) for call in held.provider.world.calls()] == [
        (CallKind.CREATE_LEASE, SPEC),
        (CallKind.LOOKUP_ENDPOINT, FACTS),
        (CallKind.START_BOOTSTRAP, SESSION_SPEC),
        (CallKind.ACCEPT_CONVERGENCE, (FIRST, SwactorId("s"))),
        (CallKind.CANCEL_BOOTSTRAP, SECOND),
        (CallKind.DESTROY_LEASE, DESTROY.handle),
    ]


# -- what is known is asked for no more -----------------------------------------------------------


def test_a_lease_that_a_look_has_found_is_known() -> None:
    # given a create whose reply was lost, and the look that finds its lease
    held = Attempt()
    held.provider.script.create().lose_reply()
    assert held.fails(CREATE) is Disposition.AMBIGUOUS
    assert held.asks(CREATE) == FOUND

    # then nobody has to look again, and nothing is made
    assert [held.asks(CREATE), held.asks(ADOPT_LEASE)] == [FOUND, FOUND]
    assert held.story == ["create_lease", "find_lease"]


def test_a_lease_that_is_looked_up_is_known_by_what_the_driver_knows_of_it() -> None:
    # given executors that were begun anew, so that they have heard of no create
    held = Attempt()
    held.provider.script.lookup().not_yet()
    assert held.asks(LOOK_UP) == EndpointLookup()

    assert held.asks(CREATE) == LeaseCreated(FACTS)
    assert held.story == ["lookup_endpoint"]


def test_a_session_that_was_started_is_known() -> None:
    held = Attempt()
    held.asks(CREATE)

    assert [held.asks(START) for _ in range(2)] == [BootstrapStarted(FIRST)] * 2
    assert held.story == ["create_lease", "start_bootstrap"]


# -- from when on a session that is not seen is not there -----------------------------------------


def unsure_session() -> Attempt:
    """It needs ten seconds to show what is new; its lease is older than that."""
    held = Attempt(settle=10)
    held.asks(CREATE)
    held.wait(60)
    return held


def test_the_settle_time_of_a_start_that_failed_begins_with_its_failure() -> None:
    held = unsure_session()
    held.provider.script.start().fail(RuntimeError("connection reset"))
    assert held.fails(START) is Disposition.AMBIGUOUS

    held.wait(9.9)
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=False)
    held.wait(0.1)
    assert held.asks(ADOPT_SESSION) == BootstrapAbsent()


def test_the_first_look_after_the_settle_time_is_conclusive() -> None:
    held = unsure_session()
    held.provider.script.start().fail(RuntimeError("connection reset"))
    held.asks(START)

    held.wait(10)

    assert held.asks(ADOPT_SESSION) == BootstrapAbsent()


def test_the_settle_time_of_a_start_begins_with_the_end_of_the_thread_that_ran_it() -> None:
    held = unsure_session()
    held.provider.script.start().fail(SystemExit("killed"))
    try:
        held.asks(START)
    except SystemExit:
        held.carrier.interrupted()

    held.wait(10)

    assert held.asks(ADOPT_SESSION) == BootstrapAbsent()


# -- what is told of an operation -----------------------------------------------------------------


def test_what_runs_is_told_with_its_attempt_and_its_kind() -> None:
    rig = Rig()
    seen: list[RunningOperation] = []

    def look_around(_call: Call, effect: Effect) -> object:
        seen.extend(rig.executors.running)
        return effect()

    rig.provider.script.create().play(look_around)
    effect = create(1)
    rig.run(effect)

    kind = OperationKind.CREATE_LEASE
    assert seen == [RunningOperation(IDENTITY, effect.operation, kind, T0)]
    assert str(seen[0]) == f"create_lease op(1,1) ({IDENTITY}, since {T0.isoformat()})"


def test_what_an_executor_that_died_has_answered_is_answered_again() -> None:
    rig = Rig()
    rig.provider.script.create().fail_after_effect(SystemExit("killed"))
    reason = "executor died: SystemExit: killed"

    said = [rig.run(create(1)) for _ in range(2)]

    assert said == [EffectError(reason, Disposition.AMBIGUOUS)] * 2
    assert rig.provider.world.story() == ["create_lease"]

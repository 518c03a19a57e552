"""One attempt never has two leases or sessions, whatever its provider does (design rules 13-16)."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.executors import MemoryProvider, ProviderError, SwarmTicket
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.carrier import Carrier
from cluster_reconciler.executors.checked_provider import CallFailed, CheckedProvider
from cluster_reconciler.executors.session_context import Listener, SessionIds
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DestroyHandle,
    DestroyLease,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeAttemptId,
    NodeGroupId,
    NodeManagerCommand,
    NodeObserved,
    OperationOutcome,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    StartBootstrap,
    SwarmJoinSpec,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RUN, NODE = RunId(7), LogicalNodeId("g-0")
IDENTITY = AttemptIdentity(RUN, NODE, NodeAttemptId(1))
MEMORY = ProviderKind("memory")
FACTS = LeaseFacts(MEMORY, ProviderLeaseId("memory-7-g-0-1"))
FOUND = LeaseCreated(FACTS, LocalEndpoint("memory/memory-7-g-0-1"))
SPEC = LogicalNodeSpec(RUN, NODE, NodeGroupId("g"), RoleId("worker"), MEMORY)
SESSION_SPEC = BootstrapSessionSpec(
    RUN, NODE, FACTS.lease_id, LocalEndpoint("here"), BootSpec(), SwarmJoinSpec()
)
FIRST, SECOND = (BootstrapSessionId((1 << 20) + n) for n in (1, 2))

CREATE, ADOPT_LEASE = CreateLease(SPEC), CreateLease(SPEC, adopt_only=True)
START, ADOPT_SESSION = StartBootstrap(SESSION_SPEC), StartBootstrap(SESSION_SPEC, adopt_only=True)
LOOK_UP = LookupEndpoint(FACTS)
DESTROY = DestroyLease(DestroyHandle(MEMORY, FACTS.lease_id))


class Attempt:
    """One attempt on a memory provider that needs `settle` seconds to show what is new."""

    def __init__(self, settle: float = 0.0, *, read_lag: float = 0.0) -> None:
        self.clock = ManualClock(T0)
        self.provider = MemoryProvider(now=self.clock.now, settle_time=timedelta(seconds=settle))
        self.provider.read_lag = timedelta(seconds=read_lag)
        self.observed: list[NodeObserved] = []
        self.carrier = Carrier(
            IDENTITY,
            CheckedProvider(self.provider, MEMORY, IDENTITY),
            self.provider.settle_time,
            self.clock.now,
            SessionIds(),
            Listener(
                observed=self.observed.append,
                output=lambda *line: None,
                ticket=lambda identity: SwarmTicket("127.0.0.1:1", "token"),
                is_over=lambda: False,
                dropped=lambda identity, text: None,
            ),
        )

    @property
    def story(self) -> list[str]:
        return self.provider.world.story()

    def asks(self, command: NodeManagerCommand) -> OperationOutcome | EffectError:
        try:
            return self.carrier.carry_out(command)
        except CallFailed as failed:
            return failed.error

    def fails(self, command: NodeManagerCommand) -> Disposition:
        answer = self.asks(command)
        assert isinstance(answer, EffectError), answer
        return answer.disposition

    def wait(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))


@pytest.fixture
def attempt() -> Attempt:
    return Attempt()


# -- a create whose outcome is unknown ------------------------------------------------------------


def test_l29_a_machine_that_was_made_before_the_exception_is_adopted(attempt: Attempt) -> None:
    attempt.provider.script.create().fail_after_effect(RuntimeError("connection reset"))
    assert attempt.asks(CREATE) == EffectError(
        "provider memory, create_lease: RuntimeError: connection reset", Disposition.AMBIGUOUS
    )
    assert attempt.asks(CREATE) == FOUND
    assert attempt.story == ["create_lease", "find_lease"]
    assert attempt.provider.world.creations() == 1


def test_a_create_that_made_nothing_is_found_absent_and_then_made_afresh(attempt: Attempt) -> None:
    attempt.provider.script.create().fail(RuntimeError("no route"))
    attempt.fails(CREATE)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=True)
    assert attempt.asks(CREATE) == FOUND
    assert attempt.story == ["create_lease", "find_lease", "create_lease"]


def test_f2_a_lagging_read_makes_no_second_machine() -> None:
    attempt = Attempt(settle=3, read_lag=3)
    attempt.provider.script.create().lose_reply()
    attempt.fails(CREATE)
    for _ in range(50):
        assert attempt.asks(CREATE) == LeaseAbsent(conclusive=False)
        attempt.wait(0.02)
    attempt.wait(2)
    assert attempt.asks(CREATE) == FOUND
    assert attempt.provider.world.creations() == 1
    assert attempt.provider.world.doubles == frozenset()


def test_the_settle_time_runs_from_the_end_of_the_create_and_no_look_renews_it() -> None:
    attempt = Attempt(settle=10)
    attempt.provider.script.create().play(lambda call, effect: slow_failure(attempt, 30))
    attempt.fails(CREATE)
    attempt.wait(5)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=False)
    attempt.wait(4.999)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=False)
    attempt.wait(0.001)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=True)


def slow_failure(attempt: Attempt, seconds: float) -> None:
    attempt.wait(seconds)
    raise TimeoutError("late")


def test_a_slow_look_is_judged_by_when_it_was_asked() -> None:
    attempt = Attempt(settle=10)
    attempt.provider.script.create().fail(RuntimeError())
    attempt.fails(CREATE)
    attempt.provider.script.find().play(lambda call, effect: attempt.wait(60))
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=False)


def test_a_definite_refusal_leaves_nothing_to_look_for(attempt: Attempt) -> None:
    refused = ProviderError("quota", retry_after=timedelta(seconds=9))
    attempt.provider.script.create().fail(refused)
    assert attempt.asks(CREATE) == refused.error
    assert attempt.asks(CREATE) == FOUND
    assert attempt.story == ["create_lease", "create_lease"]


def test_under_a_token_that_is_refused_for_good_something_may_exist() -> None:
    attempt = Attempt(settle=5)
    attempt.provider.script.create().end_attempt()
    assert attempt.fails(CREATE) is Disposition.ATTEMPT_ENDING
    assert attempt.asks(ADOPT_LEASE) == LeaseAbsent(conclusive=False)
    attempt.wait(5)
    assert attempt.asks(ADOPT_LEASE) == LeaseAbsent(conclusive=True)
    assert attempt.provider.world.creations() == 0


def test_a_lease_that_is_known_is_answered_without_a_call(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    assert attempt.asks(CREATE) == FOUND
    assert attempt.asks(ADOPT_LEASE) == FOUND
    assert attempt.story == ["create_lease"]


def test_an_adopt_only_look_never_makes_and_is_conclusive_when_no_create_began() -> None:
    attempt = Attempt(settle=60)
    assert attempt.asks(ADOPT_LEASE) == LeaseAbsent(conclusive=True)
    assert attempt.asks(ADOPT_SESSION) == BootstrapAbsent(conclusive=True)
    assert attempt.story == ["find_lease", "find_bootstrap"]


def test_a_create_whose_thread_died_is_as_old_as_that_death() -> None:
    attempt = Attempt(settle=10)
    attempt.provider.script.create().fail(SystemExit())
    with pytest.raises(SystemExit):
        attempt.asks(CREATE)
    attempt.carrier.interrupted()
    attempt.wait(9)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=False)
    attempt.wait(1)
    assert attempt.asks(CREATE) == LeaseAbsent(conclusive=True)


# -- a start whose outcome is unknown -------------------------------------------------------------


def test_a_session_that_was_started_before_the_exception_is_adopted(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.provider.script.start().lose_reply()
    assert attempt.fails(START) is Disposition.AMBIGUOUS
    assert attempt.asks(START) == BootstrapStarted(FIRST)
    assert attempt.asks(START) == BootstrapStarted(FIRST)
    assert attempt.story == ["create_lease", "start_bootstrap", "find_bootstrap"]


def test_a_session_that_ran_and_ended_counts_as_found_and_its_end_is_told_again(
    attempt: Attempt,
) -> None:
    attempt.asks(CREATE)
    attempt.provider.script.start().close_early()
    attempt.provider.script.start().lose_reply()
    attempt.fails(START)
    attempt.observed.clear()
    assert attempt.asks(START) == BootstrapStarted(FIRST)
    assert [type(news.observation).__name__ for news in attempt.observed] == ["BootstrapClosed"]


def test_a_second_start_has_a_session_id_of_its_own(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.provider.script.start().fail(RuntimeError())
    attempt.fails(START)
    assert attempt.asks(START) == BootstrapAbsent()
    assert attempt.asks(START) == BootstrapStarted(SECOND)


def test_a_failed_look_leaves_a_start_as_ambiguous_as_it_was(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.provider.script.start().lose_reply()
    attempt.provider.script.find_session().refuse("throttled", times=2)
    attempt.fails(START)
    assert attempt.fails(START) is Disposition.AMBIGUOUS
    assert attempt.fails(ADOPT_SESSION) is Disposition.DEFINITE
    assert attempt.asks(START) == BootstrapStarted(FIRST)


def test_attempt_ending_is_a_definite_failure_for_a_look(attempt: Attempt) -> None:
    attempt.provider.script.create().fail(RuntimeError())
    attempt.provider.script.find().end_attempt(times=2)
    attempt.fails(CREATE)
    assert attempt.fails(CREATE) is Disposition.DEFINITE
    assert attempt.fails(ADOPT_LEASE) is Disposition.DEFINITE


# -- a session does not outlive its lease ---------------------------------------------------------


def test_on_a_destroyed_lease_nothing_is_left_to_start_or_cancel(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.asks(START)
    assert attempt.asks(DESTROY) == LeaseDestroyed()
    assert attempt.asks(ADOPT_SESSION) == BootstrapAbsent()
    assert attempt.asks(CancelBootstrap(FIRST)) == BootstrapCancelled()
    assert attempt.fails(START) is Disposition.DEFINITE
    assert attempt.story == ["create_lease", "start_bootstrap", "destroy_lease"]


def test_on_a_machine_that_was_deleted_by_hand_cancel_succeeds_and_a_look_is_conclusive() -> None:
    attempt = Attempt(settle=10)
    attempt.asks(CREATE)
    attempt.wait(10)
    attempt.provider.script.start().lose_reply()
    attempt.fails(START)
    attempt.provider.remove(IDENTITY)
    attempt.provider.script.find_session().fail(RuntimeError("no such host"))
    attempt.provider.script.cancel().fail(RuntimeError("no such host"))
    assert attempt.asks(ADOPT_SESSION) == BootstrapAbsent()
    assert attempt.asks(CancelBootstrap(FIRST)) == BootstrapCancelled()


def test_a_cancel_that_fails_on_a_machine_that_lives_is_a_failure(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.asks(START)
    attempt.provider.script.cancel().fail(RuntimeError("busy"))
    assert attempt.fails(CancelBootstrap(FIRST)) is Disposition.DEFINITE


def test_a_fresh_lease_that_does_not_show_is_not_gone() -> None:
    attempt = Attempt(settle=3, read_lag=3)
    attempt.asks(CREATE)
    assert attempt.asks(LOOK_UP) == LeaseAbsent(conclusive=False)
    attempt.wait(3)
    assert attempt.asks(LOOK_UP) == EndpointLookup(FOUND.endpoint)
    attempt.provider.remove(IDENTITY)
    assert attempt.asks(LOOK_UP) == LeaseAbsent(conclusive=True)


# -- garbage --------------------------------------------------------------------------------------

GARBAGE = (
    None,
    "a lease",
    LeaseCreated(LeaseFacts(MEMORY, None)),  # type: ignore[arg-type]
    LeaseCreated(FACTS, "10.0.0.1"),  # type: ignore[arg-type]
    LeaseCreated(object()),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=str)
def test_a_wrong_answer_to_a_create_is_ambiguous_and_the_machine_is_found(
    attempt: Attempt, garbage: object
) -> None:
    attempt.provider.script.create().answer(garbage, effect=True)
    assert attempt.fails(CREATE) is Disposition.AMBIGUOUS
    assert attempt.asks(CREATE) == FOUND


def test_a_wrong_answer_to_anything_else_is_a_definite_failure(attempt: Attempt) -> None:
    attempt.asks(CREATE)
    attempt.asks(START)
    attempt.provider.script.lookup().answer("10.0.0.1")
    attempt.provider.script.cancel().answer("done")
    attempt.provider.script.destroy().answer("yes")
    for command in (LOOK_UP, CancelBootstrap(FIRST), DESTROY):
        assert attempt.fails(command) is Disposition.DEFINITE


def test_a_provider_error_without_an_error_is_any_exception(attempt: Attempt) -> None:
    hollow = ProviderError("x")
    hollow.error = "garbage"  # type: ignore[assignment]
    attempt.provider.script.create().fail(hollow)
    assert attempt.fails(CREATE) is Disposition.AMBIGUOUS


# -- the pure part --------------------------------------------------------------------------------


def test_an_end_that_nobody_knows_is_when_it_is_first_asked_for() -> None:
    settle = timedelta(seconds=10)
    first: Holding[str] = Holding[str]().making()
    second, conclusive = first.not_seen(T0, settle)
    assert not conclusive
    third, conclusive = second.not_seen(T0 + settle, settle)
    assert conclusive
    assert third == Holding()

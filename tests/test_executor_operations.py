"""Executors, stepped in one thread: which operations run, which wait, which never begin."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.spawning import SteppingSpawner
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.executors import (
    Executors,
    MemoryProvider,
    SubmissionRefused,
    SwarmTicket,
)
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStarted,
    CancelBootstrap,
    CreateLease,
    DesiredNodeShape,
    DestroyHandle,
    DestroyLease,
    Disposition,
    EffectError,
    EndpointLookup,
    ExecutorResult,
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
    OperationId,
    OperationOutcome,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    StartBootstrap,
    SwactorId,
    SwarmJoinSpec,
)

RUN = RunId(7)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
MEMORY = ProviderKind("memory")
LEASE_1 = LeaseFacts(MEMORY, ProviderLeaseId("memory-7-g-0-1"))
CREATED_1 = LeaseCreated(LEASE_1, LocalEndpoint("memory/memory-7-g-0-1"))


class Rig:
    """Executors on a memory provider, with a clock that stands still until it is moved."""

    def __init__(self, settle: float = 0.0) -> None:
        self.clock = ManualClock(T0)
        self.provider = MemoryProvider(now=self.clock.now, settle_time=timedelta(seconds=settle))
        self.spawner = SteppingSpawner(ActorSystem("test", self.clock, ticks=lambda: 0.0))
        self.answers: list[ExecutorResult] = []
        self.observed: list[NodeObserved] = []
        self.executors = Executors(
            RUN, [self.provider], self.spawner, self.hear, self.clock.now, self.ticket
        )

    def hear(self, message: ExecutorResult | NodeObserved) -> None:
        if isinstance(message, ExecutorResult):
            self.answers.append(message)
        else:
            self.observed.append(message)

    @staticmethod
    def ticket(_identity: AttemptIdentity) -> SwarmTicket:
        return SwarmTicket("127.0.0.1:1", "the-token")

    def pump(self) -> None:
        while self.spawner.pump():
            pass

    def run(self, effect: PlannedEffect) -> OperationOutcome | EffectError:
        """Submit, let it run, and read the one answer."""
        before = len(self.answers)
        self.executors.submit(effect)
        self.pump()
        [answer] = self.answers[before:]
        assert (answer.node, answer.operation) == (effect.node, effect.operation)
        outcome = answer.outcome if answer.outcome is not None else answer.error
        assert outcome is not None
        return outcome

    def wait(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def spec(node: str = "g-0", image: str = "", provider: str = "memory") -> LogicalNodeSpec:
    node_id, group = LogicalNodeId(node), NodeGroupId("g")
    shape = DesiredNodeShape(image=image)
    return LogicalNodeSpec(RUN, node_id, group, RoleId("worker"), ProviderKind(provider), shape)


def effect(
    sequence: int, command: NodeManagerCommand, attempt: int = 1, node: str = "g-0"
) -> PlannedEffect:
    return PlannedEffect(
        LogicalNodeId(node), OperationId(NodeAttemptId(attempt), sequence), command
    )


def create(
    sequence: int, *, attempt: int = 1, node: str = "g-0", adopt_only: bool = False, image: str = ""
) -> PlannedEffect:
    return effect(sequence, CreateLease(spec(node, image), adopt_only), attempt, node)


def start(
    sequence: int,
    *,
    adopt_only: bool = False,
    boot: BootSpec | None = None,
    join: SwarmJoinSpec | None = None,
) -> PlannedEffect:
    endpoint = LocalEndpoint("anywhere")
    session = BootstrapSessionSpec(
        RUN,
        LogicalNodeId("g-0"),
        LEASE_1.lease_id,
        endpoint,
        boot or BootSpec(),
        join or SwarmJoinSpec(),
    )
    return effect(sequence, StartBootstrap(session, adopt_only=adopt_only))


def destroy(sequence: int, lease_id: str = "memory-7-g-0-1", attempt: int = 1) -> PlannedEffect:
    handle = DestroyHandle(MEMORY, ProviderLeaseId(lease_id))
    return effect(sequence, DestroyLease(handle), attempt)


# -- outcomes -----------------------------------------------------------------------------------


def test_every_command_has_the_outcome_of_its_kind(rig: Rig) -> None:
    session_id = BootstrapSessionId((1 << 20) + 1)
    assert rig.run(create(1)) == CREATED_1
    assert rig.run(effect(2, LookupEndpoint(LEASE_1))) == EndpointLookup(CREATED_1.endpoint)
    assert rig.run(start(3)) == BootstrapStarted(session_id)
    hand_over = BootstrapConvergenceObserved(session_id, SwactorId("s"))
    assert rig.run(effect(4, hand_over)) == BootstrapConvergenceAccepted()
    assert rig.run(effect(5, CancelBootstrap(session_id))) == BootstrapCancelled()
    assert rig.run(destroy(6)) == LeaseDestroyed()
    assert rig.provider.world.live == frozenset()


def test_l32_cancel_and_destroy_of_something_absent_succeed(rig: Rig) -> None:
    assert rig.run(destroy(1, "never-was")) == LeaseDestroyed()
    assert rig.run(effect(2, CancelBootstrap(BootstrapSessionId(41)))) == BootstrapCancelled()


def test_f6_destroy_of_a_machine_that_was_deleted_by_hand_succeeds(rig: Rig) -> None:
    rig.run(create(1))
    rig.provider.remove(AttemptIdentity(RUN, LogicalNodeId("g-0"), NodeAttemptId(1)))
    assert rig.run(destroy(2)) == LeaseDestroyed()


def test_a_destroy_that_is_not_finished_is_asked_again(rig: Rig) -> None:
    rig.run(create(1))
    rig.provider.script.destroy().unfinished(times=1)
    assert rig.run(destroy(2)) == LeaseDestroyed(confirmed=False)
    assert rig.run(destroy(3)) == LeaseDestroyed()


# -- the ledger ---------------------------------------------------------------------------------


def test_l30_the_same_operation_twice_is_one_call_and_two_equal_results(rig: Rig) -> None:
    assert rig.run(create(1)) == rig.run(create(1)) == CREATED_1
    assert rig.provider.world.story() == ["create_lease"]


def test_l30_the_same_operation_with_other_input_is_refused_without_a_call(rig: Rig) -> None:
    rig.run(create(1, image="this"))
    with pytest.raises(SubmissionRefused, match=r"op\(1,1\) of node g-0 .* with other input"):
        rig.executors.submit(create(1, image="that"))
    rig.pump()
    assert rig.provider.world.story() == ["create_lease"]


def test_a_repetition_while_it_waits_or_runs_brings_nothing_new(rig: Rig) -> None:
    rig.executors.submit(create(1))
    rig.executors.submit(create(1))
    rig.pump()
    assert [answer.outcome for answer in rig.answers] == [CREATED_1]


# -- one after another --------------------------------------------------------------------------


def test_l31_a_second_operation_of_an_attempt_is_refused_while_the_first_is_in_flight(
    rig: Rig,
) -> None:
    rig.executors.submit(create(1))
    with pytest.raises(SubmissionRefused, match=r"op\(1,1\) \(create_lease\) .* is waiting"):
        rig.executors.submit(create(2))
    rig.pump()
    assert rig.run(create(2)) == CREATED_1


def test_what_is_withdrawn_before_it_began_never_runs(rig: Rig) -> None:
    rig.executors.submit(create(1))
    assert rig.executors.withdraw(create(1).operation)
    rig.pump()
    assert (rig.answers, rig.provider.world.story()) == ([], [])
    # And the attempt is free again.
    assert rig.run(create(2)) == CREATED_1


def test_what_was_withdrawn_and_is_submitted_again_is_answered_not_run(rig: Rig) -> None:
    rig.executors.submit(create(1))
    rig.executors.withdraw(create(1).operation)
    assert rig.run(create(1)) == EffectError("withdrawn before it began", not_run=True)


def test_what_expires_before_it_began_never_runs(rig: Rig) -> None:
    rig.executors.submit(create(1))
    assert rig.executors.expire(create(1).operation)
    rig.pump()
    assert (rig.answers, rig.provider.world.story()) == ([], [])


def test_what_has_an_answer_is_not_withdrawn(rig: Rig) -> None:
    rig.run(create(1))
    assert not rig.executors.withdraw(create(1).operation)
    assert not rig.executors.expire(create(1).operation)
    assert not rig.executors.withdraw(OperationId(NodeAttemptId(9), 9))


def test_the_actor_is_gone_when_nothing_waits(rig: Rig) -> None:
    rig.run(create(1))
    rig.executors.submit(create(2))
    rig.executors.withdraw(create(2).operation)
    rig.pump()
    assert rig.spawner.queued == 0
    assert rig.executors.running == ()


# -- what cannot be submitted -------------------------------------------------------------------


def test_an_unknown_provider_is_refused_with_those_that_are_known(rig: Rig) -> None:
    unknown = effect(1, CreateLease(spec(provider="nebula")))
    with pytest.raises(SubmissionRefused, match=r"provider 'nebula' is not known.*known: 'memory'"):
        rig.executors.submit(unknown)


def test_a_command_for_another_node_or_run_is_refused(rig: Rig) -> None:
    with pytest.raises(SubmissionRefused, match="its command is for node g-1 of run 7"):
        rig.executors.submit(effect(1, CreateLease(spec("g-1"))))


def test_an_attempt_belongs_to_one_node(rig: Rig) -> None:
    rig.run(create(1))
    with pytest.raises(SubmissionRefused, match="attempt 1 belongs to node g-0, not to g-1"):
        rig.executors.submit(create(2, node="g-1"))


def test_two_providers_of_one_kind_are_refused() -> None:
    clock = ManualClock(T0)
    two = [MemoryProvider(), MemoryProvider()]
    spawner = SteppingSpawner(ActorSystem("test", clock))
    with pytest.raises(ValueError, match="two providers are called 'memory'"):
        Executors(RUN, two, spawner, lambda message: None, clock.now, Rig.ticket)


# -- the end of an attempt, and of all ----------------------------------------------------------


def test_nothing_is_kept_of_a_retired_attempt(rig: Rig) -> None:
    rig.run(create(1))
    rig.executors.retire(NodeAttemptId(1))
    assert (rig.executors.attempts, rig.executors.recorded) == (0, 0)
    with pytest.raises(SubmissionRefused, match="attempt 1 is retired"):
        rig.executors.submit(create(2))


def test_what_a_retired_attempt_still_says_is_dropped(rig: Rig) -> None:
    rig.run(create(1))
    rig.provider.auto_join = False
    rig.run(start(2))
    heard = len(rig.observed)
    context = rig.provider.world.sessions[0].context
    rig.executors.retire(NodeAttemptId(1))
    context.lost("gone")
    assert len(rig.observed) == heard


def test_what_waits_when_its_attempt_is_retired_never_runs(rig: Rig) -> None:
    rig.executors.submit(create(1))
    rig.executors.retire(NodeAttemptId(1))
    rig.pump()
    assert rig.provider.world.story() == []
    assert rig.executors.attempts == 0


def test_closed_executors_take_nothing(rig: Rig) -> None:
    rig.executors.submit(create(1))
    assert rig.executors.close(timedelta(0)) == ()
    rig.pump()
    assert rig.provider.world.story() == []
    with pytest.raises(SubmissionRefused, match="the executors are closed"):
        rig.executors.submit(create(1, attempt=2))


# -- the death of an executor actor ---------------------------------------------------------------


def test_a_call_that_kills_its_actor_is_ambiguous_and_the_next_finds_what_it_made(
    rig: Rig,
) -> None:
    rig.provider.script.create().fail_after_effect(SystemExit("killed"))
    assert rig.run(create(1)) == EffectError(
        "executor died: SystemExit: killed", Disposition.AMBIGUOUS
    )
    assert rig.run(create(2)) == CREATED_1
    assert rig.provider.world.story() == ["create_lease", "find_lease"]


def test_the_death_of_one_actor_leaves_the_others_alone(rig: Rig) -> None:
    rig.provider.script.create("g-0").fail(GeneratorExit())
    rig.executors.submit(create(1))
    rig.executors.submit(create(1, attempt=2, node="g-1"))
    rig.pump()
    said = {answer.node: answer.outcome is not None for answer in rig.answers}
    assert said == {"g-0": False, "g-1": True}


def test_an_executor_that_cannot_be_started_is_a_refusal_and_the_operation_may_come_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(rig.spawner, "spawn", no_thread)
        with pytest.raises(SubmissionRefused, match=r"no executor could be started.*new thread"):
            rig.executors.submit(create(1))
    assert rig.run(create(1)) == CREATED_1


def test_a_driver_that_cannot_be_told_stops_no_work(rig: Rig) -> None:
    def deaf(_message: object) -> None:
        raise RuntimeError("mailbox closed")

    executors = Executors(RUN, [rig.provider], rig.spawner, deaf, rig.clock.now, rig.ticket)
    executors.submit(create(1))
    rig.pump()
    executors.submit(create(2))
    rig.pump()
    assert [call.kind for call in rig.provider.world.calls()] == [CallKind.CREATE_LEASE]
    assert executors.running == ()

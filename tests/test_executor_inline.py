"""Executors whose actors answer inside `submit`: no deadlock, and nothing left behind.

What is kept is compared to the number, so that some thousand attempts show as much as any number;
100 000 are stepped by `python -m tests.proofs leaks`.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from cluster_reconciler.executors import Behaviour, Executors, MemoryProvider, SwarmTicket
from cluster_reconciler.messages import (
    AttemptIdentity,
    CreateLease,
    DestroyHandle,
    DestroyLease,
    ExecutorResult,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
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
)

RUN, NODE, MEMORY = RunId(7), LogicalNodeId("g-0"), ProviderKind("memory")
SPEC = LogicalNodeSpec(RUN, NODE, NodeGroupId("g"), RoleId("worker"), MEMORY)
LEASE_ID = ProviderLeaseId("memory-7-g-0-1")
CREATED = LeaseCreated(LeaseFacts(MEMORY, LEASE_ID), LocalEndpoint(f"memory/{LEASE_ID}"))


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def ticket(_identity: AttemptIdentity) -> SwarmTicket:
    return SwarmTicket("127.0.0.1:1", "the-token")


def effect(sequence: int, command: NodeManagerCommand, attempt: int) -> PlannedEffect:
    return PlannedEffect(NODE, OperationId(NodeAttemptId(attempt), sequence), command)


def create(sequence: int, attempt: int = 1) -> PlannedEffect:
    return effect(sequence, CreateLease(SPEC), attempt)


def destroy(sequence: int, lease_id: str = LEASE_ID, attempt: int = 1) -> PlannedEffect:
    handle = DestroyHandle(MEMORY, ProviderLeaseId(lease_id))
    return effect(sequence, DestroyLease(handle), attempt)


class InlineActor:
    """Handles a message inside `tell`: answers come inside `submit`."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.tell = behaviour.handle

    def stop(self) -> None:
        """Nothing to end."""


class InlineSpawner:
    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> InlineActor:
        return InlineActor(behaviour)


def test_an_answer_may_come_inside_submit_and_the_next_operation_with_it() -> None:
    provider = MemoryProvider()
    answers: list[OperationOutcome | None] = []

    def hear(message: ExecutorResult | NodeObserved) -> None:
        if isinstance(message, ExecutorResult):
            answers.append(message.outcome)
            if message.operation.sequence == 1:
                executors.submit(destroy(2))

    executors = Executors(RUN, [provider], InlineSpawner(), hear, now, ticket)
    executors.submit(create(1))
    assert answers == [CREATED, LeaseDestroyed()]
    assert executors.running == ()


def test_two_thousand_attempts_leave_nothing_behind() -> None:
    provider = MemoryProvider(history_max=100)
    heard: list[object] = []
    executors = Executors(RUN, [provider], InlineSpawner(), heard.append, now, ticket)
    most = 0
    for attempt in range(1, 2_001):
        executors.submit(create(1, attempt))
        executors.submit(destroy(2, f"memory-7-g-0-{attempt}", attempt))
        most = max(most, executors.recorded)
        executors.retire(NodeAttemptId(attempt))
    assert len(heard) == 4_000
    assert most == 2
    assert (executors.attempts, executors.recorded) == (0, 0)
    assert executors._retired.spans == 1
    assert provider.world.live == frozenset()

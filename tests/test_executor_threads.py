"""Executors on real threads: what hangs delays its own attempt alone, and no thread is left."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster_reconciler.actors.clock import SystemClock
from cluster_reconciler.actors.spawning import ThreadSpawner
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.executors import Executors, MemoryProvider, SubmissionRefused, SwarmTicket
from cluster_reconciler.messages import (
    CreateLease,
    Disposition,
    ExecutorResult,
    LeaseCreated,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    NodeObserved,
    OperationId,
    PlannedEffect,
    ProviderKind,
    RoleId,
    RunId,
)

RUN = RunId(7)
PATIENCE = timedelta(seconds=20)


class Threads:
    """Executors that run on threads, and what they answered."""

    def __init__(self) -> None:
        self.provider = MemoryProvider()
        self.system = ActorSystem("test", SystemClock())
        self.heard: list[ExecutorResult] = []
        self.changed = threading.Condition()
        self.executors = Executors(
            RUN,
            [self.provider],
            ThreadSpawner(self.system),
            self.hear,
            lambda: datetime.now(UTC),
            lambda identity: SwarmTicket("127.0.0.1:1", "token"),
        )

    def hear(self, message: ExecutorResult | NodeObserved) -> None:
        if isinstance(message, ExecutorResult):
            with self.changed:
                self.heard.append(message)
                self.changed.notify_all()

    def answer_to(self, effect: PlannedEffect) -> ExecutorResult:
        def found() -> ExecutorResult | None:
            matching = [answer for answer in self.heard if answer.operation == effect.operation]
            return matching[0] if matching else None

        with self.changed:
            assert self.changed.wait_for(found, PATIENCE.total_seconds()), f"no answer to {effect}"
            answer = found()
        assert answer is not None
        return answer


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while not holds() and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    return holds()


@pytest.fixture
def threads() -> Iterator[Threads]:
    before = threading.active_count()
    rig = Threads()
    yield rig
    rig.provider.close()
    assert rig.executors.close(PATIENCE) == ()
    assert rig.system.stop(PATIENCE) == ()
    assert eventually(lambda: threading.active_count() <= before)


def create(sequence: int, attempt: int = 1) -> PlannedEffect:
    node = LogicalNodeId(f"g-{attempt}")
    spec = LogicalNodeSpec(RUN, node, NodeGroupId("g"), RoleId("worker"), ProviderKind("memory"))
    return PlannedEffect(node, OperationId(NodeAttemptId(attempt), sequence), CreateLease(spec))


def test_l31_operations_of_different_attempts_run_together(threads: Threads) -> None:
    together = threading.Barrier(8, timeout=PATIENCE.total_seconds())

    def meet(_call: object, effect: Callable[[], object]) -> object:
        together.wait()  # Passes only when all eight are inside their call at once.
        return effect()

    threads.provider.script.create().play(meet, times=8)
    for attempt in range(1, 9):
        threads.executors.submit(create(1, attempt))
    for attempt in range(1, 9):
        assert isinstance(threads.answer_to(create(1, attempt)).outcome, LeaseCreated)


def test_a_hanging_call_is_waited_out_and_its_late_machine_is_adopted(threads: Threads) -> None:
    stuck = threads.provider.script.create().hang()
    threads.executors.submit(create(1))
    assert stuck.wait_until_reached(PATIENCE)

    # While it runs, nothing else of its attempt is taken; other attempts go on.
    with pytest.raises(SubmissionRefused, match=r"op\(1,1\) \(create_lease\) .* is running"):
        threads.executors.submit(create(2))
    threads.executors.submit(create(1, attempt=2))
    assert threads.answer_to(create(1, attempt=2)).error is None

    # Expired, it still runs: the next waits behind it, and can be withdrawn.
    assert not threads.executors.expire(create(1).operation)
    threads.executors.submit(create(2))
    with pytest.raises(SubmissionRefused, match=r"op\(1,2\) .* is waiting"):
        threads.executors.submit(create(3))
    assert threads.executors.expire(create(2).operation)
    threads.executors.submit(create(3))

    # Released, the first makes its machine, and the third is answered with that very one.
    stuck.release()
    first, third = threads.answer_to(create(1)), threads.answer_to(create(3))
    assert first.outcome == third.outcome
    assert threads.provider.world.story("g-1") == ["create_lease"]
    assert [answer.operation.sequence for answer in threads.heard if answer.node == "g-1"] == [1, 3]


def test_f4_a_thread_killed_after_the_effect_answers_ambiguous_and_leaves_the_others_alone(
    threads: Threads,
) -> None:
    threads.provider.script.create("g-1").fail_after_effect(SystemExit("killed"))
    for attempt in (1, 2, 3):
        threads.executors.submit(create(1, attempt))
    error = threads.answer_to(create(1)).error
    assert error is not None
    assert (error.reason, error.disposition) == (
        "executor died: SystemExit: killed",
        Disposition.AMBIGUOUS,
    )
    assert all(threads.answer_to(create(1, other)).error is None for other in (2, 3))
    threads.executors.submit(create(2))
    assert isinstance(threads.answer_to(create(2)).outcome, LeaseCreated)
    assert threads.provider.world.creations("g-1") == 1


def test_f22_threads_return_to_their_level_after_many_attempts(threads: Threads) -> None:
    before = threading.active_count()
    for attempt in range(1, 301):
        threads.executors.submit(create(1, attempt))
    for attempt in range(1, 301):
        threads.answer_to(create(1, attempt))
        threads.executors.retire(NodeAttemptId(attempt))
    assert eventually(lambda: threading.active_count() <= before)
    assert eventually(lambda: threads.executors.attempts == 0)


def test_closing_names_what_still_runs(threads: Threads) -> None:
    stuck = threads.provider.script.create().hang()
    threads.executors.submit(create(1))
    assert stuck.wait_until_reached(PATIENCE)
    [running] = threads.executors.close(timedelta(0))
    assert str(running).startswith("create_lease op(1,1) (run 7, node g-1, attempt 1, since ")

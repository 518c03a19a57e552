"""One attempt's place among the executors: what runs, what waits, and the worker that does it.

Guarded by the lock of `Executors`, which owns them; only `Worker.handle` is called without it, in
the thread of the attempt's actor.
"""

from typing import Protocol

from msgspec import Struct

from cluster_reconciler.executors.carrier import Carrier
from cluster_reconciler.executors.checked_provider import said
from cluster_reconciler.executors.ledger import (
    OperationLedger,
    OperationState,
    RecordedOperation,
    RunningOperation,
    SubmissionRefused,
)
from cluster_reconciler.executors.provider import ActorHandle
from cluster_reconciler.messages import AttemptIdentity, OperationId, PlannedEffect, kind_of


class Attempt(Struct, eq=False):
    """What is kept of one attempt until it is retired."""

    identity: AttemptIdentity
    carrier: Carrier
    """Used by the worker that runs an operation, and by nobody else meanwhile."""
    ledger: OperationLedger
    running: RecordedOperation | None = None
    waiting: RecordedOperation | None = None
    """There only behind one that has expired, or for the moment until its actor begins."""
    worker: "Worker | None" = None
    """There exactly while something runs or waits."""

    @property
    def running_operation(self) -> RunningOperation | None:
        """What runs, for people."""
        if self.running is None:
            return None
        effect, since = self.running.effect, self.running.began_at
        return RunningOperation(self.identity, effect.operation, kind_of(effect.command), since)

    def refuse_if_busy(self, effect: PlannedEffect) -> None:
        """Raises SubmissionRefused: another operation is in the way of this one (design rule 25).
        One that runs and has expired is not: this one waits behind it."""
        in_the_way = self.waiting
        if in_the_way is None and self.running is not None and not self.running.expired:
            in_the_way = self.running
        if in_the_way is not None:
            before = in_the_way.effect
            raise SubmissionRefused(
                f"{effect.operation} of {effect.node}: {before.operation} "
                f"({kind_of(before.command)}) of the same attempt is {in_the_way.state.value}; "
                "wait for its result, or let it expire"
            )

    def withdraw(self, operation: OperationId) -> bool:
        """Whether the operation has not begun; then it never will."""
        record = self.ledger.get(operation)
        if record is None:
            return False
        if record.state is OperationState.WAITING:
            self.waiting = None
            record.never_ran("withdrawn before it began")
        return record.state is OperationState.WITHDRAWN


class Runner(Protocol):
    """Who knows what to do with a message; `Executors`."""

    def run(self, worker: "Worker", effect: PlannedEffect) -> None:
        """Carry out the operation, unless it was withdrawn meanwhile."""

    def worker_died(self, worker: "Worker", reason: str) -> None:
        """The worker will do no more."""


class Worker:
    """The behaviour of one attempt's actor: it lives for as long as there is work."""

    def __init__(self, runner: Runner, attempt: Attempt) -> None:
        self._runner = runner
        self.attempt = attempt
        self.spawning = False
        self.actor: ActorHandle | None = None
        """None until it is spawned."""

    def handle(self, message: object) -> None:
        """Carry out the operation that was told, unless it was withdrawn meanwhile."""
        try:
            if isinstance(message, PlannedEffect):
                self._runner.run(self, message)
        except BaseException as error:
            # A thread that is killed, or a defect of ours: either way this worker is done for.
            self._runner.worker_died(self, said(error))
            self.stop()
            raise

    def stop(self) -> None:
        """Let the actor end."""
        if self.actor is not None:
            self.actor.stop()

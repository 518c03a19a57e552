"""The executors' records as values, and back; and actors whose turn comes when the search says so.

With `rig` the only file that touches what executors hold privately.  It calls nothing.
"""

from collections.abc import Callable

from msgspec.structs import replace

from cluster_reconciler.executors.attempt import Attempt, Worker
from cluster_reconciler.executors.executor import Executors
from cluster_reconciler.executors.ledger import (
    OperationState,
    RecordedOperation,
    RetiredAttempts,
)
from cluster_reconciler.executors.provider import ActorHandle, Behaviour
from tests.search.place import Operation, Side


class _Actor:
    """An executor's actor whose messages are handled when the search says so."""

    def tell(self, message: object) -> None:
        """Nothing: what waits is read from the attempt."""

    def stop(self) -> None:
        """Nothing."""


_ACTOR = _Actor()


class SearchSpawner:
    """Starts actors, unless the search says that none can be started."""

    def __init__(self) -> None:
        self.fails = False

    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        """See `Spawner`."""
        if self.fails:
            raise RuntimeError("no thread can be started")
        return _ACTOR


def enter(attempt: Attempt, operation: Operation) -> None:
    """Put the operation into the attempt's ledger, and to its place."""
    record = RecordedOperation(
        operation.effect,
        operation.state,
        operation.expired,
        operation.began_at,
        operation.result,
    )
    attempt.ledger._records[operation.effect.operation.sequence] = record
    if operation.state is OperationState.RUNNING:
        attempt.running = record
    elif operation.state is OperationState.WAITING:
        attempt.waiting = record


def worker_of(executors: Executors, attempt: Attempt) -> Worker:
    """A worker that was spawned and told what waits."""
    worker = Worker(executors, attempt)
    worker.spawning, worker.actor = True, _ACTOR
    return worker


def side_of(attempt: Attempt, pending: object, standing: Operation | None) -> Side:
    """The attempt as a value.  `pending`: the operation that its node waits for; `standing`: the
    one that ran before, with the call in which it stands."""
    carrier = attempt.carrier
    answered = None
    for record in attempt.ledger._records.values():
        if record.effect.operation == pending and record.result is not None:
            answered = _operation(record)
    running = None
    if attempt.running is not None:
        assert standing is not None, f"{attempt.identity}: runs, and was not begun"
        running = replace(standing, expired=attempt.running.expired)
    return Side(
        attempt.identity,
        carrier.lease,
        carrier.session,
        carrier._starts,
        tuple((kind, command, outcome) for kind, (command, outcome) in carrier._done.items()),
        running,
        _operation(attempt.waiting) if attempt.waiting is not None else None,
        answered,
    )


def _operation(record: RecordedOperation) -> Operation:
    return Operation(record.effect, record.state, record.expired, record.began_at, record.result)


def retired_of(spans: tuple[tuple[int, ...], tuple[int, ...]]) -> RetiredAttempts:
    """The attempts that are over."""
    retired = RetiredAttempts()
    retired._starts, retired._ends = list(spans[0]), list(spans[1])
    return retired

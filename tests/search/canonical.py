"""What tells one place from another: one byte string for all that can make a difference.

Left out, because nothing that is decided, carried out or answered reads it:

- names (attempts, leases, sessions are told apart only by which of them are the same), texts, and
  the moments that are past.  Those ahead stand by how many seconds they lie ahead; with
  `Setting.order_only` by their order alone;
- failures beyond `COUNTED`: the policy's second delay is its longest; sequences, but for which
  node's is the lower;
- facts of a session that cannot be addressed any more: the next start writes them anew;
- of a node that is live, whether it is unwanted or wanted otherwise: both lead to BeginDelete; of
  one that is deleting, what is wanted: it is asked for when all is destroyed, and may change until
  then (only where changes of the shape are not counted);
- of one that is deleting, its stage, endpoint and join: cleanup reads none of them;
- what an operation said whose result is lost; whether an ending succeeded that is not asked for
  any more; until when a session may be unseen that is known.

An attempt that is over and has left nothing, neither a machine nor an operation that runs, is told
by nothing: so attempts need no bound.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from cluster_reconciler.decider import ManagedNode, later
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.ledger import OperationState
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    BootstrapStarted,
    CancelBootstrap,
    DestroyLease,
    Disposition,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LogicalNodeSpec,
    NodeIntent,
    NodeStage,
    OperationKind,
    OperationOutcome,
    SessionObservation,
    SwactorJoined,
    is_adopt_only,
    kind_of,
)
from tests.search.place import NOTHING, POLICY, SETTLE_TIME, Operation, Place, Setting, Side, Thing

COUNTED = 1

_SECOND = timedelta(seconds=1)
"""All durations of the search are whole seconds."""
_STAGE = {stage: at for at, stage in enumerate(NodeStage)}
_SESSION_STAGE = {stage: at + 1 for at, stage in enumerate(BootstrapStage)}
_KIND = {kind: at + 1 for at, kind in enumerate(OperationKind)}
_STATE = {state: at for at, state in enumerate(OperationState)}
_DISPOSITION = {disposition: at for at, disposition in enumerate(Disposition)}
_CALLS = (
    "",
    "create_lease",
    "find_lease",
    "lookup_endpoint",
    "start_bootstrap",
    "find_bootstrap",
    "accept_convergence",
    "cancel_bootstrap",
    "destroy_lease",
)
_LOOKS = frozenset({"find_lease", "find_bootstrap", "lookup_endpoint"})
_CALL = {call: at for at, call in enumerate(_CALLS)}
_LATE = {"": 0, "create": 1, "start": 2}
_ENDING: dict[type, int] = {BootstrapConvergenceObserved: 0, CancelBootstrap: 1, DestroyLease: 2}
_OUTCOME: dict[type, int] = {
    LeaseCreated: 0,
    LeaseAbsent: 1,
    EndpointLookup: 2,
    BootstrapStarted: 3,
    BootstrapAbsent: 4,
    BootstrapConvergenceAccepted: 5,
    BootstrapCancelled: 6,
    LeaseDestroyed: 7,
}
_NEWS: dict[type, int] = {SwactorJoined: 0, BootstrapClosed: 1, BootstrapFailed: 2}


def deadlines(node: ManagedNode) -> tuple[datetime | None, ...]:
    """The moments at which time alone can change what is next of the node."""
    retry, record = node.retry, node.record
    asks_session = node.intent is NodeIntent.DELETING and record.lease is not None
    unstable = record.ready and node.failures_before_ready > 0 and node.ready_at is not None
    return (
        node.pending.deadline if node.pending else None,
        retry.next_effect_at,
        retry.restart_at,
        node.progress.deadline if node.progress else None,
        node.cancel_deadline if asks_session else None,
        later(node.ready_at, POLICY.stable_after) if unstable and node.ready_at else None,
    )


def windows(side: Side) -> tuple[datetime | None, datetime | None]:
    """When what an attempt may have made must show in the provider's reads."""
    lease = side.lease.call_ended_at
    session = side.session.call_ended_at if side.session.unresolved else None
    return (
        later(lease, SETTLE_TIME) if lease is not None else None,
        later(session, SETTLE_TIME) if session is not None else None,
    )


def moments(place: Place) -> list[datetime]:
    """Every moment ahead that time must not pass by, in order."""
    ahead = {due for _, node in place.nodes for due in deadlines(node)}
    for side in place.sides:
        ahead.update(windows(side))
    return sorted(due for due in ahead if due is not None and due > place.now)


class _Names:
    """Sessions, by the order in which they are met."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def __call__(self, session: object) -> int:
        if session is None:
            return 0
        return self._known.setdefault(session, len(self._known) + 1)


class _Ranks:
    """Moments, by how far they lie ahead, or by their order alone."""

    def __init__(self, place: Place, setting: Setting) -> None:
        ahead = moments(place)
        if setting.order_only:
            self._rank = {due: at + 2 for at, due in enumerate(ahead)}
        else:
            self._rank = {due: (due - place.now) // _SECOND + 2 for due in ahead}

    def __call__(self, due: datetime | None) -> int:
        """0: none; 1: due; above: when it will be."""
        return 0 if due is None else self._rank.get(due, 1)

    def wait(self, due: datetime | None) -> int:
        """The same for a wait: none is as good as one that is over."""
        return 1 if due is None else self._rank.get(due, 1)


def canonical(place: Place, setting: Setting) -> bytes:
    """See the module."""
    rank = _Ranks(place, setting)
    sides = {side.identity.attempt: side for side in place.sides}
    things = {identity.attempt: thing for identity, thing in place.things}
    told: list[int] = [max(place.faults_left + 1, 0)]
    shape = setting.shapes[place.wanted]
    if not place.nodes:
        told.append(1 if shape.nodes else 0)
    at_attempt = {node.attempt for _, node in place.nodes}
    for node_id, node in place.nodes:
        name = _Names()
        told.extend((255, hash_free(node_id), _wanted(place, shape.nodes.get(node_id), node)))
        told.extend(_of_node(node, rank, name))
        side = sides.get(node.attempt)
        told.extend(_of_thing(things.get(node.attempt, NOTHING), name))
        if side is not None:
            told.extend(_of_side(side, node, rank, name))
        for result in place.unread:
            if result.operation.attempt == node.attempt:
                told.extend((251, *_of_result(result, name)))
    told.extend(_among(place))
    for attempt in sorted((sides.keys() | things.keys()) - at_attempt):
        name = _Names()
        told.append(254)
        told.extend(_of_thing(things.get(attempt, NOTHING), name))
        if attempt in sides:
            told.extend(_of_side(sides[attempt], None, rank, name))
    return bytes(told)


def _wanted(place: Place, spec: LogicalNodeSpec | None, node: ManagedNode) -> int:
    """What the shape says of the slot, as far as it matters now."""
    if node.record.stage is NodeStage.DESTROYED:
        return 0 if spec is None else 1
    if place.faults_left >= 0:
        return 0 if spec is None else 1 if spec == node.record.desired else 2
    return node.intent is NodeIntent.ACTIVE and spec == node.record.desired


def hash_free(node_id: str) -> int:
    """A node's number: what stands behind the last dash."""
    return int(node_id.rpartition("-")[2])


def _among(place: Place) -> Iterator[int]:
    """In which order nodes get places (design rule 28)."""
    if len(place.nodes) < 2:
        return
    turns = [
        (node.retry.consecutive_failures, node.next_operation_sequence) for _, node in place.nodes
    ]
    for at in (0, 1):
        first, second = turns[0][at], turns[1][at]
        yield (first > second) - (first < second) + 1


def _of_node(node: ManagedNode, rank: _Ranks, name: _Names) -> Iterator[int]:
    record, retry, pending = node.record, node.retry, node.pending
    facts, joined = record.bootstrap, record.swactor
    dues = deadlines(node)
    yield from (rank(dues[0]), rank.wait(dues[1]), rank.wait(dues[2]))
    yield from (rank(dues[3]), rank(dues[4]), rank.wait(dues[5]))
    deleting = node.intent is NodeIntent.DELETING
    yield (
        deleting
        + 2 * record.ready
        + 4 * (record.failed_at is not None)
        + 8 * (record.lease is not None)
        + 16 * (record.connection is not None and not deleting)
    )
    gone = record.stage is NodeStage.DESTROYED
    yield _STAGE[record.stage] if gone or not deleting else 0
    yield name(node.active_bootstrap)
    if node.active_bootstrap is not None and facts is not None:
        yield _SESSION_STAGE[facts.last_stage] * 16 + _SESSION_STAGE[facts.furthest_stage]
    yield 0 if joined is None or deleting else 1 + (joined.handed_off_at is not None)
    yield 0 if pending is None else _KIND[pending.kind] * 2 + pending.adopt_only
    yield (retry.ambiguous_operation is not None) + 2 * (node.cancel_failures > 0)
    yield 0 if node.progress is None else 1 + (node.progress.wait.value == "join")
    yield min(retry.consecutive_failures, COUNTED)
    yield min(node.failures_before_ready, COUNTED) if record.ready else 0
    if node.kept:
        yield 253
        yield from sorted(_of_news(seen, name) for seen in node.kept)


def _of_news(seen: SessionObservation, name: _Names) -> int:
    if isinstance(seen, BootstrapObserved):
        return name(seen.session_id) * 32 + 8 + _SESSION_STAGE[seen.stage]
    return name(seen.session_id) * 32 + _NEWS[type(seen)]


def _of_thing(thing: Thing, name: _Names) -> Iterator[int]:
    yield min(thing.machines, 2) + 4 * thing.alive + 8 * _LATE[thing.late] + 32 * thing.doubled
    yield name(thing.session)
    yield name(thing.late_session)


def _of_side(side: Side, node: ManagedNode | None, rank: _Ranks, name: _Names) -> Iterator[int]:
    lease_window, session_window = windows(side)
    yield 252
    yield _of_holding(side.lease)
    lease = side.lease.known
    yield 0 if lease is None else 1 + (lease.endpoint is not None)
    yield rank(lease_window)
    yield _of_holding(side.session)
    yield name(side.session.known)
    yield rank(session_window)
    yield _of_done(side, node)
    yield 250
    pending = node.pending.id if node is not None and node.pending is not None else None
    for operation in (side.running, side.waiting, side.answered):
        if operation is None:
            yield 0
            continue
        command = operation.effect.command
        yield _KIND[kind_of(command)] * 2 + is_adopt_only(command)
        yield (
            _STATE[operation.state]
            + 4 * operation.expired
            + 8 * operation.acted
            + 16 * (operation.effect.operation == pending)
        )
        yield name(getattr(command, "session_id", None))
        yield _CALL[operation.call]
        if operation.call in _LOOKS:
            window = session_window if operation.call == "find_bootstrap" else lease_window
            yield _settled(operation, window)


def _of_done(side: Side, node: ManagedNode | None) -> int:
    """Which endings have succeeded already that may be asked for once more."""
    done = 0
    for kind, command, _ in side.done:
        if isinstance(command, DestroyLease):
            asked = node is not None and node.record.lease is not None
        else:
            asked = node is not None and node.active_bootstrap == command.session_id
        waits = side.waiting is not None and side.waiting.effect.command == command
        done += (asked or waits) << _ENDING[kind]
    return done


def _settled(operation: Operation, window: datetime | None) -> bool:
    """Whether the operation asks late enough for an absence to be conclusive."""
    assert operation.began_at is not None, f"{operation}: has not begun"
    return window is not None and window <= operation.began_at


def _of_holding(holding: Holding[LeaseCreated] | Holding[BootstrapSessionId]) -> int:
    return (
        (holding.known is not None)
        + 2 * holding.unresolved
        + 4 * holding.gone
        + 8 * (holding.call_ended_at is None)
    )


def _of_result(result: ExecutorResult, name: _Names) -> Iterator[int]:
    if result.error is not None:
        yield 100 + _DISPOSITION[result.error.disposition] * 2 + result.error.not_run
    else:
        assert result.outcome is not None, f"{result}: says nothing"
        yield from _of_outcome(result.outcome, name)


def _of_outcome(outcome: OperationOutcome, name: _Names) -> Iterator[int]:
    yield _OUTCOME[type(outcome)]
    match outcome:
        case LeaseCreated(_, endpoint) | EndpointLookup(endpoint):
            yield endpoint is not None
        case LeaseAbsent(conclusive) | BootstrapAbsent(conclusive):
            yield conclusive
        case LeaseDestroyed(confirmed):
            yield confirmed
        case BootstrapStarted(session_id):
            yield name(session_id)


def identity_of(place: Place, setting: Setting, node: ManagedNode) -> AttemptIdentity:
    """The identity of the node's attempt."""
    run_id = setting.shapes[0].shape.run_id
    return AttemptIdentity(run_id, node.record.logical_node_id, node.attempt)

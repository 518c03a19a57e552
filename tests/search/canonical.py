"""What tells one place from another: one byte string for all that can make a difference.

Left out, because nothing that is decided, carried out or answered reads it:

- names (attempts, leases, sessions are told apart only by which of them are the same), texts, and
  the moments that are past.  Those ahead stand by how many seconds they lie ahead; with
  `Setting.order_only` by their order alone;
- failures beyond `COUNTED`: the policy's second delay is its longest; sequences.  Where two nodes
  contend for places, by how much their counts differ stands, up to `APART`;
- facts of a session that cannot be addressed any more: the next start writes them anew;
- of a node that is live, whether it is unwanted or wanted otherwise: both lead to BeginDelete; of
  one that is deleting, what is wanted: it is asked for when all is destroyed, and may change until
  then (only where changes of the shape are not counted);
- of one that is deleting, its stage, endpoint and join: cleanup reads none of them;
- of one whose lease alone is left to destroy, what its carrier knows, and its session: a destroy
  reads neither;
- what an operation said whose result is lost; whether an ending succeeded that is not asked for
  any more; until when a session may be unseen that is known.

An attempt that is over and has left nothing, neither a machine nor an operation that runs, is told
by nothing: so attempts need no bound.
"""

from datetime import datetime, timedelta
from typing import assert_never

from cluster_reconciler.decider import ManagedNode, ProgressWait, later
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
APART = 9

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
    unstable = record.ready and node.failures_before_ready > 0 and node.ready_at is not None
    return (
        node.pending.deadline if node.pending else None,
        retry.next_effect_at,
        retry.restart_at,
        node.progress.deadline if node.progress else None,
        node.cancel_deadline if _asks_session(node) else None,
        later(node.ready_at, POLICY.stable_after) if unstable and node.ready_at else None,
    )


def _asks_session(node: ManagedNode) -> bool:
    """Whether cleanup has, or may come to have, a session to end before the lease."""
    starting = node.pending is not None and node.pending.kind is OperationKind.START_BOOTSTRAP
    unsure = node.retry.ambiguous_operation is not None
    return (
        node.intent is NodeIntent.DELETING
        and node.record.lease is not None
        and (node.active_bootstrap is not None or unsure or starting)
    )


def _only_destroys(node: ManagedNode, side: Side) -> bool:
    """Whether a destroy is all that can still be asked of the attempt's carrier, and all that runs:
    it reads nothing of what the carrier knows."""
    return (
        node.intent is NodeIntent.DELETING
        and node.record.lease is not None
        and not _asks_session(node)
        and all(
            isinstance(operation.effect.command, DestroyLease)
            for operation in (side.running, side.waiting)
            if operation is not None
        )
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
    at_attempt = {node.attempt: node for _, node in place.nodes}
    for side in place.sides:
        node = at_attempt.get(side.identity.attempt)
        if node is None or not _only_destroys(node, side):
            ahead.update(windows(side))
    return sorted(due for due in ahead if due is not None and due > place.now)


class _Form:
    """One form in the making: the numbers so far, and what names and moments are told as."""

    def __init__(self, place: Place, setting: Setting) -> None:
        self.told: list[int] = []
        self.now = place.now
        self.order = (
            {due: at + 2 for at, due in enumerate(moments(place))} if setting.order_only else None
        )
        self.names: dict[object, int] = {}
        """Sessions, by the order in which they are met; anew for each attempt."""

    def name(self, session: object) -> int:
        """0: none."""
        if session is None:
            return 0
        return self.names.setdefault(session, len(self.names) + 1)

    def rank(self, due: datetime | None) -> int:
        """0: none; 1: due; above: when it will be."""
        return 0 if due is None else self.wait(due)

    def wait(self, due: datetime | None) -> int:
        """The same for a wait: none is as good as one that is over."""
        if due is None or due <= self.now:
            return 1
        if self.order is not None:
            return self.order[due]
        return (due - self.now) // _SECOND + 2


def canonical(place: Place, setting: Setting) -> bytes:
    """See the module."""
    form = _Form(place, setting)
    told = form.told
    sides = {side.identity.attempt: side for side in place.sides}
    things = {identity.attempt: thing for identity, thing in place.things}
    shape = setting.shapes[place.wanted]
    told.append(max(place.faults_left + 1, 0))
    if not place.nodes:
        told.append(1 if shape.nodes else 0)
    for node_id, node in place.nodes:
        form.names = {}
        wanted = _wanted(place, shape.nodes.get(node_id), node)
        told += (255, int(node_id.rpartition("-")[2]), wanted)
        _add_node(form, node)
        side, thing = sides.pop(node.attempt, None), things.pop(node.attempt, NOTHING)
        if side is not None and _only_destroys(node, side):
            thing = Thing(thing.machines, late=thing.late, doubled=thing.doubled)
            side = Side(
                side.identity,
                Holding(),
                Holding(),
                0,
                side.done,
                side.running,
                side.waiting,
                side.answered,
            )
        _add_thing(form, thing)
        if side is not None:
            _add_side(form, side, node)
        for result in place.unread:
            if result.operation.attempt == node.attempt:
                told.append(251)
                _add_result(form, result)
    if len(place.nodes) > 1 and any(
        limit.in_flight < len(place.nodes) for limit in shape.shape.limits.values()
    ):
        _add_turns(form, place)
    for attempt in sorted(sides.keys() | things.keys()):
        form.names = {}
        told.append(254)
        _add_thing(form, things.get(attempt, NOTHING))
        if attempt in sides:
            _add_side(form, sides[attempt], None)
    return bytes(told)


def _wanted(place: Place, spec: LogicalNodeSpec | None, node: ManagedNode) -> int:
    """What the shape says of the slot, as far as it matters now."""
    if node.record.stage is NodeStage.DESTROYED:
        return 0 if spec is None else 1
    if place.faults_left >= 0:
        return 0 if spec is None else 1 if spec == node.record.desired else 2
    return node.intent is NodeIntent.ACTIVE and spec == node.record.desired


def _add_turns(form: _Form, place: Place) -> None:
    """In which order the nodes get places: by the differences, up to `APART` (design rule 28)."""
    first, second = (node for _, node in place.nodes)
    for apart in (
        first.retry.consecutive_failures - second.retry.consecutive_failures,
        first.next_operation_sequence - second.next_operation_sequence,
    ):
        form.told.append(max(-APART, min(apart, APART)) + APART)


def _add_node(form: _Form, node: ManagedNode) -> None:
    record, retry, pending = node.record, node.retry, node.pending
    facts, joined, active = record.bootstrap, record.swactor, node.active_bootstrap
    deleting = node.intent is NodeIntent.DELETING
    dues = deadlines(node)
    form.told += (
        form.rank(dues[0]),
        form.wait(dues[1]),
        form.wait(dues[2]),
        form.rank(dues[3]),
        form.rank(dues[4]),
        form.wait(dues[5]),
        deleting
        + 2 * record.ready
        + 4 * (record.failed_at is not None)
        + 8 * (record.lease is not None)
        + 16 * (record.connection is not None and not deleting),
        0 if deleting and record.stage is not NodeStage.DESTROYED else _STAGE[record.stage],
        form.name(active),
        0
        if active is None or facts is None
        else _SESSION_STAGE[facts.last_stage] * 16 + _SESSION_STAGE[facts.furthest_stage],
        0 if joined is None or deleting else 1 + (joined.handed_off_at is not None),
        0 if pending is None else _KIND[pending.kind] * 2 + pending.adopt_only,
        (retry.ambiguous_operation is not None) + 2 * (node.cancel_failures > 0),
        0 if node.progress is None else 1 + (node.progress.wait is ProgressWait.JOIN),
        min(retry.consecutive_failures, COUNTED),
        min(node.failures_before_ready, COUNTED) if record.ready else 0,
        len(node.kept),
    )
    if node.kept:
        form.told += sorted(_of_news(form, seen) for seen in node.kept)


def _of_news(form: _Form, seen: SessionObservation) -> int:
    if isinstance(seen, BootstrapObserved):
        return form.name(seen.session_id) * 32 + 8 + _SESSION_STAGE[seen.stage]
    return form.name(seen.session_id) * 32 + _NEWS[type(seen)]


def _add_thing(form: _Form, thing: Thing) -> None:
    form.told += (
        min(thing.machines, 2) + 4 * thing.alive + 8 * _LATE[thing.late] + 32 * thing.doubled,
        form.name(thing.session),
        form.name(thing.late_session),
    )


def _add_side(form: _Form, side: Side, node: ManagedNode | None) -> None:
    lease_window, session_window = windows(side)
    lease = side.lease.known
    form.told += (
        252,
        _of_holding(side.lease),
        0 if lease is None else 1 + (lease.endpoint is not None),
        form.rank(lease_window),
        _of_holding(side.session),
        form.name(side.session.known),
        form.rank(session_window),
        _of_done(side, node) if side.done else 0,
    )
    pending = node.pending.id if node is not None and node.pending is not None else None
    for operation in (side.running, side.waiting, side.answered):
        if operation is None:
            form.told.append(0)
            continue
        command, call = operation.effect.command, operation.call
        asked = call in _LOOKS and _settled(
            operation, session_window if call == "find_bootstrap" else lease_window
        )
        form.told += (
            _KIND[kind_of(command)] * 2 + is_adopt_only(command),
            _STATE[operation.state]
            + 4 * operation.expired
            + 8 * operation.acted
            + 16 * (operation.effect.operation == pending)
            + 32 * asked,
            form.name(getattr(command, "session_id", None)),
            _CALL[call],
        )


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


def _add_result(form: _Form, result: ExecutorResult) -> None:
    error, outcome = result.error, result.outcome
    if error is not None:
        form.told.append(100 + _DISPOSITION[error.disposition] * 2 + error.not_run)
        return
    assert outcome is not None, f"{result}: says nothing"
    form.told += (_OUTCOME[type(outcome)], _of_outcome(form, outcome))


def _of_outcome(form: _Form, outcome: OperationOutcome) -> int:
    match outcome:
        case LeaseCreated(_, endpoint) | EndpointLookup(endpoint):
            return endpoint is not None
        case LeaseAbsent(conclusive) | BootstrapAbsent(conclusive):
            return conclusive
        case LeaseDestroyed(confirmed):
            return confirmed
        case BootstrapStarted(session_id):
            return form.name(session_id)
        case BootstrapConvergenceAccepted() | BootstrapCancelled():
            return 0
        case _:
            assert_never(outcome)


def identity_of(place: Place, setting: Setting, node: ManagedNode) -> AttemptIdentity:
    """The identity of the node's attempt."""
    run_id = setting.shapes[0].shape.run_id
    return AttemptIdentity(run_id, node.record.logical_node_id, node.attempt)

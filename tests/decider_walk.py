"""Every state that one node can come to, breadth first: each pass, message, fault and passing of
time, folded by the real decider with every invariant checked on the way.

Two places are the same when they differ only in names, counts beyond two, and how far (but not in
which order) their deadlines lie ahead.  Bounded in two ways: what is kept of sessions not yet known
(`_is_walked`), and a session tells a few of its stages only.  Nothing here decides what is right:
the decider's own invariants do, and what the walk itself asks of every place (`_check_place`).
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct

from cluster_reconciler.decider import (
    ClusterState,
    Dispatch,
    ExpandedShape,
    ManagedNode,
    RetryPolicy,
    check_converged,
    check_dispatch,
    check_plan,
    check_state,
    check_step,
    expand_shape,
    expire,
    is_converged,
    later,
    observe,
    reconcile,
    refusal,
    row_of,
)
from cluster_reconciler.decider.node import is_steady
from cluster_reconciler.decider.transitions import apply
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    BootstrapStarted,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObservation,
    OperationFailed,
    OperationId,
    OperationKind,
    OperationOutcome,
    OperationSucceeded,
    SessionObservation,
    SwactorId,
    SwactorJoined,
)
from tests.decider_words import ENDPOINT, G0, LEASE, T0, group, shape

COUNTS_IN_WALK = 2
STRANGER = BootstrapSessionId(999)

POLICY = RetryPolicy(
    initial_delay=timedelta(seconds=4),
    max_delay=timedelta(seconds=8),
    jitter=0.0,
    operation_timeout=timedelta(seconds=10),
    endpoint_timeout=timedelta(seconds=25),
    join_timeout=timedelta(seconds=25),
    cancel_timeout=timedelta(seconds=15),
    stable_after=timedelta(seconds=12),
)

SHAPES: tuple[ExpandedShape, ...] = tuple(
    expand_shape(wanted)
    for wanted in (shape(group(command="a")), shape(group(command="b")), shape())
)
"""The node as it is, with another spec, and not desired."""

STAGES = (
    BootstrapStage.BOOT_CHECKING,
    BootstrapStage.CONVERGED,
    BootstrapStage.CANCELLED,
    BootstrapStage.STREAM_ERROR,
    BootstrapStage.SSH_CONNECT_FAILED,
)

OUTCOMES: dict[OperationKind, tuple[OperationOutcome, ...]] = {
    OperationKind.CREATE_LEASE: (
        LeaseCreated(LEASE),
        LeaseCreated(LEASE, ENDPOINT),
        LeaseAbsent(),
        LeaseAbsent(conclusive=False),
        BootstrapCancelled(),
    ),
    OperationKind.LOOKUP_ENDPOINT: (
        EndpointLookup(),
        EndpointLookup(ENDPOINT),
        LeaseAbsent(),
        LeaseAbsent(conclusive=False),
        BootstrapCancelled(),
    ),
    OperationKind.START_BOOTSTRAP: (
        BootstrapAbsent(),
        BootstrapAbsent(conclusive=False),
        LeaseDestroyed(),
    ),
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED: (
        BootstrapConvergenceAccepted(),
        BootstrapCancelled(),
    ),
    OperationKind.CANCEL_BOOTSTRAP: (BootstrapCancelled(), LeaseDestroyed()),
    OperationKind.DESTROY_LEASE: (
        LeaseDestroyed(),
        LeaseDestroyed(confirmed=False),
        BootstrapCancelled(),
    ),
}
"""Every right outcome of each kind (a start's sessions are added), and a wrong one."""

ERRORS = (
    *(EffectError("no", disposition) for disposition in Disposition),
    EffectError("withdrawn", Disposition.AMBIGUOUS, not_run=True),
)


class Place(Struct, frozen=True, gc=False):
    """Where the walk stands: the cluster, which of `SHAPES` is wanted, and the time."""

    state: ClusterState
    wanted: int
    now: datetime

    @property
    def node(self) -> ManagedNode | None:
        """The one node."""
        return self.state.nodes.get(G0)


class Move(Struct, frozen=True, gc=False):
    """One step of the walk, and what made it."""

    by: str
    to: Place


class Walk(Struct, frozen=True):
    """What was found: places by their canonical form, stage moves, rows that fired."""

    places: dict[object, Place]
    stage_moves: dict[tuple[str, str], set[str]]
    rows: dict[str, int]
    closed: bool
    """Whether every place's every move was taken."""


def with_node(state: ClusterState, node: ManagedNode | None, next_attempt: int) -> ClusterState:
    """The state with its one node replaced."""
    nodes: dict[LogicalNodeId, ManagedNode] = {} if node is None else {G0: node}
    return ClusterState(state.observed_generation, NodeAttemptId(next_attempt), nodes)


def moves(place: Place) -> Iterator[Move]:
    """Everything that can happen next; each is checked against the invariants as it is made."""
    yield from _pass(place)
    for wanted in range(len(SHAPES)):
        if wanted != place.wanted:
            yield Move("shape", Place(place.state, wanted, place.now))
    node = place.node
    if node is None:
        return
    yield from _time(place, node)
    for observation in _observations(node):
        after = observe(node, observation, place.now, POLICY)
        refused = refusal(node, observation)
        assert (after is node) == (refused is not None), f"{observation}: {refused}"
        if refused is None:
            yield _to(place, after, _name(node, observation))


def _to(place: Place, node: ManagedNode | None, by: str, next_attempt: int | None = None) -> Move:
    state = with_node(place.state, node, next_attempt or place.state.next_attempt_id)
    check_state(state)
    check_step(place.state, state)
    return Move(by, Place(state, place.wanted, place.now))


def _pass(place: Place) -> Iterator[Move]:
    plan = reconcile(place.state, SHAPES[place.wanted], place.now)
    check_plan(place.state, SHAPES[place.wanted], place.now, plan)
    for action in plan.actions:
        node = apply(place.node, action, place.now, POLICY)
        taken = type(action).__name__ in {"Insert", "Restart"}
        by = type(action).__name__
        if isinstance(action, Dispatch):
            by = f"{type(action.effect.command).__name__} dispatched"
        move = _to(place, node, by, place.state.next_attempt_id + taken)
        if isinstance(action, Dispatch):
            check_dispatch(move.to.state, action.effect)
        yield move


def _time(place: Place, node: ManagedNode) -> Iterator[Move]:
    judged = expire(node, place.now, POLICY)
    if judged is not node:
        yield _to(place, judged, "a deadline")
    ahead = [due for due in deadlines(node) if due is not None and due > place.now]
    if ahead:
        yield Move("time", Place(place.state, place.wanted, min(ahead)))


def deadlines(node: ManagedNode) -> tuple[datetime | None, ...]:
    """Every moment at which time alone can change what is next."""
    return (
        node.pending.deadline if node.pending else None,
        node.retry.next_effect_at,
        node.retry.restart_at,
        node.progress.deadline if node.progress else None,
        node.cancel_deadline if node.cancel_failures else None,
        later(node.ready_at, POLICY.stable_after) if node.record.ready and node.ready_at else None,
    )


def _observations(node: ManagedNode) -> Iterator[NodeObservation]:
    yield NodeLost("gone")
    pending = node.pending
    if pending is not None:
        yield from (OperationFailed(pending.id, error) for error in ERRORS)
        yield from (OperationSucceeded(pending.id, outcome) for outcome in OUTCOMES[pending.kind])
        if pending.kind is OperationKind.START_BOOTSTRAP:
            for session in sorted(_sessions(node) - {STRANGER}):
                yield OperationSucceeded(pending.id, BootstrapStarted(session))
    stale = OperationId(node.attempt, node.next_operation_sequence)
    yield OperationSucceeded(stale, BootstrapCancelled())
    for session in sorted(_sessions(node)):
        yield from (seen for seen in session_news(session) if _is_walked(node, seen))


def _is_walked(node: ManagedNode, seen: SessionObservation) -> bool:
    """Only a join and a closure of one session are kept together, so that the walk stays short.
    With any two it closes as well, at six times as many places (tried: clean)."""
    if not node.kept or node.active_bootstrap is not None:
        return True
    pair = {SwactorJoined, BootstrapClosed}
    together = {type(other) for other in (seen, *node.kept)} == pair
    return together and {seen.session_id} == {other.session_id for other in node.kept}


def _sessions(node: ManagedNode) -> set[BootstrapSessionId]:
    """A session is named for the start that made it; one is nobody's."""
    known = {STRANGER}
    if node.active_bootstrap is not None:
        known.add(node.active_bootstrap)
    if node.pending is not None and node.pending.kind is OperationKind.START_BOOTSTRAP:
        known.add(BootstrapSessionId(node.pending.id.sequence))
    if node.retry.ambiguous_operation is not None and node.record.lease is not None:
        known.add(BootstrapSessionId(node.retry.ambiguous_operation.sequence))
    return known


def session_news(session: BootstrapSessionId) -> Iterator[SessionObservation]:
    """What a session may say."""
    yield SwactorJoined(session, SwactorId("swactor"))
    yield BootstrapClosed(session)
    yield BootstrapFailed(session, "no")
    yield from (BootstrapObserved(session, stage) for stage in STAGES)


def _name(node: ManagedNode, observation: NodeObservation) -> str:
    pending = node.pending
    match observation:
        case OperationSucceeded(_, outcome):
            name = type(outcome).__name__
            if isinstance(outcome, LeaseCreated | EndpointLookup) and outcome.endpoint is not None:
                return f"{name} with endpoint"
            return name
        case OperationFailed(_, error):
            assert pending is not None
            return f"{pending.kind} {error.disposition}"
        case BootstrapObserved(_, stage):
            return f"stage {stage}"
        case _:
            return type(observation).__name__


def canonical(place: Place) -> object:
    """What tells a place from another: names, large counts and distances in time left out."""
    node = place.node
    if node is None:
        return (place.wanted,)
    record, retry, ahead = node.record, node.retry, deadlines(node)
    moments = sorted({due for due in ahead if due is not None and due > place.now})
    rank = {due: i + 1 for i, due in enumerate(moments)}
    facts, joined = record.bootstrap, record.swactor
    start = node.pending.id.sequence if node.pending else None
    unsure = retry.ambiguous_operation.sequence if retry.ambiguous_operation else None
    name = {STRANGER: 0, unsure: 1, start: 2, node.active_bootstrap: 3}
    wanted = SHAPES[place.wanted].nodes.get(G0)
    return (
        wanted is not None and (1 if wanted == record.desired else 2),
        *(due is not None and rank.get(due, 0) for due in ahead),
        (node.intent, record.stage, record.ready, record.failed_at is None),
        (record.lease is None, record.connection is None, node.active_bootstrap is None),
        facts and (facts.last_stage, facts.furthest_stage),
        joined and joined.handed_off_at is None,
        node.pending and (node.pending.kind, node.pending.adopt_only),
        (unsure is None, node.cancel_failures > 0, node.progress and node.progress.wait),
        min(retry.consecutive_failures, COUNTS_IN_WALK),
        min(node.failures_before_ready, COUNTS_IN_WALK) if record.ready else 0,
        frozenset((name.get(seen.session_id), _name(node, seen)) for seen in node.kept),
    )


def _check_place(place: Place) -> None:
    """What must hold wherever the walk comes."""
    wanted, node = SHAPES[place.wanted], place.node
    check_converged(place.state, wanted)
    if node is None:
        return
    desired = wanted.nodes.get(G0)
    name = row_of(node, desired, place.now).name
    if desired is not None:
        assert is_steady(node, desired) == (name == "ready"), f"the guard and the table: {name}"
    plan = reconcile(place.state, wanted, place.now)
    if plan.actions or is_converged(place.state, wanted):
        return
    overdue = expire(node, place.now, POLICY) is not node
    awaited = plan.requeue_at is not None and plan.requeue_at > place.now
    assert overdue or awaited, f"wedged in row {name!r}, requeue at {plan.requeue_at}"


@cache
def walk(most: int = 1_000_000) -> Walk:
    """Every place, or at most so many, breadth first from the empty cluster."""
    start = Place(ClusterState(), 0, T0)
    found: dict[object, Place] = {canonical(start): start}
    stage_moves: dict[tuple[str, str], set[str]] = {}
    rows: dict[str, int] = {}
    ahead = deque([start])
    while ahead and len(found) < most:
        place = ahead.popleft()
        _check_place(place)
        if place.node is not None:
            desired = SHAPES[place.wanted].nodes.get(G0)
            name = row_of(place.node, desired, place.now).name
            rows[name] = rows.get(name, 0) + 1
        for move in moves(place):
            before, after = _stage(place.node), _stage(move.to.node)
            if before != after:
                stage_moves.setdefault((before, after), set()).add(move.by)
            key = canonical(move.to)
            if key not in found:
                found[key] = move.to
                ahead.append(move.to)
    return Walk(found, stage_moves, rows, not ahead)


def _stage(node: ManagedNode | None) -> str:
    return "[*]" if node is None else str(node.record.stage)

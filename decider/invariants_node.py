"""What must hold of one node in any state (spec §14; design rules 1-17).

Said from the rules, never by asking the decider's own code again, which would agree with itself.

Theory of operation.  While an attempt is live (active and unfailed) its facts only grow, so its
stage is a function of them.  Once it has failed or is deleting, late results are still folded for
the facts that cleanup needs and the stage stays where it was (design rule 9): then only what
outlives cleanup can be asked for.  What is pending was asked for in a state that allowed it, and
no fact that allowed it goes before it is answered; that deleting has begun meanwhile takes nothing
back (design rule 2).
"""

from collections.abc import Callable

from cluster_reconciler.decider.plan import UNASSIGNED
from cluster_reconciler.decider.state import (
    FIRST_SEQUENCE,
    ManagedNode,
    ProgressWait,
    RetryState,
    has_ambiguous_start,
    is_live,
)
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeStage,
    OperationKind,
)

MAKING = frozenset({OperationKind.CREATE_LEASE, OperationKind.START_BOOTSTRAP})
"""What may have made something that nobody knows of: only these can be ambiguous (rule 13)."""
RELEASING = frozenset({OperationKind.CANCEL_BOOTSTRAP, OperationKind.DESTROY_LEASE})

Fits = Callable[[ManagedNode], bool]

_PENDING_NEEDS: dict[OperationKind, tuple[str, Fits]] = {
    OperationKind.CREATE_LEASE: (
        "a node without a lease",
        lambda node: node.record.lease is None,
    ),
    OperationKind.LOOKUP_ENDPOINT: (
        "a lease without an endpoint",
        lambda node: node.record.lease is not None and node.record.connection is None,
    ),
    OperationKind.START_BOOTSTRAP: (
        "an endpoint, and no session so far",
        lambda node: node.record.connection is not None and node.record.bootstrap is None,
    ),
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED: (
        "a node that has joined",
        lambda node: node.record.swactor is not None,
    ),
    OperationKind.CANCEL_BOOTSTRAP: (
        "a deleting node's lease and session",
        lambda node: (
            _is_deleting(node)
            and node.record.lease is not None
            and node.record.bootstrap is not None
        ),
    ),
    OperationKind.DESTROY_LEASE: (
        "a deleting node's lease, and no session or start, unless its cancel has failed",
        lambda node: (
            _is_deleting(node)
            and node.record.lease is not None
            and (
                node.cancel_failures > 0
                or (node.active_bootstrap is None and node.retry.ambiguous_operation is None)
            )
        ),
    ),
}

_STAGE_OF_CLEANUP_NEEDS: dict[NodeStage, tuple[str, Fits]] = {
    NodeStage.NEW: (
        "a node that never had a session",
        lambda node: node.record.bootstrap is None,
    ),
    NodeStage.BOOTSTRAP_RUNNING: (
        "the facts of a session",
        lambda node: node.record.bootstrap is not None,
    ),
    NodeStage.SWACTOR_JOINED: ("a join", lambda node: node.record.swactor is not None),
    NodeStage.DORMANT: ("a hand-over", lambda node: node.ready_at is not None),
}


def check_node(node_id: LogicalNodeId, node: ManagedNode, next_attempt_id: NodeAttemptId) -> None:
    """Everything that must hold of one node in any state."""
    _check_identity(node_id, node, next_attempt_id)
    _check_operations(node_id, node)
    _check_ambiguity(node_id, node)
    _check_resources(node_id, node)
    _check_intent(node_id, node)
    _check_pending(node_id, node)
    _check_failure(node_id, node)
    _check_ready(node_id, node)
    _check_stage(node_id, node)
    _check_progress(node_id, node)
    _check_destroyed(node_id, node)


def _is_deleting(node: ManagedNode) -> bool:
    return node.intent is NodeIntent.DELETING


def _check_identity(node_id: LogicalNodeId, node: ManagedNode, next_id: NodeAttemptId) -> None:
    record, desired = node.record, node.record.desired
    assert record.logical_node_id == node_id, f"{node_id}: holds {record.logical_node_id}"
    assert desired.logical_node_id == node_id, f"{node_id}: has another node's spec"
    found = (record.run_id, record.group_id, record.role)
    expected = (desired.run_id, desired.group_id, desired.role)
    assert found == expected, f"{node_id}: run, group and role are {found}, the spec's {expected}"
    assert UNASSIGNED < node.attempt < next_id, (
        f"{node_id}: attempt {node.attempt} was never allocated (next {next_id})"
    )


def _check_operations(node_id: LogicalNodeId, node: ManagedNode) -> None:
    first, following = FIRST_SEQUENCE, node.next_operation_sequence
    assert following >= first, f"{node_id}: the next sequence is {following}, before {first}"
    pending = node.pending.id if node.pending is not None else None
    for operation in (node.retry.ambiguous_operation, pending):
        if operation is not None:
            assert operation.attempt == node.attempt, f"{node_id}: {operation}: another attempt's"
            assert first <= operation.sequence < following, (
                f"{node_id}: {operation} was never recorded (next {following})"
            )
    if pending is not None:
        assert pending.sequence == following - 1, (
            f"{node_id}: {pending} is pending, and not the latest of {following - 1}"
        )
        assert pending != node.retry.ambiguous_operation, (
            f"{node_id}: {pending} is ambiguous before it was answered"
        )
    counts = (node.retry.consecutive_failures, node.cancel_failures, node.failures_before_ready)
    assert min(counts) >= 0, f"{node_id}: a count below nothing: {counts}"


def _check_ambiguity(node_id: LogicalNodeId, node: ManagedNode) -> None:
    since, ambiguous = node.retry.ambiguous_since, node.retry.ambiguous_operation
    assert (since is None) == (ambiguous is None), f"{node_id}: an ambiguity without its time"
    if ambiguous is not None:
        # Of a create, until its lease is known; of a start, until its session is known.
        assert node.record.bootstrap is None, f"{node_id}: {ambiguous} ambiguous, its session known"
        leased, reached = node.record.lease is not None, node.record.connection is not None
        assert leased == reached, f"{node_id}: {ambiguous} ambiguous between its lease and endpoint"
    if node.kept:
        pending = node.pending
        starting = pending is not None and pending.kind is OperationKind.START_BOOTSTRAP
        assert starting or has_ambiguous_start(node), f"{node_id}: keeps news of no start's session"
        assert node.record.failed_at is None, f"{node_id}: keeps news after it has failed"


def _check_resources(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record, session = node.record, node.active_bootstrap
    if record.connection is not None:
        assert record.lease is not None, f"{node_id}: an endpoint without a lease"
    if session is not None:
        assert record.lease is not None, f"{node_id}: a session without a lease"
        assert record.connection is not None, f"{node_id}: a session without an endpoint"
        assert record.bootstrap is not None, f"{node_id}: a session without facts"
        assert record.bootstrap.session_id == session, (
            f"{node_id}: session {session}, facts of {record.bootstrap.session_id}"
        )
    if record.swactor is not None:
        assert record.bootstrap is not None, f"{node_id}: a join without a session's facts"
    handed_off = record.swactor.handed_off_at if record.swactor is not None else None
    assert handed_off == node.ready_at, (
        f"{node_id}: handed over at {handed_off}, ready since {node.ready_at}"
    )


def _check_intent(node_id: LogicalNodeId, node: ManagedNode) -> None:
    since, gives_way = node.deleting_since, node.cancel_deadline
    if _is_deleting(node):
        assert not node.record.ready, f"{node_id}: deleting and ready"
        assert since is not None, f"{node_id}: deleting since no time"
        assert gives_way is not None, f"{node_id}: deleting, and its cancel never gives way"
    else:
        cleanup = (since, gives_way, node.cancel_failures)
        assert cleanup == (None, None, 0), f"{node_id}: active, but deleting since {cleanup}"


def _check_pending(node_id: LogicalNodeId, node: ManagedNode) -> None:
    pending = node.pending
    if pending is None:
        return
    needs, fits = _PENDING_NEEDS[pending.kind]
    assert fits(node), (
        f"{node_id}: {pending.kind} {pending.id} is pending, it needs {needs}; {facts_of(node)}"
    )
    if pending.adopt_only:
        assert pending.kind in MAKING, f"{node_id}: {pending.kind} adopts nothing"
        assert _is_deleting(node), f"{node_id}: active, and only looks for {pending.kind}"
        assert node.retry.ambiguous_operation is not None, (
            f"{node_id}: looks for what {pending.kind} left, and nothing is ambiguous"
        )


def _check_failure(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record, retry = node.record, node.retry
    if record.failed_at is None:
        assert record.stage is not NodeStage.FAILED, f"{node_id}: stage failed, at no time"
        assert record.failed_reason is None, f"{node_id}: a reason without a failure"
        assert retry.restart_at is None, f"{node_id}: a restart deadline without a failure"
        return
    assert not record.ready, f"{node_id}: failed and ready"
    assert record.failed_reason is not None, f"{node_id}: failed for no reason"
    assert retry.restart_at is not None, f"{node_id}: failed without a restart deadline"
    assert retry.restart_at >= record.failed_at, f"{node_id}: to restart before it failed"
    assert retry.consecutive_failures > 0, f"{node_id}: failed, and counts no failure"
    assert record.stage in (NodeStage.FAILED, NodeStage.DESTROYED), (
        f"{node_id}: failed at stage {record.stage}"
    )


def _check_ready(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    if not record.ready:
        return
    assert record.lease is not None, f"{node_id}: ready without a lease"
    assert record.connection is not None, f"{node_id}: ready without an endpoint"
    assert record.swactor is not None, f"{node_id}: ready without a join"
    assert node.ready_at is not None, f"{node_id}: ready since no time"
    assert node.active_bootstrap is None, f"{node_id}: ready with a session"
    assert node.retry == RetryState(), f"{node_id}: ready, and still to retry: {node.retry}"


def _check_stage(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    if is_live(node):
        expected = _stages_by_facts(node)
        assert record.stage in expected, (
            f"{node_id}: at stage {record.stage}, its facts say {expected}; {facts_of(node)}"
        )
        left = record.bootstrap is not None and not record.ready and node.active_bootstrap is None
        assert not left, f"{node_id}: its session has ended, and it neither failed nor is ready"
        return
    assert record.stage is not NodeStage.HANDED_OFF, f"{node_id}: handed over and not dormant"
    needs, fits = _STAGE_OF_CLEANUP_NEEDS.get(record.stage, ("", None))
    assert fits is None or fits(node), (
        f"{node_id}: deleting at stage {record.stage}, which needs {needs}; {facts_of(node)}"
    )


def _stages_by_facts(node: ManagedNode) -> tuple[NodeStage, ...]:
    """Where a live attempt stands.  HANDED_OFF and DORMANT come in one step (design rule 8)."""
    record = node.record
    if record.lease is None:
        return (NodeStage.NEW, NodeStage.LEASE_REQUESTED)
    if record.connection is None:
        return (NodeStage.LEASE_CREATED,)
    if record.bootstrap is None:
        return (NodeStage.ENDPOINT_KNOWN,)
    if record.swactor is None:
        return (NodeStage.BOOTSTRAP_RUNNING,)
    return (NodeStage.DORMANT,) if record.ready else (NodeStage.SWACTOR_JOINED,)


def _check_progress(node_id: LogicalNodeId, node: ManagedNode) -> None:
    wait = node.progress.wait if node.progress is not None else None
    if not is_live(node):
        assert wait is None, f"{node_id}: waits for {wait} and strives for none"
        return
    expected = _waits_by_facts(node)
    assert wait in expected, f"{node_id}: waits for {wait}, expected {expected}; {facts_of(node)}"


def _waits_by_facts(node: ManagedNode) -> tuple[ProgressWait | None, ...]:
    """What a live attempt waits for only so long: every such wait has an end (design rule 12)."""
    record = node.record
    if record.lease is None or record.ready:
        return (None,)
    if record.connection is None:
        return (ProgressWait.ENDPOINT,)
    if record.bootstrap is None:
        return (None, ProgressWait.JOIN)  # From the first dispatch of the start on.
    return (ProgressWait.JOIN,)


def _check_destroyed(node_id: LogicalNodeId, node: ManagedNode) -> None:
    record = node.record
    if record.stage is not NodeStage.DESTROYED:
        assert record.destroyed_at is None, f"{node_id}: destroyed at stage {record.stage}"
        return
    assert _is_deleting(node), f"{node_id}: active and destroyed"
    left = (record.lease, record.connection, node.active_bootstrap, node.pending)
    assert left == (None, None, None, None), f"{node_id}: destroyed, but holds {left}"
    assert node.retry.ambiguous_operation is None, f"{node_id}: destroyed, but ambiguous"
    due = node.retry.next_effect_at
    assert due is None, f"{node_id}: destroyed, and an effect is due at {due}"
    assert record.destroyed_at is not None, f"{node_id}: destroyed at no time"


def facts_of(node: ManagedNode) -> str:
    """The node's facts in a few words, for a message."""
    record = node.record
    return (
        f"found {node.intent}, stage {record.stage}, lease {record.lease is not None}, "
        f"endpoint {record.connection is not None}, session {node.active_bootstrap}, "
        f"joined {record.swactor is not None}, ready {record.ready}, "
        f"ambiguous {node.retry.ambiguous_operation}, cancel failures {node.cancel_failures}"
    )

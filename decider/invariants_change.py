"""What must hold between a node and its next value (spec §5.2, §7.1, §11; design rules 2, 7-19).

A step of an attempt is one of four: BeginDelete, MarkDestroyed, an operation that is recorded, or
something folded (a result, news, a passed deadline).  The first three are known to the last field,
so everything they must leave alone is compared at once.  Of a fold it is asked where each fact came
from: leases, sessions and ambiguities come and go only with the answer of the one operation that
can bring or take them.
"""

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.decider.invariants_node import MAKING, RELEASING, facts_of
from cluster_reconciler.decider.sessions import ORDERED_STAGES
from cluster_reconciler.decider.state import (
    ManagedNode,
    PendingOperation,
    ProgressDeadline,
    ProgressWait,
    RetryState,
    is_live,
)
from cluster_reconciler.messages import (
    BootstrapStage,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeRecord,
    NodeStage,
    OperationId,
    OperationKind,
)

_STAGE_RANK = {stage: rank for rank, stage in enumerate(NodeStage)}
_ENDS = frozenset({BootstrapStage.CONVERGED, BootstrapStage.CLOSED, BootstrapStage.CANCELLED})


def check_change(
    node_id: LogicalNodeId,
    old: ManagedNode | None,
    new: ManagedNode | None,
    *,
    next_before: NodeAttemptId,
    next_after: NodeAttemptId,
) -> None:
    """One node's step, `old` to `new`: one action applied, or one observation or deadline folded.

    `old` is None for an insert, `new` for a reap; `next_before` and `next_after` are the attempt
    allocator around the step."""
    if old is None:
        assert new is not None, f"{node_id}: there was no node, and there is none"
        _check_allocated(node_id, new, next_before, next_after)
        _check_fresh(node_id, new, RetryState())
    elif new is None:
        assert old.record.stage is NodeStage.DESTROYED, f"{node_id}: reaped before destroyed"
    elif new.attempt != old.attempt:
        _check_allocated(node_id, new, next_before, next_after)
        _check_restart(node_id, old, new)
    else:
        _check_same_attempt(node_id, old, new)


def _check_allocated(
    node_id: LogicalNodeId, new: ManagedNode, before: NodeAttemptId, after: NodeAttemptId
) -> None:
    assert before <= new.attempt < after, (
        f"{node_id}: attempt {new.attempt} was not taken from {before} up to {after}"
    )


def _check_fresh(node_id: LogicalNodeId, new: ManagedNode, retry: RetryState) -> None:
    desired = new.record.desired
    record = NodeRecord(
        desired.logical_node_id, desired.run_id, desired.group_id, desired.role, desired
    )
    fresh = ManagedNode(
        new.attempt, NodeIntent.ACTIVE, record, retry=retry, started_at=new.started_at
    )
    assert new == fresh, f"{node_id}: begins with a past: {_differing(fresh, new)}"


def _check_restart(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    assert old.record.stage is NodeStage.DESTROYED, f"{node_id}: restarted before destroyed"
    count, was = new.retry.consecutive_failures, old.retry.consecutive_failures
    assert count == was, f"{node_id}: a restart changed the failure count from {was} to {count}"
    error, of = old.retry.last_error, old.retry.last_error_attempt
    _check_fresh(node_id, new, RetryState(was, last_error=error, last_error_attempt=of))
    due, at = old.retry.restart_at, new.started_at
    assert at is not None, f"{node_id}: restarted at no time"
    assert due is None or due <= at, f"{node_id}: restarted at {at}, not due before {due}"


def _check_same_attempt(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    if old.record.stage is NodeStage.DESTROYED:
        assert new == old, f"{node_id}: changed after it was destroyed: {_differing(old, new)}"
    elif new.intent is not old.intent:
        _check_begin_delete(node_id, old, new)
    elif new.record.stage is NodeStage.DESTROYED:
        _check_mark_destroyed(node_id, old, new)
    elif new.pending is not None and new.pending != old.pending:
        _check_recorded(node_id, old, new, new.pending)
    else:
        _check_fold(node_id, old, new)


def _check_begin_delete(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    """Facts and the pending operation stay, so that what it brings is still folded (§5.2)."""
    assert new.intent is NodeIntent.DELETING, f"{node_id}: a deletion was taken back"
    wait = old.retry.next_effect_at if old.retry.ambiguous_operation is not None else None
    expected = replace(
        old,
        intent=NodeIntent.DELETING,
        record=replace(old.record, ready=False),
        retry=replace(old.retry, next_effect_at=wait),
        progress=None,
        deleting_since=new.deleting_since,
        cancel_deadline=new.cancel_deadline,
    )
    assert new == expected, f"{node_id}: BeginDelete changed more: {_differing(expected, new)}"


def _check_mark_destroyed(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    """Nothing of the attempt may be left, seen or unseen (§14.10)."""
    left = (old.record.lease, old.active_bootstrap, old.pending, old.retry.ambiguous_operation)
    assert left == (None, None, None, None), f"{node_id}: marked destroyed, but it held {left}"
    at = new.record.destroyed_at
    expected = replace(
        old,
        record=replace(old.record, stage=NodeStage.DESTROYED, destroyed_at=at),
        retry=replace(old.retry, next_effect_at=None),
    )
    assert new == expected, f"{node_id}: MarkDestroyed changed more: {_differing(expected, new)}"


def _check_recorded(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, pending: PendingOperation
) -> None:
    """An operation is recorded: it is the next one, and nothing else happens with it (§6)."""
    assert old.pending is None, f"{node_id}: {pending.id} overtook {old.pending}"
    following = OperationId(old.attempt, old.next_operation_sequence)
    assert pending.id == following, f"{node_id}: {pending.id} is not the next operation {following}"
    deleting = old.intent is NodeIntent.DELETING
    may_ask = deleting or (is_live(old) and not old.record.ready)
    assert may_ask, f"{node_id}: {pending.kind} recorded, nothing was to do; {facts_of(old)}"
    if deleting:
        cleans = pending.kind in RELEASING or pending.adopt_only
        assert cleans, f"{node_id}: {pending.kind} recorded while deleting, it cleans nothing"
    stage, progress = old.record.stage, old.progress
    if not deleting and pending.kind is OperationKind.CREATE_LEASE:
        stage = NodeStage.LEASE_REQUESTED
    if not deleting and pending.kind is OperationKind.START_BOOTSTRAP and progress is None:
        assert new.progress is not None, f"{node_id}: a start without an end of its wait"
        progress = ProgressDeadline(ProgressWait.JOIN, new.progress.deadline)
    expected = replace(
        old,
        record=replace(old.record, stage=stage),
        pending=pending,
        next_operation_sequence=following.sequence + 1,
        progress=progress,
    )
    assert new == expected, f"{node_id}: recording changed more: {_differing(expected, new)}"


def _check_fold(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    """A result, news or a passed deadline.  `answered`: the operation that it was the end of."""
    answered = old.pending if new.pending is None else None
    kept, found = _what_no_fold_changes(old), _what_no_fold_changes(new)
    assert found == kept, f"{node_id}: a fold changed what it must not: {found}, was {kept}"
    kind = answered.kind if answered is not None else None
    _check_stage_move(node_id, old, new)
    _check_lease(node_id, old, new, kind)
    _check_session(node_id, old, new, kind)
    _check_join(node_id, old, new, kind)
    _check_ready_move(node_id, old, new, kind)
    _check_ambiguity(node_id, old, new, answered)
    _check_first_failure(node_id, old, new)
    _check_counts(node_id, old, new, answered)
    if answered is not None:
        _check_no_spin(node_id, old, new, answered)


def _what_no_fold_changes(node: ManagedNode) -> tuple[object, ...]:
    record = node.record
    identity = (record.logical_node_id, record.run_id, record.group_id, record.role)
    times = (node.started_at, node.deleting_since, node.cancel_deadline)
    return (identity, record.desired, node.next_operation_sequence, times)


def _check_stage_move(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    was, now = old.record.stage, new.record.stage
    if not is_live(old):
        assert now is was, f"{node_id}: failed or deleting, and moved from {was} to {now}"
        return
    assert _STAGE_RANK[now] >= _STAGE_RANK[was], f"{node_id}: went back from {was} to {now}"


def _check_lease(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, kind: OperationKind | None
) -> None:
    was, now = old.record, new.record
    if was.lease is None and now.lease is not None:
        came = kind is OperationKind.CREATE_LEASE
        assert came, f"{node_id}: a lease came with the answer of {kind}"
    elif now.lease is None and was.lease is not None:
        gone = kind is OperationKind.DESTROY_LEASE
        assert gone, f"{node_id}: the lease went with the answer of {kind}"
    else:
        assert now.lease == was.lease, f"{node_id}: its lease is another, {now.lease}"
        if was.connection is not None:
            assert now.connection == was.connection, f"{node_id}: its endpoint moved or went"
        elif now.connection is not None:
            found = kind is OperationKind.LOOKUP_ENDPOINT
            assert found, f"{node_id}: an endpoint came with the answer of {kind}"


def _check_session(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, kind: OperationKind | None
) -> None:
    was, now = old.record.bootstrap, new.record.bootstrap
    if was is None:
        started = now is None or kind is OperationKind.START_BOOTSTRAP
        assert started, f"{node_id}: a session came with the answer of {kind}"
        return
    assert now is not None, f"{node_id}: the facts of its session were forgotten"
    assert now.session_id == was.session_id, f"{node_id}: a second session, {now.session_id}"
    rank = ORDERED_STAGES.index
    assert rank(now.furthest_stage) >= rank(was.furthest_stage), f"{node_id}: stage went back"
    assert (now.last_stdout_seq or 0) >= (was.last_stdout_seq or 0), f"{node_id}: stdout back"
    assert (now.last_stderr_seq or 0) >= (was.last_stderr_seq or 0), f"{node_id}: stderr back"
    if old.record.failed_at is not None and kind is None:
        assert now == was, f"{node_id}: took news of its session after it had failed"
    if old.active_bootstrap is None:
        assert new.active_bootstrap is None, f"{node_id}: session {was.session_id} came back"
    elif new.active_bootstrap is None and kind is not OperationKind.DESTROY_LEASE:
        assert now.last_stage in _ENDS, (
            f"{node_id}: the session was dropped at {now.last_stage}, which is no end"
        )


def _check_join(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, kind: OperationKind | None
) -> None:
    was, now = old.record.swactor, new.record.swactor
    if was is not None:
        assert now is not None, f"{node_id}: a join was forgotten"
        same = (now.swactor_id, now.joined_at) == (was.swactor_id, was.joined_at)
        assert same, f"{node_id}: joined a second time, as {now}"
    elif now is not None:
        told = old.active_bootstrap is not None or kind is OperationKind.START_BOOTSTRAP
        assert told, f"{node_id}: joined without a session; {facts_of(old)}"
        assert old.record.failed_at is None, f"{node_id}: joined after it had failed"


def _check_ready_move(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, kind: OperationKind | None
) -> None:
    if new.record.ready and not old.record.ready:
        ran = old.active_bootstrap is not None or kind is OperationKind.START_BOOTSTRAP
        assert ran, f"{node_id}: ready without a session that could end; {facts_of(old)}"
        count, before = new.failures_before_ready, old.retry.consecutive_failures
        assert count == before, f"{node_id}: ready has kept {count} failures of {before}"
        return
    if old.record.ready and not new.record.ready:
        failed = new.record.failed_at is not None
        assert failed, f"{node_id}: ready no more, and it neither failed nor is deleting"
    since = (old.ready_at, old.failures_before_ready)
    found = (new.ready_at, new.failures_before_ready)
    assert found == since, f"{node_id}: ready since {found}, was {since}"


def _check_ambiguity(
    node_id: LogicalNodeId,
    old: ManagedNode,
    new: ManagedNode,
    answered: PendingOperation | None,
) -> None:
    """Sticky: only what the same kind finds, or the destroy of all of it, clears it (rule 13)."""
    was, now = old.retry.ambiguous_operation, new.retry.ambiguous_operation
    if now == was:
        return
    kind = answered.kind if answered is not None else None
    if was is None:
        left = answered is not None and answered.id == now and kind in MAKING
        assert left, f"{node_id}: {now} is ambiguous, answered was {answered}"
    else:
        assert now is None, f"{node_id}: the ambiguity moved from {was} to {now}"
        resolved = kind in MAKING or kind is OperationKind.DESTROY_LEASE
        assert resolved, f"{node_id}: the ambiguity of {was} went with the answer of {kind}"


def _check_first_failure(node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode) -> None:
    first = (old.record.failed_reason, old.record.failed_at, old.retry.restart_at)
    now = (new.record.failed_reason, new.record.failed_at, new.retry.restart_at)
    if old.record.failed_at is not None:
        assert now == first, f"{node_id}: failed twice, {first} and {now}"
    elif new.record.failed_at is not None:
        assert is_live(old), f"{node_id}: failed while deleting, which is a fact and no failure"


def _check_counts(
    node_id: LogicalNodeId,
    old: ManagedNode,
    new: ManagedNode,
    answered: PendingOperation | None,
) -> None:
    """A failure counts once, and only ready takes the count back (§11; design rules 7, 9, 19)."""
    was, now = old.retry.consecutive_failures, new.retry.consecutive_failures
    becomes_ready = new.record.ready and not old.record.ready
    if is_live(old) and new.record.failed_at is not None:
        # A node lost soon after it became ready goes on from the count that ready took back.
        expected = {was + 1, old.failures_before_ready + 1} if old.record.ready else {was + 1}
        assert now in expected, f"{node_id}: failed, and counts {now} after {was}"
    elif now != was and not becomes_ready:
        assert now == was + 1, f"{node_id}: counts {now} failures after {was}, and is not ready"
        assert answered is not None, f"{node_id}: counts a failure of nothing"
        needed = is_live(old) or answered.kind in RELEASING or answered.adopt_only
        unsure = answered.kind in MAKING and new.retry.ambiguous_operation is not None
        assert needed or unsure, (
            f"{node_id}: failed or deleting, and counts a failure of {answered.kind}"
        )
    if new.retry.next_effect_at != old.retry.next_effect_at and not becomes_ready:
        assert answered is not None, f"{node_id}: its next effect was moved by nothing"
    cancels = new.cancel_failures - old.cancel_failures
    if cancels != 0:
        asked = answered is not None and (
            answered.kind is OperationKind.CANCEL_BOOTSTRAP
            or answered.kind is OperationKind.START_BOOTSTRAP
        )
        assert asked, f"{node_id}: counts a failed cancel of nothing"
        assert cancels == 1, f"{node_id}: counts {cancels} failed cancels at once"


def _check_no_spin(
    node_id: LogicalNodeId, old: ManagedNode, new: ManagedNode, answered: PendingOperation
) -> None:
    """An answer that changes nothing is followed by a wait: what would ask the very same again at
    once would keep the driver and the provider busy for ever (design rules 15, 17, 18)."""
    strives = is_live(old) and not old.record.ready
    cancels = answered.kind is OperationKind.CANCEL_BOOTSTRAP
    settled = cancels and old.active_bootstrap is None  # The session's own end came first.
    asks_again = strives or answered.kind in RELEASING or answered.adopt_only
    if asks_again and not settled and _what_is_sought(new) == _what_is_sought(old):
        assert new.retry.next_effect_at is not None, (
            f"{node_id}: {answered.kind} would be asked again at once; {facts_of(new)}"
        )


def _what_is_sought(node: ManagedNode) -> tuple[object, ...]:
    record = node.record
    known = (record.lease, record.connection, node.active_bootstrap)
    return (*known, record.ready, record.failed_at, node.retry.ambiguous_operation)


def _differing(expected: Struct, found: Struct) -> str:
    """The fields that are not as expected, and what was found there."""
    return ", ".join(
        f"{name} {getattr(found, name)}"
        for name in expected.__struct_fields__
        if getattr(found, name) != getattr(expected, name)
    )

"""Folding what a bootstrap session reports (spec §7.1; design rules 8-10).

Each function takes a node whose `active_bootstrap` is the session in question.  A session's end
before the join fails a live attempt; after it, it completes the hand-over.  Cleanup only takes the
facts: a deleting node changes neither stage nor readiness.
"""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from cluster_reconciler.decider.failures import fail_attempt, join_progress
from cluster_reconciler.decider.retry import RetryPolicy
from cluster_reconciler.decider.state import ManagedNode, RetryState, is_live
from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapFacts,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapStage,
    NodeStage,
    SessionObservation,
    SwactorFacts,
    SwactorJoined,
)

ORDERED_STAGES = (
    BootstrapStage.CREATED,
    BootstrapStage.SSH_CONNECTING,
    BootstrapStage.SSH_READY,
    BootstrapStage.STDOUT_STREAMING,
    BootstrapStage.BOOT_CHECKING,
    BootstrapStage.SWACTOR_STARTING,
    BootstrapStage.WAITING_FOR_SWACTOR_JOIN,
    BootstrapStage.CONVERGED,
    BootstrapStage.CLOSED,
)
"""The way of a session; the other stages are ways to leave it."""

_RANK = {stage: rank for rank, stage in enumerate(ORDERED_STAGES)}

CLOSING_STAGES = frozenset({BootstrapStage.CONVERGED, BootstrapStage.CLOSED})
FAILED_STAGES = frozenset(
    {
        BootstrapStage.SSH_CONNECT_FAILED,
        BootstrapStage.BOOT_CHECK_FAILED,
        BootstrapStage.START_FAILED,
        BootstrapStage.SWACTOR_JOIN_FAILED,
    }
)


def fold_session(
    node: ManagedNode, observation: SessionObservation, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    """The node after an observation that was not refused."""
    match observation:
        case SwactorJoined(_, swactor_id):
            return _join(node, SwactorFacts(swactor_id, now), now, retry)
        case BootstrapClosed():
            closed = _with_stage(node, BootstrapStage.CLOSED, now)
            return _close(closed, now, retry)
        case BootstrapFailed(_, reason):
            return fail_attempt(node, reason, now, retry)
        case BootstrapObserved():
            return _fold_stage(node, observation, now, retry)
        case _:
            assert_never(observation)


def fold_kept(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    """A session has become known: fold what was kept of it, the join first (design rule 10)."""
    kept = [seen for seen in node.kept if seen.session_id == node.active_bootstrap]
    kept.sort(key=_fold_order)
    session, node = node.active_bootstrap, replace(node, kept=())
    for observation in kept:
        if node.active_bootstrap == session and node.record.failed_at is None:
            node = fold_session(node, observation, now, retry)
    return node


def _fold_order(observation: SessionObservation) -> int:
    """The join, then news, then ends."""
    if isinstance(observation, SwactorJoined):
        return 0
    return 1 if is_mere_news(observation) else 2


def is_mere_news(observation: SessionObservation) -> bool:
    """Whether the session tells how it fares, and neither a join nor, in any form, its end."""
    if not isinstance(observation, BootstrapObserved):
        return False
    stage = observation.stage
    ends = stage in CLOSING_STAGES or stage in FAILED_STAGES
    return not ends and stage is not BootstrapStage.CANCELLED


def says_nothing_new(facts: BootstrapFacts, seen: BootstrapObserved) -> bool:
    """Whether the news is what is known, or older."""
    return (
        not _moves_stage(facts, seen.stage)
        and not _is_later(facts.last_stdout_seq, seen.last_stdout_seq)
        and not _is_later(facts.last_stderr_seq, seen.last_stderr_seq)
    )


def become_ready(node: ManagedNode, now: datetime) -> ManagedNode:
    """The hand-over is complete (design rules 7, 8): nothing of the way here counts any more."""
    record = node.record
    assert record.swactor is not None, f"{record.logical_node_id}: ready without a join"
    assert record.bootstrap is not None, f"{record.logical_node_id}: ready without a bootstrap"
    bootstrap = record.bootstrap
    if _moves_stage(bootstrap, BootstrapStage.CONVERGED):
        bootstrap = _staged(bootstrap, BootstrapStage.CONVERGED)
    return replace(
        node,
        record=replace(
            record,
            stage=NodeStage.DORMANT,
            ready=True,
            bootstrap=bootstrap,
            swactor=replace(record.swactor, handed_off_at=now),
        ),
        active_bootstrap=None,
        retry=RetryState(),
        progress=None,
        ready_at=now,
        failures_before_ready=node.retry.consecutive_failures,
    )


def end_session(node: ManagedNode, stage: BootstrapStage, now: datetime) -> ManagedNode:
    """The session can be addressed no more; its facts stay."""
    return replace(_with_stage(node, stage, now), active_bootstrap=None)


def _join(
    node: ManagedNode, swactor: SwactorFacts, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    if node.record.swactor is not None:
        return node  # Of several joins that were kept, the first stays.
    if not is_live(node):
        return replace(node, record=replace(node.record, swactor=swactor))
    return replace(
        node,
        record=replace(node.record, swactor=swactor, stage=NodeStage.SWACTOR_JOINED),
        progress=join_progress(now, retry),
    )


def _close(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    if is_live(node) and node.record.swactor is not None:
        return become_ready(node, now)
    node = replace(node, active_bootstrap=None)
    return fail_attempt(node, "the bootstrap closed before the node joined the swarm", now, retry)


def _fold_stage(
    node: ManagedNode, seen: BootstrapObserved, now: datetime, retry: RetryPolicy
) -> ManagedNode:
    facts = node.record.bootstrap
    is_later_stage = facts is not None and _is_strictly_later(facts, seen.stage)
    node = _with_sequences(_with_stage(node, seen.stage, now), seen)
    if seen.stage in CLOSING_STAGES:
        return _close(node, now, retry)
    if seen.stage is BootstrapStage.CANCELLED:
        node = replace(node, active_bootstrap=None)
        return fail_attempt(node, "the bootstrap was cancelled", now, retry)
    if seen.stage in FAILED_STAGES:
        reason = f"the bootstrap failed: {seen.stage}" + (f": {seen.marker}" if seen.marker else "")
        return fail_attempt(node, reason, now, retry)
    if is_later_stage and is_live(node):
        # Output lines alone do not renew the wait, progress does (design rule 12).
        return replace(node, progress=join_progress(now, retry))
    return node


def _with_stage(node: ManagedNode, stage: BootstrapStage, now: datetime) -> ManagedNode:
    facts = node.record.bootstrap
    assert facts is not None, f"{node.record.logical_node_id}: a session without facts"
    if _moves_stage(facts, stage):
        facts = _staged(facts, stage)
    facts = replace(facts, last_observed_at=now)
    return replace(node, record=replace(node.record, bootstrap=facts))


def _with_sequences(node: ManagedNode, seen: BootstrapObserved) -> ManagedNode:
    facts = node.record.bootstrap
    assert facts is not None, f"{node.record.logical_node_id}: a session without facts"
    if _is_later(facts.last_stdout_seq, seen.last_stdout_seq):
        facts = replace(facts, last_stdout_seq=seen.last_stdout_seq)
    if _is_later(facts.last_stderr_seq, seen.last_stderr_seq):
        facts = replace(facts, last_stderr_seq=seen.last_stderr_seq)
    return replace(node, record=replace(node.record, bootstrap=facts))


def _staged(facts: BootstrapFacts, stage: BootstrapStage) -> BootstrapFacts:
    furthest = stage if _is_strictly_later(facts, stage) else facts.furthest_stage
    return replace(facts, last_stage=stage, furthest_stage=furthest)


def _moves_stage(facts: BootstrapFacts, stage: BootstrapStage) -> bool:
    """Whether the stage is news: a strictly later one, or an end or error not told before."""
    if stage in _RANK:
        return _is_strictly_later(facts, stage)
    return stage is not facts.last_stage


def _is_strictly_later(facts: BootstrapFacts, stage: BootstrapStage) -> bool:
    return _RANK.get(stage, -1) > _RANK[facts.furthest_stage]


def _is_later(known: int | None, seen: int | None) -> bool:
    """A number below 0 is none."""
    return seen is not None and seen > (known if known is not None else -1)

"""How failures are counted, and waits ended (spec §11; design rules 7, 9, 12, 18).

One attempt fails once: the first reason, time and restart deadline stay, however many signals
follow.  A failure that is seen while the node is deleting is a fact for the story, not a failure.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from cluster_reconciler.decider.retry import (
    RetryPolicy,
    backoff,
    deadline_after,
    later,
    spread,
)
from cluster_reconciler.decider.state import (
    ManagedNode,
    ProgressDeadline,
    ProgressWait,
    is_live,
)
from cluster_reconciler.messages import NodeStage


def fail_attempt(
    node: ManagedNode,
    reason: str,
    now: datetime,
    retry: RetryPolicy,
    retry_after: timedelta | None = None,
) -> ManagedNode:
    """End the attempt: cleanup is next, and a restart no sooner than its stored deadline."""
    if not is_live(node):
        return node
    failures = _count_so_far(node, now, retry) + 1
    return replace(
        node,
        record=replace(
            node.record, stage=NodeStage.FAILED, ready=False, failed_reason=reason, failed_at=now
        ),
        retry=replace(
            node.retry,
            consecutive_failures=failures,
            restart_at=retry_at(node, failures, now, retry, retry_after),
            last_error=reason,
            last_error_attempt=node.attempt,
        ),
        progress=None,
        kept=(),
    )


def count_failure(
    node: ManagedNode,
    reason: str,
    now: datetime,
    retry: RetryPolicy,
    retry_after: timedelta | None = None,
) -> ManagedNode:
    """Count a failed effect and store when the next one may go; the attempt lives on."""
    failures = node.retry.consecutive_failures + 1
    return replace(
        node,
        retry=replace(
            node.retry,
            consecutive_failures=failures,
            next_effect_at=retry_at(node, failures, now, retry, retry_after),
            last_error=reason,
            last_error_attempt=node.attempt,
        ),
    )


def retry_at(
    node: ManagedNode,
    failures: int,
    now: datetime,
    retry: RetryPolicy,
    retry_after: timedelta | None,
) -> datetime:
    """Now plus the sampled backoff, never before what the provider asked for.  Many nodes that
    were told the same span do not all come back at its end: it is followed by jitter."""
    record = node.record
    key = (record.run_id, record.logical_node_id, node.attempt, failures)
    wait = backoff(retry, *key)
    if retry_after is None or retry_after <= wait:
        return later(now, wait)
    return later(later(now, retry_after), spread(retry, *key, min(retry_after, retry.max_delay)))


def _count_so_far(node: ManagedNode, now: datetime, retry: RetryPolicy) -> int:
    """A node lost soon after it became ready goes on from the count that ready had reset: a
    command that crashes right after joining backs off as well."""
    if node.ready_at is not None and now < later(node.ready_at, retry.stable_after):
        return node.failures_before_ready
    return node.retry.consecutive_failures


def probe_later(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    """Wait the probe interval and ask again: no failure."""
    at = deadline_after(now, retry.endpoint_probe_interval, retry)
    return replace(node, retry=replace(node.retry, next_effect_at=at))


def progress_is_due(node: ManagedNode, now: datetime) -> bool:
    """Whether the wait that the node is in has gone on for too long."""
    return is_live(node) and node.progress is not None and node.progress.deadline <= now


def fail_progress(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    """The wait is over and nothing came; how far it had come, and the attempt's last error, if
    any, are part of the reason."""
    reason = _wait_over(node, retry)
    if node.retry.last_error is not None and node.retry.last_error_attempt == node.attempt:
        reason = f"{reason}; last error: {node.retry.last_error}"
    return fail_attempt(node, reason, now, retry)


def _wait_over(node: ManagedNode, retry: RetryPolicy) -> str:
    assert node.progress is not None, f"{node.record.logical_node_id}: no wait to end"
    if node.progress.wait is ProgressWait.ENDPOINT:
        span = retry.endpoint_timeout.total_seconds()
        return f"the lease has had no endpoint for endpoint_timeout ({span:g} s)"
    span = retry.join_timeout.total_seconds()
    facts = node.record.bootstrap
    stage = f", its bootstrap is at {facts.last_stage}" if facts is not None else ""
    return (
        "the node has not joined the swarm and been handed over for join_timeout "
        f"({span:g} s){stage}"
    )


def join_progress(now: datetime, retry: RetryPolicy) -> ProgressDeadline:
    """The join wait, anew."""
    return ProgressDeadline(ProgressWait.JOIN, deadline_after(now, retry.join_timeout, retry))


def endpoint_progress(now: datetime, retry: RetryPolicy) -> ProgressDeadline:
    """The endpoint wait."""
    at = deadline_after(now, retry.endpoint_timeout, retry)
    return ProgressDeadline(ProgressWait.ENDPOINT, at)

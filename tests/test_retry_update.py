"""A retry policy that is changed while the cluster runs: what it changes, and what it leaves."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors import Cluster, RetryPolicy
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.actors.replay import Replay
from cluster_reconciler.actors.stepping_words import NO_JITTER, cluster, group, op, shape
from cluster_reconciler.actors.trace import TraceHeader, TraceLine, read_trace
from cluster_reconciler.executors.providers.memory import MemoryProvider

SLOW = replace(NO_JITTER, initial_delay=timedelta(seconds=10))


def test_the_next_failure_waits_by_the_new_policy_and_a_wait_that_is_set_stays() -> None:
    # given a node that waits a second for its second create
    c = cluster()
    [first] = c.drive()
    c.fail(first, "sold out")
    c.drive()
    # when the policy is changed meanwhile
    c.tell(UpdateRetry(SLOW))
    assert c.drive() == []
    # then that wait stays as it was, and the next one is twice the new first one
    [second] = c.advance(1)
    c.fail(second, "sold out")
    c.drive()
    assert c.advance(19.9) == []
    [third] = c.advance(0.1)
    assert third.operation == op(1, 3)


def test_what_is_no_policy_is_ignored_with_a_word() -> None:
    c = cluster()
    c.drive()
    c.tell(UpdateRetry("slow"))  # type: ignore[arg-type]
    c.drive()
    assert (c.events[-1].kind, c.events[-1].text) == (
        EventKind.REFUSED,
        "ignored a message of unknown type UpdateRetry",
    )


def test_a_running_cluster_keeps_its_seed_unless_another_one_is_given() -> None:
    first = RetryPolicy(seed=5)
    with Cluster.start(shape(), providers=[MemoryProvider()], retry=first) as running:
        running.update_retry(RetryPolicy(jitter=0.25))
        kept = running._driver._retry
        running.update_retry(RetryPolicy(seed=6))
        running.update_retry(RetryPolicy(jitter=0.0))
        given = running._driver._retry
    assert [kept, given] == [RetryPolicy(jitter=0.25, seed=5), RetryPolicy(jitter=0.0, seed=6)]


def test_what_is_no_policy_is_refused_by_a_running_cluster() -> None:
    with (
        Cluster.start(shape(), providers=[MemoryProvider()]) as running,
        pytest.raises(ValueError, match="policy: expected a RetryPolicy, found 5"),
    ):
        running.update_retry(5)  # type: ignore[arg-type]


def test_the_trace_holds_the_change_and_a_replay_is_exact(tmp_path: Path) -> None:
    # given a node whose creates fail, before and after the policy is changed
    provider, trace = MemoryProvider(), tmp_path / "trace.jsonl"
    provider.script.create("g-0").refuse("sold out", times=6)
    quick = RetryPolicy(initial_delay=timedelta(milliseconds=10), seed=5)
    with Cluster.start(shape(), providers=[provider], retry=quick, trace=trace) as running:
        events = running.events(past=True)
        next(event for event in events if event.kind is EventKind.RETRY)
        running.update_retry(RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0))
        running.update_desired(shape(group(count=1), generation=2))
        running.wait_converged(timeout=20)
    # when the trace is run again
    header, *lines = read_trace(trace)
    assert isinstance(header, TraceHeader)
    replay = Replay(header)
    for line in lines:
        assert isinstance(line, TraceLine)
        replay.feed(line)
    # then every state is the run's
    changes = [
        line.message
        for line in lines
        if isinstance(line, TraceLine) and isinstance(line.message, UpdateRetry)
    ]
    expected = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0, seed=5)
    assert (replay.difference, changes) == (None, [UpdateRetry(expected)])

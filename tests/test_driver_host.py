"""What of a cluster's life is written to the log, and how often (design §5)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.stepping_words import T0, group, shape
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.decider import ClusterState, reconcile
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId

SECOND = timedelta(seconds=1)
STABLE = timedelta(seconds=60)


class NoTimers:
    def schedule(self, key: str, at: datetime, callback: object) -> None:
        raise AssertionError(f"{key}: nothing is timed here")

    def cancel(self, key: str) -> None:
        pass


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    logger.remove()
    sink = logger.add(
        lambda line: lines.append(str(line).strip()), format="{level} {message}", level="INFO"
    )
    yield lines
    logger.remove(sink)


@pytest.fixture
def host() -> RuntimeHost:
    return RuntimeHost(ManualClock(T0), NoTimers(), Subscriptions(), lambda _identity: None, STABLE)


def told(host: RuntimeHost, second: int, kind: EventKind, node: str, text: str) -> None:
    event = ClusterEvent(T0 + second * SECOND, kind, LogicalNodeId(node), NodeAttemptId(1), text)
    host.happened(event)


def test_a_failure_that_repeats_is_folded_for_each_node_apart(
    host: RuntimeHost, log: list[str]
) -> None:
    # Given two nodes that fail the same way, again and again, each time with another next try
    for second in range(5):
        for node in ("g-0", "g-1"):
            text = f"sold out, next try in {second} s"
            told(host, second, EventKind.RETRY, node, text)

    # Then each is written at counts 1, 2 and 4
    assert log == [
        f"WARNING {node} (attempt 1): sold out, next try in {second} s{seen}"
        for second, seen in ((0, ""), (1, " (seen 2 times)"), (3, " (seen 4 times)"))
        for node in ("g-0", "g-1")
    ]


def test_a_failure_that_comes_after_the_node_was_ready_for_a_while_is_news(
    host: RuntimeHost, log: list[str]
) -> None:
    for second in range(3):
        told(host, second, EventKind.RETRY, "g-0", "sold out")
        told(host, second, EventKind.RETRY, "g-1", "sold out")
    for node in ("g-0", "g-1"):
        told(host, 3, EventKind.READY, node, "ready")
    log.clear()

    told(host, 62, EventKind.RETRY, "g-0", "sold out")
    told(host, 63, EventKind.RETRY, "g-1", "sold out")

    assert log == [
        "WARNING g-0 (attempt 1): sold out (seen 4 times)",
        "WARNING g-1 (attempt 1): sold out",
    ]


def test_the_way_to_the_next_failure_is_written_the_first_time_only(
    host: RuntimeHost, log: list[str]
) -> None:
    # Given a node that comes up and crashes at once, over and over
    for life in range(5):
        told(host, life * 10, EventKind.RESTARTED, "g-0", f"begins anew, after attempt {life}")
        told(host, life * 10, EventKind.STAGE, "g-0", f"lease l-{life} is gone")
        told(host, life * 10, EventKind.READY, "g-0", "ready")
        told(host, life * 10, EventKind.FAILED, "g-0", f"failed; its last output: {life}")

    assert log == [
        "INFO g-0 (attempt 1): begins anew, after attempt 0",
        "INFO g-0 (attempt 1): lease l-0 is gone",
        "INFO g-0 (attempt 1): ready",
        "WARNING g-0 (attempt 1): failed; its last output: 0",
        "WARNING g-0 (attempt 1): failed; its last output: 1 (seen 2 times)",
        "WARNING g-0 (attempt 1): failed; its last output: 3 (seen 4 times)",
    ]


def test_a_cluster_that_turns_to_and_fro_says_so_less_and_less(
    host: RuntimeHost, log: list[str]
) -> None:
    for turn in range(5):
        for kind in (EventKind.CONVERGED, EventKind.DIVERGED):
            text = f"generation 1 {kind}"
            host.happened(ClusterEvent(T0 + turn * SECOND, kind, None, None, text))
    host.happened(ClusterEvent(T0, EventKind.CONVERGED, None, None, "generation 2 converged"))

    assert log == [
        *(
            f"INFO generation 1 {kind}{seen}"
            for seen in ("", " (seen 2 times)", " (seen 4 times)")
            for kind in ("converged", "diverged")
        ),
        "INFO generation 2 converged",
    ]


def test_failures_that_are_never_the_same_are_folded_too(host: RuntimeHost, log: list[str]) -> None:
    for request in range(64):
        told(host, request, EventKind.RETRY, "g-0", f"refused, request {request}")

    # Eight are told apart; the others count as one, at 1, 2, 4 ... 32
    assert len(log) == 8 + 6
    assert log[-1] == "WARNING g-0 (attempt 1): refused, request 39 (seen 32 times)"


def test_a_pass_that_acts_is_a_line_and_one_that_does_not_is_none(
    host: RuntimeHost, log: list[str]
) -> None:
    acts = reconcile(ClusterState(nodes={}), shape(group(count=2)), T0)
    idle = reconcile(ClusterState(nodes={}), shape(group(count=0)), T0)

    for plan in (acts, idle, acts, acts, acts):
        host.pass_done(plan, converged=False)

    # The like ones are folded as failures are: written at counts 1, 2 and 4.
    line = "INFO pass, generation 1: 2 Insert"
    assert log == [line, f"{line} (seen 2 times)", f"{line} (seen 4 times)"]

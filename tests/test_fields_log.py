"""The field case about the log of nodes that fail for long (F29), scaled down.

In full, 500 nodes for 24 hours of virtual time: `python -m tests.proofs log`.
"""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest
from loguru import logger

from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.log_folding import LogFolding
from cluster_reconciler.actors.stepping_words import at
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId
from tests.fields_log import WAYS, FailingNodes

NODES = 2
BYTES_MAX = 10_000_000 * NODES // 500
"""The case's 10 MB are for 500 nodes."""


@pytest.fixture(autouse=True)
def own_sinks() -> Iterator[None]:
    yield
    logger.remove()


@pytest.mark.parametrize("way", WAYS)
def test_f29_nodes_that_fail_the_same_way_for_a_day_leave_a_small_log(way: str) -> None:
    # given nodes that fail the same way, each with a number of its own in the reason
    nodes = FailingNodes(WAYS[way], NODES, RetryPolicy(seed=29), tick=timedelta(seconds=30))

    # when a day passes
    nodes.run(timedelta(hours=24))

    # then each failed about a thousand times, and the log stays in its bounds
    assert nodes.failures > 900 * NODES
    assert nodes.bytes < BYTES_MAX, f"{nodes.lines} lines"


def line(folding: LogFolding, seconds: float, text: str) -> str | None:
    node, attempt = LogicalNodeId("g-0"), NodeAttemptId(1)
    return folding.line(ClusterEvent(at(seconds), EventKind.RETRY, node, attempt, text))


def test_f29_a_repeated_failure_is_written_at_1_2_4_8_and_then_hourly() -> None:
    # given a failure every minute for a day
    folding = LogFolding(timedelta(seconds=60))
    texts = [
        (minute, line(folding, 60 * minute, f"sold out, next try in {minute} s"))
        for minute in range(24 * 60)
    ]

    # then it is written at powers of two, and never is a line more than an hour old
    written = {minute + 1: text for minute, text in texts if text is not None}
    assert [count for count in written if count <= 64] == [1, 2, 4, 8, 16, 32, 64]
    counts = sorted(written)
    assert max(b - a for a, b in pairwise(counts)) == 60
    assert all(
        written[n] == f"sold out, next try in {n - 1} s (seen {n} times)" for n in counts[1:]
    )


def test_f29_numbers_of_requests_and_processes_make_no_new_failure_but_exit_codes_do() -> None:
    folding = LogFolding(timedelta(seconds=60))

    written = [
        line(folding, second, text)
        for second, text in enumerate(
            (
                "request 00004711: no capacity",
                "request 00004712: no capacity",
                "request 00004713: no capacity",
                "token 3f2a9c11-77de-4b1a-9c0d-0123456789ab: exit code 3",
                "token 77de9c11-3f2a-4b1a-9c0d-ba9876543210: exit code 3",
                "token 3f2a9c11-77de-4b1a-9c0d-0123456789ab: exit code 4",
            )
        )
    ]

    assert written == [
        "request 00004711: no capacity",
        "request 00004712: no capacity (seen 2 times)",
        None,
        "token 3f2a9c11-77de-4b1a-9c0d-0123456789ab: exit code 3",
        "token 77de9c11-3f2a-4b1a-9c0d-ba9876543210: exit code 3 (seen 2 times)",
        "token 3f2a9c11-77de-4b1a-9c0d-0123456789ab: exit code 4",
    ]


def test_f29_one_end_is_one_failure_whether_it_is_told_as_failed_or_as_lost() -> None:
    folding = LogFolding(timedelta(seconds=60))

    written = [
        line(folding, second, text)
        for second, text in enumerate(
            ("failed: the node is lost: ended 3", "failed: ended 3", "failed: ended 3")
        )
    ]

    assert written == [
        "failed: the node is lost: ended 3",
        "failed: ended 3 (seen 2 times)",
        None,
    ]


def test_f29_a_long_reason_stands_whole_once_and_is_short_when_it_repeats() -> None:
    folding = LogFolding(timedelta(seconds=60))
    reason = "what the cloud says " * 100

    first, second = line(folding, 0, reason), line(folding, 1, reason)

    assert first == reason
    assert second == f"{reason[:200]}... (seen 2 times)"


def test_f29_a_pass_that_does_the_same_with_other_numbers_of_nodes_is_the_same_pass() -> None:
    folding = LogFolding(timedelta(seconds=60))

    written = [folding.pass_line(f"{n} Dispatch, {n} Restart", at(n)) for n in range(1, 6)]

    assert written == [
        "1 Dispatch, 1 Restart",
        "2 Dispatch, 2 Restart (seen 2 times)",
        None,
        "4 Dispatch, 4 Restart (seen 4 times)",
        None,
    ]

"""`up --watch`: an edit names the nodes that it does not reach yet, and is not held up by that."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.errors import ClusterError
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeIntent,
    NodeStage,
    ProviderKind,
)
from tests.cli_watch_kit import Heard, Watched, asked, until, with_count


@pytest.fixture
def heard(capfd: pytest.CaptureFixture[str]) -> Heard:
    return Heard(capfd)


def backing_off(node: str, now: datetime, seconds: float) -> NodeStatus:
    return NodeStatus(
        LogicalNodeId(node),
        NodeGroupId("w"),
        ProviderKind("process"),
        desired=True,
        attempt=NodeAttemptId(1),
        stage=NodeStage.DESTROYED,
        intent=NodeIntent.DELETING,
        ready=False,
        waits_for="its restart after a failure",
        until=now + timedelta(seconds=seconds),
        started_at=now,
        lease_id=None,
        session_id=None,
        consecutive_failures=1,
        last_error="it ended",
        last_failure=None,
    )


def test_who_still_waits_after_an_earlier_failure_is_named(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path)
    cluster = watched.begin()
    plain = cluster.status()
    nodes = tuple(backing_off(f"w-{n}", plain.at, seconds=15 + n) for n in range(12))
    failing = replace(plain, nodes=(*nodes, replace(nodes[0], desired=False)))
    monkeypatch.setattr(cluster, "status", lambda *, details=True: failing)
    watched.save(with_count(2))
    heard.wait_for("and 2 more")
    watched.end()
    said = heard.err.splitlines()
    first = said.index("  w-0 begins anew in 15s, the wait after its earlier failure")
    assert said[first + 1 : first + 11] == [
        *(
            f"  w-{n} begins anew in {15 + n}s, the wait after its earlier failure"
            for n in range(1, 10)
        ),
        "  and 2 more",
    ]


def test_a_driver_that_is_too_busy_to_say_so_is_no_reason_to_end(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path)
    cluster = watched.begin()
    heard.wait_for("converged")
    status, refused = cluster.status, []

    def busy(*, details: bool = True) -> ClusterStatus:
        if details:
            return status()
        refused.append("busy")
        raise ClusterError("the driver has not answered")

    monkeypatch.setattr(cluster, "status", busy)
    watched.save(with_count(2))
    until(lambda: refused)
    watched.save(with_count(3))
    until(lambda: asked(cluster) == [(2, 2), (3, 3)])
    assert watched.end() == 130

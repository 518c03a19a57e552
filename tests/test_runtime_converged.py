"""What `wait_converged` answers just after something was lost, on real threads."""

from datetime import timedelta

import pytest

from cluster_reconciler.actors import Cluster, NotConverged, RetryPolicy
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import AttemptIdentity, LogicalNodeId, NodeAttemptId, RunId

FIRST = AttemptIdentity(RunId(7), LogicalNodeId("g-0"), NodeAttemptId(1))


def test_what_is_answered_is_converged_also_when_a_loss_is_being_handled() -> None:
    provider = MemoryProvider()
    retry = RetryPolicy(initial_delay=timedelta(milliseconds=20), jitter=0.0)
    with Cluster.start(shape(group(count=2)), providers=[provider], retry=retry) as cluster:
        cluster.wait_converged(timeout=10)

        provider.lose(FIRST, "its power failed")  # In the mailbox, before the wait.
        status = cluster.wait_converged(timeout=10)

        assert (status.converged, status.counts.ready) == (True, 2)
        assert status.nodes[0].attempt == 3


def test_a_loss_that_is_not_made_good_in_time_is_not_converged() -> None:
    provider = MemoryProvider()
    retry = RetryPolicy(initial_delay=timedelta(hours=1), jitter=0.0)
    with Cluster.start(shape(group(count=2)), providers=[provider], retry=retry) as cluster:
        cluster.wait_converged(timeout=10)

        provider.lose(FIRST, "its power failed")
        with pytest.raises(NotConverged, match="its power failed") as raised:
            cluster.wait_converged(timeout=0.3)

        assert raised.value.status.converged is False

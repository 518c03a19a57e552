"""The full plan among many nodes: who is steady hides nobody behind it."""

from msgspec.structs import replace

from cluster_reconciler.decider import ClusterState, expand_shape, reconcile
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId
from tests.decider_words import T0, creating, group, new, ready, shape
from tests.incremental_life import many, told


def test_behind_steady_nodes_every_other_one_is_decided() -> None:
    # given nodes that have the very spec that is wanted: steady ones, one that waits, one to be
    # created, and slots that are empty
    desired = expand_shape(shape(group(count=6)))
    nodes = {}
    for node in (*many(ready(), 2), many(creating(), 3)[2], many(new(), 4)[3]):
        name = LogicalNodeId(node.record.logical_node_id)
        record = replace(node.record, desired=desired.nodes[name])
        nodes[name] = replace(node, record=record)

    plan = reconcile(ClusterState(0, NodeAttemptId(9), nodes), desired, T0)

    assert told(plan) == [("CreateLease", "g-3"), ("Insert", "g-4"), ("Insert", "g-5")]
    pending = nodes[LogicalNodeId("g-2")].pending
    assert pending is not None
    assert plan.requeue_at == pending.deadline

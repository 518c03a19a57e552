"""When the cluster is what was asked for (spec §9, §14.14).  Reads only; decides nothing."""

from cluster_reconciler.decider.node import is_steady
from cluster_reconciler.decider.plan import ExpandedShape, expand_shape
from cluster_reconciler.decider.state import ClusterState
from cluster_reconciler.messages import ClusterShape


def is_converged(observed: ClusterState, desired: ClusterShape | ExpandedShape) -> bool:
    """Every desired node is ready by its latest spec with nothing pending, and no other node is
    left.  Says nothing of `observed_generation`, which only acknowledges.  Raises ShapeError."""
    expanded = desired if isinstance(desired, ExpandedShape) else expand_shape(desired)
    if len(observed.nodes) != len(expanded.nodes):
        return False
    nodes = observed.nodes
    return all(
        node_id in nodes and is_steady(nodes[node_id], spec)
        for node_id, spec in expanded.nodes.items()
    )

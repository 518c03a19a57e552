"""The oracle of every proof: what a provider really holds, against what the state knows of it.

It judges and does nothing else.  `check_world` is asked whenever a world is at rest, by the
simulator, by the search and by each test that drives a cluster.
"""

from collections.abc import Set as AbstractSet

from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    ManagedNode,
    check_converged,
    check_state,
)
from cluster_reconciler.messages import AttemptIdentity, NodeStage, OperationKind, RunId


def check_world(
    state: ClusterState,
    desired: ExpandedShape,
    live: AbstractSet[AttemptIdentity],
    doubles: AbstractSet[AttemptIdentity],
) -> None:
    """Everything that must hold of a state at rest and of what exists.

    Args:
        state: what the driver knows.
        desired: what it was asked for last.
        live: the attempts that have a machine now, over all providers.
        doubles: those that ever had two machines or two live sessions at once.

    Raises:
        AssertionError: an invariant is broken, a machine exists that the state does not know of and
            does not look for, or an attempt had two machines or sessions.
    """
    check_state(state)
    check_converged(state, desired)
    check_machines(state, desired.shape.run_id, live, doubles)


def check_machines(
    state: ClusterState,
    run_id: RunId,
    live: AbstractSet[AttemptIdentity],
    doubles: AbstractSet[AttemptIdentity],
) -> None:
    """No double and no leak; raises AssertionError, see `check_world`."""
    assert not doubles, f"two machines or sessions of one attempt: {sorted(doubles)}"
    stray = live - accounted(state, run_id)
    assert not stray, f"machines that nobody knows of: {sorted(stray)}"


def accounted(state: ClusterState, run_id: RunId) -> frozenset[AttemptIdentity]:
    """The attempts whose machine the state holds, or knows that it may exist and will look for."""
    return frozenset(
        AttemptIdentity(run_id, node_id, node.attempt)
        for node_id, node in state.nodes.items()
        if _accounts_for_a_machine(node)
    )


def _accounts_for_a_machine(node: ManagedNode) -> bool:
    if node.record.stage is NodeStage.DESTROYED:
        return False
    creating = node.pending is not None and node.pending.kind is OperationKind.CREATE_LEASE
    return node.record.lease is not None or node.retry.ambiguous_operation is not None or creating

"""What is overdue: the pending operation, and the wait of a session that is known."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    IncrementalReconciler,
    ManagedNode,
    expand_shape,
    expire,
    is_overdue,
)
from tests.decider_words import (
    G0,
    POLICY,
    at,
    bootstrapping,
    creating,
    group,
    leased,
    looking_up,
    new,
    ready,
    shape,
)


def without_session(node: ManagedNode) -> ManagedNode:
    """It waits as before, and the session is not known."""
    return replace(node, active_bootstrap=None)


@pytest.mark.parametrize(
    ("node", "now", "overdue"),
    [
        (new(), at(9_000), False),
        (creating(), at(119.9), False),
        (creating(), at(120), True),
        (leased(), at(9_000), False),
        (looking_up(), at(120), True),
        (bootstrapping(), at(599.9), False),
        (bootstrapping(), at(600), True),
        (without_session(bootstrapping()), at(600), False),
        (ready(), at(9_000), False),
    ],
)
def test_it_is_so_when_there_is_something_to_judge(
    node: ManagedNode, now: datetime, overdue: bool
) -> None:
    assert is_overdue(node, now) is overdue
    assert (expire(node, now, POLICY) is not node) is overdue


@pytest.mark.parametrize("told_since", [False, True])
@pytest.mark.parametrize(("node", "moment"), [(creating(), 120), (bootstrapping(), 600)])
def test_the_incremental_reconciler_names_it_from_its_moment_on(
    node: ManagedNode, moment: int, told_since: bool
) -> None:
    # given a node that was decided, and maybe touched since
    state, incremental = ClusterState(nodes={G0: node}), IncrementalReconciler()
    incremental.reconcile(state, expand_shape(shape(group())), at(0))
    if told_since:
        incremental.touch(G0)

    found = [incremental.overdue(state, at(seconds)) for seconds in (moment - 1, moment, moment)]

    # then it is named as long as nobody judges it
    assert found == [[], [G0], [G0]]

"""What is overdue: the pending operation, and the wait of a session that is known."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import ManagedNode, expire, is_overdue
from tests.decider_words import POLICY, at, bootstrapping, creating, leased, looking_up, new, ready


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

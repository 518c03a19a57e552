"""A session's end is the last that is heard of it: its facts keep that moment, whoever tells it.

These tests ask for the facts of an ended session alone; what else an end means stands in the tests
of sessions and of cleanup.
"""

from collections.abc import Callable

import pytest

from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapFacts,
    BootstrapObserved,
    BootstrapStage,
)
from tests.decider_words import (
    SESSION,
    answered,
    at,
    bootstrapping,
    cancelling,
    deleting,
    fold,
    handing_over,
    joined,
)


def cancelled() -> ManagedNode:
    """Its cancel has worked."""
    return answered(cancelling(), BootstrapCancelled(), at(7))


def handed_over_while_deleting() -> ManagedNode:
    """The answer to its hand-over came after BeginDelete."""
    return answered(deleting(handing_over()), BootstrapConvergenceAccepted(), at(7))


def closed() -> ManagedNode:
    """It closed before the node has joined."""
    return fold(bootstrapping(), BootstrapClosed(SESSION), at(7))


def closed_while_deleting() -> ManagedNode:
    """It closed before its cancel was dispatched."""
    return fold(deleting(joined()), BootstrapClosed(SESSION), at(7))


def converged_by_its_word() -> ManagedNode:
    """It told itself that it had converged."""
    return fold(joined(), BootstrapObserved(SESSION, BootstrapStage.CONVERGED), at(7))


@pytest.mark.parametrize(
    ("make", "stage", "furthest"),
    [
        (cancelled, BootstrapStage.CANCELLED, BootstrapStage.CREATED),
        (handed_over_while_deleting, BootstrapStage.CONVERGED, BootstrapStage.CONVERGED),
        (closed, BootstrapStage.CLOSED, BootstrapStage.CLOSED),
        (closed_while_deleting, BootstrapStage.CLOSED, BootstrapStage.CLOSED),
        (converged_by_its_word, BootstrapStage.CONVERGED, BootstrapStage.CONVERGED),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_session_was_last_heard_of_when_it_ended(
    make: Callable[[], ManagedNode], stage: BootstrapStage, furthest: BootstrapStage
) -> None:
    node = make()

    assert (node.active_bootstrap, node.record.bootstrap) == (
        None,
        BootstrapFacts(SESSION, stage, last_observed_at=at(7), furthest_stage=furthest),
    )

"""When a cluster counts as converged (spec §9, §14.14; L14)."""

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import ManagedNode, expand_shape, is_converged
from cluster_reconciler.messages import BootstrapClosed, LogicalNodeId, ShapeError
from tests.decider_words import (
    OTHER_SPEC,
    SESSION,
    cleaned_up,
    creating,
    deleting,
    destroyed,
    fold,
    group,
    handing_over,
    joined,
    new,
    ready,
    shape,
    state_of,
)


def test_a_cluster_of_ready_nodes_and_no_others_is_converged() -> None:
    assert is_converged(state_of(ready()), shape(group()))
    assert is_converged(state_of(ready()), expand_shape(shape(group())))
    assert is_converged(state_of(), shape())


@pytest.mark.parametrize(
    "node",
    [
        new(),
        creating(),
        joined(),
        handing_over(),
        fold(handing_over(), BootstrapClosed(SESSION)),  # ready, its hand-over still out
        deleting(ready()),
        cleaned_up(),
        destroyed(),
        replace(ready(), record=replace(ready().record, desired=OTHER_SPEC)),
    ],
)
def test_l14_anything_less_is_not(node: ManagedNode) -> None:
    assert not is_converged(state_of(node), shape(group()))


def test_l14_the_observed_generation_alone_says_nothing() -> None:
    assert not is_converged(replace(state_of(), observed_generation=1), shape(group()))


def test_a_node_too_many_or_in_another_slot_is_not_converged() -> None:
    assert not is_converged(state_of(ready()), shape())
    other = replace(ready().record, logical_node_id=LogicalNodeId("x-0"))
    assert not is_converged(state_of(replace(ready(), record=other)), shape(group()))


def test_a_shape_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ShapeError):
        is_converged(state_of(), shape(group(), group()))

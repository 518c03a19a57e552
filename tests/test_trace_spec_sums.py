"""The one checksum of a trace that is remembered, since it would cost too much to take it anew."""

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors import trace_marks
from cluster_reconciler.actors.trace_marks import state_digest
from cluster_reconciler.decider import ClusterState
from cluster_reconciler.messages import NodeAttemptId
from tests.decider_words import ready


def test_a_node_s_spec_counts_also_where_its_checksum_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given two nodes that differ in their spec alone, and a third that has an equal one
    monkeypatch.setattr(trace_marks, "SPECS_MAX", 2)
    one = ready()
    spec = one.record.desired
    other = replace(spec, shape=replace(spec.shape, image="another"))

    def digest(desired: object) -> str:
        node = replace(one, record=replace(one.record, desired=desired))
        name = node.record.logical_node_id
        return state_digest(ClusterState(1, NodeAttemptId(2), {name: node}), [name])

    # Then the digest says so, however often it is taken and whatever was forgotten between
    copies = [spec, other, replace(spec), replace(other), spec, other]
    first, second, *later = [digest(desired) for desired in copies]
    assert first != second
    assert later == [first, second, first, second]
    assert len(trace_marks._spec_sums) <= 2

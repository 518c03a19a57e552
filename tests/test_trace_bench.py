"""What measures the cost of tracing, and the one checksum that is remembered: that each can fail.

It measures nothing itself: times of a machine that others use belong to no test.
"""

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors import trace_marks
from cluster_reconciler.actors.trace_marks import state_digest
from cluster_reconciler.decider import ClusterState
from cluster_reconciler.messages import NodeAttemptId
from tests import bench_trace
from tests.bench_trace import Turn, of_a_message
from tests.decider_words import ready


def test_of_each_turn_the_least_of_all_runs_counts() -> None:
    # Given two runs of the same two turns, each disturbed once
    runs = [[Turn(100, 10), Turn(900, 5)], [Turn(700, 10), Turn(50, 5)]]
    assert of_a_message(runs) == (100 + 50) / 15


@pytest.mark.parametrize(("allowed", "code"), [(0.01, 1), (100.0, 0)])
def test_the_bench_fails_when_tracing_costs_more_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    allowed: float,
    code: int,
) -> None:
    monkeypatch.setattr(bench_trace, "PAIRS", {20: 2})
    monkeypatch.setattr(bench_trace, "REPAIRS", 1)
    monkeypatch.setattr(bench_trace, "RATIO_MAX", allowed)
    assert bench_trace.main() == code
    assert capsys.readouterr().err == ("" if code == 0 else (
        "tracing costs more than 0.01 times the untraced time\n"
    ))  # fmt: skip


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

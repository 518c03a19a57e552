"""What the times of a peer and ours come to.  Peers themselves: `test_bench_peers.py`."""

import pytest

from cluster_reconciler.actors.bench.comparison import Compared, Times, compared


@pytest.mark.parametrize(
    ("nodes", "converge", "aim", "met"),
    [
        (10_000, 6.0, 12.0, True),
        (10_000, 5.9, 12.0, False),
        (9_999, 6.0, None, None),
    ],
)
def test_a_ratio_is_theirs_to_ours_and_the_aim_is_for_ten_thousand_nodes(
    nodes: int, converge: float, aim: float | None, met: bool | None
) -> None:
    # given the times of a peer's turns, and of ours
    theirs, ours = Times(), Times()
    theirs.converge, theirs.steady = [9.0, converge, 0.1], [0.3]
    ours.converge, ours.steady, ours.full_pass = [0.5], [0.0001], [0.01, 0.01, 5.0]

    # then the median of each counts
    assert compared("ray", "2.60.0", nodes, theirs, ours) == Compared(
        peer="ray",
        version="2.60.0",
        nodes=nodes,
        converge_seconds=converge,
        ours_converge_seconds=0.5,
        converge_ratio=converge / 0.5,
        steady_seconds=0.3,
        ours_steady_seconds=0.0001,
        steady_ratio=0.3 / 0.0001,
        ours_full_pass_seconds=0.01,
        full_pass_ratio=0.3 / 0.01,
        aim=aim,
        met=met,
    )

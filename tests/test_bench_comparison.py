"""What the times of a peer and ours come to.  Peers themselves: `test_bench_peers.py`."""

import pytest

from cluster_reconciler.actors.bench import peers
from cluster_reconciler.actors.bench.comparison import Compared, Missing, compare


@pytest.mark.parametrize(
    ("nodes", "converge", "aim", "met"),
    [
        (10_000, 6.0, 12.0, True),
        (10_000, 5.9, 12.0, False),
        (9_999, 6.0, None, None),
    ],
)
def test_a_ratio_is_theirs_to_ours_and_the_aim_is_for_ten_thousand_nodes(
    monkeypatch: pytest.MonkeyPatch,
    nodes: int,
    converge: float,
    aim: float | None,
    met: bool | None,
) -> None:
    # given a peer that was measured beside ours, and one that is not there
    asked: list[int] = []

    def measured(nodes: int, _progress: object) -> list[peers.PeerResult | peers.MissingPeer]:
        asked.append(nodes)
        return [
            peers.PeerResult(
                "ray",
                "2.60.0",
                converge_seconds=converge,
                steady_seconds=0.3,
                ours_converge_seconds=0.5,
                ours_steady_seconds=0.0001,
                ours_full_pass_seconds=0.01,
            ),
            peers.MissingPeer("other", "other>=3", "not installed"),
        ]

    monkeypatch.setattr(peers, "measure_peers", measured)

    assert compare(nodes, lambda _text: None) == [
        Compared(
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
        ),
        Missing("other", "other>=3", "not installed"),
    ]
    assert asked == [nodes]

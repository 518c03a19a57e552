"""What must not be in a figure of the bench, and what must be: the waits of others, garbage that is
collected meanwhile, the reading of a file, a node that is lost over and over.

No time of this machine is held to anything but a time that the test itself adds.
"""

import gc
import itertools
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.bench import passes, production, profile, repairs, tracing
from cluster_reconciler.actors.bench.events import lose
from cluster_reconciler.actors.bench.executors import InstantReplies
from cluster_reconciler.actors.bench.loop import Ready, converge
from cluster_reconciler.actors.bench.peers import Peer, measure_peers
from cluster_reconciler.actors.bench.peers_ours import OurCluster
from cluster_reconciler.actors.bench.production import Production, pumped
from cluster_reconciler.actors.bench.repeats import LARGE, QUICK, THOROUGH, repeats_with
from cluster_reconciler.actors.bench.replies import shape_of
from cluster_reconciler.actors.trace import TraceItem, read_trace
from cluster_reconciler.messages import LogicalNodeId, SafetyTick

pytestmark = pytest.mark.usefixtures("quiet_log")

ROOT = Path(__file__).parent.parent


def ready(nodes: int) -> Ready:
    return converge(shape_of(nodes, in_flight=nodes), one_at_a_time=False)[0]


@contextmanager
def collections() -> Iterator[list[int]]:
    """Those that Python began of itself: the generations."""
    seen: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] < 2:  # `quiet` asks for the oldest itself.
            seen.append(about["generation"])

    gc.callbacks.append(note)
    try:
        yield seen
    finally:
        gc.callbacks.remove(note)


def test_a_profile_does_not_count_the_time_of_those_who_use_the_machine_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given events in which the thread is kept off the processor for five milliseconds
    def kept_off(*of: object) -> None:
        time.sleep(0.005)
        lose(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(profile, "lose", kept_off)

    # then no function is told to have used them
    lines = profile.event_profile(ready(20), events=5)
    assert [line for line in lines if line.own_microseconds > 2_000] == []


@pytest.mark.parametrize("nodes", [1, 2, 3, 21, 1_000, 7_919, 10_000])
def test_every_node_is_lost_before_one_is_lost_again_and_far_from_the_last(nodes: int) -> None:
    order = list(repairs.far_apart(range(nodes)))

    assert sorted(order) == list(range(nodes))
    steps = {(after - before) % nodes for before, after in itertools.pairwise(order)}
    assert all(min(step, nodes - step) >= nodes // 4 for step in steps)


def test_repairs_lose_the_nodes_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[LogicalNodeId] = []
    tell = Production.lose

    def told(production: Production, node: LogicalNodeId) -> None:
        lost.append(node)
        tell(production, node)

    monkeypatch.setattr(Production, "lose", told)
    cluster = ready(21)

    repairs.repair_cost(cluster, seconds=0.02)

    assert lost == list(repairs.far_apart(sorted(cluster.state.nodes)))


def test_no_garbage_is_collected_while_tracing_is_measured() -> None:
    with collections() as seen:
        tracing.trace_cost(300, pairs=1, repairs=10)
    assert seen == []


def test_no_garbage_is_collected_in_the_turns_of_a_peer_nor_in_ours() -> None:
    # given two sides that note, with so many nodes, whether garbage is collected as they converge
    noted: list[tuple[str, bool]] = []

    class Theirs(OurCluster):
        def converge(self) -> float:
            noted.append(("theirs", gc.isenabled()))
            return super().converge()

    class Ours(OurCluster):
        def converge(self) -> float:
            noted.append(("ours", gc.isenabled()))
            return super().converge()

    peer = Peer("msgspec", "msgspec>=0", Theirs)
    list(measure_peers(5, lambda _text: None, peers=[peer], ours=Ours))

    # then it is in the trial alone, which is not measured
    turns = [("theirs", False), ("ours", False), ("ours", False), ("theirs", False)]
    assert noted == [("theirs", True), *turns, *turns[:2]]


def test_reading_a_trace_is_part_of_how_fast_it_is_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # given a trace, each line of which takes a millisecond to read
    path = tmp_path / "trace.jsonl"
    production = pumped(shape_of(20), trace=path)
    production.connect(InstantReplies(production.actor.tell))
    production.actor.tell(SafetyTick())
    while production.actor.pump_one():
        pass
    production.close()

    def slowly(file: Path) -> Iterator[TraceItem]:
        for item in read_trace(file):
            end = time.thread_time() + 0.001
            while time.thread_time() < end:
                pass
            yield item

    monkeypatch.setattr(tracing, "read_trace", slowly)

    # then no more than a thousand are read, or replayed, in a second
    for quick in (True, False):
        messages, speed = tracing.replay_speed(path, quick=quick)
        assert (messages > 20, speed < 1_000) == (True, True)


def test_in_each_turn_as_many_nodes_are_planned_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[LogicalNodeId] = []
    after_loss = passes._after_loss

    def noted(*of: object) -> float:
        planned.append(of[-1])  # type: ignore[arg-type]
        return after_loss(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(passes, "_after_loss", noted)
    nodes = sorted(ready(12).state.nodes)

    # when there are fewer nodes than four turns of five would want, each turn has five all the same
    passes.pass_cost(ready(12), turns=4, planned=5)
    turns = [planned[first : first + 5] for first in range(0, len(planned), 5)]
    assert [len(set(turn)) for turn in turns] == [5, 5, 5, 5]
    assert len({turn[0] for turn in turns}) == 4

    # and all, where there are fewer than it wants
    planned.clear()
    passes.pass_cost(ready(12), turns=1, planned=27)
    assert sorted(planned) == nodes


def test_the_document_says_how_often_each_measure_is_repeated() -> None:
    text = (ROOT / "docs/bench.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)

    thorough, large, quick = (msgspec.structs.astuple(r) for r in (THOROUGH, LARGE, QUICK))
    assert [tuple(map(float, row)) for row in rows] == list(
        zip(thorough, large, quick, strict=True)
    )
    assert [repeats_with(nodes, quick=False) for nodes in (10_000, 10_001)] == [THOROUGH, LARGE]
    assert repeats_with(100_000, quick=True) == QUICK


# -- every wait has an end -------------------------------------------------------------------------


def test_a_node_that_is_never_ready_and_a_cluster_that_never_converges_end_the_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a node that is lost, and nobody who handles that
    monkeypatch.setattr(production, "SECONDS_MAX", 0)
    cluster = ready(1)
    [node] = cluster.state.nodes
    stuck = pumped(cluster.desired.shape, ready=cluster)

    with pytest.raises(TimeoutError, match=f"^{node} has not become ready within 0 s$"):
        stuck.wait_ready(node, lambda: False)
    with pytest.raises(TimeoutError, match=r"^the cluster has not converged within 0 s$"):
        stuck.wait_converged()
    stuck.close()

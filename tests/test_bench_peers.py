"""Peers beside ours: who is measured, in which turns, what counts of it, and who is missing.

The peers themselves are measured only where they are installed; everything around them always.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata

import pytest

from cluster_reconciler.actors.bench.comparison import Compared, Missing
from cluster_reconciler.actors.bench.peers import (
    PEERS,
    TRIAL_NODES,
    Peer,
    Side,
    measure_peers,
)
from cluster_reconciler.actors.bench.peers_dask import DaskCluster
from cluster_reconciler.actors.bench.peers_ours import OurCluster

THERE = "msgspec"
"""A package that is always installed."""


class Scripted:
    """Takes as long as the test says, and tells what was asked of it."""

    def __init__(self, said: list[str], name: str, seconds: float) -> None:
        self._said = said
        self._name = name
        self._seconds = seconds

    def converge(self) -> float:
        self._said.append(f"{self._name} converges")
        return self._seconds

    def steady(self) -> float:
        return self._seconds / 10

    def full_pass(self) -> float:
        return self._seconds / 5

    def close(self) -> None:
        self._said.append(f"{self._name} ends")


class Script:
    """A peer and ours; each cluster that is begun takes the next time of its side."""

    def __init__(self, theirs: list[float], ours: list[float]) -> None:
        self.said: list[str] = []
        self._theirs: Iterator[float] = iter([0.0, *theirs])  # The trial's comes first.
        self._ours = list(ours)

    def begin(self, nodes: int) -> Scripted:
        return Scripted(self.said, f"theirs of {nodes}", next(self._theirs))

    def ours(self, nodes: int) -> Scripted:
        return Scripted(self.said, f"ours of {nodes}", self._ours.pop(0))


def cannot_begin(nodes: int) -> Side:
    raise ImportError(f"no name 'Reconciler', asked for {nodes}")


@pytest.fixture(autouse=True)
def known_version(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda n: "1.2.3" if n == THERE else real(n))


def measure(*some: Peer, script: Script) -> tuple[list[Compared | Missing], list[str]]:
    heard: list[str] = []
    return list(measure_peers(50, heard.append, peers=some, ours=script.ours)), heard


def test_what_counts_is_the_median_of_the_turns() -> None:
    script = Script(theirs=[7.0, 90.0, 5.0], ours=[4.0, 1.0, 2.0])

    found, heard = measure(Peer(THERE, "m>=1", script.begin), script=script)

    assert found == [
        Compared(
            peer=THERE,
            version="1.2.3",
            nodes=50,
            converge_seconds=7.0,
            ours_converge_seconds=2.0,
            converge_ratio=7.0 / 2.0,
            steady_seconds=0.7,
            ours_steady_seconds=0.2,
            steady_ratio=0.7 / 0.2,
            ours_full_pass_seconds=0.4,
            full_pass_ratio=0.7 / 0.4,
            aim=None,
            met=None,
        )
    ]
    assert heard == [f"msgspec 1.2.3: turn {turn} of 3, 50 nodes" for turn in (1, 2, 3)]


def test_after_a_trial_both_take_turns_and_each_turn_begins_with_the_other() -> None:
    script = Script(theirs=[1.0] * 3, ours=[1.0] * 3)

    measure(Peer(THERE, "m>=1", script.begin), script=script)

    trial = ["theirs of 3 converges", "theirs of 3 ends"]
    theirs = ["theirs of 50 converges", "theirs of 50 ends"]
    ours = ["ours of 50 converges", "ours of 50 ends"]
    assert script.said == [*trial, *theirs, *ours, *ours, *theirs, *theirs, *ours]
    assert TRIAL_NODES == 3


def test_a_peer_that_is_not_there_or_not_to_be_used_is_missing_and_the_others_are_measured() -> (
    None
):
    script = Script(theirs=[1.0] * 3, ours=[1.0] * 3)
    absent = Peer("no-such-peer-of-ours", "no-such-peer-of-ours>=2", script.begin)
    changed = Peer(THERE, "m>=1", cannot_begin)
    good = Peer(THERE, "m>=1", script.begin)

    found, heard = measure(absent, changed, good, script=script)

    assert found[:2] == [
        Missing("no-such-peer-of-ours", "no-such-peer-of-ours>=2", "not installed"),
        Missing(
            THERE,
            "m>=1",
            "1.2.3 is unusable: ImportError(\"no name 'Reconciler', asked for 3\")",
        ),
    ]
    assert isinstance(found[2], Compared)
    assert len(heard) == 3


def test_a_peer_that_breaks_in_its_trial_is_closed() -> None:
    script = Script(theirs=[], ours=[])

    class Breaks(Scripted):
        def steady(self) -> float:
            raise RuntimeError("it has changed")

    found, _ = measure(
        Peer(THERE, "m>=1", lambda _nodes: Breaks(script.said, "theirs", 1.0)), script=script
    )

    reason = "1.2.3 is unusable: RuntimeError('it has changed')"
    assert found == [Missing(THERE, "m>=1", reason)]
    assert script.said == ["theirs converges", "theirs ends"]


def test_a_defect_of_ours_is_not_told_as_a_missing_peer() -> None:
    script = Script(theirs=[1.0], ours=[])  # Ours cannot begin.

    with pytest.raises(IndexError):
        measure(Peer(THERE, "m>=1", script.begin), script=script)

    assert script.said[-1] == "theirs of 50 ends"


def test_our_side_is_the_driver_and_brings_every_node_to_ready() -> None:
    ours = OurCluster(20)

    spent = ours.converge()

    nodes = ours.loop.driver.state.nodes
    assert len(nodes) == 20
    assert all(node.record.ready for node in nodes.values())
    assert spent > 0


def test_our_steady_pass_looks_at_what_changed_and_our_full_pass_at_every_node() -> None:
    ours = OurCluster(20)
    ours.converge()
    planning = ours.loop.driver.planning
    before, state = planning.compared, ours.loop.driver.state

    assert ours.steady() > 0
    assert planning.compared == before

    assert ours.full_pass() > 0
    assert (planning.compared, planning.differences) == (before + 1, 0)
    assert ours.loop.driver.state == state
    assert ours.loop.executors.effects == []


@pytest.mark.parametrize("after", range(8))
def test_dask_can_be_interrupted_at_any_time_and_says_nothing_more(after: int) -> None:
    pytest.importorskip("distributed")
    cluster = DaskCluster(20)
    loop = cluster._runner.get_loop()

    def interrupt(rounds: int) -> None:
        """After so many rounds of the event loop."""
        if rounds:
            loop.call_soon(interrupt, rounds - 1)
        else:
            signal.raise_signal(signal.SIGINT)

    def work() -> None:
        with closing(cluster):
            cluster.converge()
            while True:
                cluster.steady()

    loop.call_soon(interrupt, after)
    with pytest.raises(KeyboardInterrupt):
        work()

    assert loop.is_closed()


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_that_is_installed_does_the_work_and_leaves_nothing(peer: Peer) -> None:
    pytest.importorskip(peer.name)
    before = threading.active_count()
    log_level = logging.getLogger(peer.name).level

    [found] = measure_peers(20, lambda _text: None, peers=(peer,))

    assert isinstance(found, Compared), found
    assert min(found.converge_seconds, found.steady_seconds) > 0
    assert threading.active_count() == before
    assert logging.getLogger(peer.name).level == log_level

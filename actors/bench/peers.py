"""The same work on reconcilers that others wrote, beside ours, in one process: what is alike, and
how the turns are taken.

Rules for what may live here: nothing of a peer (each has a file of its own, which imports it only
when its turn has come), and no ratio, which is `comparison`'s.  It starts no process, opens no
connection and prints nothing.

Theory of operation.  Times of a machine drift, their ratios do not: peer and ours take turns, each
turn begins with the other one, and what counts is the median.  No garbage is collected in the turn
of either.  All are driven from the one thread, so every time is its CPU time, and whoever else uses
the machine is not in it.  Before the first turn a peer converges a few nodes, untimed: it shows
whether this version can be measured at all, and what is imported or built once is paid by nobody.

What is alike: every side begins with nothing and wants so many nodes at once, without a limit on
how many may be under way; whatever it asks for is done before its next pass, and no log is written.
Only the reconciler of each side is timed, not who does what it asks for.  What is not alike: see
`peers_ray` and `peers_dask`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib import metadata
from typing import Protocol

from msgspec import Struct

from cluster_reconciler.actors.bench.comparison import Compared, Missing, Times, compared
from cluster_reconciler.actors.bench.peers_dask import DaskCluster
from cluster_reconciler.actors.bench.peers_ours import OurCluster
from cluster_reconciler.actors.bench.peers_ray import RayCluster
from cluster_reconciler.actors.bench.stopwatch import quiet

TURNS = 3
"""Of each side; each converges once."""
STEADY_PASSES = 5
"""In each turn, once it has converged."""
TRIAL_NODES = 3


class Side(Protocol):
    """A cluster of one side's, of so many nodes, none of which is there when it is made."""

    def converge(self) -> float:
        """Seconds of CPU time until all nodes run; once."""

    def steady(self) -> float:
        """Seconds of CPU time of one pass that finds nothing to do; after `converge`."""

    def close(self) -> None:
        """Leave nothing behind."""


class OurSide(Side, Protocol):
    """Ours has two kinds of a pass."""

    def full_pass(self) -> float:
        """Seconds of CPU time of one pass over every node; after `converge`."""


class Peer(Struct, frozen=True):
    """Somebody else's reconciler."""

    name: str
    """Of its package."""
    install: str
    """The requirement that has what is used of it."""
    begin: Callable[[int], Side]
    """A cluster that wants so many nodes."""


PEERS = (
    Peer("ray", "ray>=2.60", RayCluster),
    Peer("distributed", "distributed>=2026.8", DaskCluster),
)


def measure_peers(
    nodes: int,
    progress: Callable[[str], None],
    *,
    peers: Sequence[Peer] = PEERS,
    ours: Callable[[int], OurSide] = OurCluster,
) -> Iterator[Compared | Missing]:
    """Each peer beside ours, in order, as soon as it is done; one that is not there, or not to be
    used, is told as missing.  `progress` hears of each turn before it begins."""
    for peer in peers:
        yield _measure(peer, nodes, progress, ours)


def _measure(
    peer: Peer, nodes: int, progress: Callable[[str], None], ours: Callable[[int], OurSide]
) -> Compared | Missing:
    try:
        found = metadata.version(peer.name)
    except metadata.PackageNotFoundError:
        return Missing(peer.name, peer.install, "not installed")
    try:
        with closing(peer.begin(TRIAL_NODES)) as trial:
            trial.converge()
            trial.steady()
    except Exception as error:  # noqa: BLE001 - it goes by what no version of it promises to keep
        return Missing(peer.name, peer.install, f"{found} is unusable: {error!r}")
    theirs, own = Times(), Times()
    for turn in range(TURNS):
        progress(f"{peer.name} {found}: turn {turn + 1} of {TURNS}, {nodes} nodes")
        for is_peer in (True, False) if turn % 2 == 0 else (False, True):
            if is_peer:
                _their_turn(peer, nodes, theirs)
            else:
                _our_turn(ours, nodes, own)
    return compared(peer.name, found, nodes, theirs, own)


def _their_turn(peer: Peer, nodes: int, times: Times) -> None:
    with quiet(), closing(peer.begin(nodes)) as cluster:
        times.converge.append(cluster.converge())
        times.steady += [cluster.steady() for _ in range(STEADY_PASSES)]


def _our_turn(ours: Callable[[int], OurSide], nodes: int, times: Times) -> None:
    with quiet(), closing(ours(nodes)) as cluster:
        times.converge.append(cluster.converge())
        times.steady += [cluster.steady() for _ in range(STEADY_PASSES)]
        times.full_pass += [cluster.full_pass() for _ in range(STEADY_PASSES)]

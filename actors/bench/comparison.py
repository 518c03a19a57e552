"""What the measures of peers come to: how many times ours would fit into theirs.

The measuring is `peers`' business; that module is imported only when somebody asks for it.
"""

from collections.abc import Callable

from msgspec import Struct

NODES_MAX = 10_000
"""A peer takes minutes for more."""

CONVERGE_AIMS = {"ray": 12.0, "distributed": 2.2}
"""By the name of the package: what the ratio of converging is to be, at least, with `NODES_MAX`."""


class Compared(Struct, frozen=True):
    """One peer beside ours: medians, in seconds of CPU time.  A ratio is theirs to ours."""

    peer: str
    """Of its package."""
    version: str
    nodes: int
    converge_seconds: float
    ours_converge_seconds: float
    converge_ratio: float
    steady_seconds: float
    """One pass over all nodes that finds nothing to do."""
    ours_steady_seconds: float
    """Ours when nothing has changed."""
    steady_ratio: float
    ours_full_pass_seconds: float
    """Ours over all nodes, compared with that of what changed: as the safety tick does it."""
    full_pass_ratio: float
    aim: float | None
    """For `converge_ratio`; None: none with so many nodes."""
    met: bool | None


class Missing(Struct, frozen=True):
    """A peer that was not measured."""

    peer: str
    install: str
    """The requirement to install."""
    reason: str


def compare(nodes: int, progress: Callable[[str], None]) -> list[Compared | Missing]:
    """Each peer, with so many nodes."""
    from cluster_reconciler.actors.bench.peers import (  # noqa: PLC0415  # who compares, waits
        MissingPeer,
        measure_peers,
    )

    found: list[Compared | Missing] = []
    for one in measure_peers(nodes, progress):
        if isinstance(one, MissingPeer):
            found.append(Missing(one.name, one.install, one.reason))
            continue
        ratio = one.converge_seconds / one.ours_converge_seconds
        aim = CONVERGE_AIMS.get(one.name) if nodes == NODES_MAX else None
        found.append(
            Compared(
                peer=one.name,
                version=one.version,
                nodes=nodes,
                converge_seconds=one.converge_seconds,
                ours_converge_seconds=one.ours_converge_seconds,
                converge_ratio=ratio,
                steady_seconds=one.steady_seconds,
                ours_steady_seconds=one.ours_steady_seconds,
                steady_ratio=one.steady_seconds / one.ours_steady_seconds,
                ours_full_pass_seconds=one.ours_full_pass_seconds,
                full_pass_ratio=one.steady_seconds / one.ours_full_pass_seconds,
                aim=aim,
                met=ratio >= aim if aim is not None else None,
            )
        )
    return found

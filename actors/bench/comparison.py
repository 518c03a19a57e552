"""What the times of a peer and of ours come to: how many times ours would fit into theirs.

The measuring is `peers`' business, which is imported only when somebody asks for it.
"""

from statistics import median

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
    """The peer's, from nothing to all nodes running."""
    ours_converge_seconds: float
    """From nothing to all nodes ready, each reply folded and each pass."""
    converge_ratio: float
    steady_seconds: float
    """The peer's, for one pass over all nodes that finds nothing to do."""
    ours_steady_seconds: float
    """One pass after a trigger: what it costs to hear that nothing has changed."""
    steady_ratio: float
    ours_full_pass_seconds: float
    """One pass after a safety tick, which looks at every node as the peer's does, and compares the
    two plans.  The fairer one to hold `steady_seconds` against."""
    full_pass_ratio: float
    aim: float | None
    """For `converge_ratio`; None: none with so many nodes."""
    met: bool | None


class Missing(Struct, frozen=True):
    """A peer that could not be measured here."""

    peer: str
    """Of its package."""
    install: str
    """The requirement to install, as pip takes it."""
    reason: str
    """Why: it is not there, or it is and did not do the work."""


class Times:
    """Of all turns of one side, in seconds of CPU time."""

    def __init__(self) -> None:
        self.converge: list[float] = []
        self.steady: list[float] = []
        self.full_pass: list[float] = []
        """Ours alone has one."""


def compared(peer: str, version: str, nodes: int, theirs: Times, ours: Times) -> Compared:
    """What is made of the times of both."""
    converge, steady = median(theirs.converge), median(theirs.steady)
    ours_converge, ours_steady = median(ours.converge), median(ours.steady)
    full_pass = median(ours.full_pass)
    ratio = converge / ours_converge
    aim = CONVERGE_AIMS.get(peer) if nodes == NODES_MAX else None
    return Compared(
        peer=peer,
        version=version,
        nodes=nodes,
        converge_seconds=converge,
        ours_converge_seconds=ours_converge,
        converge_ratio=ratio,
        steady_seconds=steady,
        ours_steady_seconds=ours_steady,
        steady_ratio=steady / ours_steady,
        ours_full_pass_seconds=full_pass,
        full_pass_ratio=steady / full_pass,
        aim=aim,
        met=ratio >= aim if aim is not None else None,
    )

"""How often each measure is repeated: the one place that says so.

`docs/bench.md` shows it as a table, which a test holds to this.
"""

from msgspec import Struct
from msgspec.structs import replace

LARGE_FROM = 10_001
"""With so many nodes, what takes long is done once."""


class Repeats(Struct, frozen=True):
    """Of one number of nodes."""

    converged: int
    """How often a cluster converges, of each kind."""
    turns: int
    """Passes, and as many medians of plans after one event."""
    planned: int
    """Nodes in each of those medians."""
    lost: int
    """Nodes that are lost one after the other, where one event is measured or profiled."""
    repair_seconds: float
    """For so long nodes are lost at a pace."""
    traced_pairs: int
    """Runs with a trace beside one without."""
    traced_repairs: int
    """Nodes lost in each of them."""


THOROUGH = Repeats(3, 101, 27, 300, 3.0, 5, 60)
LARGE = replace(THOROUGH, converged=1, turns=11)
QUICK = Repeats(1, 11, 27, 100, 1.0, 2, 10)


def repeats_with(nodes: int, *, quick: bool) -> Repeats:
    """With so many nodes."""
    if quick:
        return QUICK
    return LARGE if nodes >= LARGE_FROM else THOROUGH

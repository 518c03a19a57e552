"""What programs read from `bench --json`.

Its shape is a promise: fields are added, none is renamed or removed.
"""

from msgspec import Struct

from cluster_reconciler.actors.bench.comparison import Compared, Missing
from cluster_reconciler.actors.bench.figures import Value
from cluster_reconciler.actors.bench.machine import Machine
from cluster_reconciler.actors.bench.profile import ProfileLine
from cluster_reconciler.actors.cli.exit_codes import DONE


class BenchReport(Struct, frozen=True, tag_field="type", tag="bench"):
    """The one document."""

    machine: Machine
    quick: bool
    """Measured with few repeats."""
    values: tuple[Value, ...]
    """The least number of nodes first, and so on; the figures of tracing last."""
    peers: tuple[Compared, ...] = ()
    """With --peers."""
    missing_peers: tuple[Missing, ...] = ()
    """With --peers: those that were not measured."""
    profile: tuple[ProfileLine, ...] = ()
    """With --profile: of one event, with the most nodes."""
    exit_code: int = DONE

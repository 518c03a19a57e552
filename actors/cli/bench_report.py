"""What programs read from `bench --json`.

Its shape is a promise: fields are added, none is renamed or removed.
"""

from msgspec import Struct

from cluster_reconciler.actors.bench.figures import Value
from cluster_reconciler.actors.bench.machine import Machine


class BenchReport(Struct, frozen=True, tag_field="type", tag="bench"):
    """The one document."""

    machine: Machine
    values: tuple[Value, ...]
    """In the order in which they were measured."""
    quick: bool
    """Measured with few repeats."""
    exit_code: int

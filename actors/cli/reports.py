"""The documents that programs read from the command line (`--json`; case F28).

Their shape is a promise: fields are added, none is renamed or removed.  Times are RFC 3339.
"""

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import Caution, Fault
from cluster_reconciler.actors.errors import LeftLease
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.status import NodeStatus, StatusCounts


class FileReport(Struct, frozen=True):
    """What `validate` found in one file."""

    file: str
    valid: bool
    run_id: int | None
    generation: int | None
    groups: int
    nodes: int
    faults: tuple[Fault, ...]
    warnings: tuple[Caution, ...]


class ValidateReport(Struct, frozen=True):
    """The one document of `validate --json`."""

    valid: bool
    exit_code: int
    files: tuple[FileReport, ...]


class UpReport(Struct, frozen=True, tag_field="type", tag="report"):
    """The one document of `up --once --json`, and the last line of `up --json`."""

    file: str
    run_id: int | None = None
    """None: the file has faults."""
    generation: int | None = None
    converged: bool = False
    """The shape was reality when the nodes below were looked at, before the drain."""
    counts: StatusCounts | None = None
    nodes: tuple[NodeStatus, ...] = ()
    drained: bool = False
    """Nothing of this run is left."""
    left: tuple[LeftLease, ...] = ()
    """Leases that still exist, or may."""
    leftovers: tuple[str, ...] = ()
    """Leases of an earlier process that were found at the start, one text each."""
    exit_code: int = 0
    signal: str | None = None
    """The first one that ended it."""
    error: str | None = None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


class EventLine(Struct, frozen=True, tag_field="type", tag="event"):
    """A line of `up --json` but the last."""

    event: ClusterEvent

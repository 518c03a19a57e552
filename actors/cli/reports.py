"""The documents that programs read from the command line (`--json`; case F28).

Their shape is a promise: fields are added, none is renamed or removed.  Times are RFC 3339.
"""

from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import Caution, Fault
from cluster_reconciler.actors.cli.rehearsal import Wave
from cluster_reconciler.actors.cli.shape_diff import ChangeCounts, FieldChange, SettingChange
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
    against: FileReport | None = None
    """The file of --against; one with faults makes the whole invalid: nothing was compared."""


class NodeChange(StrEnum):
    """What becomes of a node."""

    KEPT = auto()
    ADDED = auto()
    REMOVED = auto()
    REPLACED = auto()


class NodePlan(Struct, frozen=True, gc=False):
    """What becomes of one node; why it is replaced stands at its group."""

    node: str
    group_id: str
    change: NodeChange


class GroupPlan(Struct, frozen=True):
    """What becomes of one group."""

    group_id: str
    old_count: int | None
    """None: the old shape has no such group."""
    new_count: int | None
    """None: the new shape has no such group."""
    counts: ChangeCounts
    changes: tuple[FieldChange, ...]
    """Why its nodes are replaced.  All nodes of a group are alike, so it is the same for each."""
    renamed_from: str | None = None
    """A group that is gone, and was as this new one is but for its name.  No node is taken over."""


class PlanReport(Struct, frozen=True):
    """The one document of `plan --json`."""

    new: str
    """The file."""
    old: str | None
    """The file of --from; None: planned from nothing."""
    valid: bool
    """False: `faults` says why, and everything below them is empty."""
    exit_code: int
    faults: tuple[Fault, ...] = ()
    """Of both files."""
    warnings: tuple[Caution, ...] = ()
    """Of the new file."""
    run_id: int | None = None
    old_generation: int | None = None
    generation: int | None = None
    """That of the new shape: as its file says, or counted up from the old one."""
    changed: bool = False
    """Anything differs: nodes, settings, or the content in a way that concerns no node."""
    counts: ChangeCounts = ChangeCounts()
    groups: tuple[GroupPlan, ...] = ()
    """Those of the new shape in its order, then those that are gone."""
    nodes: tuple[NodePlan, ...] = ()
    """By group, in the order of their numbers."""
    settings: tuple[SettingChange, ...] = ()
    """`takes_effect`: `at_once` on a running cluster, or only `at_a_new_start`; with
    `refused_providers` all of them at a new start, for the file is refused as a whole."""
    refused_providers: tuple[str, ...] = ()
    """Providers that groups ask for and the old file does not have, or has as another kind: a
    running cluster refuses the new shape for them, until it is started anew."""
    waves: tuple[Wave, ...] = ()
    """The order, if every call succeeds: what happens together before any call has answered."""
    waves_complete: bool = True
    """False: there are many more like the last one, up to the new shape; without any wave: there
    are too many nodes, the order was not rehearsed."""


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
    """A line of `up --json`; the last is the report, and with --watch there are `ShapeLine`s."""

    event: ClusterEvent

"""From a shape file to what `up` needs of it: shape, retry policy, swarm and provider settings.

`load` finds every fault at once and raises nothing; what a file means never depends on its format.
Nothing is started, resolved or written here.
"""

import os
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from cluster_reconciler.actors.cli.checking import check
from cluster_reconciler.actors.cli.document import FAULTS_MAX, Document
from cluster_reconciler.actors.cli.faults import Caution, Fault
from cluster_reconciler.actors.cli.file_meant import read_as_meant
from cluster_reconciler.actors.cli.file_rules import judge
from cluster_reconciler.actors.cli.file_structs import GroupEntry, ShapeFile
from cluster_reconciler.actors.cli.read_file import read_document
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    BootSpec,
    ClusterShape,
    DesiredNodeShape,
    NodeGroupId,
    ProviderKind,
    ProviderLimits,
    ProviderMount,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    ShapeRefused,
    SwarmJoinTemplate,
)


class ProviderSettings(Struct, frozen=True):
    """One provider to be made, under the name that groups use."""

    name: ProviderKind
    kind: ProviderKind
    state_dir: Path | None = None
    """None: the default of that provider."""


class SwarmSettings(Struct, frozen=True):
    """The listener to be made."""

    listen: str
    heartbeat: timedelta
    grace: timedelta
    advertise: str | None


class LoadedShape(Struct, frozen=True):
    """A file without faults."""

    file: str
    shape: ClusterShape
    retry: RetryPolicy
    swarm: SwarmSettings
    providers: tuple[ProviderSettings, ...]
    """Those that a group uses, or that the file names."""
    generation_given: bool
    """False: the file leaves counting to us (`next_generation`)."""
    run_id_line: int | None = None
    """Where the file names its run."""


class Loading(Struct, frozen=True):
    """What became of a file: `loaded` unless there are faults."""

    file: str
    loaded: LoadedShape | None
    faults: tuple[Fault, ...]
    cautions: tuple[Caution, ...]


def load(file: str) -> Loading:
    """Read and judge the file; never raises for anything that a file may hold."""
    document = read_document(file)
    cautions: list[Caution] = []
    loaded = None
    if document.readable:
        wanted = msgspec.inspect.type_info(ShapeFile)
        read_as_meant(document, wanted)
        tree = check(document, wanted, document.tree)
        judge(document, cautions)
        if not document.faults:
            loaded = _loaded(document, tree)
    assert (loaded is None) == bool(document.faults), f"neither loaded nor refused: {file}"
    by_place = list(dict.fromkeys(sorted(document.faults, key=_place_of)))
    if document.untold:
        found = f"{document.untold} more than those above"
        by_place.append(Fault(file, f"at most {FAULTS_MAX} faults", found))
    return Loading(file, loaded, tuple(by_place), tuple(cautions))


def _place_of(fault: Fault) -> tuple[int, int, str]:
    return fault.line or 0, fault.column or 0, fault.path


def next_generation(old: ClusterShape, new: LoadedShape) -> ClusterShape:
    """The new shape as the successor of the old one: a generation that the file gives stays; else
    it is the old one's, and one more when the content differs (design §6)."""
    if new.generation_given:
        return new.shape
    same = msgspec.structs.replace(new.shape, generation=old.generation)
    if same == old:
        return same
    return msgspec.structs.replace(same, generation=old.generation + 1)


def _loaded(document: Document, tree: object) -> LoadedShape | None:
    """None, with a fault, when the types of `messages` refuse what the checks let through."""
    try:
        entry = msgspec.convert(tree, ShapeFile)
        shape = _shape(entry).canonical()
        retry = RetryPolicy(**msgspec.structs.asdict(entry.retry))
    except (msgspec.ValidationError, ShapeRefused, ValueError) as error:
        document.fault((), "a shape that can be meant", str(error))
        return None
    return LoadedShape(
        file=document.file,
        shape=shape,
        retry=retry,
        swarm=SwarmSettings(**msgspec.structs.asdict(entry.swarm)),
        providers=_providers(entry, Path(document.file).absolute().parent),
        generation_given=isinstance(document.tree, dict) and "generation" in document.tree,
        run_id_line=document.line_of(("run_id",)),
    )


def _shape(entry: ShapeFile) -> ClusterShape:
    return ClusterShape(
        run_id=RunId(entry.run_id),
        generation=entry.generation,
        groups=tuple(_group(entry.run_id, group) for group in entry.groups),
        limits={
            ProviderKind(name): ProviderLimits(limits.in_flight)
            for name, limits in entry.limits.items()
        },
    )


def _group(run_id: int, group: GroupEntry) -> RunNodeGroupSpec:
    boot = msgspec.structs.asdict(group.boot)
    boot["mounts"] = tuple(ProviderMount(**msgspec.structs.asdict(m)) for m in group.boot.mounts)
    return RunNodeGroupSpec(
        run_id=RunId(run_id),
        group_id=NodeGroupId(group.group_id),
        role=RoleId(group.role),
        count=group.count,
        provider=ProviderKind(group.provider),
        shape=DesiredNodeShape(**msgspec.structs.asdict(group.shape)),
        boot=BootSpec(**boot),
        swarm_join=SwarmJoinTemplate(**msgspec.structs.asdict(group.swarm_join)),
    )


def _providers(entry: ShapeFile, directory: Path) -> tuple[ProviderSettings, ...]:
    used = dict.fromkeys([*(group.provider for group in entry.groups), *entry.providers])
    settings = []
    for name in used:
        given = entry.providers.get(name)
        kind = given.kind if given is not None and given.kind is not None else name
        state_dir = None
        if given is not None and given.state_dir is not None:
            # A relative path means the same wherever the command is typed.
            state_dir = directory / os.path.expanduser(given.state_dir)
        settings.append(ProviderSettings(ProviderKind(name), ProviderKind(kind), state_dir))
    return tuple(settings)

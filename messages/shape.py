"""The desired cluster: node groups, their expansion, and why a shape is refused (spec §5.1).

A shape is a value.  `expand` checks it whole before anybody acts on it, and hands out a canonical
copy, so that a caller who edits his own lists or maps afterwards changes nothing here.
"""

import math

import msgspec
from msgspec import Struct

from cluster_reconciler.messages.ids import (
    LogicalNodeId,
    NodeGroupId,
    ProviderKind,
    RoleId,
    RunId,
)

NODES_MAX = 1_000_000
"""The most nodes that one shape may ask for: a mistyped count fails, memory stays."""

DEFAULT_IN_FLIGHT = 64


class ShapeRefused(Exception):
    """The driver keeps its shape and generation; `reason` says why the offered one is refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ShapeError(ShapeRefused):
    """The shape contradicts itself or holds a value that no shape may hold."""


class RunMismatch(ShapeRefused):
    """The shape belongs to another run than the driver."""


class GenerationRegressed(ShapeRefused):
    """The shape's generation is lower than the one accepted last."""


class ContentChanged(ShapeRefused):
    """The shape has the generation accepted last, but other content."""


class ProviderMount(Struct, frozen=True, gc=False):
    """A path of the host that the node sees."""

    host_path: str
    container_path: str
    readonly: bool = False


class DesiredNodeShape(Struct, frozen=True, gc=False):
    """The machine that a node wants; what a provider does not know it ignores."""

    image: str = ""
    disk_gb: int = 0
    gpu_name: str | None = None
    min_gpu_ram_mb: int | None = None
    min_down_mbps: float | None = None
    min_up_mbps: float | None = None
    min_reliability: float | None = None
    require_verified: bool = False
    provider_labels: dict[str, str] = {}
    options: dict[str, str] = {}


class BootSpec(Struct, frozen=True, gc=False):
    """What runs on the node.  Commands are shell command lines; `args` are appended to the start
    command; an `env` value may be a reference (`env:NAME`, `file:PATH`) that only the executor
    resolves; the `*_sources` are further files on the node whose lines are streamed."""

    ssh_user: str = ""
    verify_commands: tuple[str, ...] = ()
    start_swactor_command: str = ""
    stdout_sources: tuple[str, ...] = ()
    stderr_sources: tuple[str, ...] = ()
    env: dict[str, str] = {}
    args: tuple[str, ...] = ()
    mounts: tuple[ProviderMount, ...] = ()


class SwarmJoinTemplate(Struct, frozen=True, gc=False):
    """Where nodes join; empty means the runtime's own listener.  `join_token_ref` names a secret,
    it is never the secret."""

    orch_swactor_addr: str = ""
    join_token_ref: str = ""


class SwarmJoinSpec(Struct, frozen=True, gc=False):
    """A `SwarmJoinTemplate` for one node."""

    orch_swactor_addr: str = ""
    join_token_ref: str = ""
    expected_logical_node_id: LogicalNodeId = LogicalNodeId("")


class RunNodeGroupSpec(Struct, frozen=True, gc=False):
    """`count` alike nodes of one role on one provider."""

    run_id: RunId
    group_id: NodeGroupId
    role: RoleId
    count: int
    provider: ProviderKind
    shape: DesiredNodeShape = DesiredNodeShape()
    boot: BootSpec = BootSpec()
    swarm_join: SwarmJoinTemplate = SwarmJoinTemplate()


class LogicalNodeSpec(Struct, frozen=True, gc=False):
    """One node's immutable attempt template: any inequality means replacement (§5.1)."""

    run_id: RunId
    logical_node_id: LogicalNodeId
    group_id: NodeGroupId
    role: RoleId
    provider: ProviderKind
    shape: DesiredNodeShape = DesiredNodeShape()
    boot: BootSpec = BootSpec()
    swarm_join: SwarmJoinSpec = SwarmJoinSpec()


class ProviderLimits(Struct, frozen=True, gc=False):
    """How many acquiring, and separately how many releasing, operations a provider gets at once."""

    in_flight: int = DEFAULT_IN_FLIGHT


class ClusterShape(Struct, frozen=True, gc=False):
    """What the caller wants.  `generation` strictly increases whenever the content changes."""

    run_id: RunId
    generation: int
    groups: tuple[RunNodeGroupSpec, ...]
    limits: dict[ProviderKind, ProviderLimits] = {}

    def expand(self) -> dict[LogicalNodeId, LogicalNodeSpec]:
        """The desired nodes by id; raises `ShapeError` for the first contradiction (§5.1)."""
        shape = self.canonical()
        nodes: dict[LogicalNodeId, LogicalNodeSpec] = {}
        for group in shape.groups:
            for spec in expand_node_group(group):
                if spec.logical_node_id in nodes:
                    raise ShapeError(
                        f"group {group.group_id!r}: node id {spec.logical_node_id!r} is already "
                        f"taken by group {nodes[spec.logical_node_id].group_id!r}; rename one"
                    )
                nodes[spec.logical_node_id] = spec
        return nodes

    def canonical(self) -> "ClusterShape":
        """A checked copy that shares nothing mutable with this one; raises `ShapeError`."""
        try:
            copy = msgspec.convert(_plain(self), ClusterShape)
        except (msgspec.ValidationError, TypeError, OverflowError, RecursionError) as error:
            raise ShapeError(f"the shape has a value of the wrong type: {error}") from None
        try:
            msgspec.msgpack.encode(copy)
        except (UnicodeEncodeError, OverflowError) as error:
            # No text, or a number beyond 64 bits: it would break every trace that carries it.
            raise ShapeError(f"the shape has a value that cannot be written: {error}") from None
        _check(copy)
        return copy


def _plain(value: object) -> object:
    """The value in dicts and lists, and nothing else converted: `msgspec.to_builtins` would make
    text of bytes and dates, and an arbitrary order of a set.  Raises TypeError for a set."""
    if isinstance(value, Struct):
        return {field: _plain(getattr(value, field)) for field in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        raise TypeError(f"expected a list, found a set, which has no order: {value!r}")
    return value


def expand_node_group(group: RunNodeGroupSpec) -> tuple[LogicalNodeSpec, ...]:
    """The group's nodes, `{group_id}-{index}` from 0 on: scaling down drops the highest indices."""
    return tuple(_node(group, index) for index in range(group.count))


def _node(group: RunNodeGroupSpec, index: int) -> LogicalNodeSpec:
    node_id = LogicalNodeId(f"{group.group_id}-{index}")
    join = group.swarm_join
    return LogicalNodeSpec(
        run_id=group.run_id,
        logical_node_id=node_id,
        group_id=group.group_id,
        role=group.role,
        provider=group.provider,
        shape=group.shape,
        boot=group.boot,
        swarm_join=SwarmJoinSpec(join.orch_swactor_addr, join.join_token_ref, node_id),
    )


def _check(shape: ClusterShape) -> None:
    if shape.generation < 0:
        raise ShapeError(f"generation must be at least 0, found {shape.generation}")
    seen: set[NodeGroupId] = set()
    for group in shape.groups:
        _check_group(group, shape.run_id)
        if group.group_id in seen:
            raise ShapeError(f"group id {group.group_id!r} is used twice; rename one of the groups")
        seen.add(group.group_id)
    total = sum(group.count for group in shape.groups)
    if total > NODES_MAX:
        raise ShapeError(f"the groups ask for {total} nodes together, at most {NODES_MAX} may be")
    for provider, limits in shape.limits.items():
        if limits.in_flight < 1:
            raise ShapeError(
                f"limits of provider {provider!r}: in_flight must be at least 1, "
                f"found {limits.in_flight}"
            )


def _check_group(group: RunNodeGroupSpec, run_id: RunId) -> None:
    named = f"group {group.group_id!r}"
    if not group.group_id:
        raise ShapeError("a group has an empty group_id; every group needs a name")
    if group.run_id != run_id:
        raise ShapeError(f"{named} belongs to run {group.run_id}, its shape to run {run_id}")
    if group.count < 0:
        raise ShapeError(f"{named}: count must be at least 0, found {group.count}")
    if not group.provider:
        raise ShapeError(f"{named}: provider must not be empty")
    for rate in ("min_down_mbps", "min_up_mbps", "min_reliability"):
        value: float | None = getattr(group.shape, rate)
        if value is not None and not math.isfinite(value):
            # A NaN never equals itself: the node would be replaced for ever.
            raise ShapeError(f"{named}: {rate} must be a finite number, found {value}")

"""The Structs of a shape file: its keys, their types and bounds (design §6).

They speak the names of `messages`, with durations and provider names as people write them.  What
the types cannot say (unknown providers, duplicate ids) is judged in `shape_file`.
"""

from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct

from cluster_reconciler.actors.cli.durations import EXPECTED as A_DURATION
from cluster_reconciler.actors.cli.provider_kinds import KINDS
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import DEFAULT_IN_FLIGHT, NODES_MAX

ID_MAX = 2**63 - 1
"""The largest run id, generation and seed: what every wire format can carry."""

GROUPS = "a list of groups"

_RETRY = RetryPolicy()


def _expected(text: str) -> Meta:
    """How the type is called in a fault."""
    return Meta(extra={"expected": text})


Duration = Annotated[timedelta, _expected(A_DURATION)]
Name = Annotated[str, _expected("a name"), Meta(min_length=1, max_length=200)]
Location = Annotated[str, _expected("a path"), Meta(min_length=1, max_length=4096)]
Natural = Annotated[int, Meta(ge=0, le=ID_MAX)]
Positive = Annotated[int, Meta(ge=1, le=1_000_000)]
Rate = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=NODES_MAX)]
Text = Annotated[str, _expected("a string")]
Commands = Annotated[tuple[Text, ...], _expected("a list of shell command lines")]
Texts = Annotated[tuple[Text, ...], _expected("a list of strings")]
TextMap = Annotated[dict[str, Text], _expected("a table of strings")]


class MountEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `mounts`."""

    host_path: Location
    container_path: Location
    readonly: bool = False


class MachineEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[groups.shape]`: the machine that a node wants."""

    image: Text = ""
    disk_gb: Natural = 0
    gpu_name: Text | None = None
    min_gpu_ram_mb: Natural | None = None
    min_down_mbps: Rate | None = None
    min_up_mbps: Rate | None = None
    min_reliability: Share | None = None
    require_verified: bool = False
    provider_labels: TextMap = {}
    options: TextMap = {}


class BootEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[groups.boot]`: what runs on a node."""

    ssh_user: Text = ""
    verify_commands: Commands = ()
    start_swactor_command: Text = ""
    stdout_sources: Texts = ()
    stderr_sources: Texts = ()
    env: TextMap = {}
    args: Texts = ()
    mounts: Annotated[tuple[MountEntry, ...], _expected("a list of mounts")] = ()


class SwarmJoinEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[groups.swarm_join]`: where nodes join; empty means the runtime's own listener."""

    orch_swactor_addr: Text = ""
    join_token_ref: Text = ""


class GroupEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `[[groups]]`."""

    group_id: Name
    role: Name
    count: Count
    provider: Annotated[
        str, _expected(f"a provider ({', '.join(KINDS)})"), Meta(min_length=1, max_length=200)
    ]
    run_id: Natural | None = None
    """Need not be written; if it is, it must be the file's."""
    shape: Annotated[MachineEntry, _expected("a table [groups.shape]")] = MachineEntry()
    boot: Annotated[BootEntry, _expected("a table [groups.boot]")] = BootEntry()
    swarm_join: Annotated[SwarmJoinEntry, _expected("a table [groups.swarm_join]")] = (
        SwarmJoinEntry()
    )


class RetryEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[retry]`: the fields of `RetryPolicy`."""

    initial_delay: Duration = _RETRY.initial_delay
    max_delay: Duration = _RETRY.max_delay
    jitter: Share = _RETRY.jitter
    operation_timeout: Duration = _RETRY.operation_timeout
    endpoint_probe_interval: Duration = _RETRY.endpoint_probe_interval
    endpoint_timeout: Duration = _RETRY.endpoint_timeout
    join_timeout: Duration = _RETRY.join_timeout
    cancel_timeout: Duration = _RETRY.cancel_timeout
    stable_after: Duration = _RETRY.stable_after
    least_delay: Duration = _RETRY.least_delay
    seed: Natural = _RETRY.seed


class LimitsEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits.NAME]`: of the provider of that name."""

    in_flight: Positive = DEFAULT_IN_FLIGHT


class SwarmEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[swarm]`: the listener that nodes join."""

    listen: Annotated[str, _expected('an address such as "127.0.0.1:0"')] = "127.0.0.1:0"
    heartbeat: Duration = timedelta(seconds=1)
    grace: Duration = timedelta(seconds=5)
    """No heartbeat for so long: the node is lost."""
    advertise: Annotated[str, _expected("a host"), Meta(min_length=1, max_length=253)] | None = None
    """The host that nodes are told, where it is not the one listened on."""


class ProviderEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """`[providers.NAME]`: a provider of this name."""

    kind: Name | None = None
    """None: the name is the kind."""
    state_dir: Location | None = None
    """None: under the user's state directory."""


class ShapeFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    run_id: Natural
    groups: Annotated[tuple[GroupEntry, ...], _expected(GROUPS)]
    generation: Natural = 1
    retry: Annotated[RetryEntry, _expected("a table [retry]")] = RetryEntry()
    limits: Annotated[
        dict[str, LimitsEntry], _expected("a table of limits by provider, such as [limits.process]")
    ] = {}
    swarm: Annotated[SwarmEntry, _expected("a table [swarm]")] = SwarmEntry()
    providers: Annotated[
        dict[str, ProviderEntry],
        _expected("a table of providers by name, such as [providers.process]"),
    ] = {}

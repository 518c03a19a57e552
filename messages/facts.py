"""What is known of a node, provider-neutral (spec §5.2).

Facts are values: folding an observation makes a new record.  Nothing here decides anything.
"""

from datetime import datetime
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.messages.ids import (
    BootstrapSessionId,
    LogicalNodeId,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    SwactorId,
)
from cluster_reconciler.messages.shape import LogicalNodeSpec


class NodeStage(StrEnum):
    """How far an attempt has come.  Retry and backoff are not stages (§4.8)."""

    NEW = auto()
    LEASE_REQUESTED = auto()
    LEASE_CREATED = auto()
    ENDPOINT_KNOWN = auto()
    BOOTSTRAP_RUNNING = auto()
    SWACTOR_JOINED = auto()
    HANDED_OFF = auto()
    DORMANT = auto()
    FAILED = auto()
    DESTROYED = auto()


class BootstrapStage(StrEnum):
    """How far a bootstrap session has come, in order, then the ways in which it can end."""

    CREATED = auto()
    SSH_CONNECTING = auto()
    SSH_READY = auto()
    STDOUT_STREAMING = auto()
    BOOT_CHECKING = auto()
    SWACTOR_STARTING = auto()
    WAITING_FOR_SWACTOR_JOIN = auto()
    CONVERGED = auto()
    CLOSED = auto()
    SSH_CONNECT_FAILED = auto()
    BOOT_CHECK_FAILED = auto()
    START_FAILED = auto()
    SWACTOR_JOIN_FAILED = auto()
    STREAM_ERROR = auto()
    CANCELLED = auto()


class NodeIntent(StrEnum):
    """What the driver wants of an attempt.  Once DELETING, it never goes back (§4.5)."""

    ACTIVE = auto()
    DELETING = auto()


class DestroyHandle(Struct, frozen=True, gc=False):
    """All that a provider needs to end a lease."""

    provider: ProviderKind
    lease_id: ProviderLeaseId
    provider_contract_id: str | None = None


class LeaseFacts(Struct, frozen=True, gc=False):
    """A lease that exists at a provider."""

    provider: ProviderKind
    lease_id: ProviderLeaseId
    provider_contract_id: str | None = None
    offer_id: str | None = None
    destroy_handle: DestroyHandle | None = None
    """None: the handle is made of this lease's own fields, see `handle`."""
    provider_metadata: dict[str, str] = {}

    @property
    def handle(self) -> DestroyHandle:
        """What ends this lease."""
        return self.destroy_handle or DestroyHandle(
            self.provider, self.lease_id, self.provider_contract_id
        )


class SshEndpoint(Struct, frozen=True, gc=False, tag=True):
    """A node that is reached through SSH; `auth_ref` names a secret, it is never the secret."""

    host: str
    port: int = 22
    user: str = ""
    auth_ref: str = ""


class LocalEndpoint(Struct, frozen=True, gc=False, tag=True):
    """A node on this machine: the directory that it lives in."""

    directory: str


Endpoint = SshEndpoint | LocalEndpoint


class BootstrapFacts(Struct, frozen=True, gc=False):
    """What is known of the attempt's latest bootstrap session, also after it has ended."""

    session_id: BootstrapSessionId
    last_stage: BootstrapStage = BootstrapStage.CREATED
    last_stdout_seq: int | None = None
    last_stderr_seq: int | None = None
    last_observed_at: datetime | None = None
    furthest_stage: BootstrapStage = BootstrapStage.CREATED
    """The furthest ordered stage seen: a failure or stream error in `last_stage` does not move it,
    so that "strictly later" keeps its meaning."""


class SwactorFacts(Struct, frozen=True, gc=False):
    """The node's membership of the swarm."""

    swactor_id: SwactorId
    joined_at: datetime
    handed_off_at: datetime | None = None
    """When the hand-over was accepted; from then on it is never dispatched again."""


class NodeRecord(Struct, frozen=True, gc=False):
    """The lifecycle facts of one concrete attempt (§5.2)."""

    logical_node_id: LogicalNodeId
    run_id: RunId
    group_id: NodeGroupId
    role: RoleId
    desired: LogicalNodeSpec
    """The immutable spec snapshot that this attempt implements."""
    stage: NodeStage = NodeStage.NEW
    ready: bool = False
    lease: LeaseFacts | None = None
    connection: Endpoint | None = None
    bootstrap: BootstrapFacts | None = None
    swactor: SwactorFacts | None = None
    failed_reason: str | None = None
    failed_at: datetime | None = None
    """Set once per attempt, by its first failure; the attempt is over from then on."""
    destroyed_at: datetime | None = None

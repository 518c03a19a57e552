"""The effects that a plan can ask for (spec §6, §7.2), and the identity each runs under."""

from enum import StrEnum, auto
from typing import assert_never

from msgspec import Struct

from cluster_reconciler.messages.facts import DestroyHandle, Endpoint, LeaseFacts
from cluster_reconciler.messages.ids import (
    BootstrapSessionId,
    LogicalNodeId,
    OperationId,
    ProviderLeaseId,
    RunId,
    SwactorId,
)
from cluster_reconciler.messages.shape import BootSpec, LogicalNodeSpec, SwarmJoinSpec


class BootstrapSessionSpec(Struct, frozen=True, gc=False):
    """Everything that a bootstrap session starts from."""

    run_id: RunId
    logical_node_id: LogicalNodeId
    lease_id: ProviderLeaseId
    endpoint: Endpoint
    boot: BootSpec
    swarm_join: SwarmJoinSpec


class CreateLease(Struct, frozen=True, gc=False, tag=True):
    """Rent a machine for the attempt; `adopt_only`: only look for one, never rent."""

    spec: LogicalNodeSpec
    adopt_only: bool = False


class LookupEndpoint(Struct, frozen=True, gc=False, tag=True):
    """Ask whether the leased machine can be reached yet, and where."""

    lease: LeaseFacts


class StartBootstrap(Struct, frozen=True, gc=False, tag=True):
    """Start the boot commands; `adopt_only`: only look for a session, never start one."""

    session: BootstrapSessionSpec
    adopt_only: bool = False


class BootstrapConvergenceObserved(Struct, frozen=True, gc=False, tag=True):
    """Hand the joined node over: its bootstrap session may end."""

    session_id: BootstrapSessionId
    swactor_id: SwactorId


class CancelBootstrap(Struct, frozen=True, gc=False, tag=True):
    """End the session and all that it started; one that is absent counts as ended."""

    session_id: BootstrapSessionId


class DestroyLease(Struct, frozen=True, gc=False, tag=True):
    """End the lease; one that is absent counts as ended."""

    handle: DestroyHandle


NodeManagerCommand = (
    CreateLease
    | LookupEndpoint
    | StartBootstrap
    | BootstrapConvergenceObserved
    | CancelBootstrap
    | DestroyLease
)


class OperationKind(StrEnum):
    """The six kinds of operation, one for each command."""

    CREATE_LEASE = auto()
    LOOKUP_ENDPOINT = auto()
    START_BOOTSTRAP = auto()
    BOOTSTRAP_CONVERGENCE_OBSERVED = auto()
    CANCEL_BOOTSTRAP = auto()
    DESTROY_LEASE = auto()


def kind_of(command: NodeManagerCommand) -> OperationKind:
    """The kind of operation that carries this command out."""
    match command:
        case CreateLease():
            return OperationKind.CREATE_LEASE
        case LookupEndpoint():
            return OperationKind.LOOKUP_ENDPOINT
        case StartBootstrap():
            return OperationKind.START_BOOTSTRAP
        case BootstrapConvergenceObserved():
            return OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED
        case CancelBootstrap():
            return OperationKind.CANCEL_BOOTSTRAP
        case DestroyLease():
            return OperationKind.DESTROY_LEASE
        case _:
            assert_never(command)


_LOOKING = (CreateLease, StartBootstrap)
"""The commands that may be told only to look."""


def is_adopt_only(command: NodeManagerCommand) -> bool:
    """Whether the command may only look for what an earlier one left, and make nothing."""
    return isinstance(command, _LOOKING) and command.adopt_only


class PlannedEffect(Struct, frozen=True, gc=False):
    """A command with the identity under which it is recorded, run once and answered (§6)."""

    node: LogicalNodeId
    operation: OperationId
    command: NodeManagerCommand

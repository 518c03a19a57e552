"""The contract between the reconciler and those who can make machines (spec §10; design §4, 13-17).

A provider is called from executor threads, one call at a time for each attempt, and calls for
different attempts run side by side: it must be safe for threads.  A call may block; it delays only
its own attempt.  It never decides, never retries, and keeps no state that its `list_leases` could
not tell again.

Everything a provider makes carries an external name that is derived from `AttemptIdentity`, so that
a creation whose reply was lost is found again by `find_lease`, and never made twice.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum, auto
from typing import Protocol, runtime_checkable

from msgspec import Struct

from cluster_reconciler.executors.durations import duration
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DestroyHandle,
    Disposition,
    EffectError,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeSpec,
    ProviderKind,
    RunId,
    SessionObservation,
    SwactorId,
)


class ProviderError(Exception):
    """Raised by a provider that knows what its failure means.  Any other exception out of a call
    that makes something is ambiguous: the effect may exist (design rule 13).  `retry_after`: a
    timedelta or seconds; what is neither is a ValueError."""

    def __init__(
        self,
        reason: str,
        disposition: Disposition = Disposition.DEFINITE,
        retry_after: timedelta | float | None = None,
    ) -> None:
        super().__init__(reason)
        if retry_after is not None:
            retry_after = duration("retry_after", retry_after, least=None)
        self.error = EffectError(reason, disposition, retry_after)


class SwarmTicket(Struct, frozen=True, gc=False):
    """What a node needs to join the swarm.  The token is valid for its attempt only; it is handed
    down on an inherited descriptor and never stands on a command line, in a log or on disk."""

    address: str
    """`host:port` of the swarm listener."""
    token: str
    heartbeat: timedelta = timedelta(seconds=1)

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"SwarmTicket({self.address!r}, token hidden)"


class Stream(StrEnum):
    """Where an output line came from."""

    STDOUT = auto()
    STDERR = auto()


class BootstrapContext(Struct, frozen=True):
    """What a bootstrap session gets beside its spec.  All its callables may be called from any
    thread, never block and never raise.  A node may join by itself, with `ticket`, or by the
    provider's word: `report(SwactorJoined(session_id, swactor_id))`."""

    identity: AttemptIdentity
    session_id: BootstrapSessionId
    """Chosen by the executor, unique for each start of the run."""
    env: Mapping[str, str]
    """`BootSpec.env` with its references resolved: secret values, never logged or stored."""
    ticket: SwarmTicket
    report: Callable[[SessionObservation], None]
    """Tells the driver what is observed of this session."""
    lost: Callable[[str], None]
    """Tells the driver that the node is gone, with the reason (exit code, last lines)."""
    output: Callable[[Stream, int, str], None]
    """One line of the node's output, with its sequence number in its stream, from 1 on."""


class LeaseState(StrEnum):
    """What a listing says of a lease."""

    LIVE = auto()
    DEAD = auto()
    """The provider is sure that nothing of it runs any more: it may be reclaimed unasked."""


class ListedLease(Struct, frozen=True, gc=False):
    """One lease in a provider's listing."""

    identity: AttemptIdentity
    lease: LeaseFacts
    state: LeaseState = LeaseState.LIVE
    detail: str = ""
    """For people: where it is and since when."""


class Provider(Protocol):
    """Makes, finds and ends leases and bootstrap sessions."""

    @property
    def kind(self) -> ProviderKind:
        """The name under which shapes ask for this provider."""

    @property
    def settle_time(self) -> timedelta:
        """How long a fresh resource may be missing from this provider's reads."""

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        """Rent one machine under the name derived from `identity`; raises `ProviderError`."""

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """The attempt's lease if it shows in this provider's reads now.  Never makes anything and
        never presents the creation token."""

    def lookup_endpoint(
        self, identity: AttemptIdentity, lease: LeaseFacts
    ) -> EndpointLookup | LeaseAbsent:
        """Where the machine is reached; `EndpointLookup(None)` while it cannot be yet."""

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """Start the session `context.session_id` and return; it goes on by itself and reports
        through the context.  Failures before anything ran are raised."""

    def find_bootstrap(self, identity: AttemptIdentity) -> BootstrapSessionId | None:
        """The attempt's latest session, running or ended, if one was ever started.  Its reports
        (join excepted, that is the swarm's) are repeated for a session that has ended."""

    def accept_convergence(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """Hand over: the session may end, the node lives on.  Accepted for an ended session."""

    def cancel_bootstrap(self, identity: AttemptIdentity, session_id: BootstrapSessionId) -> None:
        """End the session and all that it started; returns at once when it is absent."""

    def destroy_lease(self, identity: AttemptIdentity, handle: DestroyHandle) -> bool:
        """Ask for the lease's end.  True: it is confirmed gone (or never was).  False: asked,
        still there."""

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        """Every lease of this run that this provider knows of, whoever made it."""

    def close(self) -> None:
        """Let go of threads and files.  Leases are not ended by this."""


@runtime_checkable
class DescribesNodes(Protocol):
    """A provider that can say, of a node that it has, where a person would look."""

    def describe_node(self, identity: AttemptIdentity) -> dict[str, str]:
        """Names and places, for status: its logs, its processes.  Answers at once, from what is at
        hand; nothing that is secret."""


class Mailbox(Protocol):
    """Where messages are told to."""

    def tell(self, message: object) -> None:
        """Put the message into the mailbox and return; never blocks, never raises."""


class Behaviour(Protocol):
    """What an actor does with a message.  The runtime in `actors/` gives it a mailbox and a
    thread (or none, when stepped), contains its exceptions and watches for its death."""

    def handle(self, message: object) -> None:
        """Handle one message."""


class Spawner(Protocol):
    """Starts actors; `actors/` implements it on threads, and stepped without any."""

    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> "ActorHandle":
        """Start an actor; `died(reason)` is called if it ends in any way but by `stop`."""


class ActorHandle(Mailbox, Protocol):
    """A started actor."""

    def stop(self) -> None:
        """Let the actor end once the messages told before are handled; returns at once."""

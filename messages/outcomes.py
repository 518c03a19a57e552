"""What an executor answers: the outcome of one operation, or why it has none (spec §7.1, §11)."""

from datetime import timedelta
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.messages.facts import Endpoint, LeaseFacts
from cluster_reconciler.messages.ids import BootstrapSessionId, LogicalNodeId, OperationId


class LeaseCreated(Struct, frozen=True, gc=False, tag=True):
    """The attempt's lease exists: made now, or found and adopted."""

    lease: LeaseFacts
    endpoint: Endpoint | None = None


class LeaseAbsent(Struct, frozen=True, gc=False, tag=True):
    """The provider shows no lease of this attempt.  Not conclusive inside its settle time."""

    conclusive: bool = True


class EndpointLookup(Struct, frozen=True, gc=False, tag=True):
    """Where the machine is reached; None: not available yet."""

    endpoint: Endpoint | None = None


class BootstrapStarted(Struct, frozen=True, gc=False, tag=True):
    """The session runs, or ran and has ended: its closure then follows as an observation."""

    session_id: BootstrapSessionId


class BootstrapAbsent(Struct, frozen=True, gc=False, tag=True):
    """No session of this attempt ever ran.  Not conclusive inside the provider's settle time."""

    conclusive: bool = True


class BootstrapConvergenceAccepted(Struct, frozen=True, gc=False, tag=True):
    """The hand-over is done."""


class BootstrapCancelled(Struct, frozen=True, gc=False, tag=True):
    """The session has ended, or never was."""


class LeaseDestroyed(Struct, frozen=True, gc=False, tag=True):
    """`confirmed`: the lease is gone.  Otherwise: asked, still there."""

    confirmed: bool = True


OperationOutcome = (
    LeaseCreated
    | LeaseAbsent
    | EndpointLookup
    | BootstrapStarted
    | BootstrapAbsent
    | BootstrapConvergenceAccepted
    | BootstrapCancelled
    | LeaseDestroyed
)


class Disposition(StrEnum):
    """What an error says about the effect: it did not happen; it may have; it never will, under
    this attempt's token."""

    DEFINITE = auto()
    AMBIGUOUS = auto()
    ATTEMPT_ENDING = auto()


class EffectError(Struct, frozen=True, gc=False):
    """Why an operation has no outcome, in the provider's own words."""

    reason: str
    disposition: Disposition = Disposition.DEFINITE
    retry_after: timedelta | None = None
    """The provider wants no further call before so long."""
    not_run: bool = False
    """Withdrawn before it began: an ordinary retry that never ends the attempt, whatever the
    operation, and that leaves an earlier ambiguity as it was."""


class ExecutorResult(Struct, frozen=True, gc=False, tag=True):
    """The answer to one operation: exactly one of `outcome` and `error`."""

    node: LogicalNodeId
    operation: OperationId
    outcome: OperationOutcome | None = None
    error: EffectError | None = None

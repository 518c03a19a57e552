"""What can be observed of a node (spec §7): results of its operations, and news from outside."""

from msgspec import Struct

from cluster_reconciler.messages.facts import BootstrapStage
from cluster_reconciler.messages.ids import BootstrapSessionId, OperationId, SwactorId
from cluster_reconciler.messages.outcomes import EffectError, OperationOutcome


class OperationSucceeded(Struct, frozen=True, gc=False, tag=True):
    """The operation has an outcome, of the right kind or not."""

    operation: OperationId
    outcome: OperationOutcome


class OperationFailed(Struct, frozen=True, gc=False, tag=True):
    """The operation ended without an outcome."""

    operation: OperationId
    error: EffectError


class BootstrapObserved(Struct, frozen=True, gc=False, tag=True):
    """News of a session: its stage, and how many lines of output have been streamed."""

    session_id: BootstrapSessionId
    stage: BootstrapStage
    last_stdout_seq: int | None = None
    last_stderr_seq: int | None = None
    marker: str | None = None
    """A word of the node's own about this stage, such as the check that failed."""


class BootstrapFailed(Struct, frozen=True, gc=False, tag=True):
    """The session will not lead to a join."""

    session_id: BootstrapSessionId
    reason: str


class SwactorJoined(Struct, frozen=True, gc=False, tag=True):
    """The node that this session booted is a member of the swarm."""

    session_id: BootstrapSessionId
    swactor_id: SwactorId


class BootstrapClosed(Struct, frozen=True, gc=False, tag=True):
    """The session has ended by itself."""

    session_id: BootstrapSessionId


class NodeLost(Struct, frozen=True, gc=False, tag=True):
    """The node's membership ended, or its lease is gone [beyond the specification]."""

    reason: str


SessionObservation = BootstrapObserved | BootstrapFailed | SwactorJoined | BootstrapClosed

NodeObservation = OperationSucceeded | OperationFailed | SessionObservation | NodeLost

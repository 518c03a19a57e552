"""The driver's mailbox: everything that may be told to it (spec §9).

Triggers carry no decision input: they say only that the cluster may be dirty.
"""

from msgspec import Struct

from cluster_reconciler.messages.ids import LogicalNodeId, NodeAttemptId
from cluster_reconciler.messages.observations import NodeObservation
from cluster_reconciler.messages.outcomes import ExecutorResult
from cluster_reconciler.messages.shape import ClusterShape


class UpdateDesired(Struct, frozen=True, gc=False, tag=True):
    """Offer a new desired shape."""

    shape: ClusterShape


class Drain(Struct, frozen=True, gc=False, tag=True):
    """Take no other shape any more, and desire an empty one, one generation above the accepted
    one."""


class NodeObserved(Struct, frozen=True, gc=False, tag=True):
    """Something was observed of one attempt."""

    node: LogicalNodeId
    attempt: NodeAttemptId
    observation: NodeObservation


class Trigger(Struct, frozen=True, gc=False, tag=True):
    """The cluster may be dirty."""


class RunPass(Struct, frozen=True, gc=False, tag=True):
    """Run one reconcile pass.  At most one is queued."""


class DeadlineDue(Struct, frozen=True, gc=False, tag=True):
    """A stored deadline is due.  The driver puts it behind the results that are already in its
    mailbox (`judged`), and only then expires what is overdue."""

    judged: bool = False


class SafetyTick(Struct, frozen=True, gc=False, tag=True):
    """The periodic safety net."""


DriverMessage = (
    UpdateDesired
    | Drain
    | NodeObserved
    | ExecutorResult
    | Trigger
    | RunPass
    | DeadlineDue
    | SafetyTick
)

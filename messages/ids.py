"""The identities of a run, distinct to the type checker and plain on the wire (spec §5.2, §14.11).

A logical node is a slot; an attempt is one concrete node in that slot; an operation is one
external effect of one attempt.  None of the three stands in for another.
"""

from typing import NewType

from msgspec import Struct

RunId = NewType("RunId", int)
NodeGroupId = NewType("NodeGroupId", str)
RoleId = NewType("RoleId", str)
LogicalNodeId = NewType("LogicalNodeId", str)
ProviderKind = NewType("ProviderKind", str)
ProviderLeaseId = NewType("ProviderLeaseId", str)
SwactorId = NewType("SwactorId", str)
NodeAttemptId = NewType("NodeAttemptId", int)
BootstrapSessionId = NewType("BootstrapSessionId", int)


class OperationId(Struct, frozen=True, order=True, gc=False):
    """One external effect: the attempt that it serves and its place in that attempt (§5.2)."""

    attempt: NodeAttemptId
    sequence: int

    def __str__(self) -> str:
        return f"op({self.attempt},{self.sequence})"


class AttemptIdentity(Struct, frozen=True, order=True, gc=False):
    """What the external name of everything made for an attempt is derived from (§10)."""

    run_id: RunId
    node: LogicalNodeId
    attempt: NodeAttemptId

    def __str__(self) -> str:
        return f"run {self.run_id}, node {self.node}, attempt {self.attempt}"

"""What a place of the search is: everything that can make a difference later, as frozen values.

Nothing here moves or judges.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from cluster_reconciler.decider import ExpandedShape, ManagedNode, RetryPolicy, expand_shape
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.ledger import OperationState
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    CancelBootstrap,
    DestroyLease,
    ExecutorResult,
    LeaseCreated,
    LogicalNodeId,
    NodeAttemptId,
    OperationOutcome,
    PlannedEffect,
)
from tests.decider_words import group, shape

SETTLE_TIME = timedelta(seconds=2)
"""How long the provider's machines may be missing from its reads, or come late."""

POLICY = RetryPolicy(
    initial_delay=timedelta(seconds=1),
    max_delay=timedelta(seconds=2),
    jitter=0.0,
    operation_timeout=timedelta(seconds=3),
    endpoint_probe_interval=timedelta(seconds=1),
    endpoint_timeout=timedelta(seconds=5),
    join_timeout=timedelta(seconds=5),
    cancel_timeout=timedelta(seconds=4),
    stable_after=timedelta(seconds=3),
)
"""Small whole numbers of one size: deadlines pass in many orders, and together, and there are few
distances between them."""


Ending = BootstrapConvergenceObserved | CancelBootstrap | DestroyLease
Done = tuple[type[Ending], Ending, OperationOutcome]
"""An ending that has succeeded: its kind, its command, its outcome."""


class Operation(Struct, frozen=True, gc=False):
    """One record of the ledger, and for one that runs the call in which it stands."""

    effect: PlannedEffect
    state: OperationState
    expired: bool = False
    began_at: datetime | None = None
    result: ExecutorResult | None = None
    call: str = ""
    """The provider call that it waits for; only of one that runs."""
    acted: bool = False
    """That call has had its effect, and has not answered."""


class Side(Struct, frozen=True, gc=False):
    """The executors' side of one attempt: its ledger, and its carrier as it was when the running
    operation began."""

    identity: AttemptIdentity
    lease: Holding[LeaseCreated]
    session: Holding[BootstrapSessionId]
    starts: int
    done: tuple[Done, ...]
    """The carrier's memory of endings."""
    running: Operation | None = None
    waiting: Operation | None = None
    answered: Operation | None = None
    """The record of the operation that the driver waits for, when it is over."""


class Thing(Struct, frozen=True, gc=False):
    """What really exists of one attempt."""

    machines: int = 0
    session: BootstrapSessionId | None = None
    """The latest session that was started on the machine."""
    alive: bool = False
    """That session runs."""
    late: str = ""
    """A call that was given up, and may still have its effect: "create", "start" or nothing."""
    late_session: BootstrapSessionId | None = None
    doubled: bool = False
    """There were two machines, or two sessions alive, at once."""


NOTHING = Thing()


class Place(Struct, frozen=True, gc=False):
    """Where the search stands."""

    nodes: tuple[tuple[LogicalNodeId, ManagedNode], ...]
    next_attempt: NodeAttemptId
    wanted: int
    """Which of the plan's shapes is desired."""
    now: datetime
    sides: tuple[Side, ...] = ()
    things: tuple[tuple[AttemptIdentity, Thing], ...] = ()
    unread: tuple[ExecutorResult, ...] = ()
    """Results in the driver's mailbox."""
    retired: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """The spans of attempts that the executors hold for retired."""
    faults_left: int = -1
    """How many faults may still happen; below 0: any number."""


class Setting(Struct, frozen=True):
    """What one search is about."""

    shapes: tuple[ExpandedShape, ...]
    """The nodes with spec A, with spec B, and none; the first one is desired at first."""
    faults: int = -1
    """How many faults, delays and changes of the shape there may be on the way; below 0: any
    number."""
    order_only: bool = False
    """Of deadlines ahead only their order tells places apart, not how far ahead they lie."""


def one_node(faults: int = -1, *, order_only: bool = False) -> Setting:
    """One node, with every fault at every place, or with so many on the way."""
    return Setting(_shapes(1, 64), faults, order_only)


def two_nodes(faults: int, in_flight: int, *, order_only: bool = False) -> Setting:
    """Two nodes of one provider, which lets so many operations of a kind run at once."""
    return Setting(_shapes(2, in_flight), faults, order_only)


def _shapes(count: int, in_flight: int) -> tuple[ExpandedShape, ...]:
    limits = {"memory": in_flight}
    return tuple(
        expand_shape(wanted)
        for wanted in (
            shape(group(count=count, command="a"), generation=1, limits=limits),
            shape(group(count=count, command="b"), generation=2, limits=limits),
            shape(generation=3, limits=limits),
        )
    )

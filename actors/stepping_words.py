"""Short words for tests of a `SteppingCluster`: shapes, outcomes, and steps that are taken often.

Group `g` of run 7, one worker on provider `memory`, unless said otherwise; times in seconds from
`T0`.  A test kit: nothing of it runs in production.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.decider import (
    ManagedNode,
    NodeAction,
    RetryPolicy,
)
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapConvergenceAccepted,
    BootstrapSessionId,
    BootstrapStarted,
    ClusterShape,
    DesiredNodeShape,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeObservation,
    OperationId,
    OperationOutcome,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    SwactorId,
    SwactorJoined,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NO_JITTER = RetryPolicy(jitter=0.0)
SESSION = BootstrapSessionId(41)
G0 = LogicalNodeId("g-0")


def at(seconds: float) -> datetime:
    """So many seconds after the start."""
    return T0 + timedelta(seconds=seconds)


def group(
    name: str = "g",
    count: int = 1,
    *,
    run: int = 7,
    wants: DesiredNodeShape = DesiredNodeShape(),  # noqa: B008 - frozen
) -> RunNodeGroupSpec:
    """A node group of the run."""
    return RunNodeGroupSpec(
        RunId(run),
        NodeGroupId(name),
        RoleId("worker"),
        count,
        ProviderKind("memory"),
        shape=wants,
    )


def shape(*groups: RunNodeGroupSpec, generation: int = 1, run: int = 7) -> ClusterShape:
    """A shape of these groups; of one group `g` when none is given."""
    return ClusterShape(RunId(run), generation, groups or (group(),))


def version(number: int) -> ClusterShape:
    """The same group with another boot command for each generation."""
    boot = BootSpec(start_swactor_command=f"serve v{number}")
    return shape(replace(group(), boot=boot), generation=number)


def op(attempt: int, sequence: int) -> OperationId:
    """The operation of an attempt with that sequence."""
    return OperationId(NodeAttemptId(attempt), sequence)


def lease(name: str = "lease-1") -> LeaseFacts:
    """A lease at provider `memory`."""
    return LeaseFacts(ProviderKind("memory"), ProviderLeaseId(name))


ENDPOINT = LocalEndpoint("the node's directory")
LEASED = LeaseCreated(lease(), ENDPOINT)
JOINED = SwactorJoined(SESSION, SwactorId("swactor-1"))


def cluster(
    desired: ClusterShape | None = None, *, retry: RetryPolicy = NO_JITTER, start: datetime = T0
) -> SteppingCluster:
    """A fresh stepped cluster, nothing handled yet."""
    return SteppingCluster(desired or shape(), retry=retry, start=start)


def node(c: SteppingCluster, node_id: str = "g-0") -> ManagedNode:
    """The node's present value."""
    return c.state.nodes[LogicalNodeId(node_id)]


def answer(
    c: SteppingCluster, effect: PlannedEffect, outcome: OperationOutcome
) -> list[PlannedEffect]:
    """Let the effect succeed, and drive."""
    c.succeed(effect, outcome)
    return c.drive()


def refuse(c: SteppingCluster, effect: PlannedEffect, reason: str) -> list[PlannedEffect]:
    """Let the effect fail, and drive."""
    c.fail(effect, reason)
    return c.drive()


def seen(c: SteppingCluster, observation: NodeObservation, attempt: int = 1) -> list[PlannedEffect]:
    """Tell an observation of `g-0`, and drive."""
    c.observe("g-0", attempt, observation)
    return c.drive()


def bootstrapping(c: SteppingCluster) -> None:
    """A lease with an endpoint, and session 41 running."""
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    after_start = answer(c, start, BootstrapStarted(SESSION))
    assert after_start == []


def ready(c: SteppingCluster) -> None:
    """All the way to a converged cluster."""
    bootstrapping(c)
    [hand_over] = seen(c, JOINED)
    after_hand_over = answer(c, hand_over, BootstrapConvergenceAccepted())
    assert after_hand_over == []
    assert c.converged


def planned(c: SteppingCluster) -> list[NodeAction]:
    """The latest plan's actions."""
    assert c.plan is not None
    return list(c.plan.actions)


def brief(effects: list[PlannedEffect]) -> list[tuple[OperationId, type]]:
    """Each effect as its operation and the type of its command."""
    return [(effect.operation, type(effect.command)) for effect in effects]


class Submitting:
    """An executor that does what the test says inside `submit`."""

    def __init__(self, act: Callable[[PlannedEffect], None]) -> None:
        self.act = act

    def submit(self, effect: PlannedEffect) -> None:
        """Do what the test says."""
        self.act(effect)


def closed_queue(_effect: PlannedEffect) -> None:
    """An executor that takes nothing."""
    raise RuntimeError("queue closed")

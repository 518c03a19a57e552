"""The clusters that are measured, and the replies that their effects get: each succeeds at once.

It measures nothing, and keeps nothing.
"""

from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    BootstrapStarted,
    CancelBootstrap,
    ClusterShape,
    CreateLease,
    DestroyLease,
    EndpointLookup,
    ExecutorResult,
    LeaseAbsent,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LookupEndpoint,
    NodeGroupId,
    NodeObserved,
    OperationOutcome,
    PlannedEffect,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    StartBootstrap,
    SwactorId,
    SwactorJoined,
)

PROVIDER = ProviderKind("memory")
ENDPOINT = LocalEndpoint("somewhere")
POLICY = RetryPolicy(seed=1)
GROUPS_MAX = 50


def shape_of(nodes: int, *, in_flight: int | None = None) -> ClusterShape:
    """That many nodes, in `GROUPS_MAX` groups of nearly the same size.  `in_flight`: how many
    operations the provider takes at once; None: the default."""
    groups = min(nodes, GROUPS_MAX)
    counts = (nodes // groups + (number < nodes % groups) for number in range(groups))
    run = RunId(7)
    specs = (
        RunNodeGroupSpec(run, NodeGroupId(f"g{number}"), RoleId("worker"), count, PROVIDER)
        for number, count in enumerate(counts)
    )
    limits = {} if in_flight is None else {PROVIDER: ProviderLimits(in_flight)}
    return ClusterShape(run, 1, tuple(specs), limits)


def session_of(start: PlannedEffect) -> BootstrapSessionId:
    """The session that a start begins: another one for each attempt."""
    return BootstrapSessionId(start.operation.attempt * 100)


def outcome_of(effect: PlannedEffect) -> OperationOutcome:
    """How it succeeds; what is only looked for is not there."""
    match effect.command:
        case CreateLease(adopt_only=True):
            return LeaseAbsent()
        case CreateLease():
            name = ProviderLeaseId(f"lease-{effect.operation.attempt}")
            return LeaseCreated(LeaseFacts(PROVIDER, name), ENDPOINT)
        case LookupEndpoint():
            return EndpointLookup(ENDPOINT)
        case StartBootstrap():
            return BootstrapStarted(session_of(effect))
        case BootstrapConvergenceObserved():
            return BootstrapConvergenceAccepted()
        case CancelBootstrap():
            return BootstrapCancelled()
        case DestroyLease():
            return LeaseDestroyed()


def replies_to(effect: PlannedEffect) -> tuple[ExecutorResult | NodeObserved, ...]:
    """What is told of it: its result, and of a node that was started that it has joined."""
    result = ExecutorResult(effect.node, effect.operation, outcome_of(effect))
    if not isinstance(effect.command, StartBootstrap):
        return (result,)
    joined = SwactorJoined(session_of(effect), SwactorId(f"swactor-{effect.node}"))
    return result, NodeObserved(effect.node, effect.operation.attempt, joined)

"""Short words for tests of the pure decider: shapes, nodes at a stage of their life, answers.

Group `g` of run 7, one worker on provider `memory`, unless said otherwise; times in seconds from
`T0`.  Nodes are brought to their stage by the real transitions and folds, never made up.
"""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from cluster_reconciler.decider import (
    BeginDelete,
    ClusterState,
    Dispatch,
    ManagedNode,
    MarkDestroyed,
    RetryPolicy,
    observe,
    reconcile_node,
)
from cluster_reconciler.decider.transitions import apply, fresh_node
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapCancelled,
    BootstrapConvergenceAccepted,
    BootstrapSessionId,
    BootstrapStarted,
    ClusterShape,
    Disposition,
    EffectError,
    LeaseCreated,
    LeaseDestroyed,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    NodeObservation,
    OperationFailed,
    OperationOutcome,
    OperationSucceeded,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    SwactorId,
    SwactorJoined,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = RetryPolicy(jitter=0.0)
MEMORY = ProviderKind("memory")
G0 = LogicalNodeId("g-0")
ONE = NodeAttemptId(1)
SESSION = BootstrapSessionId(41)
LEASE = LeaseFacts(MEMORY, ProviderLeaseId("lease-1"))
ENDPOINT = LocalEndpoint("the node's directory")
LEASED = LeaseCreated(LEASE, ENDPOINT)
JOINED = SwactorJoined(SESSION, SwactorId("swactor-1"))


def at(seconds: float) -> datetime:
    """So many seconds after `T0`."""
    return T0 + timedelta(seconds=seconds)


def group(
    name: str = "g", count: int = 1, *, provider: str = "memory", command: str = ""
) -> RunNodeGroupSpec:
    """A group of run 7."""
    return RunNodeGroupSpec(
        RunId(7),
        NodeGroupId(name),
        RoleId("worker"),
        count,
        ProviderKind(provider),
        boot=BootSpec(start_swactor_command=command),
    )


def shape(
    *groups: RunNodeGroupSpec, generation: int = 1, limits: dict[str, int] | None = None
) -> ClusterShape:
    """A shape of run 7; limits by provider."""
    places = {ProviderKind(kind): ProviderLimits(n) for kind, n in (limits or {}).items()}
    return ClusterShape(RunId(7), generation, groups, places)


def spec(command: str = "", name: str = "g") -> LogicalNodeSpec:
    """The spec of the group's first node."""
    return shape(group(name, command=command)).expand()[LogicalNodeId(f"{name}-0")]


SPEC = spec()
OTHER_SPEC = spec("another command")


def state_of(*nodes: ManagedNode, next_attempt: int = 100) -> ClusterState:
    """A cluster of these nodes."""
    by_id = {node.record.logical_node_id: node for node in nodes}
    return ClusterState(0, NodeAttemptId(next_attempt), by_id)


def failed(
    reason: str = "no", disposition: Disposition = Disposition.DEFINITE, *, not_run: bool = False
) -> EffectError:
    """An executor's error."""
    return EffectError(reason, disposition, not_run=not_run)


AMBIGUOUS = failed("lost", Disposition.AMBIGUOUS)
ATTEMPT_ENDING = failed("token refused", Disposition.ATTEMPT_ENDING)


def fold(
    node: ManagedNode, news: NodeObservation, now: datetime = T0, policy: RetryPolicy = POLICY
) -> ManagedNode:
    """The node after the observation, which must not be refused."""
    after = observe(node, news, now, policy)
    assert after is not node, f"refused: {news}"
    return after


def dispatched(
    node: ManagedNode,
    now: datetime = T0,
    desired: LogicalNodeSpec | None = SPEC,
    policy: RetryPolicy = POLICY,
) -> ManagedNode:
    """The node after its next step, which must be an effect, was recorded as pending."""
    action = reconcile_node(node, desired, now).action
    assert isinstance(action, Dispatch), f"no effect comes next, but {action}"
    after = apply(node, action, now, policy)
    assert after is not None
    return after


def answered(
    node: ManagedNode,
    answer: OperationOutcome | EffectError,
    now: datetime = T0,
    policy: RetryPolicy = POLICY,
) -> ManagedNode:
    """The node after its pending operation was answered."""
    assert node.pending is not None, "nothing is pending"
    operation = node.pending.id
    if isinstance(answer, EffectError):
        return fold(node, OperationFailed(operation, answer), now, policy)
    return fold(node, OperationSucceeded(operation, answer), now, policy)


def deleting(node: ManagedNode, now: datetime = T0) -> ManagedNode:
    """The node after BeginDelete."""
    after = apply(node, BeginDelete(node.record.logical_node_id, node.attempt), now, POLICY)
    assert after is not None
    return after


def new(attempt: int = 1, desired: LogicalNodeSpec = SPEC) -> ManagedNode:
    """A fresh attempt."""
    return fresh_node(NodeAttemptId(attempt), desired, T0)


def creating() -> ManagedNode:
    """A create is pending."""
    return dispatched(new())


def leased() -> ManagedNode:
    """A lease without an endpoint."""
    return answered(creating(), LeaseCreated(LEASE))


def looking_up() -> ManagedNode:
    """A look-up is pending."""
    return dispatched(leased())


def reachable() -> ManagedNode:
    """A lease with its endpoint."""
    return answered(creating(), LEASED)


def starting() -> ManagedNode:
    """A bootstrap start is pending."""
    return dispatched(reachable())


def bootstrapping(now: datetime = T0) -> ManagedNode:
    """Session 41 is running."""
    return answered(starting(), BootstrapStarted(SESSION), now)


def joined(now: datetime = T0) -> ManagedNode:
    """Joined the swarm, not yet handed over."""
    return fold(bootstrapping(now), JOINED, now)


def handing_over(now: datetime = T0) -> ManagedNode:
    """A hand-over is pending."""
    return dispatched(joined(now), now)


def ready(now: datetime = T0) -> ManagedNode:
    """Ready, Dormant."""
    return answered(handing_over(now), BootstrapConvergenceAccepted(), now)


def cancelling() -> ManagedNode:
    """Deleting, a cancel is pending."""
    return dispatched(deleting(bootstrapping()))


def destroying() -> ManagedNode:
    """Deleting, a destroy is pending."""
    return dispatched(answered(cancelling(), BootstrapCancelled()))


def cleaned_up() -> ManagedNode:
    """Deleting, nothing left, not yet marked."""
    return answered(destroying(), LeaseDestroyed())


def destroyed(node: ManagedNode | None = None, now: datetime = T0) -> ManagedNode:
    """Marked destroyed."""
    node = node or cleaned_up()
    after = apply(node, MarkDestroyed(node.record.logical_node_id, node.attempt), now, POLICY)
    assert after is not None
    return after


def with_failures(node: ManagedNode, count: int) -> ManagedNode:
    """The node with that many failures behind it."""
    return replace(node, retry=replace(node.retry, consecutive_failures=count))

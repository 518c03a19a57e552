"""The invariants of a state can fail: every assertion is shown a node that it must name.

Nodes are brought to their stage by the real decider and then given a fact that no fold would have
given them.  Changes and plans have files of their own; that no assertion is left out is asked in
`test_decider_invariants_complete`.
"""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    ManagedNode,
    PendingOperation,
    ProgressDeadline,
    ProgressWait,
    check_state,
)
from cluster_reconciler.decider.invariants import check_node
from cluster_reconciler.messages import (
    BootstrapFacts,
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    NodeIntent,
    NodeLost,
    NodeStage,
    OperationId,
    OperationKind,
    RoleId,
    SwactorFacts,
    SwactorId,
)
from tests.decider_words import (
    AMBIGUOUS,
    G0,
    JOINED,
    LEASE,
    T0,
    answered,
    at,
    bootstrapping,
    cancelling,
    cleaned_up,
    creating,
    deleting,
    destroyed,
    destroying,
    dispatched,
    fold,
    handing_over,
    joined,
    leased,
    looking_up,
    new,
    reachable,
    ready,
    spec,
    starting,
    state_of,
)

CREATE, LOOK_UP, START = (
    OperationKind.CREATE_LEASE,
    OperationKind.LOOKUP_ENDPOINT,
    OperationKind.START_BOOTSTRAP,
)
HAND_OVER, CANCEL, DESTROY = (
    OperationKind.BOOTSTRAP_CONVERGENCE_OBSERVED,
    OperationKind.CANCEL_BOOTSTRAP,
    OperationKind.DESTROY_LEASE,
)
OP = OperationId(NodeAttemptId(1), 1)
BESIDE = spec(name="b")

Broken = tuple[str, Callable[[], object]]
"""What is said, and the check that must say it."""


def recorded(node: ManagedNode, **facts: object) -> ManagedNode:
    """The node with other facts, which no fold would have given it."""
    return replace(node, record=replace(node.record, **facts))


def retrying(node: ManagedNode, **facts: object) -> ManagedNode:
    return replace(node, retry=replace(node.retry, **facts))


def lost(node: ManagedNode | None = None) -> ManagedNode:
    return fold(node or reachable(), NodeLost("gone"))


def unsure_create() -> ManagedNode:
    """A create has no known outcome."""
    return answered(creating(), AMBIGUOUS)


def unsure_start() -> ManagedNode:
    """A bootstrap start has no known outcome."""
    return answered(starting(), AMBIGUOUS)


def out(node: ManagedNode, kind: OperationKind, *, adopt_only: bool = False) -> ManagedNode:
    """The node with that operation pending, whether or not it could have asked for it."""
    operation = OperationId(node.attempt, node.next_operation_sequence)
    return replace(
        node,
        pending=PendingOperation(operation, kind, at(120), adopt_only),
        next_operation_sequence=operation.sequence + 1,
    )


def unsure(node: ManagedNode) -> ManagedNode:
    """Operation 1 is called ambiguous."""
    return retrying(node, ambiguous_operation=OP, ambiguous_since=T0)


def failed_and_gone(**facts: object) -> ManagedNode:
    return replace(destroyed(deleting(lost(new()))), **facts)


def waiting(node: ManagedNode, wait: ProgressWait) -> ManagedNode:
    return replace(node, progress=ProgressDeadline(wait, at(600)))


ENDPOINT_WAIT, JOIN_WAIT = ProgressWait.ENDPOINT, ProgressWait.JOIN
IDENTITY: list[tuple[str, Callable[[], ManagedNode]]] = [
    ("holds g-1", lambda: recorded(new(), logical_node_id=LogicalNodeId("g-1"))),
    ("has another node's spec", lambda: recorded(new(), desired=spec(name="b"))),
    ("run, group and role are (9,", lambda: recorded(new(), run_id=9)),
    ("run, group and role are (7, 'b',", lambda: recorded(ready(), group_id="b")),
    ("run, group and role are (7, 'g', 'r')", lambda: recorded(ready(), role=RoleId("r"))),
    ("attempt 100 was never allocated (next 100)", lambda: new(attempt=100)),
    ("attempt 0 was never allocated", lambda: new(attempt=0)),
    ("the next sequence is 0, before 1", lambda: replace(new(), next_operation_sequence=0)),
    ("op(1,1): another attempt's", lambda: replace(creating(), attempt=NodeAttemptId(2))),
    ("op(1,1): another attempt's", lambda: replace(unsure_create(), attempt=NodeAttemptId(2))),
    ("was never recorded (next 1)", lambda: replace(creating(), next_operation_sequence=1)),
    ("was never recorded (next 1)", lambda: unsure(new())),
    (
        "op(1,0) was never recorded",
        lambda: retrying(new(), ambiguous_operation=replace(OP, sequence=0), ambiguous_since=T0),
    ),
    (
        "op(1,1) is pending, and not the latest of 2",
        lambda: replace(creating(), next_operation_sequence=3),
    ),
    ("op(1,1) is ambiguous before it was answered", lambda: unsure(creating())),
    ("below nothing: (-1, 0, 0)", lambda: retrying(new(), consecutive_failures=-1)),
    ("below nothing: (0, -1, 0)", lambda: replace(deleting(leased()), cancel_failures=-1)),
    ("below nothing: (0, 0, -1)", lambda: replace(ready(), failures_before_ready=-1)),
    ("an ambiguity without its time", lambda: retrying(unsure_create(), ambiguous_since=None)),
    ("an ambiguity without its time", lambda: retrying(new(), ambiguous_since=T0)),
    ("op(1,1) ambiguous, its session known", lambda: unsure(bootstrapping())),
    ("op(1,1) ambiguous between its lease and endpoint", lambda: unsure(leased())),
    ("keeps news of no start's session", lambda: replace(new(), kept=(JOINED,))),
    ("keeps news of no start's session", lambda: replace(creating(), kept=(JOINED,))),
    ("keeps news after it has failed", lambda: replace(lost(starting()), kept=(JOINED,))),
]
FACTS: list[tuple[str, Callable[[], ManagedNode]]] = [
    ("an endpoint without a lease", lambda: recorded(reachable(), lease=None)),
    (
        "a session without a lease",
        lambda: recorded(bootstrapping(), lease=None, connection=None),
    ),
    ("a session without an endpoint", lambda: recorded(bootstrapping(), connection=None)),
    ("a session without facts", lambda: recorded(bootstrapping(), bootstrap=None)),
    (
        "session 41, facts of 42",
        lambda: recorded(bootstrapping(), bootstrap=BootstrapFacts(BootstrapSessionId(42))),
    ),
    ("a join without a session's facts", lambda: recorded(ready(), bootstrap=None)),
    ("ready since None", lambda: replace(ready(), ready_at=None)),
    (
        "handed over at None, ready since 2026",
        lambda: recorded(ready(), swactor=SwactorFacts(SwactorId("s"), T0)),
    ),
    ("deleting and ready", lambda: recorded(deleting(ready()), ready=True)),
    ("deleting since no time", lambda: replace(deleting(ready()), deleting_since=None)),
    ("its cancel never gives way", lambda: replace(deleting(ready()), cancel_deadline=None)),
    ("active, but deleting since", lambda: replace(new(), deleting_since=T0)),
    ("active, but deleting since (None, datetime", lambda: replace(new(), cancel_deadline=T0)),
    ("active, but deleting since (None, None, 1)", lambda: replace(new(), cancel_failures=1)),
    ("adopts nothing", lambda: out(deleting(leased()), LOOK_UP, adopt_only=True)),
    (
        "active, and only looks for create_lease",
        lambda: out(unsure_create(), CREATE, adopt_only=True),
    ),
    (
        "looks for what create_lease left, and nothing is ambiguous",
        lambda: out(deleting(new()), CREATE, adopt_only=True),
    ),
]
PENDING: list[tuple[str, Callable[[], ManagedNode]]] = [
    ("create_lease op(1,2) is pending, it needs a node without", lambda: out(leased(), CREATE)),
    ("create_lease op(1,2) is pending", lambda: out(deleting(leased()), CREATE)),
    ("lookup_endpoint op(1,1) is pending, it needs a lease", lambda: out(new(), LOOK_UP)),
    ("lookup_endpoint op(1,2) is pending, it needs a lease", lambda: out(reachable(), LOOK_UP)),
    ("start_bootstrap op(1,2) is pending, it needs an endpoint", lambda: out(leased(), START)),
    ("start_bootstrap op(1,3) is pending", lambda: out(bootstrapping(), START)),
    ("start_bootstrap op(1,4) is pending", lambda: out(ready(), START)),
    (
        "observed op(1,3) is pending, it needs a node that has joined",
        lambda: out(bootstrapping(), HAND_OVER),
    ),
    (
        "cancel_bootstrap op(1,3) is pending, it needs a deleting",
        lambda: out(bootstrapping(), CANCEL),
    ),
    ("cancel_bootstrap op(1,2) is pending", lambda: out(deleting(reachable()), CANCEL)),
    ("cancel_bootstrap op(1,5) is pending", lambda: out(cleaned_up(), CANCEL)),
    ("destroy_lease op(1,2) is pending, it needs a deleting", lambda: out(leased(), DESTROY)),
    ("destroy_lease op(1,1) is pending", lambda: out(deleting(new()), DESTROY)),
    ("destroy_lease op(1,3) is pending", lambda: out(deleting(bootstrapping()), DESTROY)),
    ("destroy_lease op(1,3) is pending", lambda: out(deleting(unsure_start()), DESTROY)),
]
LIFE: list[tuple[str, Callable[[], ManagedNode]]] = [
    ("stage failed, at no time", lambda: recorded(new(), stage=NodeStage.FAILED)),
    ("a reason without a failure", lambda: recorded(new(), failed_reason="no")),
    ("a restart deadline without a failure", lambda: retrying(new(), restart_at=T0)),
    ("failed and ready", lambda: recorded(ready(), failed_at=T0, failed_reason="no")),
    ("failed for no reason", lambda: recorded(lost(), failed_reason=None)),
    ("failed without a restart deadline", lambda: retrying(lost(), restart_at=None)),
    ("to restart before it failed", lambda: retrying(lost(), restart_at=at(-1))),
    ("failed, and counts no failure", lambda: retrying(lost(), consecutive_failures=0)),
    ("failed at stage new", lambda: recorded(lost(), stage=NodeStage.NEW)),
    ("ready without a lease", lambda: recorded(ready(), lease=None, connection=None)),
    ("ready without an endpoint", lambda: recorded(ready(), connection=None)),
    (
        "ready without a join",
        lambda: replace(recorded(ready(), swactor=None), ready_at=None),
    ),
    (
        "ready since no time",
        lambda: replace(recorded(ready(), swactor=SwactorFacts(SwactorId("s"), T0)), ready_at=None),
    ),
    (
        "ready with a session",
        lambda: replace(ready(), active_bootstrap=BootstrapSessionId(41)),
    ),
    ("ready, and still to retry", lambda: retrying(ready(), consecutive_failures=1)),
    ("ready, and still to retry", lambda: retrying(ready(), next_effect_at=T0)),
    ("ready, and still to retry", lambda: retrying(ready(), last_error="no")),
    ("its session has ended", lambda: replace(bootstrapping(), active_bootstrap=None)),
    ("its session has ended", lambda: replace(joined(), active_bootstrap=None)),
    ("waits for join and strives for none", lambda: waiting(deleting(leased()), JOIN_WAIT)),
    ("waits for join and strives for none", lambda: waiting(lost(), JOIN_WAIT)),
    ("waits for endpoint, expected (None,)", lambda: waiting(new(), ENDPOINT_WAIT)),
    ("waits for join, expected (None,)", lambda: waiting(ready(), JOIN_WAIT)),
    ("waits for None, expected", lambda: replace(leased(), progress=None)),
    ("waits for None, expected", lambda: replace(bootstrapping(), progress=None)),
    ("waits for endpoint, expected (None, ", lambda: waiting(reachable(), ENDPOINT_WAIT)),
    ("destroyed at stage new", lambda: recorded(new(), destroyed_at=T0)),
    (
        "active and destroyed",
        lambda: failed_and_gone(
            intent=NodeIntent.ACTIVE, deleting_since=None, cancel_deadline=None
        ),
    ),
    ("destroyed, but holds", lambda: recorded(destroyed(), lease=LEASE)),
    ("destroyed, but ambiguous", lambda: unsure(failed_and_gone(next_operation_sequence=2))),
    ("destroyed, and an effect is due at", lambda: retrying(destroyed(), next_effect_at=T0)),
    ("destroyed at no time", lambda: recorded(destroyed(), destroyed_at=None)),
]
WRONG_STAGES: list[tuple[Callable[[], ManagedNode], NodeStage]] = [
    (new, NodeStage.LEASE_CREATED),
    (creating, NodeStage.DORMANT),
    (leased, NodeStage.NEW),
    (reachable, NodeStage.LEASE_CREATED),
    (bootstrapping, NodeStage.SWACTOR_JOINED),
    (joined, NodeStage.BOOTSTRAP_RUNNING),
    (joined, NodeStage.DORMANT),
    (ready, NodeStage.HANDED_OFF),
    (ready, NodeStage.DESTROYED),
]
WRONG_STAGES_OF_CLEANUP: list[tuple[str, Callable[[], ManagedNode], NodeStage]] = [
    ("handed over and not dormant", ready, NodeStage.HANDED_OFF),
    ("at stage new, which needs a node that never", bootstrapping, NodeStage.NEW),
    ("bootstrap_running, which needs the facts", reachable, NodeStage.BOOTSTRAP_RUNNING),
    ("swactor_joined, which needs a join", bootstrapping, NodeStage.SWACTOR_JOINED),
    ("dormant, which needs a hand-over", joined, NodeStage.DORMANT),
]


def _checking(make: Callable[[], ManagedNode]) -> Callable[[], object]:
    return lambda: check_node(G0, make(), NodeAttemptId(100))


def _at_stage(
    make: Callable[[], ManagedNode], stage: NodeStage, *, cleanup: bool = False
) -> Callable[[], object]:
    return _checking(lambda: recorded(deleting(make()) if cleanup else make(), stage=stage))


BROKEN_NODES: list[Broken] = [
    *((says, _checking(make)) for says, make in IDENTITY + FACTS + PENDING + LIFE),
    *((f"at stage {stage}, its facts say", _at_stage(make, stage)) for make, stage in WRONG_STAGES),
    *(
        (says, _at_stage(make, stage, cleanup=True))
        for says, make, stage in WRONG_STAGES_OF_CLEANUP
    ),
]
BROKEN_STATES: list[Broken] = [
    ("g-0: holds b-0", lambda: check_state(replace(state_of(), nodes={G0: new(desired=BESIDE)}))),
    ("b-0: shares attempt 1 with g-0", lambda: check_state(state_of(new(), new(desired=BESIDE)))),
]


@pytest.mark.parametrize(("says", "check"), BROKEN_NODES + BROKEN_STATES)
def test_a_broken_state_is_named(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check()


HEALTHY: list[Callable[[], ManagedNode]] = [
    new,
    creating,
    leased,
    looking_up,
    reachable,
    starting,
    bootstrapping,
    joined,
    handing_over,
    ready,
    lost,
    cancelling,
    destroying,
    cleaned_up,
    destroyed,
    unsure_create,
    unsure_start,
    # what was pending when deleting began stays, and so does the stage (design rules 2 and 9)
    lambda: deleting(creating()),
    lambda: deleting(starting()),
    lambda: deleting(handing_over()),
    lambda: answered(cancelling(), AMBIGUOUS),
    lambda: dispatched(deleting(unsure_create()), at(9)),
    lambda: dispatched(deleting(unsure_start()), at(9)),
    lambda: replace(unsure_start(), kept=(JOINED,)),
    lambda: retrying(lost(), restart_at=T0),  # as at the end of time, where no wait is left
    failed_and_gone,
]


@pytest.mark.parametrize("make", HEALTHY)
def test_what_is_sound_passes(make: Callable[[], ManagedNode]) -> None:
    check_node(G0, make(), NodeAttemptId(2))
    check_state(state_of(make(), new(attempt=2, desired=BESIDE)))
    check_state(ClusterState())

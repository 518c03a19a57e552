"""The invariants of a plan can fail: each assertion is shown an action, or the lack of one, that it
must name.

The plans are written by hand, as a decider with one fault would answer them.
"""

import re
from collections.abc import Callable
from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ATTEMPT_ID_MAX,
    BeginDelete,
    ClusterState,
    Dispatch,
    ExpandedShape,
    Insert,
    ManagedNode,
    MarkDestroyed,
    NodeAction,
    Reap,
    ReconcilePlan,
    Restart,
    expand_shape,
    reconcile_node,
)
from cluster_reconciler.decider.invariants_plan import check_actions
from cluster_reconciler.messages import (
    BootstrapConvergenceObserved,
    BootstrapSessionId,
    CancelBootstrap,
    CreateLease,
    DestroyLease,
    LogicalNodeId,
    LookupEndpoint,
    NodeAttemptId,
    NodeManagerCommand,
    OperationId,
    PlannedEffect,
    StartBootstrap,
    SwactorId,
)
from tests.decider_words import (
    G0,
    JOINED,
    LEASE,
    OTHER_SPEC,
    SESSION,
    SPEC,
    T0,
    answered,
    at,
    bootstrapping,
    cancelling,
    cleaned_up,
    creating,
    deleting,
    destroyed,
    failed,
    group,
    joined,
    leased,
    new,
    reachable,
    ready,
    shape,
    state_of,
)
from tests.test_decider_invariants import (
    BESIDE,
    Broken,
    failed_and_gone,
    lost,
    recorded,
    unsure_create,
    unsure_start,
)

ONE = expand_shape(shape(group(), generation=3))
MANY = expand_shape(shape(group(count=10), generation=3))
BOTH = expand_shape(shape(group(), group("b"), generation=3))
NONE = expand_shape(shape(generation=3))
OTHER = expand_shape(shape(group(command="another command"), generation=3))
A1 = NodeAttemptId(1)
HANDLE = LEASE.handle
START = reconcile_node(reachable(), SPEC, T0).action
assert isinstance(START, Dispatch)
SESSION_SPEC = START.effect.command
assert isinstance(SESSION_SPEC, StartBootstrap)


def effect(command: NodeManagerCommand, sequence: int, node: str = "g-0") -> Dispatch:
    """That command, as the operation of that number of attempt 1."""
    return Dispatch(PlannedEffect(LogicalNodeId(node), OperationId(A1, sequence), command))


def planned(
    node: ManagedNode | ClusterState | None,
    *actions: NodeAction,
    wanted: ExpandedShape = ONE,
    now: datetime = T0,
    **facts: object,
) -> Callable[[], object]:
    """The check of a plan of these actions."""
    plan = replace(ReconcilePlan(actions, 3), **facts)
    state = node if isinstance(node, ClusterState) else state_of(*([node] if node else []))
    return lambda: check_actions(state, wanted, now, plan)


def cancel_gave_way() -> ManagedNode:
    """A cancel has failed, for longer than `cancel_timeout` at a hundred seconds."""
    return answered(cancelling(), failed("no"))


def exhausted(*nodes: ManagedNode) -> ClusterState:
    return state_of(*nodes, next_attempt=ATTEMPT_ID_MAX)


CREATE = effect(CreateLease(SPEC), 1)
START_3 = effect(SESSION_SPEC, 3)
LOOK_UP_4 = effect(LookupEndpoint(LEASE), 4)
CREATE_AGAIN = effect(CreateLease(SPEC), 2)
LOOK = CreateLease(SPEC, adopt_only=True)
LOOK_FOR_START = StartBootstrap(SESSION_SPEC.session, adopt_only=True)
HAND_OVER = BootstrapConvergenceObserved(SESSION, JOINED.swactor_id)
BEGIN = BeginDelete(G0, A1)
INSERT = Insert(NodeAttemptId(100), SPEC)
RESTART = Restart(G0, A1, NodeAttemptId(100), SPEC)

PLANS: list[Broken] = [
    ("the plan is of generation 4, the shape of 3", planned(new(), CREATE, observed_generation=4)),
    ("actions are not one for each node, in order", planned(new(), CREATE, CREATE)),
    ("held back are not distinct nodes", planned(new(), held_back=(G0, G0))),
    ("act and are held back: ['g-0']", planned(new(), CREATE, held_back=(G0,))),
    ("inserted into a slot that is taken", planned(new(), INSERT)),
    ("g-0: Insert with an older spec", planned(None, replace(INSERT, desired=OTHER_SPEC))),
    ("g-0: Insert with an older spec", planned(None, INSERT, wanted=NONE)),
    ("nothing is there for BeginDelete", planned(None, BEGIN)),
    ("meant attempt 2, found 1", planned(new(), BeginDelete(G0, NodeAttemptId(2)))),
    ("meant attempt 1, found 2", planned(new(attempt=2), CREATE)),
    ("BeginDelete of a wanted node", planned(ready(), BEGIN)),
    ("BeginDelete of a wanted node", planned(deleting(leased()), BEGIN, wanted=NONE)),
    ("MarkDestroyed, not cleaned up", planned(deleting(leased()), MarkDestroyed(G0, A1))),
    ("MarkDestroyed, not cleaned up", planned(deleting(creating()), MarkDestroyed(G0, A1))),
    ("MarkDestroyed, not cleaned up", planned(destroyed(), MarkDestroyed(G0, A1))),
    ("Reap before destroyed", planned(cleaned_up(), Reap(G0, A1), wanted=NONE)),
    ("Reap of a desired slot", planned(destroyed(), Reap(G0, A1))),
    ("Restart before destroyed", planned(cleaned_up(), RESTART)),
    ("Restart of an undesired slot", planned(destroyed(), RESTART, wanted=NONE)),
    ("Restart with an older spec", planned(destroyed(), RESTART, wanted=OTHER)),
    ("not due before 2026-01-01 00:00:01", planned(failed_and_gone(), RESTART)),
    ("an effect, expected BeginDelete", planned(new(), CREATE, wanted=NONE)),
    ("an effect, expected BeginDelete", planned(new(), CREATE, wanted=OTHER)),
    ("an effect, expected BeginDelete", planned(lost(new()), CREATE)),
    ("attempt ids [101], from 100 on", planned(None, Insert(NodeAttemptId(101), SPEC))),
    (
        "attempt ids [101], from 100 on",
        planned(destroyed(), replace(RESTART, new_attempt=NodeAttemptId(101))),
    ),
    ("attempt ids beyond the end", planned(exhausted(), Insert(ATTEMPT_ID_MAX, SPEC))),
    ("called exhausted, and 100 is left", planned(None, allocator_exhausted=True)),
]
DISPATCHES: list[Broken] = [
    ("CreateLease while PendingOperation", planned(creating(), CREATE_AGAIN)),
    ("op(1,2), next is op(1,1)", planned(new(), CREATE_AGAIN)),
    ("an effect before 2026-01-01 00:00:01", planned(unsure_create(), CREATE_AGAIN)),
    (
        "LookupEndpoint (adopt only: False) is not",
        planned(ready(), effect(LookupEndpoint(LEASE), 4)),
    ),
    ("CreateLease (adopt only: True) is not allowed while active", planned(new(), effect(LOOK, 1))),
    ("CreateLease (adopt only: False) is not", planned(leased(), CREATE_AGAIN)),
    ("LookupEndpoint (adopt only: False) is not", planned(new(), effect(LookupEndpoint(LEASE), 1))),
    (
        "LookupEndpoint (adopt only: False) is not",
        planned(reachable(), effect(LookupEndpoint(LEASE), 2)),
    ),
    ("StartBootstrap (adopt only: False) is not", planned(leased(), effect(SESSION_SPEC, 2))),
    (
        "StartBootstrap (adopt only: False) is not",
        planned(bootstrapping(), effect(SESSION_SPEC, 3)),
    ),
    (
        "BootstrapConvergenceObserved (adopt only: False) is not allowed while active",
        planned(bootstrapping(), effect(BootstrapConvergenceObserved(SESSION, SwactorId("s")), 3)),
    ),
    (
        "CancelBootstrap (adopt only: False) is not allowed while active",
        planned(bootstrapping(), effect(CancelBootstrap(SESSION), 3)),
    ),
    (
        "CancelBootstrap (adopt only: False) is not allowed while active",
        planned(joined(), effect(CancelBootstrap(SESSION), 3)),
    ),
    (
        "BootstrapConvergenceObserved (adopt only: False) is not allowed while active",
        planned(replace(joined(), active_bootstrap=None), effect(HAND_OVER, 3)),
    ),
    (
        "BootstrapConvergenceObserved (adopt only: False) is not allowed while active",
        planned(replace(ready(), active_bootstrap=SESSION), effect(HAND_OVER, 4)),
    ),
    (
        "StartBootstrap (adopt only: True) is not allowed while active",
        planned(reachable(), effect(LOOK_FOR_START, 2)),
    ),
    (
        "DestroyLease (adopt only: False) is not allowed while active",
        planned(leased(), effect(DestroyLease(HANDLE), 2)),
    ),
    (
        "CreateLease (adopt only: False) is not allowed while deleting",
        planned(deleting(unsure_create()), CREATE_AGAIN, now=at(9)),
    ),
    ("CreateLease (adopt only: True) is not", planned(deleting(new()), effect(LOOK, 1))),
    (
        "StartBootstrap (adopt only: True) is not allowed while deleting",
        planned(deleting(unsure_create()), effect(LOOK_FOR_START, 2), now=at(9)),
    ),
    (
        "DestroyLease (adopt only: False) is not allowed while deleting",
        planned(deleting(bootstrapping()), effect(DestroyLease(HANDLE), 3)),
    ),
    (
        "DestroyLease (adopt only: False) is not allowed while deleting",
        planned(deleting(unsure_start()), effect(DestroyLease(HANDLE), 3), now=at(9)),
    ),
    (
        "DestroyLease (adopt only: False) is not allowed while deleting",
        planned(cancel_gave_way(), effect(DestroyLease(HANDLE), 4), now=at(9)),
    ),
    (
        "CancelBootstrap (adopt only: False) is not allowed while deleting",
        planned(cancel_gave_way(), effect(CancelBootstrap(SESSION), 4), now=at(100)),
    ),
    (
        "StartBootstrap (adopt only: False) is not allowed while deleting",
        planned(deleting(unsure_start()), effect(SESSION_SPEC, 3), now=at(9)),
    ),
    (
        "CancelBootstrap (adopt only: False) is not allowed while deleting",
        planned(deleting(leased()), effect(CancelBootstrap(SESSION), 2)),
    ),
    ("expected [CreateLease", planned(new(), effect(CreateLease(OTHER_SPEC), 1))),
    (
        "expected [LookupEndpoint",
        planned(leased(), effect(LookupEndpoint(replace(LEASE, lease_id="lease-2")), 2)),
    ),
    (
        "expected [DestroyLease",
        planned(deleting(leased()), effect(DestroyLease(replace(HANDLE, lease_id="lease-2")), 2)),
    ),
    (
        "expected [CancelBootstrap",
        planned(deleting(bootstrapping()), effect(CancelBootstrap(BootstrapSessionId(42)), 3)),
    ),
    (
        "expected [StartBootstrap",
        planned(
            reachable(),
            effect(StartBootstrap(replace(SESSION_SPEC.session, lease_id="lease-2")), 2),
        ),
    ),
    (
        "g-0: expected [], found StartBootstrap",
        planned(
            recorded(deleting(unsure_start()), connection=None),
            effect(
                replace(LOOK_FOR_START, session=replace(SESSION_SPEC.session, endpoint=None)), 3
            ),
            now=at(9),
        ),
    ),
    (
        "expected [BootstrapConvergenceObserved",
        planned(joined(), effect(BootstrapConvergenceObserved(SESSION, SwactorId("s")), 3)),
    ),
]
SILENT: list[Broken] = [
    ("desired only, expected Insert, found nothing", planned(None)),
    ("g-0: desired only, expected Insert", planned(None, wanted=MANY)),
    ("held back, but not there: ['z']", planned(ready(), held_back=("z",))),
    (
        "no attempt id is left, and no node needs one",
        planned(exhausted(ready()), allocator_exhausted=True),
    ),
    ("found no action, expected BeginDelete", planned(ready(), wanted=NONE)),
    ("found no action, expected BeginDelete", planned(ready(), wanted=OTHER)),
    ("found no action, expected BeginDelete", planned(lost())),
    ("found no action, expected Reap", planned(destroyed(), wanted=NONE)),
    ("found no action, expected Restart", planned(destroyed())),
    ("found no action, expected Restart", planned(failed_and_gone(), now=at(1))),
    ("found no action, expected MarkDestroyed", planned(cleaned_up())),
    (
        "b-0: found no action, expected an effect",
        planned(
            exhausted(destroyed(), new(attempt=2, desired=BESIDE)),
            wanted=BOTH,
            allocator_exhausted=True,
        ),
    ),
    ("found no action, expected a hand-over", planned(joined(), held_back=(G0,))),
    ("found no action, expected an effect", planned(new())),
    ("found no action, expected an effect", planned(deleting(joined()))),
    ("held back, but an operation is pending", planned(creating(), held_back=(G0,))),
    ("held back, but backing off", planned(unsure_create(), held_back=(G0,))),
    ("held back, but ready", planned(ready(), held_back=(G0,))),
    ("held back, but awaiting its join", planned(bootstrapping(), held_back=(G0,))),
    ("held back, but destroyed", planned(failed_and_gone(), held_back=(G0,))),
    ("g-0: requeue at None, expected 2026-01-01 00:02:00", planned(creating())),
    ("requeue at 2026-01-01 00:00:01", planned(creating(), requeue_at=at(1))),
    (
        "no node waits: requeue at 2026-01-01 00:00:01+00:00, expected None",
        planned(ready(), requeue_at=at(1)),
    ),
    ("expected 2026-01-01 00:10:00", planned(bootstrapping())),
    ("expected 2026-01-01 00:00:01", planned(unsure_create())),
    ("expected 2026-01-01 00:00:01", planned(failed_and_gone())),
]

BROKEN_PLANS = PLANS + DISPATCHES + SILENT


@pytest.mark.parametrize(("says", "check"), BROKEN_PLANS)
def test_a_broken_plan_is_named(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check()

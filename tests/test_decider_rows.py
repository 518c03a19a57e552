"""The decision table of spec §7.2: one test for each row, named as the row is (design rule 1)."""

from collections.abc import Callable
from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ROWS,
    BeginDelete,
    Dispatch,
    ManagedNode,
    MarkDestroyed,
    NodeAction,
    NodeDecision,
    Reap,
    Restart,
    reconcile_node,
    row_of,
)
from cluster_reconciler.decider import node as node_table
from cluster_reconciler.decider.plan import UNASSIGNED
from cluster_reconciler.messages import (
    BootstrapAbsent,
    BootstrapConvergenceObserved,
    BootstrapSessionSpec,
    CancelBootstrap,
    CreateLease,
    DestroyHandle,
    DestroyLease,
    EndpointLookup,
    LeaseCreated,
    LogicalNodeSpec,
    LookupEndpoint,
    NodeLost,
    NodeManagerCommand,
    OperationId,
    PlannedEffect,
    ProviderLeaseId,
    RunId,
    StartBootstrap,
    SwactorId,
)
from tests.decider_words import (
    AMBIGUOUS,
    ENDPOINT,
    G0,
    LEASE,
    MEMORY,
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
    destroying,
    dispatched,
    failed,
    fold,
    handing_over,
    joined,
    leased,
    looking_up,
    new,
    reachable,
    ready,
    starting,
)

START = BootstrapSessionSpec(RunId(7), G0, LEASE.lease_id, ENDPOINT, SPEC.boot, SPEC.swarm_join)
HANDLE = DestroyHandle(MEMORY, ProviderLeaseId("lease-1"))


def lost() -> ManagedNode:
    """Failed, its lease alive, to restart at 1."""
    return fold(reachable(), NodeLost("gone"))


def lost_and_gone() -> ManagedNode:
    """Failed and destroyed, to restart at 1."""
    return destroyed(deleting(fold(new(), NodeLost("gone"))))


def cancel_given_way() -> ManagedNode:
    """Its cancel failed once, and 60 s of deleting are over."""
    return answered(cancelling(), failed("no answer"), at(1))


def late_hand_over() -> ManagedNode:
    """Dispatched at 590: the join deadline comes before the operation's own."""
    return dispatched(joined(), at(590))


def effect(node: ManagedNode, command: NodeManagerCommand) -> Dispatch:
    sequence = OperationId(node.attempt, node.next_operation_sequence)
    return Dispatch(PlannedEffect(G0, sequence, command))


Case = tuple[str, ManagedNode, LogicalNodeSpec | None, datetime, NodeAction | None, datetime | None]

begin_delete = BeginDelete(G0, new().attempt)
join_deadline = at(600)
adopt_create = answered(deleting(creating()), AMBIGUOUS)
adopt_start = answered(deleting(starting()), AMBIGUOUS)
CASES: list[Case] = [
    ("reap", destroyed(), None, T0, Reap(G0, new().attempt), None),
    ("reap", lost_and_gone(), None, T0, Reap(G0, new().attempt), None),
    ("restart", destroyed(), SPEC, T0, Restart(G0, new().attempt, UNASSIGNED, SPEC), None),
    (
        "restart",
        lost_and_gone(),
        OTHER_SPEC,
        at(1),
        Restart(G0, new().attempt, UNASSIGNED, OTHER_SPEC),
        None,
    ),
    ("await restart", lost_and_gone(), SPEC, at(0.999), None, at(1)),
    *(
        ("undesired", node, None, T0, begin_delete, None)
        for node in (new(), creating(), ready(), lost(), handing_over())
    ),
    *(
        ("other spec", node, OTHER_SPEC, T0, begin_delete, None)
        for node in (new(), creating(), ready(), lost(), handing_over())
    ),
    ("failed", lost(), SPEC, T0, begin_delete, None),
    ("failed", fold(creating(), NodeLost("gone")), SPEC, T0, begin_delete, None),
    ("pending", creating(), SPEC, T0, None, at(120)),
    ("pending", deleting(creating()), None, T0, None, at(120)),
    ("pending", handing_over(), SPEC, at(1), None, at(120)),
    ("pending", late_hand_over(), SPEC, at(590), None, join_deadline),
    ("mark destroyed", cleaned_up(), SPEC, T0, MarkDestroyed(G0, new().attempt), None),
    ("mark destroyed", deleting(new()), None, T0, MarkDestroyed(G0, new().attempt), None),
    ("cleanup backoff", answered(destroying(), failed()), None, at(0.999), None, at(1)),
    ("cleanup backoff", cancel_given_way(), None, at(1.5), None, at(2)),
    (
        "adopt create",
        adopt_create,
        None,
        at(1),
        effect(adopt_create, CreateLease(SPEC, adopt_only=True)),
        None,
    ),
    (
        "adopt start",
        adopt_start,
        SPEC,
        at(1),
        effect(adopt_start, StartBootstrap(START, adopt_only=True)),
        None,
    ),
    (
        "cancel",
        deleting(bootstrapping()),
        None,
        T0,
        effect(bootstrapping(), CancelBootstrap(SESSION)),
        None,
    ),
    (
        "destroy",
        deleting(reachable()),
        SPEC,
        T0,
        effect(reachable(), DestroyLease(HANDLE)),
        None,
    ),
    (
        "destroy",
        cancel_given_way(),
        None,
        at(60),
        effect(cancel_given_way(), DestroyLease(HANDLE)),
        None,
    ),
    ("backoff", answered(creating(), failed()), SPEC, at(0.999), None, at(1)),
    ("backoff", answered(looking_up(), EndpointLookup()), SPEC, at(1), None, at(2)),
    ("ready", ready(), SPEC, at(1000), None, None),
    ("create", new(), SPEC, T0, effect(new(), CreateLease(SPEC)), None),
    (
        "create",
        answered(creating(), failed()),
        SPEC,
        at(1),
        effect(answered(creating(), failed()), CreateLease(SPEC)),
        None,
    ),
    ("look up", leased(), SPEC, T0, effect(leased(), LookupEndpoint(LEASE)), None),
    (
        "hand over",
        joined(),
        SPEC,
        T0,
        effect(joined(), BootstrapConvergenceObserved(SESSION, SwactorId("swactor-1"))),
        join_deadline,
    ),
    ("await join", bootstrapping(), SPEC, T0, None, join_deadline),
    ("start", reachable(), SPEC, T0, effect(reachable(), StartBootstrap(START)), None),
]


@pytest.mark.parametrize(
    ("name", "node", "desired", "now", "action", "requeue_at"),
    [pytest.param(*case, id=case[0]) for case in CASES],
)
def test_row(
    name: str,
    node: ManagedNode,
    desired: LogicalNodeSpec | None,
    now: datetime,
    action: NodeAction | None,
    requeue_at: datetime | None,
) -> None:
    assert row_of(node, desired, now).name == name
    assert reconcile_node(node, desired, now) == NodeDecision(action, requeue_at)


def test_every_row_has_its_test_and_its_own_name() -> None:
    names = [row.name for row in ROWS]

    assert len(set(names)) == len(names)
    assert {case[0] for case in CASES} == set(names)


def test_the_rows_are_tried_in_the_order_of_the_design() -> None:
    names = [row.name for row in ROWS]

    assert names == [
        "reap", "restart", "await restart",
        "undesired", "other spec", "failed",
        "pending",
        "mark destroyed", "cleanup backoff", "adopt create", "adopt start", "cancel", "destroy",
        "backoff", "ready", "create", "look up", "hand over", "await join", "start",
    ]  # fmt: skip


def test_a_table_without_its_last_row_says_whom_it_has_no_answer_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_table, "_ACTIVE_ROWS", node_table._ACTIVE_ROWS[:-1])

    with pytest.raises(AssertionError, match=r"^g-0: no row holds for ManagedNode"):
        row_of(reachable(), SPEC, T0)


def test_rule_2_a_pending_operation_outlives_the_turn_to_cleanup_and_its_lease_is_destroyed() -> (
    None
):
    # given a create that is out when nobody wants its node any more
    node = deleting(creating())
    assert node.pending == creating().pending

    # when it succeeds, its own handle is what is destroyed
    found = replace(LEASE, destroy_handle=DestroyHandle(MEMORY, ProviderLeaseId("handle-9")))
    node = answered(node, LeaseCreated(found))

    assert reconcile_node(node, None, T0).action == effect(
        node, DestroyLease(DestroyHandle(MEMORY, ProviderLeaseId("handle-9")))
    )


def test_rule_17_a_cancel_that_never_failed_does_not_give_way() -> None:
    # given a node that waited for its turn for longer than cancel_timeout
    node = deleting(bootstrapping())

    assert row_of(node, None, at(10_000)).name == "cancel"


def test_rule_17_a_look_that_keeps_failing_gives_way() -> None:
    node = answered(dispatched(adopt_start, at(1), None), failed("no answer"), at(2))

    names = [row_of(node, None, at(t)).name for t in (59.999, 60)]

    assert names == ["adopt start", "destroy"]


def test_rule_17_a_look_that_never_concludes_gives_way_too() -> None:
    absent = BootstrapAbsent(conclusive=False)
    node = answered(dispatched(adopt_start, at(1), None), absent, at(2))

    assert row_of(node, None, at(60)).name == "destroy"


def test_rule_17_what_may_be_rented_unseen_never_gives_way() -> None:
    node = answered(dispatched(adopt_create, at(1), None), failed("no answer"), at(2))

    assert row_of(node, None, at(10_000)).name == "adopt create"


@pytest.mark.parametrize(
    "make", [new, creating, leased, reachable, bootstrapping, joined, ready, lost]
)
def test_rule_5_a_spec_is_equal_by_its_values(make: Callable[[], ManagedNode]) -> None:
    node = make()
    twin = replace(SPEC, shape=replace(SPEC.shape, options={}))
    assert twin is not node.record.desired

    assert reconcile_node(node, twin, T0) == reconcile_node(node, SPEC, T0)

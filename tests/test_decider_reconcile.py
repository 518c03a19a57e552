"""One plan for the whole cluster (spec §6, §8; design rules 3, 4, 6, 28; L2)."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from cluster_reconciler.decider import (
    ATTEMPT_ID_MAX,
    BeginDelete,
    ClusterState,
    Dispatch,
    Insert,
    ManagedNode,
    Reap,
    ReconcilePlan,
    Restart,
    expand_shape,
    reconcile,
)
from cluster_reconciler.messages import (
    ClusterShape,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    OperationId,
)
from tests.decider_words import (
    AMBIGUOUS,
    SPEC,
    T0,
    answered,
    at,
    bootstrapping,
    creating,
    deleting,
    destroyed,
    dispatched,
    failed,
    group,
    handing_over,
    joined,
    leased,
    looking_up,
    new,
    reachable,
    ready,
    shape,
    starting,
    state_of,
    with_failures,
)


def inserts(plan: ReconcilePlan) -> list[tuple[str, int]]:
    found = [action for action in plan.actions if isinstance(action, Insert)]
    assert len(found) == len(plan.actions)
    return [(action.node, action.attempt) for action in found]


def dispatches(plan: ReconcilePlan) -> list[str]:
    return [action.node for action in plan.actions if isinstance(action, Dispatch)]


def named(node: ManagedNode, spec: LogicalNodeSpec, attempt: int) -> ManagedNode:
    """The node under another name and attempt."""
    pending = node.pending
    if pending is not None:
        pending = replace(pending, id=OperationId(NodeAttemptId(attempt), pending.id.sequence))
    unsure = node.retry.ambiguous_operation
    if unsure is not None:
        unsure = OperationId(NodeAttemptId(attempt), unsure.sequence)
    return replace(
        node,
        attempt=NodeAttemptId(attempt),
        pending=pending,
        retry=replace(node.retry, ambiguous_operation=unsure),
        record=replace(node.record, logical_node_id=spec.logical_node_id, desired=spec),
    )


def cluster_of(desired: ClusterShape, *nodes: ManagedNode) -> ClusterState:
    """The nodes take the shape's slots, in order of id."""
    specs = sorted(desired.expand().items())
    return state_of(
        *(
            named(node, spec, attempt)
            for attempt, (node, (_, spec)) in enumerate(zip(nodes, specs, strict=False), start=1)
        ),
        next_attempt=1000,
    )


# -- order, attempts, requeue (L2; rules 3, 4, 6) -------------------------------------------------


def test_l2_attempts_are_handed_out_in_order_of_id() -> None:
    desired = shape(group("z", 1), group("a", 2))
    state = ClusterState()
    before = msgspec.json.encode((state, desired))

    first, second = reconcile(state, desired, at(10)), reconcile(state, desired, at(10))

    assert first == second
    assert msgspec.json.encode((state, desired)) == before
    assert inserts(first) == [("a-0", 1), ("a-1", 2), ("z-0", 3)]


def test_l2_order_of_ids_is_string_order() -> None:
    plan = reconcile(ClusterState(), shape(group(count=12)), T0)

    order = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    assert inserts(plan) == [(f"g-{index}", n) for n, index in enumerate(order, start=1)]


def test_inserts_and_restarts_share_the_allocator_and_reaps_take_none() -> None:
    # given b-0 destroyed and still wanted, c-0 destroyed and not wanted, a-0 and d-0 not there
    desired = shape(group("a"), group("b"), group("d"))
    specs = desired.expand()
    b_0 = named(destroyed(), specs[LogicalNodeId("b-0")], 3)
    c_0 = named(destroyed(), replace(SPEC, logical_node_id=LogicalNodeId("c-0")), 4)
    plan = reconcile(state_of(b_0, c_0, next_attempt=7), desired, T0)

    assert plan.actions == (
        Insert(NodeAttemptId(7), specs[LogicalNodeId("a-0")]),
        Restart(
            LogicalNodeId("b-0"), NodeAttemptId(3), NodeAttemptId(8), specs[LogicalNodeId("b-0")]
        ),
        Reap(LogicalNodeId("c-0"), NodeAttemptId(4)),
        Insert(NodeAttemptId(9), specs[LogicalNodeId("d-0")]),
    )


def test_rule_6_an_exhausted_allocator_stops_only_what_needs_an_attempt() -> None:
    # given one attempt id left, two slots to fill, and a node to delete
    desired = shape(group("a", 2))
    other = named(ready(), replace(SPEC, logical_node_id=LogicalNodeId("x-0")), 1)
    state = replace(state_of(other), next_attempt_id=NodeAttemptId(ATTEMPT_ID_MAX - 1))

    plan = reconcile(state, desired, T0)

    assert plan.actions == (
        Insert(NodeAttemptId(ATTEMPT_ID_MAX - 1), desired.expand()[LogicalNodeId("a-0")]),
        BeginDelete(LogicalNodeId("x-0"), NodeAttemptId(1)),
    )
    assert plan.allocator_exhausted
    assert not reconcile(state, shape(), T0).allocator_exhausted


def test_rule_3_the_earliest_deadline_of_all_nodes_is_when_to_look_again() -> None:
    desired = shape(group(count=4))
    backing_off = answered(creating(), failed(), at(0))
    state = cluster_of(desired, creating(), backing_off, bootstrapping(), ready())

    assert reconcile(state, desired, T0).requeue_at == at(1)


def test_rule_3_a_converged_cluster_is_never_looked_at_again_by_itself() -> None:
    desired = shape(group(count=2), generation=9)

    plan = reconcile(cluster_of(desired, ready(), ready()), desired, T0)

    assert plan == ReconcilePlan((), 9)


def test_a_plan_from_the_expanded_shape_is_the_same_plan() -> None:
    desired = shape(group(count=3))
    state = cluster_of(desired, new(), leased())

    assert reconcile(state, expand_shape(desired), T0) == reconcile(state, desired, T0)


def test_the_order_in_which_nodes_entered_the_map_changes_no_plan() -> None:
    desired = shape(group(count=5), limits={"memory": 2})
    state = cluster_of(desired, new(), leased(), bootstrapping(), joined(), new())
    turned = replace(state, nodes=dict(reversed(state.nodes.items())))

    assert reconcile(turned, desired, T0) == reconcile(state, desired, T0)


def test_scale_down_deletes_what_is_absent_and_leaves_the_rest() -> None:
    before, after = shape(group(count=3)), shape(group(count=1), generation=2)

    plan = reconcile(cluster_of(before, ready(), ready(), ready()), after, T0)

    assert plan.actions == (
        BeginDelete(LogicalNodeId("g-1"), NodeAttemptId(2)),
        BeginDelete(LogicalNodeId("g-2"), NodeAttemptId(3)),
    )


# -- limits (rule 28) -----------------------------------------------------------------------------


def test_rule_28_no_more_acquiring_operations_than_the_limit() -> None:
    # given two places, one of them taken
    desired = shape(group(count=5), limits={"memory": 2})
    state = cluster_of(desired, creating(), new(), leased(), new(), new())

    plan = reconcile(state, desired, T0)

    assert dispatches(plan) == ["g-1"]
    assert plan.held_back == ("g-2", "g-3", "g-4")


def test_rule_28_a_provider_that_is_not_listed_has_64_places() -> None:
    desired = shape(group(count=70))

    plan = reconcile(cluster_of(desired, *(new() for _ in range(70))), desired, T0)

    assert (len(plan.actions), len(plan.held_back)) == (64, 6)


def test_rule_28_releasing_has_as_many_places_of_its_own() -> None:
    # given all acquiring places taken, and three nodes to clean up
    desired = shape(group(count=5), limits={"memory": 2})
    leaving = [deleting(leased()), deleting(bootstrapping()), deleting(leased())]
    state = cluster_of(desired, creating(), creating(), *leaving)

    plan = reconcile(state, desired, T0)

    assert dispatches(plan) == ["g-2", "g-4"]
    assert plan.held_back == ("g-3",)


def test_rule_28_everything_adopt_only_counts_as_releasing() -> None:
    # given the only acquiring place taken, and a look that cleanup needs: it goes
    desired = shape(group(count=3), limits={"memory": 1})
    unsure = answered(deleting(creating()), AMBIGUOUS)
    state = cluster_of(desired, creating(), unsure)
    assert dispatches(reconcile(state, desired, at(1))) == ["g-1"]

    # and while it is out it takes the releasing place
    looking = dispatched(unsure, at(1), None)
    state = cluster_of(desired, creating(), looking, deleting(leased()))
    plan = reconcile(state, desired, at(1))
    assert (dispatches(plan), plan.held_back) == ([], ("g-2",))


def test_rule_28_the_hand_over_counts_nowhere() -> None:
    desired = shape(group(count=4), limits={"memory": 1})
    state = cluster_of(desired, handing_over(), joined(), joined(), new())

    plan = reconcile(state, desired, T0)

    assert dispatches(plan) == ["g-1", "g-2", "g-3"]


def test_rule_28_a_create_that_is_still_out_takes_its_place_while_deleting() -> None:
    desired = shape(group(count=2), limits={"memory": 1})

    plan = reconcile(cluster_of(desired, deleting(creating()), new()), desired, T0)

    assert plan.held_back == ("g-1",)


def test_rule_28_an_attempt_counts_against_its_own_provider() -> None:
    # given attempts at provider `old`, whose slots are to move to `new`
    was = shape(group(count=2, provider="old"))
    wanted = shape(group(count=3, provider="new"), limits={"old": 1, "new": 1}, generation=2)
    going = cluster_of(was, deleting(leased()), deleting(leased()))
    spec = wanted.expand()[LogicalNodeId("g-2")]
    state = state_of(*going.nodes.values(), named(new(), spec, 3))

    plan = reconcile(state, wanted, T0)

    assert dispatches(plan) == ["g-0", "g-2"]
    assert plan.held_back == ("g-1",)


@pytest.mark.parametrize("waiting", [1, 2, 3, 4])
def test_rule_28_a_lowered_limit_takes_nothing_back_and_lets_nothing_new_go(waiting: int) -> None:
    # given three creates that are out, more than the limit allows now
    desired = shape(group(count=3 + waiting), limits={"memory": 1})
    nodes = [*(creating() for _ in range(3)), *(new() for _ in range(waiting))]

    plan = reconcile(cluster_of(desired, *nodes), desired, T0)

    assert (plan.actions, plan.held_back) == ((), tuple(f"g-{3 + n}" for n in range(waiting)))


@pytest.mark.parametrize("out", [creating, looking_up, starting])
@pytest.mark.parametrize("wants", [new, leased, reachable])
def test_rule_28_every_acquiring_operation_takes_the_same_places(
    out: Callable[[], ManagedNode], wants: Callable[[], ManagedNode]
) -> None:
    desired = shape(group(count=2), limits={"memory": 1})

    plan = reconcile(cluster_of(desired, out(), wants()), desired, T0)

    assert (plan.actions, plan.held_back) == ((), ("g-1",))


def test_rule_28_what_is_out_counts_wherever_its_node_stands() -> None:
    desired = shape(group(count=3), limits={"memory": 1})

    plan = reconcile(cluster_of(desired, ready(), new(), creating()), desired, T0)

    assert (plan.actions, plan.held_back) == ((), ("g-1",))


def test_rule_28_places_go_to_those_who_failed_least_and_asked_least() -> None:
    desired = shape(group(count=4), limits={"memory": 1})
    nodes = [with_failures(new(), 2), leased(), new(), with_failures(new(), 1)]
    order = []
    for _ in range(4):
        [node_id] = dispatches(reconcile(cluster_of(desired, *nodes), desired, T0))
        order.append(node_id)
        nodes[int(node_id[2:])] = ready()

    assert order == ["g-2", "g-1", "g-3", "g-0"]


@pytest.mark.parametrize("hung", [64, 128])
def test_rule_28_hung_creates_do_not_starve_the_last_node(hung: int) -> None:
    # given creates that hang and expire for every node but the last one in order of id
    count = hung + 1
    desired = expand_shape(shape(group(count=count)))
    last = max(desired.nodes)
    nodes = {
        node_id: named(new(), spec, attempt)
        for attempt, (node_id, spec) in enumerate(sorted(desired.nodes.items()), start=1)
    }
    rounds = 0
    while nodes[last].pending is None:
        rounds += 1
        now = at(rounds * 1000)
        plan = reconcile(ClusterState(0, NodeAttemptId(1000), nodes), desired, now)
        for node_id in map(LogicalNodeId, dispatches(plan)):
            spec = desired.nodes[node_id]
            nodes[node_id] = dispatched(nodes[node_id], now, spec)
            if node_id != last:
                nodes[node_id] = answered(nodes[node_id], AMBIGUOUS, now)
        assert rounds < 10

    # then it had its turn as soon as everyone else had had one
    assert rounds == -(-count // 64)

"""Lifecycle cases L1-L14 (cases.md) on the real driver, stepped."""

import math

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.stepping import Reentered, SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    G0,
    JOINED,
    LEASED,
    NO_JITTER,
    SESSION,
    T0,
    Submitting,
    answer,
    at,
    bootstrapping,
    brief,
    closed_queue,
    cluster,
    group,
    lease,
    node,
    op,
    planned,
    ready,
    seen,
    shape,
    version,
)
from cluster_reconciler.decider import (
    BeginDelete,
    ClusterState,
    Dispatch,
    Insert,
    ManagedNode,
    MarkDestroyed,
    NodeAction,
    Reap,
    ReconcilePlan,
    Restart,
    reconcile,
)
from cluster_reconciler.decider.transitions import refusal
from cluster_reconciler.messages import (
    BootstrapClosed,
    BootstrapConvergenceAccepted,
    BootstrapConvergenceObserved,
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    ClusterShape,
    ContentChanged,
    CreateLease,
    DesiredNodeShape,
    DestroyLease,
    EndpointLookup,
    GenerationRegressed,
    LeaseCreated,
    LeaseDestroyed,
    LogicalNodeId,
    LookupEndpoint,
    NodeAttemptId,
    NodeLost,
    NodeObservation,
    NodeStage,
    PlannedEffect,
    RunMismatch,
    ShapeError,
    StartBootstrap,
    SwactorId,
)
from tests.planning_kit import plan_by

# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        (shape(group("g"), group("g"), generation=2), "'g'"),
        (shape(group("g", run=8), generation=2), "run 8"),
        *[
            (
                shape(group("g", wants=replace(DesiredNodeShape(), **{rate: value})), generation=2),
                rate,
            )
            for rate in ("min_down_mbps", "min_up_mbps", "min_reliability")
            for value in (math.nan, math.inf, -math.inf)
        ],
    ],
)
def test_l01_a_contradictory_shape_is_refused_and_changes_nothing(
    wrong: ClusterShape, culprit: str
) -> None:
    c = cluster()
    c.drive()
    before = (c.desired, c.state, c.queued)
    with pytest.raises(ShapeError, match=culprit):
        wrong.expand()
    with pytest.raises(ShapeError, match=culprit):
        c.update_desired(wrong)
    assert (c.desired, c.state, c.queued) == before


def test_l02_ids_are_ordered_as_strings_and_attempts_follow_them() -> None:
    empty, desired = ClusterState(nodes={}), shape(group("z", 1), group("a", 2))
    first, second = reconcile(empty, desired, at(10)), reconcile(empty, desired, at(10))
    nodes = desired.expand()
    assert first == second
    assert empty == ClusterState(nodes={})
    assert first == ReconcilePlan(
        actions=(
            Insert(NodeAttemptId(1), nodes[LogicalNodeId("a-0")]),
            Insert(NodeAttemptId(2), nodes[LogicalNodeId("a-1")]),
            Insert(NodeAttemptId(3), nodes[LogicalNodeId("z-0")]),
        ),
        observed_generation=1,
        requeue_at=None,
    )


def test_l02_twelve_nodes() -> None:
    plan = reconcile(ClusterState(nodes={}), shape(group("g", 12)), T0)
    inserted = [(a.node, a.attempt) for a in plan.actions if isinstance(a, Insert)]
    order = ["g-0", "g-1", "g-10", "g-11", *[f"g-{i}" for i in range(2, 10)]]
    assert inserted == list(zip(order, range(1, 13), strict=True))


def test_l03_generations() -> None:
    c = cluster(shape(generation=3))
    c.update_desired(shape(generation=3))
    for offered, refused in (
        (shape(group(count=2), generation=3), ContentChanged),
        (shape(group(), group("empty", 0), generation=3), ContentChanged),
        (shape(generation=2), GenerationRegressed),
        (shape(group(run=8), generation=4, run=8), RunMismatch),
    ):
        with pytest.raises(refused):
            c.update_desired(offered)
    assert c.desired == shape(generation=3)


def test_l03_of_several_faults_the_first_in_order_is_told() -> None:
    c = cluster(shape(generation=3))
    twice = (group(), group())

    with pytest.raises(RunMismatch):
        c.update_desired(shape(*twice, generation=2, run=8))
    with pytest.raises(GenerationRegressed):
        c.update_desired(shape(*twice, generation=2))
    with pytest.raises(ShapeError, match="used twice"):
        c.update_desired(shape(*twice, generation=3))


def test_l04_an_intermediate_generation_is_never_created() -> None:
    c = cluster(version(1))
    ready(c)
    c.update_desired(version(2))
    c.update_desired(version(3))
    [destroy] = c.drive()
    [create] = answer(c, destroy, LeaseDestroyed())
    assert isinstance(create.command, CreateLease)
    assert create.command.spec == version(3).expand()[G0]


# -- passes ---------------------------------------------------------------------------------------


def test_l05_one_step_at_a_time() -> None:
    c = cluster()
    assert c.step() == []
    assert planned(c) == [Insert(NodeAttemptId(1), shape().expand()[G0])]
    create = PlannedEffect(G0, op(1, 1), CreateLease(shape().expand()[G0]))
    assert c.step() == [create]
    assert planned(c) == [Dispatch(create)]
    c.trigger()
    assert c.drive() == []
    assert (planned(c), c.requeue_at) == ([], at(120))


def test_l06_the_operation_is_recorded_before_it_is_submitted() -> None:
    seen_inside: list[ManagedNode] = []
    c = SteppingCluster(
        shape(), retry=NO_JITTER, start=T0,
        executor=Submitting(lambda effect: seen_inside.append(c.state.nodes[effect.node])),
    )  # fmt: skip
    c.drive()
    [inside] = seen_inside
    assert inside.pending is not None
    assert (inside.pending.id, inside.pending.deadline) == (op(1, 1), at(120))
    assert (inside.next_operation_sequence, inside.record.stage) == (2, NodeStage.LEASE_REQUESTED)


def test_l07_a_failed_submission_is_a_failed_operation() -> None:
    c = SteppingCluster(shape(), retry=NO_JITTER, start=at(900), executor=Submitting(closed_queue))
    assert c.drive() == []
    n = node(c)
    assert (n.pending, n.record.stage) == (None, NodeStage.LEASE_REQUESTED)
    assert (n.retry.consecutive_failures, n.retry.next_effect_at) == (1, at(901))
    assert n.retry.last_error == "queue closed"
    assert n.retry.ambiguous_operation is None


def test_l08_triggers_coalesce() -> None:
    c = cluster()
    for _ in range(3):
        c.trigger()
    assert len(c.drive()) == 1
    assert not c.queued


def test_l08_what_comes_during_a_pass_queues_exactly_one_more() -> None:
    def during_the_pass(effect: PlannedEffect) -> None:
        c.trigger()
        c.succeed(effect, LeaseCreated(lease()))
        with pytest.raises(Reentered):
            c.drive()

    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, executor=Submitting(during_the_pass))
    c.step()
    c.step()
    assert c.passes == 2
    c.step()
    c.step()
    assert (c.passes, c.queued) == (2, True)
    c.step()
    assert c.passes == 3


@pytest.mark.parametrize(
    "stale",
    [
        BeginDelete(G0, NodeAttemptId(1)),
        MarkDestroyed(G0, NodeAttemptId(1)),
        Restart(G0, NodeAttemptId(1), NodeAttemptId(3), shape().expand()[G0]),
        Reap(G0, NodeAttemptId(1)),
        Dispatch(PlannedEffect(G0, op(2, 1), CreateLease(shape().expand()[G0]))),
    ],
)
def test_l09_a_stale_action_touches_nothing_and_queues_a_pass(
    stale: NodeAction, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = cluster()
    ready(c)
    [destroy] = seen(c, NodeLost("gone"))
    answer(c, destroy, LeaseDestroyed())
    [create] = c.advance(1)
    assert create.operation == op(2, 1)
    before = c.state
    assert refusal(before, stale) is not None
    plan_by(monkeypatch, lambda *_: ReconcilePlan((stale,), observed_generation=1))
    monkeypatch.setattr("cluster_reconciler.actors.invariant_guard.check_plan", lambda *_: None)
    c.trigger()
    c.step()
    c.step()
    assert c.state == before
    assert c.queued


def test_l10_a_forced_pass_on_a_converged_cluster_does_nothing() -> None:
    c = cluster()
    ready(c)
    before = c.state
    c.trigger()
    assert c.drive() == []
    assert (c.state, c.requeue_at) == (before, None)


# -- the way to ready -----------------------------------------------------------------------------


def test_l11_the_whole_way() -> None:
    c = cluster()
    [create] = c.drive()
    [start] = answer(c, create, LEASED)
    assert brief([start]) == [(op(1, 2), StartBootstrap)]
    assert answer(c, start, BootstrapStarted(SESSION)) == []
    [hand_over] = seen(c, JOINED)
    assert hand_over.operation == op(1, 3)
    assert hand_over.command == BootstrapConvergenceObserved(SESSION, SwactorId("swactor-1"))
    assert answer(c, hand_over, BootstrapConvergenceAccepted()) == []
    assert seen(c, BootstrapClosed(SESSION)) == []
    n = node(c)
    assert (n.record.ready, n.record.stage) == (True, NodeStage.DORMANT)
    assert (c.converged, n.retry.consecutive_failures) == (True, 0)


def test_l12_an_endpoint_that_is_not_there_yet_is_probed() -> None:
    c = cluster()
    [create] = c.drive()
    [look] = answer(c, create, LeaseCreated(lease()))
    assert brief([look]) == [(op(1, 2), LookupEndpoint)]
    assert answer(c, look, EndpointLookup(None)) == []
    assert (node(c).retry.next_effect_at, node(c).retry.consecutive_failures) == (at(2), 0)
    assert c.advance(1.999) == []
    assert brief(c.advance(0.001)) == [(op(1, 3), LookupEndpoint)]


@pytest.mark.parametrize(
    "end",
    [BootstrapClosed(SESSION), BootstrapObserved(SESSION, BootstrapStage.CONVERGED)],
)
def test_l13_an_end_before_the_join_fails_the_attempt(end: NodeObservation) -> None:
    c = cluster()
    bootstrapping(c)
    [destroy] = seen(c, end)
    assert isinstance(destroy.command, DestroyLease)
    assert not node(c).record.ready
    assert node(c).record.failed_at == T0


def test_l14_observed_generation_is_no_readiness() -> None:
    c = cluster()
    c.step()
    told = [(c.state.observed_generation, c.converged)]
    c = cluster()
    bootstrapping(c)
    told.append((c.state.observed_generation, c.converged))
    [hand_over] = seen(c, JOINED)
    told.append((c.state.observed_generation, c.converged))
    assert told == [(1, False)] * 3
    answer(c, hand_over, BootstrapConvergenceAccepted())
    assert c.converged
    c.update_desired(shape(group(count=0), generation=2))
    assert not c.converged

"""The driver's queue, refusals and reports, beyond the lifecycle cases."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.ports import Asked, StatusQuery
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import (
    LEASED,
    NO_JITTER,
    SESSION,
    T0,
    answer,
    at,
    cluster,
    group,
    node,
    op,
    ready,
    seen,
    shape,
)
from cluster_reconciler.decider import (
    ATTEMPT_ID_MAX,
    BeginDelete,
    ClusterState,
    ExpandedShape,
    Insert,
    ReconcilePlan,
    reconcile,
)
from cluster_reconciler.messages import (
    BootstrapObserved,
    BootstrapStage,
    BootstrapStarted,
    CreateLease,
    Disposition,
    EffectError,
    ExecutorResult,
    LeaseCreated,
    LeaseDestroyed,
    LogicalNodeId,
    NodeAttemptId,
    NodeLost,
    NodeObserved,
    OperationId,
    OperationSucceeded,
    PlannedEffect,
    ProviderKind,
    ProviderLimits,
    SafetyTick,
    UpdateDesired,
)
from tests.planning_kit import plan_by


def texts(c: SteppingCluster, kind: EventKind) -> list[str]:
    return [event.text for event in c.events if event.kind is kind]


def test_the_pass_that_reaps_the_last_node_reports_convergence() -> None:
    # Found by the embedded example: after a Reap no further pass is due, so nobody was told.
    c = cluster()
    ready(c)
    c.update_desired(shape(group(count=0), generation=2))
    [destroy] = c.drive()
    answer(c, destroy, LeaseDestroyed())
    assert texts(c, EventKind.CONVERGED)[-1] == "generation 2 is converged"
    assert c.events[-1].kind is EventKind.CONVERGED


GARBAGE: list[object] = [
    None,
    42,
    "RunPass",
    object(),
    {"type": "RunPass"},
    NodeObserved("g-0", 1, "lost"),  # type: ignore[arg-type]
    NodeObserved("g-0", "one", NodeLost("gone")),  # type: ignore[arg-type]
    NodeObserved(7, 1, NodeLost("gone")),  # type: ignore[arg-type]
    NodeObserved(LogicalNodeId("g-0"), NodeAttemptId(1), NodeLost(None)),  # type: ignore[arg-type]
    NodeObserved(LogicalNodeId("nobody"), NodeAttemptId(1), NodeLost("gone")),
    ExecutorResult(LogicalNodeId("g-0"), None),  # type: ignore[arg-type]
    ExecutorResult(LogicalNodeId("g-0"), op(1, 1), outcome="made it"),  # type: ignore[arg-type]
    ExecutorResult(LogicalNodeId("g-0"), op(1, 1), outcome=LeaseCreated("l1")),  # type: ignore[arg-type]
    ExecutorResult(LogicalNodeId("g-0"), OperationId(1, "1"), outcome=LEASED),  # type: ignore[arg-type]
    ExecutorResult(LogicalNodeId("g-0"), op(1, 1), error="boom"),  # type: ignore[arg-type]
    ExecutorResult(LogicalNodeId("g-0"), op(9, 1), outcome=LEASED),
    NodeObserved(LogicalNodeId("g-0"), NodeAttemptId(1), OperationSucceeded(op(2, 1), LEASED)),
    NodeObserved(LogicalNodeId("g-0"), NodeAttemptId(1), NodeLost(ConnectionError("gone"))),  # type: ignore[arg-type]
    NodeObserved(LogicalNodeId("g-0"), NodeAttemptId(1), NodeLost("half a character \ud800")),
    NodeObserved(
        LogicalNodeId("g-0"),
        NodeAttemptId(1),
        BootstrapObserved(SESSION, BootstrapStage.CREATED, last_stdout_seq=2**70),
    ),
    UpdateDesired(None),  # type: ignore[arg-type]
    UpdateDesired(shape(generation=2**70)),
    UpdateDesired(shape(group(), group(), generation=2)),
    Asked(StatusQuery(), None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_no_message_kills_the_driver_or_changes_the_state(garbage: object) -> None:
    c = cluster()
    [create] = c.drive()
    before, desired = c.state, c.desired
    c.tell(garbage)
    assert c.drive() == []
    assert (c.state, c.desired) == (before, desired)
    assert len(c.story("g-0")) >= 2  # What came before can still be told.
    [start] = answer(c, create, LEASED)
    assert start.operation == op(1, 2)


@pytest.mark.parametrize(
    "answers",
    [
        ExecutorResult(LogicalNodeId("g-0"), op(1, 1)),
        ExecutorResult(LogicalNodeId("g-0"), op(1, 1), LEASED, EffectError("but no")),
    ],
)
def test_a_result_with_neither_or_both_is_ambiguous(answers: ExecutorResult) -> None:
    c = cluster()
    c.drive()
    c.tell(answers)
    c.drive()
    assert node(c).retry.ambiguous_operation == op(1, 1)
    assert node(c).record.lease is None


def test_a_defect_in_a_pass_is_told_and_the_next_pass_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = cluster()

    def broken(*_: object) -> ReconcilePlan:
        raise ZeroDivisionError("a defect")

    with monkeypatch.context() as patched:
        plan_by(patched, broken)
        assert c.drive() == []
    assert c.state == ClusterState(nodes={})
    assert c.status().warnings == ("the latest pass failed: ZeroDivisionError: a defect",)
    c.tell(SafetyTick())
    [create] = c.drive()
    assert isinstance(create.command, CreateLease)
    assert c.status().warnings == ()


def test_a_shape_that_comes_by_message_is_refused_with_a_word() -> None:
    c = cluster(shape(generation=3))
    c.tell(UpdateDesired(shape(generation=2)))
    c.drive()
    [refused] = texts(c, EventKind.REFUSED)
    assert "generation 2" in refused
    assert "generation 3 is accepted already" in refused


def test_an_action_is_no_message() -> None:
    c = cluster()
    ready(c)
    before = c.state
    c.tell(BeginDelete(LogicalNodeId("g-0"), NodeAttemptId(1)))
    c.step()
    assert (c.state, c.queued) == (before, True)
    assert c.drive() == []


def test_after_one_attempt_that_the_allocator_does_not_confirm_none_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a plan whose first new attempt is not the allocator's, and whose second one is
    def planned(state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
        plan = reconcile(state, desired, now)
        if state.nodes or len(plan.actions) != 3:
            return plan
        wrong, next_one, last = plan.actions
        assert isinstance(wrong, Insert)
        assert isinstance(next_one, Insert)
        crossed = (
            replace(wrong, attempt=NodeAttemptId(5)),
            replace(next_one, attempt=NodeAttemptId(1)),
            last,
        )
        return replace(plan, actions=crossed)

    plan_by(monkeypatch, planned)
    c = SteppingCluster(shape(group(count=3)), retry=NO_JITTER, start=T0, check_invariants=False)

    # When that pass is applied
    c.step()

    # Then nothing of it is, and the cluster is looked at again
    assert (c.state.nodes, c.queued) == ({}, True)


def test_used_up_attempt_ids_are_told_once_and_deletes_go_on() -> None:
    last = ATTEMPT_ID_MAX - 1
    c = SteppingCluster(shape(group(count=2)), retry=NO_JITTER, start=T0, first_attempt=last)
    [create] = c.drive()
    assert create.operation == OperationId(NodeAttemptId(last), 1)
    for _ in range(3):
        c.trigger()
        c.drive()
    assert len(texts(c, EventKind.WARNING)) == 1
    waits = [n.waits_for for n in c.status().nodes if n.attempt is None]
    assert waits == ["an attempt id, and this run has used up all of them"]
    answer(c, create, LEASED)
    c.update_desired(shape(group(count=0), generation=2))
    c.drive()
    assert node(c).deleting_since == T0


def test_the_safety_tick_fires_only_when_asked_for() -> None:
    silent = cluster()
    ready(silent)
    passes = silent.passes
    silent.advance(3600)
    assert silent.passes == passes
    ticking = SteppingCluster(shape(group(count=0)), start=T0, safety_tick=timedelta(seconds=30))
    ticking.drive()
    before = ticking.passes
    ticking.advance(600)
    assert ticking.passes - before == 20


def test_late_results_of_expired_operations_stay_in_the_story() -> None:
    c = cluster()
    [create] = c.drive()
    c.advance(120)
    before = node(c)
    assert answer(c, create, LEASED) == []
    assert node(c) == before
    assert any("refused, stale" in line for line in c.story("g-0"))


def test_status_says_what_a_node_waits_for_and_until_when() -> None:
    c = cluster(shape(group(count=2)))
    create, other = c.drive()
    c.fail(create, "sold out")
    [start] = answer(c, other, LEASED)
    told = {n.node: (n.waits_for, n.until, n.last_error) for n in c.status().nodes}
    assert told == {
        "g-0": ("the next try", at(1), "sold out"),
        "g-1": ("the start of its bootstrap, op(2,2)", at(120), None),
    }
    answer(c, start, BootstrapStarted(5))  # type: ignore[arg-type]
    assert c.status().nodes[1].waits_for == "the node to join the swarm (bootstrap: created)"


def test_every_waiting_node_says_until_when_also_before_its_first_effect() -> None:
    limits = {ProviderKind("memory"): ProviderLimits(1)}
    c = cluster(replace(shape(group(count=2)), limits=limits))

    def told() -> list[tuple[str | None, datetime | None]]:
        return [(n.waits_for, n.until) for n in c.status().nodes]

    # Given nodes that are not inserted, then one whose create takes the only place
    assert told() == [("the next pass", T0)] * 2
    c.drive()

    # Then the other's turn is looked at again when that create is over at the latest
    assert told() == [
        ("its lease, op(1,1)", at(120)),
        ("its turn under its provider's limit", at(120)),
    ]
    assert c.status().requeue_at == at(120)


def test_an_error_is_history_once_ready() -> None:
    c = cluster()
    [create] = c.drive()
    c.fail(create, "sold out")
    c.drive()
    assert c.status().nodes[0].last_error == "sold out"
    [create] = c.advance(1)
    ready_from(c, create)
    [status] = c.status().nodes
    assert (status.ready, status.last_error) == (True, None)
    assert status.last_failure is not None
    assert (status.last_failure.at, status.last_failure.reason) == (T0, "sold out")


def ready_from(c: SteppingCluster, create: PlannedEffect) -> None:
    from cluster_reconciler.actors.stepping_words import JOINED, SESSION  # noqa: PLC0415
    from cluster_reconciler.messages import BootstrapConvergenceAccepted  # noqa: PLC0415

    [start] = answer(c, create, LEASED)
    answer(c, start, BootstrapStarted(SESSION))
    [hand_over] = seen(c, JOINED)
    answer(c, hand_over, BootstrapConvergenceAccepted())


def test_counts_add_up_to_the_shape() -> None:
    c = cluster(shape(group("a", 3), group("b", 2)))
    c.drive()
    c.update_desired(shape(group("a", 4), group("b", 0), generation=2))
    for status in (c.status(), (c.drive(), c.status())[1]):
        n = status.counts
        total = n.ready + n.starting + n.replacing + n.backing_off + n.missing
        assert (n.wanted, total, n.leaving) == (4, 4, 2)


def test_an_attempt_ending_refusal_looks_before_it_is_gone() -> None:
    c = cluster()
    [create] = c.drive()
    c.fail(create, "token belongs to a terminated instance", attempt_ending=True)
    [look] = c.drive()
    assert isinstance(look.command, CreateLease)
    assert look.command.adopt_only
    assert node(c).retry.consecutive_failures == 1


def test_retry_after_is_honoured() -> None:
    c = cluster()
    [create] = c.drive()
    error = EffectError("throttled", Disposition.DEFINITE, timedelta(seconds=30))
    c.tell(ExecutorResult(create.node, create.operation, error=error))
    c.drive()
    assert c.requeue_at == at(30)

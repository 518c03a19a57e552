"""The driver's plans when the incremental reconciler is wrong: what is told, and what counts then.

In production a plan is held to the full one after each safety tick; wherever invariants are checked
at each pass.  A fault is made by hand here: a change of which the reconciler is not told, or an
exception.  Deliberate slips in its own code are in `test_planning_stale_faults`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.invariant_guard import InvariantBroken
from cluster_reconciler.actors.planning import SHOWN_MAX, Planning
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    IncrementalReconciler,
    ManagedNode,
    ReconcilePlan,
    RetryPolicy,
    expand_shape,
)
from cluster_reconciler.messages import LogicalNodeId, PlannedEffect, SafetyTick
from tests.decider_words import LEASED, T0, creating, group, ready, shape, state_of
from tests.planning_counts import Compared, compared_by, planning_of
from tests.simulation.running import Mode, run
from tests.simulation.schedule import draw
from tests.stale_faults import STALE_FAULTS

pytestmark = pytest.mark.usefixtures("quiet_log")

DIFFERS = "a defect: the plan of what changed is not that of all: "
TICK = 30.0


def production(nodes: int = 1, *, safety_tick: float | None = TICK) -> SteppingCluster:
    """A driver as it runs with nobody checking invariants."""
    return SteppingCluster(
        shape(group(count=nodes)),
        retry=RetryPolicy(jitter=0.0),
        safety_tick=safety_tick,
        check_invariants=False,
    )


def waiting_for_its_lease(cluster: SteppingCluster) -> PlannedEffect:
    """Until a pass has seen that the create is out: what it waits for is kept from then on."""
    [create] = cluster.drive()
    cluster.trigger()
    assert cluster.drive() == []
    return create


def warnings(cluster: SteppingCluster) -> list[str]:
    return [event.text for event in cluster.events if event.kind is EventKind.WARNING]


def forget_a_touch(patch: pytest.MonkeyPatch, of: Callable[[ManagedNode | None], bool]) -> None:
    """The reconciler is not told of changes to such a value."""
    put = Driver._put

    def deaf(
        self: Driver, node_id: LogicalNodeId, node: ManagedNode | None, *, allocated: bool = False
    ) -> None:
        touch = self.planning.touch
        if of(node):
            setattr(self.planning, "touch", lambda _node_id: None)  # noqa: B010 - a method
        try:
            put(self, node_id, node, allocated=allocated)
        finally:
            setattr(self.planning, "touch", touch)  # noqa: B010 - a method

    patch.setattr(Driver, "_put", deaf)


def raise_at(patch: pytest.MonkeyPatch, moments: set[float]) -> None:
    """The incremental reconciler raises at so many seconds after the start."""
    reconcile = IncrementalReconciler.reconcile

    def raising(
        self: IncrementalReconciler, observed: ClusterState, desired: ExpandedShape, now: datetime
    ) -> ReconcilePlan:
        if (now - T0).total_seconds() in moments:
            raise KeyError("g-0")
        return reconcile(self, observed, desired, now)

    patch.setattr(IncrementalReconciler, "reconcile", raising)


def go_on(cluster: SteppingCluster) -> None:
    """Until the create that nobody answers has expired."""
    cluster.drive()
    cluster.advance(200)


def is_reachable(node: ManagedNode | None) -> bool:
    return node is not None and node.record.connection is not None


# -- in production --------------------------------------------------------------------------------


def test_without_a_fault_every_tick_compares_one_pass_and_says_nothing() -> None:
    cluster = production()
    [create] = cluster.drive()
    cluster.succeed(create, LEASED)
    [_start] = cluster.drive()
    before = compared_by(planning_of(cluster))

    cluster.advance(3 * TICK)

    assert (before, compared_by(planning_of(cluster))) == (Compared(0, 0), Compared(3, 0))
    assert warnings(cluster) == []


@pytest.mark.parametrize("what", ["reconcile", "is_overdue", "is_converged"])
def test_between_two_ticks_nobody_asks_all_nodes(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a driver that would notice if all its nodes were asked
    def asked(*_given: object) -> None:
        raise RuntimeError(f"{what} was asked of all nodes")

    monkeypatch.setattr(f"cluster_reconciler.actors.planning.{what}", asked)
    cluster = production(2, safety_tick=None)

    # when creates go out, one is answered, and what is out then expires and is tried again
    [first, _second] = cluster.drive()
    cluster.succeed(first, LEASED)
    [_start] = cluster.drive()
    again = cluster.advance(130)

    # then each pass is made of what has changed alone
    assert [type(effect.command).__name__ for effect in again] == ["StartBootstrap", "CreateLease"]
    assert warnings(cluster) == []


def test_the_tick_finds_a_stale_decision_tells_it_once_and_goes_by_the_full_plan() -> None:
    # given a driver whose reconciler is not told that the lease has come
    with pytest.MonkeyPatch.context() as patch:
        forget_a_touch(patch, is_reachable)
        cluster = production()
        create = waiting_for_its_lease(cluster)
        cluster.succeed(create, LEASED)
        assert cluster.drive() == []

    # when the safety tick comes
    [start] = cluster.advance(TICK)

    # then the plan of all nodes is gone by, and the difference is told with both
    assert type(start.command).__name__ == "StartBootstrap"
    [told] = warnings(cluster)
    assert told.startswith(f"{DIFFERS}after 0 equal actions it is ReconcilePlan(actions=(), ")
    assert "; of all nodes it is ReconcilePlan(actions=(Dispatch(" in told
    assert len(told) < 2 * SHOWN_MAX + 200

    # and from then on every pass looks at all nodes: there is nothing to compare any more
    cluster.advance(10 * TICK)
    assert warnings(cluster) == [told]
    assert compared_by(planning_of(cluster)) == Compared(1, 1)


def test_a_reconciler_that_raises_costs_nothing_but_a_word() -> None:
    # given one that raises at the very first pass, when nobody would compare
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {0.0})
        cluster = production()
        [create] = cluster.drive()

    # then that pass and all that follow go by the full plan, and it is told once
    assert type(create.command).__name__ == "CreateLease"
    cluster.succeed(create, LEASED)
    assert len(cluster.drive()) == 1
    cluster.advance(TICK)
    assert warnings(cluster) == [f"{DIFFERS}it raised KeyError('g-0')"]
    assert compared_by(planning_of(cluster)) == Compared(0, 1)


def test_who_asks_is_told_who_waits_for_a_place_whichever_plan_counted() -> None:
    # given three nodes and one place
    cluster = SteppingCluster(
        shape(group(count=3), limits={"memory": 1}), safety_tick=TICK, check_invariants=False
    )
    cluster.drive()

    def waiting() -> tuple[str, ...]:
        assert cluster.plan is not None
        return cluster.plan.held_back

    by_itself = waiting()
    cluster.advance(TICK)
    compared = waiting()
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {2 * TICK})
        cluster.advance(TICK)

    assert compared_by(planning_of(cluster)) == Compared(1, 1)
    assert (by_itself, compared, waiting()) == (("g-1", "g-2"),) * 3


def test_after_a_difference_nobody_is_told_that_it_is_converged_before_it_is() -> None:
    # given a node whose create is out, and a pass that plans nothing and whose plan was made anew
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {TICK})
        cluster = production()
        cluster.drive()
        cluster.advance(TICK)

    assert compared_by(planning_of(cluster)).differences == 1
    assert not cluster.converged
    assert [event.text for event in cluster.events if event.kind is EventKind.CONVERGED] == []


def test_whoever_is_asked_after_a_difference_asks_all_nodes() -> None:
    told: list[str] = []
    planning, desired = Planning(told.append), expand_shape(shape(group()))
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {0.0})
        planning.decide(state_of(creating()), desired, T0)

    assert told == [f"{DIFFERS}it raised KeyError('g-0')"]
    assert not planning.is_converged(state_of(creating()), desired)
    assert planning.is_converged(state_of(ready()), desired)


def test_the_status_speaks_of_it_to_the_end() -> None:
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {TICK})
        cluster = production()
        cluster.drive()
        before = cluster.status().warnings
        cluster.advance(TICK)
    cluster.advance(2 * TICK)

    said = "the plan of what changed was not that of all: every pass looks at all nodes now; "
    assert (before, cluster.status().warnings) == ((), (f"{said}report it, with the trace",))


def test_a_moment_that_was_kept_by_mistake_is_looked_at_anew_when_it_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a create that was refused, and a reconciler that does not know when its backoff ends
    STALE_FAULTS["backoff"].plant(monkeypatch.setattr)
    cluster = production()
    [create] = cluster.drive()
    cluster.fail(create, "sold out")
    assert cluster.drive() == []

    # when that moment has come, and what is overdue was judged
    again = cluster.advance(1.0)

    # then the create is tried again, at the first pass and with no look at the other nodes
    assert [type(effect.command).__name__ for effect in again] == ["CreateLease"]
    assert compared_by(planning_of(cluster)) == Compared(0, 0)


# -- where invariants are checked -----------------------------------------------------------------


def test_where_invariants_are_checked_the_first_stale_pass_is_a_broken_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_a_touch(monkeypatch, is_reachable)
    cluster = SteppingCluster(shape(group()))
    cluster.succeed(waiting_for_its_lease(cluster), LEASED)

    with pytest.raises(InvariantBroken, match=f"^{DIFFERS}after 0 equal actions it is "):
        cluster.drive()
    assert compared_by(planning_of(cluster)).differences == 1


def test_a_reconciler_that_raises_is_a_broken_pass_there(monkeypatch: pytest.MonkeyPatch) -> None:
    raise_at(monkeypatch, {0.0})

    with pytest.raises(InvariantBroken, match=r"it raised KeyError\('g-0'\)$"):
        SteppingCluster(shape(group())).drive()


@pytest.mark.parametrize("plans_alone", [False, True])
def test_a_simulated_life_ends_with_the_difference_and_counts_it(
    plans_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_a_touch(monkeypatch, is_reachable)

    outcome = run(draw(1), Mode.SAFETY, plans_alone=plans_alone)

    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.compared.differences) == ("InvariantBroken", 1)
    assert outcome.failure.text.startswith(f"{DIFFERS}after ")


@pytest.mark.parametrize("what", ["overdue", "is_converged"])
def test_what_else_it_answers_wrongly_breaks_a_checked_driver_as_well(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given an answer that is not what all nodes say
    wrong = {"overdue": lambda *_given: [], "is_converged": lambda *_given: True}
    monkeypatch.setattr(IncrementalReconciler, what, wrong[what])
    cluster = SteppingCluster(shape(group()))

    # then whoever steps it is told
    with pytest.raises(InvariantBroken, match=r"^a defect: "):
        go_on(cluster)


def test_the_tick_alone_asks_for_the_comparison() -> None:
    cluster = production(safety_tick=None)
    cluster.drive()
    for _ in range(3):
        cluster.trigger()
        cluster.drive()
    before = compared_by(planning_of(cluster))

    cluster.tell(SafetyTick())
    cluster.drive()

    assert (before, compared_by(planning_of(cluster))) == (Compared(0, 0), Compared(1, 0))


def test_what_is_overdue_and_not_judged_yet_makes_no_pass_look_at_all_nodes() -> None:
    # given a create whose deadline passes while its judgement waits behind other messages
    cluster = production(safety_tick=None)
    waiting_for_its_lease(cluster)
    cluster._world.clock.advance(timedelta(hours=1))
    before = compared_by(planning_of(cluster))

    # when passes come in between
    for _ in range(50):
        cluster.trigger()
        cluster.step()
        cluster.step()

    assert compared_by(planning_of(cluster)) == before

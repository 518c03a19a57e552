"""What else than the plan the safety tick compares: all that an answer of the driver stands on."""

from datetime import timedelta

import pytest

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.trace_marks import plan_mark
from cluster_reconciler.decider import IncrementalReconciler
from cluster_reconciler.messages import DeadlineDue, LogicalNodeId, SafetyTick
from tests.decider_words import LEASED, MEMORY, group, shape
from tests.planning_counts import planning_of
from tests.test_planning import (
    DIFFERS,
    TICK,
    production,
    raise_at,
    waiting_for_its_lease,
    warnings,
)

pytestmark = pytest.mark.usefixtures("quiet_log")


def test_what_is_overdue_is_compared_at_the_tick_and_judged_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a driver that never hears of anything overdue
    monkeypatch.setattr(IncrementalReconciler, "overdue", lambda *_: [])
    cluster = production(safety_tick=None)
    cluster.drive()
    cluster._world.clock.advance(timedelta(minutes=3))

    # when the tick comes, and the deadline's alarm after it
    cluster.tell(SafetyTick())
    cluster.drive()
    cluster.tell(DeadlineDue())
    cluster.drive()

    # then it is told, and the create has expired
    assert warnings(cluster)[0] == f"{DIFFERS}overdue are []; of all nodes it is ['g-0']"
    assert cluster.state.nodes[LogicalNodeId("g-0")].pending is None


def test_a_cluster_that_is_called_converged_and_is_not_is_told_at_the_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(IncrementalReconciler, "is_converged", lambda *_: True)
    cluster = production()
    cluster.drive()

    cluster.advance(TICK)

    assert warnings(cluster) == [f"{DIFFERS}converged is True; of all nodes it is False"]
    turns = (EventKind.CONVERGED, EventKind.DIVERGED)
    assert [event.kind for event in cluster.events if event.kind in turns] == [*turns]


def test_a_place_that_is_counted_twice_is_told_at_the_tick() -> None:
    # given a create that is out, and a count of two
    cluster = production()
    waiting_for_its_lease(cluster)
    planning_of(cluster)._in_flight[MEMORY, False] = 2

    cluster.advance(TICK)

    gate = ("memory", False)
    assert warnings(cluster) == [
        f"{DIFFERS}in flight are { {gate: 2} }; of all nodes it is { {gate: 1} }"
    ]


def test_the_mark_of_a_pass_that_differed_names_who_waits() -> None:
    # given three nodes, one place, and a pass that is made of all nodes
    cluster = SteppingCluster(
        shape(group(count=3), limits={"memory": 1}), safety_tick=TICK, check_invariants=False
    )
    [create] = cluster.drive()
    with pytest.MonkeyPatch.context() as patch:
        raise_at(patch, {TICK})
        cluster.advance(TICK)

    planning = planning_of(cluster)
    assert planning.latest is not None
    assert plan_mark(planning.latest, [], None, planning.waiting).held_back == 2

    # and so do those of all that follow
    cluster.succeed(create, LEASED)
    cluster.drive()
    assert planning.waiting == {"g-0", "g-2"}

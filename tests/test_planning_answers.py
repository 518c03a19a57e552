"""What `Planning` answers where the incremental reconciler is wrong: the full answer, and in words
both.  Asked by itself, without a driver."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.planning import SHOWN_MAX, Planning
from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    IncrementalReconciler,
    ManagedNode,
    ReconcilePlan,
    expand_shape,
    reconcile,
)
from cluster_reconciler.messages import LogicalNodeId
from tests.decider_words import G0, T0, at, creating, group, new, ready, shape, state_of
from tests.incremental_life import many

DIFFERS = "a defect: the plan of what changed is not that of all: "


class Asked:
    """A planning, and what it has told."""

    def __init__(self, *nodes: ManagedNode, count: int | None = None, always: bool = False) -> None:
        self.told: list[str] = []
        self.planning = (
            Planning(self.told.append, always=True) if always else Planning(self.told.append)
        )
        self.state = state_of(*nodes)
        self.desired = expand_shape(shape(group(count=len(nodes) if count is None else count)))

    def decide(self, seconds: float = 0) -> ReconcilePlan:
        return self.planning.decide(self.state, self.desired, at(seconds))


def answer(patch: pytest.MonkeyPatch, what: str, value: object) -> None:
    """The incremental reconciler answers this, whatever it is asked."""
    patch.setattr(IncrementalReconciler, what, lambda *_given: value)


def test_before_any_pass_there_is_no_plan() -> None:
    assert Asked(creating()).planning.named() is None


def test_both_plans_are_told_from_the_first_action_that_is_not_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given four slots to be filled, and an incremental plan with the last one in the second's place
    asked = Asked(count=4)
    full = reconcile(asked.state, asked.desired, T0)
    first, second, third, last = full.actions
    answer(monkeypatch, "reconcile", replace(full, actions=(first, last, third)))

    asked.planning.compare_next()
    plan = asked.decide()

    # then the full one counts, and of each so much is told as a line can bear
    said, meant = (
        str(replace(full, actions=rest))[:SHOWN_MAX]
        for rest in ((last, third), (second, third, last))
    )
    assert len(meant) == SHOWN_MAX
    assert (plan, asked.planning.latest) == (full, full)
    assert asked.told == [
        f"{DIFFERS}after 1 equal actions it is {said}; of all nodes it is {meant}"
    ]


def test_nothing_that_was_kept_is_used_after_a_difference() -> None:
    # given a node that has changed from waiting to being created, of which nothing was told
    asked = Asked(creating())
    asked.decide()
    asked.state.nodes[G0] = new()

    # when that is found, and nobody applies the plan
    asked.planning.compare_next()
    first = asked.decide()
    second = asked.decide()

    # then the next plan, which is not compared, is right by itself
    assert (len(first.actions), second) == (1, first)
    assert (asked.planning.compared, asked.planning.differences, len(asked.told)) == (1, 1, 1)


@pytest.mark.parametrize("found", [[], [LogicalNodeId("g-1")]])
def test_what_is_overdue_is_asked_of_all_where_all_is_compared(
    found: list[LogicalNodeId], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(*reversed(many(creating(), 3)), always=True)
    answer(monkeypatch, "overdue", found)

    every = asked.planning.overdue(asked.state, at(120))

    assert every == ["g-0", "g-1", "g-2"]
    assert asked.told == [f"{DIFFERS}overdue are {found}; of all nodes it is {every}"]


@pytest.mark.parametrize("converged", [False, True])
def test_whether_it_is_converged_is_asked_of_all_where_all_is_compared(
    converged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(ready() if converged else creating(), always=True)
    answer(monkeypatch, "is_converged", not converged)

    answered = asked.planning.is_converged(asked.state, asked.desired)

    assert answered is converged
    assert asked.told == [f"{DIFFERS}converged is {not converged}; of all nodes it is {converged}"]


def test_an_exception_of_it_is_told_and_the_plan_is_the_full_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raising(
        _self: object, _observed: ClusterState, _desired: ExpandedShape, _now: datetime
    ) -> ReconcilePlan:
        raise LookupError("a slot")

    asked = Asked(count=2)
    monkeypatch.setattr(IncrementalReconciler, "reconcile", raising)

    assert asked.decide() == reconcile(asked.state, asked.desired, T0)
    assert asked.told == [f"{DIFFERS}it raised LookupError('a slot')"]

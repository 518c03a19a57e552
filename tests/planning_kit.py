"""A driver whose plans are made by the test, by neither of the decider's two ways to one."""

from collections.abc import Callable
from datetime import datetime

import pytest

from cluster_reconciler.actors.planning import Planning
from cluster_reconciler.decider import ClusterState, ExpandedShape, ReconcilePlan

PlanBy = Callable[[ClusterState, ExpandedShape, datetime], ReconcilePlan]


def plan_by(monkeypatch: pytest.MonkeyPatch, plan: PlanBy) -> None:
    """From now on every driver goes by this."""

    def decide(
        self: Planning, state: ClusterState, desired: ExpandedShape, now: datetime
    ) -> ReconcilePlan:
        self.latest = plan(state, desired, now)
        return self.latest

    monkeypatch.setattr(Planning, "decide", decide)

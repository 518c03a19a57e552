"""A pass's plan, from what has changed; and, now and then, whether that is the plan of all (design
rule 29).

Rules for what may live here: it asks `decider`'s two ways to a plan, and compares.  It applies
nothing and writes nothing.  `reconcile` is the definition: where the two differ, a defect of ours
is told with both plans, its plan is the one that counts, and nothing that was kept is used again.
"""

from datetime import datetime

from msgspec.structs import replace

from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    IncrementalReconciler,
    ReconcilePlan,
    is_converged,
    is_overdue,
    reconcile,
)
from cluster_reconciler.messages import LogicalNodeId

SHOWN_MAX = 600
"""Characters of each plan, in the word of a difference: it may hold a hundred thousand actions."""


class Planning(IncrementalReconciler):
    """The incremental reconciler of one driver, held to the full one."""

    def __init__(self, *, always: bool = False) -> None:
        """`always`: compare at every pass, not only after `compare_next`."""
        super().__init__()
        self.compared = 0
        """Passes whose plan was compared."""
        self.differences = 0
        """Those among them where it was another one."""
        self._always = always
        self._compare = always
        self._latest: ReconcilePlan | None = None

    @property
    def latest(self) -> ReconcilePlan | None:
        """The plan of the latest pass, with the names of all who wait for a place."""
        latest = self._latest
        if latest is None or latest.held_back:
            return latest
        return replace(latest, held_back=self.held_back())

    def compare_next(self) -> None:
        """Hold the next pass's plan to the full one."""
        self._compare = True

    def overdue(self, observed: ClusterState, now: datetime) -> list[LogicalNodeId]:
        """See `IncrementalReconciler.overdue`."""
        found = super().overdue(observed, now)
        if self._always:
            every = sorted(n for n, node in observed.nodes.items() if is_overdue(node, now))
            assert found == every, f"a defect: overdue are {every}, found {found}"
        return found

    def is_converged(self, observed: ClusterState, desired: ExpandedShape) -> bool:
        """See `IncrementalReconciler.is_converged`."""
        found = super().is_converged(observed, desired)
        if self._always:
            assert found == is_converged(observed, desired), f"a defect: converged, found {found}"
        return found

    def decide(
        self, state: ClusterState, desired: ExpandedShape, now: datetime
    ) -> tuple[ReconcilePlan, str | None]:
        """The plan to go by, and how the incremental one differed from it, if it did."""
        difference = None
        try:
            plan = self._latest = self.reconcile(state, desired, now)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end all passes
            plan, difference = None, f"it raised {error!r}"
        if plan is None or self._compare:
            full = reconcile(state, desired, now)
            self._compare = self._always
            self.compared += 1
            difference = difference or _difference(self.latest, full)
            if difference is not None:
                self.differences += 1
                self.forget()
                difference = f"a defect: the plan of what changed is not that of all: {difference}"
            plan = self._latest = full
        return plan, difference


def _difference(found: ReconcilePlan | None, full: ReconcilePlan) -> str | None:
    """Both plans, from the first action on that is not the same."""
    if found == full:
        return None
    assert found is not None, "a plan was made, and is not there"
    same = 0
    for ours, theirs in zip(found.actions, full.actions, strict=False):
        if ours != theirs:
            break
        same += 1
    said, meant = (
        str(replace(plan, actions=plan.actions[same:]))[:SHOWN_MAX] for plan in (found, full)
    )
    return f"after {same} equal actions it is {said}; of all nodes it is {meant}"

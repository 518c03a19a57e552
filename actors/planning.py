"""A pass's plan, from what has changed; and, now and then, whether that is the plan of all.

Rules for what may live here: it asks `decider`'s two ways to a plan, and compares.  It applies
nothing and writes nothing.  `reconcile` is the definition: where the two differ, a defect of ours
is told with both plans, its plan is the one that counts, and nothing that was kept is used again.
"""

from collections.abc import Callable
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

    def __init__(self, differs: Callable[[str], None], *, always: bool = False) -> None:
        """`differs` is told of each difference, in words.  `always`: compare at every pass, and all
        that is answered; else the pass after `compare_next` alone."""
        super().__init__()
        self.compared = 0
        """Passes whose plan was compared."""
        self.differences = 0
        """Answers that were not those of all nodes."""
        self._differs = differs
        self._always = always
        self._compare = always
        self.latest: ReconcilePlan | None = None
        """The plan of the latest pass.  It need not name who waits for a place: see `named`."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """For the status, to the end: it is our fault, and somebody has to hear of it."""
        if not self.differences:
            return ()
        times = f"{self.differences} times"
        return (f"{times} the plan of what changed was not that of all: report it, with the trace",)

    def named(self) -> ReconcilePlan | None:
        """The plan of the latest pass, with the names of all who wait for a place."""
        return None if self.latest is None else self._with_names(self.latest)

    def _with_names(self, plan: ReconcilePlan) -> ReconcilePlan:
        if plan.held_back or not self.waiting:
            return plan
        return replace(plan, held_back=self.held_back())

    def compare_next(self) -> None:
        """Hold the next pass's plan to the full one."""
        self._compare = True

    def overdue(self, observed: ClusterState, now: datetime) -> list[LogicalNodeId]:
        """See `IncrementalReconciler.overdue`."""
        found = super().overdue(observed, now)
        if self._always:
            every = sorted(n for n, node in observed.nodes.items() if is_overdue(node, now))
            if found != every:
                self._differ(f"overdue are {_short(found)}; of all nodes it is {_short(every)}")
                return every
        return found

    def is_converged(self, observed: ClusterState, desired: ExpandedShape) -> bool:
        """See `IncrementalReconciler.is_converged`."""
        found = super().is_converged(observed, desired)
        if self._always and found != is_converged(observed, desired):
            self._differ(f"converged is {found}; of all nodes it is {not found}")
            return not found
        return found

    def decide(self, state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
        """The plan to go by."""
        try:
            plan = self.latest = self.reconcile(state, desired, now)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end all passes
            plan = None
            self._differ(f"it raised {error!r}")
        if plan is not None and not self._compare:
            return plan
        full = reconcile(state, desired, now)
        self._compare = self._always
        self.compared += 1
        if plan is not None and (named := self._with_names(plan)) != full:
            self._differ(_difference(named, full))
        self.latest = full
        return full

    def _differ(self, how: str) -> None:
        self.differences += 1
        self.forget()
        self._differs(f"a defect: the plan of what changed is not that of all: {how}")


def _short(value: object) -> str:
    return str(value)[:SHOWN_MAX]


def _difference(found: ReconcilePlan, full: ReconcilePlan) -> str:
    """Both plans, from the first action on that is not the same."""
    same = 0
    for ours, theirs in zip(found.actions, full.actions, strict=False):
        if ours != theirs:
            break
        same += 1
    said, meant = (_short(replace(plan, actions=plan.actions[same:])) for plan in (found, full))
    return f"after {same} equal actions it is {said}; of all nodes it is {meant}"

"""A pass's plan, from what has changed; and, now and then, whether that is the plan of all.

Rules for what may live here: it asks `decider`'s two ways, and compares.  It applies nothing and
writes nothing.  The full way is the definition: where the two differ, a defect of ours is told with
both answers, and from then on every answer is that of all nodes.  That costs more with each node,
and is right.

Compared are, in the pass after each safety tick: the plan, what is overdue, how many operations
hold a place, and, once the pass is through, whether the cluster is converged.
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
from cluster_reconciler.decider.reconcile import in_flight
from cluster_reconciler.messages import LogicalNodeId

SHOWN_MAX = 600
"""Characters of each plan, in the word of a difference: it may hold a hundred thousand actions."""

_WARNING = (
    "the plan of what changed was not that of all: every pass looks at all nodes now; report it, "
    "with the trace"
)


class Planning(IncrementalReconciler):
    """The incremental reconciler of one driver, held to the full one."""

    def __init__(self, differs: Callable[[str], None], *, always: bool = False) -> None:
        """`differs` is told of each difference, in words.  `always`: compare every answer, not only
        those of the pass after `compare_next`."""
        super().__init__()
        self.compared = 0
        """Passes whose answers were compared."""
        self.differences = 0
        """Answers that were not those of all nodes."""
        self.latest: ReconcilePlan | None = None
        """The plan of the latest pass.  It need not name who waits for a place: see `named`."""
        self._differs = differs
        self._always = always
        self._compare = always
        """The next pass is compared, or the one that runs is."""
        self._trusted = True
        """Nothing that is kept is asked any more once it is not."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """For the status, to the end: it is our fault, and somebody has to hear of it."""
        if not self.differences:
            return ()
        return (_WARNING,)

    def named(self) -> ReconcilePlan | None:
        """The plan of the latest pass, with the names of all who wait for a place."""
        return None if self.latest is None else self._with_names(self.latest)

    def compare_next(self) -> None:
        """Hold the next pass's answers to those of all nodes."""
        self._compare = True

    def decide(self, state: ClusterState, desired: ExpandedShape, now: datetime) -> ReconcilePlan:
        """The plan to go by."""
        plan = None
        if self._trusted:
            try:
                plan = self.reconcile(state, desired, now)
            except Exception as error:  # noqa: BLE001 - a defect of ours must not end all passes
                self._distrust(f"it raised {error!r}")
        if plan is None or self._compare:
            full = reconcile(state, desired, now)
            if plan is not None:
                self._hold_to(full, plan, state, now)
            self.waiting = set(full.held_back)
            plan = full
        self.latest = plan
        return plan

    def overdue(self, observed: ClusterState, now: datetime) -> list[LogicalNodeId]:
        """See `IncrementalReconciler.overdue`."""
        found = super().overdue(observed, now) if self._trusted else None
        if found is not None and not self._always:
            return found
        every = _all_overdue(observed, now)
        if found is not None and found != every:
            self._distrust(f"overdue are {_short(found)}; of all nodes it is {_short(every)}")
        return every

    def is_converged(self, observed: ClusterState, desired: ExpandedShape) -> bool:
        """See `IncrementalReconciler.is_converged`; after `decide`, in the same pass."""
        compare, self._compare = self._compare, self._always
        found = super().is_converged(observed, desired) if self._trusted else None
        if found is not None and not compare:
            return found
        converged = is_converged(observed, desired)
        if found is not None and found != converged:
            self._distrust(f"converged is {found}; of all nodes it is {converged}")
        return converged

    def _hold_to(
        self, full: ReconcilePlan, plan: ReconcilePlan, state: ClusterState, now: datetime
    ) -> None:
        """Compare a plan, and what it stands on, with those of all nodes."""
        self.compared += 1
        named = self._with_names(plan)
        held = {gate: number for gate, number in self._in_flight.items() if number}
        due = super().overdue(state, now)
        if named != full:
            self._distrust(_difference(named, full))
        elif held != in_flight(state):
            self._distrust(f"in flight are {held}; of all nodes it is {in_flight(state)}")
        elif due != (every := _all_overdue(state, now)):
            self._distrust(f"overdue are {_short(due)}; of all nodes it is {_short(every)}")

    def _with_names(self, plan: ReconcilePlan) -> ReconcilePlan:
        if plan.held_back or not self.waiting:
            return plan
        return replace(plan, held_back=self.held_back())

    def _distrust(self, how: str) -> None:
        self.differences += 1
        self._trusted = False
        self._differs(f"a defect: the plan of what changed is not that of all: {how}")


def _all_overdue(observed: ClusterState, now: datetime) -> list[LogicalNodeId]:
    return sorted(n for n, node in observed.nodes.items() if is_overdue(node, now))


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

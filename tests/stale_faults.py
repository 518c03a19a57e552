"""Deliberate slips in what the incremental reconciler keeps: each makes a decision stale.

A person could make each of them and a reader could miss it; `test_planning_stale_faults` shows what
catches which, and `planted_faults` shows some of them beside the others.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    IncrementalReconciler,
    ManagedNode,
    ReconcilePlan,
    incremental,
)
from cluster_reconciler.decider.places import Gate, occupied_gate, places_of
from cluster_reconciler.messages import ClusterShape, LogicalNodeId

Put = Callable[[object, str, object], None]
"""Puts a value in the place of an attribute: `setattr` for good, pytest's for one test."""


class StaleFault(Struct, frozen=True):
    """One slip."""

    place: str
    slip: str
    plant: Callable[[Put], None]


def a_join_is_not_told(put: Put) -> None:
    """Driver: of one kind of change the reconciler is not told."""
    before = Driver._put

    def deaf(
        self: Driver, node_id: LogicalNodeId, node: ManagedNode | None, *, allocated: bool = False
    ) -> None:
        old = self.state.nodes.get(node_id)
        joins = node is not None and node.record.swactor is not None
        if not joins or old is None or old.record.swactor is not None:
            before(self, node_id, node, allocated=allocated)
            return
        touch = self.planning.touch
        setattr(self.planning, "touch", lambda _node_id: None)  # noqa: B010 - a method
        try:
            before(self, node_id, node, allocated=allocated)
        finally:
            setattr(self.planning, "touch", touch)  # noqa: B010 - a method

    put(Driver, "_put", deaf)


def a_backoff_is_no_turn(put: Put) -> None:
    """Of the moments at which the table may answer otherwise, the next effect's is left out."""
    _leave_out(put, lambda node: (node.retry.restart_at, node.cancel_deadline))


def a_cancel_that_gives_way_is_no_turn(put: Put) -> None:
    """Of the moments at which the table may answer otherwise, the cancel deadline is left out."""
    _leave_out(put, lambda node: (node.retry.restart_at, node.retry.next_effect_at))


def _leave_out(put: Put, moments: Callable[[ManagedNode], tuple[datetime | None, ...]]) -> None:
    def next_moment(node: ManagedNode, now: datetime) -> datetime | None:
        return min((m for m in moments(node) if m is not None and m > now), default=None)

    put(incremental, "next_moment", next_moment)


def what_was_planned_is_taken_for_done(put: Put) -> None:
    """A node whose action was in the plan is not open again at the next pass."""
    before = IncrementalReconciler.reconcile

    def trusting(
        self: IncrementalReconciler, observed: ClusterState, desired: ExpandedShape, now: datetime
    ) -> ReconcilePlan:
        plan = before(self, observed, desired, now)
        self._open.clear()
        return plan

    put(IncrementalReconciler, "reconcile", trusting)


def a_place_is_never_free_again(put: Put) -> None:
    """An operation that is over goes on holding its place."""
    before = IncrementalReconciler._count

    def hoarding(
        self: IncrementalReconciler, node_id: LogicalNodeId, node: ManagedNode | None
    ) -> None:
        if node is None or occupied_gate(node) is not None:
            before(self, node_id, node)

    put(IncrementalReconciler, "_count", hoarding)


def what_is_overdue_is_dropped(put: Put) -> None:
    """An alarm that has rung is gone, whether or not anybody has judged the deadline."""
    before = IncrementalReconciler.reconcile

    def forgetful(
        self: IncrementalReconciler, observed: ClusterState, desired: ExpandedShape, now: datetime
    ) -> ReconcilePlan:
        while (alarm := self._alarms.first()) is not None and alarm <= now:
            self._alarms.take()
        return before(self, observed, desired, now)

    put(IncrementalReconciler, "reconcile", forgetful)


def another_spec_is_not_noticed(put: Put) -> None:
    """A new shape is compared by its slots, and not by their specs."""
    before = IncrementalReconciler._open_what_is_new

    def coarse(self: IncrementalReconciler, observed: ClusterState, desired: ExpandedShape) -> None:
        same = self._desired is not None and self._desired.nodes.keys() == desired.nodes.keys()
        if same and observed.nodes is self._nodes:
            self._desired = desired
        before(self, observed, desired)

    put(IncrementalReconciler, "_open_what_is_new", coarse)


def stale_entries_are_believed(put: Put) -> None:
    """A heap's first entry counts, whatever has become of its node since."""

    def first(self: incremental._Heap[datetime]) -> datetime | None:
        return self._entries[0][0] if self._entries else None

    put(incremental._Heap, "first", first)


def a_limit_is_read_once(put: Put) -> None:
    """What a provider lets run at once is remembered from the first shape on."""
    known: dict[Gate, int] = {}

    def remembered(gate: Gate, shape: ClusterShape) -> int:
        if shape.generation == 1:
            known.clear()
        return known.setdefault(gate, places_of(gate, shape))

    put(incremental, "places_of", remembered)


STALE_FAULTS = {
    "untold join": StaleFault(
        "actors/driver.py, _put",
        "the incremental reconciler is not told of a node that has joined",
        a_join_is_not_told,
    ),
    "backoff": StaleFault(
        "decider/steps.py, next_moment",
        "the end of a backoff is no moment at which a kept decision is made anew",
        a_backoff_is_no_turn,
    ),
    "cancel deadline": StaleFault(
        "decider/steps.py, next_moment",
        "the deadline of a cancel is no moment at which a kept decision is made anew",
        a_cancel_that_gives_way_is_no_turn,
    ),
    "taken for done": StaleFault(
        "decider/incremental.py, reconcile",
        "a node whose action was planned is not looked at again, applied or not",
        what_was_planned_is_taken_for_done,
    ),
    "place": StaleFault(
        "decider/incremental.py, _count",
        "an operation that is over goes on holding its place under the limit",
        a_place_is_never_free_again,
    ),
    "overdue": StaleFault(
        "decider/incremental.py, reconcile",
        "the alarm of a deadline that has passed is dropped before it was judged",
        what_is_overdue_is_dropped,
    ),
    "spec": StaleFault(
        "decider/incremental.py, _open_what_is_new",
        "another spec for the same slot is not noticed",
        another_spec_is_not_noticed,
    ),
    "stale entry": StaleFault(
        "decider/incremental.py, _Heap.first",
        "an entry of a heap is believed whose decision is another one by now",
        stale_entries_are_believed,
    ),
    "limit": StaleFault(
        "decider/incremental.py, reconcile",
        "a provider's limit is remembered from the first shape on",
        a_limit_is_read_once,
    ),
}

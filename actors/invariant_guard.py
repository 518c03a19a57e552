"""Holds the driver to the invariants of spec §14, where somebody asks for it.

That is in tests, and in a host that hunts a defect.  It changes and repairs nothing.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from cluster_reconciler.decider import (
    ClusterState,
    ExpandedShape,
    ManagedNode,
    ReconcilePlan,
    check_change,
    check_converged,
    check_dispatch,
    check_node,
    check_plan,
    check_state,
)
from cluster_reconciler.decider.invariants import check_correlation, check_owner
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    NodeObservation,
    PlannedEffect,
)


class InvariantBroken(AssertionError):
    """What can never be was seen: a defect of ours, with the node's or the plan's story in it."""


class InvariantGuard:
    """Every method raises InvariantBroken, or does nothing when the guard is off."""

    def __init__(self, *, on: bool) -> None:
        """Raises RuntimeError: it shall watch, in a Python that leaves assertions out."""
        if on and not __debug__:
            raise RuntimeError(
                "the invariants are checked by assertions, and this Python leaves them out (-O or "
                "PYTHONOPTIMIZE): run it without, or do not ask for the checks "
                "(debug_invariants, check_invariants)"
            )
        self._on = on
        self._live: dict[LogicalNodeId, ManagedNode] | None = None
        """The map that is watched: a replay gives its driver another one now and then."""
        self._put: dict[LogicalNodeId, ManagedNode] = {}
        """What the driver has put into it."""

    def plan(
        self, state: ClusterState, desired: ExpandedShape, now: datetime, plan: ReconcilePlan
    ) -> None:
        """A plan, and the state that it was made from."""
        if not self._on:
            return
        if state.nodes is not self._live:
            self._live, self._put = state.nodes, dict(state.nodes)
        self._must_hold(check_owner, state, self._put)
        self._must_hold(check_plan, state, desired, now, plan)

    def differs(self, text: str) -> None:
        """The plan of what changed was not the plan of all."""
        if self._on:
            raise InvariantBroken(text)

    def dispatch(self, state: ClusterState, effect: PlannedEffect) -> None:
        """An effect that is about to be submitted."""
        self._must_hold(check_dispatch, state, effect)

    def fold(
        self,
        node_id: LogicalNodeId,
        node: ManagedNode,
        attempt: NodeAttemptId,
        observation: NodeObservation,
    ) -> None:
        """What is about to be folded, and of which attempt it is."""
        self._must_hold(check_correlation, node_id, node, attempt, observation)

    def change(
        self,
        node_id: LogicalNodeId,
        old: ManagedNode | None,
        new: ManagedNode | None,
        next_attempts: tuple[NodeAttemptId, NodeAttemptId],
    ) -> None:
        """One node's step, and the allocator's before and after: all that one message changes."""
        if not self._on:
            return
        if new is not None:
            self._put[node_id] = new
        else:
            self._put.pop(node_id, None)
        next_before, next_after = next_attempts
        if new is not None:
            self._must_hold(check_node, node_id, new, next_after)
        change = partial(check_change, next_before=next_before, next_after=next_after)
        self._must_hold(change, node_id, old, new)

    def rest(self, state: ClusterState, desired: ExpandedShape) -> None:
        """The whole state, after a pass."""
        if not self._on:
            return
        self._must_hold(check_state, state)
        self._must_hold(check_converged, state, desired)

    def _must_hold(self, check: Callable[..., None], *values: object) -> None:
        if not self._on:
            return
        try:
            check(*values)
        except AssertionError as error:
            raise InvariantBroken(f"{error}") from error

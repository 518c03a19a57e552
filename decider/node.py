"""One node's next step: the table of spec §7.2, as data, first match wins (design rule 1).

Rules for what may live here: a row reads one node, its desired spec and `now`, and answers with at
most one action.  It mutates nothing, knows no policy and no other node; limits that concern
several nodes are `reconcile`'s.

Order is the whole theory, and a node is asked the rows of its phase only.  What is destroyed can
only be reaped or restarted.  Then BeginDelete, before "pending means wait", since waiting holds
back effects only: a node that nobody wants turns to cleanup even while its create is still out, and
the create's result is folded when it comes.  Then everything else waits for the one pending
operation.  Cleanup runs strictly one effect after another, what may exist unseen first; only then
an active node strives forward.

The README's diagram and table are drawn from `ROWS`.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Flag, auto

from msgspec import Struct

from cluster_reconciler.decider import steps
from cluster_reconciler.decider.plan import NodeDecision
from cluster_reconciler.decider.state import ManagedNode, has_ambiguous_create, has_ambiguous_start
from cluster_reconciler.decider.steps import Desired
from cluster_reconciler.messages import LogicalNodeSpec


class Phase(Flag):
    """What an attempt's rows depend on first of all."""

    ACTIVE = auto()
    DELETING = auto()
    DESTROYED = auto()


_ACTIVE, _DELETING, _DESTROYED = Phase


class Row(Struct, frozen=True, gc=False):
    """One rule: when it holds, what it says, and why it stands where it stands."""

    name: str
    phases: Phase
    """Of an attempt in another one it is not asked."""
    facts: str
    """The left column of §7.2, for people."""
    action: str
    """The right column: an action, an effect, or "wait"."""
    why: str
    holds: Callable[[ManagedNode, Desired, datetime], bool]
    decide: Callable[[ManagedNode, Desired, datetime], NodeDecision]


def reconcile_node(node: ManagedNode, desired: Desired, now: datetime) -> NodeDecision:
    """The node's next step (§7).  Pure.  A Restart carries the id `UNASSIGNED`."""
    if desired is not None and is_steady(node, desired):
        return steps.NOTHING
    return row_of(node, desired, now).decide(node, desired, now)


def row_of(node: ManagedNode, desired: Desired, now: datetime) -> Row:
    """The first row that holds; the last one always does."""
    for row in _rows_for(node):
        if row.holds(node, desired, now):
            return row
    raise AssertionError(f"{node.record.logical_node_id}: no row holds for {node}")


def _rows_for(node: ManagedNode) -> tuple[Row, ...]:
    if node.record.stage is steps.DESTROYED:
        return _DESTROYED_ROWS
    return _ACTIVE_ROWS if node.intent is steps.ACTIVE else _DELETING_ROWS


def is_steady(node: ManagedNode, desired: LogicalNodeSpec) -> bool:
    """A cheap guard before the table: ready as wanted, with nothing under way.  Ready implies
    active and unfailed, so that the table would answer the same (a test shows it)."""
    record = node.record
    return (
        record.ready
        and node.pending is None
        and node.intent is steps.ACTIVE
        and (record.desired is desired or record.desired == desired)
    )


ROWS: tuple[Row, ...] = (
    Row(
        "reap",
        _DESTROYED,
        "`Destroyed`, desired absent",
        "`Reap`",
        "Nobody waits for this slot: a restart delay would only keep it in the list.",
        lambda node, desired, now: desired is None,
        steps.reap,
    ),
    Row(
        "restart",
        _DESTROYED,
        "`Destroyed`, desired present, restart deadline due",
        "`Restart`",
        "The old attempt is gone to the last resource, so the latest spec may start anew.",
        lambda node, desired, now: steps.due(node.retry.restart_at, now),
        steps.restart,
    ),
    Row(
        "await restart",
        _DESTROYED,
        "`Destroyed`, desired present, restart deadline ahead",
        "wait",
        "An attempt that failed backs off; its cleanup did not have to.",
        lambda node, desired, now: True,
        steps.wait_restart,
    ),
    Row(
        "undesired",
        _ACTIVE,
        "active, desired absent",
        "`BeginDelete`",
        "Before the pending row: waiting holds back effects, not the turn to cleanup.",
        lambda node, desired, now: desired is None,
        steps.begin_delete,
    ),
    Row(
        "other spec",
        _ACTIVE,
        "active, desired differs from the attempt's spec",
        "`BeginDelete`",
        "A spec is an immutable template of its attempt: any difference is a replacement.",
        lambda node, desired, now: node.record.desired != desired,
        steps.begin_delete,
    ),
    Row(
        "failed",
        _ACTIVE,
        "active, attempt-ending `Failed`",
        "`BeginDelete`",
        "Cleanup begins at once; only the restart is delayed.",
        lambda node, desired, now: steps.has_failed(node),
        steps.begin_delete,
    ),
    Row(
        "pending",
        _ACTIVE | _DELETING,
        "an operation is pending",
        "wait",
        "One effect at a time: its result, or its stored deadline, comes first.",
        lambda node, desired, now: node.pending is not None,
        steps.wait_pending,
    ),
    Row(
        "mark destroyed",
        _DELETING,
        "deleting, no lease, session or unresolved ambiguity",
        "`MarkDestroyed`",
        "Before the backoff row: there is nothing left to wait for.",
        lambda node, desired, now: steps.holds_nothing(node),
        steps.mark_destroyed,
    ),
    Row(
        "cleanup backoff",
        _DELETING,
        "deleting, next effect not due",
        "wait",
        "A cancel, destroy or look that failed is tried again later.",
        lambda node, desired, now: not steps.due(node.retry.next_effect_at, now),
        steps.wait_backoff,
    ),
    Row(
        "adopt create",
        _DELETING,
        "deleting, a create of unknown outcome",
        "`CreateLease` (adopt only)",
        "What may run unseen is looked for before anything is called gone; nothing is rented.",
        lambda node, desired, now: has_ambiguous_create(node),
        steps.create,
    ),
    Row(
        "adopt start",
        _DELETING,
        "deleting, a bootstrap start of unknown outcome",
        "`StartBootstrap` (adopt only)",
        "The session must be known to be cancelled.",
        lambda node, desired, now: (
            has_ambiguous_start(node) and not steps.cancel_gave_way(node, now)
        ),
        steps.start,
    ),
    Row(
        "cancel",
        _DELETING,
        "deleting, active bootstrap",
        "`CancelBootstrap`",
        "Strictly before the destroy, so that a partial success is never ambiguous.",
        lambda node, desired, now: (
            node.active_bootstrap is not None and not steps.cancel_gave_way(node, now)
        ),
        steps.cancel,
    ),
    Row(
        "destroy",
        _DELETING,
        "deleting, no active bootstrap (or its cancel gave way), lease present",
        "`DestroyLease`",
        "The last effect of an attempt.",
        lambda node, desired, now: True,
        steps.destroy,
    ),
    Row(
        "backoff",
        _ACTIVE,
        "active, next effect not due",
        "wait",
        "A retry or probe deadline was stored when its cause was folded.",
        lambda node, desired, now: not steps.due(node.retry.next_effect_at, now),
        steps.wait_backoff,
    ),
    Row(
        "ready",
        _ACTIVE,
        "active, `HandedOff` / `Dormant`, ready",
        "none; steady state",
        "Converged nodes cost nothing.",
        lambda node, desired, now: node.record.ready,
        steps.nothing,
    ),
    Row(
        "create",
        _ACTIVE,
        "active, `New` or `LeaseRequested`, no lease",
        "`CreateLease`",
        "After an ambiguous create the executor looks before it creates again.",
        lambda node, desired, now: node.record.lease is None,
        steps.create,
    ),
    Row(
        "look up",
        _ACTIVE,
        "active, lease known, no connection",
        "`LookupEndpoint`",
        "A lease that cannot be reached yet is probed until its deadline.",
        lambda node, desired, now: node.record.connection is None,
        steps.look_up,
    ),
    Row(
        "hand over",
        _ACTIVE,
        "active, `SwactorJoined`, active bootstrap",
        "`BootstrapConvergenceObserved`",
        "The join makes the bootstrap session superfluous.",
        lambda node, desired, now: (
            node.active_bootstrap is not None and node.record.swactor is not None
        ),
        steps.hand_over,
    ),
    Row(
        "await join",
        _ACTIVE,
        "active, `BootstrapRunning`, no swactor",
        "wait",
        "The node's own news comes next, or the join deadline.",
        lambda node, desired, now: node.active_bootstrap is not None,
        steps.wait_join,
    ),
    Row(
        "start",
        _ACTIVE,
        "active, connection known, no bootstrap session",
        "`StartBootstrap`",
        "Last, so that it is what remains: leased, reachable, and nothing running.",
        lambda node, desired, now: True,
        steps.start,
    ),
)
"""In order, first match wins; together total: the last row of each phase always holds."""

_ROWS_OF = {phase: tuple(row for row in ROWS if phase in row.phases) for phase in Phase}
_DESTROYED_ROWS, _ACTIVE_ROWS, _DELETING_ROWS = (
    _ROWS_OF[phase] for phase in (_DESTROYED, _ACTIVE, _DELETING)
)

"""Plain pure functions and the state they read: no clock, random, I/O, log or thread."""

from cluster_reconciler.decider.convergence import (
    is_converged,
)
from cluster_reconciler.decider.incremental import (
    IncrementalReconciler,
)
from cluster_reconciler.decider.invariants import (
    check_change,
    check_converged,
    check_dispatch,
    check_node,
    check_plan,
    check_state,
    check_step,
)
from cluster_reconciler.decider.node import (
    ROWS,
    Row,
    reconcile_node,
    row_of,
)
from cluster_reconciler.decider.observe import (
    expire,
    is_overdue,
    observe,
    refusal,
)
from cluster_reconciler.decider.plan import (
    BeginDelete,
    Dispatch,
    ExpandedShape,
    Insert,
    MarkDestroyed,
    NodeAction,
    NodeDecision,
    Reap,
    ReconcilePlan,
    Restart,
    expand_shape,
)
from cluster_reconciler.decider.reconcile import (
    reconcile,
)
from cluster_reconciler.decider.retry import (
    END_OF_TIME,
    RetryPolicy,
    backoff,
    later,
)
from cluster_reconciler.decider.state import (
    ATTEMPT_ID_MAX,
    ClusterState,
    ManagedNode,
    PendingOperation,
    ProgressDeadline,
    ProgressWait,
    RetryState,
)

__all__ = [
    "ATTEMPT_ID_MAX",
    "END_OF_TIME",
    "ROWS",
    "BeginDelete",
    "ClusterState",
    "Dispatch",
    "ExpandedShape",
    "IncrementalReconciler",
    "Insert",
    "ManagedNode",
    "MarkDestroyed",
    "NodeAction",
    "NodeDecision",
    "PendingOperation",
    "ProgressDeadline",
    "ProgressWait",
    "Reap",
    "ReconcilePlan",
    "Restart",
    "RetryPolicy",
    "RetryState",
    "Row",
    "backoff",
    "check_change",
    "check_converged",
    "check_dispatch",
    "check_node",
    "check_plan",
    "check_state",
    "check_step",
    "expand_shape",
    "expire",
    "is_converged",
    "is_overdue",
    "later",
    "observe",
    "reconcile",
    "reconcile_node",
    "refusal",
    "row_of",
]

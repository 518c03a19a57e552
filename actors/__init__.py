"""The shell: driver actor, timers, tracing, the runtime that a host embeds, the command line.

Every name of the package is imported when it is first asked for: a command that only reads a file
must not wait for the runtime.
"""

from typing import TYPE_CHECKING

from cluster_reconciler.executors.lazy_names import lazy_names

__all__ = [
    "Cluster",
    "ClusterClosed",
    "ClusterError",
    "ClusterEvent",
    "ClusterStatus",
    "DrainIncomplete",
    "DriverDied",
    "EventKind",
    "FailureNote",
    "LeftLease",
    "NodeStatus",
    "NotConverged",
    "RetryPolicy",
    "RunLocked",
    "ShapeRefused",
    "StartFailed",
    "StatusCounts",
]

if TYPE_CHECKING:
    from cluster_reconciler.actors.errors import (
        ClusterClosed,
        ClusterError,
        DrainIncomplete,
        DriverDied,
        LeftLease,
        NotConverged,
        RunLocked,
        StartFailed,
    )
    from cluster_reconciler.actors.events import ClusterEvent, EventKind
    from cluster_reconciler.actors.runtime import Cluster
    from cluster_reconciler.actors.status import (
        ClusterStatus,
        FailureNote,
        NodeStatus,
        StatusCounts,
    )
    from cluster_reconciler.decider import RetryPolicy
    from cluster_reconciler.messages import ShapeRefused
else:  # A type checker would take every name for one of ours.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cluster_reconciler.actors.errors": (
                "ClusterClosed",
                "ClusterError",
                "DrainIncomplete",
                "DriverDied",
                "LeftLease",
                "NotConverged",
                "RunLocked",
                "StartFailed",
            ),
            "cluster_reconciler.actors.events": ("ClusterEvent", "EventKind"),
            "cluster_reconciler.actors.runtime": ("Cluster",),
            "cluster_reconciler.actors.status": (
                "ClusterStatus",
                "FailureNote",
                "NodeStatus",
                "StatusCounts",
            ),
            "cluster_reconciler.decider": ("RetryPolicy",),
            "cluster_reconciler.messages": ("ShapeRefused",),
        },
    )

"""The shell: driver actor, timers, tracing, the runtime that a host embeds, the command line."""

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

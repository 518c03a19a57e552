"""What `up` needs of a `Cluster`, as types: tests drive it with a cluster of their own.

Nothing here does anything.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from cluster_reconciler.actors.cli.shape_file import LoadedShape
from cluster_reconciler.actors.errors import LeftLease
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.status import ClusterStatus
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.provider import ListedLease
from cluster_reconciler.messages import ClusterShape


class DrivenCluster(Protocol):
    """A running cluster."""

    @property
    def leftovers(self) -> tuple[ListedLease, ...]:
        """See `Cluster`, as for all of these."""

    def wait_converged(self, timeout: float | timedelta | None = None) -> ClusterStatus:
        """Wait."""

    def update_desired(self, shape: ClusterShape) -> None:
        """Another shape."""

    def update_retry(self, policy: RetryPolicy) -> None:
        """Another policy."""

    def status(self, *, details: bool = True) -> ClusterStatus:
        """A snapshot, with what providers say of their nodes, or quickly without."""

    def events(self, *, past: bool = False) -> Iterator[ClusterEvent]:
        """From now on, or from the start on."""

    def drain(self, timeout: timedelta | None = None) -> None:
        """To nothing."""

    def possibly_left(self) -> tuple[LeftLease, ...]:
        """What exists or may."""

    def close(self, drain: bool = True) -> None:
        """End."""


StartCluster = Callable[[LoadedShape, Path | None, timedelta], DrivenCluster]

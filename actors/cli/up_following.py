"""One edit of the shape file of a running cluster, from its reading to what came of it.

On the main thread of `up`; what may block is a job.  What cannot be taken changes nothing and is
told; the file is never written.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from cluster_reconciler.actors.cli.driven_cluster import DrivenCluster
from cluster_reconciler.actors.cli.shape_change import Running, ShapeChange, compare
from cluster_reconciler.actors.cli.shape_file import LoadedShape
from cluster_reconciler.actors.cli.shape_news import ShapeNews
from cluster_reconciler.actors.cli.up_waiting import Waiting
from cluster_reconciler.actors.cli.watch import FileWatch
from cluster_reconciler.actors.cli.words import one_line
from cluster_reconciler.actors.errors import ClusterClosed, ClusterError, DriverDied
from cluster_reconciler.messages import ShapeRefused


class Following:
    """Knows what is in force, and what the file says now."""

    def __init__(self, watch: FileWatch, loaded: LoadedShape, news: ShapeNews) -> None:
        self._watch = watch
        self._news = news
        self._running = Running(loaded.shape, loaded.retry, loaded)

    @property
    def generation(self) -> int:
        """Of the shape that was accepted last."""
        return self._running.shape.generation

    def begin(self, changed: Callable[[], None]) -> None:
        """Watch; `changed` is called, on another thread, when there is something to follow."""
        self._watch.start(changed)

    def end(self) -> None:
        """Watch no more."""
        self._watch.stop()

    def follow(self, cluster: DrivenCluster, waiting: Waiting) -> bool:
        """Take up what the file says now: whether another shape was accepted.  Raises Stopped, and
        what says that the cluster is over."""
        loading = self._watch.take()
        if loading is None:
            return False
        loaded = loading.loaded
        if loaded is None:
            self._news.faults(loading.faults, self.generation)
            return False
        running = self._running
        change = waiting.result(waiting.job("compare", lambda: compare(running, loaded)))
        if change.refused is None:
            self._news.plan(change, loading.cautions)
        if change.changes:
            change = self._ask(cluster, change, waiting)
        if change.refused is not None:
            self._news.refused(change.refused, self.generation)
            return False
        self._running = replace(
            running, shape=change.shape or running.shape, retry=change.retry or running.retry
        )
        self._news.accepted(change, loading.cautions)
        return change.shape is not None

    def tell_waits(self, cluster: DrivenCluster, waiting: Waiting) -> None:
        """Which nodes the edit that was just accepted does not reach yet.  Raises Stopped."""
        with suppress(ClusterError):  # It is over, or busy: whoever asks next is told.
            status = waiting.job("status", lambda: cluster.status(details=False))
            self._news.still_waiting(waiting.result(status))

    def _ask(self, cluster: DrivenCluster, change: ShapeChange, waiting: Waiting) -> ShapeChange:
        """The change, with the reason when it was refused."""
        running = self._running
        try:
            waiting.result(waiting.job("update", lambda: _apply(cluster, change, running)))
        except ShapeRefused as refused:
            return replace(change, refused=one_line(refused.reason))
        except (DriverDied, ClusterClosed):
            raise
        except ClusterError as error:
            # The driver is busy beyond measure: no reason to drain, and the file still stands.
            self._watch.forget()
            return replace(change, refused=f"{one_line(str(error))}; it is tried again")
        return change


def _apply(cluster: DrivenCluster, change: ShapeChange, running: Running) -> None:
    """All of it or nothing: the new shape's first waits are already by the new policy."""
    if change.retry is not None:
        cluster.update_retry(change.retry)
    if change.shape is None:
        return
    try:
        cluster.update_desired(change.shape)
    except BaseException:
        if change.retry is not None:
            cluster.update_retry(running.retry)
        raise

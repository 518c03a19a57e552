"""The driver as it runs in production: its actor, its host and its timers.

Nothing is a stand-in but the executors, which whoever measures connects.  Pumped by hand, or on
threads of its own.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import cast

from cluster_reconciler.actors.bench.executors import TakenEffects
from cluster_reconciler.actors.bench.loop import Ready
from cluster_reconciler.actors.bench.replies import POLICY
from cluster_reconciler.actors.clock import SystemClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.timers import ManualTimers, ThreadTimers, Timers
from cluster_reconciler.actors.trace import TraceWriter
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import Executors
from cluster_reconciler.messages import (
    ClusterShape,
    LogicalNodeId,
    NodeLost,
    NodeObserved,
)

STOP = timedelta(seconds=10)
RESTED = timedelta(hours=1)
"""Beyond every backoff, and every node is stable again."""
SECONDS_MAX = 600
"""For anything: beyond it something hangs."""


class ShiftedClock(SystemClock):
    """The clock of production, which can be made to run ahead."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__(monotonic=lambda: monotonic() + self._ahead)

    def skip(self, span: timedelta) -> None:
        """From now on it is so much later."""
        self._ahead += span.total_seconds()


class Production:
    """A driver's actor with all that surrounds it."""

    def __init__(
        self,
        shape: ClusterShape,
        timers: Callable[[SystemClock], Timers],
        *,
        policy: RetryPolicy = POLICY,
        ready: Ready | None = None,
        trace: Path | None = None,
    ) -> None:
        """`ready`: what the driver begins with, of this same shape; None: with nothing."""
        self.clock = ShiftedClock()
        self.timers = timers(self.clock)
        self.system = ActorSystem("bench", self.clock)
        self.host = RuntimeHost(
            self.clock, self.timers, Subscriptions(), lambda _identity: None, policy.stable_after
        )
        self.driver = Driver(shape, policy, self.host, self.host)
        self.actor = DriverActor(self.system, self.driver, self.host.handled)
        self.writer = (
            TraceWriter(trace, shape=shape, policy=policy, started_at=self.clock.now())
            if trace is not None
            else None
        )
        if ready is not None:
            self.driver.state = ready.copy()
            self.driver.desired = ready.desired

    def connect(self, executors: TakenEffects) -> None:
        """Before the first message."""
        self.host.connect(self.actor, self.driver, cast(Executors, executors), self.writer)

    def lose(self, node: LogicalNodeId) -> None:
        """Tell it that the node's present attempt is lost."""
        attempt = self.driver.state.nodes[node].attempt
        self.actor.tell(NodeObserved(node, attempt, NodeLost("its power failed")))

    def skip(self, span: timedelta) -> None:
        """Let time pass, and what is due then happen: only of one that is pumped."""
        assert isinstance(self.timers, ManualTimers), "the time of threads passes by itself"
        self.clock.skip(span)
        self.timers.fire_due()

    def wait_converged(self, also: Callable[[], bool] = lambda: True) -> None:
        """Until a pass says so, and `also` does.  Raises TimeoutError."""
        news = self.host.news
        with news.changed:
            converged = news.changed.wait_for(lambda: news.converged and also(), SECONDS_MAX)
        if not converged:
            raise TimeoutError(f"the cluster has not converged within {SECONDS_MAX} s")

    def wait_ready(self, node: LogicalNodeId, also: Callable[[], bool]) -> None:
        """Until `also` says so and the node is ready, as another thread sees it.  Raises
        TimeoutError."""
        deadline = monotonic() + SECONDS_MAX
        while not (also() and self.driver.state.nodes[node].record.ready):
            if monotonic() > deadline:
                raise TimeoutError(f"{node} has not become ready within {SECONDS_MAX} s")
            sleep(0)

    def close(self) -> None:
        """End the actors and the timers."""
        left = self.system.stop(STOP)
        assert not left, f"these actors have not ended: {left}"
        if isinstance(self.timers, ThreadTimers):
            self.timers.close(STOP)
        if self.writer is not None:
            self.writer.close()


def pumped(
    shape: ClusterShape, *, ready: Ready | None = None, trace: Path | None = None
) -> Production:
    """Without a thread: whoever measures calls `actor.pump_one`, and lets time pass."""
    return Production(shape, ManualTimers, ready=ready, trace=trace)


def threaded(
    shape: ClusterShape, *, policy: RetryPolicy = POLICY, ready: Ready | None = None
) -> Production:
    """On threads, once its actors are started."""
    return Production(shape, ThreadTimers, policy=policy, ready=ready)

"""The runtime that a host embeds (design §5): one cluster, from start to the last lease.

It puts the parts together, and lets callers at the edge ask and wait.  Inside, everything is told;
the state is the driver's alone, and every wait here has an end.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from loguru import logger
from msgspec.structs import replace

from cluster_reconciler.actors.admission import refuse_unknown_providers
from cluster_reconciler.actors.assembly import CLOSE_TIMEOUT, Assembly, Settings
from cluster_reconciler.actors.errors import (
    ClusterClosed,
    ClusterError,
    DrainIncomplete,
    DriverDied,
    LeftLease,
    NotConverged,
    possibly_left,
)
from cluster_reconciler.actors.events import ClusterEvent
from cluster_reconciler.actors.parts import (
    checked_providers,
    refuse_wrong_kind,
    refuse_wrong_parts,
)
from cluster_reconciler.actors.ports import Asked, StatusQuery, UpdateRetry
from cluster_reconciler.actors.status import ClusterStatus, described
from cluster_reconciler.actors.swarm import SwarmListener, SwarmSource
from cluster_reconciler.actors.takeover import Takeover, take_over
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.provider import ListedLease, Provider
from cluster_reconciler.messages import (
    ClusterShape,
    Drain,
    LogicalNodeId,
    ShapeError,
    UpdateDesired,
)

DRAIN_TIMEOUT = timedelta(minutes=2)
SAFETY_TICK = timedelta(seconds=30)
LEASE_CHECK = timedelta(seconds=30)
ASK_TIMEOUT = timedelta(seconds=30)
"""How long a caller waits for the driver's answer; a pass takes milliseconds."""


class Cluster:
    """A running cluster.  Made by `start`; safe for threads; a context manager that drains.

    ```python
    with Cluster.start(shape, providers=[ProcessProvider()]) as cluster:
        cluster.wait_converged(timeout=60)
    ```
    """

    def __init__(
        self,
        assembly: Assembly,
        providers: Sequence[Provider],
        takeover: Takeover,
        drain_timeout: timedelta,
        seed: int,
    ) -> None:
        """Use `start`."""
        self.leftovers: tuple[ListedLease, ...] = takeover.leftovers
        """Leases that an earlier process of this run had left, as they were found at the start."""
        self._assembly = assembly
        self._actor = assembly.actor
        self._driver = assembly.driver
        self._news = assembly.host.news
        self._providers = tuple(providers)
        self._drain_timeout = drain_timeout
        self._seed = seed
        self._lock = threading.Lock()
        self._asked: set[Future[object]] = set()
        """Questions that the driver has not answered yet."""
        self._ending = threading.Lock()
        """Held while the parts are ended, so that a second closer waits for the first."""

    # -- life -------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        shape: ClusterShape,
        *,
        providers: Iterable[Provider],
        retry: RetryPolicy | None = None,
        swarm: SwarmSource | None = None,
        trace: Path | None = None,
        drain_timeout: timedelta | float = DRAIN_TIMEOUT,
        safety_tick: timedelta | float = SAFETY_TICK,
        lease_check: timedelta | float = LEASE_CHECK,
        reclaim_leftovers: bool = False,
        debug_invariants: bool = False,
    ) -> Self:
        """Take the run over and begin to converge.

        `swarm`: who tells of joins and losses; None: a listener on 127.0.0.1.  `trace`: write the
        mailbox log there.  Durations are timedeltas, or numbers of seconds.  `reclaim_leftovers`:
        end what an earlier process left alive; what its provider calls dead is ended anyhow.  The
        cluster closes the providers and the swarm when it is closed itself.

        Raises ShapeRefused, RunLocked, StartFailed, ValueError for a part or a duration that could
        not work, or OSError for the trace or the listener.  Then everything that was started has
        ended, a swarm that was started too; the providers are still the caller's.
        """
        if not isinstance(shape, ClusterShape):
            raise ShapeError(f"expected a ClusterShape, found {type(shape).__name__}")
        shape.expand()
        refuse_wrong_parts(retry, swarm, trace)
        providers = checked_providers(providers)
        drain_timeout = duration("drain_timeout", drain_timeout)
        refuse_unknown_providers(shape, [provider.kind for provider in providers])
        policy = retry if retry is not None else RetryPolicy()
        if policy.seed == 0:
            policy = replace(policy, seed=secrets.randbits(48))
        settings = Settings(
            policy,
            trace,
            # At 0 their threads would spin.
            duration("safety_tick", safety_tick, above=timedelta(0)),
            duration("lease_check", lease_check, above=timedelta(0)),
            debug_invariants,
        )
        takeover = take_over(providers, shape.run_id, reclaim=reclaim_leftovers)
        listener: SwarmListener | None = None
        assembly: Assembly | None = None
        try:
            if swarm is None:
                swarm = listener = SwarmListener()
            assembly = Assembly(shape, providers, swarm, takeover, settings)
            cluster = cls(assembly, providers, takeover, drain_timeout, policy.seed)
            cluster._actor.watch(cluster._driver_died)
            assembly.begin()
        except BaseException:
            with suppress(Exception):  # What stopped the start is what must be told.
                if assembly is not None:
                    assembly.end(close_providers=False)
                elif listener is not None:
                    listener.close(CLOSE_TIMEOUT)
            for lock in takeover.locks:
                lock.close()
            raise
        logger.info("run {}: started, seed {}", shape.run_id, policy.seed)
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- what a host does -------------------------------------------------------------------------

    def update_desired(self, shape: ClusterShape) -> None:
        """Ask for another shape; it is accepted when this returns.  Raises ShapeRefused (and then
        nothing has changed) or DriverDied."""
        self._ask(UpdateDesired(shape))

    def update_retry(self, policy: RetryPolicy) -> None:
        """Use another retry policy; deadlines that were set stay as they are.  A policy without a
        seed goes on with the one there is.  Raises ValueError for what is no policy, or
        DriverDied."""
        refuse_wrong_kind("policy", policy, RetryPolicy)
        if policy.seed == 0:
            policy = replace(policy, seed=self._seed)
        self._ask(UpdateRetry(policy))
        self._seed = policy.seed

    def wait_converged(self, timeout: float | timedelta | None = None) -> ClusterStatus:
        """Wait until the shape accepted last is reality.  `timeout`: seconds or a timedelta, below
        0 as 0; None: for ever.  Raises NotConverged, which says what is missing, DriverDied, or
        ValueError for what is no duration."""
        limit = None if timeout is None else duration("timeout", timeout, least=None)
        generation = self._driver.desired.shape.generation
        deadline = None if limit is None else monotonic() + limit.total_seconds()
        while True:
            left = None if deadline is None else deadline - monotonic()
            in_time = self._wait_converged(generation, left)
            status = self.status()  # By now a loss may have been folded that no pass has seen yet.
            if in_time and status.converged:
                return status
            if not in_time:
                raise NotConverged(status)

    def status(self, *, details: bool = True) -> ClusterStatus:
        """A snapshot.  `details`: with what providers say of their nodes, who may take up to
        `DETAILS_LIMIT`; without, nobody but the driver is asked.  Raises DriverDied."""
        status = self._ask(StatusQuery())
        assert isinstance(status, ClusterStatus), f"the driver answered {type(status)}"
        warnings = (*status.warnings, *self._assembly.warnings())
        nodes = described(status, self._providers) if details else status.nodes
        return replace(status, nodes=nodes, warnings=warnings)

    def events(self, *, past: bool = False) -> Iterator[ClusterEvent]:
        """What happens from this call on, until the cluster is closed; with `past` also what has
        happened before, from the start on.  Bounded: a reader that is too slow, or comes too late
        for all of the past, is told how much it missed."""
        return self._assembly.subscriptions.subscribe(past=past)

    def story(self, node: str) -> list[str]:
        """What the driver's mailbox remembers of one node, oldest first, as lines for people."""
        return self._actor.story(LogicalNodeId(node))

    def possibly_left(self) -> tuple[LeftLease, ...]:
        """Every lease that exists, or may; answers also when the driver is dead."""
        return possibly_left(self._assembly.state(), self._assembly.host.sent())

    def drain(self, timeout: timedelta | float | None = None) -> None:
        """Bring the cluster to nothing.  `timeout`: seconds or a timedelta, below 0 as 0; None:
        what `start` was given.  Raises DrainIncomplete, which names every lease that still exists
        or may, DriverDied, or ValueError for what is no duration: then nothing has changed."""
        limit = self._drain_timeout
        if timeout is not None:
            limit = duration("timeout", timeout, least=None)
        generation = self._ask(Drain())
        assert isinstance(generation, int), f"the driver answered {generation!r}"
        if not self._wait_converged(generation, limit.total_seconds()):
            raise DrainIncomplete(self.possibly_left())

    def close(self, drain: bool = True) -> None:
        """Drain (see `drain`) and end; without the drain it ends within two seconds, and leases
        stay as they are, also when another thread is draining.  Idempotent, and done when it
        returns, whoever was the first to ask.

        Raises what `drain` does; everything has ended then all the same.
        """
        try:
            if drain and not self._news.closed:
                self.drain()
        except ClusterClosed:  # By another thread, in the middle of it.
            if left := self.possibly_left():
                raise DrainIncomplete(left) from None
        finally:
            self._end()

    def _end(self) -> None:
        with self._ending:
            if self._news.closed:
                return
            try:
                self._assembly.end()
            finally:
                self._answer_all(ClusterClosed)

    # -- waiting ----------------------------------------------------------------------------------

    def _wait_converged(self, generation: int, seconds: float | None) -> bool:
        """False: not in time.  Raises DriverDied."""
        news = self._news
        deadline = None if seconds is None else monotonic() + seconds
        with news.changed:
            while not (news.converged and news.generation >= generation):
                self._refuse_if_over()
                left = 1.0 if deadline is None else deadline - monotonic()
                if left <= 0:
                    return False
                news.changed.wait(min(left, 1.0))  # Often enough for signals to get through.
        return True

    def _ask(self, message: object) -> object:
        """The driver's answer; raises what it raised, or DriverDied."""
        question: Future[object] = Future()
        with self._lock:
            self._asked.add(question)
        try:
            self._refuse_if_over()
            self._actor.tell(Asked(message, question))
            return question.result(ASK_TIMEOUT.total_seconds())
        except FutureTimeout:
            question.cancel()
            raise ClusterError(
                f"the driver has not answered {type(message).__name__} within "
                f"{ASK_TIMEOUT.total_seconds():g} s; it has {self._actor.depth} messages waiting"
            ) from None
        except CancelledError:  # By `_answer_all`.
            self._refuse_if_over()
            raise ClusterClosed from None  # In the middle of an end that was interrupted.
        finally:
            with self._lock:
                self._asked.discard(question)

    def _refuse_if_over(self) -> None:
        """Raises DriverDied or ClusterClosed."""
        if self._news.death is not None:
            raise DriverDied(self._news.death, self.possibly_left())
        if self._news.closed:
            raise ClusterClosed

    def _driver_died(self, reason: str) -> None:
        logger.critical("{}; leases that may be left: {}", reason, len(self.possibly_left()))
        self._news.die(reason)
        self._answer_all(lambda: DriverDied(reason, self.possibly_left()))
        self._assembly.subscriptions.close()

    def _answer_all(self, error: Callable[[], ClusterError]) -> None:
        """Nobody else will.  A question that the driver has not begun is cancelled, so that it lets
        that pass; `_ask` then says why."""
        with self._lock:
            asked = tuple(self._asked)
        for question in asked:
            if not question.cancel():
                with suppress(InvalidStateError):  # Answered at the same moment: that stands.
                    question.set_exception(error())

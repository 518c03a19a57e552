"""The parts of a running cluster, put together and taken apart (design §5).

It starts and stops them in order, and carries messages from other threads into the driver's
mailbox.  What a host may ask and wait for is `runtime`'s.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.clock import SystemClock
from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.driver_actor import DriverActor
from cluster_reconciler.actors.driver_host import RuntimeHost
from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.lease_check import LeaseCheck
from cluster_reconciler.actors.provider_faults import ProviderFaults
from cluster_reconciler.actors.spawning import ThreadSpawner
from cluster_reconciler.actors.subscriptions import Subscriptions
from cluster_reconciler.actors.swarm import SwarmSource
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.takeover import Takeover
from cluster_reconciler.actors.timers import ThreadTimers
from cluster_reconciler.actors.trace import TraceWriter
from cluster_reconciler.decider import ClusterState, RetryPolicy, later
from cluster_reconciler.executors import Executors
from cluster_reconciler.executors.provider import Provider, Stream
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    ClusterShape,
    NodeLost,
    NodeObservation,
    NodeObserved,
    ProviderKind,
    SafetyTick,
    SwactorId,
    SwactorJoined,
)

CLOSE_TIMEOUT = timedelta(seconds=1.5)
"""All of closing without a drain stays within two seconds."""

RUNNING_NAMED = 5
"""Of the calls that outlive the closing so many are named."""


class Settings(Struct, frozen=True):
    """How a cluster is run, as against what it should be."""

    retry: RetryPolicy
    trace: Path | None
    safety_tick: timedelta
    lease_check: timedelta
    check_invariants: bool


class Assembly:
    """Everything that runs.  Safe for threads where it is told something."""

    def __init__(
        self,
        shape: ClusterShape,
        providers: Sequence[Provider],
        swarm: SwarmSource,
        takeover: Takeover,
        settings: Settings,
    ) -> None:
        self._providers = tuple(providers)
        self._swarm = swarm
        self._takeover = takeover
        self._settings = settings
        self.clock = SystemClock()
        # First, since it is what may fail: nothing has been started then.
        self._trace = (
            TraceWriter(
                settings.trace,
                shape=shape,
                policy=settings.retry,
                started_at=self.clock.now(),
                first_attempt=takeover.first_attempt,
                providers=[provider.kind for provider in providers],
                check_invariants=settings.check_invariants,
            )
            if settings.trace is not None
            else None
        )
        self._system = ActorSystem(f"run-{shape.run_id}", self.clock)
        self._timers = ThreadTimers(self.clock)
        self.subscriptions = Subscriptions()
        self.host = RuntimeHost(
            self.clock, self._timers, self.subscriptions, swarm.retire, settings.retry.stable_after
        )
        self.driver = Driver(
            shape,
            settings.retry,
            self.host,
            self.host,
            first_attempt=takeover.first_attempt,
            check_invariants=settings.check_invariants,
            providers=frozenset(provider.kind for provider in providers),
        )
        self.actor = DriverActor(self._system, self.driver, self._handled)
        self._faults = ProviderFaults(self.clock, self.host.happened)
        self._executors = Executors(
            shape.run_id,
            self._providers,
            ThreadSpawner(self._system),
            reply=self.actor.tell,
            now=self.clock.now,
            ticket=swarm.ticket,
            output=self._output,
            dropped=self._faults.dropped,
        )
        self.host.connect(self.actor, self.driver, self._executors, self._trace)
        self._lock = threading.Lock()
        self._warnings: dict[str, str] = {
            f"leftover {lease.identity}": f"left by an earlier process: lease "
            f"{lease.lease.lease_id} of {lease.identity} ({lease.detail})"
            for lease in takeover.remaining
        }
        self._lease_checks: list[LeaseCheck] = []

    def begin(self) -> None:
        """Start everything; the first pass is queued."""
        self._swarm.start(self._joined, self.lost)
        self.actor.start_contained()
        self.actor.tell(SafetyTick())
        self._schedule_tick()
        for provider in self._providers:
            check = LeaseCheck(
                provider,
                self.driver.desired.shape.run_id,
                self._settings.lease_check,
                self.clock,
                known=partial(self._known_leases, provider.kind),
                is_alive=self._swarm.is_alive,
                lost=self.lost,
                warn=self._warn,
                named=partial(self._faults.named, provider.kind),
            )
            self._lease_checks.append(check)
            check.start()

    def _schedule_tick(self) -> None:
        at = later(self.clock.now(), self._settings.safety_tick)
        self._timers.schedule("safety", at, self._tick)

    def _tick(self) -> None:
        self.actor.tell(SafetyTick())
        self._schedule_tick()

    # -- what can be read from any thread ---------------------------------------------------------

    def warnings(self) -> tuple[str, ...]:
        """What a person should know and no node shows."""
        with self._lock:
            shown = tuple(self._warnings.values())
        return (*shown, *self._faults.warnings(self.driver.state.nodes))

    def state(self) -> ClusterState:
        """A copy of the observed state, read from outside: whole values, each as it was at some
        moment.  Enough to say what may exist; nothing decides by it."""
        while True:
            state = self.driver.state
            try:
                return replace(state, nodes=dict(state.nodes))
            except RuntimeError:  # The driver put a node in meanwhile: copy again.
                continue

    def _known_leases(self, kind: ProviderKind) -> list[AttemptIdentity]:
        return [
            AttemptIdentity(node.record.run_id, node_id, node.attempt)
            for node_id, node in self.state().nodes.items()
            if node.record.lease is not None and node.record.desired.provider == kind
        ]

    # -- what comes from other threads ------------------------------------------------------------

    def _handled(self, message: object) -> None:
        """After each message, in the driver's thread."""
        self.host.handled(message)
        self._faults.look(self.driver.state.nodes, self.driver.touched)

    def _observed(self, identity: AttemptIdentity, observation: NodeObservation) -> None:
        self.actor.tell(NodeObserved(identity.node, identity.attempt, observation))

    def _joined(
        self, identity: AttemptIdentity, session: BootstrapSessionId, swactor: SwactorId
    ) -> None:
        named = SwactorId(self._executors.masked(identity.attempt, str(swactor)))
        self._observed(identity, SwactorJoined(session, named))

    def lost(self, identity: AttemptIdentity, reason: object) -> None:
        """The node is gone.  A reason that is no text costs its wording, not the loss."""
        text = reason if isinstance(reason, str) else repr(reason)
        self._observed(identity, NodeLost(self._executors.masked(identity.attempt, text)))

    def _output(self, identity: AttemptIdentity, stream: Stream, sequence: int, line: str) -> None:
        text = f"{stream}[{sequence}] {line}"
        now = self.clock.now()
        event = ClusterEvent(now, EventKind.OUTPUT, identity.node, identity.attempt, text)
        self.subscriptions.publish(event)

    def _warn(self, topic: str, text: str | None) -> None:
        with self._lock:
            before = self._warnings.pop(topic, None)
            if text is not None:
                self._warnings[topic] = text
        if text is not None and text != before:
            now = self.clock.now()
            self.host.happened(ClusterEvent(now, EventKind.WARNING, None, None, text))

    # -- the end ----------------------------------------------------------------------------------

    def end(self, *, close_providers: bool = True) -> None:
        """Stop everything, the sources of messages first; within CLOSE_TIMEOUT and a little.

        `close_providers`: after a start that failed they are still the caller's.
        """
        deadline = monotonic() + CLOSE_TIMEOUT.total_seconds()

        def left(share: float = 1.0) -> timedelta:
            return timedelta(seconds=max(0.05, (deadline - monotonic()) * share))

        providers = self._providers if close_providers else ()
        steps: list[Callable[[], object]] = [
            *(check.stop for check in self._lease_checks),
            lambda: self._timers.close(left(0.3)),
            lambda: self._report_running(self._executors.close(left(0.3))),
            lambda: self._report_running(self._system.stop(left(0.5))),
            self.host.news.close,
            lambda: self._swarm.close(left(0.5)),
            *(lambda provider=provider: _close_within(provider, left()) for provider in providers),
            self.subscriptions.close,
            *(lock.close for lock in self._takeover.locks),
        ]
        if self._trace is not None:
            steps.append(self._trace.close)
        interrupted: BaseException | None = None
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the others must be closed too
                logger.error("closing: a step failed, the others go on: {!r}", error)
            except BaseException as error:  # noqa: BLE001 - they must, and it is not ours to keep
                interrupted = error
        if interrupted is not None:
            raise interrupted

    @staticmethod
    def _report_running(running: Iterable[object]) -> None:
        """One line, however many there are."""
        named = [str(one) for one in running]
        if not named:
            return
        more = f", and {len(named) - RUNNING_NAMED} more" if len(named) > RUNNING_NAMED else ""
        were = "was" if len(named) == 1 else "were"
        text = "; ".join(named[:RUNNING_NAMED]) + more
        logger.warning("closed while {} {} still running", text, were)


def _close_within(provider: Provider, timeout: timedelta) -> None:
    def run() -> None:
        try:
            provider.close()
        except BaseException as error:  # noqa: BLE001 - the others must be closed too
            logger.warning("provider {} could not close: {!r}", provider.kind, error)

    thread = threading.Thread(target=run, name=f"close-{provider.kind}", daemon=True)
    thread.start()
    thread.join(timeout.total_seconds())
    if thread.is_alive():
        logger.warning("provider {} has not closed within {}: left alone", provider.kind, timeout)

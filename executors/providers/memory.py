"""A provider whose machines exist in memory only: scripted, deterministic, and public (for the
tests of embedders as well as for ours).

By default everything succeeds at once, endpoint and join included.  `script` makes single calls go
wrong, the settings below make the whole provider slow, small or forgetful, and `world` tells what
really exists.  It has no threads and no timers: a session joins, closes or fails within the call
that starts it, or when the test says so.  Safe for threads; just as well stepped in one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.provider import (
    BootstrapContext,
    ListedLease,
    ProviderError,
)
from cluster_reconciler.executors.providers.memory_script import Fate, Hang, Script
from cluster_reconciler.executors.providers.memory_world import (
    Call,
    CallKind,
    MemoryLease,
    MemorySession,
    MemoryWorld,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapClosed,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStage,
    DestroyHandle,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LogicalNodeSpec,
    ProviderKind,
    RunId,
    SwactorId,
    SwactorJoined,
)

__all__ = [
    "Call",
    "CallKind",
    "Hang",
    "MemoryLease",
    "MemoryProvider",
    "MemorySession",
    "MemoryWorld",
    "Script",
]

T = TypeVar("T")
JoinListener = Callable[[AttemptIdentity, BootstrapSessionId, SwactorId], None]


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class MemoryProvider:
    """See the module.  The settings may be changed at any time."""

    def __init__(
        self,
        kind: str = "memory",
        *,
        now: Callable[[], datetime] = _wall_clock,
        settle_time: timedelta | float = timedelta(0),
        auto_join: bool = True,
        joined: JoinListener | None = None,
        history_max: int = 100_000,
    ) -> None:
        """`joined` plays the swarm: it is told who joined; None: the session reports it.  Without
        `auto_join` sessions join only by `join`.  `history_max`: how many calls are kept."""
        self._kind = ProviderKind(kind)
        self._settle_time = duration("settle_time", settle_time)
        self._now = now
        self.script = Script()
        self.world = MemoryWorld(self._kind, now, history_max)
        self.auto_join = auto_join
        self.joined = joined
        self.read_lag = timedelta(0)
        """How long a new machine or session is missing from finds, look-ups and lists."""
        self.endpoint_delay = timedelta(0)
        """How long after its creation a machine can be reached."""
        self.capacity: int | None = None
        """How many machines there may be at once; more are refused.  None: any number."""
        self.idempotent = False
        """Whether a second creation under the same name answers the first machine.  Otherwise it
        makes a second one, which `world.doubles` tells."""
        self.creates_per_second: int | None = None
        """Creations beyond are refused as throttled.  None: any number."""
        self.throttle_retry_after: timedelta | None = None
        """What a throttled call is told to wait."""
        self._recent_creates: deque[datetime] = deque()
        self.closed = False

    @property
    def kind(self) -> ProviderKind:
        """See `Provider`."""
        return self._kind

    @property
    def settle_time(self) -> timedelta:
        """See `Provider`."""
        return self._settle_time

    # -- the provider protocol --------------------------------------------------------------------

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        """See `Provider`."""
        return self._play(CallKind.CREATE_LEASE, identity, spec, lambda: self._make(identity, spec))

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """See `Provider`."""

        def find() -> LeaseCreated | None:
            seen = [lease for lease in self.world.leases_of(identity) if self._shows(lease)]
            return self._created(seen[0]) if seen else None

        return self._play(CallKind.FIND_LEASE, identity, None, find)

    def lookup_endpoint(
        self, identity: AttemptIdentity, lease: LeaseFacts
    ) -> EndpointLookup | LeaseAbsent:
        """See `Provider`."""

        def look() -> EndpointLookup | LeaseAbsent:
            found = self.world.lease(lease.lease_id)
            if found is None or not self._shows(found):
                return LeaseAbsent()
            return EndpointLookup(found.endpoint if self._is_reachable(found) else None)

        return self._play(CallKind.LOOKUP_ENDPOINT, identity, lease, look)

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """See `Provider`."""
        identity = context.identity

        def start() -> None:
            if self.world.lease(session.lease_id) is None:
                raise ProviderError(f"there is no lease {session.lease_id}")
            fate, reason = self.script.fate_of(call)
            self._begin(self.world.start(context), fate, reason)

        call = self.world.record(CallKind.START_BOOTSTRAP, identity, session)
        return self._play_recorded(call, start)

    def find_bootstrap(self, identity: AttemptIdentity) -> BootstrapSessionId | None:
        """See `Provider`."""

        def find() -> BootstrapSessionId | None:
            session = self.world.session(identity)
            if session is None or self._now() - session.started_at < self.read_lag:
                return None
            _repeat_end(session)
            return session.session_id

        return self._play(CallKind.FIND_BOOTSTRAP, identity, None, find)

    def accept_convergence(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """See `Provider`."""

        def accept() -> None:
            session = self.world.session(identity, session_id)
            if session is not None and self.world.end(session, "accepted"):
                session.context.report(BootstrapClosed(session_id))

        return self._play(CallKind.ACCEPT_CONVERGENCE, identity, (session_id, swactor_id), accept)

    def cancel_bootstrap(self, identity: AttemptIdentity, session_id: BootstrapSessionId) -> None:
        """See `Provider`."""

        def cancel() -> None:
            session = self.world.session(identity, session_id)
            if session is not None:
                self.world.end(session, "cancelled")

        return self._play(CallKind.CANCEL_BOOTSTRAP, identity, session_id, cancel)

    def destroy_lease(self, identity: AttemptIdentity, handle: DestroyHandle) -> bool:
        """See `Provider`."""

        def destroy() -> bool:
            self.world.destroy(handle.lease_id)
            return True

        return self._play(CallKind.DESTROY_LEASE, identity, handle, destroy)

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        """See `Provider`."""

        def listed() -> Sequence[ListedLease]:
            now = self._now()
            return tuple(
                ListedLease(lease.identity, lease.facts, detail=f"since {lease.created_at}")
                for lease in self.world.leases
                if lease.identity.run_id == run_id and now - lease.created_at >= self.read_lag
            )

        return self._play(CallKind.LIST_LEASES, None, run_id, listed)

    def close(self) -> None:
        """See `Provider`; calls that hang are released."""
        self.closed = True
        self.script.clear()

    # -- what a test does to the machines ---------------------------------------------------------

    def join(self, identity: AttemptIdentity) -> bool:
        """The attempt's session joins the swarm; False: there is none alive."""
        session = self.world.session(identity)
        if session is None or not session.alive:
            return False
        swactor_id = SwactorId(f"swactor-{identity.node}-{identity.attempt}")
        if self.joined is not None:
            self.joined(identity, session.session_id, swactor_id)
        else:
            session.context.report(SwactorJoined(session.session_id, swactor_id))
        return True

    def end_session(self, identity: AttemptIdentity, failure: str | None = None) -> bool:
        """The attempt's session closes, or fails; False: there is none alive."""
        session = self.world.session(identity)
        if session is None or not self.world.end(session, failure or "closed"):
            return False
        _repeat_end(session)
        return True

    def lose(self, identity: AttemptIdentity, reason: str) -> bool:
        """The attempt's machine is reported lost, and stays; False: it has no session."""
        session = self.world.session(identity)
        if session is None:
            return False
        session.context.lost(reason)
        return True

    def remove(self, identity: AttemptIdentity) -> bool:
        """Somebody else deletes the attempt's machines, and tells nobody; False: it has none."""
        leases = self.world.leases_of(identity)
        for lease in leases:
            self.world.destroy(lease.facts.lease_id)
        return bool(leases)

    # -- how the calls go -------------------------------------------------------------------------

    def _play(
        self,
        kind: CallKind,
        identity: AttemptIdentity | None,
        argument: object,
        effect: Callable[[], T],
    ) -> T:
        return self._play_recorded(self.world.record(kind, identity, argument), effect)

    def _play_recorded(self, call: Call, effect: Callable[[], T]) -> T:
        fault = self.script.fault_of(call)
        if fault is None:
            return effect()
        return cast("T", fault(call, effect))  # It may answer anything: that is its point.

    def _make(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        self._refuse_throttled()
        with self.world.lock:
            made = self.world.leases_of(identity)
            if made and self.idempotent:
                return self._created(made[0])
            if self.capacity is not None and self.world.size >= self.capacity:
                raise ProviderError(f"no capacity: {self.capacity} machines are all there are")
            return self._created(self.world.create(identity, spec))

    def _refuse_throttled(self) -> None:
        if self.creates_per_second is None:
            return
        with self.world.lock:
            now, recent = self._now(), self._recent_creates
            while recent and now - recent[0] >= timedelta(seconds=1):
                recent.popleft()
            if len(recent) >= self.creates_per_second:
                raise ProviderError(
                    f"throttled: at most {self.creates_per_second} creations a second",
                    retry_after=self.throttle_retry_after,
                )
            recent.append(now)

    def _created(self, lease: MemoryLease) -> LeaseCreated:
        looked_up = self.script.awaits(CallKind.LOOKUP_ENDPOINT, lease.identity)
        endpoint = lease.endpoint if self._is_reachable(lease) and not looked_up else None
        return LeaseCreated(lease.facts, endpoint)

    def _shows(self, lease: MemoryLease) -> bool:
        return self._now() - lease.created_at >= self.read_lag

    def _is_reachable(self, lease: MemoryLease) -> bool:
        return self._now() - lease.created_at >= self.endpoint_delay

    def _begin(self, session: MemorySession, fate: Fate, reason: str) -> None:
        """What a session tells of itself.  Nothing is locked: those who hear it may call back."""
        report = session.context.report
        report(BootstrapObserved(session.session_id, BootstrapStage.WAITING_FOR_SWACTOR_JOIN))
        if fate is Fate.CLOSES:
            self.end_session(session.identity)
        elif fate is Fate.FAILS:
            self.end_session(session.identity, reason)
        elif fate is Fate.JOINS and self.auto_join:
            self.join(session.identity)


def _repeat_end(session: MemorySession) -> None:
    """Report how an ended session ended; of one that was cancelled nobody wants to hear."""
    if session.end in ("accepted", "closed"):
        session.context.report(BootstrapClosed(session.session_id))
    elif session.end is not None and session.end != "cancelled":
        session.context.report(BootstrapFailed(session.session_id, session.end))

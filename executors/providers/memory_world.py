"""What really exists in a `MemoryProvider`, and what was asked of it: the oracle of a test.

It plays no faults and answers no calls: it is the truth that the answers may lie about.  Guarded by
its own lock; everything handed out is a copy.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.executors.provider import BootstrapContext
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
)


class CallKind(StrEnum):
    """The calls of the `Provider` protocol."""

    CREATE_LEASE = auto()
    FIND_LEASE = auto()
    LOOKUP_ENDPOINT = auto()
    START_BOOTSTRAP = auto()
    FIND_BOOTSTRAP = auto()
    ACCEPT_CONVERGENCE = auto()
    CANCEL_BOOTSTRAP = auto()
    DESTROY_LEASE = auto()
    LIST_LEASES = auto()


class Call(Struct, frozen=True):
    """One call, as it came in."""

    kind: CallKind
    identity: AttemptIdentity | None
    """None: a listing."""
    at: datetime
    number: int
    """Which call of its kind for its attempt, from 1 on."""
    argument: object = None
    """What was asked beside the identity: the spec, lease, session, handle or run."""


class MemoryLease(Struct, frozen=True):
    """A machine that exists."""

    identity: AttemptIdentity
    facts: LeaseFacts
    endpoint: LocalEndpoint
    spec: LogicalNodeSpec
    created_at: datetime


class MemorySession(Struct, eq=False):
    """A bootstrap session, alive or ended."""

    identity: AttemptIdentity
    session_id: BootstrapSessionId
    context: BootstrapContext
    started_at: datetime
    alive: bool = True
    end: str | None = None
    """How it ended: "accepted", "cancelled", "closed", or the reason of its failure."""


class MemoryWorld:
    """The machines and sessions that there are, and the history of calls.  Safe for threads."""

    def __init__(self, kind: ProviderKind, now: Callable[[], datetime], history_max: int) -> None:
        self._kind = kind
        self._now = now
        self._history_max = history_max
        self.lock = threading.RLock()
        """Held by the provider as well, for what must not be interleaved."""
        self._leases: dict[ProviderLeaseId, MemoryLease] = {}
        self._leases_of: dict[AttemptIdentity, dict[ProviderLeaseId, MemoryLease]] = {}
        """The same machines by attempt; no entry is empty."""
        self._sessions: dict[AttemptIdentity, list[MemorySession]] = {}
        self._creations: Counter[AttemptIdentity] = Counter()
        self._calls: deque[Call] = deque(maxlen=history_max)
        self._numbers: Counter[tuple[CallKind, AttemptIdentity | None]] = Counter()
        self._doubles: set[AttemptIdentity] = set()
        self.changes = 0
        """How often a machine was made or ended, or a second one or a second session begun."""

    # -- the oracle -------------------------------------------------------------------------------

    @property
    def leases(self) -> tuple[MemoryLease, ...]:
        """The machines that exist now, by identity."""
        with self.lock:
            return tuple(sorted(self._leases.values(), key=lambda lease: lease.identity))

    @property
    def sessions(self) -> tuple[MemorySession, ...]:
        """The bootstrap sessions that are alive now, by identity."""
        with self.lock:
            every = [s for sessions in self._sessions.values() for s in sessions if s.alive]
            return tuple(sorted(every, key=lambda session: session.identity))

    @property
    def size(self) -> int:
        """How many machines exist now."""
        return len(self._leases)

    @property
    def live(self) -> frozenset[AttemptIdentity]:
        """The attempts that have a machine now."""
        with self.lock:
            return frozenset(self._leases_of)

    @property
    def doubles(self) -> frozenset[AttemptIdentity]:
        """The attempts that ever had two machines, or two live sessions, at once: none, ever."""
        with self.lock:
            return frozenset(self._doubles)

    def creations(self, node: str | None = None, attempt: int | None = None) -> int:
        """How many machines were ever made for the attempts of this node, or for all."""
        with self.lock:
            return sum(
                count
                for identity, count in self._creations.items()
                if (node is None or identity.node == node)
                and (attempt is None or identity.attempt == attempt)
            )

    def calls(self, kind: CallKind | None = None, node: str | None = None) -> tuple[Call, ...]:
        """What was asked, oldest first; only the latest `history_max` calls are kept."""
        with self.lock:
            return tuple(
                call
                for call in self._calls
                if (kind is None or call.kind is kind)
                and (node is None or (call.identity is not None and call.identity.node == node))
            )

    def story(self, node: str | None = None) -> list[str]:
        """The kinds of the calls, in order: for one equality in a test."""
        return [call.kind.value for call in self.calls(node=node)]

    def forget(self) -> None:
        """Begin a new history; what exists stays."""
        with self.lock:
            self._calls.clear()

    # -- for the provider -------------------------------------------------------------------------

    def record(self, kind: CallKind, identity: AttemptIdentity | None, argument: object) -> Call:
        """Enter a call into the history."""
        with self.lock:
            self._numbers[kind, identity] += 1
            call = Call(kind, identity, self._now(), self._numbers[kind, identity], argument)
            self._calls.append(call)
            return call

    def leases_of(self, identity: AttemptIdentity) -> tuple[MemoryLease, ...]:
        """The machines of one attempt."""
        with self.lock:
            return tuple(self._leases_of.get(identity, {}).values())

    def lease(self, lease_id: ProviderLeaseId) -> MemoryLease | None:
        """One machine."""
        with self.lock:
            return self._leases.get(lease_id)

    def create(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> MemoryLease:
        """Make one more machine, also where there is one: whether that is right, others say."""
        with self.lock:
            self._creations[identity] += 1
            self.changes += 1
            nth = self._creations[identity]
            name = f"{self._kind}-{identity.run_id}-{identity.node}-{identity.attempt}"
            lease_id = ProviderLeaseId(name if nth == 1 else f"{name}-copy-{nth}")
            facts = LeaseFacts(provider=self._kind, lease_id=lease_id)
            endpoint = LocalEndpoint(f"memory/{lease_id}")
            lease = MemoryLease(identity, facts, endpoint, spec, self._now())
            if self.leases_of(identity):
                self._doubles.add(identity)
            self._leases[lease_id] = lease
            self._leases_of.setdefault(identity, {})[lease_id] = lease
            return lease

    def destroy(self, lease_id: ProviderLeaseId) -> MemoryLease | None:
        """End a machine and everything on it."""
        with self.lock:
            lease = self._leases.pop(lease_id, None)
            if lease is None:
                return None
            self.changes += 1
            others = self._leases_of[lease.identity]
            del others[lease_id]
            if not others:
                del self._leases_of[lease.identity]
                for session in self._sessions.pop(lease.identity, ()):
                    session.alive = False
                self._forget_old(lease.identity)
            return lease

    def start(self, context: BootstrapContext) -> MemorySession:
        """Start one more session."""
        with self.lock:
            sessions = self._sessions.setdefault(context.identity, [])
            if any(session.alive for session in sessions):
                self._doubles.add(context.identity)
                self.changes += 1
            session = MemorySession(context.identity, context.session_id, context, self._now())
            sessions.append(session)
            return session

    def session(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId | None = None
    ) -> MemorySession | None:
        """One session of the attempt; the latest when none is named."""
        with self.lock:
            for session in reversed(self._sessions.get(identity, [])):
                if session_id is None or session.session_id == session_id:
                    return session
            return None

    def end(self, session: MemorySession, how: str) -> bool:
        """End a session; False: it had ended."""
        with self.lock:
            if not session.alive:
                return False
            session.alive, session.end = False, how
            return True

    def _forget_old(self, identity: AttemptIdentity) -> None:
        """Counts of attempts that are over are kept for as many as calls are."""
        for kind in CallKind:
            self._numbers.pop((kind, identity), None)
        if len(self._creations) > self._history_max:
            over = [old for old in self._creations if old not in self._leases_of]
            for old in over[: self._history_max // 2 + 1]:
                del self._creations[old]

"""Who is a member of the swarm, and who is lost when.  Pure: no socket, thread, clock or log.

The rules:
- A ticket is issued for an attempt; nobody is admitted without one, nor after the attempt was
  retired.  Attempts of a node only count up, so one number per node remembers all retired ones.
- A membership belongs to (attempt, session).  It begins with its first admitted hello (reported
  once, as `Joined`) and ends once (reported as `Lost`, unless the attempt was retired): by a
  leave; by the news that its process is dead; when no heartbeat came for the grace; when its
  connection ended and no new one came within the reconnect grace.
- A second connection of the same session and swactor replaces the first silently: the node lost
  the old one, whatever it looks like from here.  Another swactor under a live session is refused:
  two nodes must not pass for one.  A later session of the same attempt takes over from the earlier
  one without a loss being reported, because the attempt lives; an earlier or ended one is refused.
- What was heard is judged by `judge` alone, so that everything that has arrived counts first.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    SwactorId,
)

ConnectionId = int


class Joined(Struct, frozen=True):
    """A membership began."""

    identity: AttemptIdentity
    session_id: BootstrapSessionId
    swactor_id: SwactorId


class Lost(Struct, frozen=True):
    """A membership ended."""

    identity: AttemptIdentity
    reason: str
    connection: ConnectionId | None
    """Still open, to be closed."""


class Admitted(Struct, frozen=True):
    """The hello was good."""

    joined: Joined | None
    """None: a reconnect."""
    replaced: ConnectionId | None
    """The member's connection before this one, to be closed."""


class NotAdmitted(Struct, frozen=True):
    """The hello was refused."""

    reason: str


class _Member(Struct):
    session_id: BootstrapSessionId
    swactor_id: SwactorId
    connection: ConnectionId | None
    heard_at: datetime
    """The last heartbeat, or what counts as one."""
    disconnected_at: datetime | None = None
    """Set exactly while `connection` is None."""


class _Ended(Struct, frozen=True):
    session_id: BootstrapSessionId
    """The latest of the attempt that has ended; no session up to it is admitted again."""
    reason: str


class Members:
    """The swarm.  Not safe for threads; `now` never goes back."""

    def __init__(self, grace: timedelta, reconnect_grace: timedelta) -> None:
        self._grace = grace
        self._reconnect_grace = reconnect_grace
        self._expected: set[AttemptIdentity] = set()
        """Have a ticket and are not retired; the keys of the three maps below are among them."""
        self._members: dict[AttemptIdentity, _Member] = {}
        self._ended: dict[AttemptIdentity, _Ended] = {}
        self._of_connection: dict[ConnectionId, AttemptIdentity] = {}
        """For each member's current connection."""
        self._retired: dict[tuple[RunId, LogicalNodeId], NodeAttemptId] = {}
        """The highest retired attempt of each node; those below are retired too."""

    def __len__(self) -> int:
        return len(self._members)

    def expect(self, identity: AttemptIdentity) -> None:
        """A ticket is issued; without effect for a retired attempt."""
        if not self._is_retired(identity):
            self._expected.add(identity)

    def retire(self, identity: AttemptIdentity) -> ConnectionId | None:
        """The attempt is over: nothing is reported of it any more.  The connection to close."""
        slot = (identity.run_id, identity.node)
        self._retired[slot] = max(identity.attempt, self._retired.get(slot, identity.attempt))
        self._expected.discard(identity)
        self._ended.pop(identity, None)
        member = self._members.pop(identity, None)
        if member is None or member.connection is None:
            return None
        del self._of_connection[member.connection]
        return member.connection

    def is_alive(self, identity: AttemptIdentity) -> bool:
        """Whether the attempt is a member now; one that may still reconnect is."""
        return identity in self._members

    def expects(self, identity: AttemptIdentity) -> bool:
        """Whether a ticket was issued for the attempt, and it is not over."""
        return identity in self._expected

    def admit(
        self,
        identity: AttemptIdentity,
        session_id: BootstrapSessionId,
        swactor_id: SwactorId,
        connection: ConnectionId,
        now: datetime,
    ) -> Admitted | NotAdmitted:
        """A hello with a good token came on a new connection."""
        if identity not in self._expected:
            over = "is over" if self._is_retired(identity) else "is not known here"
            return NotAdmitted(f"{identity} {over}: its token is stale")
        ended = self._ended.get(identity)
        if ended is not None and session_id <= ended.session_id:
            return NotAdmitted(f"session {session_id} of {identity} has ended: {ended.reason}")
        member = self._members.get(identity)
        replaced = None
        if member is not None:
            if session_id < member.session_id:
                return NotAdmitted(
                    f"session {session_id} of {identity} has given way to session "
                    f"{member.session_id}"
                )
            if session_id == member.session_id and swactor_id != member.swactor_id:
                return NotAdmitted(
                    f"session {session_id} of {identity} is alive as another swactor"
                )
            replaced = member.connection
            if replaced is not None:
                del self._of_connection[replaced]
        is_reconnect = member is not None and member.session_id == session_id
        self._members[identity] = _Member(session_id, swactor_id, connection, now)
        self._of_connection[connection] = identity
        joined = None if is_reconnect else Joined(identity, session_id, swactor_id)
        return Admitted(joined, replaced)

    def heard(self, connection: ConnectionId, now: datetime) -> None:
        """A heartbeat came."""
        identity = self._of_connection.get(connection)
        if identity is not None:
            self._members[identity].heard_at = now

    def left(self, connection: ConnectionId, reason: str) -> Lost | None:
        """A leave came."""
        identity = self._of_connection.get(connection)
        if identity is None:
            return None
        return self._lose(identity, f"it left the swarm: {reason}" if reason else "it left")

    def disconnected(self, connection: ConnectionId, now: datetime) -> None:
        """The connection ended, or was closed from here."""
        identity = self._of_connection.pop(connection, None)
        if identity is not None:
            member = self._members[identity]
            member.connection, member.disconnected_at = None, now

    def process_dead(self, identity: AttemptIdentity, reason: str) -> Lost | None:
        """The provider's side knows that the node's process is dead."""
        return self._lose(identity, reason) if identity in self._members else None

    def begin_anew(self, now: datetime) -> None:
        """Nobody was listening for a while: every grace begins anew."""
        for member in self._members.values():
            member.heard_at = now
            if member.disconnected_at is not None:
                member.disconnected_at = now

    def judge(self, now: datetime) -> list[Lost]:
        """End the memberships whose grace is over, in the order of their identities."""
        reasons = {i: r for i, m in self._members.items() if (r := self._verdict(m, now))}
        return [self._lose(identity, reasons[identity]) for identity in sorted(reasons)]

    def _verdict(self, member: _Member, now: datetime) -> str | None:
        """Why the member is lost; the comparisons are of spans, so that no time overflows."""
        if member.disconnected_at is not None:
            if now - member.disconnected_at >= self._reconnect_grace:
                seconds = self._reconnect_grace.total_seconds()
                return f"its connection ended and did not come back within {seconds:g} s"
        elif now - member.heard_at >= self._grace:
            return f"no heartbeat for {self._grace.total_seconds():g} s"
        return None

    def _lose(self, identity: AttemptIdentity, reason: str) -> Lost:
        member = self._members.pop(identity)
        if member.connection is not None:
            del self._of_connection[member.connection]
        self._ended[identity] = _Ended(member.session_id, reason)
        return Lost(identity, reason, member.connection)

    def _is_retired(self, identity: AttemptIdentity) -> bool:
        retired = self._retired.get((identity.run_id, identity.node))
        return retired is not None and identity.attempt <= retired

"""The swarm as the runtime sees it: tickets out, joins and losses in (design §7).

`SwarmSource` is what the runtime needs; a host with a membership of its own brings its own.
`SwarmListener` is the embedded one.  It decides who may enter and tells what happened; what that
means for a node is the driver's business.  Membership rules stand in `swarm_members`, sockets in
`swarm_connections`, the wire in `swarm_frames`.
"""

import hmac
import secrets
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from loguru import logger

from cluster_reconciler.actors.clock import Clock, SystemClock
from cluster_reconciler.actors.mailbox_words import one_line
from cluster_reconciler.actors.swarm_address import SwarmListenError, open_listening
from cluster_reconciler.actors.swarm_connections import ConnectionLoop
from cluster_reconciler.actors.swarm_frames import Hello, Welcome
from cluster_reconciler.actors.swarm_handler import Refusal
from cluster_reconciler.actors.swarm_members import (
    ConnectionId,
    Joined,
    Lost,
    Members,
    NotAdmitted,
)
from cluster_reconciler.actors.trace_log import traceback_text
from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.provider import SwarmTicket
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    SwactorId,
)

__all__ = ["SwarmListenError", "SwarmListener", "SwarmSource", "token_of"]

JoinedCallback = Callable[[AttemptIdentity, BootstrapSessionId, SwactorId], None]
LostCallback = Callable[[AttemptIdentity, str], None]

RECONNECT_GRACE_MAX = timedelta(seconds=2)
ROUND_MAX = timedelta(milliseconds=250)
ROUND_MIN = timedelta(milliseconds=10)


class SwarmSource(Protocol):
    """Tells which nodes are members of the swarm.  Safe for threads."""

    def start(self, joined: JoinedCallback, lost: LostCallback) -> None:
        """Begin; called once.  `joined` is called once for each (attempt, session), `lost` once
        for each membership that ends, after its `joined`; both from any one thread, and neither
        blocks."""

    def ticket(self, identity: AttemptIdentity) -> SwarmTicket:
        """What the attempt's node needs to join; the same at each call."""

    def retire(self, identity: AttemptIdentity) -> None:
        """The attempt is over: its token and connections are refused from now on."""

    def is_alive(self, identity: AttemptIdentity) -> bool:
        """Whether the attempt's node is a member now."""

    def close(self, timeout: timedelta) -> None:
        """End; nothing is reported afterwards."""


def token_of(secret: bytes, identity: AttemptIdentity) -> str:
    """The proof that its bearer belongs to the attempt.  The node comes last and the numbers hold
    no colon, so that no two attempts share an encoding."""
    text = f"{identity.run_id}:{identity.attempt}:{identity.node}"
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()


class SwarmListener:
    """A `SwarmSource` that nodes connect to.  Listens from its making on, answers from `start` on.

    Durations are timedeltas or seconds.

    Args:
        listen: `host:port`; port 0 is any free one.  See `address` for what became of it.
        heartbeat: how often a member is to be heard.
        grace: not heard for so long: lost.  Longer than `heartbeat`.
        reconnect_grace: a connection ended and none came back for so long: lost.
        clock: a monotonic one, see `SystemClock`.
        allow_remote: listen on an address that other machines can reach.
        advertise: the host that nodes are told, where it is not the one listened on.
        hello_timeout: a connection that has not presented itself for so long is closed.
        strangers_max: how many connections may be open that are no member's.

    Raises:
        SwarmListenError: the address cannot be listened on.
        ValueError: a span is none, or the spans do not fit together.
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        heartbeat: timedelta | float = timedelta(seconds=1),
        grace: timedelta | float = timedelta(seconds=5),
        reconnect_grace: timedelta | float | None = None,
        clock: Clock | None = None,
        *,
        allow_remote: bool = False,
        advertise: str | None = None,
        hello_timeout: timedelta | float = timedelta(seconds=5),
        strangers_max: int = 256,
    ) -> None:
        heartbeat, grace = duration("heartbeat", heartbeat), duration("grace", grace)
        hello_timeout = duration("hello_timeout", hello_timeout, above=timedelta(0))
        if not timedelta(0) < heartbeat < grace:
            raise ValueError(
                f"swarm: the grace must be longer than the heartbeat and both above 0, found "
                f"heartbeat {heartbeat.total_seconds():g} s and grace {grace.total_seconds():g} s"
            )
        if strangers_max < 1:
            raise ValueError(f"swarm: strangers_max must be at least 1, found {strangers_max}")
        if reconnect_grace is None:
            reconnect_grace = RECONNECT_GRACE_MAX
        reconnect_grace = min(duration("reconnect_grace", reconnect_grace), grace)
        self.heartbeat = heartbeat
        self._clock = clock if clock is not None else SystemClock()
        self._secret = secrets.token_bytes(32)
        self._members = Members(grace, reconnect_grace)
        self._judge_every = min(ROUND_MAX, max(ROUND_MIN, min(grace, reconnect_grace) / 10))
        self._judge_at = self._clock.now()
        self._lock = threading.Lock()
        """Guards the members, and the two queues below with them."""
        self._events: deque[Joined | Lost] = deque()
        """In the order in which they happened; told by the loop's thread alone."""
        self._to_drop: deque[ConnectionId] = deque()
        """Connections of attempts that are over."""
        self._joined: JoinedCallback | None = None
        self._lost: LostCallback | None = None
        self._closed = False
        listening, self.address = open_listening(
            listen, allow_remote=allow_remote, advertise=advertise
        )
        self._loop = ConnectionLoop(
            listening,
            _Gate(self),
            self._clock,
            round_at_least_every=self._judge_every,
            stall_after=grace / 2,
            hello_timeout=hello_timeout,
            strangers_max=strangers_max,
        )

    def start(self, joined: JoinedCallback, lost: LostCallback) -> None:
        """See `SwarmSource`; both are called on the listener's thread."""
        assert self._joined is None, "a swarm listener is started once"
        self._joined, self._lost = joined, lost
        self._loop.start()
        logger.info("swarm: listening on {}", self.address)

    def ticket(self, identity: AttemptIdentity) -> SwarmTicket:
        """See `SwarmSource`; the ticket of a retired attempt is refused when it is shown."""
        with self._lock:
            self._members.expect(identity)
        return SwarmTicket(self.address, token_of(self._secret, identity), self.heartbeat)

    def retire(self, identity: AttemptIdentity) -> None:
        """See `SwarmSource`; earlier attempts of the same node are over with it."""
        with self._lock:
            connection = self._members.retire(identity)
            if connection is not None:
                self._to_drop.append(connection)
        if connection is not None:
            self._loop.wake()

    def is_alive(self, identity: AttemptIdentity) -> bool:
        """See `SwarmSource`; one that may still reconnect is."""
        with self._lock:
            return self._members.is_alive(identity)

    def process_dead(self, identity: AttemptIdentity, reason: str) -> None:
        """The node's process is known to be dead: a member is lost at once, for that reason."""
        with self._lock:
            lost = self._members.process_dead(identity, reason)
            if lost is not None:
                self._events.append(lost)
        if lost is not None:
            self._loop.wake()

    def close(self, timeout: timedelta) -> None:
        """See `SwarmSource`.  Members are not told: their connections end."""
        self._closed = True
        if not self._loop.close(timeout):
            logger.warning(
                "swarm: a callback still runs after {:g} s; the listener ends with it",
                timeout.total_seconds(),
            )


class _Gate:
    """The listener's side that the connection loop talks to, on the loop's thread."""

    def __init__(self, listener: SwarmListener) -> None:
        self._of = listener

    def hello(self, connection: ConnectionId, hello: Hello) -> Welcome | Refusal:
        of = self._of
        identity = AttemptIdentity(
            RunId(hello.run_id), LogicalNodeId(hello.node), NodeAttemptId(hello.attempt)
        )
        expected = token_of(of._secret, identity).encode()
        if not hmac.compare_digest(expected, hello.token.encode("utf-8", "surrogatepass")):
            with of._lock:
                known = of._members.expects(identity)
            # Folded by the node only where there is one: a peer may make up any number of names.
            kind = f"token: {identity}" if known else "token"
            return Refusal(kind, f"wrong token for {one_line(str(identity), 200)}")
        with of._lock:
            answer = of._members.admit(
                identity,
                BootstrapSessionId(hello.session_id),
                SwactorId(hello.swactor_id),
                connection,
                of._clock.now(),
            )
            if not isinstance(answer, NotAdmitted) and answer.joined is not None:
                of._events.append(answer.joined)
        if isinstance(answer, NotAdmitted):
            return Refusal(f"not admitted: {identity}", one_line(answer.reason))
        if answer.replaced is not None:
            of._loop.drop(answer.replaced, None)
        return Welcome(of.heartbeat.total_seconds())

    def heartbeat(self, connection: ConnectionId) -> None:
        of = self._of
        with of._lock:
            of._members.heard(connection, of._clock.now())

    def leave(self, connection: ConnectionId, reason: str) -> None:
        of = self._of
        with of._lock:
            lost = of._members.left(connection, one_line(reason))
            if lost is not None:
                of._events.append(lost)

    def disconnected(self, connection: ConnectionId) -> None:
        of = self._of
        with of._lock:
            of._members.disconnected(connection, of._clock.now())

    def is_judging(self) -> bool:
        with self._of._lock:
            return len(self._of._members) > 0

    def stalled(self, now: datetime) -> None:
        with self._of._lock:
            self._of._members.begin_anew(now)

    def end_of_round(self, now: datetime) -> None:
        of = self._of
        with of._lock:
            if now >= of._judge_at:
                of._judge_at = now + of._judge_every
                of._events.extend(of._members.judge(now))
            events = list(of._events)
            of._events.clear()
            drops = list(of._to_drop)
            of._to_drop.clear()
        for connection in drops:
            of._loop.drop(connection, "the attempt is over")
        for event in events:
            if isinstance(event, Lost) and event.connection is not None:
                of._loop.drop(event.connection, f"lost: {event.reason}")
            self._tell(event)

    def _tell(self, event: Joined | Lost) -> None:
        of = self._of
        if of._closed or of._joined is None or of._lost is None:
            return
        try:
            if isinstance(event, Joined):
                of._joined(event.identity, event.session_id, event.swactor_id)
            else:
                of._lost(event.identity, event.reason)
        except Exception as error:  # noqa: BLE001  the callback's fault must not end the swarm
            logger.error("swarm: telling of {} failed\n{}", event.identity, traceback_text(error))

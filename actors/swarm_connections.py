"""The swarm listener's one thread: every connection, non-blocking both ways, and all bounds.

It knows frames and deadlines, and nothing of who is a member: that is asked of a `FrameHandler`,
which is called on this thread only.  Nothing a peer sends, or fails to send, holds the thread up:

- A connection that has not said a good hello within `hello_timeout` of its accept is closed,
  however many bytes it drips.
- Of such strangers (waiting, or refused and draining) at most `strangers_max` are held; a draining
  one gives way first, then the oldest, so that a crowd of them never keeps a node out.
- A connection is read at most once per round, and answers wait in at most `ANSWER_BYTES_MAX`.
- Without free descriptors a stranger gives way; without a stranger, accepting pauses, not spins.
"""

import errno
import selectors
import socket
import threading
from collections import OrderedDict
from datetime import datetime, timedelta

from loguru import logger

from cluster_reconciler.actors.clock import Clock
from cluster_reconciler.actors.swarm_frames import (
    ClientMessage,
    FrameBuffer,
    FrameError,
    Heartbeat,
    Hello,
    Leave,
    Refused,
    ServerMessage,
    decode,
    encode,
)
from cluster_reconciler.actors.swarm_handler import FrameHandler, Refusal
from cluster_reconciler.actors.swarm_members import ConnectionId
from cluster_reconciler.actors.trace_log import FoldedLog, traceback_text

READ_BYTES = 16 * 1024
ANSWER_BYTES_MAX = 256 * 1024
ACCEPTS_PER_ROUND = 64
LINGER = timedelta(seconds=1)
"""How long a refused peer may take to read why; closing at once could throw the answer away."""
ACCEPT_PAUSE = timedelta(milliseconds=200)
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
IDLE_WAIT_S = 5.0


class _Connection:
    __slots__ = ("answers", "buffer", "deadline", "identifier", "is_member", "peer", "refused",
                 "socket")  # fmt: skip

    def __init__(
        self, identifier: ConnectionId, sock: socket.socket, peer: str, deadline: datetime
    ) -> None:
        self.identifier = identifier
        self.socket = sock
        self.peer = peer
        self.buffer = FrameBuffer()
        self.answers = bytearray()
        self.deadline = deadline
        """When it is closed, unless it is a member's."""
        self.is_member = False
        """Welcomed; a connection is a member's, or waiting, or draining."""
        self.refused = False
        """Draining: nothing it sends is looked at any more."""


class ConnectionLoop:
    """The thread and its connections.  Only `wake` and `close` may be called from other threads."""

    def __init__(
        self,
        listening: socket.socket,
        handler: FrameHandler,
        clock: Clock,
        *,
        round_at_least_every: timedelta,
        stall_after: timedelta,
        hello_timeout: timedelta,
        strangers_max: int,
    ) -> None:
        self._listening = listening
        self._handler = handler
        self._clock = clock
        self._round_s = round_at_least_every.total_seconds()
        self._stall_after = stall_after
        self._hello_timeout = hello_timeout
        self._strangers_max = strangers_max
        self._log = FoldedLog(clock)
        self._connections: dict[ConnectionId, _Connection] = {}
        self._waiting: OrderedDict[ConnectionId, _Connection] = OrderedDict()
        """Have not said hello; the earliest deadline first."""
        self._draining: OrderedDict[ConnectionId, _Connection] = OrderedDict()
        """Are refused, and may still read why; the earliest deadline first."""
        self._next_identifier: ConnectionId = 1
        self._accept_again_at: datetime | None = None
        self._closing = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._waker, self._wakes = socket.socketpair()
        for end in (listening, self._waker, self._wakes):
            end.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ, None)
        self._selector.register(listening, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="swarm-listener", daemon=True)
        self._has_run = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._has_run = True

    def wake(self) -> None:
        """Run a round now; from any thread, also after the end."""
        try:
            self._waker.send(b"w")
        except OSError:
            return  # Full: a wake is under way.  Closed: nobody is left to wake.

    def close(self, timeout: timedelta) -> bool:
        """End the thread and close every socket; False: it still runs after `timeout`."""
        self._closing.set()
        self.wake()
        if not self._has_run:
            self._close_all()
            return True
        if self._thread is threading.current_thread():
            return True
        self._thread.join(max(0.0, timeout.total_seconds()))
        if self._thread.is_alive():
            self._listening.close()  # At least nobody new gets in.
            return False
        return True

    def drop(self, identifier: ConnectionId, reason: str | None) -> None:
        """Close a connection, telling it why if there is a reason; on the loop's thread only."""
        connection = self._connections.get(identifier)
        if connection is None:
            return
        if reason is None:
            self._forget(connection)
        else:
            self._answer_and_close(connection, reason)

    # The thread.

    def _run(self) -> None:
        last_round = self._clock.now()
        try:
            while not self._closing.is_set():
                wait_s = self._wait_s()
                try:
                    events = self._selector.select(wait_s)
                    now = self._clock.now()
                    is_late = now - last_round > timedelta(seconds=wait_s) + self._stall_after
                    last_round = now
                    if is_late:
                        self._after_stall(now)
                    self._round(events, now)
                except Exception as error:  # noqa: BLE001  the swarm must outlive any fault
                    self._log.write("ERROR", "round", f"swarm: {traceback_text(error)}")
                    self._closing.wait(0.1)
        finally:
            self._close_all()

    def _wait_s(self) -> float:
        """How long nothing can fall due that the sockets do not tell."""
        if self._connections or self._handler.is_judging():
            return self._round_s
        return IDLE_WAIT_S if self._accept_again_at is None else ACCEPT_PAUSE.total_seconds()

    def _round(self, events: list[tuple[selectors.SelectorKey, int]], now: datetime) -> None:
        for key, mask in events:
            connection: _Connection | None = key.data
            if connection is not None:
                self._serve(connection, mask)
            elif key.fileobj is self._listening:
                self._accept(now)
            else:
                self._drain_wakes()
        while (late := _first(self._waiting)) is not None and late.deadline <= now:
            self._refusal(late, "late", "no hello within its time")
            self._forget(late)
        while (drained := _first(self._draining)) is not None and drained.deadline <= now:
            self._forget(drained)
        if self._accept_again_at is not None and self._accept_again_at <= now:
            self._accept_again_at = None
            self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._handler.end_of_round(now)

    def _after_stall(self, now: datetime) -> None:
        logger.warning("swarm: this process was held up; every grace begins anew")
        for waiting in self._waiting.values():
            waiting.deadline = now + self._hello_timeout
        self._handler.stalled(now)

    def _drain_wakes(self) -> None:
        try:
            while self._wakes.recv(4096):
                pass
        except BlockingIOError:
            return

    def _accept(self, now: datetime) -> None:
        for _ in range(ACCEPTS_PER_ROUND):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTORS and not self._make_room(now, error):
                    return
                continue  # There is room again, or that peer has gone before it was accepted.
            accepted.setblocking(False)
            if len(self._waiting) + len(self._draining) >= self._strangers_max:
                self._evict("too many connections without a hello")
            connection = _Connection(
                self._next_identifier, accepted, _peer_name(address), now + self._hello_timeout
            )
            self._next_identifier += 1
            self._connections[connection.identifier] = connection
            self._waiting[connection.identifier] = connection
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _make_room(self, now: datetime, error: OSError) -> bool:
        """No descriptor is free: a stranger gives way; without one, accepting pauses (False)."""
        self._log.write("ERROR", "descriptors", f"swarm: cannot accept connections: {error}")
        if self._evict("the listener has no free descriptors"):
            return True
        self._selector.unregister(self._listening)
        self._accept_again_at = now + ACCEPT_PAUSE
        return False

    def _evict(self, reason: str) -> bool:
        stranger = _first(self._draining) or _first(self._waiting)
        if stranger is None:
            return False
        if not stranger.refused:
            self._refusal(stranger, "crowd", reason)
        self._forget(stranger)
        return True

    def _serve(self, connection: _Connection, mask: int) -> None:
        if connection.identifier not in self._connections:
            return  # Closed by what another connection brought in this round.
        try:
            if mask & selectors.EVENT_WRITE:
                self._send(connection)
            if mask & selectors.EVENT_READ:
                self._read(connection)
        except FrameError as error:
            self._refusal(connection, error.kind, str(error))
            self._answer_and_close(connection, str(error))
        except BlockingIOError:
            return
        except OSError as error:
            self._ended(connection, f"its connection failed: {error}")
        except Exception as error:  # noqa: BLE001  a fault met through one peer is that peer's end
            self._log.write("ERROR", "serve", f"swarm: {connection.peer}: {traceback_text(error)}")
            self._forget(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.socket.recv(READ_BYTES)
        if not data:
            self._ended(connection, "it closed before it said hello")
            return
        if connection.refused:
            return
        for frame in connection.buffer.feed(data):
            self._receive(connection, decode(frame))
            if connection.refused or connection.identifier not in self._connections:
                return

    def _receive(self, connection: _Connection, message: ClientMessage) -> None:
        handler, identifier = self._handler, connection.identifier
        if not connection.is_member:
            if not isinstance(message, Hello):
                raise FrameError("order", f"expected a hello, found a {type(message).__name__}")
            answer = handler.hello(identifier, message)
            if isinstance(answer, Refusal):
                self._refusal(connection, answer.kind, answer.reason)
                self._answer_and_close(connection, answer.reason)
                return
            connection.is_member = True
            del self._waiting[identifier]
            self._send(connection, answer)
        elif isinstance(message, Heartbeat):
            handler.heartbeat(identifier)
        elif isinstance(message, Leave):
            handler.leave(identifier, message.reason)
            self._forget(connection)
        else:
            raise FrameError("order", "expected one hello, found a second")

    def _send(self, connection: _Connection, message: ServerMessage | None = None) -> None:
        """Send what the socket takes now, and the rest when it takes more."""
        if message is not None:
            connection.answers += encode(message)
        try:
            sent = connection.socket.send(connection.answers) if connection.answers else 0
        except BlockingIOError:
            sent = 0
        del connection.answers[:sent]
        if len(connection.answers) > ANSWER_BYTES_MAX:
            self._ended(connection, "it does not read its answers")
            return
        wanted = selectors.EVENT_READ
        if connection.answers:
            wanted |= selectors.EVENT_WRITE
        elif connection.refused:
            connection.socket.shutdown(socket.SHUT_WR)
        self._selector.modify(connection.socket, wanted, connection)

    def _answer_and_close(self, connection: _Connection, reason: str) -> None:
        """Say why, then wait a little for the peer to read it."""
        if connection.refused:
            return
        if connection.is_member:
            connection.is_member = False
            self._handler.disconnected(connection.identifier)
        connection.refused = True
        connection.deadline = self._clock.now() + LINGER
        self._waiting.pop(connection.identifier, None)
        self._draining[connection.identifier] = connection
        try:
            self._send(connection, Refused(reason))
        except OSError:
            self._forget(connection)

    def _ended(self, connection: _Connection, reason: str) -> None:
        if not connection.is_member and not connection.refused:
            self._refusal(connection, "ended", reason)
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        if self._connections.pop(connection.identifier, None) is None:
            return
        self._waiting.pop(connection.identifier, None)
        self._draining.pop(connection.identifier, None)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.is_member:
            connection.is_member = False
            self._handler.disconnected(connection.identifier)

    def _refusal(self, connection: _Connection, kind: str, reason: str) -> None:
        host = connection.peer.rpartition(":")[0]
        text = f"swarm: refused {connection.peer}: {reason}"
        self._log.write("WARNING", (kind, host), text, peer=connection.peer)

    def _close_all(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._connections.clear()
        self._waiting.clear()
        self._draining.clear()
        self._selector.close()
        for end in (self._listening, self._waker, self._wakes):
            end.close()


def _first(connections: OrderedDict[ConnectionId, _Connection]) -> _Connection | None:
    return next(iter(connections.values()), None)


def _peer_name(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

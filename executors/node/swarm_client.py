"""The node's side of the swarm: one TCP connection, a hello with a token, then heartbeats.

Frames are a four-byte big-endian length and a JSON object.  It never blocks: the agent's loop
calls `tick` for what is due and `ready` for what has come.  A lost connection is made again, with
backoff.
"""

import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

VERSION = 1
FRAME_BYTES_MAX = 64 * 1024
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 2.0
CONNECT_S = 5.0
LEAVE_REASON_MAX = 5_000
"""Characters; each may need twelve bytes on the wire, and the frame must hold them."""
HEARTBEAT_MIN_S, HEARTBEAT_MAX_S = 0.001, 86_400.0

WHAT_IS_NO_SWARM_CAUSES = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""It may say anything; that costs the connection, not the node."""


class SwarmClient:
    """One node's membership."""

    def __init__(self, swarm: dict[str, Any], note: Callable[[str], None]) -> None:
        """`swarm`: address, token and the identity that the token is for; `note` tells people."""
        host, _, port = swarm["address"].rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._hello = {"type": "hello", "version": VERSION, **swarm["hello"]}
        self._heartbeat_s: float = swarm["heartbeat_s"]
        self._note = note
        self._socket: socket.socket | None = None
        self._connecting = False
        self._welcomed = False
        self._outgoing = b""
        self._incoming = b""
        self._next_at = 0.0
        """When the next connection, heartbeat or verdict over a connection that hangs is due."""
        self._retry_s = RETRY_FIRST_S

    @property
    def descriptor(self) -> int | None:
        """What to poll."""
        return self._socket.fileno() if self._socket is not None else None

    @property
    def interest(self) -> int:
        """What to poll it for."""
        writes = self._connecting or bool(self._outgoing)
        return select.POLLIN | (select.POLLOUT if writes else 0)

    def tick(self, now: float) -> float:
        """Do what is due; the seconds until the next thing is."""
        if now >= self._next_at:
            if self._socket is None:
                self._connect(now)
            elif self._welcomed:
                self._send({"type": "heartbeat"})
                self._next_at = now + self._heartbeat_s
            else:
                self._drop("no answer to the hello")
        return max(0.0, self._next_at - now)

    def ready(self) -> None:
        """The descriptor is ready for something."""
        if self._socket is None:
            return
        try:
            if self._connecting:
                error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                self._connecting = False
            self._push()
            self._receive()
        except BlockingIOError:
            return
        except WHAT_IS_NO_SWARM_CAUSES as error:
            self._drop(str(error) or type(error).__name__)

    def leave(self, reason: str) -> None:
        """Say good-bye; the connection is of no use afterwards."""
        if self._socket is None or not self._welcomed:
            return
        self._send({"type": "leave", "reason": reason[:LEAVE_REASON_MAX]})
        self.close()

    def close(self) -> None:
        """Let go of the connection without a word, for good."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._next_at = float("inf")

    def _connect(self, now: float) -> None:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connecting, self._welcomed = True, False
        self._incoming = self._outgoing = b""
        self._next_at = now + CONNECT_S
        try:
            self._socket.connect_ex(self._address)
        except OSError as error:
            self._drop(str(error))
            return
        self._outgoing = _frame(self._hello)

    def _send(self, message: dict[str, Any]) -> None:
        self._outgoing += _frame(message)
        try:
            self._push()
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(str(error))

    def _push(self) -> None:
        while self._outgoing and self._socket is not None:
            sent = self._socket.send(self._outgoing)
            self._outgoing = self._outgoing[sent:]

    def _receive(self) -> None:
        assert self._socket is not None, "there is no connection"
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the swarm has closed the connection")
            self._incoming += data
            while len(self._incoming) >= 4:
                length = struct.unpack("!I", self._incoming[:4])[0]
                if length > FRAME_BYTES_MAX:
                    raise ValueError(f"the swarm sent a frame of {length} bytes")
                if len(self._incoming) < 4 + length:
                    break
                body = self._incoming[4 : 4 + length]
                self._incoming = self._incoming[4 + length :]
                self._handle(json.loads(body))

    def _handle(self, message: dict[str, Any]) -> None:
        if message.get("type") == "welcome":
            heartbeat_s = float(message["heartbeat_s"])
            if not HEARTBEAT_MIN_S <= heartbeat_s <= HEARTBEAT_MAX_S:  # Zero or NaN: it would spin.
                raise ValueError(f"the swarm asked for a heartbeat every {heartbeat_s:g} s")
            self._welcomed = True
            self._retry_s = RETRY_FIRST_S
            self._heartbeat_s = heartbeat_s
            self._next_at = time.monotonic() + self._heartbeat_s
        elif message.get("type") == "refused":
            raise ConnectionError(f"the swarm refused this node: {message.get('reason')}")

    def _drop(self, why: str) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._note(f"swarm {self._address[0]}:{self._address[1]}: {why}; trying again")
        self._next_at = time.monotonic() + self._retry_s
        self._retry_s = min(RETRY_MAX_S, self._retry_s * 2)


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack("!I", len(body)) + body

"""The node's side of the swarm's wire, against a server that this test plays, byte by byte."""

import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster_reconciler.executors.node.swarm_client import SwarmClient

HELLO = {
    "run_id": 7,
    "node": "wörker-0",
    "attempt": 3,
    "session_id": 41,
    "swactor_id": "wörker-0/3",
    "token": "t0ken",
}
WITHIN_S = 10.0
SHORT_S = 0.02


class Wire:
    """A client, its loop, and the listener that it speaks to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.notes: list[str] = []
        address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.client = SwarmClient(
            {"address": address, "heartbeat_s": SHORT_S, "hello": HELLO}, self.notes.append
        )
        self.peers: list[socket.socket] = []
        self.received = b""

    def run_until(self, holds: Callable[[], object]) -> None:
        """Turn the client's loop as the agent does, with a deadline."""
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, f"never; notes {self.notes}, got {self.received!r}"
            left = self.client.tick(time.monotonic())
            poll = select.poll()
            if self.client.descriptor is not None:
                poll.register(self.client.descriptor, self.client.interest)
            if poll.poll(min(left, 0.01) * 1000):
                self.client.ready()

    def accept(self) -> socket.socket:
        """The client's next connection."""

        def accepted() -> bool:
            try:
                peer, _ = self.listener.accept()
            except BlockingIOError:
                return False
            peer.setblocking(False)
            self.peers.append(peer)
            self.received = b""
            return True

        self.run_until(accepted)
        return self.peers[-1]

    def frame(self) -> dict[str, Any]:
        """The next frame that the client sent on its latest connection."""
        found: list[dict[str, Any]] = []

        def whole() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.received += self.peers[-1].recv(65536)
            if len(self.received) < 4:
                return False
            (length,) = struct.unpack("!I", self.received[:4])
            if len(self.received) < 4 + length:
                return False
            found.append(json.loads(self.received[4 : 4 + length]))
            self.received = self.received[4 + length :]
            return True

        self.run_until(whole)
        return found[0]

    def send(self, message: object) -> None:
        self.peers[-1].sendall(framed(json.dumps(message).encode()))

    def join(self, heartbeat_s: float = SHORT_S) -> None:
        self.accept()
        assert self.frame()["type"] == "hello"
        self.send({"type": "welcome", "version": 1, "heartbeat_s": heartbeat_s})

    def close(self) -> None:
        self.client.close()
        for peer in (*self.peers, self.listener):
            peer.close()


def framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


def test_hello_welcome_heartbeats_and_leave(wire: Wire) -> None:
    wire.accept()
    assert wire.frame() == {"type": "hello", "version": 1, **HELLO}

    wire.send({"type": "welcome", "version": 1, "heartbeat_s": SHORT_S})
    for _ in range(3):
        assert wire.frame() == {"type": "heartbeat"}
    wire.client.leave("exit code 3")

    assert wire.client.descriptor is None
    left = wire.frame()
    while left == {"type": "heartbeat"}:
        left = wire.frame()
    assert left == {"type": "leave", "reason": "exit code 3"}
    assert wire.notes == []


def test_no_heartbeat_before_the_welcome(wire: Wire) -> None:
    wire.accept()
    wire.frame()
    until = time.monotonic() + 5 * SHORT_S

    wire.run_until(lambda: time.monotonic() > until)

    with pytest.raises(BlockingIOError):
        wire.peers[-1].recv(1)


def test_the_swarm_sets_the_pace(wire: Wire) -> None:
    wire.join(heartbeat_s=1000.0)
    until = time.monotonic() + 5 * SHORT_S

    wire.run_until(lambda: time.monotonic() > until)

    with pytest.raises(BlockingIOError):
        wire.peers[-1].recv(1)
    assert wire.client.tick(time.monotonic()) > 900


def test_a_lost_connection_is_made_again_with_the_same_hello(wire: Wire) -> None:
    wire.join()
    assert wire.frame() == {"type": "heartbeat"}

    wire.peers[-1].close()
    wire.accept()

    assert wire.frame() == {"type": "hello", "version": 1, **HELLO}
    wire.send({"type": "welcome", "version": 1, "heartbeat_s": SHORT_S})
    assert wire.frame() == {"type": "heartbeat"}
    assert len(wire.notes) == 1
    assert "trying again" in wire.notes[0]


def test_a_refusal_is_told_and_tried_again_later(wire: Wire) -> None:
    """A crowd or a late hello is refused as well: no refusal is known to be for good."""
    wire.accept()
    wire.frame()
    wire.send({"type": "refused", "reason": "the swarm is full"})
    wire.run_until(lambda: wire.notes)
    assert "refused this node: the swarm is full" in wire.notes[0]
    assert wire.client.descriptor is None

    wire.join()

    assert wire.frame() == {"type": "heartbeat"}


def test_the_pauses_between_attempts_grow_and_are_bounded(wire: Wire) -> None:
    wire.listener.close()
    pauses = []
    for _ in range(8):
        known = len(wire.notes)
        wire.client.tick(time.monotonic() + 1000)  # Whatever is due, is due now.
        wire.run_until(lambda known=known: len(wire.notes) > known)  # type: ignore[misc]
        pauses.append(wire.client.tick(time.monotonic()))

    assert pauses[0] <= 0.1
    assert 1.0 < pauses[-1] <= max(pauses) <= 2.0
    assert "t0ken" not in "".join(wire.notes)


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        framed(b"\xff\xfe"),
        framed(b"[" * 60_000),
        framed(b"[]"),
        framed(b"null"),
        framed(b""),
        framed(b'{"type":"welcome","version":1}'),
        framed(b'{"type":"welcome","version":1,"heartbeat_s":null}'),
        framed(b'{"type":"welcome","version":1,"heartbeat_s":0}'),
        framed(b'{"type":"welcome","version":1,"heartbeat_s":NaN}'),
        framed(b'{"type":"welcome","version":1,"heartbeat_s":-1}'),
        struct.pack("!I", 64 * 1024 + 1),
        struct.pack("!I", 0xFFFFFFFF),
    ],
)
def test_garbage_costs_the_connection_and_nothing_else(wire: Wire, garbage: bytes) -> None:
    wire.accept()
    wire.frame()

    wire.peers[-1].sendall(garbage)
    wire.run_until(lambda: wire.notes)

    wire.join()
    assert wire.frame() == {"type": "heartbeat"}


def test_a_welcome_in_single_bytes_is_one(wire: Wire) -> None:
    wire.accept()
    wire.frame()
    body = json.dumps({"type": "welcome", "version": 1, "heartbeat_s": SHORT_S}).encode()

    for byte in framed(body):
        wire.peers[-1].sendall(bytes([byte]))
        wire.client.ready()

    assert wire.frame() == {"type": "heartbeat"}


def test_words_that_it_does_not_know_are_ignored(wire: Wire) -> None:
    wire.join()

    wire.send({"type": "compliment", "text": "well done"})

    for _ in range(3):
        assert wire.frame() == {"type": "heartbeat"}
    assert wire.notes == []


def test_a_farewell_fits_a_frame(wire: Wire) -> None:
    wire.join(heartbeat_s=1000.0)
    until = time.monotonic() + SHORT_S
    wire.run_until(lambda: time.monotonic() > until)

    wire.client.leave("\U0001f40d" * 200_000)

    left = wire.frame()
    assert left["type"] == "leave"
    assert set(left["reason"]) == {"\U0001f40d"}

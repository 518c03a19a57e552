"""The listener on real sockets: members, strangers, floods, stalls, and a bounded end."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors.clock import Clock, ManualClock
from cluster_reconciler.actors.swarm import SwarmListener, SwarmListenError
from cluster_reconciler.actors.swarm_connections import IDLE_WAIT_S
from cluster_reconciler.actors.swarm_frames import FRAME_BYTES_MAX
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
    SwactorId,
)

PATIENCE_S = 10.0
HEARTBEAT = timedelta(milliseconds=50)
NODE = AttemptIdentity(RunId(7), LogicalNodeId("worker-0"), NodeAttemptId(1))
NEVER = timedelta(hours=1)


class World:
    """A listener and what it told; everything in it ends with the test."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.changed = threading.Condition()
        self.sockets: list[socket.socket] = []
        self.listener: SwarmListener | None = None

    def listen(
        self,
        grace: timedelta = NEVER,
        reconnect_grace: timedelta = NEVER,
        clock: Clock | None = None,
        hello_timeout: timedelta = NEVER,
        strangers_max: int = 512,
    ) -> SwarmListener:
        self.listener = SwarmListener(
            heartbeat=HEARTBEAT, grace=grace, reconnect_grace=reconnect_grace, clock=clock,
            hello_timeout=hello_timeout, strangers_max=strangers_max,
        )  # fmt: skip
        self.listener.start(
            lambda identity, session, swactor: self.tell("joined", identity, session, swactor),
            lambda identity, reason: self.tell("lost", identity, reason),
        )
        return self.listener

    def tell(self, *what: object) -> None:
        with self.changed:
            self.told.append(what)
            self.changed.notify_all()

    def wait_told(self, count: int) -> list[tuple[object, ...]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, PATIENCE_S), self.told
            return list(self.told)

    def connect(self) -> socket.socket:
        assert self.listener is not None
        host, _, port = self.listener.address.rpartition(":")
        connected = socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S)
        self.sockets.append(connected)
        return connected

    def hello(self, **changed: object) -> dict[str, object]:
        assert self.listener is not None
        return {
            "type": "hello", "version": 1, "run_id": 7, "node": "worker-0", "attempt": 1,
            "session_id": 5, "swactor_id": "me", "token": self.listener.ticket(NODE).token,
            **changed,
        }  # fmt: skip

    def present(self, **changed: object) -> tuple[socket.socket, dict[str, object]]:
        connected = self.connect()
        send(connected, self.hello(**changed))
        return connected, receive(connected)


JOINED = ("joined", NODE, BootstrapSessionId(5), SwactorId("me"))
WELCOME = {"type": "welcome", "version": 1, "heartbeat_s": 0.05}


def send(connected: socket.socket, message: dict[str, object]) -> None:
    body = json.dumps(message).encode()
    connected.sendall(len(body).to_bytes(4, "big") + body)


def receive(connected: socket.socket) -> dict[str, object]:
    stream = connected.makefile("rb")
    answer: dict[str, object] = json.loads(stream.read(int.from_bytes(stream.read(4), "big")))
    return answer


def is_closed(connected: socket.socket) -> bool:
    """Waits for the end of the connection."""
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.005)


@pytest.fixture
def world() -> Iterator[World]:
    before = threading.active_count()
    world = World()
    yield world
    if world.listener is not None:
        world.listener.close(timedelta(seconds=PATIENCE_S))
    for connected in world.sockets:
        connected.close()
    assert threading.active_count() == before


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lines.append, level="DEBUG", format="{message}")
    yield lines
    logger.remove(sink)


def test_a_node_joins_with_its_ticket_and_leaves_with_its_reason(world: World) -> None:
    listener = world.listen()
    assert not listener.is_alive(NODE)

    connected, answer = world.present()

    assert answer == WELCOME
    assert world.wait_told(1) == [JOINED]
    assert listener.is_alive(NODE)
    for _ in range(3):
        send(connected, {"type": "heartbeat"})
    send(connected, {"type": "leave", "reason": "exit 3\n\x1b[2J"})
    assert world.wait_told(2)[1] == ("lost", NODE, r"it left the swarm: exit 3\n\x1b[2J")
    assert is_closed(connected)
    assert not listener.is_alive(NODE)


def test_a_silent_member_is_lost_after_the_grace_and_told_so(world: World) -> None:
    world.listen(grace=timedelta(milliseconds=200))

    connected, _ = world.present()

    assert world.wait_told(2) == [JOINED, ("lost", NODE, "no heartbeat for 0.2 s")]
    assert receive(connected) == {"type": "refused", "reason": "lost: no heartbeat for 0.2 s"}
    assert is_closed(connected)
    # ... and its session does not come back
    _, answer = world.present()
    assert str(answer["reason"]).endswith("has ended: no heartbeat for 0.2 s")


def test_a_connection_that_ends_is_lost_after_the_reconnect_grace(world: World) -> None:
    world.listen(reconnect_grace=timedelta(milliseconds=100))
    connected, _ = world.present()
    world.wait_told(1)

    began = time.monotonic()
    connected.close()

    # It was the only connection: the listener wakes for its grace all the same.
    reason = "its connection ended and did not come back within 0.1 s"
    assert world.wait_told(2)[1] == ("lost", NODE, reason)
    assert time.monotonic() - began < IDLE_WAIT_S / 2


def test_a_reconnect_replaces_the_old_connection_without_news(world: World) -> None:
    listener = world.listen()
    first, _ = world.present()

    second, answer = world.present()

    assert answer == WELCOME
    assert is_closed(first)
    send(second, {"type": "heartbeat"})
    assert listener.is_alive(NODE)
    assert world.told == [JOINED]


def test_a_known_death_is_told_at_once(world: World) -> None:
    listener = world.listen()
    connected, _ = world.present()
    world.wait_told(1)

    listener.process_dead(NODE, "killed by signal 9; last line: bye")

    assert world.wait_told(2)[1] == ("lost", NODE, "killed by signal 9; last line: bye")
    assert receive(connected)["type"] == "refused"
    assert not listener.is_alive(NODE)


def test_a_retired_attempt_is_closed_and_its_token_is_stale(world: World) -> None:
    listener = world.listen()
    connected, _ = world.present()

    listener.retire(NODE)

    assert receive(connected) == {"type": "refused", "reason": "the attempt is over"}
    assert is_closed(connected)
    _, answer = world.present()
    stale = "run 7, node worker-0, attempt 1 is over: its token is stale"
    assert answer == {"type": "refused", "reason": stale}
    assert world.told == [JOINED]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"token": "guessed"}, "wrong token for run 7, node worker-0, attempt 1"),
        ({"token": "\u00e4"}, "wrong token for run 7, node worker-0, attempt 1"),
        ({"token": "\ud800"}, "not a message of the swarm"),
        ({"attempt": 2}, "wrong token for run 7, node worker-0, attempt 2"),
        ({"node": "worker-1"}, "wrong token for run 7, node worker-1, attempt 1"),
        ({"version": 2}, "it speaks version 2"),
        ({"session_id": "five"}, "not a message of the swarm"),
        ({"type": "heartbeat"}, "expected a hello, found a Heartbeat"),
    ],
)
def test_a_wrong_hello_is_answered_with_the_reason_and_logged_with_the_peer(
    world: World, log: list[str], changed: dict[str, object], reason: str
) -> None:
    world.listen()

    connected, answer = world.present(**changed)

    assert answer["type"] == "refused"
    assert reason in str(answer["reason"])
    assert is_closed(connected)
    host, port = connected.getsockname()
    assert [line for line in log if f"swarm: refused {host}:{port}: " in line]
    assert world.told == []


def test_an_oversized_frame_is_refused_before_it_is_sent(world: World) -> None:
    world.listen()
    connected = world.connect()

    connected.sendall((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))

    assert "a frame of 65537 bytes is announced" in str(receive(connected)["reason"])


def test_garbage_of_a_member_ends_its_connection_and_not_its_membership(world: World) -> None:
    listener = world.listen()
    connected, _ = world.present()

    connected.sendall(b"GET / HTTP/1.1\r\n")

    assert receive(connected)["type"] == "refused"
    assert is_closed(connected)
    assert listener.is_alive(NODE)
    assert world.present()[1] == WELCOME


def test_a_slow_loris_is_closed_when_its_time_is_up_however_it_drips(world: World) -> None:
    world.listen(hello_timeout=timedelta(milliseconds=200))
    connected = world.connect()
    body = json.dumps(world.hello()).encode()
    connected.sendall(len(body).to_bytes(4, "big"))

    def drip() -> bool:
        try:
            connected.sendall(body[:1])
        except OSError:
            return True
        return False

    eventually(drip)
    assert world.told == []


def test_two_thousand_strangers_keep_no_node_out(world: World, log: list[str]) -> None:
    # Given 2 000 connections of garbage and silence, more than may be held at once
    world.listen(strangers_max=64)
    for number in range(2_000):
        connected = world.connect()
        world.sockets.pop()
        try:
            if number % 2:
                connected.sendall(os.urandom(20))
        finally:
            # Every tenth stays open: half-open for ever, as far as it is concerned.
            if number % 10:
                connected.close()
            else:
                world.sockets.append(connected)

    # When a node comes
    _, answer = world.present()

    # Then it is in, the listener holds few, and the log is short
    assert answer == WELCOME
    assert world.wait_told(1) == [JOINED]
    assert world.listener is not None
    assert len(world.listener._loop._connections) <= 65
    assert 1 <= len([line for line in log if "swarm: refused" in line]) <= 60


def test_hundreds_of_members_are_heard_side_by_side(world: World) -> None:
    listener, count = world.listen(grace=timedelta(seconds=30)), 300
    everyone = [
        AttemptIdentity(RunId(7), LogicalNodeId(f"worker-{number}"), NodeAttemptId(number + 1))
        for number in range(count)
    ]
    for identity in everyone:
        connected = world.connect()
        send(
            connected,
            world.hello(
                node=identity.node, attempt=identity.attempt, token=listener.ticket(identity).token
            ),
        )
    assert {told[1] for told in world.wait_told(count)} == set(everyone)

    for connected in world.sockets[::2]:
        send(connected, {"type": "leave", "reason": ""})

    assert {told[1] for told in world.wait_told(count + count // 2)[count:]} == set(everyone[::2])
    assert [listener.is_alive(identity) for identity in everyone] == [False, True] * (count // 2)


def test_nobody_is_lost_for_a_stall_of_our_own(world: World, log: list[str]) -> None:
    # Given a member, and a listener whose clock jumps by an hour, as after a suspend
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    listener = world.listen(
        grace=timedelta(seconds=60), reconnect_grace=timedelta(seconds=60), clock=clock
    )
    world.present()
    world.wait_told(1)

    clock.advance(timedelta(hours=1))
    listener._loop.wake()

    # Then the stall is noticed and the member lives
    eventually(lambda: any("held up; every grace begins anew" in line for line in log))
    assert listener.is_alive(NODE)
    # ... but one that stays silent from then on is lost: 60 s, in steps that are no stall
    for _ in range(6):
        rounds = listener._judge_at
        clock.advance(timedelta(seconds=10))
        listener._loop.wake()
        eventually(lambda rounds=rounds: listener._judge_at > rounds)  # type: ignore[misc]  # the default binds the loop's value
    assert world.wait_told(2)[1] == ("lost", NODE, "no heartbeat for 60 s")


def test_ipv6_works_where_the_machine_has_it(world: World) -> None:
    try:
        world.listener = SwarmListener("[::1]:0")
    except SwarmListenError:
        pytest.skip("this machine has no IPv6 loopback")
    world.listener.start(lambda *told: world.tell("joined", *told), lambda *_lost: None)

    _, answer = world.present()

    assert answer["type"] == "welcome"
    assert world.wait_told(1) == [JOINED]

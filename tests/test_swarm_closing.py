"""The listener outlives its callbacks' faults, and ends in its time whatever they do."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.actors.swarm_frames import Hello, Leave, encode
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
)

PATIENCE_S = 10.0
NODE = AttemptIdentity(RunId(7), LogicalNodeId("worker-0"), NodeAttemptId(1))


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lines.append, level="DEBUG", format="{message}")
    yield lines
    logger.remove(sink)


def join(listener: SwarmListener) -> socket.socket:
    host, _, port = listener.address.rpartition(":")
    connected = socket.create_connection((host, int(port)), PATIENCE_S)
    connected.sendall(encode(Hello(1, 7, "worker-0", 1, 5, "me", listener.ticket(NODE).token)))
    return connected


def test_a_failing_callback_ends_neither_the_listener_nor_the_others(log: list[str]) -> None:
    listener, told = SwarmListener(), threading.Event()

    def joined(*_what: object) -> None:
        raise ValueError("a fault of the host")

    try:
        listener.start(joined, lambda _identity, _reason: told.set())
        with join(listener) as connected:
            connected.sendall(encode(Leave("done")))
            assert told.wait(PATIENCE_S)
    finally:
        listener.close(timedelta(seconds=PATIENCE_S))
    assert "ValueError: a fault of the host" in "".join(log)


def test_close_ends_in_its_time_even_while_a_callback_is_stuck() -> None:
    listener, entered, release = SwarmListener(), threading.Event(), threading.Event()

    def stuck(*_what: object) -> None:
        entered.set()
        release.wait(PATIENCE_S)

    listener.start(stuck, lambda _identity, _reason: None)
    with join(listener):
        assert entered.wait(PATIENCE_S)

        began = time.monotonic()
        listener.close(timedelta(milliseconds=50))
        took = time.monotonic() - began

        release.set()
        listener.close(timedelta(seconds=PATIENCE_S))
    assert took < PATIENCE_S / 2
    assert "swarm-listener" not in [thread.name for thread in threading.enumerate()]


def test_closing_frees_the_port_and_every_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None

    for is_started in (False, True):
        listener = SwarmListener()
        if is_started:
            listener.start(lambda *_joined: None, lambda *_lost: None)
        port = int(listener.address.rpartition(":")[2])
        listener.close(timedelta(seconds=PATIENCE_S))
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        listener.close(timedelta(seconds=PATIENCE_S))
        listener.process_dead(NODE, "late")
        listener.retire(NODE)

    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before

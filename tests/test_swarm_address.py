"""Where the swarm may listen, what nodes are told of it, and whom a token proves."""

from datetime import timedelta

import pytest

from cluster_reconciler.actors.swarm import SwarmListener, SwarmListenError, token_of
from cluster_reconciler.messages import (
    AttemptIdentity,
    LogicalNodeId,
    NodeAttemptId,
    RunId,
)

PATIENCE_S = 10.0
NODE = AttemptIdentity(RunId(7), LogicalNodeId("worker-0"), NodeAttemptId(1))


def test_a_taken_port_is_a_readable_error() -> None:
    first = SwarmListener()
    try:
        with pytest.raises(SwarmListenError, match=r"in use; if another program .* port 0"):
            SwarmListener(first.address)
    finally:
        first.close(timedelta(seconds=PATIENCE_S))


def test_an_address_of_another_machine_is_told_as_that() -> None:
    # given an address that is set aside for documents, so that no machine has it
    with pytest.raises(SwarmListenError, match=r"no address of this machine; listen on 127"):
        SwarmListener("192.0.2.1:0", allow_remote=True)


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        ("0.0.0.0:0", "can be reached from other machines"),
        ("[::]:0", "can be reached from other machines"),
        ("127.0.0.1", "expected host:port"),
        ("127.0.0.1:x", "expected host:port"),
        ("127.0.0.1:65536", "port from 0 to 65535"),
        (":0", "expected host:port"),
        ("::1:0", "stands in brackets"),
        ("no.such.host.invalid:0", "no such host"),
    ],
)
def test_a_wrong_address_is_refused_by_name(listen: str, reason: str) -> None:
    with pytest.raises(SwarmListenError, match=reason) as raised:
        SwarmListener(listen)

    assert repr(listen) in str(raised.value)


def test_every_address_needs_one_that_nodes_can_use() -> None:
    with pytest.raises(SwarmListenError, match="say which one nodes are to use"):
        SwarmListener("0.0.0.0:0", allow_remote=True)

    # Told so, it is what the tickets say; nothing is connected to it here.
    listener = SwarmListener("127.0.0.1:0", allow_remote=True, advertise="fd00::1")
    try:
        assert listener.ticket(NODE).address.startswith("[fd00::1]:")
    finally:
        listener.close(timedelta(seconds=PATIENCE_S))


def test_a_grace_that_no_heartbeat_can_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="heartbeat 5 s and grace 5 s"):
        SwarmListener(heartbeat=timedelta(seconds=5))


def test_tokens_are_bound_to_the_attempt_and_to_the_listener() -> None:
    alike = [
        AttemptIdentity(RunId(1), LogicalNodeId("1:a"), NodeAttemptId(1)),
        AttemptIdentity(RunId(1), LogicalNodeId("a"), NodeAttemptId(1)),
        AttemptIdentity(RunId(11), LogicalNodeId("a"), NodeAttemptId(1)),
        AttemptIdentity(RunId(1), LogicalNodeId("a"), NodeAttemptId(11)),
        AttemptIdentity(RunId(1), LogicalNodeId("1:1:a"), NodeAttemptId(1)),
    ]

    tokens = {token_of(secret, identity) for secret in (b"one", b"two") for identity in alike}

    assert len(tokens) == 2 * len(alike)
    assert {len(token) for token in tokens} == {64}

"""The swarm's wire: whatever is cut or mangled becomes a message or a refusal, never more."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_reconciler.actors.swarm_frames import (
    FRAME_BYTES_MAX,
    FrameBuffer,
    FrameError,
    Heartbeat,
    Hello,
    Leave,
    Refused,
    Welcome,
    decode,
    encode,
)

HELLO = Hello(1, 7, "worker-0", 3, 5, "swactor", "token")
FIELDS: dict[str, object] = {
    "type": "hello", "version": 1, "run_id": 7, "node": "worker-0", "attempt": 3, "session_id": 5,
    "swactor_id": "swactor", "token": "token",
}  # fmt: skip


def test_the_wire_form_is_what_the_node_side_was_told() -> None:
    assert json.loads(encode(HELLO)[4:]) == FIELDS
    assert json.loads(encode(Heartbeat())[4:]) == {"type": "heartbeat"}
    assert json.loads(encode(Leave("bye"))[4:]) == {"type": "leave", "reason": "bye"}
    welcome = {"type": "welcome", "version": 1, "heartbeat_s": 0.5}
    assert json.loads(encode(Welcome(0.5))[4:]) == welcome
    assert encode(Refused("no")) == b'\x00\x00\x00\x20{"type":"refused","reason":"no"}'


@given(st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_whole_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = encode(HELLO) + encode(Heartbeat()) * 3 + encode(Leave("bye"))
    buffer, messages, at = FrameBuffer(), [], 0
    for cut in [*cuts, len(stream)]:
        messages += [decode(frame) for frame in buffer.feed(stream[at : at + cut])]
        at += cut

    assert messages == [HELLO, Heartbeat(), Heartbeat(), Heartbeat(), Leave("bye")]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_refusal(data: bytes) -> None:
    try:
        message = decode(data)
    except FrameError as error:
        assert str(error)  # noqa: PT017  either way is fine
        return
    assert isinstance(message, Hello | Heartbeat | Leave)


@pytest.mark.parametrize("length", [0, FRAME_BYTES_MAX + 1, 2**32 - 1])
def test_a_frame_of_no_or_too_many_bytes_is_refused_before_it_is_read(length: int) -> None:
    with pytest.raises(FrameError, match=f"a frame of {length} bytes is announced"):
        list(FrameBuffer().feed(length.to_bytes(4, "big")))


def test_the_largest_frame_is_taken() -> None:
    body = b"x" * FRAME_BYTES_MAX

    assert list(FrameBuffer().feed(FRAME_BYTES_MAX.to_bytes(4, "big") + body)) == [body]


@pytest.mark.parametrize(
    ("changed", "kind", "reason"),
    [
        ({"version": 2}, "version", "it speaks version 2 of the swarm protocol"),
        ({"version": 2, "run_id": "other"}, "version", "it speaks version 2"),
        ({"type": "goodbye"}, "message", "Invalid value 'goodbye'"),
        ({"run_id": "7"}, "message", r"Expected `int`, got `str` - at `\$\.run_id`"),
        ({"node": ""}, "message", "length >= 1"),
        ({"swactor_id": "x" * 1001}, "message", "length <= 1000"),
    ],
)
def test_a_wrong_hello_is_refused_by_name(
    changed: dict[str, object], kind: str, reason: str
) -> None:
    with pytest.raises(FrameError, match=reason) as raised:
        decode(json.dumps(FIELDS | changed).encode())

    assert raised.value.kind == kind


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(FrameError):
        decode(b"[" * 60_000)

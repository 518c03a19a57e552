"""The swarm's wire: frames on TCP, each a 4-byte big-endian length and one JSON object.

Pure: bytes in, messages out, and back.  Whatever a peer sends becomes a message or a `FrameError`;
nothing is ever held beyond one frame of the largest size.

    client                                     listener
    {"type":"hello","version":1,...}    ->
                                        <-     {"type":"welcome","version":1,"heartbeat_s":1.0}
                                        or     {"type":"refused","reason":"..."}, and closes
    {"type":"heartbeat"}, ...           ->
    {"type":"leave","reason":"..."}     ->
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from cluster_reconciler.actors.mailbox_words import one_line

SWARM_VERSION = 1

FRAME_BYTES_MAX = 64 * 1024
"""Of the JSON object; the length before it comes on top."""

LENGTH_BYTES = 4


class FrameError(Exception):
    """The peer sent something that is not a message of the protocol; the text says what.  `kind`
    tells the ways apart in a word, whatever the peer wrote."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Hello(Struct, frozen=True, tag="hello"):
    """The first message: who the client is, and its proof."""

    version: int
    run_id: int
    node: Annotated[str, Meta(min_length=1, max_length=1000)]
    attempt: int
    session_id: int
    swactor_id: Annotated[str, Meta(min_length=1, max_length=1000)]
    token: Annotated[str, Meta(max_length=1000)]


class Heartbeat(Struct, frozen=True, tag="heartbeat"):
    """The client lives."""


class Leave(Struct, frozen=True, tag="leave"):
    """The client goes, and says why."""

    reason: str = ""


class Welcome(Struct, frozen=True, tag="welcome"):
    """The client is a member; a heartbeat is wanted every `heartbeat_s` seconds."""

    heartbeat_s: float
    version: int = SWARM_VERSION


class Refused(Struct, frozen=True, tag="refused"):
    """The client is no member, or no longer; the connection is closed after this."""

    reason: str


ClientMessage = Hello | Heartbeat | Leave
ServerMessage = Welcome | Refused


class _Versioned(Struct):
    version: int


_decode = msgspec.json.Decoder(ClientMessage).decode
_decode_versioned = msgspec.json.Decoder(_Versioned).decode
_encode = msgspec.json.Encoder().encode


def decode(frame: bytes) -> ClientMessage:
    """The message in a frame.

    Raises:
        FrameError: it is none; a hello of another version is named as such.
    """
    try:
        message: ClientMessage = _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _refuse_other_version(frame)
        reason = f"not a message of the swarm: {one_line(str(error), 200)}"
        raise FrameError("message", reason) from error
    if isinstance(message, Hello) and message.version != SWARM_VERSION:
        raise _other_version(message.version)
    return message


def _refuse_other_version(frame: bytes) -> None:
    """Another version's hello may have other fields: say that rather than which field is wrong."""
    try:
        version = _decode_versioned(frame).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if version != SWARM_VERSION:
        raise _other_version(version)


def _other_version(version: int) -> FrameError:
    return FrameError(
        "version",
        f"it speaks version {version} of the swarm protocol, this listener speaks {SWARM_VERSION}",
    )


def encode(message: ServerMessage | ClientMessage) -> bytes:
    """The whole frame of a message."""
    body = _encode(message)
    assert len(body) <= FRAME_BYTES_MAX, f"a frame of {len(body)} bytes"
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameBuffer:
    """Cuts a stream of bytes into frames.  Holds less than one frame and what was fed last."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with `data`, which may be of any size.

        Raises:
            FrameError: a frame is announced that is empty or larger than `FRAME_BYTES_MAX`; nothing
                after it can be read.
        """
        held = self._bytes
        held += data
        start = 0
        while len(held) - start >= LENGTH_BYTES:
            body = start + LENGTH_BYTES
            length = int.from_bytes(held[start:body], "big")
            if not 0 < length <= FRAME_BYTES_MAX:
                raise FrameError(
                    "length",
                    f"a frame of {length} bytes is announced, expected 1 to {FRAME_BYTES_MAX}",
                )
            if len(held) - body < length:
                break
            start = body + length
            yield bytes(held[body:start])
        del held[:start]

"""The trace file: every message the driver handled, in order, to replay a run from.

JSON lines: a `TraceHeader`, then one `TraceLine` for each message.  Each line goes to the operating
system as it is written, so that a killed process loses none; nothing is forced to the disk.  A
trace that cannot be written is given up with one word in the log: it never harms the driver.  It
holds shapes as they were given, that is references to secrets and no secrets; `redact` may take out
more.  It never holds a ticket, a token or a resolved environment: those cross no mailbox.
"""

import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum, auto
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

import msgspec
from loguru import logger
from msgspec import Struct

from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.actors.trace_log import (
    FoldedLog,
    RepeatedFailureFilter,
    log_message,
    traceback_text,
)
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    ClusterShape,
    DriverMessage,
    ExecutorResult,
    NodeAttemptId,
    OperationId,
)

__all__ = [
    "TRACE_VERSION",
    "ExecutorCall",
    "FoldedLog",
    "OpaqueMessage",
    "RepeatedFailureFilter",
    "SubmitAnswer",
    "TraceError",
    "TraceHeader",
    "TraceLine",
    "TraceTorn",
    "TraceVersionError",
    "TraceWriter",
    "digest",
    "log_message",
    "read_trace",
    "traceback_text",
]

TRACE_VERSION = 1

_FIRST_ATTEMPT = NodeAttemptId(1)


class TraceError(Exception):
    """The file is no trace that can be read; the text says where and why."""


class TraceVersionError(TraceError):
    """The trace was written in another version of the format."""

    def __init__(self, path: Path, found: int) -> None:
        super().__init__(
            f"{path} is a trace of format {found}, this program reads format {TRACE_VERSION}; "
            "read it with the version of cluster-reconciler that wrote it (its first line says)"
        )
        self.found = found
        self.expected = TRACE_VERSION


class TraceHeader(Struct, frozen=True, tag="header"):
    """The first line: what a replay starts from."""

    shape: ClusterShape
    policy: RetryPolicy
    seed: int
    started_at: datetime
    version: int = TRACE_VERSION
    versions: dict[str, str] = {}
    """Of the program and what it runs on, for people."""
    first_attempt: NodeAttemptId = _FIRST_ATTEMPT
    providers: tuple[str, ...] | None = None
    """Those that a shape may ask for; None: any."""


class OpaqueMessage(Struct, frozen=True, tag=True):
    """Stands in a trace for a message that is not a `DriverMessage`, such as a query, or that could
    not be encoded."""

    message_type: str


class ExecutorCall(StrEnum):
    """What the driver may ask of an executor and hears an answer to."""

    SUBMIT = auto()
    WITHDRAW = auto()
    EXPIRE = auto()


class SubmitAnswer(Struct, frozen=True):
    """What the executor answered to one call."""

    operation: OperationId
    result: ExecutorResult | None = None
    """None: it will answer later."""
    raised: str | None = None
    """The text of the exception, when it raised."""
    call: ExecutorCall = ExecutorCall.SUBMIT
    withdrawn: bool = False
    """To withdraw and expire: the operation had not begun, and never will."""


class TraceLine(Struct, frozen=True, tag="message"):
    """One handled message."""

    sequence: int
    at: datetime
    """The driver's time while it was handled."""
    actor: str
    message: DriverMessage | UpdateRetry | OpaqueMessage
    answers: tuple[SubmitAnswer, ...] = ()
    """In the order in which the executor was called while it was handled."""
    digest: str = ""
    """Of the state after it, see `digest`; empty where none was taken."""


class TraceTorn(Struct, frozen=True):
    """The last line is broken off: the trace was read up to there."""

    line: int
    reason: str


class _AnyHeader(Struct, tag="header"):
    version: int


_encode = msgspec.json.Encoder(order="deterministic").encode
_encode_for_digest = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_version = msgspec.json.Decoder(_AnyHeader).decode
_decode_header = msgspec.json.Decoder(TraceHeader).decode
_decode_line = msgspec.json.Decoder(TraceLine).decode


def digest(changed: object) -> str:
    """A stable fingerprint of a value made of Structs and plain values: equal values give the same
    one in every process.  Give it the part of the state that changed, or the whole state.

    Raises:
        TypeError: the value holds something that msgspec cannot encode.
    """
    return blake2b(_encode_for_digest(changed), digest_size=16).hexdigest()


class TraceWriter:
    """Writes one trace.  Safe for threads.  An existing file is overwritten; only its owner may
    read it.

    Args:
        path: where to; its directory must exist.
        shape: the first desired shape.
        policy: the retry policy, with the seed that was drawn.
        started_at: the driver's time.
        first_attempt: the id of the first attempt.
        providers: those that a shape may ask for; None: any.
        redact: is given each shape and message before it is written, and answers what is written.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        shape: ClusterShape,
        policy: RetryPolicy,
        started_at: datetime,
        first_attempt: NodeAttemptId = _FIRST_ATTEMPT,
        providers: Iterable[str] | None = None,
        redact: Callable[[object], object] | None = None,
    ) -> None:
        self.path = path
        self._redact = redact
        self._lock = threading.Lock()
        self._file: BinaryIO | None = open(  # noqa: SIM115  closed by close()
            path, "wb", opener=_open_for_owner
        )
        shown = redact(shape) if redact is not None else shape
        if not isinstance(shown, ClusterShape):
            self.close()
            raise TypeError(f"redact must answer a ClusterShape for one, found {type(shown)}")
        self._write(
            TraceHeader(
                shown,
                policy,
                policy.seed,
                started_at,
                versions=_versions(),
                first_attempt=first_attempt,
                providers=None if providers is None else tuple(sorted(providers)),
            )
        )

    def write(
        self,
        record: MailboxRecord,
        message: object,
        answers: tuple[SubmitAnswer, ...] = (),
        state_digest: str = "",
    ) -> None:
        """Write one handled message; never raises.  After `close`, or once writing has failed, it
        does nothing."""
        if self._file is None:
            return
        shown = self._shown(message)
        line = TraceLine(record.sequence, record.at, record.actor, shown, answers, state_digest)
        self._write(line)

    def close(self) -> None:
        """Close the file; again is fine."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                try:
                    file.close()
                except OSError as error:
                    logger.error("trace {}: closing it failed: {}", self.path, error)

    def _shown(self, message: object) -> DriverMessage | UpdateRetry | OpaqueMessage:
        try:
            shown = message if self._redact is None else self._redact(message)
        except Exception as error:  # noqa: BLE001  the hook is the host's; the driver must go on
            logger.error("trace {}: redact failed\n{}", self.path, traceback_text(error))
            return OpaqueMessage(type(message).__name__)
        if isinstance(shown, DriverMessage | UpdateRetry):
            return shown
        return OpaqueMessage(type(message).__name__)

    def _write(self, line: TraceHeader | TraceLine) -> None:
        try:
            encoded = _encode(line)
        except Exception as error:  # noqa: BLE001  any: a foreign value inside a message
            logger.error("trace {}: a message cannot be encoded: {!r}", self.path, error)
            if isinstance(line, TraceLine):
                opaque = OpaqueMessage(type(line.message).__name__)
                encoded = _encode(msgspec.structs.replace(line, message=opaque, answers=()))
            else:
                encoded = b"{}"
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(encoded + b"\n")
                self._file.flush()
            except OSError as error:
                logger.error("trace {} ends here, it cannot be written: {}", self.path, error)
                file, self._file = self._file, None
                try:
                    file.close()
                except OSError:
                    logger.debug("trace {}: what was buffered is lost", self.path)


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for name in ("cluster-reconciler", "pykka", "msgspec"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def read_trace(path: Path) -> Iterator[TraceHeader | TraceLine | TraceTorn]:
    """The header, then each line; a `TraceTorn` at the end if the last line is broken off.

    Raises:
        TraceVersionError: it was written in another version of the format.
        TraceError: it has no header, or a line that is not the last cannot be read.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        first = file.readline()
        try:
            yield _read_header(path, first)
        except msgspec.MsgspecError as error:
            if first and not first.endswith(b"\n"):
                yield TraceTorn(1, f"{path} breaks off in its first line")
                return
            found = f"its first line is no header: {error}" if first else "it is empty"
            raise TraceError(f"{path} is no trace of cluster-reconciler: {found}") from error
        number, raw = 1, file.readline()
        while raw:
            number, following = number + 1, file.readline()
            try:
                line = _decode_line(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if following:
                    raise TraceError(f"{path}, line {number} cannot be read: {error}") from error
                yield TraceTorn(number, f"{path} breaks off in line {number}: {error}")
                return
            yield line
            raw = following


def _read_header(path: Path, raw: bytes) -> TraceHeader:
    found = _decode_version(raw).version
    if found != TRACE_VERSION:
        raise TraceVersionError(path, found)
    return _decode_header(raw)

"""The trace file: every message the driver handled, in order, to replay a run from.

JSON lines: a `TraceHeader`, then one `TraceLine` for each message, each with the checksum of all up
to there (see `trace_chain`).  Each line goes to the operating system as it is written, so that a
killed process loses none; nothing is forced to the disk.  A
trace that cannot be written is given up with one word in the log: it never harms the driver.  It
holds shapes as they were given, that is references to secrets and no secrets; `redact` may take out
more.  It never holds a ticket, a token or a resolved environment: those cross no mailbox.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum, auto
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.mailbox import MailboxRecord
from cluster_reconciler.actors.ports import UpdateRetry
from cluster_reconciler.actors.trace_chain import Chain
from cluster_reconciler.actors.trace_log import (
    FoldedLog,
    RepeatedFailureFilter,
    log_message,
    traceback_text,
)
from cluster_reconciler.actors.trace_marks import NodeMarks, PlanMark
from cluster_reconciler.actors.trace_versions import program_versions
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    ClusterShape,
    DeadlineDue,
    Drain,
    DriverMessage,
    ExecutorResult,
    NodeAttemptId,
    NodeObserved,
    OperationId,
    RunPass,
    SafetyTick,
    Trigger,
    UpdateDesired,
)

__all__ = [
    "TRACE_VERSION",
    "ExecutorCall",
    "FoldedLog",
    "OpaqueMessage",
    "RepeatedFailureFilter",
    "SubmitAnswer",
    "TraceAltered",
    "TraceError",
    "TraceHeader",
    "TraceLine",
    "TraceTorn",
    "TraceVersionError",
    "TraceWriter",
    "log_message",
    "read_trace",
    "traceback_text",
]

TRACE_VERSION = 2

_Aware = Annotated[datetime, msgspec.Meta(tz=True)]

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
    started_at: _Aware
    version: int = TRACE_VERSION
    versions: dict[str, str] = {}
    """Of the program and what it runs on, for people."""
    first_attempt: NodeAttemptId = _FIRST_ATTEMPT
    providers: tuple[str, ...] | None = None
    """Those that a shape may ask for; None: any."""
    check_invariants: bool = False
    """Whether the run held its driver to the invariants: one that is broken raises."""


class OpaqueMessage(Struct, frozen=True, tag=True):
    """Stands in a trace for a message that is not a `DriverMessage`, such as a query, or that could
    not be encoded."""

    message_type: str


class ExecutorCall(StrEnum):
    """What the driver may ask of an executor and hears an answer to."""

    SUBMIT = auto()
    WITHDRAW = auto()
    EXPIRE = auto()


class SubmitAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the executor answered to one call."""

    operation: OperationId
    result: ExecutorResult | None = None
    """None: it will answer later."""
    raised: str | None = None
    """The text of the exception, when it raised."""
    call: ExecutorCall = ExecutorCall.SUBMIT
    withdrawn: bool = False
    """To withdraw and expire: the operation had not begun, and never will."""
    effect: int | None = None
    """To submit: the checksum of what was submitted, see `effect_mark`."""


class TraceLine(Struct, frozen=True, tag="message", gc=False, omit_defaults=True):
    """One handled message."""

    sequence: int
    at: _Aware
    """The driver's time while it was handled."""
    actor: str
    message: DriverMessage | UpdateRetry | OpaqueMessage
    answers: tuple[SubmitAnswer, ...] = ()
    """In the order in which the executor was called while it was handled."""
    digest: str = ""
    """Of the state after it, see `state_digest`; empty where none was taken."""
    nodes: NodeMarks = {}
    """Those that it changed."""
    plan: PlanMark | None = None
    """Of a pass: what it decided."""
    raised: str | None = None
    """The exception that handling it ended with: its type and text."""


class TraceAltered(Struct, frozen=True):
    """The line before this is not the one that was written after those before it: it was changed,
    or lines before it were taken out, doubled or moved."""

    line: int


class TraceTorn(Struct, frozen=True):
    """The last line is broken off: the trace was read up to there."""

    line: int
    reason: str
    begins: bytes = b""
    """The first bytes of a first line that is broken off."""


class _AnyHeader(Struct, tag="header"):
    version: int


_encode_into = msgspec.json.Encoder(order="deterministic").encode_into
_decode_version = msgspec.json.Decoder(_AnyHeader).decode
_decode_header = msgspec.json.Decoder(TraceHeader).decode
_decode_line = msgspec.json.Decoder(TraceLine).decode

_MESSAGES = frozenset(
    {DeadlineDue, Drain, ExecutorResult, NodeObserved, RunPass, SafetyTick, Trigger}
    | {UpdateDesired, UpdateRetry}
)
_ALWAYS_SOUND = frozenset({RunPass, SafetyTick, Trigger})
"""They hold nothing that could not be read back."""
_NO_NODES: NodeMarks = {}


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
        check_invariants: whether the driver is held to them.
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
        check_invariants: bool = False,
        redact: Callable[[object], object] | None = None,
    ) -> None:
        self.path = path
        self._redact = redact
        self._lock = threading.Lock()
        self._chain = Chain()
        self._line = bytearray()
        """The one that is being written: memory that is there already is cheaper than new one."""
        self._file: BinaryIO | None = open(  # noqa: SIM115  closed by close()
            path, "wb", buffering=0, opener=_open_for_owner
        )
        shown = redact(shape) if redact is not None else shape
        if not isinstance(shown, ClusterShape):
            self.close()
            raise TypeError(f"redact must answer a ClusterShape for one, found {type(shown)}")
        header = TraceHeader(
            shown,
            policy,
            policy.seed,
            started_at,
            versions=program_versions(),
            first_attempt=first_attempt,
            providers=None if providers is None else tuple(sorted(providers)),
            check_invariants=check_invariants,
        )
        _encode_into(header, self._line)
        self._send()

    def write(
        self,
        record: MailboxRecord,
        message: object,
        answers: tuple[SubmitAnswer, ...] = (),
        state_digest: str = "",
        *,
        nodes: NodeMarks | None = None,
        plan: PlanMark | None = None,
        raised: str | None = None,
    ) -> None:
        """Write one handled message; never raises.  After `close`, or once writing has failed, it
        does nothing.  See `TraceLine` for what the others are."""
        if self._file is None:
            return
        shown = message
        # By its very type: what is derived from one is written under a name that nobody can read.
        if self._redact is not None or type(message) not in _MESSAGES:
            shown = self._shown(message)
        line = TraceLine(
            record.sequence,
            record.at,
            record.actor,
            shown,  # type: ignore[arg-type]  # it is one of them
            answers,
            state_digest,
            nodes or _NO_NODES,
            plan,
            raised,
        )
        with self._lock:
            try:
                _encode_into(line, self._line)
                if not (nodes or _is_sound(shown) or _can_be_read(line, self._line)):
                    opaque = OpaqueMessage(type(message).__name__)
                    _encode_into(replace(line, message=opaque), self._line)
            except Exception as error:  # noqa: BLE001  any: a foreign value inside a message
                logger.error("trace {}: a message cannot be encoded: {!r}", self.path, error)
                opaque = OpaqueMessage(type(message).__name__)
                _encode_into(replace(line, message=opaque, answers=()), self._line)
            self._send()

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
        if type(shown) in _MESSAGES:
            return shown  # type: ignore[return-value]  # it is one of them
        return OpaqueMessage(type(message).__name__)

    def _send(self) -> None:
        """Close the line and write it.  The lock is held."""
        if self._file is None:
            return
        line = self._line
        try:
            self._chain.close(line)
            # Without a buffer: the operating system may take less than all of it at once.
            while (taken := self._file.write(line)) < len(line):
                del line[:taken]
        except OSError as error:
            logger.error("trace {} ends here, it cannot be written: {}", self.path, error)
            file, self._file = self._file, None
            try:
                file.close()
            except OSError:
                logger.debug("trace {}: what was buffered is lost", self.path)


def _is_sound(message: object) -> bool:
    """Whether it can be seen at once that it holds nothing that could not be read back."""
    kind = type(message)
    return kind in _ALWAYS_SOUND or (kind is DeadlineDue and type(message.judged) is bool)  # type: ignore[attr-defined]  # it is a DeadlineDue


def _can_be_read(line: TraceLine, encoded: bytearray) -> bool:
    """Whether its message comes back as it is.  One that changed a node went over the wire before
    it was folded; any other may hold what its fields may not, and a reader would stop there."""
    try:
        return _decode_line(encoded).message == line.message
    except (*UNREADABLE, ValueError):
        return False


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a line raises that cannot be read; RecursionError: it is nested too deeply."""
TraceItem = TraceHeader | TraceLine | TraceTorn | TraceAltered


def read_trace(path: Path) -> Iterator[TraceItem]:
    """The header, then each line; a `TraceAltered` behind one that is not as it was written, and a
    `TraceTorn` at the end if the last line is broken off.

    Raises:
        TraceVersionError: it was written in another version of the format.
        TraceError: it has no header, or a line that is not the last cannot be read.
        OSError: the file cannot be read.
    """
    chain = Chain()
    with path.open("rb") as file:
        first = file.readline()
        try:
            header = _read_header(path, first)
        except UNREADABLE as error:
            if first and not first.endswith(b"\n"):
                yield TraceTorn(1, f"{path} breaks off in its first line", first[:64])
                return
            found = f"its first line is no header: {error}" if first else "it is empty"
            raise TraceError(f"{path} is no trace of cluster-reconciler: {found}") from error
        yield header
        if not chain.fits(first):
            yield TraceAltered(1)
        number, raw = 1, file.readline()
        while raw:
            number, following = number + 1, file.readline()
            try:
                line = _decode_line(raw)
            except UNREADABLE as error:
                if following or raw.endswith(b"\n"):
                    raise TraceError(f"{path}, line {number} cannot be read: {error}") from error
                yield TraceTorn(number, f"{path} breaks off in line {number}: {error}")
                return
            yield line
            if not chain.fits(raw):
                yield TraceAltered(number)
            raw = following


def _read_header(path: Path, raw: bytes) -> TraceHeader:
    found = _decode_version(raw).version
    if found != TRACE_VERSION:
        raise TraceVersionError(path, found)
    return _decode_header(raw)

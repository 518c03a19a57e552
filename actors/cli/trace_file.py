"""A trace from its file, line by line: to its end, or on and on as it grows.

It says in words what ends the reading, and keeps nothing of what it has read.  What the lines mean
is not its business.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cluster_reconciler.actors.cli.faults import nearest, printable
from cluster_reconciler.actors.trace import (
    UNREADABLE,
    TraceAltered,
    TraceError,
    TraceHeader,
    TraceLine,
    TraceTorn,
    read_trace,
)

POLL_S = 0.1
"""Seconds between two looks at a file that does not grow."""

_BEGINS = b'{"type":"header"'
"""The first bytes of every trace; a file that begins otherwise is none, however it ends."""

_MESSAGE_BEGINS = b'{"type":"message"'
_A_HEADER = "value 'header'"
"""What the decoder of messages says of a header."""

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
"""By the first bytes of such a file."""


class CaughtUp(msgspec.Struct, frozen=True):
    """All that is there has been read: who follows may show it now."""


class Gone(msgspec.Struct, frozen=True):
    """The file that was followed is not there any more."""


class BegunAnew(msgspec.Struct, frozen=True):
    """The file was written over, by another run: a header comes next."""


Item = TraceHeader | TraceLine | TraceAltered | TraceTorn | CaughtUp | Gone | BegunAnew

_decode_line = msgspec.json.Decoder(TraceLine).decode


def check_readable(path: Path) -> None:
    """Raises TraceError, with what was found, for what cannot be a trace at all."""
    name = printable(str(path))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise TraceError(f"{name}: expected a trace, found no such file{_meant(path)}") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{name}: expected a trace, it cannot be read: {_why(error)}") from error
    if stat.S_ISREG(mode):
        _check_beginning(path, name)
        return
    if stat.S_ISFIFO(mode):
        return
    what = "a directory" if stat.S_ISDIR(mode) else "something that is no file"
    raise TraceError(f"{name}: expected a file that `up --trace` wrote, found {what}")


def _check_beginning(path: Path, name: str) -> None:
    try:
        with path.open("rb") as file:
            found = file.read(512)
    except OSError as error:
        raise TraceError(f"{name}: expected a trace, it cannot be read: {_why(error)}") from error
    for begins, by in _COMPRESSED.items():
        if found.startswith(begins):
            raise TraceError(f"{name} is no trace as it is: it is compressed, by {by}; unpack it")
    if b"\0" in found:
        raise TraceError(f"{name} is no trace: it holds bytes that are no text")
    if found.startswith(_MESSAGE_BEGINS):
        raise TraceError(
            f"{name} is no trace from its beginning: it begins with a message, the header is "
            "missing (was it rotated, or cut?); put its first part before it"
        )


def read_whole(path: Path) -> Iterator[Item]:
    """Header, lines, a TraceAltered behind a line that is not as it was written, and a TraceTorn
    where it breaks off.

    Raises:
        TraceError: it is no trace, of another version, or damaged before its end.
    """
    try:
        for item in read_trace(path):
            if isinstance(item, TraceTorn) and not _BEGINS.startswith(item.begins[: len(_BEGINS)]):
                raise TraceError(
                    f"{printable(str(path))} is no trace of cluster-reconciler: its first line is "
                    "no header"
                )
            yield item
    except OSError as error:
        raise TraceError(f"{printable(str(path))} cannot be read: {_why(error)}") from error
    except TraceError as error:
        raise _joined(error) from error
    except ValueError as error:  # Bytes that are no text.
        raise TraceError(f"{printable(str(path))} is no trace: {error}") from error


def follow(path: Path, stopped: threading.Event, resting: Callable[[], None]) -> Iterator[Item]:
    """The same, and what is added later, until `stopped`, or until the file is gone.  Whenever it
    has read all there is, it says so once; while nothing more comes it calls `resting`, every
    `POLL_S`.

    Raises:
        TraceError: as above; a broken last line is none, its rest may follow.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise TraceError(f"{printable(str(path))}: expected a file to follow, found a pipe")
    begun = False
    while not stopped.is_set():
        is_empty = path.exists() and path.stat().st_size == 0
        header = None if is_empty else next(read_whole(path), None)
        if not isinstance(header, TraceHeader):
            resting()
            stopped.wait(POLL_S)  # Its first line is being written.
            continue
        if begun:
            yield BegunAnew()
        yield header
        begun = True
        yield from _lines(path, stopped, resting)
        if not path.exists():
            yield Gone()
            return


def _lines(path: Path, stopped: threading.Event, resting: Callable[[], None]) -> Iterator[Item]:
    """Until the file is another one."""
    number, rest, waiting = 1, b"", False
    try:
        with path.open("rb") as file:
            first = file.readline()
            while not stopped.is_set():
                raw = file.readline()
                if raw:
                    rest, waiting = rest + raw, False
                    if rest.endswith(b"\n"):
                        number, line, rest = number + 1, rest, b""
                        try:
                            read = _read(path, number, line)
                        except TraceError:
                            if _begins_otherwise(path, first):
                                return  # It was written anew, and has grown past our place.
                            raise
                        yield read
                    continue
                if not waiting:
                    waiting = True
                    yield CaughtUp()
                if _is_another(path, file.fileno(), file.tell()):
                    return
                resting()
                stopped.wait(POLL_S)
    except OSError as error:
        raise TraceError(f"{printable(str(path))} cannot be read: {_why(error)}") from error


def _read(path: Path, number: int, raw: bytes) -> TraceLine:
    try:
        return _decode_line(raw)
    except UNREADABLE as error:
        name = printable(str(path))
        told = TraceError(f"{name}, line {number} cannot be read: {error}")
        raise _joined(told) from error


def _joined(error: TraceError) -> TraceError:
    """The error, in better words where a second trace begins in the middle of the file."""
    place, _, why = str(error).partition(" cannot be read: ")
    if _A_HEADER not in why:
        return error
    return TraceError(f"{place} begins another trace: two files were joined; split them there")


def _begins_otherwise(path: Path, first: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.readline() != first
    except FileNotFoundError:
        return True


def _is_another(path: Path, descriptor: int, read: int) -> bool:
    """Gone, another file of that name, or written over from the start."""
    ours = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return True
    return (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino) or there.st_size < read


def _meant(path: Path) -> str:
    try:
        names = [entry.name for entry in path.absolute().parent.iterdir()]
    except (OSError, ValueError):
        return ""
    name = nearest(path.name, names[:1000])
    return f" (did you mean {printable(name)}?)" if name is not None else ""


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)

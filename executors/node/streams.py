"""Lines out of pipes and files: cut at a bound, never blocking, bad UTF-8 replaced."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster_reconciler.executors.node.masking import Mask

LINE_BYTES_MAX = 64 * 1024
READ_BYTES = 64 * 1024
DRAIN_BYTES_MAX = 4 * 1024 * 1024


class _Lines:
    """Cuts bytes into lines."""

    def __init__(self, tell: Callable[[str], None], mask: "Mask") -> None:
        self._tell = tell
        self._mask = mask
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._cut(self._mask.line(line))
        # Not before the rest of a secret that the bound may fall into has come as well.
        while len(self._rest) > LINE_BYTES_MAX + self._mask.length_max:
            self._rest = self._mask.line(self._rest)
            if len(self._rest) > LINE_BYTES_MAX + self._mask.length_max:
                self._tell(_text(self._rest[:LINE_BYTES_MAX]))
                self._rest = self._rest[LINE_BYTES_MAX:]

    def end(self) -> None:
        if self._rest:
            self._cut(self._mask.line(self._rest))
            self._rest = b""

    def _cut(self, line: bytes) -> None:
        for begin in range(0, max(1, len(line)), LINE_BYTES_MAX):
            self._tell(_text(line[begin : begin + LINE_BYTES_MAX]))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


class LineReader:
    """The lines of one pipe."""

    def __init__(self, descriptor: int, tell: Callable[[str], None], mask: "Mask") -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)
        self._lines = _Lines(tell, mask)
        self.open = True

    def read(self) -> bool:
        """Read once; whether there may be more now."""
        if not self.open:
            return False
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._lines.feed(data)
            return True
        self.close()
        return False

    def drain(self) -> None:
        """Everything that is there now, within a bound: a child may write for ever."""
        for _ in range(DRAIN_BYTES_MAX // READ_BYTES):
            if not self.read():
                break
        self._lines.end()

    def close(self) -> None:
        """Let go of the pipe."""
        if self.open:
            self.open = False
            self._lines.end()
            os.close(self._descriptor)


class Tail:
    """The lines that are added to a file, from its beginning on, wherever it comes and goes."""

    def __init__(
        self, path: str, stream: str, tell: Callable[[str, str], None], mask: "Mask"
    ) -> None:
        self._path = path
        self._lines = _Lines(lambda text: tell(stream, text), mask)
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None

    def read(self) -> None:
        """Whatever is new; never more than a bound at once."""
        try:
            found = os.stat(self._path)
            if self._descriptor is None or self._identity != (found.st_dev, found.st_ino):
                self._read_on()  # What was written to the old one before it was replaced.
                self._open()
            if self._descriptor is None:
                return
            if os.fstat(self._descriptor).st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR):
                os.lseek(self._descriptor, 0, os.SEEK_SET)  # It was cut off: from the beginning.
            self._read_on()
        except OSError:
            return  # Not there yet, or not readable: the next look will tell.

    def _read_on(self) -> None:
        if self._descriptor is None:
            return
        for _ in range(16):
            data = os.read(self._descriptor, READ_BYTES)
            if not data:
                return
            self._lines.feed(data)

    def end(self) -> None:
        """The last look: a line without its end counts."""
        self.read()
        self._lines.end()

    def _open(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags)
        status = os.fstat(descriptor)
        self._descriptor, self._identity = descriptor, (status.st_dev, status.st_ino)

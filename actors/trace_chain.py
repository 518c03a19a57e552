"""The running checksum of a trace: each line ends with one over itself and all lines before it.

So a line that was changed, taken out, doubled or moved after it was written is told at that place,
also where it changes nothing that a replay would see.  It is no signature: who wants to forge a
trace can.
"""

from zlib import crc32

__all__ = ["Chain"]

_KEY = b',"chain":"'
_END = b'"}'
_DIGITS = 8
_TAIL = len(_KEY) + _DIGITS + len(_END)


class Chain:
    """Of one file, from its first line on."""

    def __init__(self) -> None:
        self._latest = 0

    def closed(self, encoded: bytes) -> bytes:
        """The line, a JSON object with at least one field, with its checksum and its line's end."""
        line = bytearray(encoded)
        self.close(line)
        return bytes(line)

    def close(self, line: bytearray) -> None:
        """The same, in place."""
        del line[-1]
        self._latest = latest = crc32(line, self._latest)
        line += b',"chain":"%08x"}\n' % latest

    def fits(self, raw: bytes) -> bool:
        """Whether a line that was read follows those before it as it was written.  What it says
        itself is what the next one must follow: one change is told once."""
        line = raw.removesuffix(b"\n")
        body, tail = line[:-_TAIL], line[-_TAIL:]
        expected = b"%b%08x%b" % (_KEY, crc32(body, self._latest), _END)
        found = tail[len(_KEY) : -len(_END)]
        self._latest = int(found, 16) if _is_number(found) else crc32(body, self._latest)
        return tail == expected


def _is_number(found: bytes) -> bool:
    return len(found) == _DIGITS and all(digit in b"0123456789abcdef" for digit in found)

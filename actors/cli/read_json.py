"""Reads JSON with the line of every place and with every duplicate key.

`json` decides what is JSON; the walk after it only finds positions, in a text known to be valid.
"""

import json
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in CPython, not in stubs

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import Path, quoted
from cluster_reconciler.actors.cli.text_lines import TextLines

_EXPECTED = {
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Expecting ',' delimiter": "a comma, or the end of the list or table",
    "Expecting ':' delimiter": "a colon after the key",
    "Expecting value": "a value",
    "Unterminated string starting at": "the string that begins here to end on its line",
    "Invalid control character at": "a string without raw control characters",
    "Invalid \\escape": "a valid escape after the backslash",
    "Invalid \\uXXXX escape": "four hexadecimal digits after \\u",
    "Extra data": "the end of the file",
    "Illegal trailing comma before end of object": "no comma before }",
    "Illegal trailing comma before end of array": "no comma before ]",
}
_HINTS = {"/": "JSON has no comments", "#": "JSON has no comments", "'": "use double quotes"}
_BLANK = " \t\r\n"


def read_json(document: Document, text: str) -> None:
    """Fill the document; a text that is no JSON is one fault."""
    if not text.strip():
        return
    lines = TextLines(text)
    try:
        document.tree = json.loads(text)
    except json.JSONDecodeError as error:
        _refuse(document, text, error)
        return
    except ValueError:
        document.unreadable("numbers that can be meant", "a number of thousands of digits")
        return
    _Walk(document, text, lines).value((), 0)


def _refuse(document: Document, text: str, error: json.JSONDecodeError) -> None:
    reason = error.msg.removesuffix(": ")
    expected = next((e for start, e in _EXPECTED.items() if reason.startswith(start)), reason)
    rest = text[error.pos : error.pos + 1]
    found = quoted(rest) if rest else "the end of the file"
    hint = _HINTS.get(rest)
    if rest and rest in "]}" and text[: error.pos].rstrip().endswith(","):
        hint = f"JSON has no comma before {rest}"
    document.unreadable(expected, found, error.lineno, hint)


class _Walk:
    """Each method begins at a position, notes lines, and answers the position behind."""

    def __init__(self, document: Document, text: str, lines: TextLines) -> None:
        self._document = document
        self._text = text
        self._lines = lines

    def value(self, path: Path, start: int) -> int:
        at = self._skip(start)
        self._document.lines.setdefault(path, self._lines.line_at(at))
        match self._text[at]:
            case "{":
                return self._table(path, at + 1)
            case "[":
                return self._list(path, at + 1)
            case '"':
                return self._string(at)[1]
            case _:
                while at < len(self._text) and self._text[at] not in ",]}" + _BLANK:
                    at += 1
                return at

    def _table(self, path: Path, start: int) -> int:
        seen: dict[str, int] = {}
        at = self._skip(start)
        while self._text[at] != "}":
            if self._text[at] == ",":
                at = self._skip(at + 1)
            line = self._lines.line_at(at)
            key, at = self._string(at)
            if key in seen:
                self._document.duplicate((*path, key), line, seen[key])
            seen.setdefault(key, line)
            self._document.lines[(*path, key)] = line
            at = self._skip(self.value((*path, key), self._skip(at) + 1))
        return at + 1

    def _list(self, path: Path, start: int) -> int:
        index = 0
        at = self._skip(start)
        while self._text[at] != "]":
            if self._text[at] == ",":
                at += 1
            at = self._skip(self.value((*path, index), at))
            index += 1
        return at + 1

    def _string(self, at: int) -> tuple[str, int]:
        value, end = scanstring(self._text, at + 1, True)
        return str(value), int(end)

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _BLANK:
            at += 1
        return at

"""Reads JSON with the line of every place and with every duplicate key.

`json` decides what is JSON; the walk after it only finds positions, in a text known to be valid.
"""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # public in CPython, not in stubs

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import BROKEN_MAX, CURLY, STRAIGHT, Path, as_written
from cluster_reconciler.actors.cli.file_hints import UNFILLED
from cluster_reconciler.actors.cli.json_recovery import (
    CONSTANTS,
    follows_from,
    leading_zeros,
    mark_for,
    read_again,
    repaired,
    structure_of,
)
from cluster_reconciler.actors.cli.text_lines import TextLines

_EXPECTED = {
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Expecting ',' delimiter": "a comma, or the end of the list or table",
    "Expecting ':' delimiter": "a colon after the key",
    "Expecting value": "a value",
    "Unterminated string starting at": "the string that begins here to end on its line",
    "Invalid control character": "a string without raw control characters",
    "Invalid \\escape": "a valid escape after the backslash",
    "Invalid \\uXXXX escape": "four hexadecimal digits after \\u",
    "Extra data": "the end of the file",
    "Illegal trailing comma before end of object": "no comma before }",
    "Illegal trailing comma before end of array": "no comma before ]",
}
_HINTS = {
    "/": "JSON has no comments",
    "#": "JSON has no comments",
    "'": "use double quotes",
    "\t": "write \\t, or spaces",
    "\\": "write two of them for one",
    **dict.fromkeys(CURLY, STRAIGHT),
}
_FOUND = {"": "the end of the file", "\n": "the end of the line", "\t": "a tab"}
_WORD = re.compile(r"\w+")
_BLANK = " \t\r\n"


def read_json(document: Document, text: str) -> None:
    """Fill the document; of a text that is no JSON with what is sound in it, where it can be told,
    else with that fault."""
    if not text.strip():
        return
    places = _Places(text)
    sound = _sound_text(document, text, places)
    if sound is None:
        document.readable = False
    else:
        _Walk(document, sound, places).value((), 0)


def _sound_text(document: Document, text: str, places: "_Places") -> str | None:
    """The text without its faults, which are told, and the document with its tree; None: what was
    meant cannot be told."""
    mark, guessed, last = mark_for(text), "", None
    for _ in range(BROKEN_MAX):
        try:
            document.tree = read_again(text, mark)
        except json.JSONDecodeError as error:
            structure, place = structure_of(text, error), places.at(error.pos)
            if follows_from(guessed, structure):
                return None
            guessed = structure if guessed != "bracket" and structure else guessed
            if place != last:
                _refuse(document, text, error, mark, place)
            last = place
            text_after = repaired(text, error, mark)
            if text_after is None:
                return None
            places.changed(text_after, error.pos, len(text_after) - len(text))
            text = text_after
        except ValueError:
            found = "a number of thousands of digits"
            document.unreadable("numbers that can be meant", found)
            return None
        else:
            return text
    return None


def _refuse(
    document: Document, text: str, error: json.JSONDecodeError, mark: str, place: tuple[int, int]
) -> None:
    reason = error.msg.removesuffix(": ")
    expected = next((e for start, e in _EXPECTED.items() if reason.startswith(start)), reason)
    first = text[error.pos : error.pos + 1]
    rest = text[error.pos :].partition("\n")[0].rstrip().replace(mark, "...")
    found = _FOUND.get(first, as_written(rest))
    hint = _HINTS.get(first)
    if leading_zeros(text, error):
        expected, hint = "a number without zeros before it", "JSON has none"
    if first == "\n" and reason.startswith("Invalid control character"):
        expected = "a string that ends on its line"
    elif first and first in "]}" and text[: error.pos].rstrip().endswith(","):
        hint = f"JSON has no comma before {first}"
    elif first == "{" and text[: error.pos].endswith("{"):
        hint = UNFILLED
    elif first.isalpha() and reason == "Expecting value":
        word = _WORD.match(rest)
        meant = CONSTANTS.get(word[0]) if word is not None else None
        hint = f"write {meant}" if meant is not None else "text stands in double quotes"
    document.broken(expected, found, place[0], hint, place[1])


class _Places:
    """From a position in the text, as it was repaired, to line and column in the file."""

    def __init__(self, text: str) -> None:
        self._lines = TextLines(text)
        self._grown: list[tuple[int, int]] = []
        """Where characters were put in, and how many: from left to right, as faults are found."""

    def changed(self, text: str, at: int, grown: int) -> None:
        """The text was repaired at this position."""
        self._lines = TextLines(text)
        self._grown += [(at, grown)] if grown > 0 else []

    def at(self, position: int) -> tuple[int, int]:
        """Line and column, both from 1 on."""
        line, column = self._lines.place_at(position)
        start = position - column + 1
        return line, column - sum(n for at, n in self._grown if start <= at < position)


class _Walk:
    """Each method begins at a position, notes lines, and answers the position behind."""

    def __init__(self, document: Document, text: str, lines: _Places) -> None:
        self._document = document
        self._text = text
        self._lines = lines

    def value(self, path: Path, start: int) -> int:
        at = self._skip(start)
        if path not in self._document.lines:
            self._note(path, self._lines.at(at))
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

    def _note(self, path: Path, place: tuple[int, int]) -> None:
        self._document.lines[path], self._document.columns[path] = place

    def _table(self, path: Path, start: int) -> int:
        seen: dict[str, int] = {}
        at = self._skip(start)
        while self._text[at] != "}":
            if self._text[at] == ",":
                at = self._skip(at + 1)
            place = self._lines.at(at)
            key, at = self._string(at)
            if key in seen:
                self._document.duplicate((*path, key), place, seen[key])
            seen.setdefault(key, place[0])
            self._note((*path, key), place)
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

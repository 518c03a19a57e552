"""Finds the line of every key and list entry of a TOML text; `tomllib` gives positions only for
its errors.

The text is taken to be valid.  Where it is not (up to the place of an error), the walk stops and
keeps what it found: it never raises, and it judges nothing.
"""

import contextlib
import re
import tomllib

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import Path
from cluster_reconciler.actors.cli.text_lines import TextLines

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:""?(?!"))?'
    r"|'''.*?'''(?:''?(?!'))?"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]*")


class TomlPositions(Struct, frozen=True):
    """Lines count from 1 on."""

    lines: dict[Path, int]
    """The line of every place."""
    duplicates: list[tuple[Path, int, int]]
    """What is defined again: its path, the line, and the line of the first time."""


def toml_positions(text: str) -> TomlPositions:
    """What a walk over the text finds, as far as it comes."""
    walk = _Walk(text)
    with contextlib.suppress(_Lost, RecursionError):
        walk.document()
    return TomlPositions(walk.lines, walk.duplicates)


class _Lost(Exception):
    """The text is not valid here."""


class _Walk:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self.duplicates: list[tuple[Path, int, int]] = []
        self._text = text
        self._numbers = TextLines(text)
        self._at = 0
        self._entries: dict[Path, int] = {}
        """How many entries each array of tables has so far."""
        self._defined: dict[Path, int] = {}
        """Where each key got its value and each table its header."""

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 1 + is_array
        path: Path = ()
        keys = self._keys()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            if path in self._entries and (number < len(keys) or not is_array):
                path = (*path, self._entries[path] - 1)
        if is_array:
            self._note(path, start)
            if path not in self._entries:
                self._define(path, start)
            count = self._entries.get(path, 0)
            self._entries[path] = count + 1
            path = (*path, count)
        self._note(path, start)
        self._define(path, start)
        self._expect("]]" if is_array else "]")
        return path

    def _pair(self, table: Path) -> None:
        start = self._at
        path: Path = table
        for key in self._keys():
            path = (*path, key)
            self._note(path, start)
        self._define(path, start)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _key(self) -> str:
        if bare := _BARE.match(self._text, self._at):
            self._at = bare.end()
            return bare[0]
        string = _STRING.match(self._text, self._at)
        if string is None:
            raise _Lost
        self._at = string.end()
        if string[0].startswith('"') and "\\" in string[0]:
            try:
                return str(tomllib.loads(f"key = {string[0]}")["key"])
            except tomllib.TOMLDecodeError:
                raise _Lost from None
        return string[0][1:-1]

    def _value(self, path: Path) -> None:
        self._note(path, self._at)
        if string := _STRING.match(self._text, self._at):
            self._at = string.end()
        elif self._text.startswith("[", self._at):
            self._list(path)
        elif self._text.startswith("{", self._at):
            self._inline_table(path)
        else:
            self._skip(_PLAIN)

    def _list(self, path: Path) -> None:
        self._at += 1
        index = 0
        self._skip(_BLANK)
        while not self._text.startswith("]", self._at):
            self._value((*path, index))
            index += 1
            self._skip(_BLANK)
            if not self._text.startswith("]", self._at):
                self._expect(",")
                self._skip(_BLANK)
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        self._skip(_BLANK)
        while not self._text.startswith("}", self._at):
            self._pair(path)
            self._skip(_BLANK)
            if not self._text.startswith("}", self._at):
                self._expect(",")
                self._skip(_BLANK)
        self._at += 1

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, self._numbers.line_at(at))

    def _define(self, path: Path, at: int) -> None:
        line = self._numbers.line_at(at)
        if path in self._defined:
            self.duplicates.append((path, line, self._defined[path]))
        self._defined.setdefault(path, line)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _expect(self, text: str) -> None:
        self._skip(_SPACE)
        if not self._text.startswith(text, self._at):
            raise _Lost
        self._at += len(text)

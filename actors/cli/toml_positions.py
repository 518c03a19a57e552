"""Finds the line and column of every key and list entry of a TOML text; `tomllib` gives positions
only for its errors.

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
    """Lines and columns count from 1 on."""

    lines: dict[Path, int]
    """The line of every place."""
    columns: dict[Path, int]
    """The column of every place on its line."""


def toml_positions(text: str) -> TomlPositions:
    """What a walk over the text finds, as far as it comes."""
    walk = TomlWalk(text)
    with contextlib.suppress(Lost, RecursionError):
        walk.document()
    return TomlPositions(walk.lines, walk.columns)


class Lost(Exception):
    """The text is not valid here."""


def put(table: dict[str, object], path: Path, value: object) -> bool:
    """Set what is not set yet; False: a part of the path is there and no table."""
    inner: object = table
    for key in path[:-1]:
        if isinstance(inner, list) and isinstance(key, int) and key < len(inner):
            inner = inner[key]
        elif isinstance(inner, dict):
            inner = inner.setdefault(key, {})
        else:
            return False
    if isinstance(inner, dict):
        inner.setdefault(path[-1], value)
        return True
    return False


class TomlWalk:
    """Goes through a text statement by statement; `toml_recovery` steps it over what is broken."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.numbers = TextLines(text)
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.columns: dict[Path, int] = {}
        self.duplicates: list[tuple[Path, tuple[int, int], int]] = []
        """What is defined again: its path, the place, and the line of the first time."""
        self.told_again: set[Path] = set()
        """The paths of those."""
        self.entries: dict[Path, int] = {}
        """How many entries each array of tables has so far."""
        self._defined: dict[Path, int] = {}
        """Where each key got its value and each table its header."""
        self._closed: dict[Path, int] = {}
        """Where each list and inline table was written: nothing may come to it later."""
        self._dotted: dict[Path, int] = {}
        """Where each table began that is only a part of a dotted key: it gets no header."""
        self._around: dict[Path, int] = {}
        """Where each table began that is only a part of a header: it gets no value."""
        self._implied: set[Path] = set()
        """The places of tables that only the headers of others name so far."""

    def document(self) -> None:
        """To the end of the text.

        Raises:
            Lost: what follows here is not valid.
        """
        table: Path = ()
        while self.more():
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table)

    def more(self) -> bool:
        """Goes to the next statement; False: there is none."""
        self._skip(_BLANK)
        return self.at < len(self.text)

    def header(self) -> Path:
        """The place of the table that begins here.  Raises Lost."""
        start = self.at
        is_array = self.text.startswith("[[", start)
        self.at += 1 + is_array
        path = self.table(self._keys(), start, is_array=is_array)
        self._expect("]]" if is_array else "]")
        return path

    def table(self, keys: list[str], start: int, *, is_array: bool) -> Path:
        """The place of the table with this header, from now on the latest of its name."""
        path: Path = ()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            if path in self.entries and (number < len(keys) or not is_array):
                path = (*path, self.entries[path] - 1)
        if is_array:
            self.note(path, start)
            if path not in self.entries:
                self._define(path, start)
            count = self.entries.get(path, 0)
            self.entries[path] = count + 1
            path = (*path, count)
        if path in self._implied:
            # Its own header is where a person looks for it.
            self._implied.discard(path)
            del self.lines[path]
        self.note(path, start)
        for length in range(1, len(path)):
            self._around.setdefault(path[:length], self.numbers.line_at(start))
            if path[:length] not in self.lines:
                self._implied.add(path[:length])
                self.note(path[:length], start)
        closed = self._closed_in(path)
        if closed is not None:
            self.again(closed, start, self._closed[closed])
        elif path in self._dotted:
            self.again(path, start, self._dotted[path])
        else:
            self._define(path, start)
        return path

    def pair(self, table: Path) -> tuple[Path, object]:
        """The place of the key that stands here, and its value.  Raises Lost."""
        start = self.at
        path: Path = table
        for key in self._keys():
            path = (*path, key)
            self.note(path, start)
        self._expect("=")
        self._define_dotted(table, path, start)
        self._skip(_SPACE)
        inner = self.text[self.at : self.at + 1]
        value = self._value(path)
        if inner in {"[", "{"}:
            self._closed.setdefault(path, self.numbers.line_at(start))
        return path, value

    def _scalar(self, written: str) -> object:
        """What a value means; here nobody asks."""
        return written

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def _key(self) -> str:
        if bare := _BARE.match(self.text, self.at):
            self.at = bare.end()
            return bare[0]
        string = _STRING.match(self.text, self.at)
        if string is None:
            raise Lost
        self.at = string.end()
        if string[0].startswith('"') and "\\" in string[0]:
            try:
                return str(tomllib.loads(f"key = {string[0]}")["key"])
            except tomllib.TOMLDecodeError:
                raise Lost from None
        return string[0][1:-1]

    def _value(self, path: Path) -> object:
        self.note(path, self.at)
        if self.text.startswith("[", self.at):
            return self._list(path)
        if self.text.startswith("{", self.at):
            return self._inline_table(path)
        start = self.at
        self._skip(_STRING if _STRING.match(self.text, start) else _PLAIN)
        return self._scalar(self.text[start : self.at])

    def _list(self, path: Path) -> list[object]:
        self.at += 1
        found: list[object] = []
        self._skip(_BLANK)
        while not self.text.startswith("]", self.at):
            found.append(self._value((*path, len(found))))
            self._skip(_BLANK)
            if not self.text.startswith("]", self.at):
                self._expect(",")
                self._skip(_BLANK)
        self.at += 1
        return found

    def _inline_table(self, path: Path) -> dict[str, object]:
        self.at += 1
        found: dict[str, object] = {}
        self._skip(_BLANK)
        while not self.text.startswith("}", self.at):
            place, value = self.pair(path)
            put(found, place[len(path) :], value)
            self._skip(_BLANK)
            if not self.text.startswith("}", self.at):
                self._expect(",")
                self._skip(_BLANK)
        self.at += 1
        return found

    def note(self, path: Path, at: int) -> None:
        """Keep the place, unless it is known."""
        if path not in self.lines:
            self.lines[path], self.columns[path] = self.numbers.place_at(at)

    def again(self, path: Path, at: int, first: int) -> None:
        """Keep that the path is defined for a second time."""
        self.duplicates.append((path, self.numbers.place_at(at), first))
        self.told_again.add(path)

    def _define(self, path: Path, at: int) -> None:
        if path in self._defined:
            self.again(path, at, self._defined[path])
        self._defined.setdefault(path, self.numbers.line_at(at))

    def _define_dotted(self, table: Path, path: Path, at: int) -> None:
        """A key got its value, and each part before its last one a table."""
        closed = self._closed_in(path[:-1], len(table) + 1)
        if closed is not None:
            self.again(closed, at, self._closed[closed])
            return
        for length in range(len(table) + 1, len(path)):
            part = path[:length]
            if part in self._defined:
                self.again(part, at, self._defined[part])
                return
            self._dotted.setdefault(part, self.numbers.line_at(at))
        first = self._dotted.get(path, self._around.get(path))
        if first is not None and path not in self._defined:
            self.again(path, at, first)
        else:
            self._define(path, at)

    def _closed_in(self, path: Path, shortest: int = 1) -> Path | None:
        """The list or inline table that is at this place or around it."""
        for length in range(shortest, len(path) + 1):
            if path[:length] in self._closed:
                return path[:length]
        return None

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def _expect(self, text: str) -> None:
        self._skip(_SPACE)
        if not self.text.startswith(text, self.at):
            raise Lost
        self.at += len(text)

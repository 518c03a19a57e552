"""Reads what is sound in a TOML text with faults of syntax, or with keys that are defined twice.

`tomllib` stops at the first fault; here each statement is judged for itself, by `tomllib` too.
What a broken statement would have said is unknown, and never the cause of another fault.
"""

import re
import tomllib
from collections.abc import Callable

from cluster_reconciler.actors.cli.document import UNKNOWN, Document
from cluster_reconciler.actors.cli.faults import BROKEN_MAX, Path, WrittenFloat, nearest
from cluster_reconciler.actors.cli.toml_positions import Lost, TomlWalk, put

TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine", "Duplicate")
"""So begins what `tomllib` says of a key or table that is there already."""

_KEY = r"[A-Za-z_][A-Za-z0-9_-]*"
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"^[ \t]*\[\[?[ \t]*{_KEYS}[ \t]*\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)
_STATEMENT = re.compile(rf"{_HEADER.pattern}|^[ \t]*{_KEYS}[ \t]*=", re.MULTILINE)
"""What can be told from the inside of a list or a text."""
_FIRST_GROUP = re.compile(r"^[ \t]*\[\[[ \t]*groups[ \t]*\]\]", re.MULTILINE)
_BEGINS_HEADER = r"[^\n=#,\[]{0,3}\["
"""With what a slip of the keyboard may have put before the bracket."""
_HEADER_LIKE = re.compile(rf"\[|{_BEGINS_HEADER}[^\n=]*$|=\[|{_KEYS}[ \t]*\]", re.MULTILINE)
"""No key with a value begins so."""
_HEADER_MEANT = re.compile(
    rf"""(?:(?:{_BEGINS_HEADER}|=\[)[^\w\n#"']*)?({_KEYS})[ \t]*+(?![\w"'.-])\]*"""
)
_NAMES_OF_LISTS = ("groups", "mounts")
_PAIR_MEANT = re.compile(rf"({_KEYS})[ \t]*=[ \t]*(\[|\{{|)")
_CLOSING = {
    "[": re.compile(r"^[ \t]*\]", re.MULTILINE),
    "{": re.compile(r"^[ \t]*\}", re.MULTILINE),
}
_DOT = re.compile(r"[ \t]*\.[ \t]*")

_UNPLACED = ""
"""Begins the places of keys whose table is unknown."""

Refuse = Callable[[str, int, Path], None]
"""Tells a fault: the words of `tomllib`, the position at which it began to read, and the place that
stands there, as far as that is known."""


def recover_toml(document: Document, text: str, refuse: Refuse) -> None:
    """Fill the document with what is sound, and note what is not."""
    recovery = _Recovery(document, text, refuse)
    document.tree = recovery.tree
    document.lines, document.columns = recovery.walk.lines, recovery.walk.columns
    recovery.run()


class _Values(TomlWalk):
    """A walk that reads the values, too."""

    def _scalar(self, written: str) -> object:
        try:
            return tomllib.loads(f"key = {written}", parse_float=WrittenFloat)["key"]
        except ValueError:
            raise Lost from None


class _Recovery:
    def __init__(self, document: Document, text: str, refuse: Refuse) -> None:
        self.tree: dict[str, object] = {}
        self.walk = _Values(text)
        self._document = document
        self._text = text
        self._refuse = refuse
        self._table: Path | None = ()
        """None: nobody knows to which table the keys here belong."""
        self._in_lost_group = False
        """Whether a header above could not be read that may have been that of a group."""
        self._broken = 0
        first = _FIRST_GROUP.search(text)
        self._first_group = first.start() if first is not None else -1

    def run(self) -> None:
        while self._broken < BROKEN_MAX and self.walk.more():
            if _HEADER_LIKE.match(self._text, self.walk.at):
                self._header(self.walk.at)
            else:
                self._pair(self.walk.at)
        if self.walk.at < len(self._text):
            self._document.complete = False
        for duplicate in self.walk.duplicates:
            if duplicate[0][0] == _UNPLACED:
                continue
            self._document.duplicate(*duplicate)

    def _header(self, start: int) -> None:
        end = self._line_end(start)
        if self._fault(start, end):
            self.walk.at = end
            self._tell(start)
            self._table = self._meant(start)
            if self._table is None:
                self._document.complete = False
                self._in_lost_group = True
            return
        if self._without_its_group(start):
            self.walk.at = end
            return
        path: Path | None = self.walk.header()
        self.walk.at = end
        assert path, f"a table without a name: {self._text[start:end]!r}"
        self._in_lost_group = self._in_lost_group and path[:1] != ("groups",)
        is_array = self._text.startswith("[[", start)
        if not is_array and isinstance(path[-1], int):
            self.walk.duplicates.pop()
            path = self._another_entry(path[:-1], start)
        if not self._open(path):
            self._in_the_way(path, start)
            path = None
        self._table = path

    def _without_its_group(self, start: int) -> bool:
        """Whether it is `[groups.boot]` above the first `[[groups]]`, or `[groups]` there: the
        first is told, and its keys belong nowhere; the second is read as an entry.  Below a header
        that cannot be read nobody knows whose table `[groups.boot]` is."""
        header = _HEADER_MEANT.match(self._text, start)
        keys = _DOT.split(header[1]) if header is not None else []
        is_entry = keys == ["groups"] and self._text.startswith("[[", start)
        if header is None or keys[:1] != ["groups"] or is_entry:
            return False
        if self._in_lost_group and len(keys) > 1:
            self._table = None
            return True
        if ("groups",) in self.walk.entries or self._first_group < start:
            return False
        if len(keys) == 1:
            path = self._another_entry(("groups",), start)
            self._table = path if self._open(path) else None
            return True
        place = self.walk.numbers.place_at(start)
        first = self.walk.numbers.line_at(self._first_group)
        found = f"it above the first one, which is on line {first}"
        hint = "move it and its keys below the [[groups]] that it belongs to"
        self._document.broken(f"{header[0]} below a [[groups]]", found, place[0], hint, place[1])
        self._table = None
        return True

    def _another_entry(self, array: Path, start: int) -> Path:
        """`[groups]` beside `[[groups]]`: it is told, and read as what it is meant to be."""
        name = ".".join(str(key) for key in array if isinstance(key, str))
        expected = f"[[{name}]] for one more entry of the list"
        line, column = self.walk.numbers.place_at(start)
        self._document.broken(expected, f"[{name}]", line, "write two brackets", column)
        count = self.walk.entries.get(array, 0)
        path = (*array, count)
        self.walk.entries[array] = count + 1
        self.walk.note(path, start)
        return path

    def _meant(self, start: int) -> Path | None:
        """The place of a table whose header is broken, from now on there; None: nobody can tell."""
        meant = _HEADER_MEANT.match(self._text, start)
        keys = _DOT.split(meant[1]) if meant is not None else []
        is_lost = self._in_lost_group or ("groups",) not in self.walk.entries
        if not keys or (keys[0] == "groups" and len(keys) > 1 and is_lost):
            return None
        # The brackets are what is broken: the name says more.
        is_array = nearest(keys[-1], _NAMES_OF_LISTS) is not None
        path = self.walk.table(keys, start, is_array=is_array)
        self._in_lost_group = self._in_lost_group and path[:1] != ("groups",)
        return path if self._open(path) else None

    def _pair(self, start: int) -> None:
        found: tuple[Path, object] | None = None
        try:
            found = self.walk.pair(self._table if self._table is not None else (_UNPLACED, start))
        except Lost:
            self.walk.at = start
        end = self._line_end(self.walk.at)
        if found is not None and not self._fault(start, end):
            self.walk.at = end
            self._put(*found, start)
            return
        end = self.walk.at = max(end, self._end_of_broken(start))
        meant = _PAIR_MEANT.match(self._text, start)
        if meant is None or "\n" in self._text[start : end - 1]:
            # Other keys may stand in what is passed over.
            self._document.complete = False
        path: Path = ()
        if meant is not None and self._table is not None:
            path = (*self._table, *_DOT.split(meant[1]))
            self._put(path, UNKNOWN, start)
        self._tell(start, path)

    def _end_of_broken(self, start: int) -> int:
        """Where it can be gone on after a pair that cannot be read."""
        meant = _PAIR_MEANT.match(self._text, start)
        line_end = self._line_end(start)
        for quotes in ('"""', "'''"):
            if self._text.count(quotes, start, line_end) % 2:
                # All that follows stands in the text, up to its end if it has one.
                closing = self._text.find(quotes, line_end)
                return self._line_end(closing) if closing >= 0 else len(self._text)
        if meant is None or not meant[2]:
            return line_end
        header = _HEADER.search(self._text, line_end)
        limit = header.start() if header is not None else len(self._text)
        if closed := _CLOSING[meant[2]].search(self._text, line_end, limit):
            return self._line_end(closed.end())
        statement = _STATEMENT.search(self._text, line_end)
        return statement.start() if statement is not None else len(self._text)

    def _fault(self, start: int, end: int) -> bool:
        """Whether the statement is no TOML; keys that stand twice in it are known already."""
        try:
            tomllib.loads(self._text[start:end])
        except ValueError as error:
            return not str(error).startswith(TWICE)
        return False

    def _tell(self, start: int, path: Path = ()) -> None:
        """What is wrong there: `tomllib` gets all from there on, and stops at its first fault."""
        self._broken += 1
        try:
            tomllib.loads(self._text[start:])
        except ValueError as error:
            self._refuse(str(error), start, path)

    def _open(self, path: Path) -> bool:
        """Whether there is a table at this place now."""
        inner: object = self.tree
        for number, key in enumerate(path, 1):
            is_list = number < len(path) and isinstance(path[number], int)
            fresh: object = [] if is_list else {}
            if isinstance(inner, dict) and isinstance(key, str):
                inner = inner.setdefault(key, fresh)
            elif isinstance(inner, list) and isinstance(key, int) and key <= len(inner):
                inner.extend([fresh] if key == len(inner) else [])
                inner = inner[key]
            else:
                return False
        return isinstance(inner, dict)

    def _put(self, path: Path, value: object, start: int) -> None:
        if self._table is not None and not put(self.tree, path, value):
            self._in_the_way(path, start)

    def _in_the_way(self, path: Path, start: int) -> None:
        """Tell which part of the path is there already and no table, unless it is unknown."""
        inner: object = self.tree
        place: Path = ()
        for key in path:
            of_its_kind = isinstance(inner, dict if isinstance(key, str) else list)
            if not of_its_kind:
                break
            inner = inner[key]  # type: ignore[index]  # it is there: something was in the way
            place = (*place, key)
        if inner is not UNKNOWN and place not in self.walk.told_again:
            self.walk.again(place, start, self.walk.lines[place])

    def _line_end(self, at: int) -> int:
        """The position behind the line."""
        end = self._text.find("\n", at)
        return end + 1 if end >= 0 else len(self._text)

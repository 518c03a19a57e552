"""What is wrong with a file: where, what was expected, what was found, what was meant (case F26).

Only values and their rendering: nothing here reads a file or judges one.
"""

import difflib
import json
import re
from collections.abc import Iterable
from datetime import date, time
from typing import Self

from msgspec import Struct

from cluster_reconciler.actors import mailbox_words

Path = tuple[str | int, ...]
"""A place in a document: keys and, for entries of lists, their numbers from 0 on."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_FOUND_MAX = 60
"""Characters of a found value that are shown; the line number leads to the rest."""

BROKEN_MAX = 20
"""Faults of syntax that are told of one file: with more of them it is another kind of file."""

CURLY = frozenset("\u201c\u201d\u201e\u2018\u2019")
"""The quotes of a word processor, which no format takes for quotes."""
STRAIGHT = "write straight quotes"

printable = mailbox_words.printable
"""The text with everything escaped that a terminal would not simply show."""

_SOURCE_MAX = 100
"""Characters of a line of the file that are shown."""


class WrittenFloat(float):
    """A number with a fraction that remembers how it was written: 3.10 is not 3.1 to whoever meant
    a version."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, written: str) -> Self:
        """As `float`."""
        made = super().__new__(cls, written)
        made.written = written
        return made


class Fault(Struct, frozen=True, gc=False):
    """One thing that must be changed before the file can be used."""

    file: str
    expected: str
    found: str
    path: str = ""
    """Such as `groups[1].count`; empty: the file as a whole."""
    line: int | None = None
    """From 1 on; None: the place has no line."""
    nearest: str | None = None
    """The known word that was probably meant."""
    hint: str | None = None
    """What to do, where that does not follow from the rest."""
    column: int | None = None
    """On its line, from 1 on."""
    source: str | None = None
    """What stands on the line, with secrets hidden."""

    def __str__(self) -> str:
        text = f"{_place(self.file, self.line, self.column, self.path)}: expected {self.expected}, "
        text += f"found {self.found}"
        if self.nearest is not None:
            text += f" (did you mean {quoted(self.nearest)}?)"
        return f"{text}; {self.hint}" if self.hint is not None else text


class Caution(Struct, frozen=True, gc=False):
    """Something that is allowed and probably not meant."""

    file: str
    text: str
    path: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return f"{_place(self.file, self.line, self.column, self.path)}: warning: {self.text}"


def told(faults: Iterable[Fault], *, sources: bool) -> list[str]:
    """A line for each fault.  `sources`: and under it the line of the file that it is about, for a
    person at a terminal; what is piped keeps to one line a fault (F26)."""
    return [_with_source(fault) if sources else str(fault) for fault in faults]


def _with_source(fault: Fault) -> str:
    source = fault.source or ""
    short = source if len(source) <= _SOURCE_MAX else source[:_SOURCE_MAX] + "..."
    return f"{fault}\n{fault.line:>6} | {printable(short)}" if short else str(fault)


def _place(file: str, line: int | None, column: int | None, path: str) -> str:
    numbers = "".join(f":{number}" for number in (line, column) if number is not None)
    place = f"{printable(file)}{numbers}"
    return f"{place}: {path}" if path else place


def format_path(path: Path) -> str:
    """`groups[1].boot.env["a.b"]`: what a person would write."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _BARE_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{quoted(part)}]"
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is probably a slip of; None when none is near."""
    by_fold = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(
        word[:100].lower().replace("-", "_"), by_fold, n=1, cutoff=0.6
    )
    return by_fold[close[0]] if close else None


def quoted(text: str) -> str:
    """The text in double quotes, on one line, harmless on a terminal, and not too long."""
    short = text if len(text) <= _FOUND_MAX else text[: _FOUND_MAX - 3] + "..."
    return printable(json.dumps(short, ensure_ascii=False))


def as_written(text: str) -> str:
    """The same of what stands in a file, with the backslashes that stand there and no more."""
    return quoted(text).replace("\\\\", "\\")


def described(value: object) -> str:
    """What was found, in the words of somebody who writes such a file."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {_digits(value)}"
    if isinstance(value, str):
        return f"the string {as_written(value)}" if value else "an empty string"
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, date | time):
        return f"the date or time {value}"
    return f"a {type(value).__name__}"


def _digits(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 200:
        return "with more than 60 digits"
    if isinstance(value, WrittenFloat) and len(value.written) <= _FOUND_MAX:
        return value.written
    return repr(value)

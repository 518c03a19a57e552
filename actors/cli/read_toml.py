"""Reads TOML; `tomllib` decides what is TOML, its errors are told in a file writer's words."""

import re
import tomllib

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import WrittenFloat, quoted
from cluster_reconciler.actors.cli.toml_positions import toml_positions

_AT = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")
_LONG_KEY = re.compile(r"^[ \t]*\[*(?:[\w-]+[ \t]*\.[ \t]*){64}", re.MULTILINE)
"""A key of thousands of parts would keep `tomllib` busy for minutes."""

_TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine", "Duplicate")
_BAD_ESCAPE = "Unescaped '\\' in a string"
_EXPECTED = (
    ("Expected '=' after a key", "an equals sign after the key"),
    ("Expected newline or end of document", "the end of the line after the value"),
    ("Invalid value", "a value"),
    ("Invalid statement", "a key, a [table] or a comment"),
    ("Unclosed array", "a closing ] or a comma"),
    ("Unclosed inline table", "a closing } or a comma"),
    ("Unterminated string", "a string that ends"),
    ("Expected ']", "a closing bracket of the table's name"),
    ("Illegal character '\\n'", "a string that ends on its line"),
    ("Illegal character", "no raw control character"),
    (_BAD_ESCAPE, "a valid escape after the backslash"),
    ("Invalid initial character for a key part", "a key"),
)


def read_toml(document: Document, text: str) -> None:
    """Fill the document; a text that is no TOML is one fault."""
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        document.unreadable("a key of a few parts", "one of 64 or more", line)
        return
    try:
        document.tree = tomllib.loads(text, parse_float=WrittenFloat)
    except tomllib.TOMLDecodeError as error:
        _refuse(document, text, str(error))
        return
    except ValueError:
        # tomllib leaves it to int() and datetime() to judge their parts.
        document.unreadable("numbers and dates that can be meant", "one that is out of range")
        return
    document.lines = toml_positions(text).lines


def _refuse(document: Document, text: str, message: str) -> None:
    place = _AT.search(message)
    reason = message[: place.start()] if place else message
    line, column = text.count("\n") + 1, 0
    if place and place[1]:
        line, column = int(place[1]), int(place[2])
    if reason.startswith(_TWICE) and (duplicates := toml_positions(text).duplicates):
        document.readable = False
        for path, again, first in duplicates:
            document.duplicate(path, again, first)
        return
    expected = next((e for start, e in _EXPECTED if reason.startswith(start)), None)
    hint = None
    if reason.startswith(_BAD_ESCAPE):
        # The place is behind the backslash and its letter.
        column = max(column - 2, 1)
        hint = "in single quotes a backslash is only a backslash"
    rest = _rest_of(text, line, column)
    if reason.startswith("Invalid value") and rest[:1] == '"' and rest[1:2].isalpha():
        word = rest.strip('"')
        hint = f"write {word.lower()}" if word in {"True", "False"} else "text stands in quotes"
    document.unreadable(expected or "valid TOML", rest if expected else reason, line, hint)


def _rest_of(text: str, line: int, column: int) -> str:
    """What stands at the place of the error, up to the end of its line."""
    if not column:
        return "the end of the file"
    lines = text.split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    return quoted(rest) if rest.strip() else "the end of the line"

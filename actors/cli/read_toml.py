"""Reads TOML; `tomllib` decides what is TOML, its errors are told in a file writer's words."""

import re
import tomllib

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import CURLY, STRAIGHT, Path, WrittenFloat, as_written
from cluster_reconciler.actors.cli.file_hints import UNFILLED
from cluster_reconciler.actors.cli.text_lines import TextLines
from cluster_reconciler.actors.cli.toml_positions import toml_positions
from cluster_reconciler.actors.cli.toml_recovery import TWICE, recover_toml

_AT = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")
_LONG_KEY = re.compile(r"^[ \t]*\[*(?:[\w-]+[ \t]*\.[ \t]*){64}", re.MULTILINE)
"""A key of thousands of parts would keep `tomllib` busy for minutes."""

_CONSTANT = re.compile(r"(?:True|False|TRUE|FALSE)\b")

IN_SINGLE_QUOTES = "in single quotes a backslash is only a backslash"
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
    ("Invalid hex value", "hexadecimal digits after the backslash"),
    ("Escaped character is not", "an escape that stands for a character"),
    ("Found invalid character", "no raw control character"),
    ("Invalid date or datetime", "a day or time that there is"),
)


def read_toml(document: Document, text: str) -> None:
    """Fill the document; of a text that is no TOML with what is sound in it."""
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        document.unreadable("a key of a few parts", "one of 64 or more", line)
        return
    try:
        document.tree = tomllib.loads(text, parse_float=WrittenFloat)
    except ValueError as error:
        numbers = TextLines(text)

        def refuse(message: str, start: int, path: Path) -> None:
            _refuse(document, text, message, numbers.place_at(start), path)

        recover_toml(document, text, refuse)
        if not document.faults:
            refuse(str(error), 0, ())
        return
    positions = toml_positions(text)
    document.lines, document.columns = positions.lines, positions.columns


def _refuse(
    document: Document, text: str, message: str, start: tuple[int, int], path: Path
) -> None:
    """Tell what `tomllib` says; `start`: line and column at which it began to read."""
    place = _AT.search(message)
    if place is None:
        # tomllib leaves it to int() and datetime() to judge their parts.
        expected, found = "numbers and dates that can be meant", "one that is out of range"
        document.broken(expected, found, start[0], None, start[1], path)
        return
    reason = message[: place.start()]
    line, column = text.count("\n") + 1, 0
    if place[1]:
        line, column = start[0] + int(place[1]) - 1, int(place[2])
        column += start[1] - 1 if place[1] == "1" else 0
    if reason.startswith(TWICE):
        again = f"{_rest_of(text, line, 1)}, which is there already"
        document.broken("each key and table only once", again, line, None, column or None, path)
        return
    known = next((e for begin, e in _EXPECTED if reason.startswith(begin)), None)
    hint = None
    if reason.startswith(_BAD_ESCAPE):
        # The place is behind the backslash and its letter.
        column = max(column - 2, 1)
        hint = IN_SINGLE_QUOTES
    rest = _rest_of(text, line, column)
    hint = hint or _hint(reason, rest, text.split("\n")[line - 1][: max(column - 1, 0)])
    if reason.startswith("Unclosed") or not column:
        hint = f"it begins on line {start[0]}" if line > start[0] else hint
    document.broken(known or "what TOML allows", rest, line, hint, column or None, path)


def _hint(reason: str, rest: str, before: str) -> str | None:
    """What to do about `rest`, the quoted end of a line, after what stands `before` it there."""
    if rest[1:2] in CURLY:
        return STRAIGHT
    if reason.startswith("Invalid value") and rest[0] == '"' and rest[1:2].isalpha():
        constant = _CONSTANT.match(rest, 1)
        return f"write {constant[0].lower()}" if constant else "text stands in quotes"
    if reason.startswith("Expected newline") and before.endswith('"') and '"' in rest[1:-1]:
        return 'within double quotes write \\" for a quote, or put the text in single quotes'
    if reason.startswith("Invalid hex value"):
        return IN_SINGLE_QUOTES
    if rest.startswith('"{') and before.endswith("{"):
        return UNFILLED
    if reason.startswith("Invalid initial character") and before.rstrip().endswith("{"):
        return "{...} stands on one line; what needs more gets a [table] of its own"
    return None


def _rest_of(text: str, line: int, column: int) -> str:
    """What stands at the place of the error, up to the end of its line."""
    if not column:
        return "the end of the file"
    lines = text.split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    return as_written(rest) if rest.strip() else "the end of the line"

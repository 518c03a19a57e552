"""Reads what is sound in a JSON text whose faults are those that people bring from other languages.

`json` stops at the first fault; here what is wrong there is replaced, at the same length wherever
that can be, and the rest is read again.  Only what cannot mean anything else is replaced; a value
that is left out is unknown, and never the cause of another fault.
"""

import json
import re

from cluster_reconciler.actors.cli.document import UNKNOWN
from cluster_reconciler.actors.cli.faults import WrittenFloat

BROKEN_MAX = 20
"""Faults of syntax that are told of one file."""

UNREADABLE = "\ue000"
"""Stands in place of a value that cannot be read; nobody writes this character."""
_COMMENT = re.compile(r"(?://|#)[^\n]*|/\*.*?\*/", re.DOTALL)
_SINGLE = re.compile(r"'([^'\"\\\n]*)'")
_WORD = re.compile(r"[A-Za-z_@%`][^\s,:\]}\"'{\[]*")
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_COMMA_BEFORE = re.compile(r",(?=\s*$)")


def read_again(text: str) -> object:
    """As `json.loads`, with `UNKNOWN` for what `repaired` has left out.

    Raises:
        ValueError: as `json.loads` does.
    """
    return _known(json.loads(text, parse_float=WrittenFloat))


def repaired(text: str, error: json.JSONDecodeError) -> str | None:
    """The text without this fault; None: nobody can tell what was meant."""
    at, rest = error.pos, text[error.pos :]
    if comment := _COMMENT.match(rest):
        return _replaced(text, at, comment[0], "")
    if rest[:1] in {"]", "}"} and (comma := _COMMA_BEFORE.search(text, 0, at)):
        return _replaced(text, comma.start(), ",", "")
    if error.msg.startswith("Illegal trailing comma"):
        return _replaced(text, at, ",", "")
    if single := _SINGLE.match(rest):
        return _replaced(text, at, single[0], f'"{single[1]}"')
    if error.msg.startswith("Expecting value") and (word := _WORD.match(rest)):
        constant = _CONSTANTS.get(word[0])
        meant = constant if constant is not None else f'"{UNREADABLE}"'
        return _replaced(text, at, word[0], meant)
    if error.msg.startswith("Expecting ',' delimiter") and rest[:1] == '"':
        before = text[:at].rstrip()
        # Only where a new line begins: within one, a quote may be missing instead.
        return f"{before},{text[len(before) :]}" if "\n" in text[len(before) : at] else None
    if error.msg.startswith("Invalid control character") and rest[:1] == "\t":
        return _replaced(text, at, "\t", " ")
    return None


def _replaced(text: str, at: int, old: str, new: str) -> str:
    """With the old text's line ends and length, as far as the new one is not longer."""
    blank = re.sub(r"[^\n]", " ", old[len(new) :])
    return f"{text[:at]}{new}{blank}{text[at + len(old) :]}"


def _known(value: object) -> object:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return UNKNOWN if value == UNREADABLE else value

"""Reads what is sound in a JSON text whose faults are those that people bring from other languages.

`json` stops at the first fault; here what is wrong there is replaced, at the same length wherever
that can be, and the rest is read again.  Only what cannot mean anything else is replaced; a value
that is left out is unknown, and never the cause of another fault.
"""

import json
import re

from cluster_reconciler.actors.cli.document import UNKNOWN
from cluster_reconciler.actors.cli.faults import WrittenFloat

_BARE_KEY = re.compile(r"[A-Za-z_][\w.-]*(?=\s*:)")
_LEADING = re.compile(r"0+(?=[0-9])")
_OTHER_CLOSING = {"]": "}", "}": "]"}
_OVER_LINES = re.compile(r'\n([^"\\\n]*)"(?=\s*[,:}\]])')
"""The rest of a string that is written over two lines."""
_ZEROS = re.compile("0+")
_COMMENT = re.compile(r"(?://|#)[^\n]*|/\*.*?\*/", re.DOTALL)
_SINGLE = re.compile(r"'([^'\"\\\n]*)'")
_WORD = re.compile(r"[A-Za-z_@%`][^\s,:\]}\"'{\[]*")
CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
"""What is meant by the words of other languages."""
_COMMA_BEFORE = re.compile(r",(?=\s*$)")
_TRAILING = re.compile(r",\s*")
_WHOLE_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"\s*[:,\]}]')
"""A string that is followed by what may follow one."""
_SOUND_BEHIND = re.compile(r"\s*(?:[,\]}]|\Z)")


def mark_for(text: str) -> str:
    """A number that the text does not hold: it stands in place of a value that cannot be read.  A
    string would not do, which can be written with escapes."""
    return "0e" + "0" * (max(map(len, _ZEROS.findall(text)), default=0) + 1)


def read_again(text: str, mark: str) -> object:
    """As `json.loads`, with `UNKNOWN` for what `repaired` has left out.

    Raises:
        ValueError: as `json.loads` does.
    """

    def number(written: str) -> object:
        return UNKNOWN if written == mark else WrittenFloat(written)

    return json.loads(text, parse_float=number)


def repaired(text: str, error: json.JSONDecodeError, mark: str) -> str | None:
    """The text without this fault, with `mark` for what cannot be read; None: nobody can tell what
    was meant."""
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
        is_value = _SOUND_BEHIND.match(rest, word.end()) or text[:at].rstrip().endswith(":")
        # Before another value it is none, but one word too many.
        meant = CONSTANTS.get(word[0], mark) if is_value else ""
        return _replaced(text, at, word[0], meant)
    if zeros := leading_zeros(text, error):
        return _replaced(text, at - 1, zeros, "")
    if error.msg.startswith("Expecting property name") and (key := _BARE_KEY.match(rest)):
        return f'{text[:at]}"{key[0]}"{text[at + len(key[0]) :]}'
    if error.msg.startswith("Invalid \\escape"):
        return f"{text[:at]}\\{rest}"
    if error.msg.startswith("Expecting ',' delimiter") and rest[:1] in _OTHER_CLOSING:
        # Whatever is open here cannot be closed by this one.
        return f"{text[:at]}{_OTHER_CLOSING[rest[0]]}{rest}"
    if error.msg.startswith("Invalid control character") and (broken := _OVER_LINES.match(rest)):
        # The line ends behind the string instead, so that every other line keeps its number.
        return _replaced(text, at, broken[0], f'{broken[1]}"\n')
    if structure_of(text, error) == "comma":
        return _with_comma(text, at)
    if error.msg.startswith("Invalid control character") and rest[:1] == "\t":
        return _replaced(text, at, "\t", " ")
    return None


def structure_of(text: str, error: json.JSONDecodeError) -> str:
    """Which part of the structure is at fault: "bracket", "comma" (one is missing) or "trailing"
    (one too many); empty: none."""
    comma = _TRAILING.match(text, error.pos)
    at = comma.end() if comma and error.msg.startswith("Illegal trailing comma") else error.pos
    first = text[at : at + 1]
    if first and first in _OTHER_CLOSING:
        one_too_many = at > error.pos or _COMMA_BEFORE.search(text, 0, at) is not None
        return "trailing" if one_too_many and _SOUND_BEHIND.match(text, at + 1) else "bracket"
    if error.msg.startswith("Expecting ',' delimiter"):
        is_table = first == "{" and text[:at].rstrip().endswith("}")
        return "comma" if first == '"' or is_table else "bracket"
    return "bracket" if error.msg.startswith(("Extra data", "Expecting ':'")) else ""


def follows_from(guessed: str, structure: str) -> bool:
    """Whether a fault of the structure may be none of the file, but of how an earlier one was
    repaired: where a bracket or comma belongs is a guess."""
    return bool(guessed) if structure == "bracket" else (guessed, structure) == ("bracket", "comma")


def leading_zeros(text: str, error: json.JSONDecodeError) -> str:
    """Those of a number, if it is they that JSON does not know."""
    at = error.pos
    zeros = _LEADING.match(text, at - 1) if at and text[at : at + 1].isdigit() else None
    return zeros[0] if zeros is not None and text[at - 2 : at - 1] != "-" else ""


def _with_comma(text: str, at: int) -> str | None:
    """With a comma before what stands there; None: a quote may be missing instead."""
    end = len(text[:at].rstrip())
    if "\n" in text[end:at]:
        return f"{text[:end]},{text[end:]}"
    if text[at] == "{" or (end < at and _WHOLE_STRING.match(text, at)):
        # In place of a blank, so that the rest of the line keeps its columns.
        return f"{text[:end]},{text[min(end + 1, at) :]}"
    return None


def _replaced(text: str, at: int, old: str, new: str) -> str:
    """With the old text's line ends and length, as far as the new one is not longer."""
    blank = re.sub(r"[^\n]", " ", old[len(new) :])
    return f"{text[:at]}{new}{blank}{text[at + len(old) :]}"

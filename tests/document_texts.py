"""What the code says to people, gathered from its source: the texts that a document must explain.

It reads files and runs nothing of them.  A text is any string of three words or more that is no
docstring, no message of an assertion (those are defects of ours) and no pattern.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

WORDS_MIN = 3
_PLACE = re.compile(r"\{[^{}]*\}")
"""Where a log line's values go."""

_TAKE_NO_TEXT = {"re.compile", "cast", "AssertionError"}
"""What is called with strings that are for no person."""


class Text(Struct, frozen=True):
    """One text of the code."""

    place: str
    """File and line."""
    piece: str
    """Its longest part without a value in it: what a reader can search for."""


def texts_of(path: Path, name: str) -> list[Text]:
    """The texts of one file, in order; `name` is how the file is called."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    passed_over = _not_for_people(tree)
    found = []
    for node in ast.walk(tree):
        if id(node) not in passed_over and isinstance(node, ast.Constant | ast.JoinedStr):
            piece = _longest_piece(node)
            if len(piece.split()) >= WORDS_MIN:
                found.append((node.lineno, piece))
    return [Text(f"{name}:{line}", piece) for line, piece in sorted(found)]


def as_searched(text: str) -> str:
    """A document as a search sees it: one blank between words, wherever its lines end."""
    return " ".join(text.replace("`", "").replace("\\|", "|").split())


def _not_for_people(tree: ast.Module) -> set[int]:
    """The nodes that hold no text for people, and the parts of a text that is taken whole."""
    return {id(part) for node in ast.walk(tree) for part in _parts_passed_over(node)}


def _parts_passed_over(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value  # A docstring.
    elif isinstance(node, ast.Assert) and node.msg is not None:
        yield from ast.walk(node.msg)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in _TAKE_NO_TEXT:
        yield from ast.walk(node)
    elif isinstance(node, ast.JoinedStr):
        yield from (part for part in ast.walk(node) if part is not node)
    elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield from ast.walk(node.annotation)
    elif isinstance(node, ast.FunctionDef) and node.returns is not None:
        yield from ast.walk(node.returns)
    elif isinstance(node, ast.match_case):
        yield from ast.walk(node.pattern)


def _longest_piece(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        pieces = _PLACE.split(node.value) if isinstance(node.value, str) else []
    else:
        pieces = [
            part.value
            for part in node.values
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
    cleaned = (" ".join(piece.split()).strip(" ;,:.()'\"") for piece in pieces)
    return max(cleaned, key=len, default="")

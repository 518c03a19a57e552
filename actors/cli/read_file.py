"""Gets the text of a shape file and hands it to the reader of its format, by suffix.

Never raises for what a file may be: every way in which there is no text to read is a fault.
"""

import difflib
import os
import re
import stat
from pathlib import Path

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import quoted
from cluster_reconciler.actors.cli.read_json import read_json
from cluster_reconciler.actors.cli.read_toml import read_toml

SIZE_MAX = 1024 * 1024
"""Bytes.  A shape of a thousand groups is a tenth of it; what is larger is another file."""

DEPTH_HINT = "a shape is at most 5 levels deep"


def _read_yaml(document: Document, text: str) -> None:
    from cluster_reconciler.actors.cli.read_yaml import read_yaml  # noqa: PLC0415  # brings PyYAML

    read_yaml(document, text)


_READERS = {".toml": read_toml, ".yaml": _read_yaml, ".yml": _read_yaml, ".json": read_json}
_FORMATS = {read_toml: "TOML", _read_yaml: "YAML", read_json: "JSON"}
_RENAME = "give the file the suffix of its format"
_MERGE = "keep one of the two versions, and remove the lines <<<<<<<, ======= and >>>>>>>"
_CONFLICT = ("\n<<<<<<< ", "\n=======", "\n>>>>>>> ")
_STATEMENT = re.compile(r"^[ \t]*+(?![ \t\r#]|---|$).*$", re.MULTILINE)
_YAML = re.compile(r"^[ \t]*(?:- +)?[A-Za-z_][\w-]*:(?:[ \t\r]|$)", re.MULTILINE)
_TOML = re.compile(
    r"^[ \t]*(?:[A-Za-z_][\w.-]*[ \t]*=|\[\[?[A-Za-z_][\w.-]*\]\]?[ \t\r]*$)", re.MULTILINE
)
_NEAR = 0.7
"""How alike the names of two files are, of 1, if one may be a slip of the other."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_document(file: str) -> Document:
    """The file as a tree with lines and with the faults of its syntax; not yet judged."""
    document = Document(file)
    reader = _READERS.get(Path(file).suffix.lower())
    if reader is None:
        document.unreadable(
            "a file name that ends in .toml, .yaml, .yml or .json",
            f"the suffix {quoted(Path(file).suffix)}" if Path(file).suffix else "no suffix",
        )
        return document
    text = _text(document)
    if text is None:
        return document
    document.text = text
    if other := _other_format(document, text):
        line = next(n for n, each in enumerate(text.split("\n"), 1) if _STATEMENT.match(each))
        found = f"a text that looks like {other}"
        document.unreadable(f"{_FORMATS[reader]}, as the file's name says", found, line, _RENAME)
        return document
    try:
        reader(document, text)
    except RecursionError:
        document.unreadable("a shape", "a text that is nested too deeply", None, DEPTH_HINT)
    conflict = _line_of_conflict(text)
    if document.faults and conflict is not None:
        # All that was found follows from it.
        document.faults.clear()
        document.unreadable("one version of the file", "marks of a merge", conflict, _MERGE)
    absent = document.tree is None and () not in document.lines
    if document.readable and not document.faults and (absent or document.tree == {}):
        document.unreadable("a shape with run_id and groups", "an empty file")
    return document


def _other_format(document: Document, text: str) -> str | None:
    """The format that the first line of the text shows, and none speaks against, if it is not the
    one that the file's name says.  YAML may hold JSON."""
    first = _STATEMENT.search(text)
    if first is None:
        return None
    reader = _READERS[Path(document.file).suffix.lower()]
    if first[0].startswith("{"):
        return "JSON" if reader is read_toml else None
    if reader is not _read_yaml and _YAML.match(first[0]) and not _TOML.search(text):
        return "YAML"
    if reader is not read_toml and _TOML.match(first[0]) and not _YAML.search(text):
        return "TOML"
    return None


def _line_of_conflict(text: str) -> int | None:
    """Where the two versions begin that a merge left; None: there are none."""
    begin, between, end = _CONFLICT
    marked = f"\n{text}"
    start = marked.find(begin)
    middle = marked.find(between, start) if start >= 0 else -1
    if middle < 0 or marked.find(end, middle) < 0:
        return None
    return marked.count("\n", 0, start + 1)


def _text(document: Document) -> str | None:
    content = _bytes(document)
    if content is None:
        return None
    if content.startswith(_UTF16):
        document.unreadable("a text in UTF-8", "UTF-16", 1, "save the file as UTF-8")
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{content[error.start]:02x}, which is not UTF-8"
        document.unreadable("a text in UTF-8", found, line, "save the file as UTF-8")
        return None


def _bytes(document: Document) -> bytes | None:
    """None, with a fault: the path leads to no regular file of a sane size."""
    file = document.file
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            # Opening a FIFO would wait for a writer, for ever.
            document.unreadable("a file", f"a {_kind_of(file)}")
            return None
        with open(file, "rb") as opened:
            content = opened.read(SIZE_MAX + 1)
    except FileNotFoundError:
        found = "a link that leads nowhere" if os.path.islink(file) else "nothing there"
        directory = os.path.dirname(file)
        lost = bool(directory) and not os.path.isdir(directory)
        hint = f"there is no directory {quoted(directory)} either" if lost else None
        document.unreadable("a file", found, None, hint, None if lost else _near_name(file))
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        document.unreadable("a readable file", f"an error: {reason}")
        return None
    if len(content) > SIZE_MAX:
        document.unreadable(f"a shape of at most {SIZE_MAX // 1024} KiB", "a larger file")
        return None
    return content


def _kind_of(file: str) -> str:
    return "directory" if os.path.isdir(file) else "device, socket or pipe"


def _near_name(file: str) -> str | None:
    """The file that was probably meant: one whose name is near without its suffix, which most have
    in common."""
    directory, name = os.path.split(file)
    try:
        names = sorted(os.listdir(directory or "."))[:1000]
    except OSError:
        return None
    # Of two names that differ in their suffix alone, the one with that of the name comes last.
    names.sort(key=lambda each: Path(each).suffix[:2] == Path(name).suffix[:2])
    stems = {Path(each).stem: each for each in names if _may_be_meant(directory, each)}
    close = difflib.get_close_matches(Path(name).stem, stems, n=1, cutoff=_NEAR)
    return os.path.join(directory, stems[close[0]]) if close else None


def _may_be_meant(directory: str, name: str) -> bool:
    """Whether there is something to read: not so behind a link that leads nowhere."""
    return Path(name).suffix.lower() in _READERS and os.path.exists(os.path.join(directory, name))

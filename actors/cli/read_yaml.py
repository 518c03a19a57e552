"""Reads YAML with the line of every place, every duplicate key, and no surprises.

Scalars are what YAML 1.2 makes of them: `true` and `false` are booleans; `on`, `no`, `012`, `1:30`
and `2024-01-01` are the strings that they look like.  Tags make no objects, aliases cannot explode.
"""

import math
import re

import yaml

from cluster_reconciler.actors.cli.document import UNKNOWN, Document
from cluster_reconciler.actors.cli.faults import (
    BROKEN_MAX,
    CURLY,
    STRAIGHT,
    Path,
    WrittenFloat,
    as_written,
    quoted,
)
from cluster_reconciler.actors.cli.file_hints import UNFILLED

_PLACES_MAX = 200_000
"""An alias of an alias of an alias ... fills the memory from a few lines of text."""

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII
)
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_PLAIN = "plain"
_QUOTED = "quoted"
_WANTED = re.compile(r"expected (.+?),? but (?:found|got) (.+)")
"""A problem in the words of PyYAML."""
_STRING, _MAPPING, _SEQUENCE = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))
_BREACHES = (
    ("could not find expected ':'", True, "a key, a colon and a space", None),
    ("expected ',' or ']'", False, "a comma or a closing ]", None),
    ("expected ',' or '}'", False, "a comma or a closing }", None),
    ("found unexpected end of stream", True, "a closing quote", None),
    (
        "mapping values are not allowed here",
        False,
        "one key on a line",
        "put a value with a colon in quotes; indent the keys of a table alike",
    ),
    ("cannot start any token", False, "a value", "put the value in quotes"),
    ("found undefined alias", False, "an alias of something that is marked with & above", None),
    (
        "expected <block end>",
        False,
        "the keys of a table, or the entries of a list, indented alike",
        "nothing may follow the closing quote of a value",
    ),
    (
        "found unknown escape character",
        False,
        "a valid escape after the backslash",
        "in single quotes a backslash is only a backslash",
    ),
    ("sequence entries are not allowed", False, "each entry of a list on its own line", None),
    ("expected the node content", False, "a value", "put the value in quotes"),
    ("expected '<document start>'", False, "the end of the file", "one value is the whole file"),
)
"""What PyYAML says; whether it began at its context, rather than where PyYAML gave up; what was
expected; what to do."""
_OF_ONE_VALUE = (
    "mapping values are not allowed",
    "found character",
    "found unknown escape character",
    "expected <block end>, but found '<scalar>'",
    "sequence entries are not allowed",
    "found undefined alias",
    "found unexpected end of stream",
)
"""So begin the problems that are over when the value of their line is another one."""
_OF_INDENTATION = (
    "mapping values are not allowed",
    "expected <block end>, but found '<block mapping start>'",
)
_NEXT = re.compile(r"[ ]*(?:-[ ]|[\w.\"'-]+:(?:[ ]|$))")
"""So begins a line of its own."""
_PAIR = re.compile(r"""([ ]*(?:-[ ]+)*(?:"[^"]*"|'[^']*'|[\w.-]+)[ ]*:[ ]+)(\S.*)""")
_UNSPACED = re.compile(r"([ ]*(?:-[ ]+)*)([A-Za-z_][\w-]*:)([^\s:/{\[|>&*!#%@`][^\s#]*)[ \r]*")
"""A key and its value with no space between them: YAML takes both for one word."""
_FILLER = "\ue000"
"""More of these than any text has together stand in place of a value that cannot be read."""
_QUOTE = re.compile("['\"]")
_CURLY = re.compile(f"(?:^|[-:,{{\\[])[ ]*[{''.join(CURLY)}]")
"""One that begins a value or an entry."""
_FILLERS = re.compile(f"{_FILLER}+")
"""Faults of syntax that are told of one file."""
_READ_MAX = 200_000
"""Characters that are read again for the sake of further faults."""
_HARMLESS_TAGS = (_PLAIN, _QUOTED, _STRING, _MAPPING, _SEQUENCE)


class _Composer(yaml.SafeLoader):
    """Composes nodes only: nothing is constructed, and no scalar resolved, by PyYAML."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: object) -> str:
        """The tag of a node that has none of its own, whatever its `value`."""
        del value
        is_plain = isinstance(implicit, tuple) and implicit[0]
        return _PLAIN if is_plain or kind is not yaml.ScalarNode else _QUOTED


def read_yaml(document: Document, text: str) -> None:
    """Fill the document; of a text that is no YAML with what is sound in it, where single values
    break it, else with that fault."""
    unreadable = _FILLER * (max(map(len, _FILLERS.findall(text)), default=0) + 1)
    root = _sound_root(document, text, unreadable)
    if root is None:
        return
    try:
        document.tree = _Walk(document, unreadable).value(root, ())
    except _Explodes:
        document.unreadable("a shape", "aliases that expand without end")


def _sound_root(document: Document, text: str, unreadable: str) -> yaml.Node | None:
    """What is sound in the text, with `unreadable` for values that cannot be read, and the faults
    of the rest told; None: nothing stands there, or the document is no longer readable."""
    read, block = text, None
    for _ in range(_attempts(text)):
        try:
            return _composed(read)
        except yaml.YAMLError as error:
            if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
                _refuse(document, text, error)
                break
            lines, line = read.split("\n"), error.problem_mark.line
            follows, unread = False, unreadable in "".join(lines[line : line + 1])
            if (spaced := _with_space(document, lines, error, line)) is not None:
                read = "\n".join(spaced)
                continue
            passed_over = _without_value(lines, error, error.problem_mark, unreadable)
            if passed_over is None:
                passed_over = _without_block(lines, error, line)
                document.complete = False
                follows = passed_over is not None and _goes_on(text, block, line)
                block = block if follows else line
            if not follows and not unread:
                _refuse(document, text, error)
            if passed_over is None:
                break
            read = "\n".join(passed_over)
    document.readable = False
    return None


def _attempts(text: str) -> int:
    """PyYAML takes its time: a large text is read again less often."""
    return max(min(BROKEN_MAX, _READ_MAX // len(text)), 2) if text else 1


def _composed(text: str) -> yaml.Node | None:
    loader = _Composer(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _with_space(
    document: Document, lines: list[str], error: yaml.MarkedYAMLError, line: int
) -> list[str] | None:
    """The lines with a space after a colon that had none, which is told; None: that is not what
    broke the text.  PyYAML may find out only on the next line."""
    problem = error.problem or ""
    if problem.startswith("could not find expected ':'") and error.context_mark is not None:
        line = error.context_mark.line
    elif problem.startswith("mapping values are not allowed"):
        line = next((n for n in range(line - 1, -1, -1) if lines[n].strip()), line)
    else:
        return None
    pair = _UNSPACED.fullmatch("".join(lines[line : line + 1]))
    if pair is None:
        return None
    found, meant = f"{pair[2]}{pair[3]}", f"{pair[2]} {pair[3]}"
    hint = f"write {as_written(meant)}"
    column = len(pair[1]) + 1
    document.broken("a space after the colon", as_written(found), line + 1, hint, column)
    return [*lines[:line], pair[1] + meant, *lines[line + 1 :]]


def _without_value(
    lines: list[str], error: yaml.MarkedYAMLError, mark: yaml.Mark, unreadable: str
) -> list[str] | None:
    """The lines with something unknown in place of the value that cannot be read; None: more than
    one value of one line is broken, or it is no value that is."""
    problem = error.problem or ""
    if problem.startswith("found unexpected end") and error.context_mark is not None:
        # Only where the next line is none that the text could go on with.
        mark = error.context_mark
        if not _NEXT.match("".join(lines[mark.line + 1 : mark.line + 2])):
            return None
    pair = _PAIR.fullmatch(lines[mark.line]) if mark.line < len(lines) else None
    if pair is None or pair[2] == unreadable or not problem.startswith(_OF_ONE_VALUE):
        return None
    if problem.startswith(_OF_INDENTATION) and mark.column < len(pair[1].rstrip()):
        return None  # the key itself fits nowhere, whatever its value is
    return [*lines[: mark.line], pair[1] + unreadable, *lines[mark.line + 1 :]]


def _without_block(lines: list[str], error: yaml.MarkedYAMLError, first: int) -> list[str] | None:
    """The lines without the one whose indentation fits nowhere, and without what is below it; None:
    something else is wrong."""
    if first >= len(lines) or not (error.problem or "").startswith(_OF_INDENTATION):
        return None
    last = first
    while last + 1 < len(lines) and _depth(lines[last + 1]) > _depth(lines[first]):
        last += 1
    if not any(lines[first : last + 1]):
        return None
    return [*lines[:first], *[""] * (last + 1 - first), *lines[last + 1 :]]


def _goes_on(text: str, block: int | None, line: int) -> bool:
    """Whether the block with a fault, which begins on that line, goes on to this one: what stands
    in it fits nowhere either, for the same reason."""
    if block is None:
        return False
    lines = text.split("\n")
    return all(_depth(each) >= _depth(lines[block]) for each in lines[block + 1 : line + 1])


def _depth(line: str) -> float:
    """How far the line is indented; an empty one is part of what is around it."""
    return len(line) - len(line.lstrip(" ")) if line.strip() else math.inf


class _Explodes(Exception):
    """The aliases expand without a sane bound."""


class _Walk:
    """From nodes to plain values; an alias is walked anew at each of its places."""

    def __init__(self, document: Document, unreadable: str) -> None:
        self._document = document
        self._unreadable = unreadable
        self._places = 0
        self._open: set[int] = set()
        """The nodes around this place: an alias to one of them would have no end."""

    def value(self, node: yaml.Node, path: Path) -> object:
        self._places += 1
        if self._places > _PLACES_MAX or id(node) in self._open:
            raise _Explodes
        if path not in self._document.lines:
            self._note(path, node.start_mark)
        if node.tag not in _HARMLESS_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._document.fault(path, "a plain value", f"the tag {quoted(tag)}")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                if _is_template(node):
                    self._document.fault(path, "a value", "{{...}}", hint=UNFILLED)
                    return UNKNOWN
                return self._table(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
            assert isinstance(node, yaml.ScalarNode), f"YAML has no node {type(node)}"
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _table(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        table: dict[str, object] = {}
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            place = line, key_node.start_mark.column + 1
            key = key_node.value
            if not isinstance(key, str):
                self._document.fault(path, "keys that are strings", "a list or table as a key")
                continue
            if key == "<<" and key_node.style is None:
                self._note((*path, key), key_node.start_mark)
                hint = "write the keys out, or use an alias for a whole value"
                self._document.fault((*path, key), "a key", "a merge", hint=hint)
                continue
            if key in seen:
                self._document.duplicate((*path, key), place, seen[key])
                continue
            seen[key] = line
            self._note((*path, key), key_node.start_mark)
            table[key] = self.value(value_node, (*path, key))
        return table

    def _note(self, path: Path, mark: yaml.Mark) -> None:
        self._document.lines[path] = mark.line + 1
        self._document.columns[path] = mark.column + 1

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = str(node.value)
        if node.tag != _PLAIN:
            return text
        if text == self._unreadable:
            return UNKNOWN
        self._document.raw[path] = text
        return _plain(text)


def _is_template(node: yaml.MappingNode) -> bool:
    """Whether it is `{{ name }}`: to YAML a table whose key is a table."""
    keys = [key for key, _ in node.value]
    return len(keys) == 1 and node.flow_style is True and isinstance(keys[0], yaml.MappingNode)


def _plain(text: str) -> object:
    """What an unquoted scalar means."""
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _BASED.fullmatch(text):
            return int(text, 0)
    except ValueError:
        return text  # thousands of digits: no number that could be meant
    if _FLOAT.fullmatch(text):
        return WrittenFloat(text)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _refuse(document: Document, text: str, error: yaml.YAMLError) -> None:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        document.broken("printable characters", "a control character", line)
        return
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        document.broken("valid YAML", str(error).splitlines()[0])
        return
    line = error.problem_mark.line + 1
    problem = error.problem or "something else"
    source = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
    if "\\t" in problem or source[: len(source) - len(source.lstrip())].count("\t"):
        document.broken("spaces as indentation", "a tab", line)
    elif "but found another document" in problem:
        document.broken("one document", "a second one", line, "give each shape its own file")
    else:
        _breach(document, text, error, problem)


def _breach(document: Document, text: str, error: yaml.MarkedYAMLError, problem: str) -> None:
    """A fault of the grammar, with the line on which it was made."""
    assert error.problem_mark is not None, f"no place: {error}"
    mark = error.problem_mark
    line = mark.line + 1
    for start, at_context, expected, hint in _BREACHES:
        if start in problem:
            if at_context and error.context_mark is not None:
                mark = error.context_mark
                line = mark.line + 1
            source = text.split("\n")[line - 1 : line]
            found = as_written(source[0].strip()) if any(source) else "the end of the file"
            quote = start != "expected <block end>" or _QUOTE.search("".join(source))
            what_to_do = STRAIGHT if _CURLY.search("".join(source)) else hint if quote else None
            document.broken(expected, found, line, what_to_do, mark.column + 1)
            return
    wanted = _WANTED.fullmatch(problem)
    expected = f"{wanted[1]} here" if wanted is not None else "valid YAML"
    found = wanted[2] if wanted is not None else problem.removeprefix("found ")
    hint = f"this was read {error.context}" if error.context else None
    column = error.problem_mark.column + 1
    document.broken(expected, found, line, hint, column)

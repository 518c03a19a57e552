"""What a fault of one place may look like: every small change of a module's syntax tree.

It reads source and answers with mutants; it runs none, and knows of no test.  What is never
changed, since no behaviour stands there: imports, docstrings, annotations, aliases and variables of
types, `__all__`, words of a table that are there for people, and in the product (not in the checks)
assertions, which only say what cannot be.

Theory of operation.  The tree is walked once.  Each place offers replacements, which are put in,
compiled, and taken out again, so that a thousand mutants cost one parse.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType

from tests.mutation.expressions import Members, expressions

Node = ast.AST
SHOWN_MAX = 130
"""Characters of a change that are shown."""


@dataclass(frozen=True)
class Mutant:
    """One change.  `function` is None where the change runs while the module is imported."""

    module: str
    number: int
    line: int
    end_line: int
    function: str | None
    span: tuple[int, int]
    """The first and last line of the function, or of the statement at the top."""
    before: str
    after: str
    code: CodeType = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """What names it in the list of survivors, whatever line it has come to stand at."""
        place = self.function or "(at import)"
        return f"{self.module} | {place} | `{self.before}` | `{self.after}`"


@dataclass(frozen=True)
class _Place:
    """Where a replacement goes, and what stands around it."""

    parent: Node
    name: str
    index: int | None
    way: tuple[Node, ...]
    """From the module down to the parent."""
    function: str | None
    span: tuple[int, int]


def mutants_of(
    module: str, source: str, filename: str, members: Members, *, assertions: bool
) -> Iterator[Mutant]:
    """Every mutant of the source, in the order of its text.

    `members`: the members of each enumeration, in order; one is exchanged for the next one.
    `assertions`: whether conditions of assertions are changed as well."""
    tree = ast.parse(source)
    number = 0
    seen: set[tuple[int, str, str]] = set()
    again: dict[tuple[str, str, str], int] = {}
    for place, old, new in _changes(tree, members, assertions=assertions):
        if new is not None:
            _locate(new, old, place.span[0])
        before = _text(place, old)
        undo = _put(place, old, new)
        try:
            after = _text(place, new) if new is not None else "(left out)"
            code = compile(tree, filename, "exec")
        except SyntaxError:
            continue
        finally:
            undo()
        line = getattr(old, "lineno", place.span[0])
        if before == after or (line, before, after) in seen:
            continue
        seen.add((line, before, after))
        before, after = _shown(before, after)
        named = (place.function or "", before, after)
        again[named] = again.get(named, 0) + 1
        if again[named] > 1:
            after = f"{after} (the {again[named]}. of these)"
        number += 1
        end = getattr(old, "end_lineno", line)
        yield Mutant(module, number, line, end, place.function, place.span, before, after, code)


def _locate(new: Node, old: Node, line: int) -> None:
    """Let what is new stand where the old stood.  (`ast.fix_missing_locations` would walk the whole
    module for each mutant.)"""
    stood = {
        "lineno": getattr(old, "lineno", line),
        "col_offset": getattr(old, "col_offset", 0),
        "end_lineno": getattr(old, "end_lineno", line),
        "end_col_offset": getattr(old, "end_col_offset", 0),
    }
    for node in ast.walk(new):
        for name in set(node._attributes).intersection(stood):
            if getattr(node, name, None) is None:
                setattr(node, name, stood[name])


def _put(place: _Place, old: Node, new: Node | None) -> Callable[[], None]:
    """Put the new node in the old one's place; None takes it away.  Answers with the way back."""
    if place.index is None:
        setattr(place.parent, place.name, new)
        return lambda: setattr(place.parent, place.name, old)
    siblings: list[Node] = getattr(place.parent, place.name)
    before = list(siblings)
    siblings[place.index : place.index + 1] = [new] if new is not None else []

    def undo() -> None:
        siblings[:] = before

    return undo


def _text(place: _Place, node: Node | None) -> str:
    """The change's surroundings, as much as fits on a line."""
    best = _unparsed(node) if node is not None and not isinstance(node, ast.operator) else ""
    for around in reversed(place.way):
        if isinstance(around, ast.Module | ast.ClassDef | ast.FunctionDef):
            break
        text = _unparsed(around)
        if len(text) > 90 and best:
            break
        best = text
    return " ".join(line.strip() for line in best.splitlines()) or "nothing"


def _shown(before: str, after: str) -> tuple[str, str]:
    """As much of both as fits on a line: where they differ, and a little around it."""
    if max(len(before), len(after)) <= SHOWN_MAX:
        return before, after
    pairs = enumerate(zip(before, after, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))
    begin = max(0, at - SHOWN_MAX // 3) if at < len(before) else 0
    return _cut(before, begin), _cut(after, begin)


def _cut(text: str, begin: int) -> str:
    end = begin + SHOWN_MAX
    return ("..." if begin else "") + text[begin:end] + ("..." if end < len(text) else "")


def _unparsed(node: Node) -> str:
    try:
        return ast.unparse(node)
    except (AttributeError, ValueError):
        return ""


Change = tuple[_Place, Node, Node | None]


def _changes(tree: ast.Module, members: Members, *, assertions: bool) -> Iterator[Change]:
    yield from _walk(tree, (), None, (1, 1), members, assertions)


def _walk(
    parent: Node,
    way: tuple[Node, ...],
    function: str | None,
    span: tuple[int, int],
    members: Members,
    assertions: bool,
) -> Iterator[Change]:
    here = (*way, parent)
    for name, index, child in _children(parent):
        inside, lines = function, span
        if function is None and isinstance(child, ast.stmt):
            lines = (child.lineno, child.end_lineno or child.lineno)
        if function is None and isinstance(child, ast.Lambda):
            inside = _name(child, here)
        place = _Place(parent, name, index, here, inside, lines)
        if _is_left_alone(parent, name, child, assertions):
            continue
        if function is None and _is_for_people(parent, index, child):
            continue
        for new in _replacements(parent, name, child, members):
            yield place, child, new
        if isinstance(child, ast.FunctionDef | ast.Lambda) and function is None:
            yield from _walk(child.args, (*here, child), None, span, members, assertions)
            inside = _name(child, here)
            lines = (child.lineno, child.end_lineno or child.lineno)
        yield from _walk(child, here, inside, lines, members, assertions)


def _name(child: ast.FunctionDef | ast.Lambda, way: tuple[Node, ...]) -> str:
    if isinstance(child, ast.Lambda):
        return "<lambda>"
    classes = [around.name for around in way if isinstance(around, ast.ClassDef)]
    return ".".join([*classes, child.name])


def _children(parent: Node) -> Iterator[tuple[str, int | None, Node]]:
    for name, value in ast.iter_fields(parent):
        if isinstance(value, ast.AST):
            yield name, None, value
        elif isinstance(value, list):
            for index, item in enumerate(list(value)):
                if isinstance(item, ast.AST):
                    yield name, index, item


def _is_left_alone(parent: Node, name: str, child: Node, assertions: bool) -> bool:
    if isinstance(child, ast.Import | ast.ImportFrom | ast.expr_context | ast.alias | ast.arg):
        return True
    if name in ("annotation", "returns", "decorator_list", "bases", "msg", "exc", "cause"):
        return True
    if isinstance(parent, ast.FunctionDef) and name == "args":
        return True  # Defaults: `_walk` goes there by itself.
    if isinstance(child, ast.Assert):
        return not assertions
    if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
        return True  # A docstring.
    if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
        target = child.targets[0].id
        alias = (
            isinstance(child.value, ast.Subscript | ast.BinOp) and target.lstrip("_")[:1].isupper()
        )
        variable = _unparsed(child.value).startswith("TypeVar(")
        return target == "__all__" or variable or (alias and not target.isupper())
    if isinstance(child, ast.keyword) and isinstance(parent, ast.ClassDef):
        return child.arg != "frozen"  # `gc` is a hint, `tag` the wire's.
    ends = isinstance(child, ast.match_case) and "assert_never" in _unparsed(child)
    return ends or (isinstance(child, ast.Call) and _unparsed(child.func) == "auto")


def _is_for_people(parent: Node, index: int | None, child: Node) -> bool:
    """Words of a table beside what it decides: drawn into the documents, and compared there."""
    if not isinstance(child, ast.Constant) or not isinstance(child.value, str):
        return False
    return " " in child.value or (isinstance(parent, ast.Call) and bool(index))


def _replacements(parent: Node, name: str, child: Node, members: Members) -> Iterator[Node | None]:
    if isinstance(child, ast.stmt):
        yield from _statements(child)
    elif isinstance(child, ast.expr):
        if name != "func" and not isinstance(parent, ast.JoinedStr | ast.FormattedValue):
            yield from expressions(parent, name, child, members)
    elif isinstance(child, ast.keyword):
        if isinstance(parent, ast.Call):
            yield None
    elif isinstance(child, ast.match_case):
        yield from _cases(child)
    elif isinstance(child, ast.MatchOr):
        for at in range(len(child.patterns)):
            left = child.patterns[:at] + child.patterns[at + 1 :]
            yield left[0] if len(left) == 1 else ast.MatchOr(left)
    if isinstance(child, ast.comprehension) and child.ifs:
        yield ast.comprehension(child.target, child.iter, child.ifs[1:], child.is_async)


def _cases(case: ast.match_case) -> Iterator[ast.match_case | None]:
    yield None
    if case.guard is not None:
        yield ast.match_case(case.pattern, None, case.body)
        yield ast.match_case(case.pattern, ast.UnaryOp(ast.Not(), case.guard), case.body)
    plain = isinstance(case.pattern, ast.MatchClass) and case.pattern.kwd_patterns
    if plain:
        pattern = case.pattern
        assert isinstance(pattern, ast.MatchClass)
        yield ast.match_case(
            ast.MatchClass(pattern.cls, pattern.patterns, [], []), case.guard, case.body
        )


def _statements(statement: ast.stmt) -> Iterator[ast.stmt | None]:
    """A statement that is left out, or a branch that goes the other way."""
    nothing = ast.copy_location(ast.Pass(), statement)
    if isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete | ast.Raise | ast.Assert):
        yield nothing
    if isinstance(statement, ast.Assign) and _is_made_anew(statement):
        yield nothing
    if isinstance(statement, ast.Break | ast.Continue):
        other = ast.Break() if isinstance(statement, ast.Continue) else ast.Continue()
        yield ast.copy_location(other, statement)
    if isinstance(statement, ast.If):
        never = copy.copy(statement)
        never.test = ast.Constant(False)
        yield ast.copy_location(never, statement)
        always = copy.copy(statement)
        always.test = ast.Constant(True)
        yield ast.copy_location(always, statement)
    if isinstance(statement, ast.For):
        never_run = copy.copy(statement)
        never_run.iter = ast.Tuple([], ast.Load())
        yield ast.copy_location(never_run, statement)


def _is_made_anew(statement: ast.Assign) -> bool:
    """Whether the name has a value already, so that the code runs without the assignment: it
    stands in its own value (`node = replace(node, ...)`)."""
    target = statement.targets[0]
    names = {name.id for name in ast.walk(statement.value) if isinstance(name, ast.Name)}
    return isinstance(target, ast.Name) and target.id in names

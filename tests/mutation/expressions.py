"""What an expression may be mistaken for: comparisons, numbers, members, arguments.

Each function answers with the expressions that could stand in the place of a given one.  None of
them looks at what the code means.
"""

import ast
from collections.abc import Iterator, Mapping

Members = Mapping[str, tuple[str, ...]]
"""The members of each enumeration, in the order of their definition."""

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.Pow: ast.Mult,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
OF_ANY_NUMBER = ("min", "max", "_earliest")
"""What takes any number of arguments: without one of them it still answers."""
_OF_A_VALUE = ("len", "replace", "cast", "frozenset", "sorted", "enumerate", "zip")
"""What fails at once for None, in whatever way it is used."""


def expressions(
    parent: ast.AST, name: str, node: ast.expr, members: Members
) -> Iterator[ast.expr | None]:
    """What may stand in the expression's place; None: it is left out."""
    match node:
        case ast.Compare():
            yield from _compare(node)
        case ast.BoolOp():
            yield from _boolean(node)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp():
            yield from _binary(parent, name, node)
        case ast.Constant(value):
            yield from _constant(value)
        case ast.JoinedStr():
            yield ast.Constant("")
        case ast.Attribute(ast.Name(owner), member) if owner in members:
            yield from _member(node, owner, member, members[owner])
        case ast.Call():
            yield from _call(node)
        case ast.IfExp(test, body, other):
            yield ast.IfExp(test, other, body)
        case ast.Lambda(arguments, body) if not isinstance(body, ast.Constant):
            yield ast.Lambda(arguments, ast.Constant(True))
            yield ast.Lambda(arguments, ast.Constant(False))
        case ast.Subscript(value, ast.Slice(lower, upper, step)):
            yield ast.Subscript(value, ast.Slice(None, None, step), node.ctx)
            yield from () if lower is None or upper is None else (value,)
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            yield from _collection(parent, node)
    yield from _in_its_place(parent, name, node)


def _compare(node: ast.Compare) -> Iterator[ast.expr]:
    for at, operator in enumerate(node.ops):
        for other in _COMPARED[type(operator)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    if len(node.ops) > 1:
        yield ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:])
        yield ast.Compare(node.left, node.ops[:-1], node.comparators[:-1])


def _boolean(node: ast.BoolOp) -> Iterator[ast.expr]:
    """The other connection, and each operand left out."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for at in range(len(node.values)):
        left = node.values[:at] + node.values[at + 1 :]
        yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _binary(parent: ast.AST, name: str, node: ast.BinOp) -> Iterator[ast.expr]:
    if isinstance(node.op, ast.BitOr):
        in_check = isinstance(parent, ast.Call) and name == "args"
        if in_check or isinstance(parent, ast.BinOp):
            yield node.left
            yield node.right
    elif type(node.op) in _CALCULATED:
        yield ast.BinOp(node.left, _CALCULATED[type(node.op)](), node.right)


def _constant(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        if value >= 1:
            yield ast.Constant(value - 1)
    elif isinstance(value, str) and value:
        yield ast.Constant("")


def _member(
    node: ast.Attribute, owner: str, member: str, known: tuple[str, ...]
) -> Iterator[ast.expr]:
    if member in known:
        following = known[(known.index(member) + 1) % len(known)]
        yield ast.Attribute(ast.Name(owner, ast.Load()), following, node.ctx)


def _call(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Name):
        called = node.func.id
        if called in _CALLED:
            yield ast.Call(ast.Name(_CALLED[called], ast.Load()), node.args, node.keywords)
        if called == "sorted":
            yield ast.Call(ast.Name("list", ast.Load()), node.args[:1], [])
        if called in OF_ANY_NUMBER:
            yield from _one_fewer(node)
        first = node.args[0] if node.args else None
        if called in ("replace", "fail_attempt", "_unambiguous", "_ambiguous") and first:
            yield first  # As if nothing were done.


def _one_fewer(node: ast.Call) -> Iterator[ast.expr]:
    """Each argument left out, as by someone who has forgotten that there are others.  Of two
    numbers the other one itself is left: `min` wants several."""
    if len(node.args) < 2:
        return
    for at in range(len(node.args)):
        left = node.args[:at] + node.args[at + 1 :]
        alone = len(left) == 1 and isinstance(node.func, ast.Name) and node.func.id in _CALLED
        yield left[0] if alone else ast.Call(node.func, left, node.keywords)


def _collection(
    parent: ast.AST, node: ast.Tuple | ast.List | ast.Set | ast.Dict
) -> Iterator[ast.expr]:
    """Each element left out; in a table whose order counts, each one exchanged with the next."""
    if isinstance(node, ast.Dict):
        for at in range(len(node.keys)):
            keys, values = list(node.keys), list(node.values)
            del keys[at], values[at]
            yield ast.Dict(keys, values)
        return
    if isinstance(node, ast.Tuple) and not isinstance(node.ctx, ast.Load):
        return
    if isinstance(parent, ast.Compare | ast.Subscript | ast.MatchValue):
        return
    if len(node.elts) > 1 or isinstance(node, ast.Set):
        for at in range(len(node.elts)):
            left = node.elts[:at] + node.elts[at + 1 :]
            yield _again(node, left)
    if isinstance(parent, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Tuple):
        for at in range(len(node.elts) - 1):
            one, other = node.elts[at : at + 2]
            yield _again(node, [*node.elts[:at], other, one, *node.elts[at + 2 :]])
            yield from _exchanged(node, at)


def _again(node: ast.Tuple | ast.List | ast.Set, elements: list[ast.expr]) -> ast.expr:
    if isinstance(node, ast.Set):
        return ast.Set(elements) if elements else ast.Tuple([], ast.Load())
    return type(node)(elements, ast.Load())


def _exchanged(node: ast.Tuple, at: int) -> Iterator[ast.expr]:
    """A row of a table that takes the next row's answer."""
    one, other = node.elts[at : at + 2]
    if not (isinstance(one, ast.Call) and isinstance(other, ast.Call)):
        return
    for place, (mine, its) in enumerate(zip(one.args, other.args, strict=False)):
        differ = isinstance(mine, ast.Attribute) and ast.dump(mine) != ast.dump(its)
        if differ:
            arguments = [*one.args[:place], its, *one.args[place + 1 :]]
            row = ast.Call(one.func, arguments, one.keywords)
            yield ast.Tuple([*node.elts[:at], row, *node.elts[at + 1 :]], ast.Load())


def _in_its_place(parent: ast.AST, name: str, node: ast.expr) -> Iterator[ast.expr | None]:
    """What the place alone suggests: a value that is not returned, an argument that is none."""
    if isinstance(parent, ast.Return):
        if not (isinstance(node, ast.Constant) and node.value is None):
            yield ast.Constant(None)
        if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield ast.Constant(True)
        if isinstance(node, ast.Call):
            yield from (
                given
                for given in node.args[:1]
                if isinstance(given, ast.Name) and given.id == "node"
            )
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call)
    if isinstance(parent, ast.If | ast.IfExp | ast.While) and name == "test" and plain:
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(parent, ast.Assign) and name == "value" and plain:
        yield ast.Constant(None)
    if isinstance(parent, ast.comprehension) and plain and name == "ifs":
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(parent, ast.keyword) and plain:
        yield ast.Constant(None)
    if isinstance(parent, ast.Call) and name == "args" and plain:
        yield from _not_given(parent, node)


def _not_given(call: ast.Call, node: ast.expr) -> Iterator[ast.expr]:
    """A positional argument that is none; not where that fails whatever is asked."""
    called = ast.unparse(call.func).rpartition(".")[2]
    is_type = called == "isinstance" and node is not call.args[0]
    if not is_type and called not in _OF_A_VALUE:
        yield ast.Constant(None)

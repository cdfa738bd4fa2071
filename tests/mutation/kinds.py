"""The kinds of mutants: the replacements of text for a node of the syntax tree."""

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from mutation.source import Source

Edit = tuple[int, int, str]
"""From an offset to an offset, another text."""

Kind = Callable[[Source, Any], Iterator[Edit]]
KINDS: dict[str, Kind] = {}

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**",
}  # fmt: skip
COMPARISONS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
AXES = {"axis", "axes", "dim", "dims", "in_axes", "out_axes"}
NARROW = {
    "float64": "float32", "float32": "float64", "complex128": "complex64", "complex64": "complex128",
    "int64": "int32", "int32": "int64", "uint64": "uint32", "uint32": "uint64",
}  # fmt: skip
SUMS = {"sum_to", "fit", "fit_tangent", "_summed", "unbroadcast"}
"""Functions that sum a cotangent over the axes along which its argument was broadcast."""

UNORDERED = {
    "isinstance", "issubclass", "getattr", "hasattr", "setattr", "super",
    "add", "multiply", "maximum", "minimum", "max", "min", "logical_and", "logical_or",
}  # fmt: skip
"""Functions that refuse their arguments in another order at once, or take them in any."""


def kind(function: Kind) -> Kind:
    KINDS[function.__name__] = function
    return function


def is_text(node: ast.AST) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def name_of(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _swapped_operator(source: Source, node: ast.AST, pairs: dict[type[ast.AST], str]) -> Iterator[Edit]:
    """``+`` for ``-`` and the like, in an operation or an assignment that operates."""
    if isinstance(node, ast.BinOp):
        left, right, end = node.left, node.right, ""
    elif isinstance(node, ast.AugAssign):
        left, right, end = node.target, node.value, "="
    else:
        return
    other = pairs.get(type(node.op))
    if other is None or is_text(left) or is_text(right):
        return
    place = source.between(left, right, BINARY[type(node.op)] + end)
    if place:
        yield (*place, other + end)


@kind
def sign(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Exchange ``a - b`` and ``a + b``, and drop a minus."""
    yield from _swapped_operator(source, node, {ast.Add: "-", ast.Sub: "+"})
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield (*source.span(node), source.of_node(node.operand))


@kind
def factor(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Exchange ``a / b`` and ``a * b``, and drop a factor or divisor."""
    yield from _swapped_operator(source, node, {ast.Mult: "/", ast.Div: "*"})
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.MatMult)):
        if is_text(node.left) or is_text(node.right):
            return
        yield (*source.span(node), source.of_node(node.left))
        if isinstance(node.op, (ast.Mult, ast.MatMult)):
            yield (*source.span(node), source.of_node(node.right))


@kind
def order(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Exchange two neighbours among arguments, or operands that do not commute."""
    match node:
        case ast.Call(func=func, args=args) if name_of(func) not in UNORDERED:
            for one, other in itertools.pairwise(args):
                if name_of(one) != "xp" and not any(isinstance(a, ast.Starred) or is_text(a) for a in (one, other)):
                    yield from _exchanged(source, one, other)
        case ast.BinOp(left=left, op=ast.Sub() | ast.Div() | ast.MatMult() | ast.Pow() as op, right=right):
            both = f"{source.of_node(right)} {BINARY[type(op)]} {source.of_node(left)}"
            yield (*source.span(node), f"({both})")
        case ast.Return(value=ast.Tuple(elts=[one, other, *_])):
            yield from _exchanged(source, one, other)


def _exchanged(source: Source, one: ast.AST, other: ast.AST) -> Iterator[Edit]:
    (start, middle), (start2, end) = source.span(one), source.span(other)
    first, gap, second = source.text[start:middle], source.text[middle:start2], source.text[start2:end]
    if ast.dump(one) != ast.dump(other):
        yield start, end, second + gap + first


@kind
def axis(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Another axis for a keyword's; ``keepdims`` the other way."""
    if not isinstance(node, ast.keyword):
        return
    place = source.span(node.value)
    if node.arg == "keepdims":
        fixed = isinstance(node.value, ast.Constant)
        yield (*place, str(not node.value.value) if fixed else f"not {source.of_node(node.value)}")
    elif node.arg in AXES:
        number = _integer(node.value)
        if number is None:
            if not isinstance(node.value, (ast.Constant, ast.Dict)):
                yield (*place, "-1")
        else:
            yield (*place, str({0: -1, -1: 0}.get(number, number - 1 if number > 0 else number + 1)))


def _integer(node: ast.AST) -> int | None:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(inner, ast.Constant) and type(inner.value) is int:
        return -inner.value if negative else inner.value
    return None


@kind
def conjugate(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Drop a conjugation."""
    if isinstance(node, ast.Call) and name_of(node.func) in {"conj", "_conj"} and len(node.args) == 1:
        yield (*source.span(node), source.of_node(node.args[0]))


@kind
def dtype(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Drop a conversion or ``dtype=``, or use a dtype of another width."""
    match node:
        case ast.Call(func=func, args=[_, array, _] | [array, _]) if name_of(func) in {"astype", "_astype"}:
            yield (*source.span(node), source.of_node(array))
        case ast.Call(keywords=keywords):
            for at, keyword in enumerate(keywords):
                before = keywords[at - 1].value if at else node.args[-1] if node.args else None
                if keyword.arg == "dtype" and before is not None:
                    yield source.span(before)[1], source.span(keyword)[1], _closing(source, before, keyword)
        case ast.Attribute(attr=name, value=value) if name in NARROW:
            yield source.span(value)[1], source.span(node)[1], f".{NARROW[name]}"


def _closing(source: Source, before: ast.AST, keyword: ast.AST) -> str:
    """Return the brackets that close between an argument and the next, which stay."""
    return source.text[source.span(before)[1] : source.span(keyword)[0]].replace(",", "").strip()


@kind
def summed(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Leave out a sum over broadcast axes."""
    if isinstance(node, ast.Call) and name_of(node.func) in SUMS and node.args:
        array = node.args[1] if name_of(node.args[0]) == "xp" and len(node.args) > 1 else node.args[0]
        if not isinstance(array, ast.Starred):
            yield (*source.span(node), source.of_node(array))


@kind
def condition(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Another comparison, a condition negated, ``not`` dropped."""
    match node:
        case ast.Compare():
            operands = [node.left, *node.comparators]
            for op, (left, right) in zip(node.ops, itertools.pairwise(operands), strict=True):
                word, others = COMPARISONS[type(op)]
                place = source.between(left, right, word)
                yield from [(*place, other) for other in others] if place else []
        case ast.UnaryOp(op=ast.Not()):
            yield (*source.span(node), source.of_node(node.operand))
        case ast.If(test=test) | ast.IfExp(test=test):
            yield from _negated(source, test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(source, test)


def _negated(source: Source, test: ast.AST) -> Iterator[Edit]:
    simple = isinstance(test, ast.Compare) and len(test.ops) == 1
    if not simple and not isinstance(test, ast.UnaryOp) and name_of(test) != "TYPE_CHECKING":
        yield (*source.span(test), f"not {source.of_node(test)}")


@kind
def boolean(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Exchange ``or`` and ``and``, and drop an operand."""
    if not isinstance(node, ast.BoolOp):
        return
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in itertools.pairwise(node.values):
        place = source.between(left, right, word)
        if place:
            yield (*place, other)
    operands = [source.of_node(value) for value in node.values]
    for at in range(len(operands)):
        rest = f" {word} ".join(operands[:at] + operands[at + 1 :])
        yield (*source.span(node), rest if len(operands) == 2 else f"({rest})")


@kind
def statement(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Remove a statement.

    A call, a raise, an assignment to a name that has a value already, a way out of a loop.
    """
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            removed = True
        case ast.Continue() | ast.Break():
            removed = True
        case ast.Return():
            removed = isinstance(source.parents.get(node), ast.If)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            removed = True
        case ast.Assign(targets=[ast.Name() as name]):
            removed = source.rebound(name)
        case _:
            removed = False
    if removed:
        yield (*source.span(node), "pass")


@kind
def constant(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Add or subtract 1, double a float, negate a truth value."""
    if not isinstance(node, ast.Constant):
        return
    parent = source.parents.get(node)
    if isinstance(parent, ast.keyword) and parent.arg in {*AXES, "keepdims", "strict"}:
        return
    for value in _changed(node.value):
        yield (*source.span(node), repr(value))


def _changed(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1] if value == 0 else [value + 1, value - 1]
        case float():
            return [2 * value] if value else [1.0]
    return []

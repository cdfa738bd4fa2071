"""A Python source: its text, its syntax tree, and the position of each node."""

import ast
import bisect
import difflib
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

UNPRINTED = {"__repr__", "__str__", "_repr_html_", "_repr_pretty_"}
"""Functions whose text nobody computes with."""

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.List, ast.Dict, ast.Set)


class Source:
    """The text of one module. Offsets are in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    @classmethod
    def of(cls, file: str) -> "Source":
        with tokenize.open(ROOT / file) as stream:
            return cls(stream.read())

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a position of the tree, whose columns count bytes."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))
        )

    def span(self, node: Any) -> tuple[int, int]:
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of_node(self, node: ast.AST) -> str:
        """Return the text of a node, in brackets if it could not stand alone."""
        start, end = self.span(node)
        text = self.text[start:end]
        tuple_in_brackets = isinstance(node, ast.Tuple) and text.startswith("(")
        return text if isinstance(node, ATOMS) or tuple_in_brackets else f"({text})"

    def between(self, left: ast.AST, right: ast.AST, word: str) -> tuple[int, int] | None:
        """Return the position of an operator between two nodes, or None.

        It is None if comments stand there too.
        """
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.text[start:end]
        if "#" in gap or word not in gap:
            return None
        at = start + gap.index(word)
        return at, at + len(word)

    def line_of(self, offset: int) -> int:
        return bisect.bisect_right(self._starts, offset)

    def replaced(self, start: int, end: int, replacement: str) -> str:
        return self.text[:start] + replacement + self.text[end:]

    def rebound(self, name: ast.Name) -> bool:
        """Return True if an assigned name has a value before."""
        scope = self.parents.get(name)
        while scope is not None and not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = self.parents.get(scope)
        if scope is None:
            return False
        return any(line < name.lineno for line in self._bound(scope)[name.id])

    @cache  # noqa: B019 - sources live as long as the program
    def _bound(self, scope: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[int]]:
        """Return the lines that assign each name of a function; arguments in line 0."""
        found: dict[str, list[int]] = defaultdict(list)
        for node in ast.walk(scope):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id].append(node.lineno)
        for arg in ast.walk(scope.args):
            if isinstance(arg, ast.arg):
                found[arg.arg].append(0)
        return found


def difference(before: str, after: str) -> list[str]:
    """Return the lines that differ, with ``-`` and ``+`` in front."""
    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))
    return [line for line in found[2:] if not line.startswith("@@")]


def same_code(one: CodeType, other: CodeType) -> bool:
    """Return True if two code objects do the same, at any lines."""
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_exceptiontable")
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))


def _same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)


def visited(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes that may be changed.

    No annotation, text, error message, assertion, or code for types alone.
    """
    yield node
    for child in _inner(node):
        if not _left_out(child):
            yield from visited(child)


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Raise():
            return
        case ast.AnnAssign():
            yield from [node.value] if node.value else []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default]
            yield from (*node.decorator_list, *defaults, *node.body)
        case ast.If() if _called(node.test) == "TYPE_CHECKING":
            yield from node.orelse
        case ast.Call() if _called(node.func) == "cast":
            yield from node.args[1:]
        case _:
            yield from ast.iter_child_nodes(node)


def _left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.alias():
            return True
        case ast.Constant(value=str()) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=func):
            return _called(func) in {"warn", "TypeVar", "ParamSpec"}
        case ast.FunctionDef(name=name, decorator_list=decorators):
            return name in UNPRINTED or any(_called(d) == "overload" for d in decorators)
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return False


def _called(node: ast.AST) -> str:
    """Return the last part of a name: ``warn`` of ``warnings.warn``."""
    return getattr(node, "attr", getattr(node, "id", ""))

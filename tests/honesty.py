"""Finds tests that cannot fail, from their syntax.

A check is an ``assert``, an ``AssertionError`` raised, ``pytest.raises`` and similar calls, a process run with
``check=True``, a function of a library whose name begins with ``assert_`` or ``check_``, or a function of the suite
that always reaches a check. Each ``pytest.raises`` has a ``match``, or the test reads the error that it caught.
Loops count as entered unless they run over the results of a search or a selection.
"""

import ast
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHOUT_A_MESSAGE = {"KeyboardInterrupt", "StopIteration", "SystemExit"}
"""Exceptions that are raised without a message."""
WIDE = 0.1
_OF_PYTEST = {"raises", "warns", "fail", "deprecated_call"}
_PASSED_ON = {"enumerate", "zip", "sorted", "reversed", "list", "tuple", "set"}
_SEARCHES = {"glob", "rglob", "iterdir", "findall", "finditer", "walk", "filter"}


@dataclass(frozen=True)
class Problem:
    module: str
    line: int
    function: str
    what: str


def dotted(node: Any) -> str:
    """Return a dotted name, "" for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def functions(body: list[ast.stmt], prefix: str = "") -> dict[str, Function]:
    """Return the functions and methods of a module by name."""
    found = {prefix + node.name: node for node in body if isinstance(node, Function)}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= functions(node.body, f"{node.name}.")
    return found


@cache
def nodes_of(node: ast.AST) -> list[Any]:
    """Return a node and all below it, in the order of ``ast.walk``, which takes twice as long."""
    found: list[Any] = [node]
    for part in found:
        for value in vars(part).values():
            if isinstance(value, list):
                found += [n for n in value if isinstance(n, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@cache
def nested(function: Function) -> dict[str, Function]:
    """Return the functions defined inside one, by name."""
    return {n.name: n for n in nodes_of(function) if isinstance(n, Function) and n is not function}


@cache
def own(node: ast.AST) -> list[Any]:
    """Return a node and the nodes below it that run with it: no function's body."""
    found: list[Any] = [node]
    for part in found:
        found += [n for n in ast.iter_child_nodes(part) if not isinstance(n, (*_FUNCTIONS, ast.Lambda))]
    return found


def is_fixture(function: Function) -> bool:
    return any("fixture" in dotted(getattr(d, "func", d)) for d in function.decorator_list)


class Module:
    """A source: its functions by name, and where its imported names come from."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.functions = functions(tree.body)
        self.imported: dict[str, tuple[str, str]] = {}
        for node in tree.body:
            if isinstance(node, ast.Import):
                self.imported |= {(a.asname or a.name): (a.name, "") for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {(a.asname or a.name): (node.module, a.name) for a in node.names}


class Suite:
    """The modules of a suite by name; ``problems`` yields what is wrong in one of them."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.modules = {name: Module(source) for name, source in sources.items()}
        self._surely: dict[int, bool] = {}
        self._statements: dict[int, bool] = {}
        shared = [m for name, m in self.modules.items() if not name.startswith("test_")]
        self.fixtures = {name: (m, f) for m in shared for name, f in m.functions.items() if is_fixture(f)}

    def function(self, name: str, module: Module, test: Function | None) -> tuple[Module, Function] | None:
        """Return the function of the suite that a dotted name means, or None."""
        if test is not None and name in nested(test):
            return module, nested(test)[name]
        if test is not None and any(a.arg == name for a in test.args.args):
            own = module.functions.get(name)
            return (module, own) if own is not None and is_fixture(own) else self.fixtures.get(name)
        if name in module.functions:
            return module, module.functions[name]
        first, _, rest = name.partition(".")
        where, member = module.imported.get(first, ("", ""))
        for space, found in ((where, member or rest), (f"{where}.{member}", rest)):
            if space in self.modules and found and "." not in found:
                return self.function(found, self.modules[space], None)
        return None

    def checks(self, node: ast.AST | None, module: Module, test: Function) -> bool:
        """Return whether an expression checks something as it is evaluated."""
        calls = [n for n in own(node) if isinstance(n, ast.Call)] if node is not None else []
        return any(self._call_checks(call, module, test) for call in calls)

    def _call_checks(self, call: ast.Call, module: Module, test: Function) -> bool:
        name = dotted(call.func)
        first, _, last = name.rpartition(".")
        if last.startswith("assert_") or (first == "pytest" and last in _OF_PYTEST):
            return True
        if any(k.arg == "check" and getattr(k.value, "value", False) is True for k in call.keywords):
            return True
        found = self.function(name, module, test)
        if found is None:
            return last == "check" or last.startswith("check_")
        space, function = found
        if id(function) not in self._surely:
            self._surely[id(function)] = False  # a recursion adds nothing
            # a fixture may return a function that checks
            every = (function, *nested(function).values())
            self._surely[id(function)] = any(self.surely(f.body, space, f) for f in every)
        return self._surely[id(function)]

    def surely(self, body: list[ast.stmt], module: Module, test: Function) -> bool:
        """Return whether statements check something, whichever way they go."""
        return any(self.statement(node, module, test) for node in body)

    def statement(self, node: ast.stmt, module: Module, test: Function) -> bool:
        if id(node) not in self._statements:
            self._statements[id(node)] = self._statement(node, module, test)
        return self._statements[id(node)]

    def _statement(self, node: Any, module: Module, test: Function) -> bool:
        def every(*bodies: list[ast.stmt]) -> bool:
            sure = [self.surely(body, module, test) for body in bodies]
            return any(sure) and all(map(operator.or_, sure, map(_raises, bodies)))

        def check(part: ast.AST | None) -> bool:
            return self.checks(part, module, test)

        match node:
            case ast.Assert():
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.If():
                return check(node.test) or every(node.body, node.orelse)
            case ast.With():
                if any(check(item.context_expr) for item in node.items):
                    return True
                suppresses = any("suppress" in dotted(getattr(i.context_expr, "func", None)) for i in node.items)
                return not suppresses and self.surely(node.body, module, test)
            case ast.Try():
                handled = [handler.body for handler in node.handlers]
                return self.surely(node.finalbody, module, test) or every([*node.body, *node.orelse], *handled)
            case ast.For():
                return check(node.iter) or (not may_be_empty(node.iter, test) and self.surely(node.body, module, test))
            case ast.While():
                return check(node.test)
        return check(node)

    def problems(self, name: str) -> Iterator[Problem]:
        module = self.modules[name]
        for title, function in module.functions.items():
            nodes = nodes_of(function)
            if function.name.startswith("test_"):
                for line, what in [*self._of_test(module, function), *skips_by_results(nodes)]:
                    yield Problem(name, line, title, what)
            for line, what in loose(nodes):
                yield Problem(name, line, title, what)

    def _of_test(self, module: Module, test: Function) -> Iterator[tuple[int, str]]:
        if not self.surely(test.body, module, test):
            yield test.lineno, "may end without an assertion"
        used = {n.id for n in nodes_of(test) if isinstance(n, ast.Name) and n.lineno >= test.body[0].lineno}
        for argument in [*test.args.args, *test.args.kwonlyargs]:
            found = self.function(argument.arg, module, test)
            acts = found is not None and any(isinstance(n, ast.Yield) for n in nodes_of(found[1]))
            if argument.arg not in {*used, "self"} and not acts:
                yield argument.lineno, f"the parameter {argument.arg} is not used"
        first = min((s.lineno for s in test.body if self.statement(s, module, test)), default=0)
        for node in [n for s in test.body if s.lineno < first and not isinstance(s, Function) for n in own(s)]:
            for block in [getattr(node, part, ()) for part in ("body", "orelse", "finalbody")]:
                returns = isinstance(block, list) and bool(block) and isinstance(block[-1], ast.Return)
                if returns and not self.surely(block, module, test):
                    yield block[-1].lineno, "returns before any assertion"


def _raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def may_be_empty(node: ast.expr, test: Function, depth: int = 4) -> bool:
    """Return whether a loop runs over what was searched for, selected, or looked up with a default."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
        return any(g.ifs or may_be_empty(g.iter, test, depth - 1) for g in node.generators)
    if isinstance(node, ast.Name):
        given = [n.value for n in nodes_of(test) if isinstance(n, ast.Assign) and dotted(n.targets[0]) == node.id]
        return len(given) == 1 and depth > 0 and may_be_empty(given[0], test, depth - 1)
    if isinstance(node, ast.Tuple | ast.List):
        return all(isinstance(e, ast.Starred) and may_be_empty(e.value, test, depth - 1) for e in node.elts)
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
    if name in _PASSED_ON:
        return any(may_be_empty(a, test, depth - 1) for a in node.args)
    return name in _SEARCHES or (name == "get" and len(node.args) == 2)


def loose(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield assertions that always hold, and errors that are checked by class only."""
    used = {dotted(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    items = [i for n in nodes if isinstance(n, ast.With) for i in n.items if i.optional_vars is not None]
    read = [i.context_expr for i in items if dotted(i.optional_vars) in used]
    for node in nodes:
        if isinstance(node, ast.Assert) and always_true(node.test):
            yield node.lineno, "an assertion that cannot fail"
        if not isinstance(node, ast.Call):
            continue
        keywords = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
        if any(isinstance(keywords.get(k), float) and keywords[k] >= WIDE for k in ("rtol", "rel")):
            yield node.lineno, "a tolerance that nearly everything is within"
        bare = dotted(node.func) in ("pytest.raises", "raises") and not keywords.keys() & {"match", "check"}
        if bare and node not in read and not (node.args and dotted(node.args[0]) in WITHOUT_A_MESSAGE):
            yield node.lineno, "an error of which any message will do"


def skips_by_results(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the skips that depend on an exception or on a computed value."""
    computed = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in nodes:
        decided = isinstance(node, ast.ExceptHandler)
        for n in ast.walk(node.test) if isinstance(node, ast.If) else ():
            called = isinstance(n, ast.Call) and not dotted(n.func).partition(".")[0].isupper()
            decided |= getattr(n, "id", None) in computed or called
        for inner in node.body if decided else ():  # type: ignore[attr-defined]
            if any(isinstance(n, ast.Call) and dotted(n.func) == "pytest.skip" for n in ast.walk(inner)):
                yield inner.lineno, "skipped by what the test computed"


def always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return (any if isinstance(test.op, ast.Or) else all)(map(always_true, test.values))
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return isinstance(test, ast.Lambda | ast.GeneratorExp) or bool(getattr(test, "elts", getattr(test, "keys", ())))


def sources_of(folder: Path) -> dict[str, str]:
    """Return the sources of a suite, by the names under which they are imported."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[parts[-1] if parts[-1].startswith("test_") else ".".join(parts)] = path.read_text(encoding="utf-8")
    return found

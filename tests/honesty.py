"""Finds tests that cannot fail, from their syntax alone.

A check is an ``assert``, an ``AssertionError`` raised, ``pytest.raises`` and its like, a process run with
``check=True``, a function of a library whose name begins with ``assert_`` or ``check_``, or a function of the suite's
own that comes to a check. Each ``pytest.raises`` has a ``match``, or the error that it caught is looked at.
Loops count as entered, but for those over what was searched for, chosen by a condition, or looked up with a default.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OF_PYTEST = {"raises", "warns", "fail", "deprecated_call"}
WITHOUT_A_MESSAGE = {"KeyboardInterrupt", "StopIteration", "SystemExit"}
"""Exceptions that are raised with no message."""
WIDE = 0.1
_PASSED_ON = {"enumerate", "zip", "sorted", "reversed", "list", "tuple", "set"}
_SEARCHES = {"glob", "rglob", "iterdir", "findall", "finditer", "walk", "filter"}


@dataclass
class Module:
    """A source: its functions by name, and what its other names mean."""

    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                methods = [n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
                self.functions |= {f"{node.name}.{n.name}": n for n in methods}
            elif isinstance(node, ast.Import):
                self.imported |= {(a.asname or a.name): (a.name, "") for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {(a.asname or a.name): (node.module, a.name) for a in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.values[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.values[node.target.id] = node.value


@dataclass(frozen=True)
class Problem:
    module: str
    line: int
    function: str
    what: str

    @property
    def named(self) -> str:
        """Return the problem without its line, which changes."""
        return f"{self.module} {self.function}: {self.what}"


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes below ``node`` that run with it: no function's body."""
    left = list(ast.iter_child_nodes(node))
    while left:
        child = left.pop()
        yield child
        if not isinstance(child, _FUNCTIONS):
            left += ast.iter_child_nodes(child)


def is_fixture(function: Function) -> bool:
    return any("fixture" in dotted(getattr(d, "func", d)) for d in function.decorator_list)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


class Suite:
    """The modules of a suite by name; ``problems`` says what is wrong in one of them."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.modules = {name: Module(ast.parse(source)) for name, source in sources.items()}
        self._surely: dict[int, bool] = {}
        shared = [m for name, m in self.modules.items() if not name.startswith("test_")]
        self.shared_fixtures = {name: (m, f) for m in shared for name, f in m.functions.items() if is_fixture(f)}
        self._nested: dict[int, dict[str, Function]] = {}
        self._nodes: dict[int, list[ast.AST]] = {}

    def fixture(self, name: str, module: Module) -> tuple[Module, Function] | None:
        own = module.functions.get(name)
        return (module, own) if own is not None and is_fixture(own) else self.shared_fixtures.get(name)

    def nodes(self, function: Function) -> list[ast.AST]:
        """Return all nodes of a function; the walk is kept, as it is slow."""
        if id(function) not in self._nodes:
            self._nodes[id(function)] = list(ast.walk(function))
        return self._nodes[id(function)]

    def nested(self, function: Function) -> dict[str, Function]:
        """Return the functions defined inside one, by name."""
        if id(function) not in self._nested:
            inner = [n for n in self.nodes(function) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
            self._nested[id(function)] = {n.name: n for n in inner if n is not function}
        return self._nested[id(function)]

    # ------------------------------------------------------------ which calls check something

    def function(self, name: str, module: Module, test: Function | None) -> tuple[Module, Function] | None:
        """Return the suite's function that a dotted name means, or None."""
        if test is not None:
            if name in self.nested(test):
                return module, self.nested(test)[name]
            if any(a.arg == name for a in test.args.args):
                return self.fixture(name, module)
        if name in module.functions:
            return module, module.functions[name]
        first, _, rest = name.partition(".")
        where, member = module.imported.get(first, ("", ""))
        for space, found in ((where, member or rest), (f"{where}.{member}", rest)):
            if space in self.modules and found and "." not in found:
                return self.function(found, self.modules[space], None)
        return None

    def checks(self, call: ast.Call, module: Module, test: Function | None) -> bool:
        name = dotted(call.func)
        first, _, last = name.rpartition(".")
        if last.startswith("assert_") or (first == "pytest" and last in _OF_PYTEST):
            return True
        if any(k.arg == "check" and getattr(k.value, "value", False) is True for k in call.keywords):
            return True
        found = self.function(name, module, test)
        if found is None:
            return last == "check" or last.startswith("check_")
        if id(found[1]) not in self._surely:
            self._surely[id(found[1])] = False  # while it is looked at: a recursion adds nothing
            self._surely[id(found[1])] = self._function_checks(*found)
        return self._surely[id(found[1])]

    def _function_checks(self, module: Module, function: Function) -> bool:
        # a fixture may hand out a function that checks
        ways = [Paths(self, module, f) for f in (function, *self.nested(function).values())]
        return any(way.ends_checked for way in ways)

    # ------------------------------------------------------------ what is wrong

    def problems(self, name: str) -> Iterator[Problem]:
        module = self.modules[name]
        for test in [f for f in module.functions.values() if f.name.startswith("test_")]:
            for line, what in [*self._of_test(module, test), *skips_by_results(self.nodes(test))]:
                yield Problem(name, line, test.name, what)
        for function in module.functions.values():
            for line, what in loose(self.nodes(function)):
                yield Problem(name, line, function.name, what)

    def _of_test(self, module: Module, test: Function) -> Iterable[tuple[int, str]]:
        paths = Paths(self, module, test)
        if not paths.seen:
            yield test.lineno, "no assertion"
        elif paths.early:
            yield paths.early[0], "returns before any assertion"
        elif not paths.ends_checked:
            yield test.lineno, "may end without an assertion"
        used = {n.id for n in self.nodes(test) if isinstance(n, ast.Name) and n.lineno >= test.body[0].lineno}
        for argument in [*test.args.args, *test.args.kwonlyargs]:
            if argument.arg not in {*used, "self"} and not self._acts(argument.arg, module):
                yield argument.lineno, f"the parameter {argument.arg} is not used"

    def _acts(self, name: str, module: Module) -> bool:
        """Return True for a fixture that acts when it is requested: one that yields."""
        found = self.fixture(name, module)
        return found is not None and any(isinstance(n, ast.Yield) for n in own_nodes(found[1]))


def loose(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Return assertions that always hold, and errors checked by class alone."""
    used = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    read = [i.context_expr for n in nodes if isinstance(n, ast.With) for i in n.items if _named(i) in used]
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


def _named(item: ast.withitem) -> str | None:
    return item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else None


def skips_by_results(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Return the skips that depend on an exception or on a computed value."""
    computed = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, ast.ExceptHandler):
            decided = True
        elif isinstance(node, ast.If):
            decided = any(
                getattr(n, "id", None) in computed
                or (isinstance(n, ast.Call) and not dotted(n.func).partition(".")[0].isupper())
                for n in ast.walk(node.test)
            )
        else:
            continue
        for inner in node.body if decided else ():
            if any(isinstance(n, ast.Call) and dotted(n.func) == "pytest.skip" for n in ast.walk(inner)):
                yield inner.lineno, "skipped by what the test computed"


def always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return (any if isinstance(test.op, ast.Or) else all)(map(always_true, test.values))
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return isinstance(test, (ast.Tuple, ast.List, ast.Dict, ast.Lambda, ast.GeneratorExp)) and not _empty(test)


def _empty(node: ast.expr) -> bool:
    return not getattr(node, "elts", getattr(node, "keys", True))


class Paths:
    """The ways through a function: whether one ends, or returns, before a check."""

    def __init__(self, suite: Suite, module: Module, function: Function) -> None:
        self.suite, self.module, self.function = suite, module, function
        self.early: list[int] = []
        self.left: list[list[bool]] = []
        """For each loop around, whether a check stands before each ``continue`` and ``break``."""
        self.seen = False
        self.ends_checked = self._after(function.body, False) is not False and not self.early

    def _expression(self, node: ast.AST | None) -> bool:
        """Return True if an expression checks something as it is evaluated."""
        calls = [n for n in ([node, *own_nodes(node)] if node is not None else ()) if isinstance(n, ast.Call)]
        found = any(self.suite.checks(call, self.module, self.function) for call in calls)
        self.seen |= found
        return found

    def _after(self, body: list[ast.stmt], checked: bool) -> bool | None:
        """Return True if something is checked after these statements.

        None if nothing follows them.
        """
        after: bool | None = checked
        for statement in body:
            after = self._statement(statement, bool(after))
            if after is None:
                return None
        return after

    def _statement(self, node: ast.stmt, checked: bool) -> bool | None:
        kind = type(node).__name__
        step: Callable[[Any, bool], bool | None] | None = getattr(self, f"_{kind.lower()}", None)
        if step is not None:
            return step(node, checked)
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return checked
        return self._expression(node) or checked

    def _assert(self, node: ast.Assert, checked: bool) -> bool:
        self.seen = True
        return True

    def _raise(self, node: ast.Raise, checked: bool) -> None:
        self.seen |= node.exc is not None and "AssertionError" in ast.dump(node.exc)

    def _return(self, node: ast.Return, checked: bool) -> None:
        if not (self._expression(node.value) or checked):
            self.early.append(node.lineno)

    def _continue(self, node: ast.Continue, checked: bool) -> None:
        self.left[-1].append(checked)

    _break = _continue

    def _if(self, node: ast.If, checked: bool) -> bool | None:
        checked = self._expression(node.test) or checked
        ways = [self._after(node.body, checked), self._after(node.orelse, checked)]
        return None if ways == [None, None] else all(way is not False for way in ways)

    def _with(self, node: ast.With, checked: bool) -> bool | None:
        checked = any(self._expression(item.context_expr) for item in node.items) or checked
        swallowed = any("suppress" in dotted(getattr(i.context_expr, "func", i.context_expr)) for i in node.items)
        after = self._after(node.body, checked)
        return checked if swallowed else after

    def _try(self, node: ast.Try, checked: bool) -> bool | None:
        ways = [self._after([*node.body, *node.orelse], checked)]
        ways += [self._after(handler.body, checked) for handler in node.handlers]
        last = self._after(node.finalbody, checked)
        if last or last is None:
            return last
        return None if all(way is None for way in ways) else all(way is not False for way in ways)

    def _for(self, node: ast.For, checked: bool) -> bool | None:
        checked = self._expression(node.iter) or checked
        once = self._body(node.body, checked)
        return checked if self._may_be_empty(node.iter) else once

    def _body(self, body: list[ast.stmt], checked: bool) -> bool:
        """Return True if a loop's body always checks something."""
        self.left.append([])
        once = self._after(body, checked)
        return all([*self.left.pop(), once is not False])

    def _while(self, node: ast.While, checked: bool) -> bool | None:
        self._body(node.body, checked)
        return self._expression(node.test) or checked

    def _may_be_empty(self, node: ast.expr, depth: int = 0) -> bool:
        """Return True for a value chosen from something, or with a default."""
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            return any(g.ifs or self._may_be_empty(g.iter, depth) for g in node.generators)
        if isinstance(node, ast.Name) and depth < 4:
            value = self._value_of(node.id)
            return value is not None and self._may_be_empty(value, depth + 1)
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(isinstance(e, ast.Starred) and self._may_be_empty(e.value, depth) for e in node.elts)
        if not isinstance(node, ast.Call):
            return False
        name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        if name in _PASSED_ON:
            return any(self._may_be_empty(a, depth) for a in node.args)
        return name in _SEARCHES or (name == "get" and len(node.args) == 2)

    def _value_of(self, name: str) -> ast.expr | None:
        """Return the one value that a name is given, in the function or a module."""
        given = [
            node.value
            for node in self.suite.nodes(self.function)
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            and any(
                isinstance(t, ast.Name) and t.id == name for t in getattr(node, "targets", [getattr(node, "target", 0)])
            )
        ]
        if given:
            return given[0] if len(given) == 1 else None
        module, wanted = self.module, name
        where, member = module.imported.get(name, ("", ""))
        if where in self.suite.modules:
            module, wanted = self.suite.modules[where], member
        return module.values.get(wanted)


def sources_of(folder: Path) -> dict[str, str]:
    """Return the sources of a suite, by the names under which they are imported."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = parts[-1] if parts[-1].startswith("test_") else ".".join(parts)
        found[name] = path.read_text(encoding="utf-8")
    return found

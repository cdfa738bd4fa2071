"""The house: one place that writes code, operations known by traits, short functions, plain first lines."""

import ast
import builtins
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from honesty import nodes_of
from test_floors import FILES, examples_in, imported, module_of, place, tree_of

import agrad
from agrad.engine.operation import KINDS, Operation
from agrad.registry import KERNELS, PRIMITIVES

BUDGETS = {
    "": 1046,
    "backends": 2452,
    "control": 1678,
    "cli": 2070,
    "data": 2570,
    "engine": 4075,
    "inspecting": 1312,
    "interop": 3355,
    "jit": 7351,
    "nn": 4901,
    "numpy": 496,
    "ops": 6367,
    "optim": 2190,
    "random": 504,
    "scipy": 5851,
    "sklearn": 1013,
    "solvers": 1459,
    "testing": 862,
    "train": 2104,
    "transforms": 2803,
    "kernels": 2805,
    "parallel": 479,
}
"""Lines of code a folder may have, without docstrings, comments and blank lines. docs/decisions/29 says what
stands in them."""
LIMITS = {"lines of a file": 500, "lines of a function": 60, "first line of a docstring": 80}
"""Lengths: of files without examples, tests included; of functions without the docstring."""
WRITES_CODE = {"agrad/jit/lower/plain.py"}
"""Where the builtins ``exec`` and ``compile`` are called."""
WRITERS = {"exec", "eval", "compile"}
OLD_WORDS = r"\b(SPACES|AMBIENT|RuleCall|Selector|detours|heed|loosely|announce|Surroundings|put_rule|lookers?)\b"
NO_FIRST_LINE = re.compile(r"(What|Whether|Who|Whose|How|Where|Why)\b")


def lines_of_code(file: Path) -> int:
    """Count the lines that are no docstring, no example of one, no comment and not blank."""
    texts: set[int] = set()
    for node in nodes_of(tree_of(file)):
        text = getattr(node.value if isinstance(node, ast.Expr) else node, "value", None)
        if isinstance(text, str) and (isinstance(node, ast.Expr) or ">>> " in text):
            texts.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
    lines = enumerate(map(str.strip, file.read_text(encoding="utf-8").splitlines()), 1)
    return sum(line != "" and not line.startswith("#") and i not in texts for i, line in lines)


def sizes() -> Iterator[tuple[str, str, int]]:
    """Yield what is limited, where, and its size."""
    for file in [*FILES, *Path(__file__).parents[1].rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        yield "lines of a file", str(file), lines - (examples_in(text) if lines > LIMITS["lines of a file"] else 0)
    for file in FILES:
        for node in nodes_of(tree_of(file)):
            if isinstance(node, ast.FunctionDef):
                yield "lines of a function", f"{place(file, node)} {node.name}", length(node)
        for line, first in documented(tree_of(file)):
            yield "first line of a docstring", f"{place(file)}:{line} {first}", len(first)


def test_sizes_keep_their_budgets() -> None:
    counts: Counter[str] = Counter()
    for file in FILES:
        counts[place(file).split("/")[1] if place(file).count("/") > 1 else ""] += lines_of_code(file)
    assert counts.keys() == BUDGETS.keys()
    assert not {folder: count for folder, count in counts.items() if count > BUDGETS[folder]}
    assert not [row for row in sizes() if row[2] > LIMITS[row[0]]]


def test_lines_of_code_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    code = '"""Text."""\n\n# a comment\nx = [\n    1,\n]\n"""Text of x."""\n'
    file.write_text(code + 'y = {\n    "f": """\n>>> f()\n""",\n}\n\n\ndef f():\n    """Text."""\n')
    assert lines_of_code(file) == 6


def calls(tree: ast.Module) -> Iterator[Any]:
    """Yield the calls of plain names."""
    yield from (n for n in nodes_of(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))


def test_one_file_writes_code() -> None:
    assert all(hasattr(builtins, name) for name in WRITERS)
    assert {place(file) for file in FILES for call in calls(tree_of(file)) if call.func.id in WRITERS} == WRITES_CODE


OPERATIONS = {name.rpartition(".")[2] for name in PRIMITIVES} | set(PRIMITIVES)


def compared(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what is compared, and keys of dictionaries and entries of sets."""
    for node in nodes_of(tree):
        found: list[Any] = []
        if isinstance(node, ast.Compare):
            found = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            found = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Set):
            found = node.elts
        elif isinstance(node, ast.MatchValue):
            found = [node.value]
        for value in found:
            yield from value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]


def names_of_operations(tree: ast.Module) -> list[tuple[int, str]]:
    return [
        (node.lineno, node.value)
        for node in compared(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPERATIONS - KINDS
    ]


def in_folder(name: str) -> list[Path]:
    return [file for file in FILES if place(file).startswith(f"agrad/{name}/")]


def test_the_engine_knows_operations_by_their_traits() -> None:
    """No operation's name is a string in it: neither compared, nor a key, nor an entry of a set."""
    found = {place(file): names_of_operations(tree_of(file)) for file in in_folder("engine")}
    assert len(found) > 20
    assert not {file: names for file, names in found.items() if names}


EMITTERS = "agrad/jit/lower/numpy/steps.py"
"""The one file of the jit that knows operations by name: the table of the steps that NumPy programs are written with.

The C expressions of operations are kernels of CuPy.
"""


def strings_of_operations(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the strings that are names of operations, of their rules, or of operations joined with others."""
    texts = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in nodes_of(tree) if isinstance(node, ast.Constant) and id(node) not in texts]
    found = [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]
    return [(line, name) for line, name in found if re.split(r"\.vjp:| of a | and its ", name)[0] in OPERATIONS - KINDS]


def test_the_jit_knows_operations_by_their_traits() -> None:
    found = {place(file): strings_of_operations(tree_of(file)) for file in in_folder("jit")}
    assert len(found) > 40
    assert {file: names for file, names in found.items() if names}.keys() == {EMITTERS}


def test_the_check_sees_a_name() -> None:
    tree = ast.parse("a.name == 'matmul'\nb in ('relu', 'no')\nc = {'sin': 1}\nd = {'cos'}\nkind == 'reshape'")
    assert names_of_operations(tree) == [(1, "matmul"), (2, "relu"), (3, "sin"), (4, "cos")]
    tree = ast.parse("""f('relu.vjp:x', 'no')\ng('add of a product')\nh['sin'] = kind == 'reshape'\n'cos'""")
    assert strings_of_operations(tree) == [(1, "relu.vjp:x"), (2, "add of a product"), (3, "sin")]


GAIN = 1.1
"""The least gain of a filed kernel."""


def test_kernels_of_numpy_and_cupy_are_filed_in_their_folder_with_a_gain() -> None:
    """One call of ``kernel`` files each, with the gain that ``python -m bench kernels`` measured."""
    filed: Counter[str] = Counter()
    for file in FILES:
        for call in calls(tree_of(file)):
            library = getattr(call.args[0], "value", None) if call.args else None
            if call.func.id == "kernel" and library in ("numpy", "cupy"):
                filed[place(file).rpartition("/")[0]] += 1
                assert "gain" in [keyword.arg for keyword in call.keywords], place(file, call)
    assert filed.keys() == {"agrad/kernels/numpy", "agrad/kernels/cupy"}
    importlib.import_module("agrad.kernels.cupy.kernels")  # without CuPy too
    gains = {key: found.gain for key, found in KERNELS.items() if key[0] in ("numpy", "cupy")}
    assert len(gains) > 70
    assert not {key: gain for key, gain in gains.items() if gain is None or gain < GAIN}


def test_passes_import_no_backend() -> None:
    """They ask for traits and for filed kernels; the numerics of a library are in its kernels."""
    libraries = {"numpy", "cupy", "torch", "jax", "dask", "cuda"}
    files = in_folder("jit/passes")
    assert len(files) > 5
    assert not [
        f"{place(file)}:{line} imports {name}"
        for file in files
        for line, name in imported(tree_of(file), module_of(file), False)
        if name.startswith("agrad.") and (name.split(".")[1] == "kernels" or libraries & set(name.split(".")[2:]))
    ]


def test_every_operation_is_an_operation() -> None:
    """A class with the methods of an operation derives from it."""
    for module in agrad._MODULES:
        importlib.import_module(f"agrad.{module}")
    signs = {"function_of", "pullback_of", "decomposed"}
    strange = []
    for file in FILES:
        for node in nodes_of(tree_of(file)):
            if isinstance(node, ast.ClassDef) and node.name != Operation.__name__:
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if methods & signs and not bases & {kind.__name__ for kind in all_operations()}:
                    strange.append(f"{place(file, node)} {node.name}")
    assert len(all_operations()) > 9
    assert not strange


def all_operations() -> set[type[Operation]]:
    found, waiting = {Operation}, [Operation]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in found:
                found.add(kind)
                waiting.append(kind)
    return found


def length(function: ast.FunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    text = first.end_lineno - first.lineno + 1 if documented else 0  # type: ignore[operator]
    return function.end_lineno - function.lineno + 1 - text  # type: ignore[operator,no-any-return]


def documented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the first line of each docstring of something public, with its line."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name, text = getattr(node, "name", ""), ast.get_docstring(node)
            if text and not name.startswith("_"):
                yield getattr(node, "lineno", 1), text.splitlines()[0]


def test_first_lines_are_plain() -> None:
    rows = [(place(file), row) for file in FILES for row in documented(tree_of(file))]
    assert len(rows) > 1000
    assert not [f"{file}:{line} {first}" for file, (line, first) in rows if NO_FIRST_LINE.match(first)]


def test_words_of_the_glossary() -> None:
    """Identifiers and texts have the field's terms; docs/architecture.md lists them."""
    found = {place(file): re.findall(OLD_WORDS, file.read_text(encoding="utf-8")) for file in FILES}
    assert not {file: words for file, words in found.items() if words}


def test_an_operation_can_be_read() -> None:
    """The code of a call, a pullback and the backward pass stands in files."""
    x = agrad.asarray([0.5, 1.0], requires_grad=True)
    y = agrad.sum(agrad.sin(x) * x)
    for function in (agrad.sin, agrad.sum, y.node.plan.pullback, y.node.parents[0].plan.pullback):
        assert Path(function.__code__.co_filename).is_file()

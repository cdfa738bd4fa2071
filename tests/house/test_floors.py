"""The house: imports only go down and stand at the top, and ``import agrad`` loads no array library but NumPy."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from honesty import nodes_of, own
from processes import run_program

import agrad

ROOT = Path(agrad.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

_FLOORS = {
    0: "errors expect foreign shapes registry dtypes philox arrival starting faces",
    1: "backends kernels",
    2: (
        "engine.observing engine.operation engine.scalars engine.tape engine.protocols engine.tensor "
        "engine.anomalies engine.levels engine.namespaces engine.joining engine.layouts engine.views"
    ),
    3: "engine.backward engine.masks",
    4: "engine",
    5: "ops",
    6: "inspecting transforms solvers jit control",
    7: "agrad fft linalg special",
    8: "testing interop numpy",
    9: "nn optim data random scipy parallel tree",
    10: "sklearn train",
    11: "cli plotting __main__",
}
FLOORS = {f"agrad.{name}".removesuffix(".agrad"): floor for floor, names in _FLOORS.items() for name in names.split()}
"""The floor of a module: that of its longest prefix here."""

ABOVE_THE_FACE = 8
FACE = {"agrad", "agrad.errors", "agrad.expect", "agrad.faces", "agrad.fft", "agrad.linalg", "agrad.special"}
_EXCEPTIONS = {
    "data": "backends.base",
    "interop": "backends foreign registry",
    "nn": (
        "engine.scalars engine.typed ops.composites ops.convolution ops.definition ops.indexing ops.losses "
        "ops.map_draws ops.pooling ops.shared"
    ),
    "numpy": "backends engine.explain engine.tape",
    "optim": "backends engine.scalars ops.updates",
    "parallel": "backends engine.scalars engine.tape",
    "random": "engine.scalars engine.typed ops.definition ops.map_draws ops.sampling",
    "scipy": (
        "engine.scalars engine.typed ops.definition ops.lengths ops.matrix_functions "
        "ops.special.complex ops.special.incomplete solvers.implicit solvers.quadrature"
    ),
    "testing": "backends dtypes registry transforms.trees",
    "train": "backends backends.base backends.threads",
    "tree": "transforms.trees",
}
EXCEPTIONS = {(f"agrad.{name}", f"agrad.{other}") for name, others in _EXCEPTIONS.items() for other in others.split()}
"""Optimizer steps, draws and sums of windows are operations, with kernels by name, but no part of the array API that
the face is; numbers of the host that change from call to call of a jitted function are no arrays. Interop asks
whose array an operand is, and calls operations that the standard has no name for. Checks look at arrays of every
library, at containers, and at the kernels filed. Threads that load data work on the stream of the loop. An
optimizer computes lazy arrays together. Messages between ranks are of arrays of every library, and are not sent by
a trace. Types are imported for type checkers alone."""
OPTIONAL = {
    "rich", "matplotlib", "safetensors", "graphviz", "tqdm", "scipy", "pyarrow", "pooch", "PIL", "threadpoolctl",
    "mpi4py", "dask",
}  # fmt: skip
"""Packages that extras bring: imported where they are used, so that the rest works without them."""


def module_of(file: Path) -> str:
    parts = ("agrad", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int:
    while module not in FLOORS:
        module = module.rpartition(".")[0]
    return FLOORS[module]


def imported(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module an import statement names, with its line; of ``from a import b``, ``a.b`` where that is a module.

    The face names packages that stand on it for type checkers: these imports do not run.
    """
    unrun = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "_typing.TYPE_CHECKING"]
    skipped = {node for check in unrun for node in ast.walk(check)}
    imports = [n for n in nodes_of(tree) if isinstance(n, ast.Import | ast.ImportFrom) and n not in skipped]
    for node in imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        else:
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if is_module(inner) else base


@cache
def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return name.startswith("agrad") and (path.with_suffix(".py").exists() or (path / "__init__.py").exists())


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def place(file: Path, node: Any = None) -> str:
    """Return the path of a file from the root of the repository, with the line of a node or a number."""
    line = "" if node is None else f":{node if isinstance(node, int) else node.lineno}"
    return f"agrad/{file.relative_to(ROOT).as_posix()}{line}"


def test_every_module_has_a_floor() -> None:
    tops = {".".join(module_of(file).split(".")[:2]) for file in FILES}
    assert len(FILES) > 100
    assert tops - set(FLOORS) <= {"agrad.engine"}


def goes_down(file: Path) -> Iterator[str]:
    """What is wrong with the imports of a file."""
    module = module_of(file)
    mine, package = floor_of(module), ".".join(module.split(".")[:2])
    for line, name in imported(tree_of(file), module, file.name == "__init__.py"):
        if name != "agrad" and not name.startswith("agrad."):
            continue
        theirs = floor_of(name)
        inside = name == package or name.startswith(package + ".")
        if theirs > mine:
            yield f"{place(file, line)} (floor {mine}) imports {name} (floor {theirs})"
        if mine >= ABOVE_THE_FACE and not inside:
            allowed = name in FACE or theirs >= ABOVE_THE_FACE or mine == 11
            if not allowed and (package, name) not in EXCEPTIONS:
                yield f"{place(file, line)} imports {name}: above the face, only the face is used"


def test_imports_go_down() -> None:
    assert not [wrong for file in FILES for wrong in goes_down(file)]


OPS = [file for file in FILES if module_of(file).startswith("agrad.ops")]
NAMED_BACKENDS = {"numpy", "cupy", "torch", "jax", "dask", "array_api_strict", "array_api_compat"}


def names_a_library(file: Path) -> Iterator[str]:
    """What a file of rules imports beside the notation, and the rules that name an array library."""
    for line, name in imported(tree_of(file), module_of(file), False):
        if name.startswith("agrad.backends.") and name != "agrad.backends.base":
            yield f"{place(file, line)} imports {name}"
        if name.startswith("agrad.") and floor_of(name) > 5:
            yield f"{place(file, line)} imports {name}"
    for rule in nodes_of(tree_of(file)):
        if isinstance(rule, ast.Lambda | ast.FunctionDef) and {"g", "t", "g_loss", "g_lse"} & {
            a.arg for a in (*rule.args.args, *rule.args.posonlyargs)
        }:
            names = {node.id for node in nodes_of(rule) if isinstance(node, ast.Name)}
            if names & (NAMED_BACKENDS | {"np", "cp", "jnp"}):
                yield f"{place(file, rule)} names an array library"


def test_the_calculus_imports_the_notation_and_no_backend() -> None:
    """No rule can name an array library: what could is not there to be named."""
    files = [file for file in OPS if file.stem != "__init__"]
    assert len(files) > 20
    assert not [wrong for file in files for wrong in names_a_library(file)]


def inner_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The imports inside functions, with their lines."""
    outer = set(own(tree))
    for node in nodes_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in outer:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            yield from ((node.lineno, name) for name in names)


def test_imports_stand_at_the_top() -> None:
    """Inside functions only where a backend or an optional extra may be missing."""
    files = [file for file in FILES if not module_of(file).startswith(("agrad.backends", "agrad.kernels"))]
    inside = [(place(file, line), name) for file in files for line, name in inner_imports(tree_of(file))]
    assert inside
    assert not [f"{place} imports {name}" for place, name in inside if name.partition(".")[0] not in OPTIONAL]


def examples_in(text: str) -> int:
    """Return how many lines the examples of a module take: in docstrings, with their titles, and in rows."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = nodes_of(ast.parse(text))
    rows = [node for node in nodes if isinstance(node, ast.keyword) and node.arg == "example"]
    docs = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    found = [re.fullmatch(r"(.*?)\n\nExamples\n-{8}\n.*", doc, flags=re.DOTALL) for doc in docs]
    # where one line stands before them, the quotes behind them have a line of their own
    in_docs = sum(part[0].count("\n") - part[1].count("\n") + ("\n" not in part[1]) for part in found if part)
    return in_docs + sum(row.end_lineno - row.lineno for row in rows)


def test_lines_of_examples_are_counted() -> None:
    text = (
        'def f():\n    """Do.\n\n    Examples\n    --------\n    >>> f()\n    """\n\n\ndef g():\n    """Examples"""\n'
    )
    assert examples_in(text) == 5
    assert examples_in(text + 'h = row("h", example="""\n>>> h()\n1\n""")\n') == 8


def test_the_check_sees_an_import_that_goes_up() -> None:
    tree = ast.parse("from agrad import ops\nfrom agrad.ops.shared import keep\nimport agrad.nn\nfrom . import tape")
    found = dict(imported(tree, "agrad.engine.backward", False))
    assert found == {1: "agrad.ops", 2: "agrad.ops.shared", 3: "agrad.nn", 4: "agrad.engine.tape"}
    assert [floor_of(name) for name in found.values()] == [5, 5, 9, 2]


LIBRARIES = {
    *("cupy", "torch", "jax", "jaxlib", "dask", "array_api_strict", "scipy", "matplotlib", "rich", "safetensors"),
    *("pandas", "agrad_cli"),
}
"""What ``import agrad`` does not import."""
LATE = {
    *("agrad.backends.numpy", "agrad.control", "agrad.fft", "agrad.inspecting", "agrad.interop", "agrad.jit.api"),
    *("agrad.linalg", "agrad.ops.sampling", "agrad.solvers", "agrad.special", "agrad.transforms", "decimal"),
    *("array_api_compat.numpy", "importlib.metadata", "optree", "pathlib"),
    *("agrad.nn", "agrad.optim", "agrad.data", "agrad.cli"),
}
"""Modules that ``import agrad`` leaves to their first use."""
COUNT = 85
"""The most modules that ``import agrad`` loads of its own."""


LOADED = """
import numpy, sys
for code in sys.argv[1:]:
    before = set(sys.modules)
    exec(code)
    print(*sorted(set(sys.modules) - before))
"""
PROGRAMS = (
    "import agrad",
    "agrad.grad(lambda x: agrad.sum(agrad.clip(x, 0.0, 3.0) * x))(agrad.asarray([1.0, 2.0]))",
    "import agrad.jit.api, agrad.jit.shapes\nfrom agrad import *\nassert callable(jit) and agrad.jit is jit",
)


def test_importing_agrad_leaves_the_rest_to_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs load, one after another, in a new process that has NumPy."""
    monkeypatch.delenv("AGRAD_BACKEND", raising=False)
    found, first, names = (set(line.split()) for line in run_program(LOADED, *PROGRAMS, strict=True).splitlines())
    assert "agrad.ops.elementwise" in found
    assert not found & LATE
    assert not {name.partition(".")[0] for name in found} & LIBRARIES
    assert len([name for name in found if name.partition(".")[0] == "agrad"]) <= COUNT
    assert "agrad.transforms.grad" in first
    assert not first & {"array_api_compat.numpy", "numpy.f2py", "numpy.testing", "agrad.jit.api", "agrad.control"}
    assert "agrad.jit.api" in names  # and what ``agrad.jit`` is stays a function


def test_the_lists_of_late_names_are_those_of_their_modules() -> None:
    for module, names in agrad._MODULES.items():
        there = importlib.import_module(f"agrad.{module}")
        assert all(getattr(agrad, name) is getattr(there, name) for name in names)
        if module.partition(".")[0] in ("control", "transforms", "solvers"):
            assert sorted(names) == sorted(getattr(there, "__all__", names))
    assert set(agrad._FUNCTIONS) < set(dir(agrad))

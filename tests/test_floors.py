"""The house: imports only go down and stand at the top, and ``import agrad`` loads no array library but NumPy."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agrad

ROOT = Path(agrad.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

FLOORS: dict[str, int] = {
    "agrad.errors": 0,
    "agrad.shapes": 0,
    "agrad.registry": 0,
    "agrad.dtypes": 0,
    "agrad.philox": 0,
    "agrad.arrival": 0,
    "agrad.backends": 1,
    "agrad.engine.observing": 2,
    "agrad.engine.scalars": 2,
    "agrad.engine.tape": 2,
    "agrad.engine.protocols": 2,
    "agrad.engine.tensor": 2,
    "agrad.engine.levels": 2,
    "agrad.engine.views": 2,
    "agrad.engine.sweep": 3,
    "agrad.engine": 4,
    "agrad.ops": 5,
    "agrad.transforms": 6,
    "agrad.jit": 6,
    "agrad": 7,
    "agrad.testing": 8,
    "agrad.interop": 8,
    "agrad.nn": 9,
    "agrad.optim": 9,
    "agrad.data": 9,
    "agrad.random": 9,
    "agrad.cli": 10,
    "agrad.__main__": 10,
}
"""The floor of a module: that of its longest prefix here."""

ABOVE_THE_FACE = 8
EXCEPTIONS = {
    ("agrad.optim", "agrad.ops.updates"),
    ("agrad.optim", "agrad.engine.scalars"),
    ("agrad.nn", "agrad.engine.scalars"),
    ("agrad.random", "agrad.engine.scalars"),
    ("agrad.random", "agrad.ops.sampling"),
    ("agrad.interop", "agrad.backends"),
    ("agrad.interop", "agrad.registry"),
    ("agrad.testing", "agrad.backends"),
    ("agrad.testing", "agrad.dtypes"),
    ("agrad.testing", "agrad.registry"),
    ("agrad.testing", "agrad.transforms.trees"),
}
"""Optimizer steps and draws are operations, with kernels by name, but no part of the array API that the face is;
numbers of the host that change from call to call of a jitted function are no arrays. Interop asks whose array an
operand is, and calls operations that the standard has no name for. Checks look at arrays of every library, at
containers, and at the kernels filed."""
OPTIONAL = {"rich", "matplotlib", "safetensors", "graphviz", "tqdm", "nvmath"}
"""Packages that extras bring: imported where they are used, so that the rest works without them."""


def module_of(file: Path) -> str:
    parts = ("agrad", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int:
    while module not in FLOORS:
        module = module.rpartition(".")[0]
    return FLOORS[module]


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module an import statement names, with its line; of ``from a import b``, ``a.b`` where that is a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if is_module(inner) else base


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return name.startswith("agrad") and (path.with_suffix(".py").exists() or (path / "__init__.py").exists())


def each(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("file", files, ids=lambda file: module_of(file))


@each(FILES)
def test_every_module_has_a_floor(file: Path) -> None:
    module = module_of(file)
    top = ".".join(module.split(".")[:2])
    assert top in FLOORS or top == "agrad.engine" or module == "agrad"


@each(FILES)
def test_imports_go_down(file: Path) -> None:
    module = module_of(file)
    mine = floor_of(module)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    package = ".".join(module.split(".")[:2])
    ours = [
        (f"{file.relative_to(ROOT)}:{line} imports {name}", name)
        for line, name in imported(tree, module, file.name == "__init__.py")
        if name == "agrad" or name.startswith("agrad.")
    ]
    assert [where for where, name in ours if floor_of(name) > mine] == [], f"from floor {mine} of a higher one"
    # above the face, only the face is used
    outside = [(where, name) for where, name in ours if name != package and not name.startswith(package + ".")]
    below = [(where, name) for where, name in outside if floor_of(name) < ABOVE_THE_FACE <= mine < 10]
    face = {"agrad", "agrad.errors"}
    assert [where for where, name in below if name not in face and (package, name) not in EXCEPTIONS] == []


OPS = [file for file in FILES if module_of(file).startswith("agrad.ops")]
NAMED_BACKENDS = {"numpy", "cupy", "torch", "jax", "dask", "array_api_strict", "array_api_compat"}


@each([file for file in OPS if file.stem not in ("__init__",)])
def test_the_calculus_imports_the_notation_and_no_backend(file: Path) -> None:
    """No rule can name an array library: what could is not there to be named."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {f"{file.name}:{line} imports {name}": name for line, name in imported(tree, module_of(file), False)}
    backends = [where for where, name in found.items() if name.startswith("agrad.backends.")]
    assert [where for where in backends if found[where] != "agrad.backends.base"] == []
    assert [where for where, name in found.items() if name.startswith("agrad.") and floor_of(name) > 5] == []
    rules = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda | ast.FunctionDef)
        and {"g", "t", "g_loss", "g_lse"} & {a.arg for a in (*node.args.args, *node.args.posonlyargs)}
    ]
    for rule in rules:
        names = {node.id for node in ast.walk(rule) if isinstance(node, ast.Name)}
        assert not names & (NAMED_BACKENDS | {"np", "cp", "jnp"}), f"{file.name}:{rule.lineno} names an array library"


@each([file for file in FILES if not module_of(file).startswith("agrad.backends")])
def test_imports_stand_at_the_top(file: Path) -> None:
    """Inside functions only where a backend or an optional extra may be missing."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    inside = {n for function in functions for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)}
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} imports {name} inside a function"
        for node in inside
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if name.partition(".")[0] not in OPTIONAL
    ]
    assert wrong == []


@pytest.mark.parametrize("file", [*FILES, *sorted(Path(__file__).parent.glob("*.py"))], ids=lambda file: file.name)
def test_a_file_fits_in_the_head(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 500


def test_the_check_sees_an_import_that_goes_up() -> None:
    tree = ast.parse("from agrad import ops\nfrom agrad.ops.shared import keep\nimport agrad.nn\nfrom . import tape")
    found = dict(imported(tree, "agrad.engine.sweep", False))
    assert found == {1: "agrad.ops", 2: "agrad.ops.shared", 3: "agrad.nn", 4: "agrad.engine.tape"}
    assert [floor_of(name) for name in found.values()] == [5, 5, 9, 2]


def test_importing_agrad_imports_no_array_library_but_numpy() -> None:
    code = (
        "import sys, agrad\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'cupy', 'torch', 'jax', 'jaxlib', 'dask', 'array_api_strict', 'scipy', 'matplotlib',"
        " 'rich', 'safetensors', 'pandas', 'agrad_cli'}), 'numpy' in loaded,"
        " [name for name in ('agrad.nn', 'agrad.optim', 'agrad.data', 'agrad.cli') if name in sys.modules])\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGRAD_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT.parent), environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] True []"

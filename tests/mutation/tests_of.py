"""Which tests a mutant meets first: those of its module."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mutation.mutants import Mutant, source_of

TABLE = "cases vmap_cases jit jacobians"
"""Files whose tests are named after the rows of the table."""

TESTS = {
    "agrad/ops/": f"conventions standard {TABLE}",
    "agrad/ops/arrangement": "standard conventions",
    "agrad/ops/batched_index": "vmap tensor",
    "agrad/ops/casting": "standard conventions tensor",
    "agrad/ops/composites": "nn conventions numpy_kernels",
    "agrad/ops/conversion": "standard conventions tensor moving backend_selection backends",
    "agrad/ops/creation": "standard conventions tensor moving backend_selection backends",
    "agrad/ops/decompositions": "linalg conventions",
    "agrad/ops/determinants": "linalg conventions numpy_linalg",
    "agrad/ops/eigenvalues": "linalg conventions",
    "agrad/ops/elementwise": "conventions standard numpy_rules",
    "agrad/ops/fourier": "linalg standard",
    "agrad/ops/frequencies": "linalg standard",
    "agrad/ops/indexing": "tensor backends inplace view_memory views",
    "agrad/ops/inspection": "standard backend_selection",
    "agrad/ops/linear_algebra": "linalg conventions numpy_linalg",
    "agrad/ops/manipulation": "standard view_memory tensor",
    "agrad/ops/matrices": "linalg",
    "agrad/ops/norms": "linalg conventions",
    "agrad/ops/pooling": "pooling cases vmap_cases",
    "agrad/ops/products": "linalg standard conventions",
    "agrad/ops/sampling": "random random_distributions",
    "agrad/ops/searching": "standard conventions segments",
    "agrad/ops/sets": "standard conventions",
    "agrad/ops/segments": "segments",
    "agrad/ops/selection": "conventions standard numpy_rules",
    "agrad/ops/special/": "special special_accuracy scipy_ufuncs",
    "agrad/ops/statistical": "standard conventions",
    "agrad/ops/transfer": "moving backends",
    "agrad/ops/updates": "optim optimizers donation optim_scaling jit_folding",
    "agrad/engine/": "engine tensor transforms primitive inplace hooks recording vmap forward_mode jit",
    "agrad/engine/gradients": "engine hooks recording tensor inplace transforms",
    "agrad/engine/batching": "vmap vmap_cases vmap_writes",
    "agrad/engine/call": "primitive engine varying_outputs tensor recording",
    "agrad/engine/calls": "custom_rules checkpointing implicit jit_calls control_flow inspect graph",
    "agrad/engine/explain": "tensor standard linalg backends moving primitive",
    "agrad/engine/pullback": "primitive engine custom_rules transforms",
    "agrad/engine/pushforward": "forward_mode transforms primitive varying_outputs custom_rules",
    "agrad/inspecting/graph": "graph graph_functions",
    "agrad/inspecting/values": "inspect graph repr anomaly profile",
    "agrad/engine/levels": "transforms tensor forward_mode vmap primitive recording inspect jit_transforms",
    "agrad/engine/notation": "primitive varying_outputs checker testing_primitives view_memory",
    "agrad/engine/observing": "anomaly profile compare_backends graph_functions",
    "agrad/engine/plans": "primitive varying_outputs engine passes inspect",
    "agrad/engine/primitive": "primitive varying_outputs forward_mode passes transforms",
    "agrad/inspecting/profile": "profile",
    "agrad/engine/protocols": "numpy_protocol tensor numpy_surface repr",
    "agrad/engine/rulecalls": "jit_bodies vmap jit_transforms jit",
    "agrad/engine/scalars": "jit_numbers jit_state jit_transforms optim",
    "agrad/engine/states": "checkpointing inplace jit_state control_flow",
    "agrad/inspecting/text": "repr inspect graph",
    "agrad/engine/backward": "engine passes transforms hooks view_memory inspect anomaly",
    "agrad/engine/tape": "engine recording inspect threads",
    "agrad/engine/tensor": "tensor inplace moving repr numpy_protocol standard",
    "agrad/engine/views": "inplace view_memory views vmap_writes",
    "agrad/transforms/": "transforms jacobians vmap custom_rules control_flow implicit",
    "agrad/transforms/calling": "custom_rules implicit checkpointing control_flow",
    "agrad/transforms/checkpoint": "checkpointing",
    "agrad/inspecting/compare": "compare_backends",
    "agrad/control": "control_flow",
    "agrad/transforms/custom": "custom_rules",
    "agrad/transforms/grad": "transforms custom_rules compositions",
    "agrad/solvers/equations": "implicit",
    "agrad/solvers/implicit": "implicit",
    "agrad/transforms/arguments": "transforms vmap jacobians custom_rules",
    "agrad/transforms/jacobian": "jacobians jacobian_ways",
    "agrad/solvers/linear": "implicit",
    "agrad/transforms/vmap": "vmap vmap_writes",
    "agrad/transforms/numerical": "custom_rules",
    "agrad/solvers/ode": "implicit",
    "agrad/transforms/linear": "jacobians transforms",
    "agrad/inspecting/recorder": "graph_functions",
    "agrad/transforms/trees": "transforms vmap jacobians",
    "agrad/jit/": "jit_passes jit_transforms jit_state jit_calls jit_kinds jit_numbers jit_numpy jit_fusion jit",
    "agrad/jit/bindings": "jit_state jit_calls jit_transforms jit_kinds jit_numbers",
    "agrad/jit/api": "jit_transforms jit_calls jit_state jit_kinds jit_numbers",
    "agrad/jit/passes/algebra": "jit_passes jit_fusion jit_numpy",
    "agrad/jit/passes/cross_entropy": "jit_numpy jit_fusion jit_passes",
    "agrad/jit/passes/decompose": "jit_bodies jit_passes jit_fusion jit",
    "agrad/jit/entry": "jit_calls jit_transforms jit_state jit_kinds",
    "agrad/kernels/cupy/cublaslt": "jit_products jit_algorithms --backend=cupy",
    "agrad/kernels/cupy/products": "jit_products jit_algorithms --backend=cupy",
    "agrad/jit/lower/cuda/products": "jit_products --backend=cupy",
    "agrad/jit/lower/cuda/source": "jit_cupy jit_graphs",
    "agrad/jit/lower/cuda/rows": "jit_rows --backend=cupy",
    "agrad/jit/lower/cuda/scatter": "jit_scatter --backend=cupy",
    "agrad/jit/lower/cuda/streams": "jit_graphs jit_graphs_safety",
    "agrad/jit/lower/cuda/epilogues": "jit_epilogues",
    "agrad/jit/passes/folding": "jit_folding",
    "agrad/jit/passes/fusion": "jit_fusion jit_passes jit_numpy jit_cupy",
    "agrad/jit/lower/cuda/graphs": "jit_graphs jit_graphs_safety jit_graphs_loops",
    "agrad/jit/lower/host_numbers": "jit_numbers jit_state jit_torch",
    "agrad/jit/lower/cuda/program": "jit_cupy jit_products jit_graphs",
    "agrad/jit/lower/jax": "jit_numbers jit_state --backend=jax",
    "agrad/jit/lower/numpy": "jit_numpy jit_fusion jit_passes jit_folding",
    "agrad/jit/lower/torch": "jit_torch",
    "agrad/jit/passes/aliasing": "jit_passes donation jit_folding jit_state",
    "agrad/jit/lower/numpy/groups": "jit_fusion jit_numpy jit_passes jit_folding",
    "agrad/jit/lower/numpy/steps": "jit_numpy jit_fusion jit_folding jit_passes",
    "agrad/jit/passes/cleanup": "jit_passes jit_fusion jit_graphs jit_transforms",
    "agrad/jit/passes/precision": "jit_precision",
    "agrad/jit/passes/tiling": "jit_fusion jit_passes jit_numpy",
    "agrad/jit/state": "jit_state jit_calls",
    "agrad/jit/lower/numpy/buffers": "jit_numpy jit_fusion jit_state",
    "agrad/jit/trace": "jit_transforms jit_kinds jit_state jit_bodies",
    "agrad/jit/capture": "jit_state jit_transforms jit_calls jit_kinds jit_numbers",
    "agrad/backends/": "backends backend_selection moving standard",
    "agrad/backends/strict": "backends backend_selection moving standard",
    "agrad/backends/cupy/backend": "cupy_kernels jit_cupy",
    "agrad/backends/cupy/backend.": "cupy_backend --backend=cupy",
    "agrad/kernels/cupy/random": "random --backend=cupy",
    "agrad/backends/dask": "backends standard tensor random --backend=dask",
    "agrad/kernels/numpy/random": "random random_distributions",
    "agrad/backends/indexing": "backends tensor view_memory inplace",
    "agrad/backends/jax": "backends moving random --backend=jax",
    "agrad/backends/numpy/backend": "numpy_rules numpy_namespace numpy_kernels backends donation passes",
    "agrad/kernels/numpy/blas": "jit_folding numpy_kernels",
    "agrad/kernels/numpy/blocks": "numpy_rules numpy_kernels",
    "agrad/kernels/numpy/convolution": "convolution cases",
    "agrad/kernels/numpy/elementwise": "numpy_rules passes",
    "agrad/kernels/numpy/fused": "numpy_kernels",
    "agrad/kernels/numpy/updates": "numpy_kernels donation optim",
    "agrad/kernels/numpy/linalg": "numpy_linalg",
    "agrad/kernels/numpy/pooling": "pooling cases",
    "agrad/kernels/numpy/reductions": "numpy_rules passes",
    "agrad/backends/numpy/namespace": "numpy_namespace numpy_rules backends",
    "agrad/backends/special": "special special_accuracy scipy_ufuncs",
    "agrad/backends/threads": "threads numpy_kernels jit_fusion",
    "agrad/backends/torch": "backends moving backend_selection random --backend=torch",
    "agrad/interop/": "numpy_binding numpy_protocol numpy_surface numpy_inside numpy_places",
    "agrad/interop/einops": "ecosystem numpy_protocol",
    "agrad/interop/scipy": "scipy_ufuncs ecosystem",
    "agrad/nn/": "nn checkpoint jit_state modules module_hooks overview init torch_state",
    "agrad/nn/checkpoint": "checkpoint",
    "agrad/optim/": "optim optimizers groups optim_scaling donation jit_state",
    "agrad/optim/clipping": "averages optim",
    "agrad/optim/lbfgs": "lbfgs",
    "agrad/optim/line_search": "lbfgs",
    "agrad/optim/lr_scheduler/": "lr_scheduler",
    "agrad/optim/scaling": "optim_scaling",
    "agrad/optim/swa_utils": "averages lr_scheduler",
    "agrad/random/": "random random_distributions",
    "agrad/data/": "data data_own data_safety tables",
    **dict.fromkeys(
        ("agrad/data/ahead", "agrad/data/collate", "agrad/data/datasets", "agrad/data/loader", "agrad/data/samplers"),
        "datasets loader",
    ),
    "agrad/data/encod": "encoder load_table",
    "agrad/data/files": "data data_own checkpoint",
    "agrad/data/own": "data_own",
    "agrad/data/regression": "load_table",
    "agrad/data/tabular": "load_table",
    "agrad/data/table": "tables data_own data_safety",
    "agrad/": "engine tensor conventions",
    "agrad/arrival": "ecosystem numpy_protocol",
    "agrad/dtypes": "standard conventions tensor backends",
    "agrad/errors": "conventions engine tensor",
    "agrad/philox": "random",
    "agrad/registry": "primitive numpy_kernels conventions",
    "agrad/shapes": "backends standard conventions tensor view_memory transforms numpy_surface",
}
"""Test files by the beginning of a module's path, the longest that fits; the ones most likely to kill come first."""

LIBRARIES = {
    "agrad/backends/torch": "torch",
    "agrad/backends/jax": "jax",
    "agrad/backends/dask": "dask",
    "agrad/backends/cupy/backend.": "cupy",
    "agrad/kernels/cupy/random": "cupy",
    "agrad/interop/scipy": "scipy",
    "agrad/kernels/cupy/cublaslt": "cupy",
    "agrad/kernels/cupy/products": "cupy",
    "agrad/jit/lower/cuda/products": "cupy",
    "agrad/jit/lower/torch": "torch",
    "agrad/jit/lower/jax": "jax",
}
"""Files that cannot be tested without a library."""


class Phase(NamedTuple):
    """One run of pytest: what it is called in the report, and its arguments."""

    name: str
    arguments: tuple[str, ...]


def phases(mutant: Mutant, whole: bool) -> list[Phase]:
    """Return the phases: the changed primitives' rows, the module, the whole suite."""
    found = []
    names = primitives_at(mutant)
    if names:
        tests = _arguments(TABLE)
        select = " or ".join(f"[{name}_ or [{name}] or -{name}_ or -{name}]" for name in names)
        found.append(Phase("module", (*tests, "-k", select)))
    found.append(Phase("module", of_module(mutant.file)))
    return [*found, Phase("whole", ())] if whole else found


def of_module(file: str) -> tuple[str, ...]:
    prefix = max((p for p in TESTS if file.startswith(p)), key=len)
    return _arguments(TESTS[prefix])


def _arguments(words: str) -> tuple[str, ...]:
    return tuple(word if word.startswith("-") else _path(word) for word in words.split())


@cache
def _path(name: str) -> str:
    """Return the path of a file of tests, in whatever folder it stands."""
    root = Path(__file__).parents[2]
    (path,) = root.glob(f"tests/*/test_{name}.py")
    return path.relative_to(root).as_posix()


MOST = 12
"""Primitives beyond which a helper counts as one of them all."""


def primitives_at(mutant: Mutant) -> list[str]:
    """Return the primitives of ``agrad/ops`` that a mutant changes.

    Also through a helper that they use.
    """
    if not mutant.file.startswith("agrad/ops/"):
        return []
    parts = _parts(mutant.file)
    helpers = {part.name for part in parts if part.helper}
    waiting = [part.name for part in parts if part.first <= mutant.line <= part.last]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached and name in helpers:
            waiting += [part.name for part in parts if name in part.mentioned]
        reached.add(name)
    found = sorted({name.removesuffix("_p") for name in reached - helpers})
    return found if len(found) <= MOST else []


class Part(NamedTuple):
    """A statement of a module: its primitive or function, and the names in it."""

    name: str
    first: int
    last: int
    mentioned: frozenset[str]
    helper: bool


@cache
def _parts(file: str) -> tuple[Part, ...]:
    found = []
    for node in source_of(file).tree.body:
        name, helper = _belongs(node)
        if name:
            mentioned = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            first = min(n.lineno for n in (node, *getattr(node, "decorator_list", ())))
            found.append(Part(name, first, node.end_lineno or first, mentioned, helper))
    return tuple(found)


def _belongs(node: ast.stmt) -> tuple[str, bool]:
    """Return the name that a statement belongs to.

    ``reshape`` for ``@reshape.vjp def ...`` and for ``x = elementwise("reshape", ...)``; else the name defined.
    """
    match node:
        case ast.FunctionDef(name=name, decorator_list=[decorator, *_]):
            root = decorator.func if isinstance(decorator, ast.Call) else decorator
            return (
                (root.value.id, False)
                if isinstance(root, ast.Attribute) and isinstance(root.value, ast.Name)
                else (name, False)
            )
        case ast.FunctionDef(name=name):
            return name, name.startswith("_")
        case ast.Assign(value=ast.Call(args=[ast.Constant(value=str(name)), *_])):
            return name, False
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name, True
    return "", True

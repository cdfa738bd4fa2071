"""Steps: code for instructions, with fewer NumPy calls than their functions make.

A step writes the lines of one instruction through a ``Writer``. It returns False for an instruction that it does not
support. That instruction becomes an ordinary call.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from agrad.jit.lower.numpy.groups import group_function
from agrad.jit.lower.plain import evaluation, stem_of
from agrad.jit.passes.folding import Folded
from agrad.jit.program import Instruction, Variable
from agrad.kernels.numpy import cross_entropy, updates
from agrad.kernels.numpy.fused import BRANCHY, SHORT, all_ones, zeros_beside
from agrad.kernels.numpy.sums import product_added

if TYPE_CHECKING:
    from agrad.jit.lower.numpy.program import Writer

Step = Callable[["Writer", Instruction], bool]


def _matmul(w: "Writer", instruction: Instruction) -> bool:
    if instruction.results[0].kind is not np.ndarray:
        return False
    _product(w, instruction, *instruction.operands)
    return True


def _product(w: "Writer", instruction: Instruction, a: Variable, b: Variable) -> None:
    """Write a product of matrices, or of a matrix and a vector, as a method call, which calls BLAS directly."""
    (out,) = instruction.results
    if (
        max(len(a.shape), len(b.shape)) > 2
        or not (a.kind is b.kind is np.ndarray)
        or not (a.dtype == b.dtype == out.dtype)
    ):
        w.compute(np.matmul, instruction, (a, b))
        return
    target = w.target(out)
    to = target or w.reusable_gradient(out, instruction)
    call = f"{w.names[a]}.dot({w.names[b]}{'' if to is None else f', {to}'})"
    w.line(call if target else f"{w.names[out]} = {call}")


def _linear(w: "Writer", instruction: Instruction) -> bool:
    x, weight, bias = instruction.operands
    (out,) = instruction.results
    alike = len({np.dtype(v.dtype) for v in (x, weight, bias)}) == 1 and np.dtype(x.dtype).kind in "fc"
    if not alike or len(x.shape) < 2 or len(weight.shape) != 2 or out.kind is not np.ndarray:
        return False
    _product(w, instruction, x, weight)
    w.line(w.call(np.add, out, bias, out, stem="add"))
    return True


def _linear_bias(w: "Writer", instruction: Instruction) -> bool:
    g = instruction.operands[0]
    if len(g.shape) != 2 or instruction.results[0].shape != g.shape[1:]:
        return False
    w.compute(np.matmul, instruction, (all_ones(g.shape[0], np.dtype(g.dtype)), g))
    return True


def _relu(w: "Writer", instruction: Instruction) -> bool:
    (out,) = instruction.results
    dtype = np.dtype(out.dtype)
    if out.kind is not np.ndarray or dtype.kind != "f":
        return False
    w.compute(np.maximum, instruction, (*instruction.operands, zeros_beside(out.shape, dtype)), instruction.operands)
    return True


def _relu_vjp(w: "Writer", instruction: Instruction) -> bool:
    """Multiply the bits of the cotangent by 1 or 0, as the kernel of ``relu`` does."""
    g, y = instruction.operands
    (out,) = instruction.results
    dtype = np.dtype(g.dtype)
    if (
        dtype.kind != "f"
        or dtype.itemsize > 8
        or y.dtype != g.dtype
        or y.shape != g.shape
        or not g.shape
        or out not in w.ownership.kept
    ):
        return False
    bits = np.dtype(f"i{dtype.itemsize}")
    of_g = w.view(g, lambda x: x.view(bits))
    mask = w.scratch(g.shape, np.bool_)
    if of_g is None or mask is None:
        return False
    number = w.workspace.view(mask, lambda x: x.view(np.int8))
    if w.target(out, (g,)) is None:
        return False
    to = of_g if w.number(out) == w.number(g) else w.view(out, lambda x: x.view(bits))
    w.line(f"{w.scope.hold(np.greater, 'greater')}({w.text(y)}, {w.operand(0.0, y)}, b{mask})")
    w.line(f"{w.scope.hold(np.multiply, 'multiply')}(b{number}, {of_g}, {to})")
    return True


def _mean(w: "Writer", instruction: Instruction) -> bool:
    """Compute a mean as NumPy does, without its checks."""
    (x,) = instruction.operands
    (out,) = instruction.results
    if x.kind is not np.ndarray or np.dtype(x.dtype).char not in "fd" or not x.size or out.dtype != x.dtype:
        return False
    settings = {name: w.text(instruction.settings[name]) for name in ("axis", "keepdims")}
    w.line(f"{w.names[out]} = {w.call(np.add.reduce, x, stem='sum', **settings)} / {x.size // out.size}")
    return True


def _view(form: str, w: "Writer", instruction: Instruction) -> bool:
    """Write a view as a method call. The view of a buffer is created once."""
    x, (out,) = instruction.operands[0], instruction.results
    if w.number(x) is not None or x.kind is not np.ndarray:
        return False
    settings = {**instruction.settings, "shape": out.shape}
    w.line(f"{w.names[out]} = {w.names[x]}{form.format(**settings)}")
    return True


def _momentum(w: "Writer", instruction: Instruction) -> bool:
    """Update a parameter by plain momentum, in place if possible.

    The gradient is an operand, or part of the operation (``Folded``).
    """
    p, *given, v = instruction.operands
    inner = instruction.operation.inner if isinstance(instruction.operation, Folded) else None
    if inner is None and not _is_plain_step(instruction):
        return False
    settings = instruction.settings
    fixed = {name: value for name, value in settings.items() if name not in ("donate", "lr")}
    otherwise = partial(evaluation(instruction), **fixed)
    donate, lr = w.text(settings["donate"]), w.text(settings["lr"])
    if inner is not None and inner.kind == "product":
        a, b = given
        sizes = (*a.shape, b.shape[1])
        step = updates.step_of_product(sizes, np.dtype(p.dtype), settings["momentum"], otherwise)
        arguments = [*map(w.text, (p, a, b, v)), donate, lr]
    else:
        spare = w.scratch(p.shape, p.dtype)
        if spare is None:
            return False
        # arrays of more elements are updated by BLAS, which accepts Python numbers
        as_rate = w.rate if p.size <= updates.SMALL else lambda value, like: w.text(value)
        numbers = [as_rate(settings[name], p) for name in ("lr", "momentum")]
        step = updates.step_of_gradient(inner is not None, given[1:], otherwise)
        arguments = [*map(w.text, (p, given[0], v)), f"b{spare}", donate, lr, *numbers]
    results = ", ".join(w.names[out] for out in instruction.results)
    w.line(f"{results}, = {w.scope.hold(step, stem_of(instruction.name))}({', '.join(arguments)})")
    return True


def _is_plain_step(instruction: Instruction) -> bool:
    """Return True for a plain momentum step of arrays of one type, shape and dtype."""
    p, g, v = instruction.operands
    if not updates.is_plain(**instruction.settings) or None in instruction.outputs or p is v or not p.shape:
        return False
    return len({(x.kind, x.shape, np.dtype(x.dtype)) for x in (p, g, v)}) == 1 and np.dtype(p.dtype).kind == "f"


def _added_product(w: "Writer", instruction: Instruction) -> bool:
    """Add a product to the other operand, in place if possible."""
    operation = instruction.operation
    x, a, b = instruction.operands if operation.place else (instruction.operands[2], *instruction.operands[:2])
    (out,) = instruction.results
    apart = [x] if x is not a and x is not b else []
    add = w.scope.hold(product_added((*a.shape, b.shape[1]), np.dtype(out.dtype)), "add_product")
    given = [w.text(v) for v in (x, a, b)]
    target = w.target(out, apart if w.is_alone(x, instruction) else ())
    to = target or w.reusable_gradient(out, instruction, apart) or "None"
    left = "" if target is not None else f"{w.names[out]} = "
    w.line(f"{left}{add}({', '.join(given)}, {to})")
    return True


def _cross_entropy(w: "Writer", instruction: Instruction) -> bool:
    x, labels, g = instruction.operands
    loss, lse, g_x = instruction.outputs
    n, classes = x.shape
    dtype = np.dtype(x.dtype)
    shape, starts, step = cross_entropy.layout(n, classes)
    spare = [] if n == 1 else [w.scratch((n,), kind) for kind in (dtype, dtype, dtype, np.int64)]
    if None in spare or g_x is None or g_x not in w.ownership.kept:
        return False
    e = w.laid(g_x, shape, dtype, (lambda x: x.T) if classes < SHORT else None)
    if e is None:
        return False
    given = [w.text(v) for v in (x, labels, g)]
    for out in (loss, lse):
        if out is not None and w.target(out) is None:
            w.line(f"{w.names[out]} = {w.call(np.empty, (n,), dtype, stem='empty')}")
    function = cross_entropy.derivative_of_one if n == 1 else cross_entropy.derivative
    name = w.scope.hold(function, "cross_entropy")
    middle = [] if n == 1 else [*(f"b{i}" for i in spare), *map(w.scope.hold, (starts, step))]
    w.line(f"{name}({', '.join([*given, e, *middle, w.text(loss), w.text(lse)])})")
    return True


def group_step(w: "Writer", instruction: Instruction) -> bool:
    """Compute a group into buffers, or into operands that are read for the last time."""
    group = instruction.operation
    operands = dict(zip(group.program.inputs, instruction.operands, strict=True))
    function = group_function(group, [v for v, x in operands.items() if w.is_donated(x, instruction)])
    results = dict(zip(group.program.outputs, instruction.outputs, strict=True))
    arguments = [w.text(v) for v in instruction.operands]
    left = {out: w.names[out] for out in instruction.results}
    taken: set[str] = set()
    for inner, found in function.overwrites.items():
        out = results[inner]
        over = [operands[v] for v in found if w.is_alone(operands[v], instruction)]
        target = w.target(out, [v for v in over if w.names[v] not in taken])
        arguments.append(target or w.reusable_gradient(out, instruction, [operands[v] for v in found]) or "None")
        if target is not None:
            taken.add(target)
            left[out] = "_" if w.number(out) is not None else target
    names = ", ".join(left[v] for v in instruction.results)
    w.line(f"{names}, = {w.scope.hold(function, 'fused')}({', '.join(arguments)})")
    return True


def _getitem(w: "Writer", instruction: Instruction) -> bool:
    """Index as Python does, if all positions are known."""
    x, *positions = instruction.operands
    if positions or not isinstance(x, Variable) or not x.on_numpy:
        return False
    (out,) = instruction.results
    if out.kind is np.ndarray and w.number(x) is not None:
        return False  # the view of a buffer is created once
    w.line(f"{w.names[out]} = {w.names[x]}[{w.text(instruction.settings['index'])}]")
    return True


def _reads_scalars(w: "Writer", instruction: Instruction) -> bool:
    """Return True for ufuncs and choices, which read NumPy scalars as arrays of shape ()."""
    return STEPS.get(instruction.operation.name) is _where or isinstance(evaluation(instruction), np.ufunc)


def _where(w: "Writer", instruction: Instruction) -> bool:
    """Choose between numbers by Python, and between short arrays by ``numpy.where`` itself."""
    condition, *choices = instruction.operands
    (out,) = instruction.results
    if out.kind is not np.ndarray or out.size >= BRANCHY:
        return False
    dtype = np.dtype(out.dtype)
    if (
        out.shape
        or out in w.returned
        or any(x.on_host or np.dtype(x.dtype) != dtype for x in choices if isinstance(x, Variable))
        or not all(_reads_scalars(w, i) for i in w.readers(out))
    ):
        w.line(f"{w.names[out]} = {w.call(np.where, condition, *choices, stem='where')}")
        return True
    a, b = (w.text(x if isinstance(x, Variable) else dtype.type(x)) for x in choices)
    w.line(f"{w.names[out]} = {a} if {w.text(condition)} else {b}")
    return True


MOST_STACKED = 16
"""The maximum number of arrays to write one by one: ``numpy.stack`` costs as much as ten writes."""


def _stack(w: "Writer", instruction: Instruction) -> bool:
    (out,) = instruction.results
    parts = instruction.operands
    if out.kind is not np.ndarray or len(parts) > MOST_STACKED:
        return False
    if not all(isinstance(v, Variable) and v.on_numpy for v in parts):
        return False
    before = ":, " * instruction.settings["axis"]
    target = w.target(out)
    if target is None:
        target = w.names[out]
        spare = w.reusable_gradient(out, instruction)
        made = w.call(np.empty, out.shape, np.dtype(out.dtype), stem="empty")
        w.line(f"{target} = {made}" if spare is None else f"{target} = {made} if {spare} is None else {spare}")
    for i, v in enumerate(parts):
        w.line(f"{target}[{before}{i}] = {w.names[v]}")
    return True


try:
    from numpy.linalg import _umath_linalg as lapack
except ImportError:  # the public functions remain, which spend most of a small call in checks
    lapack = None  # type: ignore[assignment]


def _are_small_matrices(*values: Variable) -> bool:
    """Return True for nonempty float32 or float64 matrices of one dtype, if LAPACK is available."""
    kinds = {(v.kind, len(v.shape), np.dtype(v.dtype).char, v.size > 0) for v in values if isinstance(v, Variable)}
    return lapack is not None and len(kinds) == 1 and kinds <= {(np.ndarray, 2, c, True) for c in "fd"}


def _solve(w: "Writer", instruction: Instruction) -> bool:
    """Solve by LAPACK without checks of types. If the result is NaN, NumPy checks for a singular matrix."""
    if not _are_small_matrices(*instruction.operands):
        return False
    otherwise = evaluation(instruction)

    def solution(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found: np.ndarray = lapack.solve(a, b)
        corner = found.item(0)
        return found if corner == corner else otherwise(a, b)

    a, b = map(w.text, instruction.operands)
    w.line(f"{w.names[instruction.results[0]]} = {w.scope.hold(solution, 'solve')}({a}, {b})")
    return True


def _slogdet(w: "Writer", instruction: Instruction) -> bool:
    if not _are_small_matrices(*instruction.operands):
        return False
    results = ", ".join("_" if out is None else w.names[out] for out in instruction.outputs)
    w.line(f"{results}, = {w.scope.hold(lapack.slogdet, 'slogdet')}({w.text(instruction.operands[0])})")
    return True


STEPS: dict[str, Step] = {
    "getitem": _getitem,
    "stack": _stack,
    "where": _where,
    "softmax_cross_entropy and its rule": _cross_entropy,
    "matmul": _matmul,
    "linear": _linear,
    "linear.vjp:bias": _linear_bias,
    "relu": _relu,
    "relu.vjp:x": _relu_vjp,
    "matrix_transpose": partial(_view, ".mT"),
    "reshape": partial(_view, ".reshape({shape})"),
    "permute_dims": partial(_view, ".transpose({axes})"),
    "linalg.solve": _solve,
    "linalg.solve_or_nan": _solve,
    "linalg.slogdet": _slogdet,
    "mean": _mean,
    "add of a product": _added_product,
    "sgd_update": _momentum,
    "sgd_update of a product": _momentum,
    "sgd_update of a row_sum": _momentum,
}

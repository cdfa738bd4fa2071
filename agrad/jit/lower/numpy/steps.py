"""Steps: instructions that NumPy computes with fewer calls than usual.

A step writes the lines of one instruction through a ``Writer``. It returns False where the instruction is to be an
ordinary call.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from agrad.backends.numpy.fused import all_ones
from agrad.backends.numpy.updates import momentum_step
from agrad.jit.lower.numpy.groups import group_function
from agrad.jit.passes.cross_entropy import SHORT, CrossEntropy, cross_entropy, exponentials_layout
from agrad.jit.passes.folding import FoldedStep, is_plain, step_of_sum
from agrad.jit.program import Instruction

if TYPE_CHECKING:
    from agrad.jit.lower.numpy.program import Writer

Step = Callable[["Writer", Instruction], bool]


def _matmul(w: "Writer", instruction: Instruction) -> bool:
    (out,) = instruction.results
    if out.kind is not np.ndarray:
        return False
    w.compute(np.matmul, instruction, instruction.operands)
    return True


def _linear(w: "Writer", instruction: Instruction) -> bool:
    x, weight, bias = instruction.operands
    (out,) = instruction.results
    alike = len({np.dtype(v.dtype) for v in (x, weight, bias)}) == 1 and np.dtype(x.dtype).kind in "fc"
    if not alike or len(x.shape) < 2 or len(weight.shape) != 2 or out.kind is not np.ndarray:
        return False
    w.compute(np.matmul, instruction, (x, weight))
    w.line(w.call(np.add, out, bias, out=w.names[out], stem="add"))
    return True


def _linear_bias(w: "Writer", instruction: Instruction) -> bool:
    g = instruction.operands[0]
    if len(g.shape) != 2 or instruction.results[0].shape != g.shape[1:]:
        return False
    w.compute(np.matmul, instruction, (all_ones(g.shape[0], np.dtype(g.dtype)), g))
    return True


def _relu_vjp(w: "Writer", instruction: Instruction) -> bool:
    """Multiply the cotangent's bits by 1 or 0, as the kernel does."""
    g, y = instruction.operands
    (out,) = instruction.results
    dtype = np.dtype(g.dtype)
    if (
        dtype.kind != "f"
        or dtype.itemsize > 8
        or y.dtype != g.dtype
        or y.shape != g.shape
        or not g.shape
        or not w.ownership.may_be_kept(out)
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
    to = w.view(out, lambda x: x.view(bits))
    w.line(f"{w.scope.hold(np.greater, 'greater')}({w.text(y)}, {w.operand(0.0, y)}, out=b{mask})")
    w.line(f"{w.scope.hold(np.multiply, 'multiply')}(b{number}, {of_g}, out={to})")
    return True


def _momentum(w: "Writer", instruction: Instruction) -> bool:
    """Update a parameter by plain momentum, in place where that may be.

    The gradient is an operand, or the sum over the rows of one.
    """
    p, g, *_, v = instruction.operands
    settings, of_sum = instruction.settings, isinstance(instruction.operation, FoldedStep)
    if not of_sum and not _is_plain_step(instruction):
        return False
    spare = w.scratch(p.shape, p.dtype)
    if spare is None:
        return False
    function = step_of_sum if of_sum else momentum_step
    step = w.scope.hold(function, function.__name__)
    first, second = w.text(p), w.text(v)
    arguments = [first, w.text(g), second, f"b{spare}", w.text(settings["lr"]), w.text(settings["momentum"])]
    results = ", ".join(w.names[out] for out in instruction.results)
    w.line(f"if {w.text(settings['donate'])} and {first}.flags.carray and {second}.flags.carray:")
    w.line(f"    {step}({', '.join(arguments)})")
    w.line(f"    {results} = {first}, {second}")
    w.line("else:")
    w.line(f"    {results}, = {w.plain(instruction)}")
    return True


def _is_plain_step(instruction: Instruction) -> bool:
    """Return True for a plain step of momentum on three arrays that are alike."""
    p, g, v = instruction.operands
    if not is_plain(instruction.settings) or None in instruction.outputs or p is v or not p.shape:
        return False
    return len({(x.kind, x.shape, np.dtype(x.dtype)) for x in (p, g, v)}) == 1 and np.dtype(p.dtype).kind == "f"


def _cross_entropy(w: "Writer", instruction: Instruction) -> bool:
    x, labels, g = instruction.operands
    loss, lse, g_x = instruction.outputs
    n, classes = x.shape
    dtype = np.dtype(x.dtype)
    shape, starts, step = exponentials_layout(n, classes)
    spare = [w.scratch((n,), kind) for kind in (dtype, dtype, dtype, np.int64)]
    if None in spare or g_x is None or not w.ownership.may_be_kept(g_x):
        return False
    e = w.laid(g_x, shape, dtype, (lambda x: x.T) if classes < SHORT else None)
    if e is None:
        return False
    given = [w.text(v) for v in (x, labels, g)]
    for out in (loss, lse):
        if out is not None and w.target(out) is None:
            w.line(f"{w.names[out]} = {w.call(np.empty, (n,), dtype, stem='empty')}")
    ends = [w.text(v) for v in (starts, step, loss, lse)]
    name = w.scope.hold(cross_entropy, "cross_entropy")
    w.line(f"{name}({', '.join([*given, e, *(f'b{i}' for i in spare), *ends])})")
    return True


def group_step(w: "Writer", instruction: Instruction) -> bool:
    """Compute a group into buffers, or over operands that it alone reads."""
    group = instruction.operation
    function = group_function(group)
    operands = dict(zip(group.program.inputs, instruction.operands, strict=True))
    results = dict(zip(group.program.outputs, instruction.outputs, strict=True))
    arguments = [w.text(v) for v in instruction.operands]
    left = {out: w.names[out] for out in instruction.results}
    taken: set[str] = set()
    for inner, found in function.overwrites.items():
        out = results[inner]
        over = [operands[v] for v in found if w.is_alone(operands[v], instruction)]
        target = w.target(out, [v for v in over if w.names[v] not in taken])
        arguments.append("None" if target is None else target)
        if target is not None:
            taken.add(target)
            left[out] = "_" if w.number(out) is not None else target
    names = ", ".join(left[v] for v in instruction.results)
    w.line(f"{names}, = {w.scope.hold(function, 'fused')}({', '.join(arguments)})")
    return True


STEPS: dict[str, Step] = {
    CrossEntropy.name: _cross_entropy,
    "matmul": _matmul,
    "linear": _linear,
    "linear.vjp:bias": _linear_bias,
    "relu.vjp:x": _relu_vjp,
    "sgd_update": _momentum,
    "sgd_update of a sum": _momentum,
}

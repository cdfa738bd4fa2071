"""Operations written out as the ones that they are made of, where these can be computed in one pass over rows.

A softmax on its own reads its array five times. As operations of a group it shares the blocks of what goes before and
after it. The parts are those of the primitives' own bodies, in the same order.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.jit.fusion import LARGE, works_by_element
from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.rows import reduction_of, splits_of
from agrad.registry import PRIMITIVES

Write = Callable[["Parts", Instruction], bool]


class Parts:
    """The instructions of a program while some are written out."""

    def __init__(self) -> None:
        self.kept: list[Instruction] = []

    def call(self, name: str, *operands: Any, out: Variable | None = None, dtype: Any = None, **settings: Any) -> Any:
        """The result of one more instruction: ``out``, or a new array of the shape that the operands broadcast to."""
        arrays = [v for v in operands if isinstance(v, Variable)]
        if out is None:
            shape = np.broadcast_shapes(*[v.shape for v in arrays])
            out = Variable(shape, dtype or arrays[0].dtype, np.ndarray)
        self.kept.append(Instruction(PRIMITIVES[name], operands, settings, (out,)))
        return out

    def reduce(self, name: str, x: Variable, axis: tuple[int, ...]) -> Variable:
        """A reduction that keeps its axes."""
        shape = tuple([1 if a in axis else n for a, n in enumerate(x.shape)])
        out: Variable = self.call(name, x, out=Variable(shape, x.dtype, np.ndarray), axis=axis, keepdims=True)
        return out

    def end(self, y: Variable, out: Variable) -> None:
        """Give a result its place: without the axes that were kept, where ``out`` has none."""
        if y.shape == out.shape:
            self.kept[-1].outputs = (out,)
        else:
            self.call("reshape", y, out=out, shape=out.shape)


def _softmax(p: Parts, instruction: Instruction) -> bool:
    (x,), (out,), axis = instruction.operands, instruction.results, _axes(instruction)
    if not _is_of_rows(x, axis):
        return False
    e = p.call("exp", p.call("subtract", x, p.reduce("max", x, axis)))
    p.call("divide", e, p.reduce("sum", e, axis), out=out)
    return True


def _log_softmax(p: Parts, instruction: Instruction) -> bool:
    (x,), (out,), axis = instruction.operands, instruction.results, _axes(instruction)
    if not _is_of_rows(x, axis):
        return False
    x = p.call("subtract", x, p.reduce("max", x, axis))
    p.call("subtract", x, p.call("log", p.reduce("sum", p.call("exp", x), axis)), out=out)
    return True


def _logsumexp(p: Parts, instruction: Instruction) -> bool:
    (x,), (out,), axis = instruction.operands, instruction.results, _axes(instruction)
    if not _is_of_rows(x, axis):
        return False
    m = p.reduce("max", x, axis)
    m = p.call("where", p.call("isfinite", m, dtype=np.dtype(bool)), m, 0.0, dtype=x.dtype)
    y = p.call("log", p.reduce("sum", p.call("exp", p.call("subtract", x, m)), axis))
    p.end(p.call("add", y, m), out)
    return True


def _var(p: Parts, instruction: Instruction) -> bool:
    (x,), (out,), axis = instruction.operands, instruction.results, _axes(instruction)
    count = _deviations(x, axis, instruction.settings["correction"])
    if count is None:
        return False
    squares = p.call("square", p.call("subtract", x, p.reduce("mean", x, axis)))
    p.end(p.call("divide", p.reduce("sum", squares, axis), count), out)
    return True


def _var_vjp(p: Parts, instruction: Instruction) -> bool:
    (g, x), (out,), axis = instruction.operands, instruction.results, _axes(instruction)
    count = _deviations(x, axis, instruction.settings["correction"])
    if count is None or not _is_real(g) or g.dtype != x.dtype:
        return False
    kept = tuple([1 if a in axis else n for a, n in enumerate(x.shape)])
    if g.shape != kept:
        g = p.call("reshape", g, out=Variable(kept, g.dtype, np.ndarray), shape=kept)
    slope = p.call("multiply", g, 2 / count)
    p.call("multiply", p.call("subtract", x, p.reduce("mean", x, axis)), slope, out=out)
    return True


def _deviations(x: Any, axis: tuple[int, ...], correction: Any) -> float | None:
    """What a variance divides its sum by; None where it is not of rows, or divides by nothing."""
    if not _is_of_rows(x, axis) or type(correction) not in (int, float):
        return None
    count: float = math.prod([x.shape[a] for a in axis]) - correction
    return count if count > 0 else None


def _gelu(p: Parts, instruction: Instruction) -> bool:
    (x,), (out,) = instruction.operands, instruction.results
    if instruction.settings["approximate"] or not _is_real(x):
        return False
    half = p.call("multiply", 0.5, x)
    inner = p.call("erf", p.call("multiply", x, 0.5**0.5))
    p.call("multiply", half, p.call("add", 1, inner), out=out)
    return True


def _linear(p: Parts, instruction: Instruction) -> bool:
    x, weight, bias = instruction.operands
    (out,) = instruction.results
    if len({np.dtype(v.dtype) for v in (x, weight, bias)}) != 1 or not _is_real(x):
        return False
    product = p.call("matmul", x, weight, out=Variable(out.shape, out.dtype, np.ndarray))
    p.call("add", product, bias, out=out)
    return True


WRITTEN_OUT: dict[str, Write] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "var": _var,
    "var.vjp:x": _var_vjp,
    "gelu": _gelu,
    "linear": _linear,
}


def _axes(instruction: Instruction) -> tuple[int, ...]:
    axis = instruction.settings["axis"]
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _bytes(x: Variable) -> int:
    return x.size * np.dtype(x.dtype).itemsize


def _is_real(x: Any) -> bool:
    """Whether it is an array of real floating numbers of at least single precision."""
    return (
        isinstance(x, Variable)
        and x.kind is np.ndarray
        and np.dtype(x.dtype).kind == "f"
        and np.dtype(x.dtype).itemsize >= 4
    )


def _is_of_rows(x: Any, axis: tuple[int, ...]) -> bool:
    """Whether blocks can be cut along axes before those that are reduced."""
    return bool(axis) and _is_real(x) and min(axis) >= min(splits_of(x.shape, np.dtype(x.dtype)), default=len(x.shape))


def with_parts(minimum: int = LARGE) -> Callable[[Program], Program]:
    """The pass that writes out operations on arrays of at least ``minimum`` bytes."""

    def write_out(program: Program) -> Program:
        parts = Parts()
        for instruction in program.instructions:
            write = WRITTEN_OUT.get(instruction.name)
            arrays = [v for v in (*instruction.reads(), *instruction.results) if not v.on_host]
            large = len(instruction.results) == 1 and max(map(_bytes, arrays), default=0) >= minimum
            if write is None or not large or not write(parts, instruction):
                parts.kept.append(instruction)
        return program.with_instructions(parts.kept)

    return write_out


def without_broadcasts(program: Program) -> Program:
    """Operations on each element read what was broadcast for them as it was, where another operand has their shape."""
    narrow: dict[Variable, Variable] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if instruction.name == "broadcast_to" and isinstance(instruction.operands[0], Variable):
            x, (out,) = instruction.operands[0], instruction.results
            if not x.on_host and x.dtype == out.dtype and x.kind is np.ndarray:
                narrow[out] = narrow.get(x, x)
        elif narrow and works_by_element(instruction):
            shape = instruction.results[0].shape
            arrays = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
            if any(v.shape == shape and v not in narrow for v in arrays):
                instruction = instruction.replaced(narrow)
        kept.append(instruction)
    return program.with_instructions(kept)


def with_early_reductions(minimum: int = LARGE) -> Callable[[Program], Program]:
    """The pass that computes reductions of arrays of at least ``minimum`` bytes right after what they read.

    There the array is in the cache, and a group that makes it is not closed yet: a bias's gradient stands behind the
    product that reads the same cotangent.
    """

    def move(program: Program) -> Program:
        made = {v for i in program.instructions for v in i.results}
        early: dict[Variable, list[Instruction]] = {}
        for instruction in program.instructions:
            x = instruction.operands[0] if instruction.operands else None
            if reduction_of(instruction) is not None and x in made and _bytes(x) >= minimum:
                early.setdefault(x, []).append(instruction)
        moved = {id(instruction) for found in early.values() for instruction in found}
        kept: list[Instruction] = []

        def put(instruction: Instruction) -> None:
            kept.append(instruction)
            for v in instruction.results:
                for reduction in early.get(v, ()):
                    put(reduction)

        for instruction in program.instructions:
            if id(instruction) not in moved:
                put(instruction)
        return program.with_instructions(kept)

    return move

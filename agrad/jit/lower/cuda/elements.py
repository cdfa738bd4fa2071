"""CUDA functions that compute one element of an array from its position."""

import math
import re
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from agrad.jit.lower.cuda.convolutions import WindowCopy
from agrad.jit.lower.cuda.scatter import parts_of, sum_of_parts
from agrad.jit.lower.cuda.segments import is_view
from agrad.jit.lower.cuda.source import C_TYPES, NARROW, expression, has_cuda_expression
from agrad.jit.passes.tiling import ROW_LENGTH, reduction_of
from agrad.jit.program import Instruction, Variable, works_by_element

Read = Callable[[Variable, str], str]
"""From a variable and the position of an element to the expression of the element."""


def has_element(instruction: Instruction) -> bool:
    """Return True if a function can compute each element of the result.

    These are elementwise operations, sums of parts at their positions, and windows.
    """
    if len(instruction.results) != 1 or not _are_arrays(instruction):
        return False
    if works_by_element(instruction):
        return has_cuda_expression(instruction)
    if isinstance(instruction.operation, WindowCopy):
        return True
    return _has_dtype(instruction, C_TYPES) and parts_of(instruction) is not None


def is_written_out(instruction: Instruction) -> bool:
    """Return True for a part of an operation's definition that groups compute."""
    if instruction.operation.kind == "product" or len(instruction.results) != 1:
        return False
    found = reduction_of(instruction)
    if found is not None:
        x = instruction.operands[0]
        trailing = tuple(range(min(found.axis), len(x.shape)))
        return found.axis == trailing and math.prod(x.shape[found.axis[0] :]) <= ROW_LENGTH
    view = np.empty(instruction.arrays[0].shape, np.uint8) if instruction.operation.is_view else None
    return has_element(instruction) or (view is not None and view_in_numpy(instruction, view) is not None)


def _are_arrays(instruction: Instruction) -> bool:
    """Return True if there is no host number, and no empty array."""
    return all(v.size and not v.on_host for v in (*instruction.reads(), *instruction.results))


def _has_dtype(instruction: Instruction, known: Container[str]) -> bool:
    (out,) = instruction.results
    return np.dtype(out.dtype).char in known and all(v.dtype == out.dtype for v in instruction.arrays)


def view_in_numpy(instruction: Instruction, x: Any) -> Any:
    """Return a view of an array of bytes in the layout of the operand, or None.

    None stands for any other instruction. The result may be a copy, but not of a contiguous array: an operation that
    computes new elements is not a view.
    """
    if not is_view(instruction) or not _are_arrays(instruction) or not _has_dtype(instruction, C_TYPES | NARROW):
        return None
    found = _evaluated(instruction, x)
    if found is not None and not np.may_share_memory(found, x):
        base = np.empty(x.shape, np.uint8)
        packed = _evaluated(instruction, base)
        if packed is None or not np.may_share_memory(packed, base):
            return None
    return found


def _evaluated(instruction: Instruction, x: Any) -> Any:
    found = instruction.operation.function_of(np.ndarray)(x, **instruction.settings)
    same = isinstance(found, np.ndarray) and found.dtype == x.dtype and found.shape == instruction.results[0].shape
    return found if same else None


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    return tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])


def element_lines(instruction: Instruction, read: Read, index: str) -> list[str]:
    """Return the statements that compute element ``i`` of the result.

    The result of a sum of parts is ``sum``; ``index`` is the integer type of positions.
    """
    (out,) = instruction.results
    if isinstance(instruction.operation, WindowCopy):
        (x,) = instruction.arrays
        kind = C_TYPES[np.dtype(out.dtype).char]
        return instruction.operation.lines(x.shape, kind, index, lambda place: read(x, place))
    at = ["0" if n == 1 else f"i{a}" for a, n in enumerate(out.shape)]
    body = _body(instruction, read, at)
    lines = [
        f"    const {index} i{a} = i / {below}{f' % {n}' if a else ''};"
        for a, (n, below) in enumerate(zip(out.shape, packed_strides(out.shape), strict=True))
        if any(re.search(rf"\bi{a}\b", line) for line in body)
    ]
    return [*lines, *body]


def _body(instruction: Instruction, read: Read, at: Sequence[str]) -> list[str]:
    """Return the statements that use the coordinates of an element."""
    (out,) = instruction.results
    if works_by_element(instruction) and has_cuda_expression(instruction):
        names = {}
        for v in instruction.arrays:
            strides = [0 if n == 1 else s for n, s in zip(v.shape, packed_strides(v.shape), strict=True)]
            whole = v.shape == out.shape
            names[v] = read(v, "i" if whole else _position(at[len(at) - len(v.shape) :], strides))
        return [f"    return {expression(instruction, names)};"]
    if is_view(instruction):
        (x,) = instruction.arrays
        start, steps = _positions(instruction)
        return [f"    return {read(x, _position(at, steps, start))};"]
    kind = C_TYPES[np.dtype(out.dtype).char]
    terms = [(lambda place, v=v: read(v, place)) for v in instruction.operands]
    return [f"    {kind} sum = {kind}(0);", *sum_of_parts(instruction, terms), "    return sum;"]


def _positions(instruction: Instruction) -> tuple[int, tuple[int, ...]]:
    """Return where the first element of a view is in its operand, and the steps along the axes."""
    base = np.empty(instruction.arrays[0].shape, np.uint8)
    found = view_in_numpy(instruction, base)
    start = found.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return start, found.strides


def _position(at: Sequence[str], strides: Sequence[int], start: int = 0) -> str:
    terms = [f"{name} * {step}" for name, step in zip(at, strides, strict=True) if step and name != "0"]
    return " + ".join([*terms, str(start)] if start or not terms else terms)

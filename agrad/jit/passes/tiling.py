"""Tiling: arrays of a group cut into blocks along leading axes that they share.

A group of shape ``(*lead, *inner)`` has as many rows as ``lead`` has elements, and ``split`` is the number of leading
axes. An operand is *of rows*, with one part for each row, or *whole*, the same for all rows, such as a bias. A
reduction over inner axes returns an array of rows again. A reduction over all leading axes returns a *total*, which is
known after the last block.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from agrad.engine.operation import Operation
from agrad.jit.program import Instruction, Variable
from agrad.ops.indexing import scatter_sum

Shape = tuple[int, ...]

SCATTER_SUM = scatter_sum.primitive

ROW_BYTES = 1 << 16
"""Bytes of the longest row: several of them make a block."""


class Reduction(NamedTuple):
    """A sum, mean, maximum or minimum over some axes of one array."""

    combine: Operation
    """The elementwise operation that combines the results for two parts."""
    averages: bool
    axis: tuple[int, ...]
    keepdims: bool

    def is_total(self, split: int) -> bool:
        """Return True for a reduction over all leading axes."""
        return set(range(split)) <= set(self.axis)

    def of_block(self, split: int) -> tuple[int, ...]:
        """Return the axes in a block, whose first axis represents all leading axes."""
        first = (0,) if self.is_total(split) else ()
        return (*first, *(a - split + 1 for a in self.axis if a >= split))


def reduction_of(instruction: Instruction) -> Reduction | None:
    """Return the instruction's reduction, or None.

    Its parts can be combined. The dtype is Boolean, or floating of at least single precision.
    """
    operation = instruction.operation
    if operation.combine is None or len(instruction.outputs) != 1:
        return None
    x, out = instruction.operands[0] if instruction.operands else None, instruction.outputs[0]
    if not isinstance(x, Variable) or out is None or x.on_host or not x.size or out.dtype != x.dtype:
        return None
    dtype = np.dtype(x.dtype)
    if dtype.kind != "b" and (dtype.kind != "f" or dtype.itemsize < 4):
        return None
    combine, settings = operation.combine.primitive, instruction.settings
    if operation.kind == "row_sum":
        return Reduction(combine, False, (0,), False) if len(x.shape) == 2 and out.shape == x.shape[1:] else None
    if len(instruction.operands) != 1 or set(settings) != {"axis", "keepdims"}:
        return None
    axis = tuple(settings["axis"])
    return Reduction(combine, operation.averages, axis, bool(settings["keepdims"])) if axis else None


def is_cast(instruction: Instruction) -> bool:
    """Return True for an operation that returns the elements in another dtype."""
    return instruction.operation.kind == "elementwise" and "dtype" in instruction.operation.settings


def is_reshape(instruction: Instruction) -> bool:
    """Return True if the result is the single operand in another shape."""
    return instruction.operation.kind == "reshape" and len(instruction.reads()) == 1 == len(instruction.results)


def offsets_of(instruction: Instruction) -> Shape | None:
    """Return where the parts of a sum of slices begin along the first axis, or None.

    The parts are contiguous, and have one shape and dtype.
    """
    if instruction.operation is not SCATTER_SUM:
        return None
    parts, (out,) = instruction.operands, instruction.results
    if len({v.shape for v in parts}) > 1 or not parts[0].size or any(v.dtype != out.dtype for v in parts):
        return None
    if parts[0].shape[1:] != out.shape[1:]:
        return None
    found: list[int] = []
    for index in instruction.settings["indices"]:
        if not index or type(index[0]) is not slice or any(entry != slice(None) for entry in index[1:]):
            return None
        start, _, step = index[0].indices(out.shape[0])
        if step != 1:
            return None
        found.append(start)
    return tuple(found)


def splits_of(shape: Shape, dtype: np.dtype) -> frozenset[int]:
    """Return the numbers of leading axes that blocks of an array may be cut along."""
    return frozenset(
        s
        for s in range(1, len(shape) + 1)
        if math.prod(shape[:s]) > 1 and math.prod(shape[s:]) * dtype.itemsize <= ROW_BYTES
    )


ROW_LENGTH = 1 << 13
"""The most elements of a row that is computed as a whole: a GPU's block then has eight of them in each thread."""

ROW_ENOUGH = 128
"""Number of elements of a row that suffices for the memory bandwidth. Blocks of longer rows are not needed."""


def whole_row_splits(shape: Shape, dtype: np.dtype) -> frozenset[int]:
    """Return the numbers of leading axes that leave rows short enough for one block.

    Arrays without elements have no rows.
    """
    return frozenset(
        s
        for s in range(min(1, len(shape)), len(shape) + 1)
        if s == len(shape) or (0 not in shape and math.prod(shape[s:]) <= ROW_LENGTH)
    )


def best_split(shape: Shape, splits: Iterable[int]) -> int:
    """Return the split into elements, or into the shortest rows that are long enough."""
    found = sorted(splits, reverse=True)
    if found[0] == len(shape):
        return found[0]
    return next((s for s in found if math.prod(shape[s:]) >= ROW_ENOUGH), found[-1])


def is_of_rows(shape: Shape, lead: Shape) -> bool:
    """Return True for an array with one part for each row."""
    return shape[: len(lead)] == lead


def operand_is_of_rows(shape: Shape, out: Shape, split: int) -> bool | None:
    """Return True for an operand of rows, False for a whole one, None for neither.

    The operand is of an elementwise operation with a result of rows.
    """
    if len(shape) == len(out) and shape[:split] == out[:split]:
        return True
    missing = len(out) - len(shape)
    return False if all(n == 1 for n in shape[: max(0, split - missing)]) else None


def whole_shape(shape: Shape, out: Shape, split: int) -> Shape:
    """Return a whole operand's shape without the leading axes, which are of length 1."""
    return shape[max(0, split - (len(out) - len(shape))) :]

"""Operations written out as the ones that they are made of, where these can be computed in one pass over rows.

A softmax on its own reads its array five times. As operations of a group it shares the blocks of what goes before and
after it.
"""

from collections.abc import Callable

import numpy as np

from agrad.jit.bodies import body_of, in_place_of
from agrad.jit.fusion import LARGE, works_by_element
from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.rows import is_reshape, reduction_of, splits_of


def with_parts(minimum: int = LARGE) -> Callable[[Program], Program]:
    """The pass that writes out operations on arrays of at least ``minimum`` bytes."""

    def write_out(program: Program) -> Program:
        kept: list[Instruction] = []
        constants = dict(program.constants)
        for instruction in program.instructions:
            body = _parts(instruction, minimum) if instruction.operation.decompose else None
            if body is None:
                kept.append(instruction)
            else:
                kept += in_place_of(instruction, body)
                constants |= body.constants
        written = Program(program.inputs, constants, kept, program.outputs, program.notes)
        return written.with_instructions(kept)

    return write_out


def _parts(instruction: Instruction, minimum: int) -> Program | None:
    """The body of an operation on arrays of at least ``minimum`` bytes, where all of it fits groups of rows."""
    arrays = [v for v in (*instruction.reads(), *instruction.results) if not v.on_host]
    if max(map(_bytes, arrays), default=0) < minimum:
        return None
    body = body_of(instruction)
    return body if body is not None and all(map(_is_of_rows, body.instructions)) else None


def _bytes(x: Variable) -> int:
    return x.size * np.dtype(x.dtype).itemsize


def _is_of_rows(part: Instruction) -> bool:
    """Whether a part may stand in a group of rows, or is a product, of real numbers of at least single precision."""
    dtypes = {np.dtype(v.dtype) for v in (*part.reads(), *part.results)} - {np.dtype(bool)}
    if len(dtypes) != 1 or (dtype := dtypes.pop()).kind != "f" or dtype.itemsize < 4:
        return False
    reduction = reduction_of(part)
    if reduction is not None:
        shape = part.operands[0].shape
        return min(reduction.axis) >= min(splits_of(shape, dtype), default=len(shape))
    return works_by_element(part) or is_reshape(part) or part.operation.kind == "product"


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
        for instruction in program.instructions:
            todo = [] if id(instruction) in moved else [instruction]
            while todo:
                kept.append(todo.pop())
                todo += reversed([reduction for v in kept[-1].results for reduction in early.get(v, ())])
        return program.with_instructions(kept)

    return move

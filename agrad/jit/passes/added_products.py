"""Sums with a product of matrices: ``factor * x + a @ b`` is one call of BLAS.

It neither writes nor reads the product, and where x is not read afterwards it writes into x.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.engine.operation import Operation
from agrad.jit.passes.aliasing import aliases_of, overwritten
from agrad.jit.passes.folding import FEWEST
from agrad.jit.program import Instruction, Program, Variable
from agrad.kernels.numpy.blas import ROUTINES
from agrad.registry import PRIMITIVES

ADD, MULTIPLY = PRIMITIVES["add"], PRIMITIVES["multiply"]


class AddedProduct(Operation):
    """A multiple and a product of matrices: ``factor * x + a @ b``."""

    name = "added product"
    no_alias = True

    def __init__(self, product: Operation) -> None:
        self.product = product

    def evaluate(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Compute the operations on raw arrays."""
        x, a, b = args
        return x * settings["factor"] + self.product.evaluate((a, b), {})

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return lambda *args, **settings: self.evaluate(args, settings)


def with_added_products(program: Program) -> Program:
    """Make one instruction of a product, a multiple and their sum.

    Each is read once.
    """
    instructions = program.instructions
    operations = {instruction.operation for instruction in instructions}
    if ADD not in operations or "product" not in {operation.kind for operation in operations}:
        return program
    uses, made, aliases = program.uses, program.makers, aliases_of(program)
    new: dict[int, Instruction] = {}
    dropped: set[int] = set()
    for i, instruction in enumerate(instructions):
        if instruction.operation is not ADD:
            continue
        for x, y in (instruction.operands, instruction.operands[::-1]):
            at = made.get(y) if isinstance(y, Variable) and uses[y] == 1 else None
            if at is None or x is y or not _fits(instructions[at], instruction, x):
                continue
            factor, scaled = 1.0, made.get(x) if uses[x] == 1 else None
            from_here = at
            if scaled is not None and scaled not in dropped and (found := _multiple(instructions[scaled], x)):
                factor, x = found
                from_here = min(at, scaled)
            else:
                scaled = None
            a, b = instructions[at].operands
            written = {v for other in instructions[from_here:i] for v in overwritten(other)}
            if aliases.of(x, a, b) & written:
                continue
            operation = AddedProduct(instructions[at].operation)
            new[i] = Instruction(operation, (x, a, b), {"factor": factor}, instruction.outputs)
            dropped |= {at} if scaled is None else {at, scaled}
            break
    return program.with_instructions([new.get(i, old) for i, old in enumerate(instructions) if i not in dropped])


def _fits(product: Instruction, total: Instruction, x: Any) -> bool:
    """Return True for a product of two matrices that BLAS can add to x."""
    (out,) = total.outputs
    if product.operation.kind != "product" or product.settings or len(product.operands) != 2 or out is None:
        return False
    arrays = (*product.operands, x)
    return (
        all(isinstance(v, Variable) and v.kind is np.ndarray and len(v.shape) == 2 and v.size for v in arrays)
        and product.results[0].shape == x.shape == out.shape
        and out.size >= FEWEST
        and len({np.dtype(v.dtype) for v in (*arrays, out)}) == 1
        and np.dtype(out.dtype) in ROUTINES
    )


def _multiple(instruction: Instruction, x: Variable) -> tuple[float, Variable] | None:
    """Return the number and the array whose product is x, or None."""
    if instruction.operation is not MULTIPLY:
        return None
    for number, array in (instruction.operands, instruction.operands[::-1]):
        alike = isinstance(array, Variable) and (array.kind, array.shape, array.dtype) == (x.kind, x.shape, x.dtype)
        if type(number) is float and number and alike:
            return number, array
    return None

"""Simpler operations that return the same bits."""

from typing import Any

import numpy as np

from agrad.jit.passes.tiling import is_cast
from agrad.jit.program import Instruction, Program, Variable, rule_of
from agrad.ops import elementwise

MULTIPLY, POWER, SQUARE = (f.primitive for f in (elementwise.multiply, elementwise.pow, elementwise.square))


def simplified(program: Program) -> Program:
    """Remove factors of one and copies, and replace second powers by squares.

    The results have the same bits, or the bits of the operator that an ordinary run uses. An instruction whose result
    is an output stays: no two outputs, and no output and input, may be one array.
    """
    leaving = {v for v in program.outputs if isinstance(v, Variable)}
    table: dict[Variable, Any] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if table:
            instruction = instruction.replaced(table)
        operation, out = instruction.operation, instruction.outputs[0]
        if operation.kind not in ("reshape", "elementwise") or getattr(operation, "primitive", POWER) is not POWER:
            kept.append(instruction)
            continue
        same = _same_as_result(instruction, program) if out is not None and out not in leaving else None
        if same is None:
            kept += _without_powers(instruction)
        else:
            table[instruction.results[0]] = same
    return program.with_instructions(kept)


def _same_as_result(instruction: Instruction, program: Program) -> Variable | None:
    """Return the operand that a reshape, a cast or a product with one returns bit for bit, or None."""
    operation, operands, out = instruction.operation, instruction.operands, instruction.outputs[0]
    found: tuple[Any, ...] = ()
    if operation is MULTIPLY:
        found = tuple([x for x, one in (operands, operands[::-1]) if _is_one(one, program)])
    elif operation.kind == "reshape" or is_cast(instruction):
        found = operands
    alike = [v for v in found if isinstance(v, Variable) and _kind(v) == _kind(out)]
    return alike[0] if alike else None


def _kind(v: Variable | None) -> tuple[Any, ...]:
    return () if v is None else (v.shape, v.dtype, v.kind)


def _is_one(value: Any, program: Program) -> bool:
    raw = program.constants.get(value) if isinstance(value, Variable) else value
    return isinstance(raw, (int, float, np.generic)) and bool(raw == 1)


def _without_powers(instruction: Instruction) -> list[Instruction]:
    """Return a square for a second power, two products for its derivative, or the instruction."""
    is_power = instruction.operation is POWER
    if not is_power and rule_of(instruction) != (POWER, "vjp:x1"):
        return [instruction]
    (*g, x, power), out = instruction.operands, instruction.outputs[0]
    if type(power) not in (int, float) or power != 2 or out is None or not isinstance(x, Variable):
        return [instruction]
    arrays = instruction.reads()
    if x.shape != out.shape or any(v.dtype != out.dtype for v in arrays) or np.dtype(out.dtype).kind not in "fc":
        return [instruction]
    if is_power:
        return [Instruction(SQUARE, (x,), {}, instruction.outputs)]
    double = Variable(x.shape, x.dtype, x.kind)
    product = Instruction(MULTIPLY, (power, x), {}, (double,))
    return [product, Instruction(MULTIPLY, (*g, double), {}, instruction.outputs)]

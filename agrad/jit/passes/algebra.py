"""Simpler operations that give the same bits."""

from typing import Any

import numpy as np

from agrad.jit.program import Instruction, Program, Variable, is_rule
from agrad.registry import PRIMITIVES

ADD, MULTIPLY = PRIMITIVES["add"], PRIMITIVES["multiply"]
POW, SQUARE = PRIMITIVES["pow"], PRIMITIVES["square"]
ASTYPE, CAST = PRIMITIVES["astype"], PRIMITIVES["cast"]

_SIMPLER = frozenset({ADD, MULTIPLY, POW, ASTYPE, CAST})
"""The operations that are simplified, together with reshapes and the rules of ``pow``."""


def simplified(program: Program) -> Program:
    """Remove factors of one, sums of products with zeros, and copies; use squares.

    The results have the same bits, or those of the operator that an ordinary run uses. An instruction whose result is
    an output stays: no two outputs, and no output and input, may be one array.
    """
    leaving = {v for v in program.outputs if isinstance(v, Variable)}
    table: dict[Variable, Any] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if table:
            instruction = instruction.replaced(table)
        operation, out = instruction.operation, instruction.outputs[0]
        reshapes = operation.kind == "reshape"
        if operation not in _SIMPLER and not reshapes and getattr(operation, "primitive", None) is not POW:
            kept.append(instruction)
            continue
        if out is None or out.on_host or len(instruction.outputs) != 1:
            kept.append(instruction)
            continue
        same = _copied(instruction, out) if reshapes or operation in (ASTYPE, CAST) else None
        if same is None and np.dtype(out.dtype).kind not in "fc":
            kept.append(instruction)
            continue
        if same is None:
            same = _unchanged(instruction, out, program)
        if same is None:
            same = _beside_zero(instruction, out, program)
        if same is not None and (out not in leaving or _is_product_read_once(same, program)):
            table[out] = same
            continue
        kept += _square_derivative(instruction, out) or [_as_square(instruction, out)]
    outputs = [table.get(v, v) if isinstance(v, Variable) else v for v in program.outputs]
    return program.with_instructions(kept, outputs)


def _is_product_read_once(v: Any, program: Program) -> bool:
    """Return True for a product of matrices or a sum of rows that one operand alone reads."""
    at = program.makers.get(v)
    return at is not None and program.uses[v] == 1 and program.instructions[at].operation.kind in ("product", "row_sum")


def _beside_zero(instruction: Instruction, out: Variable, program: Program) -> Variable | None:
    """Return the product that a sum with zeros equals, or None.

    A product of matrices is a sum that begins with 0. The bits are the same, but for the sign of a zero.
    """
    if instruction.operation is not ADD:
        return None
    for zero, value in (instruction.operands, instruction.operands[::-1]):
        raw = program.constants.get(zero) if isinstance(zero, Variable) else None
        if isinstance(raw, np.generic) and raw == 0 and _is_product_read_once(value, program):
            return value if (value.shape, value.dtype) == (out.shape, out.dtype) else None
    return None


def _square_derivative(instruction: Instruction, out: Variable) -> list[Instruction]:
    """Return the two products of the rule of a second power, or an empty list."""
    if not is_rule(instruction, POW, "vjp:x1") or not _is_second(instruction.operands[2]):
        return []
    g, x, power = instruction.operands
    if not isinstance(x, Variable) or x.shape != out.shape or any(v.dtype != out.dtype for v in instruction.reads()):
        return []
    double = Variable(x.shape, x.dtype, x.kind)
    return [
        Instruction(MULTIPLY, (power, x), {}, (double,)),
        Instruction(MULTIPLY, (g, double), {}, instruction.outputs),
    ]


def _is_second(power: Any) -> bool:
    return type(power) in (int, float) and bool(power == 2)


def _copied(instruction: Instruction, out: Variable) -> Variable | None:
    """Return the operand of a reshape or cast that changes nothing, or None."""
    (x,) = instruction.operands
    is_like = isinstance(x, Variable) and (x.shape, x.dtype, x.kind) == (out.shape, out.dtype, out.kind)
    return x if is_like else None


def _unchanged(instruction: Instruction, out: Variable, program: Program) -> Variable | None:
    """Return the operand that a product equals, bit for bit, or None."""
    if instruction.operation is not MULTIPLY:
        return None
    a, b = instruction.operands
    for one, other in ((b, a), (a, b)):
        is_like = isinstance(other, Variable) and other.shape == out.shape and other.dtype == out.dtype
        if is_like and not other.on_host and _is_one(one, program):
            return other
    return None


def _is_one(value: Any, program: Program) -> bool:
    if isinstance(value, Variable):
        raw = program.constants.get(value)
        return isinstance(raw, np.generic) and bool(raw == 1)
    return type(value) in (int, float) and bool(value == 1)


def _as_square(instruction: Instruction, out: Variable) -> Instruction:
    if instruction.operation is POW and _is_second(instruction.operands[1]):
        x = instruction.operands[0]
        if isinstance(x, Variable) and x.dtype == out.dtype:
            return Instruction(SQUARE, (x,), {}, instruction.outputs)
    return instruction

"""Simpler operations for the same bits: what derivatives leave behind, a factor of one or a negated summand."""

from typing import Any

import numpy as np

from agrad.jit.bodies import body_of, in_place_of
from agrad.jit.ir import Instruction, Program, Variable
from agrad.registry import PRIMITIVES


def simplified(program: Program) -> Program:
    """Factors of one and powers of one gone, squares for second powers, differences for sums with a negated summand.

    Each gives the same bits, or those of the operator that an ordinary run uses. An instruction whose result leaves
    the program stays, so that no two results, and no result and input, are one array.
    """
    leaving = {v for v in program.outputs if isinstance(v, Variable)}
    negated: dict[Variable, Variable] = {}
    table: dict[Variable, Any] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        instruction = instruction.replaced(table)
        out = instruction.outputs[0]
        if out is None or out.on_host or np.dtype(out.dtype).kind not in "fc" or len(instruction.outputs) != 1:
            kept.append(instruction)
            continue
        same = _unchanged(instruction, out, program)
        if same is not None and out not in leaving:
            table[out] = same
            continue
        if instruction.name == "negative":
            (negated[out],) = instruction.operands
        kept += _square_derivative(instruction, out) or [_shorter(instruction, out, negated)]
    return program.with_instructions(kept)


def _square_derivative(instruction: Instruction, out: Variable) -> list[Instruction]:
    """The derivative of a second power as the two products that its rule is; empty for other instructions."""
    if instruction.name != "pow.vjp:x1" or not _is_second(instruction.operands[2]):
        return []
    _, x, _ = instruction.operands
    if not isinstance(x, Variable) or x.shape != out.shape or any(v.dtype != out.dtype for v in instruction.reads()):
        return []
    body = body_of(instruction)
    return [] if body is None else in_place_of(instruction, body)


def _is_second(power: Any) -> bool:
    return type(power) in (int, float) and bool(power == 2)


def _unchanged(instruction: Instruction, out: Variable, program: Program) -> Variable | None:
    """The operand that the result equals, bit for bit; None where there is none."""

    def is_one(value: Any) -> bool:
        if isinstance(value, Variable):
            raw = program.constants.get(value)
            return isinstance(raw, np.generic) and bool(raw == 1)
        return type(value) in (int, float) and value == 1

    def is_like(value: Any) -> bool:
        return (
            isinstance(value, Variable) and not value.on_host and value.shape == out.shape and value.dtype == out.dtype
        )

    name = instruction.name
    if name == "multiply":
        a, b = instruction.operands
        for one, other in ((a, b), (b, a)):
            if is_one(one) and is_like(other):
                return other
    if name in ("divide", "pow") and is_one(instruction.operands[1]) and is_like(instruction.operands[0]):
        return instruction.operands[0]
    return None


def _shorter(instruction: Instruction, out: Variable, negated: dict[Variable, Variable]) -> Instruction:
    name = instruction.name
    if name == "pow":
        x, power = instruction.operands
        if _is_second(power) and isinstance(x, Variable) and x.dtype == out.dtype:
            return Instruction(PRIMITIVES["square"], (x,), {}, instruction.outputs)
    if name == "add":
        a, b = instruction.operands
        if b in negated:
            return Instruction(PRIMITIVES["subtract"], (a, negated[b]), {}, instruction.outputs)
        if a in negated:
            return Instruction(PRIMITIVES["subtract"], (b, negated[a]), {}, instruction.outputs)
    return instruction

"""Copies of operands of products as operations, which groups compute."""

from typing import Any

from agrad.jit.lower.cuda.elements import view_in_numpy
from agrad.jit.lower.cuda.epilogues import is_any_product
from agrad.jit.passes.fusion import Contiguous
from agrad.jit.passes.inlining import ViewLayouts
from agrad.jit.program import Instruction, Program, Variable
from agrad.kernels.cupy.products import layout

_CONTIGUOUS = Contiguous()


def with_contiguous_operands(program: Program) -> Program:
    """Copy operands of products and views by operations.

    These are operands in a layout that cuBLASLt does not support, and views that would be copies.

    A copy follows the instruction that makes its operand. All later instructions read the copy.
    """
    layouts = ViewLayouts(view_in_numpy)
    copies: dict[Variable, Variable] = {}
    for at, instruction in enumerate(program.instructions):
        _add_layout(instruction, layouts, copies)
        if is_any_product(instruction):
            for v in instruction.operands[:2]:
                if v in layouts and layout(layouts[v]) is None:
                    base = _source(v, program, layouts)
                    copies[base] = base.twin()
                    for view in program.instructions[program.makers[base] : at]:
                        _add_layout(view, layouts, copies)
    if not copies:
        return program
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept.append(instruction.replaced(copies))
        for v in instruction.results:
            if v in copies:
                kept.append(Instruction(_CONTIGUOUS, (v,), {}, (copies[v],)))
    return program.with_instructions(kept)


def _add_layout(instruction: Instruction, layouts: ViewLayouts, copies: dict[Variable, Variable]) -> None:
    """Add the layout of a view, and a copy for a view that is one."""
    is_copied = layouts.add(instruction)
    for out in instruction.results if is_copied is not None else ():
        if is_copied:
            copies.setdefault(out, out.twin())
        if out in copies:
            del layouts[out]


def _source(v: Variable, program: Program, layouts: ViewLayouts) -> Variable:
    """Return the array of which ``v`` is the matrix transpose, or ``v`` itself."""
    (x,) = program.instructions[program.makers[v]].arrays
    if x not in program.makers or len(x.shape) < 2 or x not in layouts:
        return v
    below, found = layouts[x], layouts[v]
    turned = below.swapaxes(-1, -2)
    same = found.shape == turned.shape and found.strides == turned.strides and _starts(found) == _starts(turned)
    return _source(x, program, layouts) if same and program.instructions[program.makers[x]].operation.is_view else v


def _starts(x: Any) -> int:
    return int(x.__array_interface__["data"][0])

"""NumPy: straight-line Python in which operations write into what is no longer needed, and groups run in blocks."""

from typing import Any

from agrad.jit.fusion import Group
from agrad.jit.ir import Instruction, Program
from agrad.jit.lowerings import Compiled, evaluation, lowering
from agrad.jit.numpy_groups import group_function
from agrad.jit.numpy_steps import Writer


@lowering("numpy")
def lower_numpy(program: Program) -> Compiled:
    """The function of a program on NumPy's arrays.

    What the program makes for itself lies in buffers that it keeps from call to call, or is written into an operand
    that no later line reads. Results that leave the program are arrays of their own, and never written into again.
    """
    writer = Writer(program, function_of)
    for instruction in program.instructions:
        writer.write(instruction)
    return writer.finished()


def function_of(instruction: Instruction, program: Program) -> Any:
    """The function that computes an instruction on NumPy's arrays."""
    if isinstance(instruction.operation, Group):
        return group_function(instruction.operation)
    return evaluation(instruction, program)

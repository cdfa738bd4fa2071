"""Products of vectors that a program reshapes to matrices."""

from typing import Any

from agrad.jit.program import Instruction, Program, Variable


def with_vectors(program: Program) -> Program:
    """Multiply a matrix by a vector without reshaping the vector and the result.

    The backend's product must support 1-D operands. The reshaped operand may become dead code.
    """
    vectors: dict[Any, Variable] = {}
    flat: dict[Variable, int] = {}
    for at, instruction in enumerate(program.instructions):
        if instruction.operation.kind == "reshape" and len(instruction.operands) == len(instruction.results) == 1:
            (x,), (out,) = instruction.operands, instruction.results
            if isinstance(x, Variable) and x.size and len(x.shape) == 1 and len(out.shape) == 2 and 1 in out.shape:
                vectors[out] = x
            elif isinstance(x, Variable) and len(x.shape) == 2 and len(out.shape) == 1 and program.uses[x] == 1:
                flat[x] = at
    kept: list[Instruction | None] = list(program.instructions)
    for at, instruction in enumerate(program.instructions):
        if instruction.operation.kind != "product" or len(instruction.operands) != 2 or instruction.settings:
            continue
        (out,) = instruction.results
        if out not in flat:
            continue
        a, b = instruction.operands
        row, column = vectors.get(a), vectors.get(b)
        if row is not None and a.shape[0] == 1 and len(b.shape) == 2 and b.shape[1] > 1:
            a = row
        elif column is not None and b.shape[1] == 1 and len(a.shape) == 2 and a.shape[0] > 1:
            b = column
        else:
            continue
        last = flat[out]
        kept[at] = Instruction(instruction.operation, (a, b), {}, program.instructions[last].outputs)
        kept[last] = None
    return program.with_instructions([i for i in kept if i is not None])

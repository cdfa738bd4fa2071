"""Broadcasts left to the operations that read them."""

import numpy as np

from agrad.jit.program import Instruction, Program, Variable, works_by_element


def without_broadcasts(program: Program) -> Program:
    """Let elementwise operations read an array instead of its broadcast.

    Another operand must have the shape of the result. A constant that holds one value everywhere counts as the
    broadcast of that value (the seed of a cotangent, the zeros of a branch). An operation that reads
    only broadcasts is computed before them. Unused broadcasts are dead code.
    """
    narrow: dict[Variable, Variable] = {}
    constants = dict(program.constants)
    for v, raw in program.constants.items():
        if isinstance(raw, np.ndarray) and raw.ndim and raw.size > 1 and _is_filled(raw):
            value = raw.reshape(-1)[0]
            narrow[v] = held = Variable((), raw.dtype, type(value))
            constants[held] = value
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept.append(instruction)
        if instruction.operation.kind != "broadcast" and narrow.keys().isdisjoint(instruction.reads()):
            continue
        if instruction.operation.kind == "broadcast":
            (x,), (out,) = instruction.operands, instruction.outputs
            if out is not None and out.size and out.shape and isinstance(x, Variable):
                narrow[out] = narrow.get(x, x)
        elif works_by_element(instruction):
            (out,) = instruction.results
            arrays = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
            if out.shape and all(narrow.get(v, v).shape == () for v in arrays):
                # NumPy returns scalars, other libraries arrays without dimensions
                kind = np.dtype(out.dtype).type if out.kind is np.ndarray else out.kind
                narrow[out] = made = Variable((), out.dtype, kind)
                single = instruction.replaced(narrow)
                kept.append(Instruction(single.operation, single.operands, single.settings, (made,)))
            elif arrays and all(v in narrow for v in arrays):
                shape = np.broadcast_shapes(*[narrow[v].shape for v in arrays])
                narrow[out] = made = Variable(shape, out.dtype, out.kind)
                short = instruction.replaced(narrow)
                kept.append(Instruction(short.operation, short.operands, short.settings, (made,)))
            elif any(v not in narrow and v.shape == out.shape for v in arrays):
                kept[-1] = instruction.replaced(narrow)
    return program.with_instructions(kept, constants=constants) if narrow else program


def _is_filled(raw: np.ndarray) -> bool:
    """Return True for an array whose elements all have the same bits."""
    flat = np.ascontiguousarray(raw.reshape(-1))
    bits = flat.view(f"V{flat.itemsize}")
    return bool((bits == bits[0]).all())

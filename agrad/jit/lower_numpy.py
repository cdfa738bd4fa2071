"""NumPy: straight-line Python in which operations write into what is no longer needed, and groups run in blocks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agrad.jit.blocks import BLOCK_BYTES, run_blocks
from agrad.jit.fusion import Group
from agrad.jit.ir import Instruction, Program, Variable, names_of
from agrad.jit.lowerings import Compiled, Scope, call_text, compile_program, evaluation, lowering
from agrad.jit.numpy_steps import Writer, operands_of, ufunc_of

FEWEST = 1024
"""Elements of the smallest block, whatever their width."""


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


# ------------------------------------------------------------------ groups


def group_function(group: Group) -> Any:
    """The function of a group: from its operands to a tuple of its outputs, computed in blocks."""
    program = group.program
    names = names_of(program)
    scope = Scope()
    full = [v for v in program.inputs if v.shape == group.shape and not v.on_host]
    arrays = [v for v in program.outputs if v.shape == group.shape]
    totals = {v: i for i in program.instructions for v in i.results if not v.shape}
    made = [v for i in program.instructions for v in i.results]
    width = max(np.dtype(v.dtype).itemsize for v in (*full, *made) if not v.on_host)
    block = max(FEWEST, BLOCK_BYTES // width)
    size = 1
    for n in group.shape:
        size *= n
    count = -(-size // block)
    scope.names.update(np=np, run_blocks=run_blocks, flat=_flat)
    lines = [f"def group({', '.join(names[v] for v in program.inputs)}):"]
    lines += [f"    f_{names[v]} = flat({names[v]})" for v in full]
    for v in arrays:
        dtype = scope.hold(np.dtype(v.dtype), "dtype")
        lines.append(f"    o_{names[v]} = np.empty({group.shape}, {dtype})")
        lines.append(f"    f_{names[v]} = o_{names[v]}.reshape(-1)")
    for v in totals:
        lines.append(f"    p_{names[v]} = np.empty({count}, {scope.hold(np.dtype(v.dtype), 'dtype')})")
    body, slots = _body(program, group.shape, names, scope, set(arrays), totals, block)
    lines.append("    def work(take):")
    for k, kind in enumerate(slots):
        lines.append(f"        w{k} = np.empty({block}, {scope.hold(kind, 'dtype')})")
    lines += [f"        while (k := take()) < {count}:", f"            i = k * {block}", f"            j = i + {block}"]
    lines += [f"            if j > {size}:", f"                j = {size}"]
    for k in range(len(slots)):
        lines.append(f"            s{k} = w{k}[:j - i]")
    lines += [f"            {names[v]} = f_{names[v]}[i:j]" for v in full]
    lines += [f"            {line}" for line in body]
    lines.append(f"    run_blocks(work, {count})")
    for v, instruction in totals.items():
        how = {"max": "maximum", "min": "minimum"}.get(instruction.name, "add")
        lines.append(f"    p_{names[v]} = np.{how}.reduce(p_{names[v]})")
        if instruction.name == "mean":
            lines.append(f"    p_{names[v]} = p_{names[v]} / {size}")
    results = [f"o_{names[v]}" if v.shape == group.shape else f"p_{names[v]}" for v in program.outputs]
    lines.append(f"    return {', '.join(results)},")
    return compile_program("group", "\n".join(lines) + "\n", scope.names)


def _flat(x: Any) -> np.ndarray:
    """An array in one dimension, row by row."""
    return np.ascontiguousarray(x).reshape(-1)


def _block_text(value: Any, scope: Scope, names: Mapping[Variable, str]) -> str:
    """The expression of an operand for one block; an array that stands in the program is as long as a full one."""
    text = scope.write(value, names)
    return f"{text}[:j - i]" if type(value) is np.ndarray else text


_KEEPS_OPERANDS = frozenset({"astype", "cast", "real", "imag", "conj", "positive"})
"""Operations whose result may be their operand."""


def _body(
    program: Program,
    shape: tuple[int, ...],
    names: Mapping[Variable, str],
    scope: Scope,
    arrays: set[Variable],
    totals: Mapping[Variable, Instruction],
    block: int,
) -> tuple[list[str], list[np.dtype]]:
    """The lines that compute one block, and the dtypes of the blocks of scratch that they write into."""
    last = program.last_uses()
    slots: list[np.dtype] = []
    place: dict[Variable, int] = {}
    free: list[int] = []
    lines = []
    for i, instruction in enumerate(program.instructions):
        out = instruction.results[0]
        operands = ", ".join(_block_text(v, scope, names) for v in operands_of(instruction, block))
        dying = [v for v in dict.fromkeys(instruction.reads()) if last[v] == i and v in place]
        if out in totals:
            how = {"max": "maximum", "min": "minimum"}.get(instruction.name, "add")
            lines.append(f"p_{names[out]}[k] = np.{how}.reduce({operands})")
        else:
            ufunc = ufunc_of(instruction, program)
            dtype = np.dtype(out.dtype)
            if ufunc is not None:
                function = scope.hold(ufunc, instruction.name)
                if out in arrays:
                    lines.append(f"{names[out]} = f_{names[out]}[i:j]")
                    lines.append(f"{function}({operands}, out={names[out]})")
                else:
                    free += [place.pop(v) for v in dying]  # a ufunc may write into what it reads, element by element
                    dying = []
                    slot = next((s for s in reversed(free) if slots[s] == dtype), None)
                    if slot is None:
                        slot = len(slots)
                        slots.append(dtype)
                    else:
                        free.remove(slot)
                    place[out] = slot
                    lines.append(f"{names[out]} = {function}({operands}, out=s{slot})")
            else:
                call = call_text(instruction, program, scope, names)
                if out in arrays:
                    lines.append(f"{names[out]} = f_{names[out]}[i:j]")
                    lines.append(f"{names[out]}[...] = {call}")
                else:
                    lines.append(f"{names[out]} = {call}")
                if instruction.name in _KEEPS_OPERANDS:
                    dying = []
        free += [place.pop(v) for v in dying]
    return lines, slots

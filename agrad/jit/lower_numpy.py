"""NumPy: straight-line Python in which operations write into what is no longer needed, and groups run in blocks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agrad.jit.blocks import BLOCK_BYTES, run_blocks
from agrad.jit.fusion import Group
from agrad.jit.ir import Instruction, Program, Variable, names_of
from agrad.jit.lowerings import (
    Compiled,
    Scope,
    assignment,
    call_text,
    compile_program,
    evaluation,
    lowering,
)

FEWEST = 1024
"""Elements of the smallest block, whatever their width."""

_FRESH = frozenset(
    {
        "linear", "matmul", "mean", "max", "min", "sum", "relu", "sigmoid", "sgd_update", "adam_update",
        "softmax_cross_entropy", "softmax_cross_entropy.vjp:x", "linear.vjp:bias", "relu.vjp:x",
    }
)  # fmt: skip
"""Operations besides NumPy's own on elements whose results share no memory with their operands."""

_CALLS = {"relu": (np.maximum, 0)}
"""Operations that are a NumPy function with one more operand."""


def ufunc_of(instruction: Instruction, program: Program) -> np.ufunc | None:
    """The NumPy function that the instruction is, where it is just that."""
    if instruction.settings or instruction.operation.outputs is not None or isinstance(instruction.operation, Group):
        return None
    out = instruction.outputs[0]
    if out is None or out.kind is not np.ndarray:
        return None
    if instruction.name in _CALLS and np.dtype(out.dtype).kind == "f":
        return _CALLS[instruction.name][0]
    found = evaluation(instruction, program)
    return found if isinstance(found, np.ufunc) and found.nout == 1 and found.signature is None else None


def _operands(instruction: Instruction) -> tuple[Any, ...]:
    more = _CALLS.get(instruction.name)
    return instruction.operands if more is None else (*instruction.operands, more[1])


def _owned(program: Program) -> set[Variable]:
    """The arrays that the program makes itself or was given for good, and that nothing else can be looking at."""
    lent = program.notes.get("lent", ())
    fresh: set[Variable] = {v for v in program.inputs if v in lent and v.kind is np.ndarray}
    for instruction in program.instructions:
        plainly = instruction.name in _FRESH or isinstance(instruction.operation, Group)
        plainly = plainly or ufunc_of(instruction, program) is not None
        if plainly:
            fresh.update(v for v in instruction.results if v.kind is np.ndarray and v.shape)
        else:
            fresh.difference_update(instruction.reads())
    # what an update is lent may be what it gives back, so its results are the state's own arrays
    for instruction in program.instructions:
        if instruction.name.endswith("_update"):
            fresh.difference_update(instruction.results)
            fresh.difference_update(instruction.reads())
    return fresh


@lowering("numpy")
def lower_numpy(program: Program) -> Compiled:
    """The function of a program on NumPy's arrays.

    An operation on elements writes into an operand that the program made, that no later line reads and that is of the
    result's shape and dtype. Results that leave the program are never written into afterwards.
    """
    names = names_of(program)
    scope = Scope()
    scope.names.update({names[v]: raw for v, raw in program.constants.items()})
    last = program.last_uses()
    owned = _owned(program)
    lines = ["def program(inputs):"]
    if program.inputs:
        lines.append(f"    {', '.join(names[v] for v in program.inputs)}, = inputs")
    for i, instruction in enumerate(program.instructions):
        dying = {v for v in instruction.reads() if last[v] == i and v not in program.constants}
        if isinstance(instruction.operation, Group):
            function = scope.hold(group_function(instruction.operation), "group")
            arguments = ", ".join(names[v] for v in instruction.reads())
            lines.append(f"    {assignment(instruction, names)} = {function}({arguments})")
        else:
            ufunc = ufunc_of(instruction, program)
            target = _target(instruction, dying & owned) if ufunc is not None else None
            if target is not None:
                arguments = ", ".join(scope.write(v, names) for v in _operands(instruction))
                text = f"{scope.hold(ufunc, instruction.name)}({arguments}, out={names[target]})"
            else:
                text = call_text(instruction, program, scope, names)
            lines.append(f"    {assignment(instruction, names)} = {text}")
        dying |= {v for v in instruction.results if v not in last}
        if dying:
            lines.append(f"    del {', '.join(sorted(names[v] for v in dying))}")
    lines.append(f"    return [{', '.join(scope.write(v, names) for v in program.outputs)}]")
    return compile_program("program", "\n".join(lines) + "\n", scope.names)


def _target(instruction: Instruction, free: set[Variable]) -> Variable | None:
    """The operand that the result may be written into."""
    out = instruction.outputs[0]
    assert out is not None
    for v in instruction.operands:
        if v in free and v.shape == out.shape and v.dtype == out.dtype:
            return v
    return None


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
    body, slots = _body(program, group.shape, names, scope, set(arrays), totals)
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


_KEEPS_OPERANDS = frozenset({"astype", "cast", "real", "imag", "conj", "positive"})
"""Operations whose result may be their operand."""


def _body(
    program: Program,
    shape: tuple[int, ...],
    names: Mapping[Variable, str],
    scope: Scope,
    arrays: set[Variable],
    totals: Mapping[Variable, Instruction],
) -> tuple[list[str], list[np.dtype]]:
    """The lines that compute one block, and the dtypes of the blocks of scratch that they write into."""
    last = program.last_uses()
    slots: list[np.dtype] = []
    place: dict[Variable, int] = {}
    free: list[int] = []
    lines = []
    for i, instruction in enumerate(program.instructions):
        out = instruction.results[0]
        operands = ", ".join(scope.write(v, names) for v in _operands(instruction))
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

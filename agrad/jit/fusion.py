"""Fusion: chains of operations on each element as one instruction, and single values in the place of filled arrays.

A group is computed block by block, so that what lies between its operations never leaves the processor's cache. It
may end in reductions over all elements. On its own a group is a program, and can be interpreted like any other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agrad.engine.rulecalls import RuleCall
from agrad.jit.ir import Instruction, Program, Variable, interpret, show

LARGE = 1 << 15
"""Arrays of more elements than this are worth a group of their own blocks."""

Accepts = Callable[[Instruction], bool]

_ALSO = frozenset({"where", "mask_unused", "astype", "cast"})
_REDUCTIONS = frozenset({"sum", "mean", "max", "min"})


class Group:
    """Operations on each element of arrays of one shape, as the operation of one instruction."""

    elementwise = False

    def __init__(self, program: Program, shape: tuple[int, ...]) -> None:
        self.program = program
        self.shape = shape
        self.outputs = tuple(f"output_{i}" for i in range(len(program.outputs)))
        self.name = "fused[" + " ".join(i.name for i in program.instructions) + "]"

    def bind(self, *args: Any) -> tuple[Any, ...]:
        """The operations one by one, as a user calls them."""
        return tuple(interpret(self.program, args))

    def evaluate(self, args: tuple[Any, ...], settings: Mapping[str, Any]) -> tuple[Any, ...]:
        """The same on raw arrays."""
        return self.bind(*args)

    def __str__(self) -> str:
        return show(self.program)


def works_by_element(instruction: Instruction) -> bool:
    """Whether each element of the one result is made of the elements at its place, and of nothing else."""
    operation = instruction.operation
    if len(instruction.outputs) != 1 or instruction.outputs[0] is None or instruction.on_host:
        return False
    if isinstance(operation, RuleCall):
        return bool(operation.primitive.elementwise) or operation.primitive.name in _ALSO
    return bool(operation.elementwise) or instruction.name in _ALSO


def _is_single(v: Variable) -> bool:
    return v.shape == ()


# ------------------------------------------------------------------ filled arrays


def with_single_values(program: Program) -> Program:
    """Arrays that hold one value everywhere, as seeds of cotangents and zeros of branches do, give way to the value.

    Only where they meet, element by element, an array of the result's shape; what is left without a use is dead code.
    """
    singles: dict[Variable, Variable] = {}
    constants = dict(program.constants)
    for v, raw in program.constants.items():
        if isinstance(raw, np.ndarray) and raw.ndim and raw.size > 1 and _filled(raw):
            value = raw.reshape(-1)[0]
            singles[v] = single = Variable((), raw.dtype, type(value))
            constants[single] = value
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept.append(instruction)
        if instruction.name == "broadcast_to":
            (x,), (out,) = instruction.operands, instruction.outputs
            if isinstance(x, Variable) and _is_single(x) and out is not None and out.shape:
                singles[out] = x
            continue
        if not works_by_element(instruction):
            continue
        out = instruction.outputs[0]
        assert out is not None
        arrays = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
        if out.shape and all(v in singles or _is_single(v) for v in arrays):
            # NumPy gives numbers of its own where other libraries give arrays without dimensions
            made = Variable((), out.dtype, np.dtype(out.dtype).type if out.kind is np.ndarray else out.kind)
            operands = tuple([singles.get(v, v) if isinstance(v, Variable) else v for v in instruction.operands])
            kept.append(Instruction(instruction.operation, operands, instruction.settings, (made,)))
            singles[out] = made
        elif any(v not in singles and v.shape == out.shape for v in arrays):
            kept[-1] = instruction.replaced(singles)
    changed = Program(program.inputs, constants, kept, program.outputs, program.notes)
    return changed.with_instructions(kept)


def _filled(raw: np.ndarray) -> bool:
    flat = raw.reshape(-1)
    bits = (
        flat.view(f"V{flat.itemsize}")
        if flat.flags.c_contiguous
        else np.ascontiguousarray(flat).view(f"V{flat.itemsize}")
    )
    return bool((bits == bits[0]).all())


# ------------------------------------------------------------------ groups


class _Open:
    """A group while its members are gathered."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.members: list[Instruction] = []
        self.made: set[Variable] = set()
        self.reduced: set[Variable] = set()

    def add(self, instruction: Instruction, reduces: bool = False) -> None:
        self.members.append(instruction)
        (self.reduced if reduces else self.made).update(instruction.results)


def _fits(instruction: Instruction, minimum: int, accepts: Accepts | None) -> bool:
    if not works_by_element(instruction) or (accepts is not None and not accepts(instruction)):
        return False
    out = instruction.outputs[0]
    assert out is not None
    arrays = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
    return (
        out.shape != ()
        and out.size >= minimum
        and any(v.shape == out.shape for v in arrays)
        and all(v.shape == out.shape or _is_single(v) for v in arrays)
        and not any(isinstance(v, Variable) for v in instruction.settings.values())
    )


def _reduces(instruction: Instruction, group: _Open) -> bool:
    """Whether an instruction reduces all of what a group makes to one real floating number."""
    if instruction.name not in _REDUCTIONS or instruction.outputs[0] is None:
        return False
    (x,) = instruction.operands
    return (
        x in group.made
        and tuple(instruction.settings["axis"]) == tuple(range(len(group.shape)))
        and not instruction.settings["keepdims"]
        and np.dtype(x.dtype).kind == "f"
        and instruction.outputs[0].dtype == x.dtype
    )


def with_groups(minimum: int = LARGE, accepts: Accepts | None = None) -> Callable[[Program], Program]:
    """The pass that makes groups of operations on arrays of at least ``minimum`` elements.

    Where ``accepts`` is given, of those operations alone for which it is true.
    """

    def fuse(program: Program) -> Program:
        done: list[Instruction] = []
        open_: list[_Open] = []
        outside: dict[Variable, int] = {}
        for v in program.outputs:
            if isinstance(v, Variable):
                outside[v] = outside.get(v, 0) + 1
        uses: dict[Variable, list[Instruction]] = {}
        for instruction in program.instructions:
            for v in set(instruction.reads()):
                uses.setdefault(v, []).append(instruction)

        def close(group: _Open) -> None:
            open_.remove(group)
            done.extend(_closed(group, uses, outside))

        for instruction in program.instructions:
            reads = set(instruction.reads())
            home = None
            fits = _fits(instruction, minimum, accepts)
            for group in list(open_):
                touches = reads & (group.made | group.reduced)
                joins = fits and group.shape == instruction.outputs[0].shape and not reads & group.reduced  # type: ignore[union-attr]
                if joins and home is None:
                    home = group
                elif touches and _reduces(instruction, group):
                    group.add(instruction, reduces=True)
                    break
                elif touches:
                    close(group)
            else:
                if home is None and fits:
                    home = _Open(instruction.outputs[0].shape)  # type: ignore[union-attr]
                    open_.append(home)
                if home is not None:
                    home.add(instruction)
                else:
                    done.append(instruction)
        for group in list(open_):
            close(group)
        return program.with_instructions(done)

    return fuse


def _closed(
    group: _Open, uses: Mapping[Variable, list[Instruction]], outside: Mapping[Variable, int]
) -> list[Instruction]:
    """The instruction that a group becomes; a single operation stays as it is."""
    if len(group.members) == 1:
        return group.members
    members = set(map(id, group.members))
    made = [v for instruction in group.members for v in instruction.results]
    outputs = [v for v in made if v in outside or any(id(user) not in members for user in uses.get(v, ()))]
    inputs = list(dict.fromkeys(v for i in group.members for v in i.reads() if v not in set(made)))
    inner = Program(inputs, {}, list(group.members), list(outputs))
    return [Instruction(Group(inner, group.shape), tuple(inputs), {}, tuple(outputs))]

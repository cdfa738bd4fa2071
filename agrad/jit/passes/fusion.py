"""Fusion: chains of elementwise operations as one instruction.

A group is computed block by block, so that intermediate results remain in the processor's cache. It may end in
reductions over all elements. If the lowering supports groups of rows (``passes.tiling``), operands may broadcast along
the leading axes, and the group may contain reductions over other axes and end in sums of slices. A group is a program,
and can be interpreted.
"""

import math
from collections.abc import Callable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES
from agrad.engine.operation import Operation
from agrad.jit.passes.aliasing import Aliases, aliases_of, overwritten
from agrad.jit.passes.tiling import (
    best_split,
    is_of_rows,
    is_reshape,
    offsets_of,
    operand_is_of_rows,
    reduction_of,
    splits_of,
    whole_row_splits,
)
from agrad.jit.program import (
    FunctionOperation,
    Instruction,
    Program,
    Variable,
    interpret,
    is_grouped,
    show,
    works_by_element,
)

LARGE = BLOCK_BYTES + 1
"""Minimum size in bytes of arrays that are grouped. Smaller arrays remain in the cache between operations."""

_WIDEST = 32
"""The most bytes of an element."""

_INPUTS, _MEMBERS = 120, 256
"""Maximum number of inputs and instructions of a group: a CUDA kernel accepts 4,096 bytes of arguments."""

_SINGLES = 32
"""The most inputs with which a group of single elements accepts an operation on others."""

Accepts = Callable[[Instruction], bool]


class Group(Operation):
    """Elementwise operations and reductions as the operation of one instruction.

    split: the number of leading axes of ``shape`` along which blocks are cut. By default, all; a group with fewer is a
    group of rows. in_place: for each keyword argument that allows it, the indices of the outputs that overwrite inputs,
    with the indices of these inputs. ahead: results that are computed element by element where members read them, from
    inputs and from one another.
    """

    no_alias = True

    def __init__(
        self,
        program: Program,
        shape: tuple[int, ...],
        split: int | None = None,
        in_place: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
        ahead: frozenset[Variable] = frozenset(),
    ) -> None:
        self.program, self.ahead = program, ahead
        self.in_place = in_place
        self.flags: dict[str, tuple[int, ...]] = {flag: tuple(some.values()) for flag, some in in_place.items()}
        self.overwrites: tuple[int, ...] = tuple(chain.from_iterable(self.flags.values()))
        self.shape = shape
        self.split: int = len(shape) if split is None else split
        self.outputs = tuple(f"output_{i}" for i in range(len(program.outputs)))
        kind = "fused" if self.split == len(shape) else "fused rows"
        self.name: str = f"{kind}[{' '.join(i.name for i in program.instructions)}]"

    @property
    def has_totals(self) -> bool:
        """Return True if it reduces over all rows."""
        found = [reduction_of(i) for i in self.program.instructions]
        return any(r is not None and r.is_total(self.split) for r in found)

    def bind(self, *args: Any, **settings: Any) -> tuple[Any, ...]:
        """Call the operations one by one, as a user does."""
        return tuple(interpret(self.program, args))

    def __str__(self) -> str:
        return show(self.program)


class Contiguous(FunctionOperation):
    """A copy of an array whose elements are next to each other."""

    kind = "elementwise"
    no_alias = True
    grouped = True

    def __init__(self) -> None:
        super().__init__("contiguous", lambda x: x.copy(order="C"))


# ------------------------------------------------------------------ groups

Splits = frozenset[int]


class _Open:
    """A group while its instructions are collected."""

    def __init__(self, shape: tuple[int, ...], splits: Splits) -> None:
        self.shape = shape
        self.splits = splits
        """The numbers of leading axes along which all instructions can be cut."""
        self.members: list[Instruction] = []
        self.made: dict[Variable, Splits] = {}
        """Results of instructions, with the splits for which they are results of rows."""
        self.inputs: set[Variable] = set()

    def add(self, instruction: Instruction, splits: Splits, of_rows: Splits) -> None:
        self.members.append(instruction)
        self.splits = splits
        self.inputs.update(v for v in instruction.reads() if v not in self.made)
        self.made.update(dict.fromkeys(instruction.results, of_rows))

    def splits_with(self, instruction: Instruction, fitting: "_Fitting") -> tuple[Splits, Splits] | None:
        """Return the splits left with the instruction, and those with rows as result."""
        if len(self.members) == _MEMBERS or len(self.inputs) + len(instruction.operands) > _INPUTS:
            return None
        shape, touches = fitting.shape, any(v in self.made for v in instruction.reads())
        # columns, and results of columns, have another shape
        fits = touches or fitting.opens if shape == self.shape else touches and fitting.broadcasts
        if math.prod(shape) == 1 and not touches and len(self.inputs) >= _SINGLES:
            return None
        if not fits or math.prod(shape) > math.prod(self.shape):
            return None
        found = {s: fitting.of_rows(s, self.shape, self.made) for s in self.splits}
        left = frozenset(s for s, of_rows in found.items() if of_rows is not None)
        return (left, frozenset(s for s in left if found[s])) if left else None


class _Fitting:
    """An instruction that a group may contain."""

    def __init__(self, instruction: Instruction, broadcasts: bool) -> None:
        (self.out,) = instruction.results
        self.operands = instruction.arrays
        self.broadcasts = broadcasts
        self.reduction = reduction_of(instruction)
        self.is_reshape = broadcasts and is_reshape(instruction)
        self.is_sum = offsets_of(instruction) is not None
        self.shape = self.operands[0].shape if self.is_sum or self.reduction is not None else self.out.shape
        """The shape of a group that begins with it."""

    @property
    def dtype(self) -> np.dtype:
        """Return its widest dtype."""
        return max((np.dtype(v.dtype) for v in (*self.operands, self.out)), key=lambda dtype: dtype.itemsize)

    @property
    def bytes(self) -> int:
        """Return the bytes of its largest array."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def opens(self) -> bool:
        """Return True if a group may begin with it."""
        return (self.broadcasts or self.reduction is None) and not self.is_reshape and not self.is_sum

    def of_rows(self, split: int, shape: tuple[int, ...], made: Mapping[Variable, Splits]) -> bool | None:
        """Return True for a result of rows, False for a sum over rows, otherwise None.

        shape: the shape of the group.
        """
        lead = shape[:split]
        if any(v in made and split not in made[v] for v in self.operands):
            return None
        if self.reduction is not None:
            return self._reduced_of_rows(split, lead)
        if self.is_sum:
            return False if is_of_rows(self.shape, lead) else None
        if not is_of_rows(self.out.shape, lead):
            return None
        if self.is_reshape:
            return True if self.operands[0] in made and is_of_rows(self.operands[0].shape, lead) else None
        roles = [operand_is_of_rows(v.shape, self.out.shape, split) for v in self.operands]
        if any(role is None or (not role and v in made) for v, role in zip(self.operands, roles, strict=True)):
            return None
        return True if any(roles) else None

    def _reduced_of_rows(self, split: int, lead: tuple[int, ...]) -> bool | None:
        assert self.reduction is not None
        if not is_of_rows(self.operands[0].shape, lead):
            return None
        if self.reduction.is_total(split):
            return False
        return True if min(self.reduction.axis) >= split else None


class _WholeRow(_Fitting):
    """An instruction for a group whose rows are reduced as a whole.

    The result has one element for each row, or all elements of the row. Inputs broadcast in any way.
    """

    def of_rows(self, split: int, shape: tuple[int, ...], made: Mapping[Variable, Splits]) -> bool | None:
        """See ``_Fitting.of_rows``."""
        lead, length, flat = shape[:split], math.prod(shape[split:]), split == len(shape)
        mine = [v for v in self.operands if v in made]
        if any(split not in made[v] for v in mine) or (self.is_reshape and (flat or not mine)):
            return None
        x = self.out if self.reduction is None else self.operands[0]
        if not is_of_rows(x.shape, lead) or math.prod(x.shape[split:]) not in (1, length):
            return None
        if flat and (x.shape != shape or any(v.shape != shape and v.size > 1 for v in self.operands)):
            return None
        if self.reduction is None:
            same = self.is_reshape or all(operand_is_of_rows(v.shape, x.shape, split) for v in mine)
            return True if same else None
        if self.reduction.is_total(split):
            return False if self.out.size in (1, length) else None
        reduced = is_of_rows(self.out.shape, lead) and math.prod(self.out.shape[split:]) == 1
        return True if reduced and min(self.reduction.axis) >= split else None


def _fitting(instruction: Instruction, accepts: Accepts | None, broadcasts: bool, whole: bool) -> _Fitting | None:
    """Return the instruction as a candidate for a group, or None."""
    if any(isinstance(v, Variable) for name, v in instruction.settings.items() if name != "donate"):
        return None
    reduction = reduction_of(instruction)
    if reduction is not None:
        axes = tuple(range(len(instruction.operands[0].shape)))
        fits = broadcasts or (reduction.axis == axes and not reduction.keepdims)
    elif broadcasts and (is_reshape(instruction) or (not whole and offsets_of(instruction) is not None)):
        fits = True
    elif not works_by_element(instruction) or (accepts is not None and not accepts(instruction)):
        fits = False
    else:
        out = instruction.results[0].shape
        shapes = [v.shape for v in instruction.arrays]
        known = broadcasts or all(shape in ((), out) for shape in shapes)
        fits = bool((out or whole) and shapes and known and np.broadcast_shapes(*shapes) == out)
    return (_WholeRow if whole else _Fitting)(instruction, broadcasts) if fits else None


def with_groups(
    minimum: int = LARGE, accepts: Accepts | None = None, broadcasts: bool = False, whole_rows: bool = False
) -> Callable[[Program], Program]:
    """Return the pass that groups operations on arrays of at least ``minimum`` bytes.

    accepts: a test for elementwise operations, by default true. broadcasts: make groups of rows too. whole_rows: make
    groups of rows that are reduced as a whole, and whose inputs broadcast along any axis.
    """
    return lambda program: _Grouping(program, minimum, accepts, broadcasts or whole_rows, whole_rows).run()


class _Grouping:
    """One run of the pass: instructions that are done, and the groups that are open."""

    def __init__(
        self, program: Program, minimum: int, accepts: Accepts | None, broadcasts: bool, whole_rows: bool
    ) -> None:
        self.program, self.minimum, self.accepts, self.broadcasts = program, minimum, accepts, broadcasts
        self.whole_rows = whole_rows
        self.done: list[Instruction] = []
        self.open: list[_Open] = []
        self.leaving = {v for v in program.outputs if isinstance(v, Variable)}

    def _is_large(self, instruction: Instruction) -> bool:
        """Return False if a group cannot begin with an instruction: its arrays are small."""
        if not works_by_element(instruction) and reduction_of(instruction) is None:
            return False
        return max([v.size for v in (*instruction.reads(), *instruction.results)]) * _WIDEST >= self.minimum

    def run(self) -> Program:
        program = self.program
        known = (program.inputs, program.constants, *[instruction.results for instruction in program.instructions])
        if max([v.size for v in chain.from_iterable(known)], default=0) * _WIDEST < self.minimum:
            return program
        aliases: Aliases | None = None
        for instruction in self.program.instructions:
            if not self.open and not self._is_large(instruction):
                self.done.append(instruction)
                continue
            fitting = _fitting(instruction, self.accepts, self.broadcasts, self.whole_rows)
            if fitting is not None and self.join(instruction, fitting):
                continue
            reads, over = set(instruction.reads()), overwritten(instruction)
            if over and aliases is None:
                aliases = aliases_of(self.program)
            for group in list(self.open):
                # a group must precede an instruction that overwrites its operands
                written = aliases is not None and not aliases.of(*over).isdisjoint(aliases.of(*group.inputs))
                if written or not reads.isdisjoint(group.made):
                    self.close(group)
            self.done.append(instruction)
        for group in list(self.open):
            self.close(group)
        return self.program.with_instructions(self.done)

    def join(self, instruction: Instruction, fitting: _Fitting) -> bool:
        """Add the instruction to a group, if one accepts it."""
        reads = set(instruction.reads())
        # first the groups that it reads from
        tried = sorted(self.open, key=lambda group: reads.isdisjoint(group.made))
        over = overwritten(instruction)
        if fitting.opens and fitting.bytes >= self.minimum:
            shape, splits = fitting.shape, whole_row_splits if self.whole_rows else splits_of
            tried.append(_Open(shape, splits(shape, fitting.dtype) if self.broadcasts else frozenset({len(shape)})))
        for group in tried:
            found = group.splits_with(instruction, fitting)
            if found is not None:
                for other in [other for other in self.open if other is not group]:
                    if not reads.isdisjoint(other.made) or (over and not self._apart(over, other)):
                        self.close(other)
                group.add(instruction, *found)
                if group not in self.open:
                    self.open.append(group)
                return True
        return False

    def _apart(self, over: list[Variable], group: _Open) -> bool:
        """Return True if a group reads no memory of variables."""
        aliases = aliases_of(self.program)
        return aliases.of(*over).isdisjoint(aliases.of(*group.inputs))

    def close(self, group: _Open) -> None:
        """Write the instruction of a group.

        A single operation is unchanged, unless it may be in place, rounds or copies.
        """
        self.open.remove(group)
        first = group.members[0]
        stays = not (self.whole_rows and (overwritten(first) or is_grouped(first)))
        if len(group.members) == 1 and stays:
            self.done += group.members
            return
        members, program = set(map(id, group.members)), self.program
        outputs = [
            v
            for v in group.made
            if v in self.leaving or any(id(program.instructions[k]) not in members for k in program.readers.get(v, ()))
        ]
        flags = {v: False for i in group.members for v in i.settings.values() if isinstance(v, Variable)}
        kept = [i.replaced(flags) for i in group.members]
        inputs = list(dict.fromkeys(v for i in kept for v in i.reads() if v not in group.made))
        split = best_split(group.shape, group.splits) if self.whole_rows else max(group.splits)
        # groups of rows overwrite nothing
        whole = self.whole_rows and split == len(group.shape)
        found = {flag: self._in_place(flag, group.members, inputs, outputs) for flag in flags if whole}
        settings = {f"donate{k}": flag for k, flag in enumerate(found) if found[flag]}
        in_place = {name: found[flag] for name, flag in settings.items()}
        operation = Group(Program(inputs, {}, kept, list(outputs)), group.shape, split, in_place)
        self.done.append(Instruction(operation, tuple(inputs), dict(settings), tuple(outputs)))

    def _in_place(
        self, flag: Variable, members: list[Instruction], inputs: list[Variable], outputs: list[Variable]
    ) -> dict[int, int]:
        """Return the outputs that overwrite inputs if a flag is true, by their numbers.

        An element is read before it is written: the input must share memory with no other one.
        """
        aliases = aliases_of(self.program)
        found = {}
        for instruction in [i for i in members if i.settings.get("donate") is flag]:
            (x,), (out,) = overwritten(instruction), instruction.results
            fits = x in inputs and out in outputs and (x.shape, x.dtype) == (out.shape, out.dtype)
            if fits and aliases[x].isdisjoint(aliases.of(*[v for v in inputs if v is not x])):
                found[outputs.index(out)] = inputs.index(x)
        return found

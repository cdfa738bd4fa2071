"""Inlining: a group computes the elements of its operands where it reads them.

The operands are results of elementwise operations, views that would be copied, and sums of parts at their positions.
An operand needs no kernel and no memory if a group is its only reader.
"""

import re
from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

import numpy as np

from agrad.jit.passes.aliasing import aliases_of, overwritten
from agrad.jit.passes.fusion import Accepts, Group
from agrad.jit.passes.tiling import reduction_of
from agrad.jit.program import Instruction, Program, Variable, instruction_text, is_grouped, names_of, works_by_element

MOST_EVALUATIONS = 64
"""The largest number of times that an element may be computed for each element of the group, by estimate."""

MOST_INPUTS = 120
"""The most inputs of a group."""


def with_operands_inlined(accepts: Accepts, view_of: Callable[[Instruction, Any], Any]) -> Callable[[Program], Program]:
    """Return the pass that inlines operands of groups.

    accepts: a test for instructions with one result whose elements a group can compute. view_of: from a view and a
    NumPy array in the memory layout of its operand to the array in the layout of its result, or None for other
    instructions.
    """
    return lambda program: _Inlining(program, accepts, view_of).run()


class ViewLayouts(dict[Variable, Any]):
    """The memory layouts of views, as NumPy arrays of bytes.

    view_of: see ``with_operands_inlined``. Other variables are contiguous.
    """

    def __init__(self, view_of: Callable[[Instruction, Any], Any]) -> None:
        super().__init__()
        self.view_of = view_of

    def __missing__(self, v: Variable) -> Any:
        return np.empty(v.shape, np.uint8)

    def add(self, instruction: Instruction) -> bool | None:
        """Add the result of a view, and return True if it is a copy, None for no view."""
        if len(instruction.results) != 1 or not instruction.operation.is_view or not instruction.arrays:
            return None
        below = self[instruction.arrays[0]]
        found = self.view_of(instruction, below)
        if found is None:
            return None
        self[instruction.results[0]] = found
        return not np.may_share_memory(found, below)


class _Inlining:
    """One run of the pass, from the last instruction to the first."""

    def __init__(self, program: Program, accepts: Accepts, view_of: Callable[[Instruction, Any], Any]) -> None:
        self.program, self.instructions, self.aliases = program, list(program.instructions), aliases_of(program)
        self.readers: dict[Any, list[int]] = {v: list(found) for v, found in program.readers.items()}
        for v in program.outputs:
            self.readers.setdefault(v if isinstance(v, Variable) else None, []).append(len(self.instructions))
        self.writes = [at for at, i in enumerate(self.instructions) if overwritten(i)]
        layouts = ViewLayouts(view_of)
        found = [(at, layouts.add(instruction)) for at, instruction in enumerate(self.instructions)]
        self.views: dict[int, bool] = {at: copied for at, copied in found if copied is not None}
        """For each view, whether it would be a copy."""
        self.can = [at in self.views or self._is_computed(i, accepts) for at, i in enumerate(self.instructions)]
        self.gone: set[int] = set()
        self.texts = Counter(map(_text, self.instructions))

    def _is_computed(self, instruction: Instruction, accepts: Accepts) -> bool:
        group = instruction.operation
        if isinstance(group, Group):
            by_element = not group.overwrites and not any(map(reduction_of, group.program.instructions))
            return by_element and all(v.size and not v.on_host for v in instruction.reads())
        return accepts(instruction)

    def run(self) -> Program:
        """Return the program with larger groups, or the program itself."""
        for at in range(len(self.instructions) - 1, -1, -1):
            root = self.instructions[at]
            known = at in self.gone or at in self.views or not root.results or self._is_one_of_several(root)
            if not known and (self.can[at] or self._is_rows(root)):
                self._inline(at, root)
        self._group_like_operations()
        return self.program.with_instructions([None if k in self.gone else i for k, i in enumerate(self.instructions)])

    def _group_like_operations(self) -> None:
        """Make groups of single operations that occur several times, which one kernel may compute."""
        found: dict[Any, list[int]] = {}
        for at, instruction in enumerate(self.instructions):
            if not self.can[at] or at in self.gone or not works_by_element(instruction):
                continue
            if all(v.size == 1 or v.shape == instruction.results[0].shape for v in instruction.arrays):
                key = instruction.name, *[str(getattr(v, "dtype", v)) for v in instruction.operands]
                found.setdefault(key, []).append(at)
        for some in found.values():
            for at in some if len(some) > 1 else ():
                instruction = self.instructions[at]
                (out,), inputs = instruction.results, list(dict.fromkeys(instruction.reads()))
                group = Group(Program(inputs, {}, [instruction], [out]), out.shape)
                self.instructions[at] = Instruction(group, tuple(inputs), {}, (out,))

    def _is_rows(self, root: Instruction) -> bool:
        group = root.operation
        return isinstance(group, Group) and not group.overwrites and all(v.size for v in root.reads())

    def _is_one_of_several(self, root: Instruction) -> bool:
        """Return True for a group that one kernel may compute together with others.

        A single rounding or copy is none: it is better computed with its operand.
        """
        group = root.operation
        if not isinstance(group, Group) or group.split < len(group.shape) or self.texts[_text(root)] == 1:
            return False
        return not is_grouped(group.program.instructions[0]) or len(group.program.instructions) > 1

    def _inline(self, at: int, root: Instruction) -> None:
        """Replace an instruction by the group that computes its operands, too."""
        taken, alone = self._taken(at, root)
        is_group = isinstance(root.operation, Group)
        if not taken and (is_group or (root.operation.kind == "elementwise" and not is_grouped(root))):
            return
        members = list(chain.from_iterable(_members(self.instructions[k]) for k in taken))
        own = _members(root)
        made = {v for i in (*members, *own) for v in i.results}
        inputs = list(dict.fromkeys(v for i in (*members, *own) for v in i.reads() if v not in made))
        if len(inputs) > MOST_INPUTS:
            return
        (first, *_), ahead = root.results, {v for i in members for v in i.results}
        shape, split = (root.operation.shape, root.operation.split) if is_group else (first.shape, len(first.shape))
        if is_group:
            parts = zip(root.operation.program.instructions, own, strict=True)
            ahead.update(new.results[0] for old, new in parts if old.results[0] in root.operation.ahead)
        elif root.operation.kind != "elementwise":
            ahead.update(root.results)
        program = Program(inputs, {}, [*members, *own], list(root.results))
        group = Group(program, shape, split, ahead=frozenset(ahead))
        self.instructions[at] = Instruction(group, tuple(inputs), {}, root.results)
        self.gone |= alone & set(taken)
        for v in inputs:
            self.readers.setdefault(v, []).append(at)

    def _taken(self, at: int, root: Instruction) -> tuple[list[int], set[int]]:
        """Return the numbers of the instructions that the group of an instruction computes, in order.

        The second result has the numbers of those that nothing else reads. Single values, and elements that are
        cheap, are computed again for each reader.
        """
        counts: dict[Variable, float] = {}
        _count(root, 1.0, counts)
        found: list[int] = []
        alone, makers = {at}, self.program.makers
        # the last first: then all readers of a result are known
        waiting = [-makers[v] for v in counts if v in makers]
        heapify(waiting)
        seen: set[int] = set()
        while waiting:
            k = -heappop(waiting)
            instruction = self.instructions[k]
            if k in seen or not self.can[k] or self._is_overwritten(instruction, k, at):
                continue
            seen.add(k)
            times = sum(counts.get(v, 0.0) for v in instruction.results)
            exclusive = alone.issuperset(chain.from_iterable(self.readers.get(v, ()) for v in instruction.results))
            again = k in self.views or max(v.size for v in instruction.results) == 1 or self._is_cheap(k)
            if (exclusive or again) and times <= MOST_EVALUATIONS:
                found.append(k)
                _count(instruction, times, counts)
                for v in instruction.reads():
                    if v in makers:
                        heappush(waiting, -makers[v])
                if exclusive:
                    alone.add(k)
        return self._needed(sorted(found)), alone

    def _is_cheap(self, at: int) -> bool:
        """Return True for an operation of some arrays that moves less memory if its few readers compute it."""
        instruction = self.instructions[at]
        operands = len(set(instruction.arrays))
        if instruction.operation.kind != "elementwise" or operands < 2:
            return False
        roots: set[int] = set()
        waiting = list(instruction.results)
        while waiting:
            for k in self.readers.get(waiting.pop(), ()):
                if k == len(self.instructions):
                    return False
                if k in self.views:
                    waiting += self.instructions[k].results
                elif self.can[k] or self._is_rows(self.instructions[k]):
                    roots.add(k)
                else:
                    return False
        return operands * len(roots) <= operands + 1 + len(roots)

    def _is_overwritten(self, instruction: Instruction, first: int, last: int) -> bool:
        """Return True if an instruction between two others overwrites what ``instruction`` reads."""
        between = [k for k in self.writes if first < k < last]
        over = self.aliases.of(*[v for k in between for v in overwritten(self.instructions[k])])
        return not over.isdisjoint(self.aliases.of(*instruction.reads()))

    def _needed(self, found: list[int]) -> list[int]:
        """Return the numbers without those of views that cost nothing."""
        made: set[Variable] = set()
        kept = []
        for k in found:
            instruction = self.instructions[k]
            if self.views.get(k, True) or not made.isdisjoint(instruction.reads()):
                kept.append(k)
                made.update(instruction.results)
        return kept


def _text(instruction: Instruction) -> str:
    """Return a text that is the same for groups of the same operations."""
    group = instruction.operation
    if not isinstance(group, Group):
        return ""
    names = names_of(group.program)
    members = [re.sub(r"\[[^\]]*\]", "", instruction_text(i, names)) for i in group.program.instructions]
    return "\n".join([*members, *[str(v.dtype) for v in group.program.inputs]])


def _members(instruction: Instruction) -> list[Instruction]:
    """Return the instruction, or the members of its group, with the variables outside."""
    group = instruction.operation
    if not isinstance(group, Group):
        return [instruction]
    table: dict[Any, Any] = dict(zip(group.program.inputs, instruction.operands, strict=True))
    table |= {v: out for v, out in zip(group.program.outputs, instruction.outputs, strict=True) if out is not None}
    return [i.replaced(table).giving(*[table.get(v, v) for v in i.outputs]) for i in group.program.instructions]


def _count(instruction: Instruction, times: float, counts: dict[Variable, float]) -> None:
    """Add how many times the elements of the operands are read for each element of the group."""
    once: dict[Variable, float] = {}
    outside = set(instruction.reads())
    for member in _members(instruction):
        # of a sum of parts an element reads those that cover it; a single value is the same for all elements
        size = max([out.size for out in member.results]) if member.operation.sparsity != "adds" else 1
        for v in outside.intersection(member.arrays):
            once[v] = max(once.get(v, 0.0), size / v.size if v.size > 1 else 1.0, 1.0)
    for v, repeats in once.items():
        counts[v] = counts.get(v, 0.0) + times * repeats

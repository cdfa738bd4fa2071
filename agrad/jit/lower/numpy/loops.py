"""Loops on NumPy: all steps in one Python function.

A step's program becomes the body of a ``for`` or ``while`` statement. Stacked results are written directly into their
final arrays. Carried arrays alternate between two buffers.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from agrad.jit.lower.numpy.hoisting import Hoisted, Stack, batched, hoisted, total_of
from agrad.jit.lower.numpy.program import Writer
from agrad.jit.lower.plain import Compiled, define, stem_of
from agrad.jit.passes.aliasing import Ownership
from agrad.jit.program import Instruction, Program, Variable


class Loop(NamedTuple):
    """The loop around a program, whose inputs are fixed, carried, and slices.

    Its outputs are the next carried values and rows. If there is no length, they are the next carried values and the
    condition for another step.
    """

    fixed: int
    carried: int
    length: int | None
    reverse: bool


def lower_loop(program: Program, loop: Loop) -> Compiled:
    """Return the function of a loop from its inputs to its results.

    These are the last carried values and the stacked rows. The function has the attribute ``fresh``: the indices of the
    carried results that share no memory with anything.
    """
    writer = LoopWriter(program, loop)
    for instruction in writer.program.instructions:
        writer.write(instruction)
    return writer.finished()


class LoopWriter(Writer):
    """The lines of a step, and the memory of rows and carried arrays."""

    def __init__(self, whole: Program, loop: Loop) -> None:
        self.hoisted: Hoisted = hoisted(whole, loop.fixed, loop.carried, loop.length)
        program = self.hoisted.program
        super().__init__(program)
        self.loop, self.whole = loop, whole
        carried = loop.carried - len(self.hoisted.totals)
        edge = loop.fixed + carried
        self.carry, self.slices = program.inputs[loop.fixed : edge], program.inputs[edge:]
        self.after, self.rows = program.outputs[:carried], program.outputs[carried:]
        self.results = len(whole.outputs) - loop.carried
        """The number of stacked results; further rows are parts of sums."""
        self.stacks: dict[Any, str] = {v: f"x{k}" for k, v in enumerate(self.slices)}
        """The expressions of all steps' values of slices and rows."""
        self.after_loop: list[str] = []
        self.lasting.update([self.names[v] for v in self.carry])
        self.returned = set()
        made = {v for v in self.ownership.owned if v.size and self.aliases[v] == {v}}
        self.placed: dict[Variable, str] = {}
        """The names of the memory that outputs are written into, unless they overwrite an operand."""
        if loop.length is not None:
            for k, v in enumerate(self.rows):
                if v in made and v not in self.placed:
                    self.placed[v] = f"o{k}"
        # a step may overwrite carried arrays that each step creates, as nothing else holds them
        self.anew = [
            k
            for k, v in enumerate(self.after)
            if v in made and v not in self.placed and not self._is_carried(v, besides=k)
        ]
        self.placed.update({self.after[k]: f"w{k}" for k in self.anew})
        program.notes["donated"] = {self.carry[k] for k in self.anew}
        self.ownership = Ownership(program, self._is_new)

    def _is_carried(self, v: Variable, besides: int = -1) -> bool:
        """Return True if the next step has another carried value with a variable's memory, besides a given index."""
        others = [u for k, u in enumerate(self.after) if k != besides and isinstance(u, Variable)]
        return not self.aliases[v].isdisjoint(self.aliases.of(*others))

    def target(self, out: Variable, over: Iterable[Any] = ()) -> str | None:
        """See ``Writer.target``."""
        place = self.placed.get(out)
        if place is None or place[0] == "w":
            found = super().target(out, over)
            if found is not None or place is None:
                return found
        self.names[out] = place
        return place

    def finished(self) -> Compiled:
        """See ``Writer.finished``."""
        names, loop, steps = self.names, self.loop, self.lines
        totals = {total.carried: f"t{k}" for k, total in self.hoisted.totals.items()}
        inputs = ", ".join(self.stacks.get(v) or totals.get(v) or names[v] for v in self.whole.inputs)
        before = [f"    {names[v]} = {names[v]}.copy()" for v in map(self.carry.__getitem__, self.anew)]
        before += [f"    w{k} = {self._empty(v)}" for k in self.anew if names[v := self.after[k]] == f"w{k}"]
        self.lines = []
        results: list[str] = []
        if loop.length is None:
            head = "while True:"
            self.line(f"go = {self.text(self.rows[0])}")
            self._carry_on()
            self.line("if not go: break")
        else:
            head, results = self._stack(before)
            self._carry_on()
        body = [f"    {line}" for line in (*steps, *self.lines)] or ["        pass"]
        start = [f"    {inputs}, = inputs"] if inputs else []
        start += [f"    {self.stacks[i.results[0]]} = {self._batched(i)}" for i in self.hoisted.before]
        for total in self.hoisted.totals.values():
            parts = ", ".join(map(self._stacked, total.parts))
            start_of = totals[total.carried]
            self.after_loop.append(f"    {start_of} = {self.scope.hold(total_of, 'total')}({start_of}, {parts})")
        kept, put_back = self._borrowed()
        carry = self.whole.inputs[loop.fixed : loop.fixed + loop.carried]
        after = [totals.get(v) or names[v] for v in carry]
        for k, out in enumerate(self.whole.outputs[: loop.carried]):
            # a carried array of shape () may be a NumPy scalar inside the loop
            if isinstance(out, Variable) and out.kind is np.ndarray and not out.shape:
                after[k] = f"{self.scope.hold(np.array, 'array')}({after[k]})"
        outputs = ", ".join([*after, *results[: self.results]])
        lines = ["def program(inputs):", *kept, *start, *before, f"    {head}", *body, *self.after_loop, *put_back]
        made = define("program", "\n".join([*lines, f"    return [{outputs}]"]) + "\n", self.scope.names)
        new = {*totals, *[self.carry[k] for k in self.anew]}
        made.fresh = [k for k, v in enumerate(carry) if v in new]
        return made

    def _batched(self, instruction: Instruction) -> str:
        """Return the expression that computes an instruction for all steps."""
        operands = [self.stacks.get(v) if isinstance(v, Variable) else None for v in instruction.operands]
        function = batched(instruction, [text is not None for text in operands])
        texts = [text or self.text(v) for text, v in zip(operands, instruction.operands, strict=True)]
        return f"{self.scope.hold(function, stem_of(instruction.name))}({', '.join(texts)})"

    def _stacked(self, stack: Stack) -> str:
        """Return the expression of a variable's values in all steps."""
        text = self.stacks[stack.base]
        for view in stack.views:
            text = f"{self.scope.hold(batched(view, [True]), 'view')}({text})"
        return text

    def _stack(self, before: list[str]) -> tuple[str, list[str]]:
        """Write the lines for rows; return the statement of the loop and the expressions of stacked results."""
        length, turned = self.loop.length, "[::-1]" if self.loop.reverse else ""
        used, varying = self.program.uses, {*self.carry, *self.program.makers}
        taken = {self.names[v]: f"x{k}{turned}" for k, v in enumerate(self.slices) if used[v]}
        results: list[str] = []
        for k, v in enumerate(self.rows):
            known = self.rows.index(v) if isinstance(v, Variable) else k
            if known < k and results[known] == f"y{known}":
                results.append(f"y{known}.copy()")
                continue
            results.append(f"y{k}")
            if v in varying:
                self.stacks.setdefault(v, f"y{k}")
            before.append(f"    y{k} = {self._empty(v, length)}")
            if not getattr(v, "shape", ()):
                taken["i"] = f"range({length}){turned}"
                self.line(f"y{k}[i] = {self.text(v)}")
                continue
            later = self._row_of_carried(v)
            if later is not None:  # each row belongs to another result one step earlier
                here, there = ("[:-1]", "[1:]") if self.loop.reverse else ("[1:]", "[:-1]")
                before.append(f"    y{k}[{-1 if self.loop.reverse else 0}] = {self.names[v]}")
                self.after_loop.append(f"    y{k}{here} = y{later}{there}")
                continue
            taken[f"o{k}"] = f"y{k}{turned}"
            if self.names[v] != f"o{k}":
                self.line(f"o{k}[...] = {self.text(v)}")
        parts = ", ".join(taken.values())
        if not taken:
            return f"for _ in range({length}):", results
        return f"for {', '.join(taken)} in {f'zip({parts})' if len(taken) > 1 else parts}:", results

    def _row_of_carried(self, v: Any) -> int | None:
        """Return the number of the result whose rows are the next values of a carried one, or None."""
        if v not in self.carry:
            return None
        after = self.after[self.carry.index(v)]
        name = self.names[after] if isinstance(after, Variable) else ""
        return int(name[1:]) if name[:1] == "o" else None

    def _carry_on(self) -> None:
        """Write the lines that replace the carried values with the next ones, and free memory for the step after."""
        names = self.names
        new = {names[v]: self.text(out) for v, out in zip(self.carry, self.after, strict=True)}
        pool = [(names[self.carry[k]], self.after[k]) for k in self.anew if not self._is_carried(self.carry[k])]
        turning = [(f"w{k}", self.after[k]) for k in self.anew if names[self.after[k]] == f"w{k}"]
        free = [(name, v) for name, v in (*pool, *turning) if name not in new.values()]
        for name, v in turning:
            known = next((pair for pair in free if (pair[1].shape, pair[1].dtype) == (v.shape, v.dtype)), None)
            new[name] = self._empty(v) if known is None else known[0]
            free = [pair for pair in free if pair is not known]
        new = {name: text for name, text in new.items() if name != text}
        if new:
            self.line(f"{', '.join(new)} = {', '.join(new.values())}")

    def _empty(self, v: Any, length: int | None = None) -> str:
        """Return the expression of an empty array like a variable or a value, or with a row for each step."""
        like = v if isinstance(v, Variable) and not v.on_host else np.asarray(v)
        shape = like.shape if length is None else (length, *like.shape)
        return self.call(np.empty, tuple(shape), np.dtype(like.dtype), stem="empty")

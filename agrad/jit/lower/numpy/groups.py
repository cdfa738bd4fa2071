"""Groups on NumPy: generated functions that work block by block, on threads."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from agrad.backends.numpy.fused import zeros_beside
from agrad.backends.threads import BLOCK_BYTES, run_blocks
from agrad.jit.lower.plain import Scope, define, evaluation
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.tiling import Reduction, is_reshape, operand_is_of_rows, reduction_of, whole_shape
from agrad.jit.program import Instruction, Variable, names_of

FEWEST = 1024
"""Elements of the smallest block, whatever their width."""

SHORT = 128
"""Beside rows of fewer elements a whole operand is laid out as often as a block has rows, so that no inner loop begins
anew at each: rows of ten take six times as long otherwise, those of 512 as long."""

_HOW = {"max": "maximum", "min": "minimum"}


def ufunc_of(instruction: Instruction, program: Any) -> np.ufunc | None:
    """Return the ufunc that computes an instruction, or None."""
    if instruction.settings or instruction.operation.outputs is not None or isinstance(instruction.operation, Group):
        return None
    out = instruction.outputs[0]
    if out is None or out.kind is not np.ndarray:
        return None
    if instruction.name == "relu" and np.dtype(out.dtype).kind == "f":
        return np.maximum
    found = evaluation(instruction, program)
    return found if isinstance(found, np.ufunc) and found.nout == 1 and found.signature is None else None


def group_function(group: Group) -> Any:
    """Return the function of a group, from its operands to a tuple of its outputs.

    After the operands it takes, for each of ``outputs_of_rows``, the array to write into or None; its attribute
    ``overwrites`` says for each which of the operands that may be. Totals are added up block by block, always in the
    same order.
    """
    return _Text(group).function()


def outputs_of_rows(group: Group) -> list[Variable]:
    """Return the outputs of a group that are written block by block."""
    totals = _totals(group)
    return [v for v in group.program.outputs if v not in totals]


def _operands(instruction: Instruction) -> Iterator[Variable]:
    return (v for v in instruction.operands if isinstance(v, Variable) and not v.on_host)


def _reads_rows(instruction: Instruction, v: Variable, split: int) -> bool:
    """Return True where an operand of a member has a part for each row."""
    if reduction_of(instruction) is not None or is_reshape(instruction):
        return True
    return bool(operand_is_of_rows(v.shape, instruction.results[0].shape, split))


def _totals(group: Group) -> dict[Variable, Reduction]:
    found = {i.results[0]: reduction_of(i) for i in group.program.instructions}
    return {v: reduction for v, reduction in found.items() if reduction is not None and reduction.is_total(group.split)}


_MASKS = {
    "relu.vjp:x": "np.greater({}, 0, out={})",
    "where.vjp:x1": "np.copyto({1}, {0})",
    "where.vjp:x2": "np.logical_not({}, out={})",
}
"""Derivatives that are 0 where a mask of their second operand is, and the cotangent elsewhere."""


def _masked(instruction: Instruction) -> np.dtype | None:
    """Return the integer dtype in which a cotangent is multiplied by a mask, or None."""
    out = instruction.results[0]
    if instruction.name not in _MASKS or np.dtype(out.dtype).kind != "f" or np.dtype(out.dtype).itemsize > 8:
        return None
    g, y = instruction.operands
    if not isinstance(g, Variable) or not isinstance(y, Variable) or g.dtype != out.dtype or y.shape != out.shape:
        return None
    known = out.dtype if instruction.name == "relu.vjp:x" else np.dtype(bool)
    return np.dtype(f"i{np.dtype(out.dtype).itemsize}") if y.dtype == known else None


def _rows(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array with its leading axes joined."""
    return np.ascontiguousarray(x).reshape(shape)


def _tile(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


class _Memory:
    """Memory of a block: scratch, or an output's before the member ``until``."""

    def __init__(self, name: str, dtype: np.dtype, inner: tuple[int, ...], until: float = math.inf) -> None:
        self.name, self.dtype, self.inner, self.until = name, dtype, inner, until


class _Text:
    """The text of a group's function while it is written."""

    def __init__(self, group: Group) -> None:
        self.group, self.program, self.split = group, group.program, group.split
        self.scope = Scope()
        self.scope.names.update(np=np, run_blocks=run_blocks, rows=_rows, tile=_tile)
        self.names = names_of(self.program)
        self.totals = _totals(group)
        self.outputs = outputs_of_rows(group)
        self.count = math.prod(group.shape[: self.split])
        inner = math.prod(group.shape[self.split :])
        made = [v for i in self.program.instructions for v in i.results]
        width = max(np.dtype(v.dtype).itemsize for v in (*self.program.inputs, *made) if not v.on_host)
        self.block = min(self.count, max(1, max(FEWEST, BLOCK_BYTES // width) // inner))
        self.blocks = -(-self.count // self.block)
        self.scratch: list[_Memory] = []
        self.whole: dict[tuple[Variable, tuple[int, ...], tuple[int, ...] | None], str] = {}
        """The names of whole operands by their shapes without leading axes, and as a block where they are laid out."""
        self.read: dict[Variable, None] = {}
        """The inputs that are cut into blocks."""
        makers = {i.results[0]: at for at, i in enumerate(self.program.instructions)}
        self._own = {v: _Memory(self.names[v], *self._kind(v), until=makers[v]) for v in self.outputs}
        self._first = {slot: makers[v] for v, slot in self._own.items()}
        """For each output's memory the first member that writes into it."""
        self._free = list(self._own.values())
        self._place: dict[Variable, _Memory] = {}
        self._base: dict[Variable, Variable] = {}
        """For views of other variables the variable whose memory they may lie in."""
        self._last = self.program.last_uses()
        for instruction in self.program.instructions:
            keeps = instruction.operation.is_view and ufunc_of(instruction, self.program) is None
            if keeps or is_reshape(instruction):
                x, out = next(_operands(instruction)), instruction.results[0]
                base = self._base[out] = self._base.get(x, x)
                self._last[base] = max(self._last[base], self._last.get(out, -1))

    def function(self) -> Any:
        """Return the function of the group."""
        body = [line for at, i in enumerate(self.program.instructions) for line in self._member(at, i)]
        names, totals = self.names, self.totals
        parameters = [names[v] for v in self.program.inputs] + [f"o_{names[v]}=None" for v in self.outputs]
        lines = [f"def group({', '.join(parameters)}):"]
        lines += [f"    f_{names[v]} = rows({names[v]}, {self._inner(v, self.count)})" for v in self.read]
        for (v, shape, tiled), text in self.whole.items():
            reshaped = names[v] if shape == v.shape else f"{names[v]}.reshape({shape})"
            lines.append(f"    {text} = {reshaped}" if tiled is None else f"    {text} = tile({reshaped}, {tiled})")
        for v in self.outputs:
            dtype = self.scope.hold(np.dtype(v.dtype), "dtype")
            lines.append(f"    if o_{names[v]} is None or not o_{names[v]}.flags.c_contiguous:")
            lines.append(f"        o_{names[v]} = np.empty({v.shape}, {dtype})")
            lines.append(f"    f_{names[v]} = o_{names[v]}.reshape({self._inner(v, self.count)})")
        for v in totals:
            dtype = self.scope.hold(np.dtype(v.dtype), "dtype")
            lines.append(f"    p_{names[v]} = np.empty({(self.blocks, *self._kept(v))}, {dtype})")
        lines += self._loop(body) if self.blocks > 1 else self._at_once(body)
        for v, reduction in totals.items():
            lines.append(f"    p_{names[v]} = np.{_HOW.get(reduction.name, 'add')}.reduce(p_{names[v]}, axis=0)")
            if reduction.name == "mean":
                lines.append(f"    p_{names[v]} = p_{names[v]} / {self._averaged(v)}")
            if reduction.keepdims:
                lines.append(f"    p_{names[v]} = p_{names[v]}.reshape({v.shape})")
        results = [f"p_{names[v]}" if v in totals else f"o_{names[v]}" for v in self.program.outputs]
        lines.append(f"    return {', '.join(results)},")
        made = define("group", "\n".join(lines) + "\n", self.scope.names)
        made.overwrites = self._overwrites()
        return made

    def _overwrites(self) -> dict[Variable, set[Variable]]:
        """Return for each output the inputs that it may be written over.

        Those are read block by block, and by no later member.
        """
        whole = {v for v, *_ in self.whole} | (set(self.program.inputs) - set(self.read))
        return {
            out: {
                v
                for v in self.program.inputs
                if v not in whole
                and (v.shape, v.dtype) == (out.shape, out.dtype)
                and self._last[v] <= self._first[slot]
            }
            for out, slot in self._own.items()
        }

    def _scratch_text(self, slot: _Memory) -> str:
        return f"np.empty({(self.block, *slot.inner)}, {self.scope.hold(slot.dtype, 'dtype')})"

    def _loop(self, body: list[str]) -> list[str]:
        """Return the lines that compute all blocks."""
        names = self.names
        lines = ["    def work(take):"]
        lines += [f"        w_{slot.name} = {self._scratch_text(slot)}" for slot in self.scratch]
        lines += [f"        while (k := take()) < {self.blocks}:", f"            i = k * {self.block}"]
        lines += [f"            j = min(i + {self.block}, {self.count})"]
        lines += [f"            {slot.name} = w_{slot.name}[:j - i]" for slot in self.scratch]
        lines += [f"            {names[v]} = f_{names[v]}[i:j]" for v in (*self.read, *self.outputs)]
        lines += [f"            {line}" for line in body]
        return [*lines, f"    run_blocks(work, {self.blocks})"]

    def _at_once(self, body: list[str]) -> list[str]:
        """Return the lines that compute a single block."""
        names = self.names
        lines = [f"    k, i, j = 0, 0, {self.count}"]
        lines += [f"    {slot.name} = {self._scratch_text(slot)}" for slot in self.scratch]
        lines += [f"    {names[v]} = f_{names[v]}" for v in (*self.read, *self.outputs)]
        return [*lines, *(f"    {line}" for line in body)]

    # ------------------------------------------------------------------ shapes

    def _inner(self, v: Variable, rows: int) -> tuple[int, ...]:
        return (rows, *v.shape[self.split :])

    def _kept(self, v: Variable) -> tuple[int, ...]:
        """Return the shape that a block leaves of a total."""
        x = self._maker(v).operands[0]
        axis = self.totals[v].axis
        return tuple([n for a, n in enumerate(x.shape) if a not in axis])

    def _averaged(self, v: Variable) -> int:
        return int(self._maker(v).operands[0].size // v.size)

    def _maker(self, v: Variable) -> Instruction:
        return next(i for i in self.program.instructions if v in i.results)

    # ------------------------------------------------------------------ one block

    def _operand(self, value: Any, instruction: Instruction) -> Any:
        """Return the expression of an operand of a member."""
        if not isinstance(value, Variable) or value.on_host:
            return self.scope.write(value, self.names)
        if _reads_rows(instruction, value, self.split):
            if value in self.program.inputs:
                self.read[value] = None
            return self.names[value]
        if not value.shape:
            return self.names[value]
        out = instruction.results[0].shape
        shape, inner = whole_shape(value.shape, out, self.split), out[self.split :]
        tiled = (self.block, *inner) if value.size > 1 and math.prod(inner) < SHORT else None
        text = self.whole.setdefault((value, shape, tiled), f"h{len(self.whole)}_{self.names[value]}")
        return text if tiled is None else f"{text}[:j - i]"

    def _member(self, at: int, instruction: Instruction) -> list[str]:
        """Return the lines that compute a member for one block."""
        out = instruction.results[0]
        name, inner = self.names[out], out.shape[self.split :]
        operands = [self._operand(v, instruction) for v in instruction.operands]
        read = dict.fromkeys(self._base.get(v, v) for v in instruction.reads())
        dying = [v for v in read if self._last[v] == at and v in self._place]
        lines: list[str] = []
        reduction, ufunc = reduction_of(instruction), ufunc_of(instruction, self.program)
        if reduction is not None:
            lines += self._reduction(at, reduction, out, operands[0])
        elif is_reshape(instruction):
            shape = f"({', '.join(('j - i', *map(str, inner)))},)"
            lines.append(
                f"f_{name}[i:j] = {operands[0]}.reshape({shape})"
                if out in self._own
                else f"{name} = {operands[0]}.reshape({shape})"
            )
        elif ufunc is not None:
            if instruction.name == "relu":
                operands.append(self._zeros((self.block, *inner), np.dtype(out.dtype)))
            # a ufunc may write into what it reads, element by element
            self._give([v for v in dying if v.shape == out.shape])
            lines += self._target(out, at)
            lines.append(f"{self.scope.hold(ufunc, instruction.name)}({', '.join(operands)}, out={name})")
        elif (bits := _masked(instruction)) is not None:
            mask = self._take(np.dtype(bool), inner, at, at)
            self._give([v for v in dying if v.shape == out.shape])
            lines += self._target(out, at)
            kind = self.scope.hold(bits, "bits")
            lines.append(_MASKS[instruction.name].format(operands[1], mask.name))
            lines.append(f"np.multiply({mask.name}.view(np.int8), {operands[0]}.view({kind}), out={name}.view({kind}))")
            self._free.append(mask)
        else:
            call = self._call(instruction, operands)
            lines.append(f"{name}[...] = {call}" if out in self._own else f"{name} = {call}")
        self._give(dying)
        return lines

    def _reduction(self, at: int, reduction: Reduction, out: Variable, x: str) -> list[str]:
        how, name = f"np.{_HOW.get(reduction.name, 'add')}.reduce", self.names[out]
        axis = reduction.of_block(self.split)
        if out in self.totals:
            if self._kept(out):
                return [f"{how}({x}, axis={axis}, out=p_{name}[k])"]
            return [f"p_{name}[k] = {how}({x}.reshape(-1))"]
        lines = self._target(out, at)
        lines.append(f"{how}({x}, axis={axis}, keepdims={reduction.keepdims}, out={name})")
        if reduction.name == "mean":
            lines.append(f"np.divide({name}, {self._averaged(out)}, out={name})")
        return lines

    def _call(self, instruction: Instruction, operands: list[str]) -> str:
        stem = "".join(c if c.isalnum() else "_" for c in instruction.name)
        settings = [f"{key}={self.scope.write(v, self.names)}" for key, v in instruction.settings.items()]
        return f"{self.scope.hold(evaluation(instruction, self.program), stem)}({', '.join([*operands, *settings])})"

    def _zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        zeros = zeros_beside(shape, dtype)
        return self.scope.hold(zeros, "zeros") + ("[:j - i]" if zeros.shape == shape else "")

    # ------------------------------------------------------------------ scratch

    def _kind(self, v: Variable) -> tuple[np.dtype, tuple[int, ...]]:
        return np.dtype(v.dtype), v.shape[self.split :]

    def _target(self, out: Variable, at: int) -> list[str]:
        """Return the line, if one is needed, that names the memory of a member's result."""
        if out in self._own:
            return []
        slot = self._place[out] = self._take(*self._kind(out), at, self._last[out])
        return [f"{self.names[out]} = {slot.name}"]

    def _take(self, dtype: np.dtype, inner: tuple[int, ...], at: int, last: int) -> _Memory:
        """Return memory of a block from one member to another.

        It is an output's where that is written no earlier.
        """
        fitting = [s for s in self._free if (s.dtype, s.inner) == (dtype, inner) and last <= s.until]
        if not fitting:
            slot = _Memory(f"s{len(self.scratch)}", dtype, inner)
            self.scratch.append(slot)
            return slot
        # what was used last is still in the cache
        slot = next((s for s in reversed(fitting) if s.until < math.inf), fitting[-1])
        self._free.remove(slot)
        self._first[slot] = min(at, self._first.get(slot, at))
        return slot

    def _give(self, variables: Iterable[Variable]) -> None:
        self._free += [self._place.pop(v) for v in variables if v in self._place]

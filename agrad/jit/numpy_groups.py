"""Groups on NumPy: generated functions that compute what a group makes block by block, on threads where it pays."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from agrad.backends.numpy_fused import zeros_beside
from agrad.jit.blocks import BLOCK_BYTES, run_blocks
from agrad.jit.fusion import Group
from agrad.jit.ir import Instruction, Variable, names_of
from agrad.jit.lowerings import Scope, compile_program, evaluation
from agrad.jit.rows import Reduction, is_reshape, operand_is_of_rows, reduction_of, whole_shape

FEWEST = 1024
"""Elements of the smallest block, whatever their width."""

_KEEPS_OPERANDS = frozenset({"astype", "cast", "real", "imag", "conj", "positive"})
"""Operations whose result may be their operand."""

_HOW = {"max": "maximum", "min": "minimum"}


def ufunc_of(instruction: Instruction, program: Any) -> np.ufunc | None:
    """The NumPy function that the instruction is, where it is just that."""
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
    """The function of a group: from its operands to a tuple of its outputs, computed in blocks.

    After the operands it takes, for each of ``outputs_of_rows``, the array to write into or None. Totals are added up
    block by block, always in the same order.
    """
    return _Text(group).function()


def outputs_of_rows(group: Group) -> list[Variable]:
    """The outputs of a group that are written block by block."""
    totals = _totals(group)
    return [v for v in group.program.outputs if v not in totals]


def overwritable(group: Group) -> dict[Variable, set[Variable]]:
    """For each output that is written block by block the operands that it may be written over.

    No later member reads these, and all do so block by block.
    """
    last = group.program.last_uses()
    whole = {v for i in group.program.instructions for v in _operands(i) if not _reads_rows(i, v, group.split)}
    found: dict[Variable, set[Variable]] = {v: set() for v in outputs_of_rows(group)}
    for at, instruction in enumerate(group.program.instructions):
        for out in instruction.results:
            if out in found and not is_reshape(instruction):
                found[out] = {
                    v
                    for v in group.program.inputs
                    if v.shape == out.shape and v.dtype == out.dtype and v not in whole and last[v] <= at
                }
    return found


def _operands(instruction: Instruction) -> Iterator[Variable]:
    return (v for v in instruction.operands if isinstance(v, Variable) and not v.on_host)


def _reads_rows(instruction: Instruction, v: Variable, split: int) -> bool:
    """Whether an operand of a member has a part for each row."""
    if reduction_of(instruction) is not None or is_reshape(instruction):
        return True
    return bool(operand_is_of_rows(v.shape, instruction.results[0].shape, split))


def _totals(group: Group) -> dict[Variable, Reduction]:
    found = {i.results[0]: reduction_of(i) for i in group.program.instructions}
    return {v: reduction for v, reduction in found.items() if reduction is not None and reduction.is_total(group.split)}


def _rows(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array with its leading axes as one, row by row."""
    return np.ascontiguousarray(x).reshape(shape)


class _Text:
    """The text of a group's function while it is written."""

    def __init__(self, group: Group) -> None:
        self.group, self.program, self.split = group, group.program, group.split
        self.scope = Scope()
        self.scope.names.update(np=np, run_blocks=run_blocks, rows=_rows)
        self.names = names_of(self.program)
        self.totals = _totals(group)
        self.outputs = outputs_of_rows(group)
        self.count = math.prod(group.shape[: self.split])
        inner = math.prod(group.shape[self.split :])
        made = [v for i in self.program.instructions for v in i.results]
        width = max(np.dtype(v.dtype).itemsize for v in (*self.program.inputs, *made) if not v.on_host)
        self.block = max(1, max(FEWEST, BLOCK_BYTES // width) // inner)
        self.blocks = -(-self.count // self.block)
        self.slots: list[tuple[np.dtype, tuple[int, ...]]] = []
        self.whole: dict[tuple[Variable, tuple[int, ...]], str] = {}
        self.read: dict[Variable, None] = {}
        """The inputs that are cut into blocks."""
        self._place: dict[Variable, int] = {}
        self._free: list[int] = []
        self._base: dict[Variable, Variable] = {}
        """What lies in the memory of another variable, in another shape."""
        self._last = self.program.last_uses()
        for instruction in self.program.instructions:
            if is_reshape(instruction):
                x, out = next(_operands(instruction)), instruction.results[0]
                base = self._base[out] = self._base.get(x, x)
                self._last[base] = max(self._last[base], self._last.get(out, -1))

    def function(self) -> Any:
        """The function itself."""
        body = [line for at, i in enumerate(self.program.instructions) for line in self._member(at, i)]
        names, totals = self.names, self.totals
        parameters = [names[v] for v in self.program.inputs] + [f"o_{names[v]}=None" for v in self.outputs]
        lines = [f"def group({', '.join(parameters)}):"]
        lines += [f"    f_{names[v]} = rows({names[v]}, {self._inner(v, self.count)})" for v in self.read]
        lines += [f"    {text} = {names[v]}.reshape({shape})" for (v, shape), text in self.whole.items()]
        for v in self.outputs:
            dtype = self.scope.hold(np.dtype(v.dtype), "dtype")
            lines.append(f"    if o_{names[v]} is None or not o_{names[v]}.flags.c_contiguous:")
            lines.append(f"        o_{names[v]} = np.empty({v.shape}, {dtype})")
            lines.append(f"    f_{names[v]} = o_{names[v]}.reshape({self._inner(v, self.count)})")
        for v in totals:
            dtype = self.scope.hold(np.dtype(v.dtype), "dtype")
            lines.append(f"    p_{names[v]} = np.empty({(self.blocks, *self._kept(v))}, {dtype})")
        lines.append("    def work(take):")
        for k, (dtype, shape) in enumerate(self.slots):
            lines.append(f"        w{k} = np.empty({(self.block, *shape)}, {self.scope.hold(dtype, 'dtype')})")
        lines += [f"        while (k := take()) < {self.blocks}:", f"            i = k * {self.block}"]
        lines += [f"            j = min(i + {self.block}, {self.count})"]
        lines += [f"            s{k} = w{k}[:j - i]" for k in range(len(self.slots))]
        lines += [f"            {names[v]} = f_{names[v]}[i:j]" for v in self.read]
        lines += [f"            {line}" for line in body]
        lines.append(f"    run_blocks(work, {self.blocks})")
        for v, reduction in totals.items():
            lines.append(f"    p_{names[v]} = np.{_HOW.get(reduction.name, 'add')}.reduce(p_{names[v]}, axis=0)")
            if reduction.name == "mean":
                lines.append(f"    p_{names[v]} = p_{names[v]} / {self._averaged(v)}")
            if reduction.keepdims:
                lines.append(f"    p_{names[v]} = p_{names[v]}.reshape({v.shape})")
        results = [f"p_{names[v]}" if v in totals else f"o_{names[v]}" for v in self.program.outputs]
        lines.append(f"    return {', '.join(results)},")
        return compile_program("group", "\n".join(lines) + "\n", self.scope.names)

    # ------------------------------------------------------------------ shapes

    def _inner(self, v: Variable, rows: int) -> tuple[int, ...]:
        return (rows, *v.shape[self.split :])

    def _kept(self, v: Variable) -> tuple[int, ...]:
        """The shape of what a block leaves of a total."""
        x = self._maker(v).operands[0]
        axis = self.totals[v].axis
        return tuple([n for a, n in enumerate(x.shape) if a not in axis])

    def _averaged(self, v: Variable) -> int:
        return int(self._maker(v).operands[0].size // v.size)

    def _maker(self, v: Variable) -> Instruction:
        return next(i for i in self.program.instructions if v in i.results)

    # ------------------------------------------------------------------ one block

    def _operand(self, value: Any, instruction: Instruction) -> Any:
        """The name of an operand's block, of a whole operand, or a value that stands in the program."""
        if not isinstance(value, Variable) or value.on_host:
            return self.scope.write(value, self.names)
        if _reads_rows(instruction, value, self.split):
            if value in self.program.inputs:
                self.read[value] = None
            return self.names[value]
        shape = whole_shape(value.shape, instruction.results[0].shape, self.split)
        if shape == value.shape:
            return self.names[value]
        return self.whole.setdefault((value, shape), f"h{len(self.whole)}_{self.names[value]}")

    def _member(self, at: int, instruction: Instruction) -> list[str]:
        """The lines that compute a member for one block."""
        out = instruction.results[0]
        name, inner = self.names[out], out.shape[self.split :]
        operands = [self._operand(v, instruction) for v in instruction.operands]
        read = dict.fromkeys(self._base.get(v, v) for v in instruction.reads())
        dying = [v for v in read if self._last[v] == at and v in self._place]
        lines: list[str] = []
        reduction, ufunc = reduction_of(instruction), ufunc_of(instruction, self.program)
        if reduction is not None:
            lines += self._reduction(reduction, out, operands[0])
        elif is_reshape(instruction):
            lines.append(f"{name} = {operands[0]}.reshape({('j - i', *inner)})".replace("'", ""))
            if out in self.outputs:
                lines.append(f"f_{name}[i:j] = {name}")
        elif ufunc is not None:
            if instruction.name == "relu":
                operands.append(self._zeros((self.block, *inner), np.dtype(out.dtype)))
            # a ufunc may write into what it reads, element by element
            self._give([v for v in dying if v.shape == out.shape])
            lines.append(self._target(out))
            lines.append(f"{self.scope.hold(ufunc, instruction.name)}({', '.join(operands)}, out={name})")
        else:
            call = self._call(instruction, operands)
            if out in self.outputs:
                lines += [self._target(out), f"{name}[...] = {call}"]
            else:
                lines.append(f"{name} = {call}")
            if instruction.name in _KEEPS_OPERANDS:
                dying = []
        self._give(dying)
        return lines

    def _reduction(self, reduction: Reduction, out: Variable, x: str) -> list[str]:
        how, axis, name = (
            f"np.{_HOW.get(reduction.name, 'add')}.reduce",
            reduction.of_block(self.split),
            self.names[out],
        )
        if out in self.totals:
            if self._kept(out):
                return [f"{how}({x}, axis={axis}, out=p_{name}[k])"]
            return [f"p_{name}[k] = {how}({x}.reshape(-1))"]
        lines = [self._target(out), f"{how}({x}, axis={axis}, keepdims={reduction.keepdims}, out={name})"]
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

    def _target(self, out: Variable) -> str:
        """The line that gives a name to what a member's result for one block is written into."""
        name = self.names[out]
        if out in self.outputs:
            return f"{name} = f_{name}[i:j]"
        kind = (np.dtype(out.dtype), out.shape[self.split :])
        slot = next((s for s in reversed(self._free) if self.slots[s] == kind), None)
        if slot is None:
            slot = len(self.slots)
            self.slots.append(kind)
        else:
            self._free.remove(slot)
        self._place[out] = slot
        return f"{name} = s{slot}"

    def _give(self, variables: Iterable[Variable]) -> None:
        self._free += [self._place.pop(v) for v in variables if v in self._place]

"""Generated functions for groups, which NumPy computes block by block on threads."""

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES, run_blocks
from agrad.jit.lower.plain import Scope, call_text, define, evaluation
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.tiling import Reduction, is_reshape, offsets_of, operand_is_of_rows, reduction_of, whole_shape
from agrad.jit.program import Instruction, Variable, names_of, rule_of
from agrad.kernels.numpy.fused import zeros_beside
from agrad.kernels.numpy.reductions import reduced
from agrad.ops import composites, selection

RELU, WHERE = composites.relu.primitive, selection.where_p.primitive

FEWEST = 1024
"""The fewest elements of a block."""

SHORT = 128
"""Where rows have fewer elements, a whole operand is repeated for each row of a block.

NumPy then has one inner loop for the block instead of one for each row. Without it rows of 10 elements take six times
as long, and rows of 512 the same time.
"""

_Kind = tuple[np.dtype, tuple[int, ...]]
"""The dtype of a block's memory, and its shape without the axis of rows."""


def ufunc_of(instruction: Instruction) -> np.ufunc | None:
    """Return the ufunc that computes an instruction, or None."""
    if instruction.settings or instruction.operation.outputs is not None or isinstance(instruction.operation, Group):
        return None
    out = instruction.outputs[0]
    if out is None or out.kind is not np.ndarray:
        return None
    if instruction.operation is RELU and np.dtype(out.dtype).kind == "f":
        return np.maximum
    found = evaluation(instruction)
    return found if isinstance(found, np.ufunc) and found.nout == 1 and found.signature is None else None


def out_text(function: Any, target: str) -> str:
    """Return the argument ``out`` of a NumPy function.

    A keyword argument would double the compilation time of the call. NumPy requires it for two functions.
    """
    return f"out={target}" if function in (np.maximum, np.minimum) else target


def group_function(group: Group, donated: Collection[Variable] = ()) -> Any:
    """Return the function of a group, from its operands to its outputs.

    Further arguments are arrays to write into, or None, one for each output in the attribute ``overwrites``, which
    contains the operands that the output may overwrite. Totals are added block by block, always in the same order.
    donated: inputs that outputs like them should overwrite.
    """
    return _Text(group, donated).function()


def _reads_rows(instruction: Instruction, v: Variable, split: int) -> bool:
    """Return True if an operand of an instruction has a part for each row."""
    if reduction_of(instruction) is not None or is_reshape(instruction) or offsets_of(instruction) is not None:
        return True
    return bool(operand_is_of_rows(v.shape, instruction.results[0].shape, split))


_MASKS: dict[Any, str] = {
    (RELU, "vjp:x"): "np.greater({}, 0, {})",
    (WHERE, "vjp:x1"): "np.copyto({1}, {0})",
    (WHERE, "vjp:x2"): "np.logical_not({}, {})",
}
"""For rules that multiply the cotangent by a mask, the line that computes the mask from the second operand."""


def _masked(instruction: Instruction) -> np.dtype | None:
    """Return the integer dtype for multiplying a cotangent's bits by a mask, or None."""
    out = instruction.results[0]
    rule = rule_of(instruction)
    if rule not in _MASKS or np.dtype(out.dtype).kind != "f" or np.dtype(out.dtype).itemsize > 8:
        return None
    g, y = instruction.operands
    if not isinstance(g, Variable) or not isinstance(y, Variable) or g.dtype != out.dtype or y.shape != out.shape:
        return None
    known = out.dtype if rule == (RELU, "vjp:x") else np.dtype(bool)
    return np.dtype(f"i{np.dtype(out.dtype).itemsize}") if y.dtype == known else None


def _ufunc_name(reduction: Reduction) -> str:
    return f"np.{reduction.combine.identifier}"


def _rows(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array with its leading axes joined."""
    return np.ascontiguousarray(x).reshape(shape)


def _add_edges(out: np.ndarray, edges: np.ndarray, first: int, block: int, count: int, at_end: bool) -> None:
    """Add the rows of a part that are outside of the rows of their block, for each block.

    first: the row of the result where the part begins. at_end: True for the last rows of each block.
    """
    for k, edge in enumerate(edges):
        i, j = k * block, min((k + 1) * block, count)
        some = min(len(edge), j - i)
        start = first + (j - some if at_end else i)
        out[start : start + some] += edge[:some]


def _tile(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


class _Text:
    """The text of a group's function while it is written.

    Names in the text for a variable ``v``: ``f_v`` is the whole array with its leading axes joined, ``o_v`` the array
    of an output, ``p_v`` the partial results of a total. Block ``k`` has the rows from ``i`` to ``j``. For a sum of
    slices, ``t_v`` are the rows that a block writes, those of the first part, and ``e_v`` rows of a part beyond them.
    """

    def __init__(self, group: Group, donated: Collection[Variable]) -> None:
        self.program, self.split = group.program, group.split
        self.scope = Scope()
        self.scope.names.update(np=np, run_blocks=run_blocks, rows=_rows, tile=_tile, add_edges=_add_edges)
        self.names = names_of(self.program)
        self.makers = {i.results[0]: i for i in self.program.instructions}
        found = {v: reduction_of(i) for v, i in self.makers.items()}
        self.totals = {v: r for v, r in found.items() if r is not None and r.is_total(self.split)}
        self.sums = {v: self._offsets(i) for v, i in self.makers.items() if offsets_of(i) is not None}
        """The sums of slices, with the rows where their parts begin."""
        self.edges: dict[str, tuple[Variable, int]] = {}
        """For each part that is not where the first one is, its sum, and its distance in rows."""
        self.outputs = [v for v in self.program.outputs if v not in self.totals and v not in self.sums]
        """The outputs that are written block by block."""
        self.count = math.prod(group.shape[: self.split])
        inner = math.prod(group.shape[self.split :])
        width = max(np.dtype(v.dtype).itemsize for v in (*self.program.inputs, *self.makers) if not v.on_host)
        self.block = min(self.count, max(1, max(FEWEST, BLOCK_BYTES // width) // inner))
        self.blocks = -(-self.count // self.block)
        self.scratch: dict[str, _Kind] = {}
        firsts = {self.makers[v].operands[0]: f"t_{self.names[v]}" for v in self.sums}
        uses = self.program.uses
        self._written = {v: self.names[v] for v in self.outputs}
        self._written |= {v: t for v, t in firsts.items() if uses[v] == 1 and v in self.makers and self._is_ufunc(v)}
        """The memory of results that are computed in outputs: of outputs, and of first parts of sums."""
        self._kinds = {name: self._kind(v) for v, name in self._written.items()}
        """The kinds of all memory: of scratch and of outputs, which is also used as scratch."""
        self.whole: dict[tuple[Variable, tuple[int, ...], tuple[int, ...] | None], str] = {}
        """The names of whole operands, by variable, shape without leading axes, and shape repeated for a block."""
        self.read: dict[Variable, None] = {}
        """The inputs that are cut into blocks."""
        self._first = {self._written[v]: at for at, v in enumerate(self.makers) if v in self._written}
        """For the memory of each output, the first instruction that writes into it."""
        self._until = dict(self._first)
        """For the same memory, the last instruction that may read other values in it."""
        kept = {(v.shape, v.dtype) for v in donated}
        self._free = [self._written[v] for v in self.makers if v in self._written and (v.shape, v.dtype) not in kept]
        self._place: dict[Variable, str] = {}
        self._base: dict[Variable, Variable] = {}
        """The variables whose memory views may share."""
        self._last = self.program.last_uses()
        for instruction in self.program.instructions:
            keeps = instruction.operation.is_view and ufunc_of(instruction) is None
            if keeps or is_reshape(instruction):
                x, out = instruction.arrays[0], instruction.results[0]
                base = self._base[out] = self._base.get(x, x)
                self._last[base] = max(self._last[base], self._last.get(out, -1))

    def function(self) -> Any:
        """Return the function of the group."""
        body = [line for at, i in enumerate(self.program.instructions) for line in self._member(at, i)]
        names, totals = self.names, self.totals
        written = [*self.outputs, *self.sums]
        parameters = [names[v] for v in self.program.inputs] + [f"o_{names[v]}=None" for v in written]
        lines = [f"def group({', '.join(parameters)}):"]
        lines += [f"    f_{names[v]} = rows({names[v]}, {self._inner(v, self.count)})" for v in self.read]
        for (v, shape, tiled), text in self.whole.items():
            reshaped = names[v] if shape == v.shape else f"{names[v]}.reshape({shape})"
            lines.append(f"    {text} = {reshaped}" if tiled is None else f"    {text} = tile({reshaped}, {tiled})")
        for v in written:
            lines.append(f"    if o_{names[v]} is None or not o_{names[v]}.flags.c_contiguous:")
            lines.append(f"        o_{names[v]} = {self._empty(v.shape, v.dtype)}")
            lines.append(f"    f_{names[v]} = o_{names[v]}.reshape({self._inner(v, math.prod(v.shape[: self.split]))})")
        for v, (first, *_) in self.sums.items():
            lines.append(f"    f_{names[v]}[:{first}] = f_{names[v]}[{first + self.count}:] = 0")
        for name, (v, step) in self.edges.items():
            edges = (self.blocks, min(abs(step), self.block), *v.shape[self.split :])
            lines.append(f"    {name} = {self._empty(edges, v.dtype)}")
        for v in totals:
            lines.append(f"    p_{names[v]} = {self._empty((self.blocks, *self._kept(v)), v.dtype)}")
        lines += self._loop(body)
        for v, reduction in totals.items():
            lines.append(f"    p_{names[v]} = {_ufunc_name(reduction)}.reduce(p_{names[v]}, axis=0)")
            if reduction.averages:
                lines.append(f"    p_{names[v]} = p_{names[v]} / {self._averaged(v)}")
            if reduction.keepdims:
                lines.append(f"    p_{names[v]} = p_{names[v]}.reshape({v.shape})")
        for name, (v, step) in self.edges.items():
            first = self.sums[v][0] + step
            rest = f"{name}, {first}, {self.block}, {self.count}, {step > 0}"
            lines.append(f"    add_edges(f_{names[v]}, {rest})")
        results = [f"p_{names[v]}" if v in totals else f"o_{names[v]}" for v in self.program.outputs]
        lines.append(f"    return {', '.join(results)},")
        made = define("group", "\n".join(lines) + "\n", self.scope.names)
        made.overwrites = {v: [] if v in self.sums else self._overwritten(v) for v in written}
        return made

    def _overwritten(self, out: Variable) -> list[Variable]:
        """Return the inputs that an output may overwrite.

        They are read block by block, and no instruction reads them after the first write into the output's memory.
        """
        at = self._first[self.names[out]]
        whole = {v for v, *_ in self.whole}
        same = [v for v in self.read if (v.shape, v.dtype) == (out.shape, out.dtype)]
        return [v for v in same if v not in whole and self._last[v] <= at]

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> str:
        return f"np.empty({shape}, {self.scope.hold(np.dtype(dtype), 'dtype')})"

    def _loop(self, body: list[str]) -> list[str]:
        """Return the lines that compute all blocks."""
        names = self.names
        lines = ["    def work(take):"]
        for name, (dtype, inner) in self.scratch.items():
            lines.append(f"        w_{name} = {self._empty((self.block, *inner), dtype)}")
        lines += [f"        while (k := take()) < {self.blocks}:", f"            i = k * {self.block}"]
        lines += [f"            j = min(i + {self.block}, {self.count})"]
        lines += [f"            {name} = w_{name}[:j - i]" for name in self.scratch]
        lines += [f"            {names[v]} = f_{names[v]}[i:j]" for v in (*self.read, *self.outputs)]
        lines += [f"            t_{names[v]} = f_{names[v]}[{at[0]} + i:{at[0]} + j]" for v, at in self.sums.items()]
        lines += [f"            {line}" for line in body]
        return [*lines, f"    run_blocks(work, {self.blocks})"]

    # ------------------------------------------------------------------ shapes

    def _inner(self, v: Variable, rows: int) -> tuple[int, ...]:
        return (rows, *v.shape[self.split :])

    def _kept(self, v: Variable) -> tuple[int, ...]:
        """Return the shape of a block's partial result of a total."""
        axis = self.totals[v].axis
        return tuple([n for a, n in enumerate(self.makers[v].operands[0].shape) if a not in axis])

    def _averaged(self, v: Variable) -> int:
        """Return the number of elements that a mean averages."""
        return int(self.makers[v].operands[0].size // v.size)

    # ------------------------------------------------------------------ one block

    def _operand(self, value: Any, instruction: Instruction) -> Any:
        """Return the expression of an operand of an instruction."""
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
        """Return the lines that compute an instruction for one block."""
        out = instruction.results[0]
        name, inner = self.names[out], out.shape[self.split :]
        operands = [self._operand(v, instruction) for v in instruction.operands]
        read = dict.fromkeys(self._base.get(v, v) for v in instruction.reads())
        dying = [v for v in read if self._last[v] == at and v in self._place]
        lines: list[str] = []
        reduction, ufunc = reduction_of(instruction), ufunc_of(instruction)
        if reduction is not None:
            lines += self._reduction(at, reduction, out, operands[0])
        elif out in self.sums:
            lines += self._sum(out, operands)
        elif is_reshape(instruction):
            shape = f"({', '.join(('j - i', *map(str, inner)))},)"
            lines.append(
                f"f_{name}[i:j] = {operands[0]}.reshape({shape})"
                if out in self.outputs
                else f"{name} = {operands[0]}.reshape({shape})"
            )
        elif ufunc is not None:
            if instruction.operation is RELU:
                operands.append(self._zeros((self.block, *inner), np.dtype(out.dtype)))
            # a ufunc may write into its operands, as it works element by element
            self._give([v for v in dying if v.shape == out.shape])
            lines += self._target(out, at)
            lines.append(f"{self.scope.hold(ufunc, instruction.name)}({', '.join([*operands, out_text(ufunc, name)])})")
        elif (bits := _masked(instruction)) is not None:
            mask = self._take((np.dtype(bool), inner), at, at)
            self._give([v for v in dying if v.shape == out.shape])
            lines += self._target(out, at)
            kind = self.scope.hold(bits, "bits")
            lines.append(_MASKS[rule_of(instruction)].format(operands[1], mask))
            lines.append(f"np.multiply({mask}.view(np.int8), {operands[0]}.view({kind}), {name}.view({kind}))")
            self._free.append(mask)
        else:
            call = call_text(instruction, self.scope, self.names, operands=operands)
            lines.append(f"{name}[...] = {call}" if out in self.outputs else f"{name} = {call}")
        self._give(dying)
        return lines

    def _reduction(self, at: int, reduction: Reduction, out: Variable, x: str) -> list[str]:
        ufunc, name = _ufunc_name(reduction), self.names[out]
        axis = reduction.of_block(self.split)
        if out in self.totals:
            if self._kept(out):
                return [f"{ufunc}.reduce({x}, axis={axis}, out=p_{name}[k])"]
            return [f"p_{name}[k] = {ufunc}.reduce({x}.reshape(-1))"]
        lines = self._target(out, at)
        function = self.scope.hold(reduced, "reduced")
        lines.append(f"{function}({ufunc}, {x}, {axis}, {reduction.keepdims}, {name})")
        if reduction.averages:
            lines.append(f"np.divide({name}, {self._averaged(out)}, {name})")
        return lines

    def _is_ufunc(self, v: Variable) -> bool:
        return ufunc_of(self.makers[v]) is not None

    def _offsets(self, instruction: Instruction) -> list[int]:
        """Return the rows where the parts of a sum of slices begin."""
        length = math.prod(instruction.results[0].shape[1 : self.split])
        return [start * length for start in offsets_of(instruction) or ()]

    def _sum(self, out: Variable, parts: list[str]) -> list[str]:
        """Return the lines that write a sum of slices to the rows of its first part, and keep the edges of others."""
        name, (first, *others) = self.names[out], self.sums[out]
        t = f"t_{name}"
        lines = [] if self.makers[out].operands[0] in self._written else [f"{t}[...] = {parts[0]}"]
        for part, start in zip(parts[1:], others, strict=True):
            step = start - first
            edges = f"e{len(self.edges)}_{name}"
            some = f"min({abs(step)}, j - i)"
            if step > 0:
                lines += [f"{edges}[k, :{some}] = {part}[j - i - {some}:]", f"{t}[{step}:] += {part}[:-{step}]"]
            elif step < 0:
                lines += [f"{edges}[k, :{some}] = {part}[:{some}]", f"{t}[:{step}] += {part}[{-step}:]"]
            else:
                lines.append(f"{t} += {part}")
            if step:
                self.edges[edges] = out, step
        return lines

    def _zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        zeros = zeros_beside(shape, dtype)
        return self.scope.hold(zeros, "zeros") + ("[:j - i]" if zeros.shape == shape else "")

    # ------------------------------------------------------------------ scratch

    def _kind(self, v: Variable) -> _Kind:
        return np.dtype(v.dtype), v.shape[self.split :]

    def _target(self, out: Variable, at: int) -> list[str]:
        """Return the line that assigns the memory of an instruction's result to a name, if it is needed."""
        if out in self.outputs:
            return []
        if out in self._written:
            return [f"{self.names[out]} = {self._written[out]}"]
        self._place[out] = self._take(self._kind(out), at, self._last[out])
        return [f"{self.names[out]} = {self._place[out]}"]

    def _take(self, kind: _Kind, at: int, last: int) -> str:
        """Return the name of memory that is free from one instruction to another.

        It is an output's memory before the instruction that computes the output. Fewer arrays then share the cache.
        """
        fitting = [n for n in self._free if self._kinds[n] == kind and last <= self._until.get(n, last)]
        if not fitting:
            name = f"s{len(self.scratch)}"
            self.scratch[name] = self._kinds[name] = kind
            return name
        # the memory that was used last is probably still in the cache
        name = next((n for n in reversed(fitting) if n in self._until), fitting[-1])
        self._free.remove(name)
        if name in self._first:
            self._first[name] = min(at, self._first[name])
        return name

    def _give(self, variables: Iterable[Variable]) -> None:
        self._free += [self._place.pop(v) for v in variables if v in self._place]

"""CUDA source of groups of rows.

The elements of a row are kept in the registers of the threads that compute it. Reductions over the row, and the
operations that read their results, therefore need no further kernel. The threads that share a row are a team, and short
rows share a block. Inputs may broadcast along any axis and have any strides.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agrad.jit.lower.cuda.elements import element_lines, packed_strides
from agrad.jit.lower.cuda.source import BLOCKS, PACK_BYTES, WARP, Source, expression
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.tiling import is_reshape, reduction_of
from agrad.jit.program import Instruction, Variable
from agrad.kernels.cupy.source import THREADS

MOST_THREADS = 1024
"""The most threads of a block."""

LANES = THREADS // WARP
"""Threads of the kernel ``finish`` that share a column of a total."""


class Layout(NamedTuple):
    """The strides of an array, and the alignment of its address."""

    strides: tuple[int, ...]
    """In elements."""
    aligned: bool
    """True if the address is a multiple of ``PACK_BYTES``."""


def place_of(index: str, shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return the expression of the offset of an element in memory.

    index: the expression of its index in row-major order.
    """
    parts, below = [], 1
    axes = _joined(shape, strides)
    for k, (n, stride) in reversed(list(enumerate(axes))):
        if stride:
            digit = index if below == 1 else f"({index}) / {below}"
            parts.append(f"({digit if k == 0 else f'({digit}) % {n}'}) * {stride}")
        below *= n
    return " + ".join(parts) or "0"


def _joined(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return lengths and strides, merging axes that are contiguous in memory."""
    found: list[tuple[int, int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if found and found[-1][1] == stride * n:
            found[-1] = (found[-1][0] * n, stride)
        else:
            found.append((n, stride))
    return found


class RowSource(Source):
    """The CUDA text of a group of rows, and the data of its launch.

    layouts: the layouts of the inputs that are not single values. The kernel has the parameters of ``GroupSource.run``.
    If all rows fit in one block, the kernel writes totals itself. Otherwise ``finish`` combines the partial results of
    the blocks.

    Names in the text for a variable ``v``: ``p_v``, ``q_v`` and ``n_v`` as in ``GroupSource``, ``t_v`` a team's total,
    and ``v`` its value, an array of a thread's elements if it has one for each element of a row.
    """

    name = "group_rows"

    def __init__(self, group: Group, layouts: Mapping[Variable, Layout]) -> None:
        super().__init__(group)
        self.split, self.ahead = group.split, group.ahead
        self.layouts = {**layouts, **{v: Layout(packed_strides(v.shape), False) for v in self.ahead}}
        self.rows, self.n = math.prod(group.shape[: self.split]), math.prod(group.shape[self.split :])
        widest = max(np.dtype(v.dtype).itemsize for v in self.kind if not v.on_host)
        self.pack: int = PACK_BYTES // widest if self.n % (PACK_BYTES // widest) == 0 else 1
        self.team: int = min(MOST_THREADS, _power(-(-self.n * widest // PACK_BYTES)))
        """The threads that share a row."""
        self.each: int = -(-self.n // (self.team * self.pack)) * self.pack
        """The elements of a thread."""
        self.beside: int = max(1, THREADS // self.team)
        """The rows of a block."""
        self.threads: int = self.team * self.beside
        self.blocks: int = min(-(-self.rows // self.beside), BLOCKS)
        spans = [(v.shape, at.strides) for v, at in self.layouts.items()]
        extents = [sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True)) for shape, strides in spans]
        # the number of a row goes beyond the last by at most the rows of all blocks
        self.index = "int" if max(self.size, *extents, 0) < 1 << 30 else "long long"
        self.whole: bool = self.team * self.each == self.n
        """True if each thread has as many elements."""
        self._read: dict[tuple[Variable, tuple[int, ...]], str] = {}
        self._loads: list[str] = []
        widths = [v.size for v in self.totals]
        self.finishers: int = -(-max(widths, default=0) // WARP) if self.blocks > 1 else 0
        text = [*self.head(), *self._elements(), *self._kernel()]
        self._text = "\n".join(text + (self._finish() if self.finishers else []))

    def text(self, count: int = 1) -> str:
        """Return the text of the kernels."""
        return self._text

    def _is_full(self, shape: Sequence[int]) -> bool:
        """Return True for arrays with an element for each one of a row."""
        return self.n > 1 and math.prod(shape[self.split :]) == self.n

    def _each(self, line: str, step: int = 1, guarded: bool = False) -> list[str]:
        """Return the loop over a thread's elements ``k``, whose numbers in the row are ``i``."""
        within = f"if (i < {self.n}) " if guarded and not self.whole else ""
        place = f"(k / {self.pack} * {self.team} + me) * {self.pack} + k % {self.pack}"
        lines = ["        #pragma unroll", f"        for (int k = 0; k < {self.each}; k += {step}) {{"]
        if re.search(r"\bi\b", within + line):
            lines.append(f"            const {self.index} i = {place};")
        return [*lines, f"            {within}{line}", "        }"]

    # ------------------------------------------------------------------ elements of operands

    def _elements(self) -> list[str]:
        """Return the functions of the operands that are computed where they are read."""
        lines = []
        for instruction in self.program.instructions:
            out = instruction.results[0]
            if out in self.ahead:
                lines.append(f"__device__ inline {self.kind[out]} f_{self.names[out]}({self._parameters()}) {{")
                lines += [*element_lines(instruction, self._element, self.index), "}", ""]
        return lines

    def _parameters(self) -> str:
        return ", ".join([f"const {self.index} i", *self.forms("const {k}* p_{n}", (*self.arrays, *self.singles))])

    def _element(self, v: Variable, place: str) -> str:
        """Return the expression of the element of an operand at a position in row-major order."""
        if v in self.ahead:
            given = self.forms("p_{n}", (*self.arrays, *self.singles))
            return f"f_{self.names[v]}({', '.join([place, *given])})"
        if v in self.singles:
            return f"*p_{self.names[v]}"
        return f"p_{self.names[v]}[{place_of(f'({place})', v.shape, self.layouts[v].strides)}]"

    # ------------------------------------------------------------------ the kernel

    def _kernel(self) -> list[str]:
        members = [i for i in self.program.instructions if i.results[0] not in self.ahead]
        body = [line for instruction in members for line in self._member(instruction)]
        for v in self.results:
            if v in self.ahead:
                self._input(v, v.shape)
        index, beside = self.index, self.beside
        head = f'extern "C" __launch_bounds__({self.threads}) __global__ void {self.name}'
        lines = [f"{head}({', '.join(self.given())}) {{"]
        lines.append(f"    const int me = threadIdx.x % {self.team}, team = threadIdx.x / {self.team};")
        lines += self.read_singles()
        for v in self.totals:
            lines.append(self._declared(f"t_{self.names[v]}", v, v.size > 1, self.start(v)))
        lines.append(f"    for ({index} first = ({index})blockIdx.x * {beside}; first < {self.rows};")
        lines.append(f"         first += ({index})gridDim.x * {beside}) {{")
        lines.append(f"        const bool valid = first + team < {self.rows};")
        lines.append(f"        const {index} row = valid ? first + team : {self.rows - 1};")
        lines += [*self._loads, *body]
        for v in self.results:
            lines += self._store(v)
        lines.append("    }")
        shared = [v.size for v in self.totals if v.size == 1 or self.beside > 1]
        lines += [f"    __shared__ double joint[{self.beside * max(shared)}];"] if shared else []
        for v in self.totals:
            lines += self._total(v)
        return [*lines, "}", ""]

    def _declared(self, name: str, v: Variable, full: bool, value: str = "") -> str:
        if full and value:
            return f"    {self.kind[v]} {name}[{self.each}];\n    for (auto& t : {name}) t = {value};"
        return f"    {self.kind[v]} {name}{f'[{self.each}]' if full else f' = {value}'};"

    def _operands(self, instruction: Instruction, shape: tuple[int, ...]) -> dict[Variable, str]:
        """Return the expressions of the operands of an instruction whose result, or operand, has this shape."""
        found = {}
        for v in instruction.reads():
            if v not in self.layouts:
                full = v not in self.singles and self._is_full(v.shape)
                found[v] = f"{self.names[v]}[k]" if full else self.names[v]
            else:
                found[v] = self._input(v, shape)
        return found

    def _input(self, v: Variable, shape: tuple[int, ...]) -> str:
        """Return the expression of an input that broadcasts to a shape. At its first use, read it."""
        missing = len(shape) - len(v.shape)
        strides = [0] * missing + [0 if n == 1 else s for n, s in zip(v.shape, self.layouts[v].strides, strict=True)]
        lead, inner = strides[: self.split], strides[self.split :]
        axes = [(n, s) for n, s in _joined(shape[self.split :], inner) if s]
        if (v, shape) not in self._read:
            count = sum(known is v for known, _ in self._read)
            name = self._read[v, shape] = self.names[v] + (f"_{count}" if count else "")
            kind, start = self.kind[v], place_of("row", shape[: self.split], lead)
            place = place_of("at", shape[self.split :], inner)
            if v in self.ahead:
                value = self._element(v, f"({start}) + {place}" if axes else start)
                self._loads.append(f"        {kind} {name}{f'[{self.each}]' if axes else f' = {value}'};")
                self._loads += self._load(name, value) if axes else []
            elif not axes:
                self._loads.append(f"        const {kind} {name} = p_{self.names[v]}[{start}];")
            else:
                packed = self.pack > 1 and axes == [(self.n, 1)] and self.layouts[v].aligned
                packed = packed and all(s % self.pack == 0 for _, s in _joined(shape[: self.split], lead))
                self._loads.append(f"        const {kind}* r_{name} = p_{self.names[v]} + ({start});")
                self._loads.append(f"        {kind} {name}[{self.each}];")
                self._loads += self._load_packs(name, kind) if packed else self._load(name, f"r_{name}[{place}]")
        name = self._read[v, shape]
        return f"{name}[k]" if axes else name

    @property
    def _at(self) -> str:
        """Return the statement with the number of an element in the row. Beyond the row it is that of the first one."""
        return f"const {self.index} at = {'i' if self.whole else f'i < {self.n} ? i : 0'};"

    def _load(self, name: str, value: str) -> list[str]:
        """Return the loop that reads a thread's elements."""
        return self._each(f"{self._at} {name}[k] = {value};")

    def _load_packs(self, name: str, kind: str) -> list[str]:
        pack = f"Pack<{kind}, {self.pack}>"
        read = f"const {pack} w = *reinterpret_cast<const {pack}*>(r_{name} + at);"
        return self._each(
            f"{self._at} {read} for (int j = 0; j < {self.pack}; j++) {name}[k + j] = w.at[j];", self.pack
        )

    def _member(self, instruction: Instruction) -> list[str]:
        """Return the lines that compute an instruction for a row."""
        out = instruction.results[0]
        name, kind, full = self.names[out], self.kind[out], self._is_full(out.shape)
        reduction = reduction_of(instruction)
        if reduction is not None:
            x = instruction.operands[0]
            value = self._operands(instruction, x.shape)[x]
            if out in self.totals:
                return self._add(out, x, value)
            line = f"{name} = {self.step(out, name, value)};"
            steps = self._each(line, guarded=True) if self._is_full(x.shape) else [f"        {line}"]
            lines = [f"        {kind} {name} = {self.start(out)};", *steps]
            lines += self.over_team(out, name) if self._is_full(x.shape) else []
            return [*lines, f"        {name} = {name}{self.share(out)};"] if self.share(out) else lines
        values = self._operands(instruction, out.shape)
        text = values[instruction.reads()[0]] if is_reshape(instruction) else expression(instruction, values)
        if full:
            return [f"    {self._declared(name, out, True)}", *self._each(f"{name}[k] = {text};")]
        return [f"        const {kind} {name} = {text};"]

    def _add(self, v: Variable, x: Variable, value: str) -> list[str]:
        """Return the lines that add a row to a total."""
        total = f"t_{self.names[v]}" + ("[k]" if v.size > 1 else "")
        line = f"{total} = {self.step(v, total, value)};"
        if not self._is_full(x.shape):
            return [f"        if (valid) {line}"]
        return self._each(f"if (valid) {line}", guarded=v.size == 1)

    def _store(self, v: Variable) -> list[str]:
        """Return the lines that write a result. Results are in row-major order."""
        name, kind = self.names[v], self.kind[v]
        if not self._is_full(v.shape):
            return [f"        if (valid && me == 0) q_{name}[row] = {name};"]
        place = f"q_{name} + row * {self.n} + i"
        if self.pack == 1:
            return self._each(f"if (valid) *({place}) = {name}[k];", guarded=True)
        pack = f"Pack<{kind}, {self.pack}>"
        line = f"{pack} w; for (int j = 0; j < {self.pack}; j++) w.at[j] = {name}[k + j]; "
        line += f"if (valid) *reinterpret_cast<{pack}*>({place}) = w;"
        return self._each(f"{{ {line} }}", self.pack, guarded=True)

    # ------------------------------------------------------------------ totals

    def _total(self, v: Variable) -> list[str]:
        """Return the lines after all rows of a block, which combine the totals of its teams."""
        n, kind, width = self.names[v], self.kind[v], v.size
        x = self.sources[v]
        share = "" if self.finishers else self.share(v)
        target = f"q_{n}[({self.index})blockIdx.x * {width} + i]"
        if width > 1 and self.beside == 1:
            return self._each(f"{target} = t_{n}[k]{share};", guarded=True)
        lines = [f"    {kind}* const j_{n} = reinterpret_cast<{kind}*>(joint);", "    __syncthreads();"]
        if width > 1:
            lines += self._each(f"j_{n}[team * {width} + i] = t_{n}[k];", guarded=True)
        else:
            lines += self.over_team(v, f"t_{n}") if self._is_full(x.shape) else []
            lines.append(f"    if (me == 0) j_{n}[team] = t_{n};")
        step = self.step(v, "t", f"j_{n}[w * {width} + i]")
        return [
            *lines,
            "    __syncthreads();",
            f"    for (int i = threadIdx.x; i < {width}; i += {self.threads}) {{",
            f"        {kind} t = j_{n}[i];",
            f"        for (int w = 1; w < {self.beside}; w++) t = {step};",
            f"        {target} = t{share};",
            "    }",
        ]

    def _finish(self) -> list[str]:
        """Return the kernel that adds the totals of all blocks, always in the same order."""
        lines = [f'extern "C" __global__ void finish({", ".join(self.ends())}) {{']
        lines.append(f"    const int lane = threadIdx.x / {WARP}, i = blockIdx.x * {WARP} + threadIdx.x % {WARP};")
        for v in self.totals:
            n, width = self.names[v], v.size
            step = self.step(v, f"t_{n}", f"p_{n}[({self.index})b * {width} + i]")
            other = self.step(v, f"t_{n}", f"s_{n}[threadIdx.x % {WARP} + {WARP} * b]")
            lines += [
                f"    {self.kind[v]} t_{n} = {self.start(v)};",
                f"    if (i < {width}) for (int b = lane; b < {self.blocks}; b += {LANES}) t_{n} = {step};",
                f"    __shared__ {self.kind[v]} s_{n}[{THREADS}];",
                f"    s_{n}[threadIdx.x] = t_{n};",
                "    __syncthreads();",
                f"    if (lane == 0 && i < {width}) {{",
                f"        for (int b = 1; b < {LANES}; b++) t_{n} = {other};",
                f"        q_{n}[i] = t_{n}{self.share(v)};",
                "    }",
            ]
        return [*lines, "}", ""]


def _power(count: int) -> int:
    """Return the smallest power of two that is at least ``count``."""
    return 1 << max(0, count - 1).bit_length()

"""The CUDA source of a fusion group.

A kernel makes one pass over memory. A second, small kernel completes the reductions. Generating the source needs
neither CuPy nor a GPU.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agrad.engine.rulecalls import RulePrimitive
from agrad.jit.passes.fusion import Contiguous, Group
from agrad.jit.passes.precision import Rounding
from agrad.jit.passes.tiling import is_cast, reduction_of
from agrad.jit.program import HOST, Instruction, Variable, names_of
from agrad.kernels.cupy.expressions import ARRAYS, CHOICES, COMPARISONS, FLOATS, INTEGERS, ROUNDINGS, functions
from agrad.kernels.cupy.source import THREADS, joint_kernel, most_parts

BLOCKS = 1024
"""The most blocks of a launch, the same on every GPU: sums are then added in the same order everywhere."""

PACK_BYTES = 16
"""Bytes that a thread loads at once: the widest load there is."""

WARP = 32
"""The threads that exchange values without memory."""

C_TYPES = {"?": "bool", "i": "int", "l": "long", "f": "float", "d": "double"}
"""The C types of the dtypes that kernels are generated for, by their characters."""

NARROW = dict.fromkeys("eH", "unsigned short")
"""The types of results of ``Rounding``: the bits of float16, and of bfloat16 in uint16."""


def _char(dtype: Any) -> str:
    return "" if dtype == HOST else str(np.dtype(dtype).char)


def _common(instruction: Instruction) -> Any:
    """Return the dtype in which operands are compared, or None.

    Boolean arrays are compared only with each other, and integers with integers: another number would have to keep its
    own type.
    """
    dtypes = [v.dtype for v in instruction.arrays]
    if not dtypes:
        return None
    found = np.result_type(*dtypes)
    numbers = [v for v in instruction.operands if not isinstance(v, Variable) or v.on_host]
    if found.kind == "f" or not numbers:
        return found
    limits = np.iinfo(found) if found.kind == "i" else None
    fits = limits is not None and all(type(v) is int and limits.min <= v <= limits.max for v in numbers)
    return found if fits else None


def _known_dtypes(instruction: Instruction) -> bool:
    arrays = [*instruction.arrays, *[v for v in instruction.results if not v.on_host]]
    numbers = [v for v in instruction.operands if not isinstance(v, Variable)]
    return all(_char(v.dtype) in C_TYPES for v in arrays) and all(type(n) in (bool, int, float) for n in numbers)


def has_cuda_expression(instruction: Instruction) -> bool:
    """Return True for an elementwise instruction that has an expression in C."""
    name, out = instruction.name, instruction.outputs[0]
    if isinstance(instruction.operation, Rounding | Contiguous):
        return True
    if out is None or not _known_dtypes(instruction):
        return False
    if is_cast(instruction):
        return set(instruction.settings) <= {"dtype", "copy"} and len(instruction.operands) == 1
    if name in CHOICES:
        return True
    if instruction.settings:
        return False
    if isinstance(instruction.operation, RulePrimitive) and name not in FLOATS:
        return False
    if name in FLOATS:
        count = sum(f"{{{k}}}" in FLOATS[name] for k in range(3))
        plain = all(not isinstance(v, Variable) or v.on_host or v.dtype == out.dtype for v in instruction.operands)
        if np.dtype(out.dtype).kind == "i":
            numbers = [v for v in instruction.operands if not isinstance(v, Variable) or v.on_host]
            plain = plain and name in INTEGERS and all(type(v) is int for v in numbers)
        return len(instruction.operands) == count and plain and _char(out.dtype) != "?"
    if name in COMPARISONS:
        return _common(instruction) is not None
    return name in ARRAYS and len(instruction.arrays) == len(instruction.operands)


def literal(value: Any, kind: str) -> str:
    """Return a Python number in C. Infinities and NaN are written as bits."""
    if type(value) is bool:
        return f"{kind}({'true' if value else 'false'})"
    if type(value) is int and kind in ("int", "long"):
        return f"{kind}({value})"
    number = float(value)
    if number != number:
        return f"{kind}(__int_as_float(0x7fc00000))"
    if number in (float("inf"), float("-inf")):
        return f"{kind}({'-' if number < 0 else ''}__int_as_float(0x7f800000))"
    return f"{kind}({number!r})"


def expression(instruction: Instruction, names: Mapping[Variable, str]) -> str:
    """Return the C expression of one element of an instruction's result."""
    out = instruction.outputs[0]
    assert out is not None
    if isinstance(instruction.operation, Rounding):
        return f"{ROUNDINGS[_char(out.dtype)]}({names[instruction.operands[0]]})"
    if isinstance(instruction.operation, Contiguous):
        return names[instruction.operands[0]]
    name, kind = instruction.name, C_TYPES[_char(out.dtype)]

    def words(kind: str | None, values: Any = instruction.operands) -> list[str]:
        made = []
        for v in values:
            if not isinstance(v, Variable):
                made.append(literal(v, kind or "double"))
            else:
                made.append(names[v] if kind is None else f"{kind}({names[v]})")
        return made

    if is_cast(instruction):
        text = words(None)[0]
    elif name in CHOICES:
        condition, *values = instruction.operands
        text = CHOICES[name].replace("T(", f"{kind}(").format(*words(None, [condition]), *words(kind, values))
    elif name in COMPARISONS:
        text = COMPARISONS[name].format(*words(C_TYPES[_char(_common(instruction))]))
    elif name in ARRAYS:
        text = ARRAYS[name].format(*words(None))
    else:
        text = FLOATS[name].replace("T(", f"{kind}(").format(*words(kind))
    return f"{kind}({text})"


class Source:
    """The parts of the source that elementwise groups and groups of rows share.

    arrays: the inputs that are read at each element or row. singles: the inputs of one element. totals: the results of
    reductions that are known after the last block. results: the other outputs.
    """

    name: str
    """The name of the first kernel. The second one is ``finish``."""
    pack: int
    blocks: int
    threads = team = THREADS
    """The threads of a block, and the threads that reduce values together, a power of two."""
    finishers = 1
    """Blocks of the kernel ``finish``, 0 if there is none."""

    def __init__(self, group: Group) -> None:
        self.group, self.program, self.names = group, group.program, names_of(group.program)
        self.size: int = math.prod(group.shape)
        found = {i.results[0]: (i, reduction_of(i)) for i in group.program.instructions}
        self.reductions: dict[Variable, Any] = {v: r for v, (_, r) in found.items() if r is not None}
        self.sources: dict[Variable, Any] = {v: found[v][0].operands[0] for v in self.reductions}
        """The operands of reductions, by their results."""
        self.totals: list[Variable] = [v for v, r in self.reductions.items() if r.is_total(group.split)]
        inputs, outputs = group.program.inputs, group.program.outputs
        self.arrays: list[Variable] = [v for v in inputs if not v.on_host and (v.size > 1 or v.shape == group.shape)]
        self.singles: list[Variable] = [v for v in inputs if v not in self.arrays]
        self.results: list[Any] = [v for v in outputs if v not in self.totals]
        known = (*inputs, *found)
        self.kind: dict[Variable, str] = {
            v: "double" if v.on_host else (C_TYPES | NARROW)[_char(v.dtype)] for v in known
        }

    def head(self) -> list[str]:
        """Return the functions at the start of every source."""
        return functions(any(isinstance(i.operation, Rounding) for i in self.program.instructions))

    def given(self) -> list[str]:
        """Return the parameters of the kernel that computes the elements."""
        parameters = self.forms("const {k}* p_{n}", self.arrays)
        for v in self.singles:
            parameters += self.forms("const {k}* p_{n}", (v,))
            parameters += self.forms("double n_{n}", (v,)) if v.on_host else []
        return parameters + self.forms("{k}* q_{n}", (*self.results, *self.totals))

    def ends(self) -> list[str]:
        """Return the parameters of the kernel that completes totals."""
        return self.forms("const {k}* p_{n}", self.totals) + self.forms("{k}* q_{n}", self.totals)

    def read_singles(self) -> list[str]:
        """Return the lines that read single values."""
        form = "    const {k} {n} = p_{n} ? *p_{n} : n_{n};", "    const {k} {n} = *p_{n};"
        members = [i for i in self.program.instructions if i.results[0] not in self.group.ahead]
        direct = {v for i in members for v in i.reads()}
        read = [v for v in self.singles if v in direct]
        return [line for v in read for line in self.forms(form[0] if v.on_host else form[1], (v,))]

    def forms(self, form: str, variables: Sequence[Variable]) -> list[str]:
        """Return ``form`` for each variable. {n} becomes its name, {k} its type."""
        return [form.format(n=self.names[v], k=self.kind[v]) for v in variables]

    def start(self, v: Variable) -> str:
        """Return the first total of a reduction."""
        neutral = self.reductions[v].combine.neutral
        # of the infinities, False and True are the neutral Booleans
        return literal(neutral > 0 if self.kind[v] == "bool" else neutral, self.kind[v])

    def step(self, v: Variable, total: str, value: str) -> str:
        """Return the expression of a reduction's next total."""
        return (FLOATS | ARRAYS)[self.reductions[v].combine.name].format(total, value)

    def over_team(self, v: Variable, name: str) -> list[str]:
        """Return the reduction of a value over a team. All its threads get the result."""
        width, n = min(self.team, WARP), self.names[v]
        lines = [
            f"        for (int half = {width // 2}; half > 0; half /= 2) {{",
            # evaluated by all threads: && and || would skip it in some
            f"            const {self.kind[v]} other = __shfl_xor_sync(0xffffffffu, {name}, half);",
            f"            {name} = {self.step(v, name, 'other')};",
            "        }",
        ]
        warps = self.team // WARP
        if warps < 2:
            return [*lines, f"        {name} = __shfl_sync(0xffffffffu, {name}, 0, {width});"]
        return [
            *lines,
            f"        __shared__ {self.kind[v]} s_{n}[{self.threads // WARP}];",
            "        __syncthreads();",
            f"        if (threadIdx.x % {WARP} == 0) s_{n}[threadIdx.x / {WARP}] = {name};",
            "        __syncthreads();",
            f"        {name} = s_{n}[team * {warps}];",
            f"        for (int w = 1; w < {warps}; w++) {name} = {self.step(v, name, f's_{n}[team * {warps} + w]')};",
        ]

    def share(self, v: Variable) -> str:
        """Return the division by the number of elements that ends a mean."""
        count = self.sources[v].size // v.size
        return f" / {self.kind[v]}({count}.0)" if self.reductions[v].averages else ""


class GroupSource(Source):
    """The CUDA text of a group, and the data of its launch.

    All instructions of the group satisfy ``has_cuda_expression``. The function ``run`` computes the share of one block,
    in packs of elements, and ``complete`` combines the totals of all blocks. The parameters of ``run`` are:

    - the arrays of the group's shape, aligned to packs;
    - the single values, a pointer each, and for host numbers a pointer to a double, or null, and the value;
    - the result arrays, and for each reduction an array of the partial results of the blocks.

    The parameters of ``complete`` are the partial results, then the arrays for the reductions' results. The text of
    both functions does not depend on the number of elements. A kernel calls them for several groups with the same text.

    Names in the text for a variable ``v``: ``p_v`` is its array, ``q_v`` its result array, ``n_v`` its value on the
    host, ``t_v`` a thread's total, and ``s_v`` the totals of a block's threads.
    """

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.index = "unsigned int" if self.size < 1 << 31 else "unsigned long long"
        self.pack: int = PACK_BYTES // max(np.dtype(v.dtype).itemsize for v in (*self.arrays, *self.results))
        """The number of elements that a thread loads at once."""
        self.name: str = f"{'updates' if group.overwrites else 'group'}_{self.pack}"
        self.blocks: int = max(1, min(-(-self.size // (THREADS * self.pack)), BLOCKS))
        self.finishers: int = min(1, len(self.totals)) if self.blocks > 1 else 0
        parts = [*self.head(), *self.element(), *self.run()]
        self.functions: str = "\n".join(parts + (self.complete() if self.totals else []))
        """The text of the functions, which is the same for groups that one kernel can compute."""
        self.most = most_parts(len(self.given()))
        """The largest number of groups that one kernel can compute."""

    def text(self, count: int = 1) -> str:
        """Return the text of the kernels for as many groups with the same functions."""
        each = THREADS * self.pack
        blocks = f"max(1ll, min((size + {each - 1}) / {each}, {BLOCKS}ll))"
        finish = joint_kernel("finish", "complete", count, blocks, self.ends()) if self.totals else ""
        return self.functions + joint_kernel(self.name, "run", count, blocks, self.given()) + finish

    def element(self) -> list[str]:
        """Return the function that computes one element and adds it to the totals."""
        parameters = self.forms("const {k}& {n}", (*self.arrays, *self.singles))
        parameters += self.forms("{k}& r_{n}", self.results) + self.forms("{k}& t_{n}", self.totals)
        lines = [f"__device__ inline void element({', '.join(parameters)}) {{"]
        for instruction in self.program.instructions:
            out = instruction.results[0]
            if out in self.reductions:
                total, x = f"t_{self.names[out]}", instruction.operands[0]
                lines.append(f"    {total} = {self.step(out, total, self.names[x])};")
            else:
                lines.append(f"    {self.kind[out]} {self.names[out]} = {expression(instruction, self.names)};")
        return [*lines, *self.forms("    r_{n} = {n};", self.results), "}", ""]

    def run(self) -> list[str]:
        """Return the function of a block.

        Its threads process packs of elements, then single elements.
        """
        place = f"{self.index} block, {self.index} blocks, {self.index} size"
        lines = [f"__device__ inline void run({place}, {', '.join(self.given())}) {{"]
        lines += ["    const int me = threadIdx.x, team = 0;"] if self.totals else []
        lines += self.read_singles()
        lines += [f"    {self.kind[v]} t_{self.names[v]} = {self.start(v)};" for v in self.totals]
        lines.append(f"    const {self.index} first = block * {THREADS} + threadIdx.x, step = blocks * {THREADS};")
        lines += self._packs()
        lines.append(f"    for ({self.index} i = size / {self.pack} * {self.pack} + first; i < size; i += step)")
        lines.append("        " + self._call("p_{n}[i]", "q_{n}[i]"))
        for v in self.totals:
            share = self._share_of_all(v)
            last = f"blocks == 1 ? t_{{n}}{share} : t_{{n}}" if share else "t_{n}"
            lines += [
                *self.over_team(v, f"t_{self.names[v]}"),
                *self.forms(f"    if (me == 0) q_{{n}}[block] = {last};", (v,)),
            ]
        return [*lines, "}", ""]

    def _share_of_all(self, v: Variable) -> str:
        """Return the division that ends a mean over all elements."""
        return f" / {self.kind[v]}(size)" if self.reductions[v].averages else ""

    def _packs(self) -> list[str]:
        """Return the loop over packs of elements, each read and written at once."""
        pack = f"Pack<{{k}}, {self.pack}>"
        return [
            f"    for ({self.index} i = first; i < size / {self.pack}; i += step) {{",
            *self.forms(f"        const {pack} w_{{n}} = reinterpret_cast<const {pack}*>(p_{{n}})[i];", self.arrays),
            *self.forms(f"        {pack} u_{{n}};", self.results),
            "        #pragma unroll",
            f"        for (int k = 0; k < {self.pack}; k++)",
            "            " + self._call("w_{n}.at[k]", "u_{n}.at[k]"),
            *self.forms(f"        reinterpret_cast<{pack}*>(q_{{n}})[i] = u_{{n}};", self.results),
            "    }",
        ]

    def _call(self, read: str, write: str) -> str:
        """Return the call of ``element`` with these forms of its arguments."""
        given = self.forms(read, self.arrays) + self.forms("{n}", self.singles)
        given += self.forms(write, self.results) + self.forms("t_{n}", self.totals)
        return f"element({', '.join(given)});"

    def complete(self) -> list[str]:
        """Return the function of one block that reduces the totals of all blocks in order."""
        place = f"{self.index} block, {self.index} blocks, {self.index} size"
        lines = [f"__device__ inline void complete({place}, {', '.join(self.ends())}) {{"]
        lines.append("    const int me = threadIdx.x, team = 0;")
        for v in self.totals:
            n, kind = self.names[v], self.kind[v]
            step = self.step(v, f"t_{n}", f"p_{n}[b]")
            lines.append(f"    {kind} t_{n} = {self.start(v)};")
            lines.append(f"    for (unsigned int b = me; b < blocks; b += {THREADS}) t_{n} = {step};")
            lines += [*self.over_team(v, f"t_{n}"), f"    if (me == 0) *q_{n} = t_{n}{self._share_of_all(v)};"]
        return [*lines, "}", ""]

"""The CUDA text of a fusion group: one pass over memory, and a second, small one where the group ends in reductions.

The text is made without CuPy or a GPU, so that it can be read, compiled and run anywhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agrad.engine.rulecalls import RuleCall
from agrad.jit.fusion import Group
from agrad.jit.ir import HOST, Instruction, Variable, names_of

THREADS = 256
"""Threads of a block; a power of two, as reductions halve it."""

BLOCKS = 1024
"""The most blocks of a launch. It is the same on every GPU, so that sums are added in the same order everywhere."""

PACK_BYTES = 16
"""Bytes that a thread loads at once where all arrays are aligned: the widest load there is."""

C_TYPES = {"?": "bool", "f": "float", "d": "double"}
"""The dtypes that kernels are generated for, by their character."""

_UNARY = {
    "negative": "-{0}", "positive": "{0}", "square": "{0} * {0}", "reciprocal": "T(1) / {0}",
    "sqrt": "sqrt({0})", "exp": "exp({0})", "expm1": "expm1({0})", "log": "log({0})", "log1p": "log1p({0})",
    "log2": "log2({0})", "log10": "log10({0})", "sin": "sin({0})", "cos": "cos({0})", "tan": "tan({0})",
    "asin": "asin({0})", "acos": "acos({0})", "atan": "atan({0})", "sinh": "sinh({0})", "cosh": "cosh({0})",
    "tanh": "tanh({0})", "asinh": "asinh({0})", "acosh": "acosh({0})", "atanh": "atanh({0})", "abs": "fabs({0})",
    "floor": "floor({0})", "ceil": "ceil({0})", "trunc": "trunc({0})", "round": "rint({0})",
    "sign": "({0} > T(0) ? T(1) : {0} < T(0) ? T(-1) : {0})",
    "relu": "({0} > T(0) || {0} != {0} ? {0} : T(0))",
    "sigmoid": "sigmoid_of({0})",
}  # fmt: skip
_BINARY = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "pow": "pow({0}, {1})", "atan2": "atan2({0}, {1})", "hypot": "hypot({0}, {1})", "copysign": "copysign({0}, {1})",
    "maximum": "larger({0}, {1})", "minimum": "smaller({0}, {1})",
    "relu.vjp:x": "({1} > T(0) ? {0} : T(0))",
    "tanh.vjp:x": "{0} * (T(1) - {1} * {1})",
    "sigmoid.vjp:x": "{0} * {1} * (T(1) - {1})",
}  # fmt: skip
_COMPARISONS = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_TESTS = {
    "isnan": "{0} != {0}",
    "isfinite": "{0} - {0} == 0",
    "isinf": "({0} - {0} != 0 && {0} == {0})",
    "logical_not": "!{0}",
}
_LOGIC = {"logical_and": "{0} && {1}", "logical_or": "{0} || {1}", "logical_xor": "bool({0}) != bool({1})"}
_REDUCTIONS = {"sum": "total + value", "mean": "total + value", "max": "larger(total, value)"}
_REDUCTIONS["min"] = "smaller(total, value)"

_INFINITY = "__int_as_float(0x7f800000)"

_HEAD = """
template <class T> __device__ inline T larger(T a, T b) { return a >= b || a != a ? a : b; }
template <class T> __device__ inline T smaller(T a, T b) { return a <= b || a != a ? a : b; }
template <class T> __device__ inline T sigmoid_of(T x) {
    T e = exp(-fabs(x));  // never overflows
    return x >= T(0) ? T(1) / (T(1) + e) : e / (T(1) + e);
}
template <class T, int W> struct alignas(sizeof(T) * W) Pack { T at[W]; };
"""


def _char(dtype: Any) -> str:
    return "" if dtype == HOST else str(np.dtype(dtype).char)


def _common(instruction: Instruction) -> Any:
    """The dtype that operands are compared in: Python numbers take that of the arrays; None where it is no plain one.

    A number between floats stands for itself, so arrays of truth values alone are compared with each other only.
    """
    dtypes = [v.dtype for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
    if not dtypes:
        return None
    found = np.result_type(*dtypes)
    numbers = [v for v in instruction.operands if not isinstance(v, Variable) or v.on_host]
    return None if numbers and found.char == "?" else found


def _known_dtypes(instruction: Instruction) -> bool:
    arrays = [v for v in (*instruction.operands, *instruction.outputs) if isinstance(v, Variable) and not v.on_host]
    numbers = [v for v in instruction.operands if not isinstance(v, Variable)]
    return all(_char(v.dtype) in C_TYPES for v in arrays) and all(type(n) in (bool, int, float) for n in numbers)


def has_words(instruction: Instruction) -> bool:
    """Whether there is an expression in C for an instruction that works element by element."""
    name, out = instruction.name, instruction.outputs[0]
    if out is None or not _known_dtypes(instruction):
        return False
    if name in ("astype", "cast"):
        return set(instruction.settings) <= {"dtype", "copy"} and len(instruction.operands) == 1
    if instruction.settings:
        return False
    if isinstance(instruction.operation, RuleCall) and name not in _BINARY:
        return False
    if name in _UNARY or name in _BINARY:
        places = len(instruction.operands) == (1 if name in _UNARY else 2)
        plain = all(not isinstance(v, Variable) or v.on_host or v.dtype == out.dtype for v in instruction.operands)
        return places and plain and _char(out.dtype) in "fd"
    if name in _COMPARISONS:
        return _common(instruction) is not None
    if name in _LOGIC or name in _TESTS:
        return all(isinstance(v, Variable) and not v.on_host for v in instruction.operands)
    return name == "where" and len(instruction.operands) == 3


def _literal(value: Any, kind: str) -> str:
    """A Python number as C; infinities and NaN by their bits, as they have no literal."""
    if type(value) is bool:
        return f"{kind}({'true' if value else 'false'})"
    number = float(value)
    if number != number:
        return f"{kind}(__int_as_float(0x7fc00000))"
    if number in (float("inf"), float("-inf")):
        return f"{kind}({'-' if number < 0 else ''}{_INFINITY})"
    return f"{kind}({number!r})"


def _line(instruction: Instruction, names: Mapping[Variable, str]) -> str:
    """The C statement that computes an instruction's result of one element."""
    out = instruction.outputs[0]
    assert out is not None
    name, kind = instruction.name, C_TYPES[_char(out.dtype)]

    def words(kind: str | None, values: Any = instruction.operands) -> list[str]:
        made = []
        for v in values:
            if not isinstance(v, Variable):
                made.append(_literal(v, kind or "double"))
            else:
                made.append(names[v] if kind is None else f"{kind}({names[v]})")
        return made

    if name in ("astype", "cast"):
        text = words(None)[0]
    elif name == "where":
        text = f"{words(None, instruction.operands[:1])[0]} ? {' : '.join(words(kind, instruction.operands[1:]))}"
    elif name in _COMPARISONS:
        a, b = words(C_TYPES[_char(_common(instruction))])
        text = f"{a} {_COMPARISONS[name]} {b}"
    elif name in _LOGIC or name in _TESTS:
        text = ({**_LOGIC, **_TESTS}[name]).format(*words(None))
    else:
        text = ({**_UNARY, **_BINARY}[name]).replace("T(", f"{kind}(").format(*words(kind))
    return f"{kind} {names[out]} = {kind}({text});"


@dataclass(frozen=True)
class GroupSource:
    """A group's CUDA text and how it is launched.

    Parameters of ``group_1`` (one element at a time) and ``group_N`` (packs): the arrays of the group's shape, the
    single values (a pointer each; numbers of the host a pointer to a double, or null, and their value), the result
    arrays, and one array of ``blocks`` partial results for each reduction. Those of ``finish``: the partial results,
    then the reductions' results.
    """

    text: str
    size: int
    pack: int
    """Elements a thread loads at once where the arrays are aligned."""
    blocks: int
    arrays: tuple[Variable, ...]
    singles: tuple[Variable, ...]
    results: tuple[Variable, ...]
    totals: tuple[Variable, ...]


def group_source(group: Group, blocks: int | None = None) -> GroupSource:
    """The text of a group all of whose instructions have words; ``blocks`` in the place of ``BLOCKS``."""
    program, names = group.program, names_of(group.program)
    size = int(np.prod(group.shape, dtype=np.int64))
    arrays = tuple([v for v in program.inputs if v.shape == group.shape and not v.on_host])
    singles = tuple([v for v in program.inputs if v.on_host or v.shape != group.shape])
    reductions = [i for i in program.instructions if i.results[0].shape == ()]
    totals = tuple([i.results[0] for i in reductions])
    results = tuple([v for v in program.outputs if v.shape == group.shape])
    widest = max(np.dtype(v.dtype).itemsize for v in (*arrays, *results))
    pack = PACK_BYTES // widest
    count = max(1, min(-(-size // (THREADS * pack)), blocks or BLOCKS))
    kind = {v: "double" if v.on_host else C_TYPES[_char(v.dtype)] for v in (*arrays, *singles, *results, *totals)}
    index = "unsigned int" if size < 1 << 31 else "unsigned long long"

    element = [f"const {kind[v]}& {names[v]}" for v in (*arrays, *singles)]
    element += [f"{kind[v]}& r_{names[v]}" for v in results]
    element += [f"{kind[v]}& t_{names[v]}" for v in totals]
    body = []
    for instruction in program.instructions:
        if instruction in reductions:
            (x,), out = instruction.operands, instruction.results[0]
            how = _REDUCTIONS[instruction.name]
            body.append(f"    t_{names[out]} = {how};".replace("total", f"t_{names[out]}").replace("value", names[x]))
        else:
            body.append("    " + _line(instruction, names))
    body += [f"    r_{names[v]} = {names[v]};" for v in results]
    text = [_HEAD, f"__device__ inline void element({', '.join(element)}) {{", *body, "}", ""]
    for width in dict.fromkeys((1, pack)):
        text += _kernel(width, size, index, arrays, singles, results, reductions, kind, names)
    if totals:
        text += _finish(count, size, reductions, kind, names)
    return GroupSource("\n".join(text), size, pack, count, arrays, singles, results, totals)


def _start(instruction: Instruction, kind: str) -> str:
    """What a reduction begins with."""
    how = {"max": f"-{kind}({_INFINITY})", "min": f"{kind}({_INFINITY})"}
    return how.get(instruction.name, f"{kind}(0)")


def _over_threads(instruction: Instruction, kind: str, name: str) -> list[str]:
    """The lines that reduce what the threads of a block have found, by halves; thread 0 has the result."""
    how = _REDUCTIONS[instruction.name].replace("total", f"s_{name}[me]").replace("value", f"s_{name}[me + half]")
    return [
        f"    __shared__ {kind} s_{name}[{THREADS}];",
        f"    s_{name}[me] = t_{name};",
        f"    for (unsigned int half = {THREADS // 2}; half > 0; half /= 2) {{",
        "        __syncthreads();",
        f"        if (me < half) s_{name}[me] = {how};",
        "    }",
    ]


def _kernel(
    width: int,
    size: int,
    index: str,
    arrays: tuple[Variable, ...],
    singles: tuple[Variable, ...],
    results: tuple[Variable, ...],
    reductions: list[Instruction],
    kind: Mapping[Variable, str],
    names: Mapping[Variable, str],
) -> list[str]:
    """The kernel whose threads work on ``width`` elements at once, and on what is left over one by one."""
    parameters = [f"const {kind[v]}* p_{names[v]}" for v in arrays]
    for v in singles:
        parameters.append(f"const {kind[v]}* p_{names[v]}")
        if v.on_host:
            parameters.append(f"double n_{names[v]}")
    parameters += [f"{kind[v]}* q_{names[v]}" for v in results]
    totals = [i.results[0] for i in reductions]
    parameters += [f"{kind[v]}* q_{names[v]}" for v in totals]
    lines = [f'extern "C" __global__ void group_{width}({", ".join(parameters)}) {{']
    lines += ["    const unsigned int me = threadIdx.x;"] if totals else []
    for v in singles:
        value = f"p_{names[v]} ? *p_{names[v]} : n_{names[v]}" if v.on_host else f"*p_{names[v]}"
        lines.append(f"    const {kind[v]} {names[v]} = {value};")
    for i in reductions:
        v = i.results[0]
        lines.append(f"    {kind[v]} t_{names[v]} = {_start(i, kind[v])};")
    lines.append(f"    const {index} first = ({index})blockIdx.x * {THREADS} + threadIdx.x;")
    lines.append(f"    const {index} step = ({index})gridDim.x * {THREADS};")

    def call(read: Callable[[str], str], write: Callable[[str], str]) -> str:
        given = [read(names[v]) for v in arrays] + [names[v] for v in singles]
        given += [write(names[v]) for v in results] + [f"t_{names[v]}" for v in totals]
        return f"element({', '.join(given)});"

    whole = size // width
    if width > 1 and whole:
        lines.append(f"    for ({index} i = first; i < {whole}; i += step) {{")
        for v in arrays:
            pack = f"Pack<{kind[v]}, {width}>"
            lines.append(f"        const {pack} w_{names[v]} = reinterpret_cast<const {pack}*>(p_{names[v]})[i];")
        lines += [f"        Pack<{kind[v]}, {width}> u_{names[v]};" for v in results]
        lines += ["        #pragma unroll", f"        for (int k = 0; k < {width}; k++)"]
        lines.append("            " + call(lambda n: f"w_{n}.at[k]", lambda n: f"u_{n}.at[k]"))
        for v in results:
            lines.append(f"        reinterpret_cast<Pack<{kind[v]}, {width}>*>(q_{names[v]})[i] = u_{names[v]};")
        lines.append("    }")
    left = whole * width if width > 1 else 0
    if left < size:
        lines.append(f"    for ({index} i = {left} + first; i < {size}; i += step)")
        lines.append("        " + call(lambda n: f"p_{n}[i]", lambda n: f"q_{n}[i]"))
    for i in reductions:
        v = i.results[0]
        lines += _over_threads(i, kind[v], names[v])
        lines.append(f"    if (me == 0) q_{names[v]}[blockIdx.x] = s_{names[v]}[0];")
    return [*lines, "}", ""]


def _finish(
    count: int, size: int, reductions: list[Instruction], kind: Mapping[Variable, str], names: Mapping[Variable, str]
) -> list[str]:
    """The kernel of one block that reduces the partial results of all blocks, always in the same order."""
    totals = [i.results[0] for i in reductions]
    parameters = [f"const {kind[v]}* p_{names[v]}" for v in totals] + [f"{kind[v]}* q_{names[v]}" for v in totals]
    lines = [f'extern "C" __global__ void finish({", ".join(parameters)}) {{']
    lines.append("    const unsigned int me = threadIdx.x;")
    for i in reductions:
        v = i.results[0]
        n = names[v]
        how = _REDUCTIONS[i.name].replace("total", f"t_{n}").replace("value", f"p_{n}[b]")
        lines.append(f"    {kind[v]} t_{n} = {_start(i, kind[v])};")
        lines.append(f"    for (unsigned int b = me; b < {count}u; b += {THREADS}) t_{n} = {how};")
        lines += _over_threads(i, kind[v], n)
        share = f" / {kind[v]}({size}.0)" if i.name == "mean" else ""
        lines.append(f"    if (me == 0) *q_{n} = s_{n}[0]{share};")
    return [*lines, "}", ""]

"""Updates of all parameters of an optimizer as one kernel."""

import itertools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import load
from agrad.backends.cupy.elementwise import adam_values, on_each, sgd_values
from agrad.backends.cupy.source import ELEMENTWISE, THREADS
from agrad.engine.operation import Operation
from agrad.jit.lower.cuda.source import C_TYPES, PACK, PACK_BYTES, literal
from agrad.jit.lower.cuda.streams import module
from agrad.jit.program import Instruction, Program, Variable

MOST = 32
"""The most parameters of a launch: kernels take 4096 bytes of arguments."""


class Update(NamedTuple):
    """An update of a parameter: a kernel of ``ELEMENTWISE`` and what it takes."""

    kernel: str
    arrays: tuple[Variable, ...]
    numbers: tuple[Any, ...]
    """Numbers, or arrays of shape (), in the order in which the kernel takes them after the arrays."""
    overwritten: tuple[int, ...]
    """The places in ``arrays`` that the outputs replace."""
    outputs: tuple[Variable | None, ...]
    donate: Any


def update_of(instruction: Instruction) -> Update | None:
    """Return an instruction as an update that a joint kernel can compute, or None."""
    operands, outputs = instruction.operands, instruction.outputs
    settings = dict(instruction.settings)
    donate = settings.pop("donate", False)
    if any(isinstance(v, Variable) for name, v in settings.items() if name != "lr"):
        return None
    if instruction.name == "adam_update" and len(operands) == 7:  # of ``with_numbers_of_adam``
        found = Update("adam", operands[:4], adam_values(*operands[4:], **settings), (0, 2, 3), outputs, donate)
    elif instruction.name == "sgd_update":
        name, values = sgd_values(**settings)
        found = Update(name, operands, values, (0, 2), outputs, donate)
        if name == "sgd_plain":  # it has no velocity
            if outputs[1] is not None:
                return None
            found = Update(name, operands[:2], values, (0,), outputs[:1], donate)
    else:
        return None
    return found if _fits(found) else None


def _fits(update: Update) -> bool:
    first = update.arrays[0]
    alike = all(isinstance(v, Variable) and v.shape == first.shape and v.dtype == first.dtype for v in update.arrays)
    if not alike or 0 in first.shape or np.dtype(first.dtype).char not in "fd":
        return False
    numbers = [v for v in update.numbers if isinstance(v, Variable)]
    return all(v.shape == () and not v.on_host and v.dtype == first.dtype for v in numbers)


class Updates(Operation):
    """Several updates as one operation on their arrays, then their numbers.

    ``flags`` allow them to be in place.
    """

    name = "updates"

    def __init__(self, updates: Sequence[Update]) -> None:
        self.updates = updates
        self.numbers = list(dict.fromkeys(v for u in updates for v in u.numbers if isinstance(v, Variable)))
        starts = itertools.accumulate((len(u.arrays) for u in updates), initial=0)
        places = [tuple([start + i for i in u.overwritten]) for start, u in zip(starts, updates, strict=False)]
        self.overwrites = tuple([i for some in places for i in some])
        self.flags: dict[str, tuple[int, ...]] = {f"donate{k}": some for k, some in enumerate(places)}
        self.outputs = tuple([f"y{i}" for i in range(len(self.overwrites))])

    def bind(self, *given: Any, **flags: Any) -> tuple[Any, ...]:
        """See ``Operation.bind``."""
        return self.function_of(None)(*given, **flags)

    def function_of(self, kind: type | None) -> Any:
        """See ``Operation.function_of``."""
        return load("cupy").placed(self._run)

    def _run(self, *given: Any, **flags: Any) -> tuple[Any, ...]:
        rest = list(given)
        arrays = [[rest.pop(0) for _ in u.arrays] for u in self.updates]
        numbers = dict(zip(self.numbers, rest, strict=True))
        empty = sys.modules["cupy"].empty_like
        outputs = [
            [some[i] if flags[f"donate{k}"] else empty(some[0]) for i in u.overwritten]
            for k, (u, some) in enumerate(zip(self.updates, arrays, strict=True))
        ]
        joint = []
        for k, (u, some) in enumerate(zip(self.updates, arrays, strict=True)):
            if all(a.flags.c_contiguous for a in (*some, *outputs[k])):
                joint.append(k)
            else:
                on_each(
                    u.kernel, *some, *[numbers[v] if isinstance(v, Variable) else v for v in u.numbers], *outputs[k]
                )
        for start in range(0, len(joint), MOST):
            self._launch([(self.updates[k], arrays[k], outputs[k]) for k in joint[start : start + MOST]], numbers)
        return tuple([a for some in outputs for a in some])

    def _launch(self, parts: list[tuple[Update, list[Any], list[Any]]], numbers: dict[Variable, Any]) -> None:
        """Launch one kernel for some updates."""
        used = list(dict.fromkeys(v for u, _, _ in parts for v in u.numbers if isinstance(v, Variable)))
        sizes = []
        for _, arrays, outputs in parts:
            dtype = arrays[0].dtype
            aligned = all(a.data.ptr % PACK_BYTES == 0 for a in (*arrays, *outputs))
            sizes.append((dtype.char, arrays[0].size, PACK_BYTES // dtype.itemsize if aligned else 1))
        text, blocks = source([u for u, _, _ in parts], sizes, used)
        pointers = [a for _, arrays, outputs in parts for a in (*arrays, *outputs)]
        kernel = module(text).get_function("updates")
        kernel((blocks,), (THREADS,), (*pointers, *[numbers[v] for v in used]))


def source(
    updates: Sequence[Update], sizes: Sequence[tuple[str, int, int]], used: Sequence[Variable]
) -> tuple[str, int]:
    """Return the source of a kernel for updates, and its blocks.

    sizes: the dtype, the elements and the elements a thread loads at once, of each update. used: the numbers that are
    arrays. The kernel takes the inputs and outputs of each update, then these numbers.
    """
    parameters, calls, block = [], [], 0
    for k, (u, (char, n, width)) in enumerate(zip(updates, sizes, strict=True)):
        kind = C_TYPES[char]
        inputs = [f"x{k}_{i}" for i in range(len(u.arrays))]
        outputs = [f"y{k}_{i}" for i in range(len(u.outputs))]
        # without __restrict__: an update in place reads and writes one array
        parameters += [f"const {kind}* {x}" for x in inputs] + [f"{kind}* {y}" for y in outputs]
        numbers = [f"*q{used.index(v)}" if isinstance(v, Variable) else literal(v, _kind(v, kind)) for v in u.numbers]
        last = block + -(-n // (width * THREADS))
        given = ", ".join([f"blockIdx.x - {block}", f"{n}", *inputs, *outputs, *numbers])
        calls.append(f"    if (blockIdx.x < {last}) return {u.kernel}_of<{kind}, {width}>({given});")
        block = last
    parameters += [f"const {C_TYPES[np.dtype(v.dtype).char]}* q{i}" for i, v in enumerate(used)]
    functions = [_function(name, count) for name, count in dict.fromkeys((u.kernel, len(u.arrays)) for u in updates)]
    kernel = f'extern "C" __global__ void updates({", ".join(parameters)})'
    return "\n".join([PACK, *functions, f"{kernel} {{", *calls, "}\n"]), block


def _kind(value: Any, kind: str) -> str:
    return "bool" if type(value) is bool else kind


def _function(name: str, count: int) -> str:
    """Return a kernel of ``ELEMENTWISE`` as functions of an element and of a block.

    count: the number of its arrays.
    """
    entry = ELEMENTWISE[name]
    declared = [part.split() for part in entry.inputs.split(", ")]
    made = [part.split()[1] for part in entry.outputs.split(", ")]
    arrays, numbers = [word for _, word in declared[:count]], declared[count:]
    scalars = "".join(f", {kind} {word}" for kind, word in numbers)
    words = "".join(f", {word}" for _, word in numbers)
    one = ", ".join([f"T {a}" for a in arrays]) + scalars + "".join(f", T& {y}" for y in made)
    whole = ", ".join([f"const T* {a}" for a in arrays] + [f"T* {y}" for y in made]) + scalars
    loads = " ".join(f"Pack<T, W> {a}_ = *(const Pack<T, W>*)({a} + i);" for a in arrays)
    results = " ".join(f"Pack<T, W> {y}_;" for y in made)
    packed = ", ".join(f"{a}_.at[j]" for a in arrays) + words + "".join(f", {y}_.at[j]" for y in made)
    stores = " ".join(f"*(Pack<T, W>*)({y} + i) = {y}_;" for y in made)
    # results go through variables, as an update in place reads what it writes
    parts = " ".join(f"T {y}_;" for y in made)
    single = ", ".join(f"{a}[i]" for a in arrays) + words + "".join(f", {y}_" for y in made)
    writes = " ".join(f"{y}[i] = {y}_;" for y in made)
    return f"""
template <class T> __device__ inline void {name}_one({one}) {{ {entry.body} }}
template <class T, int W> __device__ inline void {name}_of(long long block, long long n, {whole}) {{
    long long i = (block * {THREADS} + threadIdx.x) * W;
    if (i + W <= n) {{
        {loads} {results}
        for (int j = 0; j < W; j++) {name}_one<T>({packed});
        {stores}
    }} else {{
        for (; i < n; i++) {{ {parts} {name}_one<T>({single}); {writes} }}
    }}
}}
"""


def with_joint_updates(program: Program) -> Program:
    """Compute updates by one instruction, in the place of the last one.

    An update whose results are read before that place stays where it is.
    """
    found = {at: u for at, i in enumerate(program.instructions) if (u := update_of(i)) is not None}
    last = max(found, default=-1)
    read: set[Variable] = set()
    for at in range(last, -1, -1):
        instruction = program.instructions[at]
        if at in found and not read.isdisjoint(instruction.results):
            del found[at]
        read.update(instruction.reads())
    if last not in found or len(found) < 2:
        return program
    operation = Updates(list(found.values()))
    arrays = [v for u in operation.updates for v in u.arrays]
    flags = dict(zip(operation.flags, [u.donate for u in operation.updates], strict=True))
    outputs = tuple([v for u in operation.updates for v in u.outputs])
    joint = Instruction(operation, (*arrays, *operation.numbers), flags, outputs)
    kept = [joint if at == last else i for at, i in enumerate(program.instructions) if at == last or at not in found]
    return program.with_instructions(kept)

"""Lowering for CuPy: CUDA graphs, with fusion groups as generated kernels.

Instructions that no graph can hold run between graphs. Products use cuBLASLt, since CuPy refuses its own cuBLAS calls
in a capture. The function of an instruction runs on the device of its arrays, by ``Backend.placed``.
"""

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.backends.cupy.elementwise import adam_numbers, adam_with_numbers
from agrad.backends.cupy.products import gemm
from agrad.jit.lower.cuda.epilogues import shape_of
from agrad.jit.lower.cuda.graphs import GraphProgram
from agrad.jit.lower.cuda.products import absence, is_product, product_function
from agrad.jit.lower.cuda.rows import Layout, RowSource
from agrad.jit.lower.cuda.scatter import scatter_function
from agrad.jit.lower.cuda.segments import is_view, launches
from agrad.jit.lower.cuda.source import PACK_BYTES, THREADS, GroupSource, Source
from agrad.jit.lower.cuda.streams import module, result_array, runs_as_part
from agrad.jit.lower.cuda.updates import with_joint_updates
from agrad.jit.lower.plain import Compiled, Split, evaluation
from agrad.jit.passes.aliasing import donations
from agrad.jit.passes.fusion import Group
from agrad.jit.passes.tiling import best_split, whole_row_splits
from agrad.jit.program import HOST, FunctionOperation, HostCall, Instruction, Program, Variable, works_by_element

# ------------------------------------------------------------------ groups


def group_function(group: Group) -> Callable[..., tuple[Any, ...]]:
    """Return the function of a group. It takes the operands and returns the outputs.

    It launches one kernel, and a second one for totals of several blocks.
    """
    cupy = sys.modules["cupy"]
    sources: dict[Any, Source] = {}
    places = {v: i for i, v in enumerate(group.program.inputs)}
    first = Source(group)
    arrays = [places[v] for v in first.arrays]
    singles = [(places[v], v.on_host) for v in first.singles]
    made = [*first.results, *first.totals]
    outputs = [made.index(v) for v in group.program.outputs]

    def run(*given: Any) -> tuple[Any, ...]:
        full = [given[i] for i in arrays]
        layouts = tuple([_layout(x) for x in full])
        if layouts not in sources:
            sources[layouts] = source_of(group, layouts)
        source = sources[layouts]
        if isinstance(source, GroupSource):
            full = [_aligned(x, source.pack) for x in full]
        results = [result_array(v) for v in made]
        partials = results[len(source.results) :]
        if source.finishers:
            partials = [cupy.empty((source.blocks, *v.shape), v.dtype) for v in source.totals]
        arguments = [*full]
        for i, on_host in singles:
            arguments += _single(given[i], on_host)
        kernel = module(source.text).get_function(source.name)
        arguments += [*results[: len(source.results)], *partials]
        kernel((source.blocks,), (source.threads,), tuple(arguments))
        if source.finishers:
            finish = module(source.text).get_function("finish")
            finish((source.finishers,), (THREADS,), (*partials, *results[len(source.results) :]))
        return tuple([results[i] for i in outputs])

    return load("cupy").placed(run)


def source_of(group: Group, layouts: Sequence[Layout]) -> Source:
    """Return the text of a group for inputs that lie so.

    An elementwise group reads arrays that are not contiguous by rows, if these are short enough.
    """
    arrays = Source(group).arrays
    if group.split == len(group.shape):
        contiguous = all(at == Layout(_packed(v.shape), True) for v, at in zip(arrays, layouts, strict=True))
        splits = whole_row_splits(group.shape, np.dtype(bool)) - {len(group.shape)}
        if contiguous or not splits:
            return GroupSource(group)
        group = Group(group.program, group.shape, best_split(group.shape, splits))
    return RowSource(group, dict(zip(arrays, layouts, strict=True)))


def _layout(x: Any) -> Layout:
    return Layout(tuple([s // x.itemsize for s in x.strides]), x.data.ptr % PACK_BYTES == 0)


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array."""
    return tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])


def _aligned(x: Any, pack: int) -> Any:
    """Return a C-contiguous array whose address is a multiple of the size of a pack."""
    x = sys.modules["cupy"].ascontiguousarray(x)
    return x.copy() if x.data.ptr % (pack * x.dtype.itemsize) else x


def _single(value: Any, on_host: bool) -> tuple[Any, ...]:
    """Return the kernel's arguments for a single value.

    An array is a pointer. A host number is a null pointer and the number, or a pointer to it on the device and 0.
    """
    if not on_host:
        return (value,)
    if hasattr(value, "shape") and type(value).__module__ != "numpy":
        return (value, np.float64(0))
    return (np.uint64(0), np.float64(value))


# ------------------------------------------------------------------ numbers of the host


def with_numbers_of_adam(program: Program) -> Program:
    """Compute the numbers that depend on Adam's step on the host, in double precision."""
    kept: list[Instruction] = []
    known: dict[tuple[Any, ...], tuple[Variable, ...]] = {}
    for instruction in program.instructions:
        settings = instruction.settings
        changing = {name for name, v in settings.items() if isinstance(v, Variable)} - {"donate"}
        floats = all(
            isinstance(v, Variable) and v.dtype == instruction.operands[0].dtype and v.shape and v.dtype.char in "fd"
            for v in instruction.operands
        )
        if instruction.name != "adam_update" or not changing or not floats or not changing <= {"lr", "step"}:
            kept.append(instruction)
            continue
        names = ("lr", "beta1", "beta2", "weight_decay", "decoupled", "step")
        given = tuple([settings[name] for name in names])
        if given not in known:  # parameters of one count and group share their numbers
            known[given] = tuple([Variable((), HOST, None) for _ in range(3)])
            for k, number in enumerate(known[given]):
                kept.append(Instruction(HostCall(_nth(k), "adam_number"), given, {}, (number,)))
        numbers = known[given]
        rest = {name: settings[name] for name in ("beta1", "beta2", "eps")}
        rest["decay"] = 0.0 if settings["decoupled"] else settings["weight_decay"]
        rest["donate"] = settings.get("donate", False)
        own = instruction.operation
        operation = FunctionOperation(own.name, adam_with_numbers, own.outputs, own.overwrites)
        kept.append(Instruction(operation, (*instruction.operands, *numbers), rest, instruction.outputs))
    return program.with_instructions(kept)


def _nth(k: int) -> Callable[..., float]:
    return lambda *given: adam_numbers(*given)[k]


def numbers_on_device(program: Program) -> tuple[Program, list[tuple[Variable, Variable]]]:
    """Replace the host numbers of captured operations by 0-dimensional arrays.

    A graph holds the arguments of its kernels, so each number is written into its array before a replay. Returns the
    program, whose last inputs are these arrays, and the pairs (number, array). Groups take numbers in double precision,
    other operations in the dtype of their arrays.
    """
    made: dict[tuple[Variable, str], Variable] = {}

    def array(number: Variable, dtype: Any, kind: Any) -> Variable:
        key = (number, np.dtype(dtype).char)
        if key not in made:
            made[key] = Variable((), np.dtype(dtype), kind)
        return made[key]

    kept = []
    for instruction in program.instructions:
        wanted = {v for v in instruction.operands if isinstance(v, Variable) and v.on_host}
        dtype: Any = None
        if isinstance(instruction.operation, Group):
            dtype = np.dtype(np.float64)
        elif works_by_element(instruction):
            (out,) = instruction.results
            arrays = [v for v in instruction.operands if isinstance(v, Variable) and not v.on_host]
            if np.dtype(out.dtype).char in "fd" and arrays and all(v.dtype == out.dtype for v in arrays):
                dtype = np.dtype(out.dtype)
        elif instruction.name in ("sgd_update", "adam_update"):
            dtype = np.dtype(instruction.operands[0].dtype)
            wanted |= {v for name, v in instruction.settings.items() if name == "lr" and isinstance(v, Variable)}
        if dtype is None or not wanted:
            kept.append(instruction)
            continue
        kind = next(v.kind for v in instruction.results)
        kept.append(instruction.replaced({v: array(v, dtype, kind) for v in wanted}))
    pairs = [(number, new) for (number, _), new in made.items()]
    inputs = [*program.inputs, *(new for _, new in pairs)]
    return Program(inputs, program.constants, kept, program.outputs, program.notes), pairs


# ------------------------------------------------------------------ capturing and computing

_NOT_CAPTURED = frozenset({"fft", "transfer"})
"""Names, or namespaces, of operations that CuPy allows in a capture and that no graph can hold.

cuFFT works in the memory of a plan, which CuPy may free. A transfer works on the stream of another device, which is
not captured.
"""


NODES = 1 << 14
"""The most launches of a loop that is written out in a graph.

A launch takes some 20 microseconds of the host in each capture, and about 1 KB in the graph: this many take a third of
a second and 16 MB. Next to the steps of a longer loop the launches of one graph a step matter less.
"""


def can_capture(instruction: Instruction) -> bool:
    """Return True for an instruction to be tried in a graph.

    Such an instruction only launches kernels. A graph holds the arguments of its kernels, so operations on host numbers
    stay out. A user's operations may do more than launch kernels. A loop of known length is written out, step by step.
    """
    flags = {flag for flag, _ in donations(instruction)}
    if any(v.on_host and v not in flags for v in instruction.reads()):
        return False
    if is_product(instruction):
        return product_function(instruction) is not None
    if instruction.operation.length is not None:
        steps = [i for program in instruction.operation.programs for i in program.instructions]
        return launches(instruction) <= NODES and all(is_view(i) or can_capture(i) for i in steps)
    operation = getattr(instruction.operation, "primitive", instruction.operation)
    return operation.is_own and operation.name.partition(".")[0] not in _NOT_CAPTURED


def function_of(instruction: Instruction, program: Program, tensor_float: bool = False) -> Callable[..., Any]:
    """Return the function of an instruction, on the device of its arrays."""
    if isinstance(instruction.operation, Group):
        return group_function(instruction.operation)
    if instruction.operation.length is not None:
        return _loop_function(instruction, program)
    if (scattered := scatter_function(instruction)) is not None:
        return scattered
    if is_product(instruction):
        found = product_function(instruction, tensor_float)
        if found is not None:
            return found
        if tensor_float and shape_of(instruction) is not None:
            return load("cupy").placed(_tensor_float_product)
    return evaluation(instruction, program)


def _loop_function(instruction: Instruction, program: Program) -> Callable[..., Any]:
    """Return the function of a loop of known length: as part of a graph, or with one graph a step."""
    alone = evaluation(instruction, program)
    kind = next(v.kind for v in instruction.results if v.kind is not None)
    inside = instruction.operation.function_in_graph(kind)
    return lambda *operands: (inside if runs_as_part() else alone)(*operands)


def _tensor_float_product(x: Any, weight: Any, *bias: Any) -> Any:
    found = gemm(x, weight, x.dtype, True)
    return found + bias[0] if bias else found


def lower_cupy(program: Program) -> Compiled:
    """Lower a program to CUDA graphs (``GraphProgram``)."""
    functions = partial(function_of, tensor_float=program.notes.get("precision") == "tf32")
    split = Split(with_numbers_of_adam(program))
    body, pairs = numbers_on_device(split.body)
    made = GraphProgram(split, with_joint_updates(body), pairs, can_capture, functions)
    made.remark = absence(program)
    return made

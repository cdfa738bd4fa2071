"""Lowering for CuPy: CUDA graphs, with fusion groups as generated kernels.

Instructions that no graph can hold run between graphs. Products use cuBLASLt, since CuPy raises for its own cuBLAS
calls in a capture. The function of an instruction runs on the device of its arrays, by ``Backend.placed``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.jit.lower.cuda.epilogues import is_any_product, shape_of
from agrad.jit.lower.cuda.graphs import GraphProgram
from agrad.jit.lower.cuda.groups import group_function, with_horizontal_fusion
from agrad.jit.lower.cuda.products import absence, product_function
from agrad.jit.lower.cuda.segments import is_view, launches
from agrad.jit.lower.cuda.streams import runs_as_part
from agrad.jit.lower.plain import Compiled, Split, evaluation
from agrad.jit.passes.aliasing import donations
from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Program, Variable, works_by_element
from agrad.kernels.cupy.products import gemm

# ------------------------------------------------------------------ numbers of the host


def numbers_on_device(program: Program) -> tuple[Program, list[tuple[Variable, Variable]]]:
    """Replace the host numbers of captured operations by 0-dimensional arrays.

    A graph stores the arguments of its kernels, so each number is written into its array before a replay. Returns the
    program, whose last inputs are these arrays, and the pairs (number, array). Groups use numbers in double precision,
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
            arrays = instruction.arrays
            if np.dtype(out.dtype).char in "fd" and arrays and all(v.dtype == out.dtype for v in arrays):
                dtype = np.dtype(out.dtype)
        if dtype is None or not wanted:
            kept.append(instruction)
            continue
        kind = next(v.kind for v in instruction.results)
        kept.append(instruction.replaced({v: array(v, dtype, kind) for v in wanted}))
    pairs = [(number, new) for (number, _), new in made.items()]
    inputs = [*program.inputs, *(new for _, new in pairs)]
    return Program(inputs, program.constants, kept, program.outputs, program.notes), pairs


# ------------------------------------------------------------------ capturing and computing

NODES = 1 << 14
"""The maximum number of launches of a loop that is unrolled in a graph.

By estimate, a launch costs 20 microseconds of host time in each capture, and 1 KB in the graph. This number costs a
third of a second and 16 MB. For longer loops, launching one graph for each step costs little in comparison.
"""


def can_capture(instruction: Instruction) -> bool:
    """Return True for an instruction to be tried in a graph.

    Such an instruction only launches kernels. A graph stores the arguments of its kernels, so it cannot contain
    operations on host numbers. Custom operations are excluded, because they may do more than launch kernels. A loop of
    known length is unrolled.
    """
    flags = {flag for flag, _ in donations(instruction)}
    if any(v.on_host and v not in flags for v in instruction.reads()):
        return False
    if is_any_product(instruction):
        return product_function(instruction) is not None
    if instruction.operation.length is not None:
        steps = [i for program in instruction.operation.programs for i in program.instructions]
        return launches(instruction) <= NODES and all(is_view(i) or can_capture(i) for i in steps)
    operation = getattr(instruction.operation, "primitive", instruction.operation)
    return bool(operation.is_own and operation.capturable)


def function_of(instruction: Instruction, tensor_float: bool = False) -> Callable[..., Any]:
    """Return the function of an instruction, on the device of its arrays."""
    if isinstance(instruction.operation, Group):
        return group_function(instruction.operation)
    if instruction.operation.length is not None:
        return _loop_function(instruction)
    if is_any_product(instruction):
        found = product_function(instruction, tensor_float)
        if found is not None:
            return found
        if tensor_float and shape_of(instruction) is not None:
            return load("cupy").placed(_tensor_float_product)
    return evaluation(instruction)


def _loop_function(instruction: Instruction) -> Callable[..., Any]:
    """Return the function of a loop of known length: as part of a graph, or with one graph for each step."""
    alone = evaluation(instruction)
    kind = next(v.kind for v in instruction.results if v.kind is not None)
    inside = instruction.operation.function_in_graph(kind)
    return lambda *operands: (inside if runs_as_part() else alone)(*operands)


def _tensor_float_product(x: Any, weight: Any, *bias: Any) -> Any:
    found = gemm(x, weight, x.dtype, True)
    return found + bias[0] if bias else found


def lower_cupy(program: Program) -> Compiled:
    """Lower a program to CUDA graphs (``GraphProgram``)."""
    functions = partial(function_of, tensor_float=program.notes.get("precision") == "tf32")
    split = Split(program)
    body, pairs = numbers_on_device(split.body)
    body, split.body = with_horizontal_fusion(body), with_horizontal_fusion(split.body)
    made = GraphProgram(split, body, pairs, can_capture, functions)
    made.remark = absence(program)
    return made

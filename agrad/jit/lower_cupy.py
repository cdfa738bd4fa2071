"""CuPy: fusion groups as generated kernels, and the whole program as CUDA graphs with what no graph can hold between.

Products go into the graphs through cuBLASLt: CuPy refuses its own cuBLAS calls in a capture.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from agrad.backends.cupy_source import ELEMENTWISE
from agrad.jit.cuda_products import absence, gemm, is_product, product_function
from agrad.jit.cuda_source import THREADS, GroupSource, group_source
from agrad.jit.cuda_streams import module
from agrad.jit.epilogues import shape_of
from agrad.jit.fusion import Group, works_by_element
from agrad.jit.graphs import GraphProgram
from agrad.jit.host_numbers import FunctionOperation
from agrad.jit.ir import HOST, HostCall, Instruction, Program, Variable
from agrad.jit.lowerings import Compiled, evaluation, lowering, split_host

# ------------------------------------------------------------------ groups


def group_function(group: Group) -> Callable[..., tuple[Any, ...]]:
    """The function of a group: from its operands to a tuple of its outputs, by one launch, or two if it reduces."""
    cupy = sys.modules["cupy"]
    source = group_source(group)
    places = {v: i for i, v in enumerate(group.program.inputs)}
    arrays = [places[v] for v in source.arrays]
    singles = [(places[v], v.on_host) for v in source.singles]
    made = [*source.results, *source.totals]
    outputs = [made.index(v) for v in group.program.outputs]

    def run(*given: Any) -> tuple[Any, ...]:
        with _device_of(given):
            full = [cupy.ascontiguousarray(given[i]) for i in arrays]
            results = [cupy.empty(group.shape, v.dtype) for v in source.results]
            partial = [cupy.empty((source.blocks,), v.dtype) for v in source.totals]
            totals = [cupy.empty((), v.dtype) for v in source.totals]
            arguments = [*full]
            for i, on_host in singles:
                arguments += _single(given[i], on_host)
            aligned = all(a.data.ptr % _pack_bytes(source, a) == 0 for a in (*full, *results))
            kernel = module(source.text).get_function(f"group_{source.pack if aligned else 1}")
            kernel((source.blocks,), (THREADS,), (*arguments, *results, *partial))
            if totals:
                module(source.text).get_function("finish")((1,), (THREADS,), (*partial, *totals))
        found = [*results, *totals]
        return tuple([found[i] for i in outputs])

    return run


def _device_of(given: Sequence[Any]) -> Any:
    return next(x.device for x in given if hasattr(x, "device"))


def _pack_bytes(source: GroupSource, a: Any) -> int:
    return source.pack * int(a.dtype.itemsize)


def _single(value: Any, on_host: bool) -> tuple[Any, ...]:
    """The arguments of a single value: a pointer, and for a number of the host a pointer or null, and the number."""
    if not on_host:
        return (value,)
    if hasattr(value, "shape") and type(value).__module__ != "numpy":
        return (value, np.float64(0))
    return (np.uint64(0), np.float64(value))


# ------------------------------------------------------------------ numbers of the host


def _adam_numbers(lr: float, beta1: float, beta2: float, weight_decay: float, decoupled: bool, step: int) -> Any:
    """What Adam's kernel takes, by the formula of its optimizer: rate, shrink and root2."""
    shrink = 1.0 - lr * weight_decay if decoupled else 1.0
    return lr / (1.0 - beta1**step), shrink, (1.0 - beta2**step) ** 0.5


@cache
def _elementwise(name: str) -> Any:
    source = ELEMENTWISE[name]
    return sys.modules["cupy"].ElementwiseKernel(source.inputs, source.outputs, source.body, f"agrad_{name}")


def _adam_given(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    rate: Any,
    shrink: Any,
    root2: Any,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    donate: bool,
) -> tuple[Any, Any, Any]:
    """One step of Adam for the numbers that follow from the count of steps; ``donate`` writes into p, m and v."""
    outputs = [p, m, v] if donate else []
    found: tuple[Any, Any, Any] = _elementwise("adam")(
        p, g, m, v, rate, shrink, decay, 1.0 - beta1, beta2, 1.0 - beta2, root2, eps, *outputs
    )
    return found


def with_numbers_of_adam(program: Program) -> Program:
    """What follows from Adam's count of steps, computed on the host in double precision, before the arrays' work."""
    kept: list[Instruction] = []
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
        numbers = tuple([Variable((), HOST, None) for _ in range(3)])
        for k, number in enumerate(numbers):
            kept.append(Instruction(HostCall(_nth(k), "adam_number"), given, {}, (number,)))
        rest = {name: settings[name] for name in ("beta1", "beta2", "eps")}
        rest["decay"] = 0.0 if settings["decoupled"] else settings["weight_decay"]
        rest["donate"] = settings.get("donate", False)
        operation = FunctionOperation(
            "adam_update", _adam_given, instruction.operation.outputs, instruction.operation.overwrites
        )
        kept.append(Instruction(operation, (*instruction.operands, *numbers), rest, instruction.outputs))
    return program.with_instructions(kept)


def _nth(k: int) -> Callable[..., float]:
    return lambda *given: float(_adam_numbers(*given)[k])


def numbers_on_device(program: Program) -> tuple[Program, list[tuple[Variable, Variable]]]:
    """The program with arrays without dimensions in the place of the numbers that its captured operations take.

    A graph holds the values its kernels were given; such a number is written into the array before each replay. Gives
    the program, whose inputs end with these arrays, and the pairs (number, array). Groups take numbers in double
    precision, updates and single operations in that of their arrays.
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


# ------------------------------------------------------------------ what a graph can hold

_NOT_CAPTURED = frozenset({"fft", "transfer"})
"""What CuPy does not refuse in a capture, and no graph can hold, by the namespace or the name.

cuFFT works in memory that is a plan's, which goes when CuPy forgets the plan; another device's stream is not captured.
"""


def can_capture(instruction: Instruction) -> bool:
    """Whether to try an instruction in a graph: it may launch kernels alone.

    A graph holds the values that kernels were given, so that what takes a number of the host stays out. So does what a
    user defined, which may be more than its kernels.
    """
    flag = instruction.settings.get("donate")
    if any(v.on_host and v is not flag for v in instruction.reads()):
        return False
    if is_product(instruction):
        return product_function(instruction) is not None
    operation = getattr(instruction.operation, "primitive", instruction.operation)
    return operation.is_own and operation.name.partition(".")[0] not in _NOT_CAPTURED


def function_of(instruction: Instruction, program: Program, tensor_float: bool = False) -> Callable[..., Any]:
    """What computes an instruction on CuPy's arrays."""
    if isinstance(instruction.operation, Group):
        return group_function(instruction.operation)
    if is_product(instruction):
        found = product_function(instruction, tensor_float)
        if found is not None:
            return found
        if tensor_float and shape_of(instruction) is not None:
            return _tensor_float_product
    return evaluation(instruction, program)


def _tensor_float_product(x: Any, weight: Any, *bias: Any) -> Any:
    found = gemm(x, weight, x.dtype, True)
    return found + bias[0] if bias else found


@lowering("cupy")
def lower_cupy(program: Program) -> Compiled:
    """The program in CUDA graphs; see ``GraphProgram``."""
    functions = partial(function_of, tensor_float=program.notes.get("precision") == "tf32")
    host, device = split_host(with_numbers_of_adam(program))
    made = GraphProgram(host, device, *numbers_on_device(device), can_capture, functions)
    made.remark = absence(program)
    return made

"""CuPy: fusion groups as generated kernels, and the whole program as CUDA graphs with what no graph can hold between.

Products go into the graphs through cuBLASLt: CuPy refuses its own cuBLAS calls in a capture.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from agrad.backends.cupy_source import ELEMENTWISE
from agrad.jit.cuda_products import absence, gemm, is_product, product_function
from agrad.jit.cuda_source import THREADS, GroupSource, group_source, has_words
from agrad.jit.epilogues import shape_of
from agrad.jit.fusion import Group, works_by_element
from agrad.jit.graphs import GraphProgram
from agrad.jit.host_numbers import FunctionOperation
from agrad.jit.ir import HOST, HostCall, Instruction, Program, Variable
from agrad.jit.lowerings import Compiled, evaluation, lowering
from agrad.jit.precision import Rounding

# ------------------------------------------------------------------ groups


@cache
def _module(text: str) -> Any:
    return sys.modules["cupy"].RawModule(code=text, options=("-std=c++17",))


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
            kernel = _module(source.text).get_function(f"group_{source.pack if aligned else 1}")
            kernel((source.blocks,), (THREADS,), (*arguments, *results, *partial))
            if totals:
                _module(source.text).get_function("finish")((1,), (THREADS,), (*partial, *totals))
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

_CAPTURED = frozenset(
    {
        "sum", "mean", "max", "min", "relu", "sigmoid", "tanh", "gelu", "softmax", "log_softmax", "sgd_update",
        "adam_update", "softmax_cross_entropy", "softmax_cross_entropy.vjp:x", "linear.vjp:bias", "relu.vjp:x",
        "tanh.vjp:x", "sigmoid.vjp:x", "gelu.vjp:x", "softmax.vjp:x", "log_softmax.vjp:x",
        "astype", "cast",
    }
)  # fmt: skip
"""Operations besides those on each element that launch kernels, and neither ask the GPU for values nor send it any.

A copy from the host's memory would be captured with the address it had, and read what is there at each replay: so
what CuPy hands lists of pointers or indices (``concat``, indexing by arrays) is not among them.
"""


def can_capture(instruction: Instruction) -> bool:
    """Whether the instruction launches kernels alone: no library that refuses captures, nothing read by the host."""
    flag = instruction.settings.get("donate")
    if any(v.on_host and v is not flag for v in instruction.reads()):
        return False
    if is_product(instruction):
        return product_function(instruction) is not None
    if isinstance(instruction.operation, (Group, Rounding)) or instruction.name in _CAPTURED:
        return True
    return works_by_element(instruction) and has_words(instruction)


# ------------------------------------------------------------------ CuPy's graphs


class Recorder:
    """CuPy's streams, graphs and memory, as ``GraphProgram`` uses them.

    Arrays that graphs hold come from a pool of their own, so that nobody else is ever handed their memory.
    """

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]
        self.pool = self.cupy.cuda.MemoryPool()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.last = None
        self.device = self.cupy.cuda.Device().id

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """The time in which graphs are captured: on a stream of its own, after all else and before all else."""
        device = self.cupy.cuda.Device()
        device.synchronize()
        with self.stream, self.cupy.cuda.using_allocator(self.pool.malloc):
            yield
        device.synchronize()

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """The work that ``run`` gives to the GPU, which is not done yet, as a function that gives it out again."""
        self.stream.begin_capture()
        try:
            run()
        except BaseException:
            # CUDA refuses what was begun, and has said why in the error under way
            with contextlib.suppress(self.cupy.cuda.runtime.CUDARuntimeError, RuntimeError):
                self.stream.end_capture()
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
            self.stream.use()
            raise
        graph = self.stream.end_capture()
        current = self.cupy.cuda.get_current_stream
        return lambda: graph.launch(current())

    def before_replay(self) -> None:
        """Let a replay wait for the one before, where that was on another stream."""
        now = self.cupy.cuda.get_current_stream().ptr
        if self.last is not None and self.last != now:
            self.cupy.cuda.Device().synchronize()
        self.last = now

    def address(self, x: Any) -> Any:
        """What tells an array from others that a graph would have to treat differently."""
        return (x.data.ptr, x.strides)

    def serves(self, arrays: Sequence[Any]) -> bool:
        """Whether the arrays lie on the device whose graphs these are, and it is the current one."""
        return self.device == self.cupy.cuda.Device().id and all(x.device.id == self.device for x in arrays)

    def shares_memory(self, a: Any, b: Any) -> bool:
        """Whether one array lies in the memory of another."""
        return bool(self.cupy.may_share_memory(a, b))

    def buffer(self, x: Any) -> Any:
        """An array for values like these, row by row."""
        return self.cupy.empty(x.shape, x.dtype)

    def scalar(self, dtype: Any) -> Any:
        """An array without dimensions."""
        return self.cupy.zeros((), dtype)

    def write_numbers(self, targets: Sequence[Any], values: Sequence[float]) -> None:
        """Write numbers into arrays without dimensions, in launches that carry the numbers themselves."""
        for start in range(0, len(targets), 64):
            some, given = targets[start : start + 64], values[start : start + 64]
            text = _setter("".join(a.dtype.char for a in some))
            numbers = [a.dtype.type(v) for a, v in zip(some, given, strict=True)]
            _module(text).get_function("set_numbers")((1,), (1,), (*some, *numbers))

    def copy(self, target: Any, source: Any) -> None:
        """Copy values between arrays of one shape."""
        target[...] = source

    def fresh(self, x: Any) -> Any:
        """A copy that is the caller's."""
        return x.copy()

    def evaluate(self, function: Callable[..., Any], args: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Run one operation, or capture it where a capture is under way."""
        return function(*args, **settings)


def _setter(chars: str) -> str:
    kinds = [{"f": "float", "d": "double"}[c] for c in chars]
    parameters = [f"{kind}* p{k}" for k, kind in enumerate(kinds)] + [f"{kind} v{k}" for k, kind in enumerate(kinds)]
    body = " ".join(f"*p{k} = v{k};" for k in range(len(kinds)))
    return f'extern "C" __global__ void set_numbers({", ".join(parameters)}) {{ {body} }}\n'


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
    made = graph_program(program, Recorder)
    made.remark = absence(program)
    return made


def graph_program(program: Program, recorder: Callable[[], Any]) -> GraphProgram:
    """The same with another recorder in the place of CuPy's."""
    functions = partial(function_of, tensor_float=program.notes.get("precision") == "tf32")
    return GraphProgram(with_numbers_of_adam(program), recorder, can_capture, functions, numbers_on_device)

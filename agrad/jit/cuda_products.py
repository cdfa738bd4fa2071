"""Products of matrices on CuPy's arrays through cuBLASLt, which a CUDA graph can hold; bias and ReLU with them.

cuBLASLt is reached by nvmath-python where that is installed; else CuPy's own products run between the graphs.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from agrad.jit.ir import Instruction, Program, Variable
from agrad.registry import PRIMITIVES

PRODUCTS = frozenset({"matmul", "linear", "linear_relu"})

WORKSPACE = 32 << 20
"""Bytes that cuBLASLt may work in: what NVIDIA recommends for its newest GPUs."""

_DATA = {"f": 0, "d": 1, "e": 2}
"""CUDA's number of a real dtype."""


class LinearRelu:
    """``relu(x @ weight + bias)`` as one operation of a program."""

    name = "linear_relu"
    outputs = None
    elementwise = False

    def bind(self, x: Any, weight: Any, bias: Any) -> Any:
        """The operations one by one, as a user calls them."""
        return PRIMITIVES["relu"].bind(PRIMITIVES["linear"].bind(x, weight, bias))

    def evaluate(self, args: tuple[Any, ...], settings: Any) -> Any:
        """The same on raw arrays."""
        return self.bind(*args)


def with_epilogues(program: Program) -> Program:
    """The pass that joins an affine map and the ReLU that alone reads it."""
    uses: dict[Variable, int] = {}
    for v in [v for i in program.instructions for v in i.reads()] + [
        v for v in program.outputs if isinstance(v, Variable)
    ]:
        uses[v] = uses.get(v, 0) + 1
    maps = {i.outputs[0]: i for i in program.instructions if i.name == "linear" and shape_of(i) is not None}
    joined: dict[int, Instruction] = {}
    gone = set()
    for i in program.instructions:
        source = maps.get(i.operands[0]) if i.name == "relu" and isinstance(i.operands[0], Variable) else None
        if source is not None and uses[i.operands[0]] == 1:
            joined[id(i)] = Instruction(LinearRelu(), source.operands, {}, i.outputs)
            gone.add(id(source))
    return program.with_instructions([joined.get(id(i), i) for i in program.instructions if id(i) not in gone])


def shape_of(instruction: Instruction) -> tuple[int, int, int] | None:
    """(m, k, n) of a product of two matrices that cuBLASLt takes; None for any other."""
    x, weight, *bias = instruction.operands
    if not all(isinstance(v, Variable) and not v.on_host for v in instruction.operands) or instruction.settings:
        return None
    dtypes = {np.dtype(v.dtype).char for v in (*instruction.operands, *instruction.results)}
    if len(dtypes) != 1 or not dtypes <= set(_DATA) or len(x.shape) != 2 or len(weight.shape) != 2:
        return None
    (m, k), n = x.shape, weight.shape[1]
    if not m * k * n or any(v.shape != (n,) for v in bias):
        return None
    return m, k, n


class Layout(NamedTuple):
    """How a matrix lies in memory, as cuBLASLt is told."""

    transposed: bool
    """Whether it lies column by column."""
    leading: int
    """Elements from one row, or column, to the next."""


def layout(a: Any) -> Layout | None:
    """The layout of a matrix whose rows or columns are contiguous; None for any other."""
    (m, n), width = a.shape, a.dtype.itemsize
    down, across = a.strides
    if across == width and down % width == 0 and down >= n * width:
        return Layout(False, down // width)
    if down == width and across % width == 0 and across >= m * width:
        return Layout(True, across // width)
    return None


class Lt:
    """cuBLASLt on one device, by its bindings in nvmath-python."""

    def __init__(self) -> None:
        self.broken = ""
        """Why it is not used; empty while it is."""
        try:
            from nvmath.bindings import cublas, cublasLt

            self.lt, self.cublas = cublasLt, cublas
            self.handle = cublasLt.create()
        except Exception as error:  # nvmath-python loads libraries, whose absence has errors of several types
            self.broken = f"{type(error).__name__}: {error}"

    def product(self, x: Any, weight: Any, bias: Any = None, relu: bool = False) -> Any:
        """``x @ weight``, plus ``bias``, then ReLU if asked: (m, k), (k, n) and (n,) of one dtype; gives (m, n)."""
        cupy = sys.modules["cupy"]
        (m, k), n, dtype = x.shape, weight.shape[1], x.dtype
        x, weight = (a if layout(a) is not None else cupy.ascontiguousarray(a) for a in (x, weight))
        bias = None if bias is None else cupy.ascontiguousarray(bias)
        out = cupy.empty((m, n), dtype)
        workspace = cupy.empty((WORKSPACE,), np.uint8)
        # a matrix row by row is its transpose column by column, which is how cuBLASLt sees it: out' = weight' x'
        first, second = layout(weight), layout(x)
        assert first is not None
        assert second is not None
        lt, kinds, kind = self.lt, self.cublas.ComputeType, _DATA[dtype.char]
        compute = kinds.COMPUTE_64F if dtype.char == "d" else kinds.COMPUTE_32F
        if dtype.char == "f" and tensor_float():
            compute = kinds.COMPUTE_32F_FAST_TF32
        scale = np.dtype(np.float64 if dtype.char == "d" else np.float32)
        one, zero = np.ones(1, scale), np.zeros(1, scale)
        made: list[tuple[Callable[[Any], None], Any]] = []

        def matrix(rows: int, columns: int, leading: int) -> Any:
            made.append((lt.matrix_layout_destroy, lt.matrix_layout_create(kind, rows, columns, leading)))
            return made[-1][1]

        try:
            task = lt.matmul_desc_create(compute, _DATA[scale.char])
            made.append((lt.matmul_desc_destroy, task))
            names = lt.MatmulDescAttribute
            self._set(task, names.TRANSA, np.int32(first.transposed))
            self._set(task, names.TRANSB, np.int32(second.transposed))
            if bias is not None:
                ends = lt.Epilogue
                self._set(task, names.EPILOGUE, np.uint32(ends.RELU_BIAS if relu else ends.BIAS))
                self._set(task, names.BIAS_POINTER, np.int64(bias.data.ptr))
            a = matrix(*((k, n) if first.transposed else (n, k)), first.leading)
            b = matrix(*((m, k) if second.transposed else (k, m)), second.leading)
            d = matrix(n, m, n)
            # without an algorithm cuBLASLt chooses one, on the host: a graph keeps the kernels of that choice
            lt.matmul(
                self.handle, task, one.ctypes.data, weight.data.ptr, a, x.data.ptr, b, zero.ctypes.data,
                out.data.ptr, d, out.data.ptr, d, 0, workspace.data.ptr, WORKSPACE,
                cupy.cuda.get_current_stream().ptr,
            )  # fmt: skip
        finally:
            for destroy, thing in reversed(made):
                destroy(thing)
        return out

    def _set(self, task: Any, name: Any, value: Any) -> None:
        held = np.array([value])
        self.lt.matmul_desc_set_attribute(task, name, held.ctypes.data, held.nbytes)


@cache
def lt_of(device: int) -> Lt:
    """cuBLASLt on a device, which must be the current one."""
    return Lt()


def tensor_float() -> bool:
    """Whether float32 products may round their operands to TF32: where CuPy's own may, by ``CUPY_TF32``."""
    return os.environ.get("CUPY_TF32", "0") == "1"


def product_function(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes a product so that a graph can hold it; None where nothing can."""
    if shape_of(instruction) is None:
        return None
    cupy = sys.modules["cupy"]
    lt = lt_of(int(cupy.cuda.Device().id))
    if lt.broken:
        return None
    name, relu = instruction.name, instruction.name == "linear_relu"

    def eager(*args: Any) -> Any:
        out = cupy.matmul(*args[:2])
        if name != "matmul":
            out = out + args[2]
        return cupy.maximum(out, out.dtype.type(0)) if relu else out

    def run(*args: Any) -> Any:
        if lt.broken:
            return eager(*args)
        try:
            return lt.product(args[0], args[1], args[2] if name != "matmul" else None, relu)
        except Exception as error:
            if cupy.cuda.get_current_stream().is_capturing():
                raise
            lt.broken = f"{type(error).__name__}: {error}"
            return eager(*args)

    return run

"""Products of CuPy matrices by cuBLASLt, and the operations joined with them.

A CUDA graph can contain these. If cuBLASLt is absent or does not support a product, CuPy products run between graphs.
"""

import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.jit.lower.cuda.epilogues import (
    FusedEpilogue,
    is_any_product,
    is_batch,
    shape_of,
    with_epilogues,
    with_narrow_results,
)
from agrad.jit.passes.precision import NarrowMatmul
from agrad.jit.program import Instruction, Program
from agrad.kernels.cupy import cublaslt
from agrad.kernels.cupy.elementwise import elementwise_kernel
from agrad.kernels.cupy.products import current_lt, gemm, positive_bits, tensor_float_by_default


def epilogues_where_available(program: Program) -> Program:
    """Run the passes for products of cuBLASLt, if it is available."""
    if program.backends() != {"cupy"} or current_lt().absent:
        return program
    return with_narrow_results(with_epilogues(program), current_lt().adds_before_rounding)


def absence(program: Program) -> str:
    """Return the reason why cuBLASLt does not compute the products, and the fix.

    The string is empty if it computes them, or if there are no products. The first reason in a process is also issued
    as a ``RuntimeWarning``.
    """
    products = any(is_any_product(i) and (shape_of(i) is not None or is_batch(i)) for i in program.instructions)
    reason = current_lt().absent if products else ""
    if not reason:
        return ""
    text = (
        f"cuBLASLt is not available ({reason}): products of matrices run one by one between the CUDA graphs. Install "
        f"{cublaslt.library_name()}, which comes with cuBLAS: pip install nvidia-cublas (for CUDA 12: "
        "nvidia-cublas-cu12), or install the CUDA toolkit."
    )
    _warn(text)
    return text


@cache
def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def product_function(instruction: Instruction, tensor_float: bool = False) -> Callable[..., Any] | None:
    """Return the function that computes a product by cuBLASLt, or None if it cannot."""
    if current_lt().absent:
        return None
    has_batch = shape_of(instruction) is None
    if has_batch and not is_batch(instruction):
        return None
    joined, out = FusedEpilogue.of(instruction.operation), instruction.results[0]
    affine = len(instruction.operands) - joined.masked == 3
    wide = np.dtype(np.float32 if joined.rounding else out.dtype)
    plain: dict[str, Any] = {"dtype": wide, "tensor_float": tensor_float or tensor_float_by_default()}

    def run(x: Any, *args: Any) -> Any:
        *rows, k = x.shape
        rest = list(args)
        mask: Any = rest.pop() if joined.masked else True if joined.mask else None
        rows_of_x = x if has_batch else x.reshape(-1, k)
        found = matrices(joined, rows_of_x, rest[0], rest[1] if affine else None, mask)
        if has_batch or len(rows) == 1:
            return found
        first, *more = found if isinstance(found, tuple) else (found,)
        first = first.reshape(*rows, -1)
        return (first, *more) if more else first

    def matrices(joined: FusedEpilogue, x: Any, weight: Any, bias: Any, mask: Any) -> Any:
        lt, rounding = current_lt(), joined.rounding
        dtype = wide if rounding is None else x.dtype
        # masks by cuBLASLt are bits, other masks are boolean
        fits = not joined.masked or mask.dtype.char == "B"
        if joined.mask:
            fits = lt.masks_zero(dtype, x.dtype, bias is not None)
        if fits:
            settings = plain | {"dtype": dtype}
            found = lt.attempt(x, weight, bias, relu=joined.relu, mask=mask, sums=joined.sums, **settings)
            if found is not None:
                return found if len(found) > 1 else found[0]
        if rounding is not None:
            y = matrices(FusedEpilogue.of(joined, rounding=None), x, weight, bias, mask)
            return (rounding.function(y[0]), *y[1:]) if joined.mask else rounding.function(y)
        if joined.mask and lt.reads_bits(dtype, x.dtype):
            y = matrices(FusedEpilogue(joined.product, relu=True), x, weight, bias, None)
            return y, positive_bits(y)
        if has_batch:
            return joined.product.function_of(type(x))(x, weight)
        alone = lt.attempt(x, weight, **plain)
        product = gemm(x, weight, **plain) if alone is None else alone[0]
        if bias is not None:
            product = product + bias
        truth = _truth(mask, product.shape[1]) if joined.masked else None
        return joined.followed(product, weight, truth, lambda operation, *given, **by: operation.evaluate(given, by))

    return load("cupy").placed(run)


def _truth(mask: Any, columns: int) -> Any:
    """Return a mask as a boolean array (rows, columns)."""
    if mask.dtype.char != "B":
        return mask
    bits = sys.modules["cupy"].unpackbits(mask.reshape(-1), bitorder="little")
    return bits.reshape(mask.shape[0], -1)[:, :columns].astype(bool)


# ------------------------------------------------------------------ narrow factors


def cupy_narrow_matmul(precision: str) -> NarrowMatmul:
    """Return products of float16, or of bfloat16 as bits in uint16.

    CuPy arrays have no bfloat16.
    """
    cupy, placed = sys.modules["cupy"], load("cupy").placed

    dtype = np.dtype(np.float16 if precision == "float16" else np.uint16)

    def narrow(x: Any) -> Any:
        return elementwise_kernel(f"to_{precision}")(x.view(np.uint32)).view(dtype)

    def wide(x: Any) -> Any:
        return x.astype(np.float32) if precision == "float16" else (x.astype(np.uint32) << 16).view(np.float32)

    def product(x: Any, weight: Any) -> Any:
        if x.ndim == weight.ndim == 2 and x.size and weight.size:
            return gemm(x, weight, np.dtype(np.float32))
        return cupy.matmul(wide(x), wide(weight))

    return NarrowMatmul(placed(narrow), placed(product), dtype)

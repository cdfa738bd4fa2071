"""Choices, activations and sums of rows on NumPy, in few passes over memory.

Writing a new array of megabytes costs more than computing it. ``numpy.where`` needs ten times as long if its condition
cannot be predicted. These kernels write into their own arrays, process long arrays in blocks, and choose by integer
arithmetic on the elements' bits.
"""

import functools
import math
from typing import Any

import numpy as np

from agrad.kernels.numpy.blocks import BITS, are_alike, blockwise, in_blocks, is_floating
from agrad.registry import kernel

Raw = Any

BRANCHY = 1 << 12
"""The number of elements from which a branch for each is slower than two more passes."""

SHORT = 64
"""The length below which rows are transposed to be reduced. NumPy's inner loop then runs over the long axis."""


# ------------------------------------------------------------------ choosing


def _is_choice(condition: Raw, *arrays: Raw) -> bool:
    """Return True if a condition chooses from long floating-point arrays of its shape."""
    if type(condition) is not np.ndarray or condition.size < BRANCHY or condition.dtype.char != "?":
        return False
    kind = arrays[0].dtype
    return kind in BITS and all(
        type(a) is np.ndarray and a.dtype == kind and a.shape == condition.shape for a in arrays
    )


def chosen(g: np.ndarray, wins: np.ndarray) -> np.ndarray:
    """Return ``g`` if ``wins``, otherwise 0, by its bits, exact for infinities."""
    return np.multiply(wins.view(np.int8), g.view(BITS[g.dtype])).view(g.dtype)


def _mixed(x1: np.ndarray, x2: np.ndarray, condition: np.ndarray) -> np.ndarray:
    bits = BITS[x1.dtype]
    a, b = x1.view(bits), x2.view(bits)
    out = np.bitwise_xor(a, b)
    np.multiply(out, condition.view(np.int8), out=out)
    np.bitwise_xor(out, b, out=out)
    return out.view(x1.dtype)


@kernel("numpy", "where", "namespace", gain=5.0)
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Compute ``numpy.where``, for long arrays without a branch for each element."""
    if type(x1) is type(x2) is np.ndarray and _is_choice(condition, x1, x2):
        return in_blocks(_mixed, x1, x2, condition)
    return np.where(condition, x1, x2)


kernel("numpy", "where", "vjp:x1", lambda g, condition: _is_choice(condition, g), ("g", "condition"), gain=7.7)(
    blockwise(chosen)
)


@kernel("numpy", "where", "vjp:x2", gain=7.0, when=lambda g, condition: _is_choice(condition, g))
@blockwise
def where_second(g: Raw, condition: Raw) -> Raw:
    return chosen(g, np.logical_not(condition))


_KEPT = 1 << 17
"""The number of zeros and of ones that are kept for each dtype, to compare and to sum with."""


@functools.lru_cache(maxsize=128)
def zeros_beside(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return zeros for ``numpy.maximum`` of an array of this shape.

    With a single zero it needs up to five times as long. For an array longer than the kept zeros, returns the zeros for
    a row, or one zero.
    """
    size = math.prod(shape)
    if size > _KEPT:
        size, shape = (shape[-1], shape[-1:]) if SHORT < shape[-1] <= _KEPT else (1, ())
    return _kept(0, dtype)[:size].reshape(shape)


@functools.lru_cache(maxsize=16)
def _kept(value: int, dtype: np.dtype) -> np.ndarray:
    made = np.full(_KEPT, value, dtype)
    made.flags.writeable = False
    return made


@kernel("numpy", "relu", "forward", gain=2.0, when=is_floating)
def relu(x: Raw) -> Raw:
    return np.maximum(x, zeros_beside(x.shape, x.dtype))


@kernel("numpy", "relu", "vjp:x", gain=3.1, when=are_alike)
def relu_vjp(g: Raw, y: Raw) -> Raw:
    return chosen(g, y > 0)


# ------------------------------------------------------------------ the logistic function


@kernel("numpy", "sigmoid", "forward", gain=1.8, when=is_floating)
@blockwise
def sigmoid(x: Raw) -> Raw:
    # the generic body's numerator, 1 for x >= 0 and exp(-|x|) otherwise, is exp(min(x, 0))
    out = np.minimum(x, 0)
    np.exp(out, out=out)
    below = np.abs(x)
    np.negative(below, out=below)
    np.exp(below, out=below)
    np.add(below, 1, out=below)
    return np.divide(out, below, out=out)


# ------------------------------------------------------------------ the bias of an affine map


@kernel(
    "numpy", "linear", "vjp:bias", gain=2.9, when=lambda g, bias_meta: g.ndim == 2 and bias_meta.shape == g.shape[1:]
)
def linear_bias(g: Raw, bias_meta: Any) -> Raw:
    return np.matmul(all_ones(g.shape[0], g.dtype), g)


def all_ones(n: int, dtype: np.dtype) -> np.ndarray:
    """Return ones, which may be read-only. A product with them is a sum over rows."""
    return _few_ones(n, dtype) if n <= _KEPT else np.ones(n, dtype)


@functools.lru_cache(maxsize=128)
def _few_ones(n: int, dtype: np.dtype) -> np.ndarray:
    return _kept(1, dtype)[:n]

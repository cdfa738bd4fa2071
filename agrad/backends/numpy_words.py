"""Words of the standard that NumPy says faster through an array's own methods than through its functions, or wrongly.

NumPy's own functions take anything and look up overrides first; on an 8 x 8 array that is one half to nine tenths of
the time. Here every argument is a NumPy array or scalar.
"""

from typing import Any

import numpy as np

Axis = int | tuple[int, ...] | None


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if x.dtype.char not in "fdFD" or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = np.add.reduce(x, axis=axis, keepdims=keepdims)
    return total / (x.size // total.size)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    return x.reshape(shape) if copy is None else np.reshape(x, shape, copy=copy)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes)


def matrix_transpose(x: Any, /) -> Any:
    return x.mT


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    x = np.asarray(x)
    lead = len(shape) - x.ndim
    if lead < 0 or not x.flags.c_contiguous or not x.size:
        return np.broadcast_to(x, shape)
    for n, m in zip(x.shape, shape[lead:], strict=True):
        if n != m and n != 1:
            return np.broadcast_to(x, shape)
    strides = (0,) * lead + tuple([0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)])
    out = np.ndarray(shape, x.dtype, x, 0, strides)
    out.setflags(write=False)  # one element stands in several places
    return out


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.zeros(x.shape, x.dtype if dtype is None else dtype)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones(x.shape, x.dtype if dtype is None else dtype)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    out = np.floor_divide(x1, x2)
    if out.dtype.char not in "fd":
        return out
    # with an infinite operand NumPy says nan or a finite number where the standard has the floor of the quotient
    infinite = np.isinf(x1) | np.isinf(x2)
    return np.where(infinite, np.floor(np.divide(x1, x2)), out) if infinite.any() else out


def expm1(x: Any, /) -> Any:
    out = np.expm1(x)
    if out.dtype.char not in "FD":
        return out
    # NumPy's complex one says nan beside any infinity, and keeps the sign of a zero that the standard drops
    special = ~np.isfinite(x) | (x == 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


WORDS = {
    word.__name__: word
    for word in (
        sum,
        prod,
        max,
        min,
        mean,
        reshape,
        permute_dims,
        matrix_transpose,
        broadcast_to,
        zeros_like,
        ones_like,
        floor_divide,
        expm1,
    )
}
WORDS["matmul"] = np.matmul  # array-api-compat's asks for the namespace first

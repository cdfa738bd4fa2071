"""Words of the standard that NumPy says faster through an array's own methods than through its functions, or wrongly.

NumPy's own functions take anything and look up overrides first; on an 8 x 8 array that is one half to nine tenths of
the time. Here every argument is a NumPy array or scalar.
"""

from typing import Any

import numpy as np

Axis = int | tuple[int, ...] | None

# elements of an array, and the longest of its rows, that are reduced column by column: NumPy takes 20 ns to begin a
# row, and two thirds to a twentieth of the time were measured for rows of 2 to 5
_LONG, _SHORT = 1024, 5


def _reduced(ufunc: np.ufunc, x: Any, axis: Axis, keepdims: bool) -> Any:
    """``ufunc.reduce(x, axis=axis)``, to the same bits, but that negative zeros alone have a negative sum."""
    if x.size >= _LONG and 1 < x.shape[-1] <= _SHORT and x.ndim > 1 and x.dtype.char in "fd" and x.flags.c_contiguous:
        last = x.ndim - 1
        if axis in (last, (last,), -1, (-1,)):
            out = ufunc(x[..., 0], x[..., 1])
            for i in range(2, x.shape[-1]):
                ufunc(out, x[..., i], out=out)
            return out[..., None] if keepdims else out
    return ufunc.reduce(x, axis=axis, keepdims=keepdims)


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if dtype is not None:
        return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)
    return _reduced(np.add, x, axis, keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return _reduced(np.maximum, x, axis, keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return _reduced(np.minimum, x, axis, keepdims)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if x.dtype.char not in "fdFD" or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = _reduced(np.add, x, axis, keepdims)
    return total / (x.size // total.size)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return np.asarray(x.astype(dtype, copy=copy))  # of a NumPy scalar too an array, which views can share


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
    return np.zeros(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


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
        astype,
        reshape,
        permute_dims,
        matrix_transpose,
        broadcast_to,
        zeros_like,
        ones_like,
        expm1,
    )
}
WORDS["matmul"] = np.matmul  # array-api-compat's asks for the namespace first

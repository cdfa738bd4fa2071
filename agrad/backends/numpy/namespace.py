"""The NumPy namespace, and functions that call NumPy directly or correct it.

The NumPy namespace follows the standard except for a few functions. array-api-compat corrects those, and is imported
at the first call of one: it loads all parts of NumPy, and its import needs half the time of the NumPy import.

The public functions of NumPy first convert their arguments and search for overrides. On an 8 x 8 array, this is half to
nine tenths of the time. Here every argument is a NumPy array or scalar.
"""

import importlib
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

_DIFFERENT = {
    "": ("argsort", "clip", "count_nonzero", "sort", "take_along_axis", "unique_all", "unique_counts", "unique_inverse",
         "unique_values"),
    "fft": ("fftfreq", "rfftfreq"),
    "linalg": ("cholesky", "cross", "eig", "eigvals", "matrix_rank", "pinv"),
}  # fmt: skip
"""The functions that differ between NumPy and the standard, by section."""


def _compatible(section: str, name: str, *args: Any, **settings: Any) -> Any:
    module = importlib.import_module(f"array_api_compat.numpy{section and '.'}{section}")
    return getattr(module, name)(*args, **settings)


def _public(module: Any, section: str) -> ModuleType:
    """Return a module of the names that a part of NumPy has loaded, with functions of the standard."""
    made = ModuleType(module.__name__)
    vars(made).update({name: value for name, value in vars(module).items() if name[0] != "_"})
    vars(made).update({name: partial(_compatible, section, name) for name in _DIFFERENT[section]})
    return made


STANDARD: Any = _public(np, "")
STANDARD.__array_namespace_info__ = np.__array_namespace_info__
STANDARD.linalg, STANDARD.fft = _public(np.linalg, "linalg"), _public(np.fft, "fft")

Axis = int | tuple[int, ...] | None


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return np.asarray(x.astype(dtype, copy=copy))  # an array also for a NumPy scalar, because views can share it


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    return x.reshape(shape) if copy is None else np.reshape(x, shape, copy=copy)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    return np.asarray(obj, dtype, copy=copy)


def any_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


def all_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


def flip(x: Any, /, *, axis: Axis = None) -> Any:
    index = [slice(None)] * x.ndim
    for i in range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,):
        index[i] = slice(None, None, -1)
    return x[tuple(index)]


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    if x.dtype.char in "fd" and {type(min), type(max)} <= _BOUNDS:
        return np.clip(x, min, max)
    return STANDARD.clip(x, min, max)


_BOUNDS = {int, float}


def arange_like(x: Any, n: int, /) -> Any:
    return np.arange(n)


def _running(x: Any, sums: Any, axis: int | None, start: int, include_initial: bool) -> Any:
    if not include_initial:
        return sums
    lead = (slice(None),) * ((0 if axis is None else axis) % x.ndim)
    shape = list(sums.shape)
    shape[len(lead)] += 1
    out = np.full(shape, start, sums.dtype)
    out[(*lead, slice(1, None))] = sums
    return out


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _running(x, x.cumsum(axis, dtype), axis, 0, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _running(x, x.cumprod(axis, dtype), axis, 1, include_initial)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    return x.take(indices, axis=axis)


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
    out.setflags(write=False)  # one element has several positions
    return out


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.zeros(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


def expm1(x: Any, /) -> Any:
    out = np.expm1(x)
    if out.dtype.char not in "FD":
        return out
    # complex expm1 of NumPy is NaN at infinities, and keeps the sign of a zero that the standard drops
    special = ~np.isfinite(x) | (x == 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


_OWN = (
    *(prod, astype, asarray, reshape, permute_dims, matrix_transpose, broadcast_to, flip, arange_like),
    *(cumulative_sum, cumulative_prod, take, zeros_like, ones_like, expm1, clip),
)
FUNCTIONS = {function.__name__: function for function in _OWN}
FUNCTIONS |= {"any": any_, "all": all_}
FUNCTIONS["matmul"] = np.matmul  # array-api-compat looks up the namespace first

"""NumPy functions for new arrays, triangles, diagonals and dtypes, for Tensors."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    alike,
    axis_of,
    cast,
    constant,
    dtype_of,
    flat,
    like_of,
    on_host,
    promoted,
    rejects,
    tensor,
    tensors,
)
from agrad.interop.table import find, implements
from agrad.registry import CALLS, namespace


def _made_like(name: str, x: Tensor, dtype: Any, shape: Any) -> Tensor:
    kind = x.dtype if dtype is None else dtype_of(dtype)
    return getattr(agrad, name)(x.shape if shape is None else shape, dtype=kind, backend=x.backend, device=x.device)


@implements("zeros_like")
def _zeros_like(a: Tensor, dtype: Any = None, shape: Any = None) -> Tensor:
    return _made_like("zeros", a, dtype, shape)


@implements("ones_like")
def _ones_like(a: Tensor, dtype: Any = None, shape: Any = None) -> Tensor:
    return _made_like("ones", a, dtype, shape)


@implements("empty_like")
def _empty_like(prototype: Tensor, dtype: Any = None, shape: Any = None) -> Tensor:
    return _made_like("empty", prototype, dtype, shape)


@implements("full_like")
def _full_like(a: Tensor, fill_value: Tensor, dtype: Any = None, shape: Any = None) -> Tensor:
    fill = cast(fill_value, a.dtype if dtype is None else dtype)
    return agrad.broadcast_to(fill, a.shape if shape is None else shape)


@implements("linspace")
def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    start, stop = alike(start, stop, floating=True)
    ndim = max(start.ndim, stop.ndim)
    num = int(num)
    if num < 0:
        raise ValueError(f"numpy.linspace: num must be at least 0, got {num}")
    parts = num - 1 if endpoint else num
    steps = np.arange(num) / parts if parts > 0 else np.zeros(num)
    share = steps.reshape(-1, *(1,) * ndim).astype(start.dtype.name)
    out = start * constant(1 - share, start) + stop * constant(share, start)
    axis = axis_of(axis, ndim + 1)
    out = cast(agrad.moveaxis(out, 0, axis) if axis else out, dtype)
    if not retstep:
        return out
    step = stop - start
    return out, step / parts if parts > 0 else agrad.full_like(step, math.nan)


@implements("logspace")
def _logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    start, stop, base = alike(start, stop, base, floating=True)
    if base.ndim:
        start, stop, base = agrad.broadcast_arrays(start, stop, base)
        base = agrad.expand_dims(base, axis=axis)
    return cast(base ** _linspace(start, stop, num, endpoint, axis=axis), dtype)


@implements("geomspace")
def _geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    start, stop = agrad.broadcast_arrays(*promoted(*tensors(start, stop), least=np.float64))
    # the ratio of two negative ends has a real logarithm
    powers = _linspace(agrad.zeros_like(start), agrad.log(stop / start), num, endpoint, axis=axis)
    return cast(agrad.expand_dims(start, axis=axis) * agrad.exp(powers), dtype)


@implements("meshgrid")
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    parts = [flat(x) for x in tensors(*xi)]
    n = len(parts)
    order = (1, 0, *range(2, n)) if indexing == "xy" and n > 1 else tuple(range(n))
    shaped = [agrad.reshape(x, tuple(-1 if order[axis] == i else 1 for axis in range(n))) for i, x in enumerate(parts)]
    return tuple(shaped) if sparse else agrad.broadcast_arrays(*shaped)


# ------------------------------------------------------------------ triangles and diagonals


@implements("tril")
def _tril(m: Tensor, k: int = 0) -> Tensor:
    return agrad.tril(_matrix(m), k=int(k))


@implements("triu")
def _triu(m: Tensor, k: int = 0) -> Tensor:
    return agrad.triu(_matrix(m), k=int(k))


def _matrix(x: Tensor) -> Tensor:
    # NumPy repeats a vector as the rows of a square matrix
    return agrad.broadcast_to(x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x


@implements("diagonal")
def _diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return agrad.linalg.diagonal(agrad.moveaxis(a, (axis1, axis2), (-2, -1)), offset=int(offset))


@implements("diag")
def _diag(v: Tensor, k: int = 0) -> Tensor:
    if v.ndim == 2:
        return agrad.linalg.diagonal(v, offset=int(k))
    if v.ndim != 1:
        raise ValueError(f"numpy.diag: v must be 1-D or 2-D, got {v.ndim}-D")
    k = int(k)
    n = v.shape[0] + abs(k)
    start = k if k >= 0 else -k * n
    index = slice(start, min(start + v.shape[0] * (n + 1), n * n), n + 1)
    return agrad.reshape(namespace.scatter_add(v, index=(index,), shape=(n * n,)), (n, n))


@implements("diagflat")
def _diagflat(v: Tensor, k: int = 0) -> Tensor:
    return _diag(flat(v), k)


@implements("trace")
def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return agrad.linalg.trace(agrad.moveaxis(cast(a, dtype), (axis1, axis2), (-2, -1)), offset=int(offset))


@implements("vander")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of a vector as columns, as ``numpy.vander`` does."""
    if x.ndim != 1:
        raise ValueError(f"numpy.vander: x must be 1-D, got {x.ndim}-D")
    count = x.shape[0] if N is None else int(N)
    (x,) = promoted(x, least=np.int64)
    # products have the right derivatives at 0 without special cases
    factors = agrad.broadcast_to(x[:, None], (x.shape[0], max(count - 1, 0)))
    columns = agrad.cumulative_prod(factors, axis=1, include_initial=True)
    columns = columns if count else columns[:, :0]
    if increasing:
        return columns
    columns = agrad.flip(columns, axis=1)
    return agrad.reshape(agrad.reshape(columns, (-1,)), columns.shape)  # row-major, as in NumPy: reshapes are views


# ------------------------------------------------------------------ about dtypes


def _stand_in(x: Tensor) -> np.ndarray:
    """Return an array of zeros with a Tensor's shape and dtype, for its metadata."""
    return np.broadcast_to(np.zeros((), x.dtype.name), x.shape)


for _name in ("can_cast", "common_type", "einsum_path", "result_type"):
    implements(_name)(on_host(find(_name), _stand_in))


# ------------------------------------------------------------------ like=


_CONVERTING = "array asarray asanyarray ascontiguousarray asfortranarray require"
_ORDERS = {"ascontiguousarray": "C", "asfortranarray": "F"}
_MAKING = (
    "arange empty eye frombuffer fromfile fromfunction fromiter fromstring full genfromtxt identity loadtxt ones tri "
    "zeros"
)


def like_array(function: Any, like: Tensor, args: tuple[Any, ...], settings: dict[str, Any]) -> Tensor:
    """Call a function that makes an array, for its argument ``like=``."""
    name = function.__name__
    if like_of(args) is None:
        return constant(function(*args, **settings), like)
    if name not in _CONVERTING.split():
        raise rejects(f"{name}(like=)", "Tensors are not supported", f"Use agrad.{name}")
    dtype = args[1] if len(args) > 1 else settings.get("dtype")
    out = cast(tensor(args[0], like), dtype)
    if name in _ORDERS:
        out = _in_order(out if out.ndim else agrad.reshape(out, (1,)), _ORDERS[name])
    out = _in_order(out, settings.get("order"))
    return agrad.astype(out, out.dtype, copy=True) if settings.get("copy", name == "array") else out


def _in_order(x: Tensor, order: str | None) -> Tensor:
    """Return a Tensor with an order of elements in memory: itself, or a copy, which writes to it do not change."""
    if order == "F" and x.ndim > 1:
        axes = tuple(reversed(range(x.ndim)))
        return agrad.permute_dims(_in_order(agrad.permute_dims(x, axes), "C"), axes)
    if order not in _ORDERS.values() or CALLS["lies_in_a_row"](x):
        return x
    return agrad.reshape(flat(x) if x.ndim > 1 else agrad.astype(x, x.dtype, copy=True), x.shape)


LIKE = {getattr(np, name) for name in f"{_CONVERTING} {_MAKING}".split()}
"""Functions that create arrays, and are dispatched only by ``like=``."""

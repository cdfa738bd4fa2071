"""Reductions, sorting, norms and cross products on NumPy, in fewer passes.

A rule's kernel returns ``NotImplemented`` if only the generic rule is correct or exact.
"""

import math
from typing import Any

import numpy as np

from agrad.kernels.numpy.blocks import BITS, BLOCK, are_alike, is_floating
from agrad.kernels.numpy.elementwise import HUGE, LEAST
from agrad.registry import kernel
from agrad.shapes import kept_shape

Raw = Any
Axis = int | tuple[int, ...] | None

# ------------------------------------------------------------------ functions of the namespace

_LONG, _SHORT = 1024, 5
"""Minimum elements of an array, and maximum of a row, that is reduced column by column.

NumPy needs 20 ns to begin a row.
"""


def reduced(ufunc: np.ufunc, x: Any, axis: Axis, keepdims: bool, out: Any = None) -> Any:
    """Return ``ufunc.reduce(x, axis=axis)``, with the same bits, in ``out`` if given.

    There is one exception: a sum of only negative zeros is negative here. ``out`` shares no memory with ``x``.
    """
    if x.size >= _LONG and 1 < x.shape[-1] <= _SHORT and x.ndim > 1 and x.dtype.char in "fd" and x.flags.c_contiguous:
        last = x.ndim - 1
        if axis in (last, (last,), -1, (-1,)):
            made = ufunc(x[..., 0], x[..., 1], out=out[..., 0] if keepdims and out is not None else out)
            for i in range(2, x.shape[-1]):
                ufunc(made, x[..., i], out=made)
            return out if out is not None else made[..., None] if keepdims else made
    return ufunc.reduce(x, axis=axis, keepdims=keepdims, out=out)


@kernel("numpy", "sum", "namespace", gain=9.6)
def sum_(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if dtype is not None:
        return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)
    return reduced(np.add, x, axis, keepdims)


@kernel("numpy", "max", "namespace", gain=1.8)
def max_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return reduced(np.maximum, x, axis, keepdims)


@kernel("numpy", "min", "namespace", gain=1.8)
def min_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return reduced(np.minimum, x, axis, keepdims)


@kernel("numpy", "mean", "namespace", gain=8.9)
def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if x.dtype.char not in "fdFD" or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = reduced(np.add, x, axis, keepdims)
    return total / (x.size // total.size)


# ------------------------------------------------------------------ limits of rules

_FEW, _MANY = 200, 500
"""The number of elements from which on a fast sort, and from which on an order or a search, is worth its guard:
measured."""


def _divides(x: Raw, y: Raw) -> bool:
    """Return True if products ``y`` of elements of ``x`` may be divided by these.

    No element may be zero, and no product close to overflow or underflow.
    """
    size = np.abs(y)
    return bool(size.size and size.min() > LEAST[y.dtype] and size.max() < HUGE[y.dtype] and x.all())


# ------------------------------------------------------------------ products


def _by_rows(axis: tuple[int, ...], x: Raw, out: Raw, *reduced: Raw) -> tuple[tuple[int, ...], list[tuple[Raw, ...]]]:
    """Return the axis of a reduction's rule, and the arrays in blocks of rows.

    There is one block if the reduction is not over rows. ``x`` and ``out`` have the same shape and are not empty;
    ``reduced`` have the result's shape. In the blocks reduced axes have the length 1.
    """
    if axis[0] != x.ndim - len(axis) or not x.flags.c_contiguous:
        kept = kept_shape(x.shape, axis)
        return axis, [(x, out, *[a.reshape(kept) for a in reduced])]
    number = reduced[0].size
    arrays = [a.reshape(number, -1) for a in (x, out, *reduced)]
    step = max(1, BLOCK * number // x.size)
    return (1,), [tuple([a[start : start + step] for a in arrays]) for start in range(0, number, step)]


def _stays(x: Raw, axis: tuple[int, ...], count: int) -> bool:
    """Return True if products of elements over ``axis`` are far from the limits.

    This holds for products of any of the elements, in any order: their logarithms are at most the sum of the absolute
    logarithms. Close to a limit the product of all may be inexact.
    """
    size = np.abs(x)
    least, most = float(size.min()), float(size.max())
    limit = -math.log(LEAST[x.dtype])
    if not (least > 0 and most < math.inf):
        return False
    if count * max(abs(math.log(least)), abs(math.log(most))) < limit:
        return True
    np.log(size, out=size)
    return bool(np.add.reduce(np.abs(size, out=size), axis=axis).max() < limit)


@kernel("numpy", "prod", "vjp:x", gain=4.3, when=lambda g, x, y: is_floating(x) and g.dtype == x.dtype)
def prod_vjp(g: Raw, x: Raw, y: Raw, *, axis: tuple[int, ...]) -> Raw:
    if not (x.size and axis):
        return NotImplemented
    out = np.empty(x.shape, x.dtype)
    axis, blocks = _by_rows(axis, x, out, y, g)
    for factors, to, product, given in blocks:
        if not _stays(factors, axis, x.size // y.size):
            return NotImplemented
        np.divide(product, factors, out=to)
        np.multiply(to, given, out=to)
    return out


@kernel("numpy", "cumulative_prod", "vjp:x", gain=3.3, when=lambda g, x: is_floating(x) and g.dtype == x.dtype)
def cumulative_prod_vjp(g: Raw, x: Raw, *, axis: int, include_initial: bool) -> Raw:
    if include_initial:
        g = g[(slice(None),) * axis + (slice(1, None),)]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        y = np.multiply.accumulate(x, axis=axis)
    if not _divides(x, y):
        return NotImplemented
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(y, g, out=y)
        turned = np.flip(y, axis=axis)
        np.add.accumulate(turned, axis=axis, out=turned)
        np.divide(y, x, out=y)
    # this sum may overflow although the generic rule does not
    return y if np.isfinite(y).all() else NotImplemented


# ------------------------------------------------------------------ differences


@kernel("numpy", "diff", "vjp:x", gain=1.4, when=lambda g, x_meta: is_floating(g) and g.size > 0)
def diff_vjp(g: Raw, x_meta: Any, *, axis: int) -> Raw:
    out = np.empty(x_meta.shape, g.dtype)
    lead = (slice(None),) * axis
    first, last = (*lead, slice(None, 1)), (*lead, slice(-1, None))
    but_first, but_last = (*lead, slice(1, None)), (*lead, slice(None, -1))
    np.multiply(g[first], -1, out=out[first])  # NumPy 2.4: negative() is wrong for strided float32
    np.subtract(g[but_last], g[but_first], out=out[(*lead, slice(1, -1))])
    out[last] = g[last]
    return out


# ------------------------------------------------------------------ extremes


def _is_extreme(g: Raw, x: Raw, y: Raw) -> bool:
    return x.size >= _MANY and is_floating(x) and g.dtype == x.dtype and bool((y == y).all())


def _extreme_vjp(g: Raw, x: Raw, y: Raw, *, axis: tuple[int, ...]) -> Raw:
    if not axis:
        return NotImplemented
    out = np.empty(x.shape, x.dtype)
    axis, blocks = _by_rows(axis, x, out, y, g)
    for values, to, extremes, given in blocks:
        hit = np.equal(values, extremes)
        if np.count_nonzero(hit) > extremes.size:  # without NaN, each extreme is hit at least once
            np.divide(hit, hit.sum(axis=axis, keepdims=True, dtype=x.dtype), out=to)
            np.multiply(to, given, out=to)
        else:
            np.multiply(hit, given, out=to)
    return out


for _name in ("max", "min"):
    kernel("numpy", _name, "vjp:x", gain=2.8, when=_is_extreme)(_extreme_vjp)


# ------------------------------------------------------------------ sorting


@kernel("numpy", "sort", "forward", gain=13.0, when=lambda x: is_floating(x) and x.size >= _FEW)
def sort(x: Raw, *, axis: int, descending: bool, stable: bool) -> Raw:
    # a fast and a stable sort differ only in the order of zeros of different signs; all NaNs are alike
    out = np.sort(x, axis=axis)
    if stable:
        zeros = np.signbit(x[x == 0])
        if zeros.any() and not zeros.all():
            out = np.sort(x, axis=axis, stable=True)
    return np.flip(out, axis=axis) if descending else out


@kernel("numpy", "sort", "vjp:x", gain=3.6, when=lambda g, x: are_alike(x, g) and x.size >= _MANY)
def sort_vjp(g: Raw, x: Raw, *, axis: int, descending: bool) -> Raw:
    rows = x if axis == x.ndim - 1 else np.ascontiguousarray(np.moveaxis(x, axis, -1))
    given = np.moveaxis(g, axis, -1)
    order = np.argsort(rows, axis=-1)
    n = rows.shape[-1]
    order += (np.arange(rows.size // n) * n).reshape(*rows.shape[:-1], 1)
    places = order.reshape(-1)
    found = rows.reshape(-1).take(places).reshape(rows.shape)
    # a fast sort may have equal elements in any order; NaNs are last
    if (found[..., 1:] == found[..., :-1]).any() or np.isnan(found[..., -1]).any():
        return NotImplemented
    out = np.empty(rows.size, g.dtype)
    out[places] = (np.flip(given, axis=-1) if descending else given).reshape(-1)
    return np.moveaxis(out.reshape(rows.shape), -1, axis)


# ------------------------------------------------------------------ norms and cross products


@kernel("numpy", "linalg.vector_norm", "forward", gain=4.1, when=lambda x: is_floating(x) and x.dtype.itemsize > 2)
def vector_norm(x: Raw, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Raw:
    lead = x.ndim - len(axis)
    if ord != 2 or not axis or axis[0] != lead or not x.flags.c_contiguous or not x.size:
        if not axis:
            return np.abs(x)
        return np.linalg.vector_norm(x, axis=axis if len(axis) > 1 else axis[0], keepdims=keepdims, ord=ord)
    rows = x.reshape(*x.shape[:lead], -1)
    y = np.sqrt(np.vecdot(rows, rows))
    return y.reshape(*x.shape[:lead], *(1,) * len(axis)) if keepdims else y


_ROWS = 8192
"""The number of vectors in a block of a cross product. The nine rows of three blocks fit a level 2 cache."""


@kernel(
    "numpy",
    "linalg.cross",
    "forward",
    gain=4.8,
    when=lambda x1, x2: x1.ndim > 0 and x1.shape == x2.shape and x1.dtype == x2.dtype and x1.dtype in BITS,
)
def cross(x1: Raw, x2: Raw, *, axis: int) -> Raw:
    if axis not in (-1, x1.ndim - 1):
        return np.cross(x1, x2, axis=axis)
    if x1.size < 300:
        after, before = (1, 2, 0), (2, 0, 1)
        out = x1.take(after, -1) * x2.take(before, -1)
        return np.subtract(out, x1.take(before, -1) * x2.take(after, -1), out=out)
    a, b = x1.reshape(-1, 3), x2.reshape(-1, 3)
    out = np.empty(a.shape, a.dtype)
    for start in range(0, a.shape[0], _ROWS):
        part = slice(start, start + _ROWS)
        p, q = np.ascontiguousarray(a[part].T), np.ascontiguousarray(b[part].T)
        for k, i, j in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            value = np.multiply(p[i], q[j])
            np.subtract(value, np.multiply(p[j], q[i]), out=value)
            out[part, k] = value
    return out.reshape(x1.shape)

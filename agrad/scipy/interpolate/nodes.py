"""Points and values to interpolate."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import DtypeError, ShapeError
from agrad.interop.arguments import axis_of, is_complex, is_concrete, values_of
from agrad.scipy.shared import arrays, is_array


def real_beside(x: Any, *values: Any) -> list[Tensor]:
    """Return real points and values of one precision.

    All values are complex if one of them is.
    """
    if is_array(x) and is_complex(agrad.asarray(x)):
        raise DtypeError("interpolation: x must be real. Pass agrad.real(x).")
    x, *others = arrays(x, *values)
    return [agrad.real(x) if is_complex(x) else x, *others]


def real_places(t: Any, *beside: Any) -> list[Tensor]:
    """Return points and other real arrays in one dtype."""
    found = arrays(t, *beside)
    if is_complex(found[0]):
        raise DtypeError("interpolation: x must be real. Pass agrad.real(x).")
    return found


def increasing(x: Tensor, name: str) -> Tensor:
    """Return the points if they increase.

    If not, raise an error, or return NaN if values cannot be read.
    """
    if x.ndim != 1 or x.shape[0] < 2:
        raise ShapeError(f"{name}: x must be 1-D with at least 2 elements, got shape {tuple(x.shape)}")
    if is_concrete(x):
        if not np.all(np.diff(values_of(x)) > 0):
            raise ShapeError(f"{name}: x must be strictly increasing. Sort x, and y in the same order.")
        return x
    good = agrad.all(agrad.diff(x) > 0)
    return agrad.where(good, x, agrad.full_like(x, agrad.nan))


def nodes(name: str, x: Any, axis: int, *values: Any) -> tuple[Any, ...]:
    """Return the points, the axis, and the values with this axis first."""
    x, *ys = real_beside(x, *values)
    x = increasing(x, name)
    if ys[0].ndim == 0 or any(y.shape != ys[0].shape for y in ys):
        raise ShapeError(f"{name}: y must have at least one axis, and dydx the shape of y")
    axis = axis_of(axis, ys[0].ndim)
    if ys[0].shape[axis] != x.shape[0]:
        raise ShapeError(f"{name}: y must have length {x.shape[0]} along axis {axis}, like x, got {ys[0].shape[axis]}")
    return x, axis, *[agrad.moveaxis(y, axis, 0) for y in ys]


def column(v: Any, like: Any) -> Tensor:
    """Return a 1-D array as a column with the number of axes of ``like``."""
    return agrad.reshape(v, (-1,) + (1,) * (like.ndim - 1))


def piece_of(x: Any, t: Any) -> Tensor:
    """Return the number of the piece that each ``t`` lies in.

    Beyond the ends it is the first or the last.
    """
    found = agrad.searchsorted(x, t, side="right") - 1
    return agrad.clip(found, 0, x.shape[0] - 2)


def laid_out(out: Tensor, t: Tensor, axis: int) -> Tensor:
    """Return values at flattened points with the axes of the points restored.

    They replace the first axis, at ``axis``.
    """
    out = agrad.reshape(out, (*t.shape, *out.shape[1:]))
    k = t.ndim
    order = (*range(k, k + axis), *range(k), *range(k + axis, out.ndim))
    return out if order == tuple(range(out.ndim)) else agrad.permute_dims(out, order)

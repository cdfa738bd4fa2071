"""Interpolation of tables, 1-D or on a grid."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, RefusedFunctionError, ShapeError
from agrad.interop.arguments import axis_of, is_complex, is_concrete, values_of
from agrad.scipy.interpolate.cubic import CubicSpline
from agrad.scipy.interpolate.nodes import column, increasing, laid_out, piece_of, real_beside, real_places
from agrad.scipy.shared import arrays, method, unsupported

__all__ = ["RegularGridInterpolator", "interp1d", "interpn"]

_KINDS = {"slinear": "linear", "zero": "previous", 0: "previous", 1: "linear", 3: "cubic"}
_LEAST = {"linear": 1, "nearest": 1, "nearest-up": 1, "previous": 1, "next": 1, "cubic": 4}
"""The number of points that each kind requires."""


class interp1d:
    """1-D interpolator.

    Like ``scipy.interpolate.interp1d``, for real or complex ``y``. "cubic" is the spline of ``CubicSpline``.
    "quadratic" and other orders are not supported. If ``bounds_error`` is True but values cannot be read, the result
    beyond the ends is ``fill_value``. ``copy`` is ignored.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y = np.asarray([0.0, 1.0, 3.0]), np.asarray([0.0, 2.0, 3.0])
    >>> interpolate.interp1d(x, y)(np.asarray([0.5, 2.0]))
    array([1. , 2.5])
    >>> agrad.grad(interpolate.interp1d(x, y))(2.0)
    array(0.5)
    >>> agrad.grad(lambda y: interpolate.interp1d(x, y)(2.0))(y)
    array([0. , 0.5, 0.5])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = math.nan,
        assume_sorted: bool = False,
    ) -> None:
        stepped = kind in ("previous", "next")
        kind = _KINDS.get(kind, kind)
        if kind not in _LEAST:
            raise RefusedFunctionError(f"interp1d: kind must be one of {', '.join(_LEAST)}, got {kind!r}")
        pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else (fill_value, fill_value)
        extrapolate = isinstance(fill_value, str)
        if extrapolate and (fill_value != "extrapolate" or bounds_error):
            raise ConfigurationError("interp1d: fill_value='extrapolate' requires bounds_error=False")
        self._given = (x, y) if extrapolate else (x, y, *pair)
        x, y, *fills = real_beside(x, y, *(() if extrapolate else pair))
        if x.ndim != 1 or y.ndim == 0 or x.shape[0] < _LEAST[kind]:
            raise ShapeError(f"interp1d: x must be 1-D with at least {_LEAST[kind]} points, got {tuple(x.shape)}")
        self.axis: int = axis_of(axis, y.ndim)
        if y.shape[self.axis] != x.shape[0]:
            raise ShapeError(f"interp1d: y must have length {x.shape[0]}, like x, got {y.shape[self.axis]}")
        y = agrad.moveaxis(y, self.axis, 0)
        if not assume_sorted:
            order = agrad.argsort(x, stable=True)
            x, y = agrad.take(x, order, axis=0), agrad.take(y, order, axis=0)
        self._x, self._y, self._kind = x, y, kind
        self._bounds_error = not extrapolate if bounds_error is None else bounds_error
        if extrapolate and stepped:  # there is none before the first, and none after the last
            none = agrad.full_like(y[0, ...], math.nan)
            fills = [none, y[-1, ...]] if kind == "previous" else [y[0, ...], none]
        self._fills = fills or None
        self._spline = CubicSpline(x, y) if kind == "cubic" else None

    @method
    def __call__(self, x: Any) -> Any:
        """Evaluate the interpolant at points.

        ``x`` is real and of any shape, which replaces the interpolated axis.
        """
        t, nodes = real_places(x, self._x)
        flat = agrad.reshape(t, (-1,))
        out = self._between(flat, nodes)
        missing = column(agrad.isnan(flat), out)
        out = agrad.where(missing, agrad.full_like(out, math.nan), out)
        if self._fills is not None:
            below, above = flat < nodes[0], flat > nodes[-1]
            if self._bounds_error:
                check_bounds("interp1d", below | above)
            for beyond, fill in zip((below, above), self._fills, strict=True):
                out = agrad.where(column(beyond, out), agrad.broadcast_to(fill, out.shape), out)
        return laid_out(out, t, self.axis)

    def _between(self, t: Any, x: Any) -> Any:
        y, n, kind = self._y, x.shape[0], self._kind
        if self._spline is not None:
            return self._spline._at(t, self._spline._c, True)
        if kind == "linear" and n > 1:
            i = piece_of(x, t)
            a, b = agrad.take(x, i, axis=0), agrad.take(x, i + 1, axis=0)
            low, high = agrad.take(y, i, axis=0), agrad.take(y, i + 1, axis=0)
            return low + column((t - a) / (b - a), low) * (high - low)
        if kind.startswith("nearest"):
            found = agrad.searchsorted(x[1:] / 2 + x[:-1] / 2, t, side="right" if kind == "nearest-up" else "left")
        elif kind == "next":
            found = agrad.searchsorted(x, t, side="left")
        else:
            found = agrad.searchsorted(x, t, side="right") - 1
        return agrad.take(y, agrad.clip(found, 0, n - 1), axis=0)


def check_bounds(name: str, beyond: Any) -> None:
    """Raise an error if a point is beyond the ends and this can be read."""
    if is_concrete(beyond) and np.any(values_of(beyond)):
        raise ShapeError(f"{name}: x must be within the range of the data. Pass bounds_error=False.")


class RegularGridInterpolator:
    """Values between the points of a grid of straight axes.

    Like ``scipy.interpolate.RegularGridInterpolator``: ``points`` has arrays of shapes (n1,), (n2,), ..., ``values``
    has shape ``(n1, n2, ..., *rest)``. Methods other than "linear" and "nearest", and ``solver``, are not supported. If
    ``bounds_error`` is True but values cannot be read, the result beyond the ends is NaN.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> axes = (np.asarray([0.0, 1.0]), np.asarray([0.0, 2.0]))
    >>> surface = interpolate.RegularGridInterpolator(axes, np.asarray([[0.0, 2.0], [1.0, 3.0]]))
    >>> surface(np.asarray([[0.5, 1.0]]))
    array([1.5])
    >>> agrad.grad(lambda x: surface(x)[0])(np.asarray([[0.5, 1.0]]))
    array([[1., 1.]])
    """

    @unsupported("solver", "solver_args")
    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = math.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        self._given = (*points, values)
        values, *axes = arrays(values, *points)
        if len(axes) > values.ndim or [x.shape for x in axes] != [(n,) for n in values.shape[: len(axes)]]:
            raise ShapeError(
                f"RegularGridInterpolator: points must be 1-D and match the axes of values, got shapes "
                f"{[tuple(x.shape) for x in axes]} for values of shape {tuple(values.shape)}"
            )
        self._axes = []
        for k, given in enumerate(axes):
            x = agrad.real(given) if is_complex(given) else given
            if not is_concrete(x):  # it may fall
                order = agrad.argsort(x)
                x, values = agrad.take(x, order, axis=0), agrad.take(values, order, axis=k)
            elif x.shape[0] > 1 and values_of(x)[0] > values_of(x)[-1]:
                x, values = agrad.flip(x, axis=0), agrad.flip(values, axis=k)
            self._axes.append(increasing(x, "RegularGridInterpolator"))
        self._values = values
        self.method: str = self._chosen(method)
        self.bounds_error: bool = bounds_error
        self.fill_value: Any = fill_value

    @staticmethod
    def _chosen(method: str) -> str:
        if method not in ("linear", "nearest"):
            raise RefusedFunctionError(f"RegularGridInterpolator: method must be 'linear' or 'nearest', got {method!r}")
        return method

    @unsupported("nu", fix="Differentiate the call instead")
    @method
    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """Evaluate the interpolant at points.

        ``xi`` has shape (..., d) for d axes, or is a tuple of coordinates. The result has shape (..., *rest). ``nu`` is
        not supported.
        """
        method, d = self._chosen(method or self.method), len(self._axes)
        if isinstance(xi, tuple):
            xi = agrad.stack(agrad.broadcast_arrays(*arrays(*xi)), axis=-1)
        xi, *axes = real_places(xi, *self._axes)
        if xi.ndim == 1:
            xi = agrad.reshape(xi, (-1, d))
        if xi.ndim == 0 or xi.shape[-1] != d:
            raise ShapeError(f"RegularGridInterpolator: xi must have shape (..., {d}), got {tuple(xi.shape)}")
        flat = agrad.reshape(xi, (-1, d))
        pieces = [piece_of(x, flat[:, k]) for k, x in enumerate(axes)]
        shares = [
            (flat[:, k] - agrad.take(x, i, axis=0)) / (agrad.take(x, i + 1, axis=0) - agrad.take(x, i, axis=0))
            for k, (x, i) in enumerate(zip(axes, pieces, strict=True))
        ]
        out = self._linear(pieces, shares) if method == "linear" else self._nearest(pieces, shares)
        out = self._filled(out, flat, axes)
        return agrad.reshape(out, (*xi.shape[:-1], *self._values.shape[d:]))

    def _corner(self, pieces: list[Any]) -> Tensor:
        """Return the values at points of the grid, by their numbers along each axis."""
        sizes = self._values.shape[: len(pieces)]
        place = pieces[0]
        for n, i in zip(sizes[1:], pieces[1:], strict=True):
            place = place * n + i
        return agrad.take(agrad.reshape(self._values, (-1, *self._values.shape[len(sizes) :])), place, axis=0)

    def _linear(self, pieces: list[Any], shares: list[Any]) -> Any:
        parts = []
        for corner in itertools.product((0, 1), repeat=len(pieces)):
            weight = math.prod([s if up else 1 - s for up, s in zip(corner, shares, strict=True)], start=1.0)
            value = self._corner([i + up for up, i in zip(corner, pieces, strict=True)])
            parts.append(column(weight, value) * value)
        return sum(parts[1:], parts[0])

    def _nearest(self, pieces: list[Any], shares: list[Any]) -> Any:
        return self._corner([agrad.where(s > 0.5, i + 1, i) for i, s in zip(pieces, shares, strict=True)])

    def _filled(self, out: Any, flat: Any, axes: list[Any]) -> Any:
        missing = agrad.any(agrad.isnan(flat), axis=1)
        if self.bounds_error or self.fill_value is not None:
            beyond = missing & False
            for k, x in enumerate(axes):
                beyond = beyond | (flat[:, k] < x[0]) | (flat[:, k] > x[-1])
            if self.bounds_error:
                check_bounds("RegularGridInterpolator", beyond)
            fill = math.nan if self.bounds_error else self.fill_value
            out = agrad.where(column(beyond, out), agrad.full_like(out, fill), out)
        return agrad.where(column(missing, out), agrad.full_like(out, math.nan), out)


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = math.nan,
) -> Any:
    """Return values between the points of a grid of straight axes.

    Like ``scipy.interpolate.interpn``, with the arguments and limits of ``RegularGridInterpolator``.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> axes, values = (np.asarray([0.0, 1.0]), np.asarray([0.0, 2.0])), np.asarray([[0.0, 2.0], [1.0, 3.0]])
    >>> interpolate.interpn(axes, values, np.asarray([[0.5, 1.0]]))
    array([1.5])
    >>> agrad.grad(lambda x: interpolate.interpn(axes, values, x)[0])(np.asarray([[0.5, 1.0]]))
    array([[1., 1.]])
    """
    grid = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return grid(xi)

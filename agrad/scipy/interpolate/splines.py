"""B-splines, and those through given values."""

from operator import index
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import axis_of, constant, is_concrete, values_of
from agrad.scipy.interpolate.nodes import column, increasing, laid_out, real_beside, real_places
from agrad.scipy.shared import array, method, ratio

__all__ = ["BSpline", "make_interp_spline"]


def _derived(t: Any, c: Any, k: int) -> tuple[Any, Any, int]:
    """Return knots, coefficients and degree of the derivative."""
    if not k:
        return t, agrad.zeros_like(c), 0
    steps = column(t[k + 1 : -1] - t[1 : -k - 1], c)
    return t[1:-1], ratio(k * agrad.diff(c, axis=0), steps), k - 1


def _integrated(t: Any, c: Any, k: int) -> tuple[Any, Any, int]:
    """Return knots, coefficients and degree of the integral from the first knot."""
    steps = column(t[k + 1 :] - t[: -k - 1], c)
    sums = agrad.cumulative_sum(c * steps / (k + 1), axis=0, include_initial=True)
    return agrad.concat([t[:1], t, t[-1:]]), sums, k + 1


class BSpline:
    """Spline as a sum of B-splines.

    Like ``scipy.interpolate.BSpline``, differentiable with respect to the points, the coefficients and the knots. The
    knots ``t`` have shape (n + k + 1,), and ``c`` has length n or more along ``axis``.

    Notes
    -----
    The recursion of de Boor, A Practical Guide to Splines, 1978.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> spline = interpolate.BSpline(np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.asarray([0.0, 1.0, 0.0]), 2)
    >>> spline(np.asarray([0.25, 0.5]))
    array([0.375, 0.5  ])
    >>> agrad.grad(spline)(0.25)
    array(1.)
    """

    _given: tuple[Any, ...]
    _t: Any
    _c: Any

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self._given = (t, c)
        t, c = real_beside(t, c)
        k = index(k)
        if k < 0 or t.ndim != 1 or c.ndim < 1:
            raise ShapeError("BSpline: t must be 1-D, c must have at least one axis, and k must be at least 0")
        axis = axis_of(axis, c.ndim)
        c = agrad.moveaxis(c, axis, 0)
        n = t.shape[0] - k - 1
        if n < k + 1 or c.shape[0] < n:
            raise ShapeError(
                f"BSpline: t must have at least {2 * k + 2} knots, {k + 1} more than c has coefficients, "
                f"got {t.shape[0]} knots and {c.shape[0]} coefficients"
            )
        if is_concrete(t) and not (np.all(np.diff(values_of(t)) >= 0) and values_of(t[k]) < values_of(t[n])):
            raise ShapeError("BSpline: the knots t must not decrease, and t[k] must be less than t[n]")
        self._fill(t, c[:n, ...], k, extrapolate, axis)

    def _fill(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> None:
        if extrapolate not in (True, False, "periodic"):
            raise ConfigurationError(f"BSpline: extrapolate must be a bool or 'periodic', got {extrapolate!r}")
        self._t = t
        self._c = c
        self.k: int = k
        self.extrapolate = extrapolate
        self.axis: int = axis

    def _made(self, parts: tuple[Any, Any, int], extrapolate: Any) -> "BSpline":
        out = object.__new__(BSpline)
        out._given = self._given
        out._fill(*parts, extrapolate, self.axis)
        return out

    @property
    @method
    def t(self) -> Any:
        """Return the knots."""
        return self._t

    @property
    @method
    def c(self) -> Any:
        """Return the coefficients, as many as B-splines, with ``axis`` first."""
        return self._c

    @classmethod
    def basis_element(cls, t: Any, extrapolate: Any = True) -> "BSpline":
        """Return one B-spline.

        The knots ``t`` have shape (k + 2,) for the degree k.
        """
        given, t = t, array(t)
        k = t.shape[0] - 2
        if k < 0:
            raise ShapeError("BSpline: t must have at least two knots")
        t = agrad.concat([*[t[:1] - 1] * k, t, *[t[-1:] + 1] * k])
        c = agrad.zeros_like(t[: 2 * k + 1])
        c[k] = 1.0
        out = cls(t, c, k, extrapolate)
        out._given = (given,)
        return out

    def _at(self, places: Any, parts: tuple[Any, Any, int], extrapolate: Any) -> Tensor:
        """Return the values of a spline at real points."""
        t, c, k = parts
        places, t = real_places(places, t)
        n = t.shape[0] - k - 1
        x = agrad.reshape(places, (-1,))
        if extrapolate == "periodic":
            x = t[k] + agrad.remainder(x - t[k], t[n] - t[k])
        piece = agrad.clip(agrad.searchsorted(t[k : n + 1], x, side="right") - 1 + k, k, n - 1)
        around = [agrad.take(t, piece + i, axis=0) for i in range(1 - k, k + 1)]
        found = [x * 0 + 1.0]
        for d in range(1, k + 1):
            total, rows = x * 0, []
            for j in range(d):
                right, left = around[k + j], around[k + j - d]
                share = ratio(found[j], right - left)
                rows.append(total + (right - x) * share)
                total = (x - left) * share
            found = [*rows, total]
        out: Any = None
        for j, weight in enumerate(found):
            row = agrad.take(c, piece - k + j, axis=0)
            part = row * column(weight, row)
            out = part if out is None else out + part
        if not extrapolate:
            inside = column((x >= t[k]) & (x <= t[n]), out)
            out = agrad.where(inside, out, agrad.full_like(out, agrad.nan))
        return laid_out(out, places, self.axis)

    @method
    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Evaluate values or derivatives at points.

        ``x`` is real and of any shape, which replaces the axis of the coefficients. ``nu`` is the order of the
        derivative.
        """
        made = self.derivative(nu)
        return self._at(x, (made._t, made._c, made.k), self.extrapolate if extrapolate is None else extrapolate)

    def derivative(self, nu: int = 1) -> "BSpline":
        """Return the derivative as a spline.

        Like the SciPy method.

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> spline = interpolate.BSpline(np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.asarray([0.0, 1.0, 0.0]), 2)
        >>> round(float(spline.derivative()(0.25)), 4)
        1.0
        """
        parts = (self._t, self._c, self.k)
        for _ in range(nu):
            parts = _derived(*parts)
        return self._made(parts, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> "BSpline":
        """Return the integral from the first knot as a spline.

        Like the SciPy method: it is not extrapolated if the spline is periodic.

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> spline = interpolate.BSpline(np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.asarray([0.0, 1.0, 0.0]), 2)
        >>> round(float(spline.antiderivative()(1.0)), 4)
        0.3333
        """
        parts = (self._t, self._c, self.k)
        for _ in range(nu):
            parts = _integrated(*parts)
        return self._made(parts, False if nu and self.extrapolate == "periodic" else self.extrapolate)

    @method
    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Integrate between two points.

        Like the SciPy method, differentiable with respect to ``a`` and ``b`` of shape (). A spline that is not
        extrapolated is treated as 0 beyond the knots.

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> spline = interpolate.BSpline(np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.asarray([0.0, 1.0, 0.0]), 2)
        >>> round(float(spline.integrate(0.0, 1.0)), 4)
        0.3333
        """
        choice = self.extrapolate if extrapolate is None else extrapolate
        a, b, t = real_places(a, b, self._t)
        first, last = t[self.k], t[-self.k - 1]
        parts = _integrated(t, self._c, self.k)
        if choice == "periodic":
            turns = [agrad.floor((v - first) / (last - first)) for v in (a, b)]
            a, b = (v - n * (last - first) for v, n in zip((a, b), turns, strict=True))
            rest = (turns[1] - turns[0]) * (self._at(last, parts, True) - self._at(first, parts, True))
            return self._at(b, parts, True) - self._at(a, parts, True) + rest
        if not choice:
            a, b = (agrad.clip(v, first, last) for v in (a, b))
        return self._at(b, parts, True) - self._at(a, parts, True)


_ENDS = {"clamped": 1, "natural": 2}
"""The order of the derivative that is 0 at an end, by SciPy name."""


def _conditions(bc_type: Any) -> list[list[tuple[int, Any]]]:
    """Return orders and values of the derivatives given at the first and the last point."""
    both = [bc_type, bc_type] if bc_type is None or isinstance(bc_type, str) else list(bc_type)
    if len(both) != 2:
        raise ConfigurationError("make_interp_spline: bc_type must be a string or a pair of two ends")
    found: list[list[tuple[int, Any]]] = []
    for end in both:
        if isinstance(end, str) and end != "not-a-knot":
            if end not in _ENDS:
                raise ConfigurationError(f"make_interp_spline: bc_type must be 'clamped' or 'natural', got {end!r}")
            found.append([(_ENDS[end], 0.0)])
        else:
            found.append([] if end is None or isinstance(end, str) else [(index(n), value) for n, value in end])
    return found


def _knots(x: Tensor, k: int, given: bool) -> Tensor:
    """Return the knots of SciPy: the points, some left out, with the ends repeated k times more."""
    if not k:
        return agrad.concat([x, x[-1:]])
    if given:
        inner = x[1:-1]
    else:
        half = (k + 1) // 2 if k % 2 else k // 2
        inner = (x if k % 2 else (x[1:] + x[:-1]) / 2)[half:-half]
    return agrad.concat([*[x[:1]] * (k + 1), inner, *[x[-1:]] * (k + 1)])


def _around(x: Tensor, k: int) -> Tensor:
    """Return the periodic knots of SciPy: points (midpoints for even degrees) and k more at each end."""
    n = x.shape[0] - 1
    inner = x if k % 2 else agrad.concat([x[:1], (x[1:-1] + x[:-2]) / 2, x[-1:]])
    turns = np.arange(-k, n + k + 1)
    return agrad.take(inner, turns % n) + constant((turns // n).astype(x.dtype.name), x) * (x[-1] - x[0])


def _periodic(x: Tensor, c: Tensor, k: int, t: Any) -> tuple[Tensor, Tensor]:
    """Return the knots and the coefficients of a periodic spline."""
    if t is not None:
        raise ConfigurationError("make_interp_spline: t is not supported for a periodic spline. Leave t out.")
    if is_concrete(c) and not np.allclose(values_of(c)[0], values_of(c)[-1], rtol=1e-5, atol=1e-15):
        raise ShapeError("make_interp_spline: y[0] and y[-1] must be equal for a periodic spline")
    n, knots = x.shape[0] - 1, _around(x, k)
    turns = np.arange(n + k) % n
    eye = agrad.eye(n, dtype=knots.dtype, backend=c.backend, device=c.device)
    # the k B-splines that reach beyond the period count with those that come in from its other end
    matrix = agrad.asarray(BSpline(knots, agrad.take(eye, turns, axis=0), k)(x[:-1]))
    right = agrad.reshape(c[:-1, ...], (n, -1))
    found = agrad.linalg.solve(agrad.astype(matrix, right.dtype), right)
    return knots, agrad.reshape(agrad.take(found, turns, axis=0), (n + k, *c.shape[1:]))


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> BSpline:
    """Return the spline through given values.

    Like ``scipy.interpolate.make_interp_spline``, differentiable with respect to ``x``, ``y``, ``t`` and the values of
    ``bc_type``. Nonfinite values return NaN. It solves a dense linear system.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y = np.asarray([0.0, 1.0, 2.0, 3.0]), np.asarray([0.0, 1.0, 8.0, 27.0])
    >>> spline = interpolate.make_interp_spline(x, y)
    >>> round(float(spline(1.5)), 4), round(float(agrad.grad(spline)(1.5)), 4)
    (3.375, 6.75)
    >>> agrad.grad(lambda y: interpolate.make_interp_spline(x, y)(1.5))(y).round(4)
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """
    periodic = isinstance(bc_type, str) and bc_type == "periodic"
    conditions = _conditions(None if periodic else bc_type)
    values = [value for end in conditions for _, value in end]
    places, c = real_beside(x, y)
    places = increasing(places, "make_interp_spline")
    axis = axis_of(axis, c.ndim)
    c = agrad.moveaxis(c, axis, 0)
    if c.shape[0] != places.shape[0]:
        raise ShapeError(f"make_interp_spline: y must have length {places.shape[0]}, like x, got {c.shape[0]}")
    out = object.__new__(BSpline)
    out._given = (x, y, t, *values)
    if periodic and k > 1:
        out._fill(*_periodic(places, c, k, t), k, "periodic", axis)
        return out
    knots = _knots(places, k, bool(values)) if t is None else real_beside(t, c)[0]
    count = knots.shape[0] - k - 1
    if count != places.shape[0] + len(values):
        raise ShapeError(
            f"make_interp_spline: {knots.shape[0]} knots of degree {k} require {count} conditions, got "
            f"{places.shape[0]} values and {len(values)} derivatives"
        )
    basis = BSpline(knots, agrad.eye(count, dtype=knots.dtype, backend=c.backend, device=c.device), k)
    first, last = (
        [(basis(place, n), agrad.broadcast_to(real_beside(0.0, value, c)[1], c.shape[1:])) for n, value in end]
        for place, end in zip((places[0], places[-1]), conditions, strict=True)
    )
    rows = [agrad.asarray(basis(places)), *[agrad.expand_dims(row, axis=0) for row, _ in (*first, *last)]]
    sides = [c, *[agrad.expand_dims(value, axis=0) for _, value in (*first, *last)]]
    right = agrad.concat(sides, axis=0)
    flat = agrad.reshape(right, (count, -1))
    matrix = agrad.astype(agrad.concat(rows, axis=0), flat.dtype)
    found = agrad.reshape(agrad.linalg.solve(matrix, flat), right.shape)
    out._fill(knots, found, k, True, axis)
    return out

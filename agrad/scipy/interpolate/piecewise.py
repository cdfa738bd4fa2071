"""Piecewise polynomials."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import axis_of, constant
from agrad.scipy.interpolate.nodes import column, increasing, laid_out, piece_of, real_beside, real_places
from agrad.scipy.shared import method


def _factors(numbers: Any, like: Any) -> Tensor:
    """Return numbers as a real constant column that broadcasts with ``like``."""
    real = like.dtype.name.replace("complex128", "float64").replace("complex64", "float32")
    return column(constant(np.asarray(numbers, dtype=real), like), like)


def _derived(c: Any, nu: int) -> Any:
    """Return the coefficients of the derivative of order ``nu``, the highest power first."""
    k = c.shape[0]
    if nu >= k:
        return agrad.zeros_like(c[:1, ...])
    return c[: k - nu, ...] * _factors([math.perm(k - 1 - i, nu) for i in range(k - nu)], c) if nu else c


def _horner(c: Any, s: Any) -> Tensor:
    out = c[0, ...]
    for i in range(1, c.shape[0]):
        out = out * s + c[i, ...]
    return out


def _integrated(c: Any, x: Any) -> Tensor:
    """Return the coefficients of the continuous integral from the first breakpoint."""
    k = c.shape[0]
    higher = c * _factors([1 / (k - i) for i in range(k)], c)
    flat = agrad.zeros_like(higher[:1, ...])
    steps = column(agrad.diff(x), flat[0, ...])
    pieces = _horner(agrad.concat([higher, flat], axis=0), steps)
    begins = agrad.concat([flat[0, :1, ...], agrad.cumulative_sum(pieces[:-1, ...], axis=0)], axis=0)
    return agrad.concat([higher, agrad.expand_dims(begins, axis=0)], axis=0)


class PPoly:
    """Piecewise polynomial.

    Like ``scipy.interpolate.PPoly``: ``c`` has shape (k, m, ...), ``x`` has shape (m + 1,) and must increase strictly.
    Both are differentiable.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> pieces = interpolate.PPoly(np.asarray([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), np.asarray([0.0, 1.0, 2.0]))
    >>> pieces(np.asarray([0.5, 1.5]))
    array([0.25, 2.  ])
    >>> agrad.grad(pieces)(0.5)
    array(1.)
    """

    _given: tuple[Any, ...]
    _c: Any
    _x: Any

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        self._given = (c, x)
        x, c = real_beside(x, c)
        if c.ndim < 2:
            raise ShapeError(f"PPoly: c must have shape (k, m, ...), got {tuple(c.shape)}")
        axis = axis_of(axis, c.ndim - 1)
        c = agrad.moveaxis(c, (axis, axis + 1), (0, 1))
        x = increasing(x, "PPoly")
        if c.shape[0] == 0 or c.shape[1] != x.shape[0] - 1:
            raise ShapeError(f"PPoly: c must have shape (k, {x.shape[0] - 1}, ...), got {tuple(c.shape)}")
        self._fill(c, x, extrapolate, axis)

    def _fill(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self._c = c
        self._x = x
        self.axis: int = axis
        self.extrapolate: Any = self._choice(True if extrapolate is None else extrapolate)

    def _choice(self, extrapolate: Any) -> Any:
        choice = self.extrapolate if extrapolate is None else extrapolate
        if choice not in (True, False, "periodic"):
            raise ConfigurationError(f"interpolation: extrapolate must be a bool or 'periodic', got {extrapolate!r}")
        return choice if choice == "periodic" else bool(choice)

    def _made(self, c: Any, extrapolate: Any) -> "PPoly":
        out = object.__new__(PPoly)
        out._given = self._given
        out._fill(c, self._x, extrapolate, self.axis)
        return out

    @property
    @method
    def c(self) -> Any:
        """Return the coefficients, of shape (k, m, ...)."""
        return self._c

    @property
    @method
    def x(self) -> Any:
        """Return the ends of the pieces."""
        return self._x

    def _at(self, t: Any, c: Any, extrapolate: Any) -> Tensor:
        """Return the values of the polynomials ``c`` at real points."""
        t, x = real_places(t, self._x)
        flat = agrad.reshape(t, (-1,))
        if extrapolate == "periodic":
            flat = x[0] + agrad.remainder(flat - x[0], x[-1] - x[0])
        i = piece_of(x, flat)
        rows = agrad.take(c, i, axis=1)
        s = column(flat - agrad.take(x, i, axis=0), rows[0, ...])
        out = _horner(rows, s)
        if c.shape[0] == 1:
            out = out + agrad.where(agrad.isnan(s), s, agrad.zeros_like(s))
        if not extrapolate:
            inside = column((flat >= x[0]) & (flat <= x[-1]), out)
            out = agrad.where(inside, out, agrad.full_like(out, agrad.nan))
        return laid_out(out, t, self.axis)

    @method
    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Evaluate values or derivatives at points.

        ``x`` is real and of any shape, which replaces the interpolated axis. ``nu`` is the order of the derivative.
        """
        if nu < 0:
            raise ConfigurationError(f"interpolation: nu must be at least 0, got {nu!r}. Call antiderivative().")
        return self._at(x, _derived(self._c, nu), self._choice(extrapolate))

    def derivative(self, nu: int = 1) -> "PPoly":
        """Return the derivative as a piecewise polynomial.

        Like the SciPy method. If ``nu`` is negative, it is the integral.

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> pieces = interpolate.PPoly(np.asarray([[1.0], [0.0], [0.0]]), np.asarray([0.0, 2.0]))
        >>> round(float(pieces.derivative()(0.5)), 4)
        1.0
        """
        return self.antiderivative(-nu) if nu < 0 else self._made(_derived(self._c, nu), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> "PPoly":
        """Return the integral from the first breakpoint as a piecewise polynomial.

        Like the SciPy method: it is continuous, and not extrapolated if the polynomial is periodic.

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> pieces = interpolate.PPoly(np.asarray([[1.0], [0.0], [0.0]]), np.asarray([0.0, 2.0]))
        >>> round(float(pieces.antiderivative()(1.0)), 4)
        0.3333
        """
        if nu <= 0:
            return self.derivative(-nu)
        c = self._c
        for _ in range(nu):
            c = _integrated(c, self._x)
        return self._made(c, False if self.extrapolate == "periodic" else self.extrapolate)

    @method
    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Integrate between two points.

        Like the SciPy method, differentiable with respect to ``a`` and ``b`` of shape ().

        Examples
        --------
        >>> from agrad.scipy import interpolate
        >>> pieces = interpolate.PPoly(np.asarray([[1.0], [0.0], [0.0]]), np.asarray([0.0, 2.0]))
        >>> round(float(pieces.integrate(0.0, 1.0)), 4)
        0.3333
        """
        a, b, x = real_places(a, b, self._x)
        if a.ndim or b.ndim:
            raise ShapeError("interpolation: a and b must be numbers. Call antiderivative() for arrays.")
        choice = self._choice(extrapolate)
        whole = _integrated(self._c, self._x)
        if choice != "periodic":
            return self._at(b, whole, choice) - self._at(a, whole, choice)
        period = x[-1] - x[0]
        turns = agrad.floor((b - x[0]) / period) - agrad.floor((a - x[0]) / period)
        return self._at(b, whole, choice) - self._at(a, whole, choice) + turns * self._at(x[-1], whole, True)

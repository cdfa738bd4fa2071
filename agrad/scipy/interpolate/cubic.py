"""Cubic interpolants: splines and local methods."""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.interop.arguments import is_complex, is_concrete, values_of
from agrad.scipy.interpolate.nodes import column, nodes
from agrad.scipy.interpolate.piecewise import PPoly
from agrad.scipy.shared import arrays, ratio

__all__ = ["Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PchipInterpolator"]

Slopes = Callable[[Any, Any, Any], Any]
"""Derivatives at the nodes from steps (n - 1, 1), slopes of secants, and values (n, k)."""


class CubicHermiteSpline(PPoly):
    """Piecewise cubic with given values and derivatives.

    Like ``scipy.interpolate.CubicHermiteSpline``, differentiable with respect to ``x``, ``y`` and ``dydx``. ``dydx``
    has the shape of ``y``, n is at least 2, and the methods are the same as of ``PPoly``.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y, slopes = np.asarray([0.0, 1.0]), np.asarray([0.0, 1.0]), np.asarray([0.0, 0.0])
    >>> curve = interpolate.CubicHermiteSpline(x, y, slopes)
    >>> curve(np.asarray([0.25, 0.5]))
    array([0.15625, 0.5    ])
    >>> agrad.grad(curve)(0.5)
    array(1.5)
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        self._given = (x, y, dydx)
        x, axis, y, dydx = nodes("CubicHermiteSpline", x, axis, y, dydx)
        self._join(x, y, lambda h, chord, y: agrad.reshape(dydx, y.shape), extrapolate, axis)

    def _join(self, x: Any, y: Any, slopes: Slopes, extrapolate: Any, axis: int) -> None:
        """Set the coefficients of the cubics from a function that computes the derivatives."""
        shape = y.shape[1:]
        y = agrad.reshape(y, (x.shape[0], int(np.prod(shape, dtype=int))))
        h = column(agrad.diff(x), y)
        chord = agrad.diff(y, axis=0) / h
        s = slopes(h, chord, y)
        left, right = s[:-1, :], s[1:, :]
        bend = (left + right - 2 * chord) / h
        c = agrad.stack([bend / h, (chord - left) / h - bend, left, y[:-1, :]], axis=0)
        self._fill(agrad.reshape(c, (4, x.shape[0] - 1, *shape)), x, extrapolate, axis)


def _real(name: str, y: Any) -> None:
    if is_complex(y):
        raise DtypeError(f"{name}: y must be real. Interpolate agrad.real(y) and agrad.imag(y).")


# ---------------------------------------------------------------- monotone


def _monotone_end(h0: Any, h1: Any, m0: Any, m1: Any) -> Tensor:
    """Return the derivative of the parabola at an end, limited to preserve the shape of the data."""
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (agrad.sign(m0) != agrad.sign(m1)) & (agrad.abs(d) > 3 * agrad.abs(m0))
    return agrad.where(agrad.sign(d) != agrad.sign(m0), agrad.zeros_like(d), agrad.where(steep, 3 * m0, d))


def _monotone(h: Any, chord: Any, y: Any) -> Tensor:
    if y.shape[0] == 2:
        return agrad.concat([chord, chord], axis=0)
    before, after = chord[:-1, :], chord[1:, :]
    w1, w2 = 2 * h[1:, :] + h[:-1, :], h[1:, :] + 2 * h[:-1, :]
    # the weighted harmonic mean of slopes of one sign, and 0 if one is 0 or they differ in sign
    good = (agrad.sign(before) == agrad.sign(after)) & (before != 0) & (after != 0)
    one = agrad.ones_like(before)
    mean = (w1 + w2) / (w1 / agrad.where(good, before, one) + w2 / agrad.where(good, after, one))
    # a NaN slope has no sign, and is kept
    inner = agrad.where(good, mean, agrad.where(agrad.isnan(before + after), before + after, agrad.zeros_like(mean)))
    first = _monotone_end(h[:1, :], h[1:2, :], chord[:1, :], chord[1:2, :])
    last = _monotone_end(h[-1:, :], h[-2:-1, :], chord[-1:, :], chord[-2:-1, :])
    return agrad.concat([first, inner, last], axis=0)


class PchipInterpolator(CubicHermiteSpline):
    """Piecewise cubic that is monotone in intervals in which the data are monotone.

    Like ``scipy.interpolate.PchipInterpolator``, for real ``y`` and n at least 2, with the methods of ``PPoly``. If the
    differences change sign at a node, the derivative there is 0, with gradient 0.

    Notes
    -----
    Derivatives at the nodes: Fritsch and Butland, A method for constructing local monotone piecewise cubic
    interpolants, SIAM J. Sci. Comput. 5 (1984).

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y = np.arange(4.0), np.asarray([0.0, 1.0, 1.0, 3.0])
    >>> curve = interpolate.PchipInterpolator(x, y)
    >>> round(float(curve(0.5)), 4), round(float(agrad.grad(curve)(0.5)), 4)
    (0.6875, 1.125)
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        self._given = (x, y)
        x, axis, y = nodes("PchipInterpolator", x, axis, y)
        _real("PchipInterpolator", y)
        self._join(x, y, _monotone, extrapolate, axis)


# ---------------------------------------------------------------- Akima's

_FLAT = 1e-9
"""Weights below this fraction of the largest are treated as 0, as in SciPy."""


def _akima(modified: bool) -> Slopes:
    def slopes(h: Any, chord: Any, y: Any) -> Any:
        if y.shape[0] == 2:
            return agrad.concat([chord, chord], axis=0)
        one, two = chord[:1, :], chord[1:2, :]
        last, before = chord[-1:, :], chord[-2:-1, :]
        # two secants beyond each end, whose slopes continue in equal steps
        m = agrad.concat([3 * one - 2 * two, 2 * one - two, chord, 2 * last - before, 3 * last - 2 * before], axis=0)
        change = agrad.abs(m[1:, :] - m[:-1, :])
        if modified:
            change = change + agrad.abs(m[1:, :] + m[:-1, :]) / 2
        left, right = change[:-2, :], change[2:, :]
        weight = left + right
        good = weight > _FLAT * agrad.stop_gradient(agrad.max(weight))
        mean = m[1:-2, :] + ratio(left, weight, good) * (m[2:-1, :] - m[1:-2, :])
        return agrad.where(good, mean, (m[:-3, :] + m[3:, :]) / 2)

    return slopes


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima piecewise cubic interpolator.

    Like ``scipy.interpolate.Akima1DInterpolator``, for real ``y`` and n at least 2, with the methods of ``PPoly``. If
    neighboring differences are equal, the weights have a kink, and their derivative is 0.

    Notes
    -----
    Akima, A new method of interpolation and smooth curve fitting based on local procedures, J. ACM 17 (1970).

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y = np.arange(5.0), np.asarray([0.0, 1.0, 4.0, 9.0, 16.0])
    >>> curve = interpolate.Akima1DInterpolator(x, y)
    >>> round(float(curve(2.5)), 4), round(float(agrad.grad(curve)(2.5)), 4)
    (6.25, 5.0)
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None) -> None:
        if method not in ("akima", "makima"):
            raise ConfigurationError(f"Akima1DInterpolator: method must be 'akima' or 'makima', got {method!r}")
        self._given = (x, y)
        x, axis, y = nodes("Akima1DInterpolator", x, axis, y)
        _real("Akima1DInterpolator", y)
        self._join(x, y, _akima(method == "makima"), False if extrapolate is None else extrapolate, axis)


# ---------------------------------------------------------------- splines


def _solve(lower: Any, main: Any, upper: Any, right: Any) -> Tensor:
    """Solve a system with a periodic tridiagonal matrix."""
    eye = agrad.eye(main.shape[0], dtype=main.dtype, backend=main.backend, device=main.device)
    matrix = main * eye + lower * agrad.roll(eye, -1, axis=1) + upper * agrad.roll(eye, 1, axis=1)
    return agrad.linalg.solve(agrad.astype(matrix, right.dtype), right)


def _end(bc: Any, h: Any, chord: Any, sign: float) -> tuple[Any, Any, Any]:
    """Return the equation of an end: factors of the two derivatives, and right side.

    ``h`` and ``chord`` are the steps and differences of the first two pieces, from the end inwards.
    """
    n = len(h) + 1
    if bc == "not-a-knot" and n == 2:
        bc = (1, chord[0])
    if bc == "parabola":
        return agrad.ones_like(h[0]), agrad.ones_like(h[0]), 2 * chord[0]
    if bc == "not-a-knot":
        d = h[0] + h[1]
        return h[1], d, ((h[0] + 2 * d) * h[1] * chord[0] + h[0] * h[0] * chord[1]) / d
    order, value = bc
    if order == 1:
        return agrad.ones_like(h[0]), agrad.zeros_like(h[0]), value
    return 2 * h[0], h[0], 3 * h[0] * chord[0] + sign * 0.5 * value * h[0] * h[0]


def _spline(start: Any, end: Any) -> Slopes:
    def slopes(h: Any, chord: Any, y: Any) -> Any:
        n = y.shape[0]
        if n == 3 and isinstance(start, str) and isinstance(end, str):
            return slopes_of("parabola", "parabola", h, chord)
        return slopes_of(start, end, h, chord)

    def slopes_of(start: Any, end: Any, h: Any, chord: Any) -> Any:
        steps, rises = [h[i : i + 1, :] for i in (0, 1)], [chord[i : i + 1, :] for i in (0, 1)]
        m0, off0, r0 = _end(start, steps if h.shape[0] > 1 else steps[:1], rises, -1.0)
        k = h.shape[0]
        steps, rises = (
            [h[i : i + 1, :] for i in (k - 1, k - 2) if i >= 0],
            [chord[i : i + 1, :] for i in (k - 1, k - 2)],
        )
        m1, off1, r1 = _end(end, steps, rises, 1.0)
        a, b = h[:-1, :], h[1:, :]
        zero = agrad.zeros_like(m0)
        return _solve(
            agrad.concat([zero, b, off1], axis=0),
            agrad.concat([m0, 2 * (a + b), m1], axis=0),
            agrad.concat([off0, a, zero], axis=0),
            agrad.concat([r0, 3 * (b * chord[:-1, :] + a * chord[1:, :]), r1], axis=0),
        )

    return slopes


def _periodic(h: Any, chord: Any, y: Any) -> Tensor:
    before, rise = agrad.roll(h, 1, axis=0), agrad.roll(chord, 1, axis=0)
    found = _solve(h, 2 * (before + h), before, 3 * (h * rise + before * chord))
    return agrad.concat([found, found[:1, :]], axis=0)


class CubicSpline(CubicHermiteSpline):
    """Piecewise cubic with two continuous derivatives.

    Like ``scipy.interpolate.CubicSpline``, for real or complex ``y`` and n at least 2, with the methods of ``PPoly``.
    Values of derivatives in ``bc_type`` are differentiable too.

    The derivatives at the nodes solve a dense linear system of n equations, in O(n**3) time and O(n**2) memory. This is
    suitable for up to some thousand points.

    Examples
    --------
    >>> from agrad.scipy import interpolate
    >>> x, y = np.asarray([0.0, 1.0, 2.0, 3.0]), np.asarray([0.0, 1.0, 8.0, 27.0])
    >>> curve = interpolate.CubicSpline(x, y)
    >>> round(float(curve(1.5)), 4), round(float(agrad.grad(curve)(1.5)), 4)
    (3.375, 6.75)
    >>> agrad.grad(lambda y: interpolate.CubicSpline(x, y)(1.5))(y).round(4)
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
        given = [bc[1] for bc in pair if not isinstance(bc, str) and len(bc) == 2]
        self._given = (x, y, *given)
        x, axis, y = nodes("CubicSpline", x, axis, y)
        if bc_type == "periodic":
            if is_concrete(y) and not np.allclose(values_of(y)[0], values_of(y)[-1], rtol=1e-15, atol=1e-15):
                raise ShapeError("CubicSpline: y[0] and y[-1] must be equal for a periodic spline")
            self._join(x, y, _periodic, "periodic" if extrapolate is None else extrapolate, axis)
            return
        y, *given = arrays(y, *given)
        slopes = _spline(*_ends(pair, y, given))
        self._join(x, y, slopes, extrapolate, axis)


def _ends(pair: tuple[Any, ...], y: Any, values: list[Any]) -> list[Any]:
    """Return the conditions as "not-a-knot" or (order, row of values)."""
    if len(pair) != 2 or "periodic" in pair:
        raise ConfigurationError("CubicSpline: bc_type must be a string or a pair of conditions other than 'periodic'")
    out: list[Any] = []
    waiting = list(values)
    for bc in pair:
        if bc == "not-a-knot":
            out.append(bc)
            continue
        zero = agrad.zeros_like(y[0, ...])
        orders = {"clamped": (1, zero), "natural": (2, zero)}
        if isinstance(bc, str) and bc not in orders:
            raise ConfigurationError(f"CubicSpline: bc_type must be a known name or a pair, got {bc!r}")
        order, value = orders[bc] if isinstance(bc, str) else (bc[0], waiting.pop(0))
        if order not in (1, 2) or value.shape != y.shape[1:]:
            raise ShapeError(
                f"CubicSpline: a condition must be (1 or 2, value of shape {tuple(y.shape[1:])}), got order {order} "
                f"and shape {tuple(value.shape)}"
            )
        out.append((order, agrad.reshape(value, (1, -1))))
    return out

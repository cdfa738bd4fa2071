"""Integrals of samples."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import axis_of, constant
from agrad.scipy.shared import arrays, function, ratio, unsupported

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "romb", "simpson", "trapezoid"]


def _samples(y: Any, x: Any, dx: Any, axis: int, least: int = 1) -> tuple[Tensor, Any]:
    """Return the samples with their axis last, and the steps between them as an array."""
    y, step = arrays(y, dx if x is None else x)
    axis = axis_of(axis, y.ndim)
    n = y.shape[axis]
    if n < least:
        raise ShapeError(f"integrals: y must have at least {least} samples along the axis, got {n}")
    y = agrad.moveaxis(y, axis, -1)
    if x is None:
        if step.ndim:
            raise ShapeError("integrals: dx must be a number. Pass x for steps that differ.")
        return y, agrad.broadcast_to(step, (n - 1,))
    if step.ndim not in (1, y.ndim) or step.shape[axis if step.ndim > 1 else 0] != n:
        raise ShapeError(f"integrals: x must be 1-D or as y, with the length of y along the axis, got {step.shape}")
    return y, agrad.diff(step if step.ndim == 1 else agrad.moveaxis(step, axis, -1), axis=-1)


def _trapezia(y: Tensor, step: Tensor) -> Tensor:
    return step * (y[..., 1:] + y[..., :-1]) / 2


@function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Integrate samples by the trapezoidal rule.

    Like ``scipy.integrate.trapezoid``: ``x`` is 1-D or has the shape of ``y``, ``dx`` has shape (). The axis is
    removed.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> y = np.asarray([0.0, 1.0, 4.0])
    >>> integrate.trapezoid(y)
    np.float64(3.0)
    >>> agrad.grad(integrate.trapezoid)(y)
    array([0.5, 1. , 0.5])
    """
    return agrad.sum(_trapezia(*_samples(y, x, dx, axis)), axis=-1)


@function
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Tensor:
    """Integrate samples cumulatively by the trapezoidal rule.

    Like ``scipy.integrate.cumulative_trapezoid``: the result is one shorter than ``y`` along the axis, or of its shape
    if ``initial`` is 0.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> y = np.asarray([0.0, 1.0, 4.0, 9.0])
    >>> integrate.cumulative_trapezoid(y)
    array([0.5, 3. , 9.5])
    >>> agrad.grad(lambda y: integrate.cumulative_trapezoid(y)[-1])(y)
    array([0.5, 1. , 1. , 0.5])
    """
    if initial not in (None, 0):
        raise ConfigurationError(f"cumulative_trapezoid: initial must be 0 or None, got {initial!r}")
    out = agrad.cumulative_sum(_trapezia(*_samples(y, x, dx, axis)), axis=-1, include_initial=initial is not None)
    return agrad.moveaxis(out, -1, axis)


def _parabolas(y: Tensor, step: Tensor) -> Tensor:
    """Return the integral of parabolas through the samples 0 to 2, 2 to 4, and so on."""
    h, k = step[..., 0::2], step[..., 1::2]
    a, b, c = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    both = h + k
    parts = a * (2 - ratio(k, h)) + b * (both * ratio(both, h * k)) + c * (2 - ratio(h, k))
    return agrad.sum(both / 6 * parts, axis=-1)


@function
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Integrate samples by Simpson's rule.

    Like ``scipy.integrate.simpson``: ``x`` is 1-D or has the shape of ``y``, ``dx`` has shape (). The axis is removed.

    Notes
    -----
    For an even number of samples, the last interval is integrated under the parabola through the last three
    (Cartwright, Simpson's rule cumulative integration with MS Excel and irregularly-spaced data, J. Math. Sci. Math.
    Educ. 12 (2017)).

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> y = np.asarray([0.0, 1.0, 4.0])
    >>> round(float(integrate.simpson(y)), 6)
    2.666667
    >>> agrad.grad(integrate.simpson)(y).round(4)
    array([0.3333, 1.3333, 0.3333])
    """
    y, step = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n == 2:
        return agrad.sum(_trapezia(y, step), axis=-1)
    if n % 2:
        return _parabolas(y, step)
    h, k = step[..., -2], step[..., -1]
    last = (
        ratio(2 * k * k + 3 * h * k, 6 * (h + k)) * y[..., -1]
        + ratio(k * k + 3 * h * k, 6 * h) * y[..., -2]
        - ratio(k * k * k, 6 * h * (h + k)) * y[..., -3]
    )
    return _parabolas(y[..., :-1], step[..., :-1]) + last


def _first_halves(y: Tensor, h: Any, k: Any) -> Tensor:
    """Return the integrals over the first interval of each parabola through three samples, of steps h and k."""
    share, slope = h / (h + k), h / k
    bend = share * slope
    return h / 6 * ((3 - share) * y[..., :-2] + (3 + bend + share) * y[..., 1:-1] - bend * y[..., 2:])


@function
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Tensor:
    """Integrate samples cumulatively by Simpson's rule.

    Like ``scipy.integrate.cumulative_simpson``: the result is one shorter than ``y`` along the axis, or of its shape if
    the number ``initial`` is given. Each interval is integrated under the parabola through its ends and a neighbor
    (Cartwright, as in ``simpson``), or by the trapezoidal rule if there are two samples.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> y = np.asarray([0.0, 1.0, 4.0, 9.0])
    >>> integrate.cumulative_simpson(y).round(4)
    array([0.3333, 2.6667, 9.    ])
    >>> agrad.grad(lambda y: integrate.cumulative_simpson(y)[-1])(y).round(4)
    array([0.3333, 1.25  , 1.    , 0.4167])
    """
    y, step = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        parts = _trapezia(y, step)
    else:
        h, k = step[..., :-1], step[..., 1:]
        first, second = (
            _first_halves(y, h, k),
            agrad.flip(_first_halves(agrad.flip(y, axis=-1), agrad.flip(k, axis=-1), agrad.flip(h, axis=-1)), axis=-1),
        )
        # intervals 0, 2, ... begin a parabola; the others, and the last, end one
        begins = constant((np.arange(n - 1) % 2 == 0) & (np.arange(n - 1) < n - 2), y)
        first = agrad.concat([first, first[..., -1:]], axis=-1)
        second = agrad.concat([second[..., :1], second], axis=-1)
        parts = agrad.where(begins, first, second)
    out = agrad.cumulative_sum(parts, axis=-1, include_initial=initial is not None)
    if initial is not None:
        out, initial = arrays(out, initial)
        if initial.ndim:
            raise ShapeError("cumulative_simpson: initial must be a number. Add an array to the result.")
        out = out + initial
    return agrad.moveaxis(out, -1, axis)


@unsupported("show")
@function
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Tensor:
    """Integrate samples by Romberg's method.

    Like ``scipy.integrate.romb``: the axis, of a power of 2 plus 1 samples, is removed. ``show`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> y = np.linspace(0.0, 1.0, 5) ** 2
    >>> round(float(integrate.romb(y, dx=0.25)), 6)
    0.333333
    >>> agrad.grad(lambda y: integrate.romb(y, dx=0.25))(y).round(4)
    array([0.0778, 0.3556, 0.1333, 0.3556, 0.0778])
    """
    y, step = _samples(y, None, dx, axis, 2)
    n = y.shape[-1] - 1
    if n & (n - 1):
        raise ShapeError(f"romb: the number of samples must be a power of 2 plus 1, got {n + 1}")
    row = [n * step[0] * (y[..., 0] + y[..., -1]) / 2]
    while n > 1:
        # the midpoints between the points of the previous row
        middle = agrad.sum(y[..., n // 2 :: n], axis=-1) * (n * step[0])
        new = [(row[0] + middle) / 2]
        for j, before in enumerate(row):
            new.append(new[j] + (new[j] - before) / (4.0 ** (j + 1) - 1))
        row, n = new, n // 2
    return row[-1]

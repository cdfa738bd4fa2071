"""Integrals and initial value problems by the names of ``scipy.integrate``."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, RefusedFunctionError, ShapeError
from agrad.interop.arguments import axis_of, constant, is_complex
from agrad.scipy.shared import array, arrays, function, is_array

__all__ = [
    "OdeResult",
    "cumulative_simpson",
    "cumulative_trapezoid",
    "fixed_quad",
    "romb",
    "simpson",
    "solve_ivp",
    "trapezoid",
]


def _samples(y: Any, x: Any, dx: Any, axis: int, least: int = 1) -> tuple[Tensor, Any]:
    """Return the samples with their axis last, and the steps between them as an array of one axis or more."""
    y, step = arrays(y, dx if x is None else x)
    axis = axis_of(axis, y.ndim)
    n = y.shape[axis]
    if n < least:
        raise ShapeError(f"integrals: the axis has {n} samples, of at least {least}")
    y = agrad.moveaxis(y, axis, -1)
    if x is None:
        if step.ndim:
            raise ShapeError("integrals: dx is one number; give x for steps that differ")
        return y, agrad.broadcast_to(step, (n - 1,))
    if step.ndim not in (1, y.ndim) or step.shape[axis if step.ndim > 1 else 0] != n:
        raise ShapeError("integrals: x has one axis, or those of y, with as many elements along the axis as y")
    return y, agrad.diff(step if step.ndim == 1 else agrad.moveaxis(step, axis, -1), axis=-1)


def _trapezia(y: Tensor, step: Tensor) -> Tensor:
    return step * (y[..., 1:] + y[..., :-1]) / 2


@function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples by the trapezoidal rule.

    Parameters
    ----------
    y : array
        The samples.
    x : array, optional
        Their places, of one axis, or of the shape of ``y``.
    dx : float
        The step without ``x``.
    axis : int
        The axis to integrate along.

    Returns
    -------
    array
        Of the shape of ``y`` without the axis.
    """
    return agrad.sum(_trapezia(*_samples(y, x, dx, axis)), axis=-1)


@function
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Integrate samples up to each place by the trapezoidal rule.

    Parameters
    ----------
    y : array
        The samples.
    x : array, optional
        Their places, of one axis, or of the shape of ``y``.
    dx : float
        The step without ``x``.
    axis : int
        The axis to integrate along.
    initial : {0, None}
        0 for a first element of 0, so that the length is that of ``y``.

    Returns
    -------
    array
        One shorter than ``y`` along the axis, or of its shape.

    Raises
    ------
    ConfigurationError
        For another ``initial``.
    """
    if initial not in (None, 0):
        raise ConfigurationError(f"cumulative_trapezoid: initial is 0 or None, not {initial!r}; add it to the result")
    out = agrad.cumulative_sum(_trapezia(*_samples(y, x, dx, axis)), axis=-1, include_initial=initial is not None)
    return agrad.moveaxis(out, -1, axis)


def _over(a: Tensor, b: Any) -> Tensor:
    """Return ``a / b``, and 0 where ``b`` is 0: places that coincide have no part, as in SciPy."""
    zero = b == 0
    return agrad.where(zero, agrad.zeros_like(a), a / agrad.where(zero, agrad.ones_like(b), b))


def _parabolas(y: Tensor, step: Tensor) -> Tensor:
    """Return the integral of parabolas through the samples 0 to 2, 2 to 4, and so on."""
    h, k = step[..., 0::2], step[..., 1::2]
    a, b, c = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    both = h + k
    parts = a * (2 - _over(k, h)) + b * (both * _over(both, h * k)) + c * (2 - _over(h, k))
    return agrad.sum(both / 6 * parts, axis=-1)


@function
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples by Simpson's rule.

    Parameters
    ----------
    y : array
        The samples.
    x : array, optional
        Their places, of one axis, or of the shape of ``y``.
    dx : float
        The step without ``x``.
    axis : int
        The axis to integrate along.

    Returns
    -------
    array
        Of the shape of ``y`` without the axis.

    Notes
    -----
    For an even number of samples the last interval is integrated under the parabola through the last three (Cartwright,
    Simpson's rule cumulative integration with MS Excel and irregularly-spaced data, J. Math. Sci. Math. Educ. 12
    (2017)).
    """
    y, step = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n == 2:
        return agrad.sum(_trapezia(y, step), axis=-1)
    if n % 2:
        return _parabolas(y, step)
    h, k = step[..., -2], step[..., -1]
    last = (
        _over(2 * k * k + 3 * h * k, 6 * (h + k)) * y[..., -1]
        + _over(k * k + 3 * h * k, 6 * h) * y[..., -2]
        - _over(k * k * k, 6 * h * (h + k)) * y[..., -3]
    )
    return _parabolas(y[..., :-1], step[..., :-1]) + last


def _first_halves(y: Tensor, h: Any, k: Any) -> Tensor:
    """Return the integrals over the first interval of each parabola through three samples, of steps h and k."""
    share, slope = h / (h + k), h / k
    bend = share * slope
    return h / 6 * ((3 - share) * y[..., :-2] + (3 + bend + share) * y[..., 1:-1] - bend * y[..., 2:])


@function
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Integrate samples up to each place by Simpson's rule.

    Parameters
    ----------
    y : array
        The samples.
    x : array, optional
        Their places, of one axis, or of the shape of ``y``, that increase.
    dx : float
        The step without ``x``.
    axis : int
        The axis to integrate along.
    initial : float, optional
        A number to add to the result and put before it, so that the length is that of ``y``.

    Returns
    -------
    array
        One shorter than ``y`` along the axis, or of its shape.

    Notes
    -----
    Each interval is integrated under the parabola through its ends and a neighbour (Cartwright, as in ``simpson``). Of
    two samples the trapezoidal rule is taken.
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
            raise ShapeError("cumulative_simpson: initial is one number; leave it away and add the array to the result")
        out = out + initial
    return agrad.moveaxis(out, -1, axis)


@function
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    """Integrate samples by Romberg's method.

    Parameters
    ----------
    y : array
        The samples, one more than a power of 2 along the axis.
    dx : float
        The step.
    axis : int
        The axis to integrate along.
    show : bool
        SciPy's printing of the table, refused.

    Returns
    -------
    array
        Of the shape of ``y`` without the axis.

    Raises
    ------
    ShapeError
        For another number of samples.
    """
    if show:
        raise RefusedFunctionError("romb: show=True is not printed; leave it away")
    y, step = _samples(y, None, dx, axis, 2)
    n = y.shape[-1] - 1
    if n & (n - 1):
        raise ShapeError(f"romb: one sample more than a power of 2, not {n + 1}")
    row = [n * step[0] * (y[..., 0] + y[..., -1]) / 2]
    while n > 1:
        # the places halfway between those of the row before
        middle = agrad.sum(y[..., n // 2 :: n], axis=-1) * (n * step[0])
        new = [(row[0] + middle) / 2]
        for j, before in enumerate(row):
            new.append(new[j] + (new[j] - before) / (4.0 ** (j + 1) - 1))
        row, n = new, n // 2
    return row[-1]


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Sequence[Any] = (), n: int = 5) -> Any:
    """Integrate a function by Gauss's rule of a fixed order.

    Parameters
    ----------
    func : callable
        Takes an array of places, and ``args``, and returns their values along the last axis, by agrad's functions.
    a, b : float
        The ends, finite. They are differentiated.
    args : tuple
        Further arguments of ``func``. They are differentiated.
    n : int
        The number of places.

    Returns
    -------
    tuple
        The integral, and None as in SciPy.

    Raises
    ------
    ShapeError
        For ends that are no numbers.
    """

    def integral(a: Any, b: Any, *args: Any) -> tuple[Tensor, None]:
        a, b, *_ = [agrad.real(x) if is_complex(x) else x for x in arrays(a, b, *filter(is_array, args))]
        if a.ndim or b.ndim:
            raise ShapeError("fixed_quad: the ends are numbers")
        nodes, weights = [constant(v.astype(a.dtype.name), a) for v in np.polynomial.legendre.leggauss(n)]
        half = (b - a) / 2
        given = [agrad.asarray(x) if is_array(x) else x for x in args]
        return half * agrad.sum(weights * func(half * (nodes + 1) + a, *given), axis=-1), None

    return function(integral)(a, b, *args)


class OdeResult(NamedTuple):
    """The solution of an initial value problem.

    Parameters
    ----------
    t : array
        The times, of shape (n,).
    y : array
        The solution, of shape (*shape of y0, n).
    success : bool
        True: a failure is an error.
    message : str
        The reason why the solver has stopped.
    status : int
        0, for the end of the interval.
    """

    t: Any
    y: Any
    success: bool
    message: str
    status: int


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[float],
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Sequence[Any] | None = None,
    **options: Any,
) -> OdeResult:
    """Solve ``dy/dt = fun(t, y, *args)`` from the first time to the last.

    Parameters
    ----------
    fun : callable
        Takes the time, y and ``args``, and returns an array like y, by agrad's functions.
    t_span : pair of float
        The first time and the last. They are constants.
    y0 : array
        The value at the first time. It is differentiated.
    method : {"RK45"}
        The pair of Dormand and Prince by ``agrad.odeint``; SciPy's other methods are refused.
    t_eval : array, optional
        The times to return, in the order of ``t_span``, constants; without it the first and the last, where SciPy
        returns each of its own steps.
    dense_output : bool
        SciPy's function of time, refused: name the times in ``t_eval``.
    events : None
        SciPy's functions whose zeros are found, refused.
    vectorized : bool
        Without effect on this method, as in SciPy.
    args : tuple, optional
        Further arguments of ``fun``. They are differentiated.
    **options
        ``rtol`` (1e-3) and ``atol`` (1e-6), numbers: also the accuracy of derivatives. Others are refused.

    Returns
    -------
    OdeResult
        The times ``t``, the solution ``y`` with times along its last axis, ``success``, ``message`` and ``status``.

    Raises
    ------
    ConvergenceError
        Where SciPy returns a result without success.
    RefusedFunctionError
        For what is refused.
    ShapeError
        For times that are not in order within ``t_span``.
    DetachError
        For recorded times.

    Notes
    -----
    Derivatives are those of ``agrad.odeint``, which solves the adjoint equation back. Its steps differ from SciPy's by
    the first one and the interpolation, so that values agree to the tolerances.
    """
    refused = {"dense_output": dense_output, "events": events is not None, "method": method not in ("RK45",)}
    refused |= {name: True for name in options if name not in ("rtol", "atol")}
    for name, given in refused.items():
        if given:
            raise RefusedFunctionError(f"solve_ivp: {name} is not computed; solved is method='RK45' at times t_eval")
    first, last = (float(t) for t in t_span)
    wanted = np.asarray([first, last] if t_eval is None else t_eval, dtype=float)
    order = np.sign(last - first)
    inside = np.all((wanted - first) * order >= 0) and np.all((last - wanted) * order >= 0)
    if wanted.ndim != 1 or not inside or np.any(np.diff(wanted) * order <= 0):
        raise ShapeError("solve_ivp: t_eval has one axis of times from the first of t_span to the last, in this order")

    def solution(y0: Any, *args: Any) -> OdeResult:
        y0 = array(y0)
        kind = y0.dtype.name.replace("complex128", "float64").replace("complex64", "float32")
        begins = wanted.size > 0 and wanted[0] == first
        times = constant((wanted if begins else np.concatenate([[first], wanted])).astype(kind), y0)
        if times.shape[0] > 1:
            tolerances = {"rtol": 1e-3, "atol": 1e-6} | options
            y = agrad.odeint(lambda y, t, *more: fun(t, y, *more), y0, times, *args, **tolerances)
        else:
            y = agrad.expand_dims(y0, axis=0)
        if not begins:
            times, y = times[1:], y[1:, ...]
        return OdeResult(times, agrad.moveaxis(y, 0, -1), True, "The end of the interval is reached.", 0)

    return function(solution)(y0, *(args or ()))

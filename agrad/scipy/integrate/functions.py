"""Integrals of functions."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConvergenceError, DtypeError, RefusedFunctionError, ShapeError, TracedValueError
from agrad.interop.arguments import constant, is_complex, values_of
from agrad.scipy.shared import arrays, function, is_array, unsupported
from agrad.solvers.quadrature import value_and_slopes

__all__ = ["fixed_quad", "quad"]

_KRONROD = (0.9956571630258081, 0.9301574913557082, 0.7808177265864169, 0.5627571346686047, 0.29439286270146020, 0.0)
"""The nodes of the 21-point Kronrod rule that the 10-point Gauss rule lacks."""


def _rules() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes and weights of the Kronrod rule on -1 to 1, and the Gauss weights with zeros between."""
    gauss, own = np.polynomial.legendre.leggauss(10)
    places = np.unique(np.concatenate([gauss, _KRONROD, np.negative(_KRONROD)]))
    # exact for the polynomials of the first 21 degrees, which determines the weights
    weights = np.linalg.solve(np.polynomial.legendre.legvander(places, 20).T, np.eye(21)[0] * 2)
    return places, weights, np.where(np.isin(places, gauss), np.interp(places, gauss, own), 0.0)


_PLACES, _WEIGHTS, _GAUSS = _rules()


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Sequence[Any] = (), n: int = 5) -> Any:
    """Integrate a function by Gauss's rule of a fixed order.

    Like ``scipy.integrate.fixed_quad``, differentiable with respect to ``a`` and ``b`` of shape (), and ``args``.
    ``func`` receives an array of shape (n,), and returns values along its last axis, computed with agrad.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> def integral(b):
    ...     return integrate.fixed_quad(lambda x: x**2, 0.0, b)[0]
    >>> round(float(integral(np.asarray(3.0))), 6), round(float(agrad.grad(integral)(3.0)), 6)
    (9.0, 9.0)
    """

    def integral(a: Any, b: Any, *args: Any) -> tuple[Tensor, None]:
        a, b, *_ = [agrad.real(x) if is_complex(x) else x for x in arrays(a, b, *filter(is_array, args))]
        if a.ndim or b.ndim:
            raise ShapeError("fixed_quad: a and b must be numbers")
        nodes, weights = [constant(v.astype(a.dtype.name), a) for v in np.polynomial.legendre.leggauss(n)]
        half = (b - a) / 2
        given = [agrad.asarray(x) if is_array(x) else x for x in args]
        return half * agrad.sum(weights * func(half * (nodes + 1) + a, *given), axis=-1), None

    return function(integral)(a, b, *args)


def _limits(a: Tensor, b: Tensor) -> tuple[Callable[[Any], tuple[Any, Any]], bool]:
    """Return the map of 0 to 1 to the interval with its derivative, and True if an end is infinite."""
    low, high = (float(values_of(agrad.stop_gradient(v))) for v in (a, b))
    if np.isfinite(low) and np.isfinite(high):
        return lambda s: (a + (b - a) * s, b - a), False
    if np.isfinite(low) or np.isfinite(high):
        end, sign, turn = (a, np.sign(high), 1.0) if np.isfinite(low) else (b, np.sign(low), -1.0)
        return lambda s: (end + sign * (1 - s) / s, turn * sign / (s * s)), True
    if low == high:
        return lambda s: (s, 0 * s), True
    # both halves at once: s from 0 to 1 maps to minus infinity to infinity
    sign = np.sign(high)
    return lambda s: (sign * (2 * s - 1) / (s * (1 - s)), sign * (1 / (s * s) + 1 / ((1 - s) * (1 - s)))), True


class _Panel:
    """The integral over a part of 0 to 1, and its error."""

    def __init__(self, g: Callable[[Any], Any], low: float, high: float, like: Tensor) -> None:
        self.low, self.high = low, high
        half = (high - low) / 2
        kind = like.dtype.name
        places, weights, gauss = (
            constant(x.astype(kind), like) for x in (low + half * (_PLACES + 1), half * _WEIGHTS, half * _GAUSS)
        )
        values, slopes = value_and_slopes(g, places, [weights, gauss])
        self.value = agrad.sum(weights * values)
        # the error estimate of QUADPACK's QK21
        f, unit = values_of(agrad.stop_gradient(values)), np.finfo(kind).eps
        kronrod = half * np.sum(_WEIGHTS * f)
        spread = half * np.sum(_WEIGHTS * np.abs(f - kronrod / (high - low)))
        error = abs(kronrod - half * np.sum(_GAUSS * f))
        if spread and error:
            error = spread * min(1.0, (200 * error / spread) ** 1.5)
        self.rounding = float(50 * unit * half * np.sum(_WEIGHTS * np.abs(f)))
        self.number, self.error = kronrod, max(float(error), self.rounding)
        known, other = ({node: values_of(x) for node, x in part.items()} for part in slopes)
        self.slopes = {node: _compared(x, other[node]) for node, x in known.items()}
        self.worst = max([self.error, *[float(np.max(error, initial=0.0)) for _, error in self.slopes.values()]])


def _compared(kronrod: np.ndarray, gauss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a derivative computed with the Kronrod rule, and its error."""
    size = np.abs(kronrod)
    ratio = np.abs(kronrod - gauss) / np.where(size > 0, size, 1.0)
    error = np.where(size > 0, size * np.minimum(1.0, (200 * ratio) ** 1.5), ratio)
    return kronrod, np.where(np.isfinite(error), error, np.inf)


def _sums(panels: list[_Panel]) -> Iterator[tuple[float, float, float]]:
    """Yield the size of each derivative of the integral, its error, and what rounding leaves of that."""
    for node in {node for panel in panels for node in panel.slopes}:
        found = [panel.slopes[node] for panel in panels if node in panel.slopes]
        size, error = (float(np.max(np.abs(sum(part)), initial=0.0)) for part in zip(*found, strict=True))
        unit = 100 * float(np.finfo(found[0][0].dtype).eps)
        yield size, error, unit * sum(float(np.max(np.abs(kronrod), initial=0.0)) for kronrod, _ in found)


def _adapted(g: Callable[[Any], Any], ends: Sequence[float], like: Tensor, goal: Any, limit: int) -> list[_Panel]:
    """Return panels between the ends, the worst ones halved until ``goal(panels)`` holds."""
    panels = [_Panel(g, low, high, like) for low, high in itertools.pairwise(ends)]
    while not goal(panels):
        worst = max(panels, key=lambda panel: panel.worst)
        middle = (worst.low + worst.high) / 2
        if len(panels) >= limit or not worst.low < middle < worst.high:
            error = sum(panel.worst for panel in panels)
            raise ConvergenceError(
                f"quad: {len(panels)} subdivisions leave an error of {error:.2g} in the integral or a derivative. "
                "Check that it converges, or pass a larger limit, larger tolerances, or points where it is not smooth."
            )
        panels.remove(worst)
        panels += [_Panel(g, worst.low, middle, like), _Panel(g, middle, worst.high, like)]
    return panels


def _values(func: Callable[..., Any], x: Any, given: Sequence[Any], complex_func: bool) -> Tensor:
    """Return the values at points, passing each to ``func`` as a number."""
    # v * 0 for functions that return a Python number
    out = agrad.vmap(lambda v: func(v, *given) + v * 0, randomness="same")(x)
    if out.ndim != 1:
        raise ShapeError(f"quad: func must return a number, got an array of shape {out.shape[1:]}")
    if is_complex(out) and not complex_func:
        raise DtypeError("quad: func must return a real number, got a complex one. Pass complex_func=True.")
    return out


@unsupported("weight", "wvar", "wopts", "maxp1", "limlst")
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Sequence[float] | None = None,
    weight: None = None,
    wvar: None = None,
    wopts: None = None,
    maxp1: int = 50,
    limlst: int = 50,
    complex_func: bool = False,
) -> Any:
    """Integrate a function of one number to a given accuracy.

    Like ``scipy.integrate.quad``, differentiable with respect to finite limits of shape (), and ``args``. ``func`` is
    called under ``vmap``, with agrad functions and without branches on values. With ``full_output``, the third result
    contains the numbers ``neval`` and ``last``. ``weight`` and its options are not supported.

    Raises
    ------
    ConvergenceError
        If the integral or a first derivative does not reach the accuracy.
    TracedValueError
        Under ``jit`` and ``vmap``, as subdivisions depend on values. Use ``fixed_quad``.

    Notes
    -----
    Uses the 21-point Kronrod rule with the error estimate of QUADPACK (Piessens et al., 1983) and bisects intervals.
    SciPy also extrapolates, which needs fewer subdivisions if ``func`` is infinite at a limit. As in QUADPACK, the
    substitution x = a + (1 - s) / s maps an infinite limit to 0.

    The derivative is the derivative of the sum over the subdivisions. Intervals are bisected until the first derivative
    has the same accuracy; second derivatives are not checked. A jump at a point that depends on an argument does not
    contribute to the derivative. For derivatives with respect to a limit, ``func`` must have an integrable derivative.

    Examples
    --------
    >>> from agrad.scipy import integrate
    >>> def integral(rate):
    ...     return integrate.quad(lambda x: agrad.exp(-rate * x), 0.0, np.inf)[0]
    >>> round(float(integral(np.asarray(2.0))), 6), round(float(agrad.grad(integral)(2.0)), 6)
    (0.5, -0.25)
    """
    if points is not None and not all(np.isfinite(float(p)) for p in points):
        raise RefusedFunctionError("quad: points must be finite. Leave the others out.")

    def integral(a: Any, b: Any, *args: Any) -> tuple[Any, ...]:
        a, b, *_ = [agrad.real(x) if is_complex(x) else x for x in arrays(a, b, *filter(is_array, args))]
        if a.ndim or b.ndim:
            raise ShapeError("quad: a and b must be numbers")
        given = [agrad.asarray(x) if is_array(x) else x for x in args]
        try:
            place, infinite = _limits(a, b)
            ends = _divided(points, a, b, infinite)

            def g(s: Any) -> Any:
                x, slope = place(s)
                return _values(func, x, given, complex_func) * slope

            def reached(panels: list[_Panel]) -> bool:
                total = abs(sum(panel.number for panel in panels))
                rounding = 2 * sum(panel.rounding for panel in panels)
                if sum(panel.error for panel in panels) > max(epsabs, epsrel * total, rounding):
                    return False
                return all(error <= max(epsabs, epsrel * size, unit) < np.inf for size, error, unit in _sums(panels))

            panels = _adapted(g, ends, a, reached, limit)
        except TracedValueError as error:
            raise TracedValueError(
                "quad: the subdivisions depend on values, which are not known under jit and vmap, and func must not "
                "branch on them. Use fixed_quad."
            ) from error
        total = panels[0].value
        for panel in panels[1:]:
            total = total + panel.value
        count = 2 * len(panels) - len(ends) + 1
        info = {"neval": _PLACES.size * count, "last": len(panels)}
        return (total, sum(panel.error for panel in panels), *([info] if full_output else []))

    return function(integral)(a, b, *(args if isinstance(args, tuple) else (args,)))


def _divided(points: Sequence[float] | None, a: Tensor, b: Tensor, infinite: bool) -> list[float]:
    """Return 0, the shares of the points between the limits, and 1."""
    if points is None or not len(points):
        return [0.0, 1.0]
    if infinite:
        raise ShapeError("quad: points requires finite limits. Leave it out, or split the interval.")
    low, high = (float(values_of(agrad.stop_gradient(v))) for v in (a, b))
    shares = sorted({(float(p) - low) / (high - low) for p in points})
    if not all(0 <= share <= 1 for share in shares):
        raise ShapeError("quad: points must be between the limits")
    return [0.0, *[share for share in shares if 0 < share < 1], 1.0]

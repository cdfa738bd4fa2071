"""Special functions of complex numbers, with SciPy names."""

import math
from typing import Any

import numpy as np

from agrad.engine.notation import elementwise
from agrad.ops.special.exponential import lambertw_rule
from agrad.ops.special.exponential_forms import BRANCH, OVER_E
from agrad.ops.special.series import polynomial
from agrad.ops.special.shared import whole_number

_NODES = 12
"""Nodes of the trapezoidal rule on each side of 0."""
_STEP = math.sqrt(math.pi / _NODES)
_TURN = -2j * math.pi / _STEP


def _rule(xp: Any, z: Any, shift: Any, n: int) -> Any:
    """Return i / pi times a derivative of the rule for exp(-t**2) / (z - t)."""
    total = z * 0
    for k in range(-_NODES - 3, _NODES + 3):
        node = (shift + k) * _STEP
        total = total + xp.exp(-node * node) / (z - node) ** (n + 1)
    return total * (1j * _STEP / math.pi * (-1) ** n * math.factorial(n))


def _upper(xp: Any, z: Any, n: int) -> Any:
    """Return the n-th derivative of w(z) in the first quadrant.

    M. Al Azah and S. N. Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules"
    (2021). The nodes are half a step from 0 or none, so that z is not close to one.
    """
    x, y = xp.real(z), xp.imag(z)
    part = x / _STEP - xp.floor(x / _STEP)
    middle = (part < 0.25) | (part >= 0.75)
    shift = xp.where(middle, xp.full_like(x, 0.5), xp.zeros_like(x))
    low = (y < math.pi / _STEP) & (x < 40)
    place = xp.where(low, z, xp.ones_like(z))
    turn = xp.exp(place * _TURN)
    step = 1 / (1 + xp.where(middle, turn, -turn))
    # by Leibniz' rule 2 exp(-z**2) / (1 + exp(c z)): derivatives of the quotient are polynomials of it
    pole, waves, powers = xp.zeros_like(z), _waves(xp, place, n), np.asarray([0.0, 1.0])
    for k in range(n + 1):
        weight = 2 * math.comb(n, k) * _TURN**k
        pole = pole + weight * waves[n - k] * polynomial(powers[::-1].tolist(), step)
        powers = np.polynomial.polynomial.polymul(np.polynomial.polynomial.polyder(powers), [0.0, -1.0, 1.0])
    return _rule(xp, z, shift, n) + xp.where(low, pole, xp.zeros_like(z))


def _waves(xp: Any, z: Any, n: int) -> list[Any]:
    """Return exp(-z**2) and its first n derivatives."""
    found = [xp.exp(-z * z)]
    for k in range(n):
        found.append(-2 * z * found[-1] - (2 * k * found[-2] if k else 0))
    return found


def _derivative_of_wofz(xp: Any, z: Any, /, *, n: int) -> Any:
    with np.errstate(all="ignore"):
        below = xp.imag(z) < 0
        above = xp.where(below, -z, z)
        left = xp.real(above) < 0
        found = _upper(xp, xp.where(left, -xp.conj(above), above), n)
        sign = (-1) ** n
        found = xp.where(left, sign * xp.conj(found), found)
        # w(z) = 2 exp(-z**2) - w(-z)
        wave = _waves(xp, xp.where(below, z, xp.zeros_like(z)), n)[n]
        return xp.where(below, 2 * wave - sign * found, found)


wofz = elementwise("special.wofz", lambda g, z, *, n: g * wofz(z, n=n + 1), forward=_derivative_of_wofz)


def _branch(xp: Any, x: Any, /, *, k: int) -> Any:
    """Return the branch k of Lambert's function by Halley's method.

    R. M. Corless and others, "On the Lambert W function" (1996), section 4.
    """
    with np.errstate(all="ignore"):
        one = xp.ones_like(x)
        rise = (x + OVER_E[0]) + OVER_E[1]
        p = xp.sqrt(2 * math.e * rise)
        # the branches -1 and 1 meet the branch point above and below the cut
        side = xp.imag(x) >= 0 if k == -1 else xp.imag(x) < 0
        series = (xp.abs(p) < 0.35) & (side if k in (-1, 1) else xp.abs(x) * 0 == k)
        p = p if k == 0 else -p
        at = xp.where(x == 0, one, x)
        log = xp.log(at) + 2j * math.pi * k
        far = log - xp.log(xp.where(log == 0, one, log))
        small = xp.log1p(xp.where(xp.real(at) > -0.5, at, one))
        close = xp.abs(p) < (1.5 if k == 0 else 1.2)
        if k == 0:
            w = xp.where((xp.abs(at) < 4) & (xp.real(at) > -0.5), small * (1 - xp.log1p(small) / (2 + small)), far)
        else:
            w, close = far, close & side if k in (-1, 1) else series
        w = xp.where(close, -1 + p - p * p / 3 + 11 / 72 * p * p * p, w)
        for _ in range(10):
            t = w - at * xp.exp(-w)
            w = w - t / (w + 1 - (w + 2) * t / (2 * w + 2))
        w = xp.where(series, polynomial(BRANCH, xp.where(series, p, xp.zeros_like(p))), w)
        end = xp.zeros_like(x) if k == 0 else xp.full_like(x, -math.inf)
        return xp.where(x == 0, end, w)


_lambertw = elementwise("special.lambertw", lambertw_rule, forward=_branch)


def lambertw(z: Any, k: Any) -> Any:
    """Return a branch of Lambert's function of complex numbers."""
    return _lambertw(z, k=whole_number("lambertw", "k", k))

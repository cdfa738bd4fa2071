"""The normal distribution between two points."""

import math
from typing import Any

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import chosen, log1mexp
from agrad.scipy.stats.kinds import Continuous
from agrad.scipy.stats.location import norm
from agrad.scipy.stats.quantiles import solution


def _log_mass(low: Tensor, high: Tensor) -> Tensor:
    """Return the logarithm of the normal probability between two points."""
    # on the left side, on which nothing cancels, or about 0
    right = low > 0
    a, b = agrad.where(right, -high, low), agrad.where(right, -low, high)
    across = b > 0
    outer = agrad.log1p(-_mass(chosen(across, a, -1.0)) - _mass(-chosen(across, b, 1.0)))
    b = chosen(across, agrad.zeros_like(b), b)
    a = chosen(across, agrad.full_like(a, -1.0), a)
    endless = a <= -agrad.inf
    log_b = special.log_ndtr(b)
    gap = chosen(endless, agrad.ones_like(b), log_b - special.log_ndtr(chosen(endless, agrad.full_like(a, -1.0), a)))
    inner = log_b + chosen(endless, agrad.zeros_like(b), log1mexp(gap))
    return agrad.where(across, outer, inner)


def _mass(x: Tensor) -> Tensor:
    """Return the normal probability up to ``x``, with the derivative 0 at -inf."""
    endless = x <= -agrad.inf
    return chosen(endless, agrad.zeros_like(x), special.ndtr(chosen(endless, agrad.zeros_like(x), x)))


def _log_sum(x: Tensor, log: Tensor) -> Tensor:
    """Return the logarithm of the normal probability up to ``x`` and another one."""
    endless = x <= -agrad.inf
    return agrad.where(endless, log, agrad.logaddexp(special.log_ndtr(chosen(endless, agrad.zeros_like(x), x)), log))


def _tail_step(x: Tensor, log: Tensor) -> Tensor:
    found = special.log_ndtr(x)
    return (log - found) * agrad.exp(found - norm._logpdf(x))


def _tail_solve(log: Any) -> Tensor:
    """Return x with log_ndtr(x) = log, for log up to log(1/2), by Newton's method."""
    log = agrad.asarray(log)
    deep = log < (-80.0 if log.dtype == agrad.float32 else -700.0)
    square = -2 * chosen(deep, log, -700.0) - math.log(2 * math.pi)
    x = agrad.where(deep, -agrad.sqrt(square - agrad.log(square)), special.ndtri(agrad.exp(log)))
    for _ in range(2):
        x = x + _tail_step(x, log)
    return x


_tail_solution = solution(_tail_solve, _tail_step)


class TruncNorm(Continuous):
    """The normal distribution between a and b.

    ``pdf(x, a, b, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-(z**2) / 2) / sqrt(2 * pi) / (ndtr(b) - ndtr(a)) / scale for a <= z <= b

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.truncnorm.pdf(np.asarray([0.0, 1.0]), -1.0, 2.0).round(6)
    array([0.48735 , 0.295593])
    >>> round(float(agrad.grad(lambda x: stats.truncnorm.logpdf(x, -1.0, 2.0))(1.0)), 6)
    -1.0
    """

    shapes: tuple[str, ...] = ("a", "b")
    safe: tuple[float, float] = (-1.0, 1.0)

    def _valid(self, a: Tensor, b: Tensor) -> Tensor:
        return a < b

    def _inside(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return (z >= a) & (z <= b) & agrad.isfinite(z)

    def _point(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        low = agrad.where(agrad.isfinite(a), a, agrad.where(agrad.isfinite(b), b, agrad.zeros_like(b)) - 2)
        high = agrad.where(agrad.isfinite(b), b, low + 2)
        return agrad.stop_gradient(0.5 * (low + high))

    def _logpdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return norm._logpdf(z) - _log_mass(a, b)

    def _cdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        # at the ends by the density: the logarithm of nothing has no derivative
        (low, first), (high, last) = self._first(z, a, b), self._first(-z, -b, -a)
        return agrad.where(low, first, agrad.where(high, 1 - last, agrad.exp(self._logcdf(z, a, b))))

    def _first(self, z: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return a mask of z near ``a``, and the probability between them."""
        off = z - a
        near = off < (1e-7 if z.dtype == agrad.float64 else 1e-3)
        off = chosen(near, off, 0.0)
        return near, off * agrad.exp(self._logpdf(z - 0.5 * off, a, b))

    def _sf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self._cdf(-z, -b, -a)

    def _logcdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        # near 1 from the other side, on which nothing cancels
        log = self._below(z, a, b)
        near = log > -0.5
        other = self._below(-z, -b, -a)
        high, last = self._first(-z, -b, -a)
        return agrad.where(high, agrad.log1p(-last), agrad.where(near, log1mexp(-chosen(near, other, -1.0)), log))

    def _below(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        zero = z <= a
        log = _log_mass(agrad.where(zero, z - 1, a), z) - _log_mass(a, b)
        return chosen(zero, agrad.full_like(log, -agrad.inf), log)

    def _ends(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a, b

    def _ppf(self, q: Tensor, a: Tensor, b: Tensor) -> Tensor:
        mass = _log_mass(a, b)
        below = _log_sum(a, agrad.log(q) + mass)
        above = _log_sum(-b, agrad.log1p(-q) + mass)
        left = below < above
        x = _tail_solution(agrad.where(left, below, above))
        return agrad.where(left, x, -x)

    def _isf(self, q: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return -self._ppf(q, -b, -a)

    def _logsf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self._logcdf(-z, -b, -a)


truncnorm: TruncNorm = TruncNorm()

"""The normal distribution between two points."""

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import chosen, log1mexp
from agrad.scipy.stats.kinds import Continuous
from agrad.scipy.stats.location import norm


def _log_mass(low: Tensor, high: Tensor) -> Tensor:
    """Return the logarithm of the normal probability between two points."""
    # on the left side, where nothing cancels, or about 0
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


class TruncNorm(Continuous):
    """The normal distribution between a and b. Parameters: a, b, loc=0, scale=1."""

    shapes = ("a", "b")
    safe = (-1.0, 1.0)

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
        return agrad.exp(self._logcdf(z, a, b))

    def _sf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return agrad.exp(self._logsf(z, a, b))

    def _logcdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        # near 1 from the other side, where nothing cancels
        log = self._below(z, a, b)
        near = log > -0.5
        other = self._below(-z, -b, -a)
        return agrad.where(near, log1mexp(-chosen(near, other, -1.0)), log)

    def _below(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        zero = z <= a
        log = _log_mass(agrad.where(zero, z - 1, a), z) - _log_mass(a, b)
        return chosen(zero, agrad.full_like(log, -agrad.inf), log)

    def _logsf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self._logcdf(-z, -b, -a)


truncnorm = TruncNorm()

"""Distributions on integers."""

from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import chosen, log1mexp, moment
from agrad.scipy.stats.kinds import Discrete
from agrad.scipy.stats.tails import log_beta_density, log_betainc, log_gamma_density, log_gammainc, log_gammaincc

__all__ = ["bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"]


class Poisson(Discrete):
    """The Poisson distribution.

    ``pmf(x, mu, loc=0)`` with k = x - loc::

        mu**k * exp(-mu) / factorial(k) for k >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.poisson.pmf(np.asarray([0.0, 2.0]), 1.5).round(6)
    array([0.22313 , 0.251021])
    >>> round(float(agrad.grad(lambda p: stats.poisson.logpmf(1.0, p))(1.5)), 6)
    -0.333333
    """

    shapes: tuple[str, ...] = ("mu",)

    def _valid(self, *shapes: Tensor) -> Tensor:
        return (shapes[0] >= 0) & agrad.isfinite(shapes[0])

    def _logpmf(self, k: Tensor, mu: Tensor) -> Tensor:
        return log_gamma_density(k + 1, mu)

    def _cdf(self, k: Tensor, mu: Tensor) -> Tensor:
        return special.gammaincc(k + 1, mu)

    def _sf(self, k: Tensor, mu: Tensor) -> Tensor:
        return special.gammainc(k + 1, mu)

    def _logcdf(self, k: Tensor, mu: Tensor) -> Tensor:
        return log_gammaincc(k + 1, mu)

    def _logsf(self, k: Tensor, mu: Tensor) -> Tensor:
        return log_gammainc(k + 1, mu)

    def _mean(self, mu: Tensor) -> Tensor:
        return mu

    def _var(self, mu: Tensor) -> Tensor:
        return mu


class _Counted(Discrete):
    """Distribution on the integers from 0 to the first shape parameter, which is not differentiable."""

    def _inside(self, z: Tensor, *shapes: Tensor) -> Tensor:
        return (z >= 0) & (z <= shapes[0])

    def _ends(self, *shapes: Tensor) -> tuple[float, Tensor]:
        return 0.0, shapes[0]


class Binom(_Counted):
    """The binomial distribution.

    ``pmf(x, n, p, loc=0)`` with k = x - loc::

        binom(n, k) * p**k * (1 - p) ** (n - k)

    It is not differentiable with respect to ``n``.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.binom.pmf(np.asarray([0.0, 2.0]), 4, 0.25).round(6)
    array([0.316406, 0.210938])
    >>> round(float(agrad.grad(lambda p: stats.binom.logpmf(2.0, 4, p))(0.25)), 6)
    5.333333
    """

    shapes: tuple[str, ...] = ("n", "p")

    def _valid(self, *shapes: Tensor) -> Tensor:
        n, p = shapes
        return (n >= 0) & (n == agrad.floor(n)) & (p >= 0) & (p <= 1)

    def _logpmf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        n = agrad.stop_gradient(n)
        return log_beta_density(k + 1, n - k + 1, p) - agrad.log1p(n)

    def _tails(self, k: Tensor, n: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        """Return the mask k == n, the parameters, and the two probabilities for other k."""
        n = agrad.stop_gradient(n)
        last = k >= n
        k, n = chosen(last, agrad.zeros_like(k), k), chosen(last, agrad.ones_like(n), n)
        return last, n - k, k + 1, special.betainc(n - k, k + 1, 1 - p), special.betainc(k + 1, n - k, p)

    def _cdf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        last, _, _, below, _ = self._tails(k, n, p)
        return chosen(last, agrad.ones_like(k), below)

    def _sf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        last, _, _, _, above = self._tails(k, n, p)
        return chosen(last, agrad.zeros_like(k), above)

    def _logcdf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        last, a, b, _, above = self._tails(k, n, p)
        return chosen(last, agrad.zeros_like(k), log_betainc(a, b, 1 - p, above))

    def _logsf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        last, a, b, below, _ = self._tails(k, n, p)
        return chosen(last, agrad.full_like(k, -agrad.inf), log_betainc(b, a, p, below))

    def _mean(self, n: Tensor, p: Tensor) -> Tensor:
        return n * p

    def _var(self, n: Tensor, p: Tensor) -> Tensor:
        return n * p * (1 - p)


class BetaBinom(_Counted):
    """The binomial distribution with a beta distributed chance.

    ``pmf(x, n, a, b, loc=0)`` with k = x - loc::

        binom(n, k) * beta(k + a, n - k + b) / beta(a, b)

    It is not differentiable with respect to ``n``. The distribution function is not supported.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.betabinom.pmf(np.asarray([0.0, 2.0]), 4, 2.0, 3.0).round(6)
    array([0.214286, 0.257143])
    >>> round(float(agrad.grad(lambda p: stats.betabinom.logpmf(1.0, 4, 2.0, p))(3.0)), 6)
    0.14881
    """

    shapes: tuple[str, ...] = ("n", "a", "b")
    safe: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def _valid(self, *shapes: Tensor) -> Tensor:
        n, a, b = shapes
        return (n >= 0) & (n == agrad.floor(n)) & (a > 0) & (b > 0)

    def _logpmf(self, k: Tensor, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
        n = agrad.stop_gradient(n)
        ways = -agrad.log1p(n) - special.betaln(n - k + 1, k + 1)
        return ways + special.betaln(k + a, n - k + b) - special.betaln(a, b)

    def _mean(self, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return n * a / (a + b)

    def _var(self, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
        whole = a + b
        return n * (whole + n) * (a / whole) * (b / whole) / (whole + 1)


class Bernoulli(Discrete):
    """The distribution of 1 with probability p, and 0.

    ``pmf(x, p, loc=0)`` with k = x - loc::

        p**k * (1 - p) ** (1 - k) for 0 <= k <= 1

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.bernoulli.pmf(np.asarray([0.0, 1.0]), 0.25).round(6)
    array([0.75, 0.25])
    >>> round(float(agrad.grad(lambda p: stats.bernoulli.logpmf(1.0, p))(0.25)), 6)
    4.0
    """

    shapes: tuple[str, ...] = ("p",)
    high: float = 1.0

    def _valid(self, *shapes: Tensor) -> Tensor:
        return (shapes[0] >= 0) & (shapes[0] <= 1)

    def _logpmf(self, k: Tensor, p: Tensor) -> Tensor:
        return special.xlogy(k, p) + special.xlog1py(1 - k, -p)

    def _cdf(self, k: Tensor, p: Tensor) -> Tensor:
        return agrad.where(k < 1, 1 - p, agrad.ones_like(p))

    def _sf(self, k: Tensor, p: Tensor) -> Tensor:
        return agrad.where(k < 1, p, agrad.zeros_like(p))

    def _mean(self, p: Tensor) -> Tensor:
        return p

    def _var(self, p: Tensor) -> Tensor:
        return p * (1 - p)

    entropy: Callable[..., Any] = moment(
        "entropy", "the entropy", lambda d, loc, scale, p: special.entr(p) + special.entr(1 - p)
    )


class NBinom(Discrete):
    """The negative binomial distribution.

    ``pmf(x, n, p, loc=0)`` with k = x - loc::

        binom(k + n - 1, k) * p**n * (1 - p) ** k

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.nbinom.pmf(np.asarray([0.0, 2.0]), 4, 0.25).round(6)
    array([0.003906, 0.021973])
    >>> round(float(agrad.grad(lambda p: stats.nbinom.logpmf(1.0, 4, p))(0.25)), 6)
    14.666667
    """

    shapes: tuple[str, ...] = ("n", "p")

    def _valid(self, *shapes: Tensor) -> Tensor:
        n, p = shapes
        return (n > 0) & (p > 0) & (p <= 1)

    def _logpmf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_beta_density(n, k + 1, p) + agrad.log(p) - agrad.log(n + k)

    def _cdf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return special.betainc(n, k + 1, p)

    def _sf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return special.betainc(k + 1, n, 1 - p)

    def _logcdf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_betainc(n, k + 1, p, self._sf(k, n, p))

    def _logsf(self, k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_betainc(k + 1, n, 1 - p, self._cdf(k, n, p))

    def _mean(self, n: Tensor, p: Tensor) -> Tensor:
        return n * (1 - p) / p

    def _var(self, n: Tensor, p: Tensor) -> Tensor:
        return n * (1 - p) / (p * p)


class Geom(Discrete):
    """The geometric distribution on k >= 1.

    ``pmf(x, p, loc=0)`` with k = x - loc::

        p * (1 - p) ** (k - 1) for k >= 1

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.geom.pmf(np.asarray([1.0, 2.0]), 0.25).round(6)
    array([0.25  , 0.1875])
    >>> round(float(agrad.grad(lambda p: stats.geom.logpmf(1.0, p))(0.25)), 6)
    4.0
    """

    shapes: tuple[str, ...] = ("p",)
    low: float = 1.0
    point: float = 1.0

    def _valid(self, *shapes: Tensor) -> Tensor:
        return (shapes[0] > 0) & (shapes[0] <= 1)

    def _logpmf(self, k: Tensor, p: Tensor) -> Tensor:
        return special.xlog1py(k - 1, -p) + agrad.log(p)

    def _cdf(self, k: Tensor, p: Tensor) -> Tensor:
        return -agrad.expm1(special.xlog1py(k, -p))

    def _sf(self, k: Tensor, p: Tensor) -> Tensor:
        return (1 - p) ** k

    def _logcdf(self, k: Tensor, p: Tensor) -> Tensor:
        return log1mexp(-special.xlog1py(k, -p))

    def _logsf(self, k: Tensor, p: Tensor) -> Tensor:
        return special.xlog1py(k, -p)

    def _mean(self, p: Tensor) -> Tensor:
        return 1 / p

    def _var(self, p: Tensor) -> Tensor:
        return (1 - p) / (p * p)


poisson: Poisson = Poisson()
binom: Binom = Binom()
bernoulli: Bernoulli = Bernoulli()
betabinom: BetaBinom = BetaBinom()
nbinom: NBinom = NBinom()
geom: Geom = Geom()

"""Continuous distributions of elementary functions and of the normal distribution."""

import math

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import chosen, log1mexp
from agrad.scipy.stats.kinds import Continuous, Symmetric

__all__ = [
    "cauchy", "expon", "gumbel_l", "gumbel_r", "halfnorm", "laplace", "logistic", "lognorm", "norm", "pareto",
    "uniform", "weibull_min",
]  # fmt: skip

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_EULER = 0.5772156649015329


class Norm(Symmetric):
    """The normal distribution.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-(z**2) / 2) / sqrt(2 * pi) / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.norm.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.398942, 0.241971])
    >>> round(float(agrad.grad(stats.norm.logpdf)(1.0)), 6)
    -1.0
    >>> data = np.asarray([1.0, 2.0, 4.0])
    >>> agrad.grad(lambda loc: agrad.sum(stats.norm.logpdf(data, loc, 2.0)))(2.0)
    np.float64(0.25)
    """

    moments: tuple[float, ...] = (0.0, 1.0, _LOG_ROOT_TWO_PI + 0.5)

    def _logpdf(self, z: Tensor) -> Tensor:
        return -0.5 * z * z - _LOG_ROOT_TWO_PI

    def _cdf(self, z: Tensor) -> Tensor:
        return special.ndtr(z)

    def _logcdf(self, z: Tensor) -> Tensor:
        return special.log_ndtr(z)

    def _ppf(self, q: Tensor) -> Tensor:
        return special.ndtri(q)


class Laplace(Symmetric):
    """The Laplace distribution.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-abs(z)) / 2 / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.laplace.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.5    , 0.18394])
    >>> round(float(agrad.grad(stats.laplace.logpdf)(1.0)), 6)
    -1.0
    """

    moments: tuple[float, ...] = (0.0, 2.0, 1 + math.log(2))

    def _logpdf(self, z: Tensor) -> Tensor:
        return -agrad.abs(z) - math.log(2)

    def _cdf(self, z: Tensor) -> Tensor:
        left = z < 0
        below = 0.5 * agrad.exp(chosen(left, z, 0.0))
        return agrad.where(left, below, 1 - 0.5 * agrad.exp(-chosen(left, agrad.zeros_like(z), z)))

    def _logcdf(self, z: Tensor) -> Tensor:
        left = z < 0
        above = agrad.log1p(-0.5 * agrad.exp(-chosen(left, agrad.zeros_like(z), z)))
        return agrad.where(left, z - math.log(2), above)

    def _ppf(self, q: Tensor) -> Tensor:
        left = q < 0.5
        return agrad.where(left, agrad.log(2 * q), -agrad.log(2 * (1 - q)))


class Logistic(Symmetric):
    """The logistic distribution.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-z) / (1 + exp(-z))**2 / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.logistic.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.25    , 0.196612])
    >>> round(float(agrad.grad(stats.logistic.logpdf)(1.0)), 6)
    -0.462117
    """

    moments: tuple[float, ...] = (0.0, math.pi**2 / 3, 2.0)

    def _logpdf(self, z: Tensor) -> Tensor:
        return special.log_expit(z) + special.log_expit(-z)

    def _cdf(self, z: Tensor) -> Tensor:
        return special.expit(z)

    def _logcdf(self, z: Tensor) -> Tensor:
        return special.log_expit(z)

    def _ppf(self, q: Tensor) -> Tensor:
        return special.logit(q)


class Cauchy(Symmetric):
    """The Cauchy distribution.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        1 / (pi * (1 + z**2)) / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.cauchy.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.31831 , 0.159155])
    >>> round(float(agrad.grad(stats.cauchy.logpdf)(1.0)), 6)
    -1.0
    """

    moments: tuple[float, ...] = (math.nan, math.nan, math.log(4 * math.pi))

    def _logpdf(self, z: Tensor) -> Tensor:
        return -math.log(math.pi) - 2 * agrad.log(agrad.hypot(agrad.ones_like(z), z))

    def _cdf(self, z: Tensor) -> Tensor:
        return agrad.atan2(agrad.ones_like(z), -z) / math.pi

    def _ppf(self, q: Tensor) -> Tensor:
        tail = agrad.where(q < 0.5, q, 1 - q)
        far = tail < 0.25
        outer = 1 / agrad.tan(math.pi * chosen(far, tail, 0.25))
        inner = agrad.tan(math.pi * (chosen(far, agrad.full_like(q, 0.5), q) - 0.5))
        return agrad.where(far, agrad.where(q < 0.5, -outer, outer), inner)


class Gumbel_R(Continuous):
    """The Gumbel distribution of maxima.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-z - exp(-z)) / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.gumbel_r.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.367879, 0.254646])
    >>> round(float(agrad.grad(stats.gumbel_r.logpdf)(1.0)), 6)
    -0.632121
    """

    moments: tuple[float, ...] = (_EULER, math.pi**2 / 6, _EULER + 1)

    def _logpdf(self, z: Tensor) -> Tensor:
        return -z - agrad.exp(-z)

    def _cdf(self, z: Tensor) -> Tensor:
        return agrad.exp(-agrad.exp(-agrad.clip(z, -80.0, None)))

    def _sf(self, z: Tensor) -> Tensor:
        return -agrad.expm1(-agrad.exp(-agrad.clip(z, -80.0, None)))

    def _logcdf(self, z: Tensor) -> Tensor:
        return -agrad.exp(-z)

    def _logsf(self, z: Tensor) -> Tensor:
        # log(1 - exp(-w)) = log(w) - w/2 + w**2/24 for small w = exp(-z)
        far = z > 10
        w = agrad.exp(-z)
        near = log1mexp(chosen(far, agrad.ones_like(z), w))
        return agrad.where(far, -z - 0.5 * w + w * w / 24, near)

    def _ppf(self, q: Tensor) -> Tensor:
        return -agrad.log(-agrad.log(q))

    def _isf(self, q: Tensor) -> Tensor:
        return -agrad.log(-agrad.log1p(-q))


class Gumbel_L(Continuous):
    """The Gumbel distribution of minima.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(z - exp(z)) / scale

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.gumbel_l.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.367879, 0.179374])
    >>> round(float(agrad.grad(stats.gumbel_l.logpdf)(1.0)), 6)
    -1.718282
    """

    moments: tuple[float, ...] = (-_EULER, math.pi**2 / 6, _EULER + 1)

    def _logpdf(self, z: Tensor) -> Tensor:
        return gumbel_r._logpdf(-z)

    def _cdf(self, z: Tensor) -> Tensor:
        return gumbel_r._sf(-z)

    def _sf(self, z: Tensor) -> Tensor:
        return gumbel_r._cdf(-z)

    def _logcdf(self, z: Tensor) -> Tensor:
        return gumbel_r._logsf(-z)

    def _logsf(self, z: Tensor) -> Tensor:
        return gumbel_r._logcdf(-z)

    def _ppf(self, q: Tensor) -> Tensor:
        return -gumbel_r._isf(q)

    def _isf(self, q: Tensor) -> Tensor:
        return -gumbel_r._ppf(q)


class Expon(Continuous):
    """The exponential distribution.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-z) / scale for z >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.expon.pdf(np.asarray([0.0, 1.0])).round(6)
    array([1.      , 0.367879])
    >>> round(float(agrad.grad(stats.expon.logpdf)(1.0)), 6)
    -1.0
    """

    low: float = 0.0
    moments: tuple[float, ...] = (1.0, 1.0, 1.0)

    def _logpdf(self, z: Tensor) -> Tensor:
        return -z

    def _cdf(self, z: Tensor) -> Tensor:
        return -agrad.expm1(-z)

    def _sf(self, z: Tensor) -> Tensor:
        return agrad.exp(-z)

    def _logcdf(self, z: Tensor) -> Tensor:
        return log1mexp(z)

    def _logsf(self, z: Tensor) -> Tensor:
        return -z

    def _ppf(self, q: Tensor) -> Tensor:
        return -agrad.log1p(-q)

    def _isf(self, q: Tensor) -> Tensor:
        return -agrad.log(q)


class Uniform(Continuous):
    """The uniform distribution from loc to loc + scale.

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        1 / scale for 0 <= z <= 1

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.uniform.pdf(np.asarray([0.25, 0.75])).round(6)
    array([1., 1.])
    >>> round(float(agrad.grad(lambda scale: stats.uniform.logpdf(0.5, scale=scale))(2.0)), 6)
    -0.5
    """

    low: float = 0.0
    high: float = 1.0
    moments: tuple[float, ...] = (0.5, 1 / 12, 0.0)

    def _logpdf(self, z: Tensor) -> Tensor:
        return z * 0

    def _cdf(self, z: Tensor) -> Tensor:
        return z

    def _sf(self, z: Tensor) -> Tensor:
        return 1 - z

    def _ppf(self, q: Tensor) -> Tensor:
        return q

    def _isf(self, q: Tensor) -> Tensor:
        return 1 - q


class HalfNorm(Continuous):
    """Half-normal distribution, the distribution of abs(u).

    ``pdf(x, loc=0, scale=1)`` with z = (x - loc) / scale::

        sqrt(2 / pi) * exp(-(z**2) / 2) / scale for z >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.halfnorm.pdf(np.asarray([0.0, 1.0])).round(6)
    array([0.797885, 0.483941])
    >>> round(float(agrad.grad(stats.halfnorm.logpdf)(1.0)), 6)
    -1.0
    """

    low: float = 0.0
    moments: tuple[float, ...] = (math.sqrt(2 / math.pi), 1 - 2 / math.pi, 0.5 * math.log(math.pi / 2) + 0.5)

    def _logpdf(self, z: Tensor) -> Tensor:
        return -0.5 * z * z + (math.log(2) - _LOG_ROOT_TWO_PI)

    def _cdf(self, z: Tensor) -> Tensor:
        return special.erf(z * math.sqrt(0.5))

    def _sf(self, z: Tensor) -> Tensor:
        return 2 * special.ndtr(-z)

    def _logsf(self, z: Tensor) -> Tensor:
        near = z < 1
        log = agrad.log1p(-self._cdf(chosen(near, z, 0.0)))
        return agrad.where(near, log, special.log_ndtr(-z) + math.log(2))

    def _ppf(self, q: Tensor) -> Tensor:
        return math.sqrt(2) * special.erfinv(q)

    def _isf(self, q: Tensor) -> Tensor:
        return -special.ndtri(0.5 * q)


class LogNorm(Continuous):
    """The log-normal distribution, of exp(s u).

    ``pdf(x, s, loc=0, scale=1)`` with z = (x - loc) / scale::

        exp(-(log(z) ** 2) / (2 * s**2)) / (s * z * sqrt(2 * pi)) / scale for z > 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.lognorm.pdf(np.asarray([1.0, 2.0]), 0.5).round(6)
    array([0.797885, 0.152614])
    >>> round(float(agrad.grad(lambda x: stats.lognorm.logpdf(x, 0.5))(0.5)), 6)
    3.545177
    """

    shapes: tuple[str, ...] = ("s",)
    low: float = 0.0

    def _inside(self, z: Tensor, *shapes: Tensor) -> Tensor:
        return (z > 0) & agrad.isfinite(z)

    def _logpdf(self, z: Tensor, s: Tensor) -> Tensor:
        log = agrad.log(z)
        return norm._logpdf(log / s) - log - agrad.log(s)

    def _cdf(self, z: Tensor, s: Tensor) -> Tensor:
        return special.ndtr(agrad.log(z) / s)

    def _sf(self, z: Tensor, s: Tensor) -> Tensor:
        return special.ndtr(-agrad.log(z) / s)

    def _logcdf(self, z: Tensor, s: Tensor) -> Tensor:
        return special.log_ndtr(agrad.log(z) / s)

    def _logsf(self, z: Tensor, s: Tensor) -> Tensor:
        return special.log_ndtr(-agrad.log(z) / s)

    def _ppf(self, q: Tensor, s: Tensor) -> Tensor:
        return agrad.exp(s * special.ndtri(q))

    def _isf(self, q: Tensor, s: Tensor) -> Tensor:
        return agrad.exp(-s * special.ndtri(q))

    def _mean(self, s: Tensor) -> Tensor:
        return agrad.exp(0.5 * s * s)

    def _var(self, s: Tensor) -> Tensor:
        return agrad.expm1(s * s) * agrad.exp(s * s)

    def _entropy(self, s: Tensor) -> Tensor:
        return agrad.log(s) + (0.5 + _LOG_ROOT_TWO_PI)


class Pareto(Continuous):
    """The Pareto distribution on x >= 1.

    ``pdf(x, b, loc=0, scale=1)`` with z = (x - loc) / scale::

        b / z**(b + 1) / scale for z >= 1

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.pareto.pdf(np.asarray([1.0, 2.0]), 3.0).round(6)
    array([3.    , 0.1875])
    >>> round(float(agrad.grad(lambda x: stats.pareto.logpdf(x, 3.0))(2.0)), 6)
    -2.0
    """

    shapes: tuple[str, ...] = ("b",)
    low: float = 1.0
    point: float = 2.0

    def _logpdf(self, z: Tensor, b: Tensor) -> Tensor:
        return agrad.log(b) - (b + 1) * agrad.log(z)

    def _cdf(self, z: Tensor, b: Tensor) -> Tensor:
        return -agrad.expm1(-b * agrad.log(z))

    def _sf(self, z: Tensor, b: Tensor) -> Tensor:
        return z**-b

    def _logcdf(self, z: Tensor, b: Tensor) -> Tensor:
        return log1mexp(b * agrad.log(z))

    def _logsf(self, z: Tensor, b: Tensor) -> Tensor:
        return -b * agrad.log(z)

    def _ppf(self, q: Tensor, b: Tensor) -> Tensor:
        return agrad.exp(-agrad.log1p(-q) / b)

    def _isf(self, q: Tensor, b: Tensor) -> Tensor:
        return q ** (-1 / b)

    def _mean(self, b: Tensor) -> Tensor:
        some = b > 1
        b = chosen(some, b, 2.0)
        return chosen(some, b / (b - 1), agrad.inf)

    def _var(self, b: Tensor) -> Tensor:
        some = b > 2
        b = chosen(some, b, 3.0)
        return chosen(some, b / ((b - 1) ** 2 * (b - 2)), agrad.inf)

    def _entropy(self, b: Tensor) -> Tensor:
        return 1 + 1 / b - agrad.log(b)


class Weibull_Min(Continuous):
    """The Weibull distribution of minima.

    ``pdf(x, c, loc=0, scale=1)`` with z = (x - loc) / scale::

        c * z ** (c - 1) * exp(-(z**c)) / scale for z >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.weibull_min.pdf(np.asarray([0.5, 1.0]), 2.0).round(6)
    array([0.778801, 0.735759])
    >>> round(float(agrad.grad(lambda x: stats.weibull_min.logpdf(x, 2.0))(1.0)), 6)
    -1.0
    """

    shapes: tuple[str, ...] = ("c",)
    low: float = 0.0

    def _logpdf(self, z: Tensor, c: Tensor) -> Tensor:
        return agrad.log(c) + special.xlogy(c - 1, z) - z**c

    def _pdf(self, z: Tensor, c: Tensor) -> Tensor:
        # up to 1 as a product, which has derivatives at 0
        near = z <= 1
        z1, c1 = chosen(near, z, 1.0), chosen(near, c, 1.0)
        far = agrad.exp(self._logpdf(chosen(near, agrad.ones_like(z), z), c))
        return agrad.where(near, c1 * z1 ** (c1 - 1) * agrad.exp(-(z1**c1)), far)

    def _cdf(self, z: Tensor, c: Tensor) -> Tensor:
        return -agrad.expm1(-(z**c))

    def _sf(self, z: Tensor, c: Tensor) -> Tensor:
        return agrad.exp(-(z**c))

    def _logcdf(self, z: Tensor, c: Tensor) -> Tensor:
        # of small powers in the logarithm, as they underflow
        zero = z <= 0
        log = c * agrad.log(chosen(zero, agrad.ones_like(z), z))
        small = ~zero & (log < -10)
        w = agrad.exp(chosen(small, log, 0.0))
        near = log - 0.5 * w + w * w / 24
        return agrad.where(small, near, log1mexp(chosen(small, agrad.ones_like(z), z**c)))

    def _logsf(self, z: Tensor, c: Tensor) -> Tensor:
        return -(z**c)

    def _ppf(self, q: Tensor, c: Tensor) -> Tensor:
        return (-agrad.log1p(-q)) ** (1 / c)

    def _isf(self, q: Tensor, c: Tensor) -> Tensor:
        return (-agrad.log(q)) ** (1 / c)

    def _mean(self, c: Tensor) -> Tensor:
        return special.gamma(1 + 1 / c)

    def _var(self, c: Tensor) -> Tensor:
        return special.gamma(1 + 2 / c) - special.gamma(1 + 1 / c) ** 2

    def _entropy(self, c: Tensor) -> Tensor:
        return _EULER * (1 - 1 / c) - agrad.log(c) + 1


norm, laplace, logistic, cauchy = Norm(), Laplace(), Logistic(), Cauchy()
gumbel_r, gumbel_l, expon, uniform = Gumbel_R(), Gumbel_L(), Expon(), Uniform()
halfnorm, lognorm, pareto, weibull_min = HalfNorm(), LogNorm(), Pareto(), Weibull_Min()

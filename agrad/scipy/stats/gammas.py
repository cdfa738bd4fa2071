"""Gamma and beta distributions, and distributions derived from them."""

import math
from collections.abc import Sequence
from typing import Any

import agrad
from agrad import Tensor, special
from agrad.ops.lengths import size_power
from agrad.scipy.stats.base import chosen, nowhere
from agrad.scipy.stats.kinds import Continuous, Symmetric
from agrad.scipy.stats.quantiles import beta_quantile, gamma_quantile, solution
from agrad.scipy.stats.tails import log_beta_density, log_betainc, log_gamma_density, log_gammainc, log_gammaincc

__all__ = ["beta", "chi2", "gamma", "gennorm", "invgamma", "t"]

_EDGE = 8.0
"""Shape parameters above which a density and its derivatives are 0 at the support's end."""


class Gamma(Continuous):
    """The gamma distribution.

    ``pdf(x, a, loc=0, scale=1)`` with z = (x - loc) / scale::

        z ** (a - 1) * exp(-z) / gamma(a) / scale for z >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.gamma.pdf(np.asarray([1.0, 2.0]), 2.0).round(6)
    array([0.367879, 0.270671])
    >>> round(float(agrad.grad(lambda x: stats.gamma.logpdf(x, 2.0))(2.0)), 6)
    -0.5
    """

    shapes: tuple[str, ...] = ("a",)
    low: float = 0.0

    def _logpdf(self, z: Tensor, a: Tensor) -> Tensor:
        return log_gamma_density(a, z)

    def _pdf(self, z: Tensor, a: Tensor) -> Tensor:
        # at 0 as a product, which has derivatives there
        zero = z <= 0
        inner = agrad.exp(self._logpdf(chosen(zero, agrad.ones_like(z), z), a))
        low = zero & (a < _EDGE)
        z1, a1 = chosen(low, z, 1.0), chosen(low, a, 1.0)
        edge = chosen(low, z1 ** (a1 - 1) * agrad.exp(-z1 - special.gammaln(a1)), 0.0)
        return agrad.where(zero, edge, inner)

    def _cdf(self, z: Tensor, a: Tensor) -> Tensor:
        return special.gammainc(a, z)

    def _sf(self, z: Tensor, a: Tensor) -> Tensor:
        return special.gammaincc(a, z)

    def _logcdf(self, z: Tensor, a: Tensor) -> Tensor:
        return log_gammainc(a, z)

    def _logsf(self, z: Tensor, a: Tensor) -> Tensor:
        return log_gammaincc(a, z)

    def _ppf(self, q: Tensor, a: Tensor) -> Tensor:
        return gamma_quantile(a, agrad.log(q), agrad.log1p(-q))

    def _isf(self, q: Tensor, a: Tensor) -> Tensor:
        return gamma_quantile(a, agrad.log1p(-q), agrad.log(q))

    def _mean(self, a: Tensor) -> Tensor:
        return a

    def _var(self, a: Tensor) -> Tensor:
        return a

    def _entropy(self, a: Tensor) -> Tensor:
        return a + special.gammaln(a) + (1 - a) * special.digamma(a)


class Chi2(Continuous):
    """The chi-squared distribution.

    ``pdf(x, df, loc=0, scale=1)`` with z = (x - loc) / scale::

        z ** (df / 2 - 1) * exp(-z / 2) / (2 ** (df / 2) * gamma(df / 2)) / scale for z >= 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.chi2.pdf(np.asarray([1.0, 2.0]), 3.0).round(6)
    array([0.241971, 0.207554])
    >>> round(float(agrad.grad(lambda x: stats.chi2.logpdf(x, 3.0))(2.0)), 6)
    -0.25
    """

    shapes: tuple[str, ...] = ("df",)
    low: float = 0.0

    def _logpdf(self, z: Tensor, df: Tensor) -> Tensor:
        return gamma._logpdf(0.5 * z, 0.5 * df) - math.log(2)

    def _pdf(self, z: Tensor, df: Tensor) -> Tensor:
        return 0.5 * gamma._pdf(0.5 * z, 0.5 * df)

    def _cdf(self, z: Tensor, df: Tensor) -> Tensor:
        return gamma._cdf(0.5 * z, 0.5 * df)

    def _sf(self, z: Tensor, df: Tensor) -> Tensor:
        return gamma._sf(0.5 * z, 0.5 * df)

    def _logcdf(self, z: Tensor, df: Tensor) -> Tensor:
        return gamma._logcdf(0.5 * z, 0.5 * df)

    def _logsf(self, z: Tensor, df: Tensor) -> Tensor:
        return gamma._logsf(0.5 * z, 0.5 * df)

    def _ppf(self, q: Tensor, df: Tensor) -> Tensor:
        return 2 * gamma._ppf(q, 0.5 * df)

    def _isf(self, q: Tensor, df: Tensor) -> Tensor:
        return 2 * gamma._isf(q, 0.5 * df)

    def _mean(self, df: Tensor) -> Tensor:
        return df

    def _var(self, df: Tensor) -> Tensor:
        return 2 * df

    def _entropy(self, df: Tensor) -> Tensor:
        return gamma._entropy(0.5 * df) + math.log(2)


class InvGamma(Continuous):
    """The distribution of 1 / x for a gamma number x.

    ``pdf(x, a, loc=0, scale=1)`` with z = (x - loc) / scale::

        z ** (-a - 1) * exp(-1 / z) / gamma(a) / scale for z > 0

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.invgamma.pdf(np.asarray([1.0, 2.0]), 2.0).round(6)
    array([0.367879, 0.075816])
    >>> round(float(agrad.grad(lambda x: stats.invgamma.logpdf(x, 2.0))(0.5)), 6)
    -2.0
    """

    shapes: tuple[str, ...] = ("a",)
    low: float = 0.0

    def _inside(self, z: Tensor, *shapes: Tensor) -> Tensor:
        return (z > 0) & agrad.isfinite(z)

    def _logpdf(self, z: Tensor, a: Tensor) -> Tensor:
        return log_gamma_density(a, 1 / z) - 2 * agrad.log(z)

    def _cdf(self, z: Tensor, a: Tensor) -> Tensor:
        return gamma._sf(1 / z, a)

    def _sf(self, z: Tensor, a: Tensor) -> Tensor:
        return gamma._cdf(1 / z, a)

    def _logcdf(self, z: Tensor, a: Tensor) -> Tensor:
        return gamma._logsf(1 / z, a)

    def _logsf(self, z: Tensor, a: Tensor) -> Tensor:
        return gamma._logcdf(1 / z, a)

    def _ppf(self, q: Tensor, a: Tensor) -> Tensor:
        return 1 / gamma._isf(q, a)

    def _isf(self, q: Tensor, a: Tensor) -> Tensor:
        return 1 / gamma._ppf(q, a)

    def _mean(self, a: Tensor) -> Tensor:
        some = a > 1
        return chosen(some, 1 / (chosen(some, a, 2.0) - 1), agrad.inf)

    def _var(self, a: Tensor) -> Tensor:
        some = a > 2
        a = chosen(some, a, 3.0)
        return chosen(some, 1 / ((a - 1) ** 2 * (a - 2)), agrad.inf)

    def _entropy(self, a: Tensor) -> Tensor:
        return a - (a + 1) * special.digamma(a) + special.gammaln(a)


class Beta(Continuous):
    """The beta distribution.

    ``pdf(x, a, b, loc=0, scale=1)`` with z = (x - loc) / scale::

        z ** (a - 1) * (1 - z) ** (b - 1) / beta(a, b) / scale for 0 <= z <= 1

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.beta.pdf(np.asarray([0.25, 0.5]), 2.0, 3.0).round(6)
    array([1.6875, 1.5   ])
    >>> round(float(agrad.grad(lambda x: stats.beta.logpdf(x, 2.0, 3.0))(0.5)), 6)
    -2.0
    """

    shapes: tuple[str, ...] = ("a", "b")
    low: float = 0.0
    high: float = 1.0

    def _logpdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return log_beta_density(a, b, z)

    def _pdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        # at the ends as a product, which has derivatives there
        zero, one = z <= 0, z >= 1
        inner = agrad.exp(self._logpdf(chosen(zero | one, agrad.full_like(z, 0.5), z), a, b))
        low = (zero & (a < _EDGE)) | (one & (b < _EDGE))
        z1, a1, b1 = (chosen(low, v, 1.0) for v in (z, a, b))
        edge = z1 ** (a1 - 1) * (1 - z1) ** (b1 - 1) * agrad.exp(-special.betaln(a1, b1))
        return agrad.where(zero | one, chosen(low, edge, 0.0), inner)

    def _cdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return special.betainc(a, b, z)

    def _sf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return special.betaincc(a, b, z)

    def _logcdf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return log_betainc(a, b, z, self._sf(z, a, b))

    def _logsf(self, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return log_betainc(b, a, 1 - z, self._cdf(z, a, b))

    def _ppf(self, q: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return special.expit(beta_quantile(a, b, agrad.log(q), agrad.log1p(-q)))

    def _isf(self, q: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return special.expit(beta_quantile(a, b, agrad.log1p(-q), agrad.log(q)))

    def _mean(self, a: Tensor, b: Tensor) -> Tensor:
        return a / (a + b)

    def _var(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def _entropy(self, a: Tensor, b: Tensor) -> Tensor:
        whole = special.digamma(a + b)
        return special.betaln(a, b) + (a - 1) * (whole - special.digamma(a)) + (b - 1) * (whole - special.digamma(b))


class GenNorm(Symmetric):
    """The generalized normal distribution.

    ``pdf(x, beta, loc=0, scale=1)`` with z = (x - loc) / scale::

        beta * exp(-(abs(z) ** beta)) / (2 * gamma(1 / beta)) / scale

    Its density is proportional to exp(-abs(x)**beta).

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.gennorm.pdf(np.asarray([0.0, 1.0]), 1.5).round(6)
    array([0.553866, 0.203756])
    >>> round(float(agrad.grad(lambda x: stats.gennorm.logpdf(x, 1.5))(1.0)), 6)
    -1.5
    """

    shapes: tuple[str, ...] = ("beta",)

    def _logpdf(self, z: Tensor, beta: Tensor) -> Tensor:
        return agrad.log(0.5 * beta) - special.gammaln(1 / beta) - size_power(z, beta)

    def _mass(self, z: Any, beta: Any) -> Tensor:
        """Return the probability up to ``z``, with a separate derivative with respect to ``z``."""
        z, beta = agrad.asarray(z), agrad.asarray(beta)
        y, a = size_power(z, beta), 1 / beta
        small = y < 0.1
        near = chosen(small, y, 0.0)
        # z times the power series of gammainc(a, y) / y**a, which has derivatives at 0; DLMF 8.7.1
        term = total = agrad.exp(-near - special.gammaln(a + 1))
        for k in range(1, 12):
            term = term * near / (a + k)
            total = total + term
        tail = 0.5 * special.gammaincc(a, chosen(small, agrad.ones_like(y), y))
        return agrad.where(small, 0.5 + 0.5 * z * total, agrad.where(z < 0, tail, 1 - tail))

    def _cdf(self, z: Tensor, beta: Tensor) -> Tensor:
        return _gennorm_mass(z, beta)

    def _ppf(self, q: Tensor, beta: Tensor) -> Tensor:
        right = q > 0.5
        x = _gennorm_solution(agrad.where(right, 1 - q, q), beta)
        return agrad.where(right, -x, x)

    def _solve(self, p: Any, beta: Any) -> Tensor:
        p, beta = agrad.asarray(p), agrad.asarray(beta)
        middle = p >= 0.5
        size = gamma._isf(2 * chosen(middle, agrad.full_like(p, 0.25), p), 1 / beta) ** (1 / beta)
        return chosen(middle, agrad.zeros_like(size), -size)

    def _step(self, x: Tensor, p: Tensor, beta: Tensor) -> Tensor:
        """Return Newton's step to the quantile of p."""
        return (p - self._cdf(x, beta)) * agrad.exp(-self._logpdf(x, beta))

    def _mean(self, beta: Tensor) -> float:
        return 0.0

    def _var(self, beta: Tensor) -> Tensor:
        return agrad.exp(special.gammaln(3 / beta) - special.gammaln(1 / beta))

    def _entropy(self, beta: Tensor) -> Tensor:
        return 1 / beta - agrad.log(0.5 * beta) + special.gammaln(1 / beta)


_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_NORMAL = 1e6
"""Degrees of freedom above which Student's distribution is computed from the normal one everywhere."""
_SERIES = tuple((-1) ** k / math.factorial(k) / (2 * k + 1) for k in range(9))


class T(Symmetric):
    """Student's t distribution.

    ``pdf(x, df, loc=0, scale=1)`` with z = (x - loc) / scale::

        (1 + z**2 / df) ** (-(df + 1) / 2) / (sqrt(df) * beta(1 / 2, df / 2)) / scale

    The tails are accurate to about 1e-10. They use the incomplete beta function at df / (df + x**2), or for large
    ``df`` the expansion of Hill about the normal distribution, Comm. ACM 13 (1970), 617.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.t.pdf(np.asarray([0.0, 1.0]), 5.0).round(6)
    array([0.379607, 0.21968 ])
    >>> round(float(agrad.grad(lambda x: stats.t.logpdf(x, 5.0))(1.0)), 6)
    -1.0
    """

    shapes: tuple[str, ...] = ("df",)
    point: float = 0.0

    def _parameters(self, values: Sequence[Tensor]) -> Any:
        (df,), loc, scale, bad = super()._parameters(values)
        # beyond it the distribution is the normal one to any precision; the forms take no infinite number
        return [agrad.minimum(df, agrad.full_like(df, 1e30))], loc, scale, bad

    def _logpdf(self, z: Tensor, df: Tensor) -> Tensor:
        return self._top(df) - 0.5 * (df + 1) * self._growth(z, df)

    def _growth(self, z: Tensor, df: Tensor) -> Tensor:
        """Return log(1 + z**2 / df), also if the square overflows."""
        ratio = z / agrad.sqrt(df)
        large = agrad.abs(ratio) > 1e8
        near = agrad.log1p(chosen(large, agrad.zeros_like(z), ratio) ** 2)
        return agrad.where(large, 2 * agrad.log(agrad.abs(chosen(large, ratio, 1.0))), near)

    def _top(self, df: Tensor) -> Tensor:
        """Return the logarithm of the density at 0."""
        large = df > 100
        far = 1 / chosen(large, df, 100.0)
        square = far * far
        series = far * (-1 / 4 + square * (1 / 24 + square * (-1 / 20 + square * (17 / 112)))) - _LOG_ROOT_TWO_PI
        df = chosen(large, agrad.ones_like(df), df)
        near = -special.betaln(0.5 * df, agrad.full_like(df, 0.5)) - 0.5 * agrad.log(df)
        return agrad.where(large, series, near)

    def _normal(self, z: Tensor, df: Tensor) -> Tensor:
        """Return the normal number of the same probability, for large ``df``."""
        small = agrad.abs(z) < 0.03 * agrad.sqrt(df)
        a = df - 0.5
        near = chosen(small, z, 0.0)
        w = near * near / df
        series = 1 + w * (-1 / 2 + w * (1 / 3 + w * (-1 / 4 + w * (1 / 5 - w / 6))))
        far = agrad.sqrt(a * self._growth(agrad.where(small, agrad.sqrt(df), z), df))
        c = agrad.where(small, near * agrad.sqrt(a / df * series), agrad.where(z < 0, -far, far))
        s, b = c * c, 48 * a * a
        return c * (1 + (s + 3) / b - (((4 * s + 33) * s + 240) * s + 855) / (10 * b * (b + 0.8 * s * s + 100)))

    def _parts(self, z: Tensor, df: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return a mask for the normal form, None if it is never used, and arguments for both forms."""
        least = 300 if df.dtype == agrad.float64 else 30
        large = (df > _NORMAL) | ((df > least) & (agrad.abs(z) < 0.5 * agrad.sqrt(df)))
        if nowhere(large):
            return None, df, z
        return large, chosen(large, agrad.ones_like(df), df), self._normal(z, chosen(large, df, 2 * _NORMAL))

    def _center(self, z: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability from 0 to ``z``, and a mask of ``z`` that near to 0."""
        small = agrad.abs(z) < agrad.sqrt(0.1 * df / (df + 1))
        z = chosen(small, z, 0.0)
        total: Any = 0
        term = z * agrad.exp(self._top(df))
        for k, weight in enumerate(_SERIES):
            total = total + weight * term
            term = term * (z * z) * ((0.5 * (df + 1) + k) / df)
        return total, small

    def _far(self, z: Tensor, df: Tensor, small: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a and b of the incomplete beta function, and its argument."""
        root = agrad.abs(chosen(small, agrad.ones_like(z), z)) / agrad.sqrt(df)
        # beyond it the argument of the incomplete beta function would be 0, and its density infinite
        root = agrad.minimum(root, agrad.full_like(root, 1e153 if root.dtype == agrad.float64 else 1e18))
        return 0.5 * df, agrad.full_like(df, 0.5), agrad.hypot(agrad.ones_like(z), root) ** -2.0

    def _cdf(self, z: Tensor, df: Tensor) -> Tensor:
        large, df, u = self._parts(z, df)
        center, small = self._center(z, df)
        tail = 0.5 * special.betainc(*self._far(z, df, small))
        out = agrad.where(small, 0.5 + center, agrad.where(z < 0, tail, 1 - tail))
        return out if large is None else agrad.where(large, special.ndtr(u), out)

    def _logcdf(self, z: Tensor, df: Tensor) -> Tensor:
        large, df, u = self._parts(z, df)
        center, small = self._center(z, df)
        a, b, y = self._far(z, df, small)
        tail = special.betainc(a, b, y)
        log_y = -self._growth(agrad.where(small, agrad.ones_like(z), z), df)
        left = log_betainc(a, b, y, 1 - tail, log_x=log_y) - math.log(2)
        out = agrad.where(small, agrad.log(0.5 + center), agrad.where(z < 0, left, agrad.log1p(-0.5 * tail)))
        return out if large is None else agrad.where(large, special.log_ndtr(u), out)

    def _ppf(self, q: Tensor, df: Tensor) -> Tensor:
        right = q > 0.5
        x = _t_solution(agrad.where(right, 1 - q, q), df)
        return agrad.where(right, -x, x)

    def _step(self, x: Tensor, p: Tensor, df: Tensor) -> Tensor:
        """Return a Newton step to the quantile of p <= 1/2, on the probability near 0, otherwise on its logarithm."""
        center, small = self._center(x, df)
        small = small & (df <= _NORMAL)
        near = (p - 0.5 - center) * agrad.exp(-chosen(small, self._logpdf(x, df), 0.0))
        log = self._log_left(chosen(small, agrad.full_like(x, -1.0), x), df)
        far = (agrad.log(p) - log) * agrad.exp(log - self._logpdf(x, df))
        return agrad.where(small, near, far)

    def _log_left(self, z: Tensor, df: Tensor) -> Tensor:
        """Return ``_logcdf`` far left of 0."""
        large, df, u = self._parts(z, df)
        a, b, y = self._far(z, df, z > 0)
        out = log_betainc(a, b, y, None, log_x=-self._growth(z, df)) - math.log(2)
        return out if large is None else agrad.where(large, special.log_ndtr(u), out)

    def _solve(self, p: Any, df: Any) -> Tensor:
        p, df = agrad.asarray(p), agrad.asarray(df)
        start = self._start(p, df)
        beyond = ~agrad.isfinite(start)
        x = chosen(beyond, agrad.full_like(p, -1.0), start)
        for _ in range(2):
            x = x + self._step(x, p, df)
        return chosen(beyond, agrad.full_like(x, -agrad.inf), x)

    def _start(self, p: Tensor, df: Tensor) -> Tensor:
        """Return the quantile of p <= 1/2 about, from x**2 = df (1 - y) / y and y of a beta distribution."""
        large = df > _NORMAL
        df = chosen(large, agrad.ones_like(df), df)
        low = p < 0.5
        tail = 2 * chosen(low, p, 0.25)
        u = beta_quantile(0.5 * df, agrad.full_like(df, 0.5), agrad.log(tail), agrad.log1p(-tail))
        most = 1380.0 if u.dtype == agrad.float64 else 160.0
        beyond = u < -most
        x = -agrad.sqrt(df) * agrad.exp(-0.5 * agrad.where(beyond, agrad.zeros_like(u), u))
        x = chosen(low, chosen(beyond, agrad.full_like(x, -agrad.inf), x), 0.0)
        return agrad.where(large, special.ndtri(p), x)

    def _mean(self, df: Tensor) -> Tensor:
        return chosen(df > 1, agrad.zeros_like(df), agrad.inf)

    def _var(self, df: Tensor) -> Tensor:
        some = df > 2
        df1 = chosen(some, df, 3.0)
        beyond = chosen(df > 1, agrad.full_like(df, agrad.inf), agrad.nan)
        return agrad.where(some, df1 / (df1 - 2), beyond)

    def _entropy(self, df: Tensor) -> Tensor:
        large = df > 100
        far = 1 / chosen(large, df, 100.0)
        square = far * far
        series = far * (1 + far * (1 / 2 + square * (-1 / 4 + square * (1 / 2 - square * (17 / 8)))))
        half = 0.5 * chosen(large, agrad.ones_like(df), df)
        rise = agrad.where(large, series, special.digamma(half + 0.5) - special.digamma(half))
        return 0.5 * (df + 1) * rise - self._top(df)


gamma: Gamma = Gamma()
chi2: Chi2 = Chi2()
invgamma: InvGamma = InvGamma()
beta: Beta = Beta()
gennorm: GenNorm = GenNorm()
t: T = T()
_gennorm_mass = agrad.custom_jvp(gennorm._mass)
_gennorm_solution = solution(gennorm._solve, gennorm._step)
_t_solution = solution(t._solve, t._step)


@_gennorm_mass.defjvp
def _gennorm_tangent(at: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    z, beta = map(agrad.asarray, at)
    value, by_beta = agrad.jvp(lambda b: gennorm._mass(z, b), (beta,), (tangents[1],))
    return value, gennorm._pdf(z, beta) * tangents[0] + by_beta

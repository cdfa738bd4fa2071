"""Distributions of vectors."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor, special
from agrad.errors import ShapeError
from agrad.scipy.shared import arrays, function, named
from agrad.scipy.stats.base import Frozen, chosen
from agrad.scipy.stats.draws import Drawing

__all__ = ["dirichlet", "multinomial", "multivariate_normal", "multivariate_t"]

_LOG_TWO_PI = math.log(2 * math.pi)


def _fitted(x: Any, center: Any, spread: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return points, the center (d,), and the matrix (d, d)."""
    x, center, spread = arrays(x, 0.0 if center is None else center, 1.0 if spread is None else spread)
    if center.ndim > 1 or spread.ndim > 2:
        raise ShapeError(
            f"{name}: the mean must be at most 1-D and the matrix at most 2-D, got {center.ndim}-D and {spread.ndim}-D"
        )
    d = spread.shape[0] if spread.ndim == 2 else center.shape[0] if center.ndim else 1
    if spread.ndim == 1 and spread.shape[0] != d:
        raise ShapeError(f"{name}: the diagonal must have length {d}, like the mean, got {spread.shape[0]}")
    if spread.ndim < 2:
        spread = agrad.eye(d, dtype=x.dtype, backend=x.backend, device=x.device) * spread
    center = agrad.broadcast_to(center, (d,)) if not center.ndim else center
    if spread.shape != (d, d) or center.shape != (d,):
        raise ShapeError(f"{name}: shapes must be (d,) of the mean and (d, d), got {center.shape} and {spread.shape}")
    return x, center, spread


def _placed(x: Any, center: Any, spread: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return points of shape (..., d), the center (d,), and the matrix (d, d)."""
    x, center, spread = _fitted(x, center, spread, name)
    d = spread.shape[0]
    if x.ndim == 0:
        x = agrad.reshape(x, (1,))
    elif x.ndim == 1 and d == 1:
        x = agrad.expand_dims(x, axis=1)
    if x.shape[-1] not in (d, 1):
        raise ShapeError(f"{name}: x must have shape (..., {d}), got {x.shape}")
    return x, center, spread


def _squeezed(x: Tensor) -> Tensor:
    """Return ``x`` without axes of length 1, as in SciPy distributions."""
    return agrad.squeeze(x, axis=tuple(i for i, n in enumerate(x.shape) if n == 1))


def _distance(x: Tensor, center: Tensor, spread: Tensor, singular: bool = False) -> tuple[Tensor, Tensor, Any, Any]:
    """Return the squared distance in the matrix's metric, and the logarithm of its determinant.

    Also return its rank, and the squared length of the points outside of its range, or None if it is regular.
    """
    d = spread.shape[0]
    offset = x - center
    rows = offset if offset.ndim == 2 else agrad.reshape(offset, (math.prod(x.shape[:-1]), d))
    rank, outside = d, None
    if singular:
        # with ones for the eigenvalues that are 0 the matrix is regular, and has the pseudo-determinant
        range_of = agrad.linalg.matmul(spread, agrad.linalg.pinv(spread, rtol=_small(spread)))
        null = agrad.eye(d, dtype=x.dtype, backend=x.backend, device=x.device) - 0.5 * (range_of + range_of.T)
        rank = d - agrad.round(agrad.stop_gradient(agrad.sum(agrad.linalg.diagonal(null))))
        beside = agrad.linalg.matmul(rows, null)
        spread, rows = spread + null, rows - beside
        outside = agrad.reshape(agrad.sum(beside * beside, axis=-1), x.shape[:-1])
    root = agrad.linalg.cholesky(spread)
    z = agrad.linalg.solve_triangular(root, agrad.matrix_transpose(rows), lower=True)
    squared = agrad.reshape(agrad.sum(z * z, axis=0), x.shape[:-1])
    return squared, 2 * agrad.sum(agrad.log(agrad.linalg.diagonal(root))), rank, outside


def _small(x: Tensor) -> float:
    """Return the fraction of the largest eigenvalue below which one is treated as 0, as in SciPy."""
    return (1e3 if x.dtype == agrad.float32 else 1e6) * float(agrad.finfo(x.dtype).eps)


def _exponential(log: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    """Return the method whose logarithm is ``log``, with the same signature."""

    def method(*args: Any, **kwds: Any) -> Any:
        """Return the {what}, with the arguments and the shape of its logarithm."""
        return agrad.exp(agrad.asarray(log(*args, **kwds)))

    method.__signature__ = inspect.signature(log)  # type: ignore[attr-defined]
    return function(named(method, name, what))


class Multivariate(Drawing):
    """Distribution of vectors with the SciPy methods."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name in ``agrad.scipy.stats``."""
        return type(self).__name__.lower().replace("multivariate", "multivariate_")

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """Return the distribution with fixed parameters."""
        return Frozen(self, args, kwds)


class MultivariateNormal(Multivariate):
    """The normal distribution of vectors (n,).

    ``pdf(x, mean=None, cov=1)`` with z = x - mean::

        exp(-z @ inv(cov) @ z / 2) / sqrt((2 * pi) ** n * det(cov))

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x, mean, cov = np.asarray([1.0, 0.0]), np.zeros(2), np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> round(float(stats.multivariate_normal.logpdf(x, mean, cov)), 6)
    -2.720517
    >>> agrad.grad(lambda mean: stats.multivariate_normal.logpdf(x, mean, cov))(mean).round(6)
    array([ 0.666667, -0.333333])
    """

    @function
    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density.

        ``x`` has shape (..., n), ``mean`` (n,), ``cov`` (n, n), or (n,) or () for a diagonal matrix. The result has
        shape (...). If ``allow_singular`` is True, the density is the density in the range of the matrix, and 0 at
        other points. Derivatives are then along changes that keep the rank.
        """
        x, mean, cov = _placed(x, mean, cov, "multivariate_normal")
        squared, log_det, rank, outside = _distance(x, mean, cov, allow_singular)
        out = -0.5 * (squared + log_det + rank * _LOG_TWO_PI)
        if outside is not None:
            largest = agrad.stop_gradient(agrad.linalg.matrix_norm(cov, ord=2))
            out = agrad.where(outside < (1e3 * _small(x) * largest) ** 2, out, agrad.full_like(out, -math.inf))
        return _squeezed(out)

    pdf: Callable[..., Any] = _exponential(logpdf, "pdf", "density")

    @function
    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """Return the differential entropy, of shape ()."""
        cov = _fitted(0.0, mean, cov, "multivariate_normal")[2]
        d = cov.shape[0]
        log_det = _distance(agrad.zeros_like(cov), agrad.zeros_like(cov[0, :]), cov)[1]
        return 0.5 * (log_det + d * (_LOG_TWO_PI + 1))


class MultivariateT(Multivariate):
    """Student's t distribution of vectors (n,).

    ``pdf(x, loc=None, shape=1, df=1)`` with z = x - loc is proportional to::

        (1 + z @ inv(shape) @ z / df) ** (-(df + n) / 2)

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x, loc, shape = np.asarray([1.0, 0.0]), np.zeros(2), np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> round(float(stats.multivariate_t.logpdf(x, loc, shape, df=4.0)), 6)
    -2.849635
    >>> agrad.grad(lambda loc: stats.multivariate_t.logpdf(x, loc, shape, df=4.0))(loc).round(6)
    array([ 0.857143, -0.428571])
    """

    @function
    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density.

        ``x`` has shape (..., n), ``loc`` (n,), ``shape`` (n, n), or (n,) or () for a diagonal matrix, and ``df`` is a
        number greater than 0. The result has shape (...). If ``allow_singular`` is True, only the parts of points in
        the range of the matrix count, and derivatives are along changes that keep the rank. SciPy accepts singular
        matrices without it.
        """
        x, df = arrays(x, df)
        if df.ndim:
            raise ShapeError(f"multivariate_t: df must be a number, got an array of shape {df.shape}")
        x, loc, shape = _placed(x, loc, shape, "multivariate_t")
        squared, log_det, *_ = _distance(x, loc, shape, allow_singular)
        n = shape.shape[0]
        df = agrad.minimum(df, agrad.full_like(df, 1e30))  # beyond it the distribution is the normal one
        half, rank = 0.5 * (df + n), agrad.full_like(df, 0.5 * n)
        top = special.gammaln(rank) - special.betaln(0.5 * df, rank) - rank * agrad.log(df * math.pi) - 0.5 * log_det
        return _squeezed(top - half * agrad.log1p(squared / df))

    pdf: Callable[..., Any] = _exponential(logpdf, "pdf", "density")


class Dirichlet(Multivariate):
    """The Dirichlet distribution on vectors of sum 1.

    ``pdf(x, alpha)``::

        prod(x ** (alpha - 1)) * gamma(sum(alpha)) / prod(gamma(alpha))

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x = np.asarray([0.2, 0.3, 0.5])
    >>> round(float(stats.dirichlet.logpdf(x, np.asarray([1.0, 2.0, 3.0]))), 6)
    1.504077
    >>> agrad.grad(lambda alpha: stats.dirichlet.logpdf(x, alpha))(np.asarray([1.0, 2.0, 3.0])).round(6)
    array([0.673895, 0.079361, 0.090186])
    """

    @function
    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Return the logarithm of the density.

        ``x`` has shape (K, ...) or (K - 1, ...), ``alpha`` (K,), the result (...). It is NaN if a point is negative or
        its sum is not 1, or if a parameter is not positive. SciPy raises an error there.
        """
        x, alpha = arrays(x, alpha)
        if alpha.ndim != 1:
            raise ShapeError(f"dirichlet: alpha must be 1-D, got {alpha.ndim}-D")
        k = alpha.shape[0]
        if not x.ndim or x.shape[0] not in (k - 1, k):
            raise ShapeError(f"dirichlet: x must have length {k} or {k - 1} along its first axis, got shape {x.shape}")
        if x.shape[0] == k - 1:
            x = agrad.concat([x, 1 - agrad.sum(x, axis=0, keepdims=True)], axis=0)
        loose = 1e-5 if x.dtype == agrad.float32 else 1e-9
        off = agrad.any((x < 0) | (x > 1), axis=0) | (agrad.abs(agrad.sum(x, axis=0) - 1) > loose)
        bad = agrad.any(~(alpha > 0)) | off
        alpha = chosen(alpha > 0, alpha, 1.0)
        column = agrad.reshape(alpha, (k,) + (1,) * (x.ndim - 1))
        top = special.gammaln(agrad.sum(alpha)) - agrad.sum(special.gammaln(alpha))
        out = top + agrad.sum(special.xlogy(column - 1, x), axis=0)
        return _squeezed(chosen(bad, agrad.full_like(out, agrad.nan), out))

    pdf: Callable[..., Any] = _exponential(logpdf, "pdf", "density")

    @function
    def mean(self, alpha: Any) -> Any:
        """Return the mean, of shape (K,)."""
        (alpha,) = arrays(alpha)
        return alpha / agrad.sum(alpha)

    @function
    def var(self, alpha: Any) -> Any:
        """Return the variances, of shape (K,)."""
        (alpha,) = arrays(alpha)
        total = agrad.sum(alpha)
        return alpha * (total - alpha) / (total * total * (total + 1))


def _trials(x: Any, n: Any, p: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, trials and probabilities, whose last one is 1 less the others."""
    x, n, p = arrays(x, n, p)
    if not p.ndim:
        raise ShapeError("multinomial: p must have at least one axis")
    rest = p[..., :-1]
    last = 1 - agrad.sum(rest, axis=-1, keepdims=True)
    return agrad.stop_gradient(x), agrad.stop_gradient(n), agrad.concat([rest, last], axis=-1)


class Multinomial(Multivariate):
    """The multinomial distribution of counts in n trials.

    ``pmf(x, n, p)``::

        factorial(n) * prod(p**x / factorial(x))

    It is not differentiable with respect to ``n``. The last probability is 1 less the sum of the others, as in SciPy.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> counts, p = np.asarray([1.0, 2.0, 1.0]), np.asarray([0.25, 0.5, 0.25])
    >>> round(float(stats.multinomial.pmf(counts, 4, p)), 6)
    0.1875
    >>> agrad.grad(lambda p: stats.multinomial.logpmf(counts, 4, p))(p).round(6)
    array([0., 0., 0.])
    """

    @function
    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """Return the logarithm of the probability.

        Counts ``x`` and probabilities ``p`` have shape (..., K), trials ``n`` (...), which broadcast. The result has
        shape (...). It is -inf for counts that are negative, not integers or of another sum than n, and NaN for
        parameters that are not valid.
        """
        x, n, p = _trials(x, n, p)
        bad = agrad.any((p < -1e-12) | (p > 1), axis=-1) | (n < 0) | (n != agrad.floor(n))
        some = agrad.all((x >= 0) & (x == agrad.floor(x)), axis=-1) & (agrad.sum(x, axis=-1) == n)
        inner = agrad.where(agrad.expand_dims(some, axis=-1), x, agrad.zeros_like(x))
        p = chosen((p > 0) & (p <= 1), p, 0.0)
        out = special.gammaln(n + 1) + agrad.sum(special.xlogy(inner, p) - special.gammaln(inner + 1), axis=-1)
        return chosen(bad, agrad.full_like(out, agrad.nan), chosen(some, out, -agrad.inf))

    pmf: Callable[..., Any] = _exponential(logpmf, "pmf", "probability")


multivariate_normal: MultivariateNormal = MultivariateNormal()
multivariate_t: MultivariateT = MultivariateT()
dirichlet: Dirichlet = Dirichlet()
multinomial: Multinomial = Multinomial()

"""Distributions computed from uniform, normal and gamma-distributed numbers.

They are differentiable in their parameters by that transformation.
"""

import math
from typing import Any

import agrad
from agrad.errors import ShapeError
from agrad.ops import sampling
from agrad.random.continuous import _affine, gamma, log_gamma, normal, uniform_like
from agrad.random.keys import broadcast_shape, checked, draw, floating, parameter, positive, shape_and_dtype

__all__ = [
    "cauchy", "chisquare", "gumbel", "laplace", "logistic", "lognormal", "maxwell", "multivariate_normal", "pareto",
    "rayleigh", "t", "weibull_min",
]  # fmt: skip


def positive_like(value: Any, what: str, key: Any, like: Any, name: str) -> Any:
    """Return a positive parameter as an array like a sample."""
    kind = agrad.asarray(like).dtype.name
    return parameter(positive(value, name, what), name, what, key, tuple(like.shape), kind)


@draw
def laplace(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw Laplace-distributed numbers.

    A standard sample is log(2 u) for uniform u below 1/2, and -log(2 - 2 u) above.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.laplace(key, 4), 4)
    Tensor([-1.746, 1.2446, 1.1608, -0.0125], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda loc: agrad.sum(agrad.random.laplace(key, 4, loc=loc)))(0.0)
    np.float64(4.0)
    """
    u = uniform_like(key, shape, dtype, "laplace", loc, scale)
    left = u < 0.5
    tail = agrad.log(2 * agrad.where(left, u, 1 - u))
    return _affine(agrad.where(left, tail, -tail), loc, scale)


@draw
def gumbel(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw Gumbel-distributed numbers.

    A standard sample is -log(-log(u)) with u uniform on (0, 1).

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.gumbel(key, 4), 4)
    Tensor([-0.8916, 1.861, 1.7699, 0.3486], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda loc: agrad.sum(agrad.random.gumbel(key, 4, loc=loc)))(0.0)
    np.float64(4.0)
    """
    u = uniform_like(key, shape, dtype, "gumbel", loc, scale)
    return _affine(-agrad.log(-agrad.log(u)), loc, scale)


@draw
def logistic(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw numbers of the logistic distribution.

    A standard sample is log(u / (1 - u)) with u uniform on (0, 1).

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.logistic(key, 4), 4)
    Tensor([-2.3478, 1.7822, 1.6836, -0.0249], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda loc: agrad.sum(agrad.random.logistic(key, 4, loc=loc)))(0.0)
    np.float64(4.0)
    """
    u = uniform_like(key, shape, dtype, "logistic", loc, scale)
    return _affine(agrad.log(u) - agrad.log1p(-u), loc, scale)


@draw
def cauchy(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw Cauchy-distributed numbers.

    A standard sample is tan(pi * (u - 1/2)) with u uniform, computed from the nearer end of (0, 1).

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.cauchy(key, 4, loc=1.0), 4)
    Tensor([-2.5569, 3.0571, 2.8656, 0.9805], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda loc: agrad.sum(agrad.random.cauchy(key, 4, loc=loc)))(1.0)
    np.float64(4.0)
    """
    u = uniform_like(key, shape, dtype, "cauchy", loc, scale)
    left = u < 0.5
    size = 1 / agrad.tan(math.pi * agrad.where(left, u, 1 - u))
    return _affine(agrad.where(left, -size, size), loc, scale)


@draw
def rayleigh(key: Any, scale: Any = 1.0, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw Rayleigh-distributed numbers.

    A sample is sqrt(-2 log(u)) * scale with u uniform on (0, 1).

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.rayleigh(key, 2.0, 4), 4)
    Tensor([4.4173, 1.1154, 1.1674, 2.376], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda scale: agrad.mean(agrad.random.rayleigh(key, scale, 1000)))(2.0)), 2)
    1.24
    """
    u = uniform_like(key, shape, dtype, "rayleigh", scale)
    return _affine(agrad.sqrt(-2 * agrad.log(u)), 0.0, scale)


@draw
def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw Weibull-distributed numbers.

    A sample is (-log(u))**(1 / concentration) * scale with u uniform on (0, 1).

    Parameters
    ----------
    concentration : number or array
        Exponent, greater than 0. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.weibull_min(key, 1.0, 2.0, 4), 4)
    Tensor([1.5618, 0.3944, 0.4127, 0.84], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda scale: agrad.mean(agrad.random.weibull_min(key, scale, 2.0, 1000)))(1.0)), 2)
    0.88
    """
    u = uniform_like(key, shape, dtype, "weibull_min", scale, concentration)
    power = positive_like(concentration, "concentration", key, u, "weibull_min")
    return _affine((-agrad.log(u)) ** (1 / power), 0.0, scale)


@draw
def pareto(key: Any, b: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw Pareto-distributed numbers, which are at least 1.

    A sample is u**(-1 / b) with u uniform on (0, 1).

    Parameters
    ----------
    b : number or array
        Exponent, greater than 0. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.pareto(key, 3.0, 4), 4)
    Tensor([2.2547, 1.0532, 1.0584, 1.2652], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda b: agrad.mean(agrad.random.pareto(key, b, 1000)))(3.0)), 2)
    -0.24
    """
    u = uniform_like(key, shape, dtype, "pareto", b)
    return agrad.exp(-agrad.log(u) / positive_like(b, "b", key, u, "pareto"))


@draw
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw numbers whose logarithms are normal.

    Parameters
    ----------
    sigma : number or array
        Standard deviation of the logarithm, whose mean is 0. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.lognormal(key, 0.5, 4), 4)
    Tensor([1.2375, 1.0536, 2.0882, 0.5849], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda sigma: agrad.mean(agrad.random.lognormal(key, sigma, 1000)))(0.5)), 2)
    0.63
    """
    return agrad.exp(normal(key, shape, scale=sigma, dtype=dtype))


@draw
def chisquare(key: Any, df: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw chi-square-distributed numbers.

    A sample is twice a gamma-distributed number of concentration df / 2.

    Parameters
    ----------
    df : number or array
        Degrees of freedom, greater than 0. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.chisquare(key, 3.0, 4), 4)
    Tensor([4.8177, 2.0772, 1.2829, 1.2421], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda df: agrad.mean(agrad.random.chisquare(key, df, 1000)))(3.0)), 2)
    1.0
    """
    return gamma(key, positive(df, "chisquare", "df") / 2, shape, scale=2.0, dtype=dtype)


@draw
def t(key: Any, df: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw numbers of Student's t distribution.

    A sample is a normal number divided by the square root of a chi-square number over ``df``. Its derivative is
    computed through the chi-square number.

    Parameters
    ----------
    df : number or array
        Degrees of freedom, greater than 0. The result is differentiable in an array.

    Examples
    --------
    >>> np.round(agrad.random.t(agrad.random.key(0), 5.0, 4), 4)
    Tensor([-1.8379, -2.0539, -0.2018, -2.3857], dtype=float64, backend=numpy, device=cpu)
    """
    found, kind = shape_and_dtype(key, shape, dtype, "t", df)
    pair = sampling.keys(key, count=2, domain=sampling.PAIR, data=0)
    z = normal(pair[0, :], found, dtype=kind)
    half = positive_like(df, "df", key, z, "t") / 2
    return z * agrad.exp(0.5 * (agrad.log(half) - log_gamma(pair[1, :], half, found, dtype=kind)))


@draw
def maxwell(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw Maxwell-distributed numbers.

    A standard sample is the length of a vector of three normal numbers.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.maxwell(key, 4), 4)
    Tensor([1.8982, 1.1893, 0.8827, 2.0429], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda loc: agrad.sum(agrad.random.maxwell(key, 4, loc=loc)))(0.0)
    np.float64(4.0)
    """
    found, kind = shape_and_dtype(key, shape, dtype, "maxwell", loc, scale)
    z = normal(key, (*found, 3), dtype=kind)
    return _affine(agrad.sqrt(agrad.sum(z * z, axis=-1)), loc, scale)


@draw
def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw vectors of a multivariate normal distribution.

    A vector is the mean plus the Cholesky factor of the covariance times a vector of normal numbers.

    Parameters
    ----------
    mean : array
        Mean, along the last axis. The result is differentiable in it.
    cov : array
        Covariance, symmetric and positive definite, in the last two axes. The result is differentiable in it.
    shape : int, tuple of int or None
        Shape of the batch. By default, the shape to which ``mean`` and ``cov`` broadcast.
    dtype : dtype or None
        float32 or float64. By default, the dtype of the parameters.

    Returns
    -------
    array of shape ``(*shape, n)``

    Examples
    --------
    >>> key, cov = agrad.random.key(0), np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> np.round(agrad.random.multivariate_normal(key, np.zeros(2), cov, 3), 4)
    Tensor([[ 0.6027,  0.4293],
            [ 2.0826, -0.2724],
            [ 0.0438,  2.4296]], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda mean: agrad.sum(agrad.random.multivariate_normal(key, mean, cov, 3)))(np.zeros(2))
    array([3., 3.])
    """
    name = "multivariate_normal"
    checked(key, name)
    n = int(mean.shape[-1]) if len(getattr(mean, "shape", ())) else -1
    if len(getattr(cov, "shape", ())) < 2 or tuple(cov.shape[-2:]) != (n, n):
        raise ShapeError(
            f"{name}: mean and cov must have shapes (..., n) and (..., n, n), got {tuple(getattr(mean, 'shape', ()))} "
            f"and {tuple(getattr(cov, 'shape', ()))}"
        )
    kind = floating(dtype, name, key, mean, cov)
    batch = broadcast_shape(shape, name, mean[..., 0], cov[..., 0, 0])
    z = normal(key, (*batch, n, 1), dtype=kind)
    factor = agrad.linalg.cholesky(agrad.astype(cov, getattr(agrad, kind)))
    return agrad.astype(mean, getattr(agrad, kind)) + agrad.matmul(factor, z)[..., 0]

"""Draws from continuous distributions, differentiable in their parameters.

A sample is a smooth function of locations, scales and bounds, and of a number that does not depend on them. The
derivative with respect to a concentration is the derivative of a fixed quantile.
"""

from typing import Any

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.ops import sampling
from agrad.random.keys import draw, parameter, positive, shape_and_dtype, shape_of

__all__ = ["beta", "dirichlet", "exponential", "gamma", "log_gamma", "normal", "truncated_normal", "uniform"]


def _affine(sample: Any, loc: Any, scale: Any) -> Any:
    """Return ``loc + scale * sample``, without operations for the numbers 0 and 1."""
    for value, neutral, operation in ((scale, 1.0, agrad.multiply), (loc, 0.0, agrad.add)):
        if hasattr(value, "shape"):
            if sample.dtype != value.dtype:
                value = agrad.astype(value, sample.dtype)
            sample = operation(sample, value)
        elif value != neutral:
            sample = operation(sample, float(value))
    return sample


def uniform_like(key: Any, shape: Any, dtype: Any, name: str, *parameters: Any) -> Any:
    """Return uniform numbers in the interior of (0, 1), as a draw's shape asks."""
    found, kind = shape_and_dtype(key, shape, dtype, name, *parameters)
    return sampling.uniform(key, shape=found, dtype=kind, interior=True)


@draw
def uniform(key: Any, shape: Any = None, *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw uniform numbers from ``low`` to ``high``.

    On [0, 1), a sample is a multiple of 2**-24 in float32 and of 2**-53 in float64, and the same bit for bit on every
    backend. With other bounds, rounding may return ``high``.

    Parameters
    ----------
    low, high : number or array
        Bounds. The result is differentiable in arrays.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.uniform(key, 4), 4)
    Tensor([0.0872, 0.856, 0.8434, 0.4938], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda high: agrad.mean(agrad.random.uniform(key, 1000, high=high)))(2.0)), 2)
    0.51
    """
    found, kind = shape_and_dtype(key, shape, dtype, "uniform", low, high)
    sample = sampling.uniform(key, shape=found, dtype=kind, interior=False)
    return _affine(sample, low, high - low)


@draw
def normal(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw normal numbers.

    Samples of all backends are equal up to rounding. They are at most 5.8 standard deviations from the mean in float32,
    and 8.6 in float64.

    Reference: Box and Muller 1958, Annals of Mathematical Statistics 29.

    Parameters
    ----------
    loc : number or array
        Mean. The result is differentiable in an array.
    scale : number or array
        Standard deviation. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.normal(key, 4), 4)
    Tensor([0.4261, 0.1045, 1.4726, -1.0726], dtype=float64, backend=numpy, device=cpu)
    >>> def second_moment(loc, scale):
    ...     return agrad.mean(agrad.random.normal(key, 1000, loc=loc, scale=scale) ** 2)
    >>> dloc, dscale = agrad.grad(second_moment, argnums=(0, 1))(1.0, 2.0)
    >>> round(float(dloc), 1), round(float(dscale), 1)
    (2.0, 4.3)
    """
    found, kind = shape_and_dtype(key, shape, dtype, "normal", loc, scale)
    return _affine(sampling.normal(key, shape=found, dtype=kind), loc, scale)


@draw
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None
) -> agrad.Tensor:
    """Draw ``loc + scale * z`` with z standard normal from ``lower`` to ``upper``.

    z is the inverse of the distribution function at a uniform number. It is accurate for bounds far out in a tail, too.

    Parameters
    ----------
    lower, upper : number or array
        Bounds of z. The result is differentiable in arrays.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.truncated_normal(key, -1.0, 1.0, 4), 4)
    Tensor([-0.7782, 0.6527, 0.6262, -0.0106], dtype=float64, backend=numpy, device=cpu)
    >>> def mean(upper):
    ...     return agrad.mean(agrad.random.truncated_normal(key, -1.0, upper, 1000))
    >>> round(float(agrad.grad(mean)(1.0)), 2)
    0.36
    """
    name = "truncated_normal"
    if not hasattr(lower, "shape") and not hasattr(upper, "shape") and not lower < upper:
        raise ConfigurationError(f"{name}: the lower bound must be below the upper bound, got {lower!r} and {upper!r}")
    found, kind = shape_and_dtype(key, shape, dtype, name, lower, upper, loc, scale)
    u = sampling.uniform(key, shape=found, dtype=kind, interior=True)
    low = parameter(lower, name, "the lower bound", key, found, kind)
    high = parameter(upper, name, "the upper bound", key, found, kind)
    return _affine(sampling.truncated_normal(u, low, high), loc, scale)


@draw
def exponential(key: Any, shape: Any = None, *, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw exponential numbers: -log(u) * scale with u uniform on (0, 1).

    Parameters
    ----------
    scale : number or array
        Mean. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.exponential(key, 4), 4)
    Tensor([2.4391, 0.1555, 0.1703, 0.7057], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda scale: agrad.mean(agrad.random.exponential(key, 1000, scale=scale)))(2.0)), 2)
    0.99
    """
    return _affine(-agrad.log(uniform_like(key, shape, dtype, "exponential", scale)), 0.0, scale)


@draw
def log_gamma(key: Any, alpha: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw logarithms of gamma-distributed numbers of scale 1, as for ``gamma``.

    Parameters
    ----------
    alpha : number or array
        Concentration, greater than 0, however small. The result is differentiable in an array.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.log_gamma(key, 2.0, 4), 4)
    Tensor([1.1287, 0.4138, 0.0189, -0.0072], dtype=float64, backend=numpy, device=cpu)
    >>> np.round(agrad.exp(agrad.random.log_gamma(key, 2.0, 4)), 4)
    Tensor([3.0917, 1.5126, 1.0191, 0.9928], dtype=float64, backend=numpy, device=cpu)
    """
    return _log_gamma(key, alpha, shape, dtype, "log_gamma")


def _log_gamma(key: Any, alpha: Any, shape: Any, dtype: Any, name: str) -> Any:
    """Draw logarithms of gamma-distributed numbers for the function ``name``."""
    found, kind = shape_and_dtype(key, shape, dtype, name, alpha)
    concentration = parameter(positive(alpha, name, "alpha"), name, "alpha", key, found, kind)
    return sampling.log_gamma(key, concentration)


@draw
def gamma(key: Any, alpha: Any, shape: Any = None, *, scale: Any = 1.0, dtype: Any = None) -> agrad.Tensor:
    """Draw gamma-distributed numbers.

    Parameters
    ----------
    alpha : number or array
        Concentration, greater than 0. The result is differentiable in an array.

    Notes
    -----
    The method is from Marsaglia and Tsang 2000, ACM TOMS 26. The derivative with respect to ``alpha`` is implicit, as
    in Figurnov, Mohamed and Mnih 2018, arXiv:1805.08498: it is the derivative of the quantile.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.gamma(key, 2.0, 4), 4)
    Tensor([3.0917, 1.5126, 1.0191, 0.9928], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda alpha: agrad.mean(agrad.random.gamma(key, alpha, 1000)))(2.0)), 2)
    1.01
    """
    name = "gamma"
    found, kind = shape_and_dtype(key, shape, dtype, name, alpha, scale)
    return _affine(agrad.exp(_log_gamma(key, alpha, found, kind, name)), 0.0, scale)


@draw
def beta(key: Any, a: Any, b: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw beta-distributed numbers.

    Parameters
    ----------
    a, b : number or array
        Concentrations, greater than 0. The result is differentiable in arrays.

    Notes
    -----
    The sample is x / (x + y) for two gamma-distributed numbers, computed from their logarithms and differentiated
    through them. The mean of the gradient is the derivative of the mean of any function of the sample.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> np.round(agrad.random.beta(key, 2.0, 3.0, 4), 4)
    Tensor([0.1661, 0.6583, 0.0864, 0.684], dtype=float64, backend=numpy, device=cpu)
    >>> round(float(agrad.grad(lambda a: agrad.mean(agrad.random.beta(key, a, 3.0, 1000)))(2.0)), 2)
    0.12
    """
    name = "beta"
    found, kind = shape_and_dtype(key, shape, dtype, name, a, b)
    pair = sampling.keys(key, count=2, domain=sampling.PAIR, data=0)
    x = _log_gamma(pair[0, :], a, found, kind, name)
    y = _log_gamma(pair[1, :], b, found, kind, name)
    return agrad.sigmoid(x - y)


@draw
def dirichlet(key: Any, alpha: Any, shape: Any = None, *, dtype: Any = None) -> agrad.Tensor:
    """Draw Dirichlet-distributed points.

    A point is the softmax of logarithms of gamma-distributed numbers.

    Parameters
    ----------
    alpha : array
        Concentrations, greater than 0, along the last axis. The result is differentiable in them.
    shape : int, tuple of int or None
        Shape of the batch, to which ``alpha.shape[:-1]`` must broadcast. By default, that shape.

    Returns
    -------
    array of shape ``(*shape, alpha.shape[-1])`` that sums to 1 along the last axis

    Examples
    --------
    >>> sample = agrad.random.dirichlet(agrad.random.key(0), np.asarray([1.0, 2.0, 3.0]))
    >>> np.round(sample, 4)
    Tensor([0.3356, 0.3016, 0.3629], dtype=float64, backend=numpy, device=cpu)
    >>> round(agrad.sum(sample).item(), 6)
    1.0
    """
    name = "dirichlet"
    if not hasattr(alpha, "shape") or not len(alpha.shape):
        raise ShapeError(f"{name}: alpha must have at least one axis, for the components, got shape ()")
    width = int(alpha.shape[-1])
    batch = tuple(alpha.shape[:-1]) if shape is None else shape_of(shape, name)
    logarithms = _log_gamma(key, alpha, (*batch, width), dtype, name)
    return agrad.softmax(logarithms, axis=-1)

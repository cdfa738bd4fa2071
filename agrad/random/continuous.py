"""Draws from continuous distributions, differentiable in their parameters.

Where a sample is a smooth function of a parameter and of a number that does not depend on it (location, scale,
bounds), that function is differentiated; for concentrations the derivative is that at a fixed quantile.
"""

from typing import Any

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.ops import sampling
from agrad.random.keys import broadcast_shape, checked, floating, parameter, positive, shape_of


def _affine(sample: Any, loc: Any, scale: Any) -> Any:
    for value, neutral, operation in ((scale, 1.0, agrad.multiply), (loc, 0.0, agrad.add)):
        if hasattr(value, "shape"):
            if sample.dtype != value.dtype:
                value = agrad.astype(value, sample.dtype)
            sample = operation(sample, value)
        elif value != neutral:
            sample = operation(sample, float(value))
    return sample


def uniform(key: Any, shape: Any = None, *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Any:
    """Uniform from ``low`` to ``high``, numbers or arrays. Differentiable in both.

    On [0, 1) the sample is a multiple of 2**-24 in float32 and of 2**-53 in float64, bit for bit the same everywhere.
    Other bounds may be met by rounding. Raises ``ShapeError`` unless the bounds broadcast to ``shape``.
    """
    name = "uniform"
    found = broadcast_shape(shape, name, low, high)
    kind = floating(dtype, name, checked(key, name), low, high)
    sample = sampling.uniform(key, shape=found, dtype=kind, interior=False)
    return _affine(sample, low, high - low)


def normal(key: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Draw normal numbers of mean ``loc`` and standard deviation ``scale``.

    By the Box-Muller transform, so the same everywhere up to rounding. No sample is further out than 5.8 standard
    deviations in float32 and 8.6 in float64. Raises ``ShapeError`` unless the parameters broadcast to ``shape``.
    """
    name = "normal"
    found = broadcast_shape(shape, name, loc, scale)
    kind = floating(dtype, name, checked(key, name), loc, scale)
    return _affine(sampling.normal(key, shape=found, dtype=kind), loc, scale)


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None
) -> Any:
    """Draw ``loc + scale * z`` with z standard normal from ``lower`` to ``upper``.

    All are numbers or arrays, and differentiable. z is the distribution function's inverse at a uniform number, so it
    is accurate however far out in a tail the bounds lie. Raises ``ConfigurationError`` for numbers that do not ascend.
    """
    name = "truncated_normal"
    if not hasattr(lower, "shape") and not hasattr(upper, "shape") and not lower < upper:
        raise ConfigurationError(f"{name}: the lower bound is below the upper one; found {lower!r} and {upper!r}")
    found = broadcast_shape(shape, name, lower, upper, loc, scale)
    kind = floating(dtype, name, checked(key, name), lower, upper, loc, scale)
    u = sampling.uniform(key, shape=found, dtype=kind, interior=True)
    low = parameter(lower, name, "the lower bound", key, found, kind)
    high = parameter(upper, name, "the upper bound", key, found, kind)
    return _affine(sampling.truncated_normal(u, low, high), loc, scale)


def exponential(key: Any, shape: Any = None, *, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Draw exponential numbers of mean ``scale``, differentiable in it.

    ``scale`` is a number or an array.
    """
    name = "exponential"
    found = broadcast_shape(shape, name, scale)
    kind = floating(dtype, name, checked(key, name), scale)
    u = sampling.uniform(key, shape=found, dtype=kind, interior=True)
    return _affine(-agrad.log(u), 0.0, scale)


def log_gamma(key: Any, alpha: Any, shape: Any = None, *, dtype: Any = None) -> Any:
    """Draw logarithms of gamma distributed numbers of scale 1, also of tiny ``alpha``.

    Differentiable in ``alpha``, as ``gamma`` is.
    """
    return _log_gamma(key, alpha, shape, dtype, "log_gamma")


def _log_gamma(key: Any, alpha: Any, shape: Any, dtype: Any, name: str) -> Any:
    found = broadcast_shape(shape, name, alpha)
    kind = floating(dtype, name, checked(key, name), alpha)
    concentration = parameter(positive(alpha, name, "alpha"), name, "alpha", key, found, kind)
    return sampling.log_gamma(key, concentration)


def gamma(key: Any, alpha: Any, shape: Any = None, *, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Draw gamma distributed numbers of concentration ``alpha`` and of a scale.

    Numbers or arrays, in both of which it is differentiable: by the implicit gradient of Figurnov, Mohamed and Mnih
    (NeurIPS 2018), which is the derivative of the quantile. Drawn as Marsaglia and Tsang do (2000).
    Raises ``ConfigurationError`` for a number ``alpha`` that is not above 0; an array is not looked into.
    """
    name = "gamma"
    found = broadcast_shape(shape, name, alpha, scale)
    kind = floating(dtype, name, checked(key, name), alpha, scale)
    return _affine(agrad.exp(_log_gamma(key, alpha, found, kind, name)), 0.0, scale)


def beta(key: Any, a: Any, b: Any, shape: Any = None, *, dtype: Any = None) -> Any:
    """Draw beta distributed numbers of concentrations ``a`` and ``b``, differentiable.

    x / (x + y) of two gamma distributed numbers, computed from their logarithms. The gradient is that of the two; its
    mean is the derivative of the mean of any function of the sample.
    """
    name = "beta"
    found = broadcast_shape(shape, name, a, b)
    kind = floating(dtype, name, checked(key, name), a, b)
    pair = sampling.keys(key, count=2, domain=sampling.PAIR, data=0)
    x = _log_gamma(pair[0, :], a, found, kind, name)
    y = _log_gamma(pair[1, :], b, found, kind, name)
    return agrad.sigmoid(x - y)


def dirichlet(key: Any, alpha: Any, shape: Any = None, *, dtype: Any = None) -> Any:
    """Draw Dirichlet distributed points, of the concentrations on an axis.

    The concentrations stand along the last axis of the array ``alpha``.

    ``shape`` is that of the batch, to which ``alpha.shape[:-1]`` must broadcast, and by default just that. Gives an
    array of ``(*shape, alpha.shape[-1])`` whose last axis sums to 1. Differentiable in ``alpha``.
    """
    name = "dirichlet"
    if not hasattr(alpha, "shape") or not len(alpha.shape):
        raise ShapeError(f"{name}: alpha is an array of one axis or more, the last of which counts the components")
    width = int(alpha.shape[-1])
    batch = tuple(alpha.shape[:-1]) if shape is None else shape_of(shape, name)
    logarithms = _log_gamma(key, alpha, (*batch, width), dtype, name)
    return agrad.softmax(logarithms, axis=-1)

"""Draws of counts and signs, which have no derivatives."""

from typing import Any

import agrad
from agrad.random.discrete import bernoulli
from agrad.random.transformed import positive_like, uniform_like


def rademacher(key: Any, shape: Any = (), *, dtype: Any = None) -> Any:
    """Draw signs, 1 and -1 with equal chances.

    Parameters
    ----------
    key : array
        A key: array of shape (4,), uint32.
    shape : int or tuple of int
        The shape of the result.
    dtype : dtype or None
        A signed dtype, by default int32.

    Returns
    -------
    array
        Array of the shape and dtype. A Tensor if the key is one, else a raw array of its library, on the device of the
        key.

    Raises
    ------
    ShapeError
        If the key is not one, or the shape is not one.
    """
    kept = bernoulli(key, 0.5, shape)
    return 2 * agrad.astype(kept, agrad.int32 if dtype is None else dtype) - 1


_STEPS = 40
"""Halvings of an interval of integers: enough for rates up to 1e15."""


def poisson(key: Any, lam: Any, shape: Any = None) -> Any:
    """Draw Poisson distributed integers.

    Parameters
    ----------
    key : array
        A key: array of shape (4,), uint32.
    lam : number or array
        The rate, above 0. The result has no derivative by it.
    shape : int, tuple of int or None
        The shape of the result, by default that of ``lam``.

    Returns
    -------
    array
        Array of int64. A Tensor if the key is one, else a raw array of its library, on the device of the key.

    Raises
    ------
    ConfigurationError
        If ``lam`` is a number not above 0; the values of an array are not read.
    ShapeError
        If the key is not one, or ``lam`` does not broadcast to ``shape``.

    Notes
    -----
    The least integer whose distribution function is not below a uniform number, found by bisection. The distribution
    function at k is the regularized upper incomplete gamma function of k + 1 at the rate.
    """
    u = uniform_like(key, shape, "float64", "poisson", lam)
    rate = agrad.stop_gradient(positive_like(lam, "lam", key, u, "poisson"))
    spread = 12 * agrad.sqrt(rate)
    low = agrad.maximum(agrad.floor(rate - spread), 0.0 * rate) - 1
    high = agrad.ceil(rate + spread + 60)
    for _ in range(_STEPS):
        middle = agrad.floor((low + high) / 2)
        enough = agrad.special.gammaincc(agrad.maximum(middle, 0.0 * rate) + 1, rate) >= u
        inside = (middle > low) & (middle < high)
        low, high = agrad.where(inside & ~enough, middle, low), agrad.where(inside & enough, middle, high)
    return agrad.astype(high, agrad.int64)

"""Draws from discrete distributions, and random bits."""

from operator import index
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.ops import sampling
from agrad.random.keys import broadcast_shape, checked, draw, floating, shape_of
from agrad.random.transformed import gumbel

__all__ = ["bernoulli", "bits", "categorical", "choice", "permutation", "randint"]

_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@draw
def bits(key: Any, shape: Any = (), *, dtype: Any = None) -> agrad.Tensor:
    """Draw unsigned integers with random bits.

    The result contains the 64-bit words of the generator in order, each cut into integers from the low bits on. In
    uint64, the words for ``key(0)`` begin with the published vectors of Philox4x64-10.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result.
    dtype : dtype or None
        Unsigned integer dtype. By default, uint32.

    Examples
    --------
    >>> agrad.random.bits(agrad.random.key(0), 3)
    Tensor([3392549196, 374689182, 1731006428], dtype=uint32, backend=numpy, device=cpu)
    """
    checked(key, "bits")
    kind = _name(dtype, "uint32")
    if kind not in _UNSIGNED:
        raise DtypeError(f"bits: the dtype must be one of {', '.join(_UNSIGNED)}, got {kind}")
    return sampling.bits(key, shape=shape_of(shape, "bits"), dtype=kind)


def _name(dtype: Any, default: str) -> str:
    """Return the name of a dtype, or the default for None."""
    if dtype is None or isinstance(dtype, str):
        return dtype or default
    return agrad.zeros((), dtype=dtype, backend="numpy").dtype.name


def _index_dtype(key: Any) -> str:
    """Return the name of the default integer dtype of a key's backend."""
    tensor = agrad.asarray(key)
    return agrad.asarray(0, backend=tensor.backend, device=tensor.device).dtype.name


@draw
def randint(key: Any, low: int, high: int, shape: Any = (), *, dtype: Any = None) -> agrad.Tensor:
    """Draw integers from ``low`` to ``high - 1`` with equal probabilities.

    Parameters
    ----------
    low, high : int
        Bounds of at most 2**63 integers.
    shape : int or tuple of int
        Shape of the result.
    dtype : dtype or None
        Integer dtype that can represent them. By default, the integer dtype of the backend.

    Examples
    --------
    >>> agrad.random.randint(agrad.random.key(0), 1, 7, 6)
    Tensor([1, 3, 4, 6, 6, 2], dtype=int64, backend=numpy, device=cpu)
    """
    checked(key, "randint")
    try:
        low, high = index(low), index(high)
    except TypeError:
        raise OperandError(f"randint: the bounds must be integers, got {low!r} and {high!r}") from None
    kind = _name(dtype, "") or _index_dtype(key)
    if not agrad.isdtype(agrad.zeros((), dtype=kind, backend="numpy").dtype, "integral"):
        raise DtypeError(f"randint: the dtype must be an integer dtype, got {kind}")
    limits = agrad.iinfo(agrad.zeros((), dtype=kind, backend="numpy"))
    if not low < high or high - low > 2**63:
        raise ConfigurationError(f"randint: the range must contain 1 to 2**63 integers, got low={low}, high={high}")
    if low < limits.min or high - 1 > limits.max or high > 2**63:
        raise ConfigurationError(
            f"randint: {kind} cannot represent the integers from {low} to {high - 1}. Pass another dtype"
        )
    return sampling.integers(key, low=low, high=high, shape=shape_of(shape, "randint"), dtype=kind)


@draw
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> agrad.Tensor:
    """Draw Booleans, True with probability ``p``.

    Parameters
    ----------
    p : number or array
        Probability: a number, rounded to the nearest multiple of 2**-32, or a floating-point array.

    Returns
    -------
    array of Booleans

    Examples
    --------
    >>> agrad.random.bernoulli(agrad.random.key(0), 0.25, 6)
    Tensor([False, True, False, False, False, False], dtype=bool, backend=numpy, device=cpu)
    """
    checked(key, "bernoulli")
    found = broadcast_shape(shape, "bernoulli", p)
    if not hasattr(p, "shape"):
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise ConfigurationError(f"bernoulli: p must be a number from 0 to 1 or an array, got {p!r}")
        return sampling.mask(key, shape=found, threshold=round(p * 2**32))
    kind = floating(None, "bernoulli", key, p)
    return sampling.uniform(key, shape=found, dtype=kind, interior=False) < p


@draw
def categorical(key: Any, logits: Any, shape: Any = None, *, axis: int = -1) -> agrad.Tensor:
    """Draw indices along an axis with probabilities proportional to ``exp(logits)``.

    The result is the index of the largest logit after independent Gumbel noise is added (E. J. Gumbel 1954).

    Parameters
    ----------
    logits : array
        Array with a floating-point dtype and at least one axis. An element of -inf is never drawn.
    shape : int, tuple of int or None
        Shape of the result, to which the shape of ``logits`` without the axis must broadcast. By default, that shape.
    axis : int
        Axis of ``logits`` along which the probabilities sum to 1.

    Returns
    -------
    array of integers

    Examples
    --------
    >>> key, logits = agrad.random.key(0), np.log(np.asarray([0.1, 0.1, 0.8]))
    >>> agrad.random.categorical(key, logits, 8)
    Tensor([2, 2, 2, 2, 2, 2, 0, 1], dtype=int64, backend=numpy, device=cpu)
    """
    checked(key, "categorical")
    if not hasattr(logits, "shape") or not len(logits.shape):
        raise ShapeError("categorical: logits must have at least one axis, got a scalar")
    last = agrad.moveaxis(logits, axis, -1)
    width = int(last.shape[-1])
    if not width:
        raise ShapeError("categorical: the axis must not have length 0")
    found = broadcast_shape(shape, "categorical", last[..., 0])
    kind = floating(None, "categorical", key, logits)
    noise = gumbel(key, (*found, width), dtype=kind)
    return agrad.argmax(last + noise, axis=-1)


@draw
def permutation(key: Any, x: Any, /, *, axis: int = 0) -> agrad.Tensor:
    """Draw a permutation of integers, or shuffle an array.

    Parameters
    ----------
    x : int or array
        Number n, for a permutation of 0 to n - 1, or an array with at least one axis.
    axis : int
        Axis along which an array is shuffled.

    Returns
    -------
    array of integers of shape (n,), or the shuffled ``x``, differentiable with respect to ``x``

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> agrad.random.permutation(key, 6)
    Tensor([2, 1, 4, 0, 5, 3], dtype=int64, backend=numpy, device=cpu)
    >>> agrad.random.permutation(key, np.asarray([10, 20, 30]))
    Tensor([30, 20, 10], dtype=int64, backend=numpy, device=cpu)
    """
    checked(key, "permutation")
    if hasattr(x, "shape") and len(x.shape):
        n = _length(x, axis, "permutation")
        return agrad.take(x, sampling.permutation(key, n=n), axis=axis)
    return sampling.permutation(key, n=_count(x, "permutation"))


def _count(n: Any, name: str) -> int:
    """Return a number of elements, checked to be an integer of at least 0."""
    try:
        whole = -1 if isinstance(n, bool) else index(n)
    except TypeError:
        whole = -1
    if whole < 0:
        raise OperandError(f"{name}: n must be an integer of at least 0, or an array with at least one axis, got {n!r}")
    return whole


def _length(x: Any, axis: int, name: str) -> int:
    """Return the length of an axis, checked to be in range."""
    if not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{name}: axis {axis} is out of range for an array of shape {tuple(x.shape)}")
    return int(x.shape[axis])


@draw
def choice(key: Any, a: Any, shape: Any = (), *, replace: bool = True, p: Any = None, axis: int = 0) -> agrad.Tensor:
    """Draw from the integers below ``a``, or from the entries of an array.

    Parameters
    ----------
    a : int or array
        Number n, for the integers 0 to n - 1, or an array with at least one axis.
    shape : int or tuple of int
        Shape of the sample, which replaces the axis.
    replace : bool
        False to draw no position twice.
    p : array or None
        Probabilities of the positions, of shape (n,), which are divided by their sum. By default, equal.
    axis : int
        Axis of the array along which entries are drawn.

    Returns
    -------
    array of integers, or of elements of ``a``, differentiable with respect to ``a``

    Notes
    -----
    Without replacement, positions are drawn one after another, each with the probabilities of the remaining positions:
    J. I. Yellott 1977, Journal of Mathematical Psychology 15.

    Examples
    --------
    >>> agrad.random.choice(agrad.random.key(0), np.asarray([10, 20, 30, 40]), 3, replace=False)
    Tensor([30, 20, 10], dtype=int64, backend=numpy, device=cpu)
    """
    checked(key, "choice")
    found = shape_of(shape, "choice")
    array = hasattr(a, "shape") and bool(len(a.shape))
    n = _length(a, axis, "choice") if array else _count(a, "choice")
    drawn = 1
    for length in found:
        drawn *= length
    if drawn and (not n or (not replace and drawn > n)):
        raise ConfigurationError(
            f"choice: {drawn} of {n} cannot be drawn" + ("" if replace else " without replacement")
        )
    if p is not None and tuple(getattr(p, "shape", ())) != (n,):
        raise ShapeError(f"choice: p must have shape ({n},), one probability for each element")
    places = _places(key, n, drawn, replace, p)
    if not array:
        return agrad.reshape(places, found)
    chosen = agrad.take(a, places, axis=axis)
    at = axis % len(a.shape)
    return agrad.reshape(chosen, (*a.shape[:at], *found, *a.shape[at + 1 :]))


def _places(key: Any, n: int, drawn: int, replace: bool, p: Any) -> Any:
    """Return the drawn positions, integers of shape (drawn,)."""
    if p is None:
        if replace:
            return sampling.integers(key, low=0, high=max(n, 1), shape=(drawn,), dtype=_index_dtype(key))
        return sampling.permutation(key, n=n)[:drawn]
    kind = floating(None, "choice", key, p)
    p = agrad.asarray(p) if isinstance(key, agrad.Tensor) else p
    if replace:
        total = agrad.cumulative_sum(p)
        u = sampling.uniform(key, shape=(drawn,), dtype=kind, interior=False) * total[-1]
        # the first position with a sum above u, and no later one than the last sum if rounding makes u as large
        places = agrad.searchsorted(total, u, side="right")
        last = agrad.searchsorted(total, total[-1:], side="left")
        return agrad.minimum(places, last)
    # positions in descending order of log p with Gumbel noise: Yellott 1977
    possible = p > 0
    logarithms = agrad.where(possible, agrad.log(agrad.where(possible, p, agrad.ones_like(p))), -agrad.inf)
    scores = logarithms + gumbel(key, (n,), dtype=kind)
    return agrad.argsort(scores, descending=True)[:drawn]

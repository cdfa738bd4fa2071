"""Rules of two-argument functions on NumPy.

The generic forms handle rare values in a dozen passes over memory. Each kernel first searches for the rare values
(ties, zeros, numbers that would overflow). Without them it computes the plain derivative, block by block. With them,
the generic rule or the NumPy function runs.
"""

from typing import Any

import numpy as np

from agrad.kernels.numpy.blocks import BITS, are_alike, blockwise, is_floating
from agrad.kernels.numpy.fused import chosen
from agrad.registry import kernel

Raw = Any

HUGE = {dtype: float(np.finfo(dtype).max) / 4 for dtype in BITS}
LEAST = {dtype: float(np.finfo(dtype).tiny / np.finfo(dtype).eps) for dtype in BITS}
"""The range of a sum of two squares that has neither overflowed nor lost digits to underflow."""

_SIGN = {np.dtype(f"f{n}"): np.array(1 << (8 * n - 1), f"u{n}").view(f"i{n}") for n in (2, 4, 8)}
"""The sign bit, as an integer of the dtype's width."""

_LONG = 1 << 10
"""The number of elements from which on it is worth searching the values, measured."""


def _all_alike(g: Raw, *others: Raw) -> bool:
    """Return True if all are arrays of one shape and native floating dtype."""
    return type(g) is np.ndarray and all(type(x) is np.ndarray and are_alike(x, g) for x in others)


def _long_alike(g: Raw, *others: Raw) -> bool:
    """Return True if they are also long. On short arrays the generic rule is fast."""
    return type(g) is np.ndarray and g.size >= _LONG and _all_alike(g, *others)


def _is_scaled(g: Raw, *others: Raw) -> bool:
    """Return True if the others are alike, and the cotangent is like them or one number.

    Compiled programs pass a number for a cotangent that is the same everywhere.
    """
    return _all_alike(*others) and g.dtype == others[0].dtype and g.shape in ((), others[0].shape)


def _long_scaled(g: Raw, *others: Raw) -> bool:
    """Return True if the others are also long."""
    return _long_alike(*others) and _is_scaled(g, *others)


# ------------------------------------------------------------------ greater and less


def _split(g: np.ndarray, wins: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Return ``g`` for elements that win, half of it at ties, and 0 elsewhere."""
    if ties.any():
        return np.where(wins, g, np.where(ties, g / 2, np.zeros_like(g)))
    return chosen(g, wins)


def _is_share(g: Raw, mine: Raw, other: Raw) -> bool:
    return _long_scaled(g, mine) and (type(other) in (int, float) or _all_alike(mine, other))


def _file_extreme(name: str, beats: Any) -> None:
    @blockwise
    def share(g: Raw, mine: Raw, other: Raw) -> Raw:
        return _split(g, beats(mine, other), np.equal(mine, other))

    for mine, other in (("x1", "x2"), ("x2", "x1")):
        kernel("numpy", name, f"vjp:{mine}", _is_share, names=("g", mine, other), gain=3.0)(share)


_file_extreme("maximum", np.greater)
_file_extreme("minimum", np.less)


@kernel("numpy", "between", "vjp:x", gain=3.1, when=_long_scaled)
@blockwise
def between_vjp(g: Raw, x: Raw, *, low: float, high: float) -> Raw:
    inside = np.greater(x, low)
    np.logical_and(inside, np.less(x, high), out=inside)
    ties = np.equal(x, low)
    np.logical_or(ties, np.equal(x, high), out=ties)
    return _split(g, inside, ties)


@kernel("numpy", "between", "forward", gain=3.3, when=lambda x: type(x) is np.ndarray and is_floating(x))
def between(x: Raw, *, low: float, high: float) -> Raw:
    if x.size >= _LONG:
        return np.clip(x, low, high)
    out = np.maximum(x, low)
    return np.minimum(out, high, out=out)


@kernel("numpy", "copysign", "vjp:x1", gain=2.9, when=_long_scaled, names=("g", "x1", "y"))
@blockwise
def copysign_vjp(g: Raw, x1: Raw, y: Raw) -> Raw:
    bits = BITS[g.dtype]
    out = np.bitwise_xor(x1.view(bits), y.view(bits))
    np.bitwise_and(out, _SIGN[g.dtype], out=out)
    np.bitwise_xor(out, g.view(bits), out=out)
    return np.multiply(out, np.not_equal(x1, 0).view(np.int8), out=out).view(g.dtype)


# ------------------------------------------------------------------ powers


@kernel("numpy", "pow", "vjp:x1", gain=3.9, when=lambda g, x1, x2: _is_scaled(g, x1, x2) and bool(x2.all()))
@blockwise
def pow_base(g: Raw, x1: Raw, x2: Raw) -> Raw:
    out = np.subtract(x2, 1)
    np.power(x1, out, out=out)
    np.multiply(x2, out, out=out)
    return np.multiply(g, out, out=out)


@kernel("numpy", "pow", "vjp:x2", gain=5.6, when=lambda g, x1, y: _is_scaled(g, x1, y) and bool(x1.all()))
@blockwise
def pow_exponent(g: Raw, x1: Raw, y: Raw) -> Raw:
    out = np.multiply(g, y)
    return np.multiply(out, np.log(x1), out=out)


# ------------------------------------------------------------------ lengths and angles


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return a * a + b * b, or None if an element over- or underflows or is NaN."""
    if not a.size:
        return np.multiply(a, a)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        out = np.multiply(a, a)
        np.add(out, np.multiply(b, b), out=out)
    return out if out.min() > LEAST[out.dtype] and out.max() < HUGE[out.dtype] else None


@kernel("numpy", "hypot", "forward", gain=2.9, when=lambda x1, x2: _long_alike(x1, x2) and x1.dtype.char in "fd")
@blockwise
def hypot(x1: Raw, x2: Raw) -> Raw:
    squares = _squares(x1, x2)
    return np.hypot(x1, x2) if squares is None else np.sqrt(squares, out=squares)


@blockwise
def _leg(g: Raw, leg: Raw, y: Raw) -> Raw:
    out = np.divide(leg, y)
    return np.multiply(g, out, out=out)


def _is_leg(g: Raw, leg: Raw, y: Raw) -> bool:
    return _is_scaled(g, leg, y) and bool(y.size and y.min() > 0 and y.max() < np.inf)


@blockwise
def _over_length(g: Raw, other: Raw, mine: Raw) -> Raw:
    """Return g times ``other`` divided by the square of the length.

    If the square overflows, divide by the length twice.
    """
    squares = _squares(other, mine)
    if squares is None:
        length = np.hypot(other, mine)
        return g * (other / length / length)
    np.divide(other, squares, out=squares)
    return np.multiply(g, squares, out=squares)


kernel("numpy", "atan2", "vjp:x1", _long_scaled, names=("g", "x2", "x1"), gain=2.8)(_over_length)


@kernel("numpy", "atan2", "vjp:x2", gain=2.7, when=_long_scaled, names=("g", "x1", "x2"))
def atan2_second(g: Raw, x1: Raw, x2: Raw) -> Raw:
    out = _over_length(g, x1, x2)
    return np.negative(out, out=out)


# ------------------------------------------------------------------ the logarithm of a sum


def _tame(*arrays: np.ndarray) -> bool:
    """Return True if all elements and their differences are finite."""
    return all(a.min() > -HUGE[a.dtype] and a.max() < HUGE[a.dtype] for a in arrays if a.size)


@kernel("numpy", "logaddexp", "forward", gain=6.4, when=lambda x1, x2: _long_alike(x1, x2) and x1.dtype.char in "fd")
@blockwise
def logaddexp(x1: Raw, x2: Raw) -> Raw:
    if not _tame(x1, x2):
        return np.logaddexp(x1, x2)
    top = np.maximum(x1, x2)
    gap = np.minimum(x1, x2)
    np.subtract(gap, top, out=gap)
    np.exp(gap, out=gap)
    np.log1p(gap, out=gap)
    return np.add(top, gap, out=top)


@blockwise
def _weight(g: Raw, mine: Raw, y: Raw) -> Raw:
    out = np.subtract(mine, y)
    np.exp(out, out=out)
    return np.multiply(g, out, out=out)


def _is_weight(g: Raw, mine: Raw, y: Raw) -> bool:
    return _is_scaled(g, mine, y) and _tame(y)


for _mine in ("x1", "x2"):
    kernel("numpy", "hypot", f"vjp:{_mine}", _is_leg, names=("g", _mine, "y"), gain=25.0)(_leg)
    kernel("numpy", "logaddexp", f"vjp:{_mine}", _is_weight, names=("g", _mine, "y"), gain=11.0)(_weight)

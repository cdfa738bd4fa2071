"""The error function and GELU of long float32 arrays on NumPy.

SciPy evaluates its functions in double precision, element by element. These rational approximations were fitted to 2e-8
(``erf``) and 2e-7 (``erfc``), and are evaluated in blocks.
"""

import math
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.kernels.numpy.blocks import are_alike, blockwise
from agrad.kernels.numpy.fused import zeros_beside
from agrad.registry import PRIMITIVES, kernel

Raw = Any

_LONG = 1 << 13
"""The number of elements from which on the passes take less time than SciPy's loop, measured."""

# erf(x) / x in powers of x**2, the highest first
_ERF = (
    (2.0664618e-06, 0.00028506275, 0.0037383846, 0.0526682, 0.18966776, 1.12837915),
    (3.8269932e-05, 0.00115738495, 0.014914354, 0.11381934, 0.50142146, 1.0),
)
_END = 3.86048
"""A number at which the quotient of polynomials rounds to 1."""

# exp(x**2) erfc(x) for 0 <= x <= 10.3, in powers of x; beyond, erfc is 0 in float32
_ERFC = (
    (1.5515874e-06, 0.083323346, 0.43706363, 0.97016172, 1.0),
    (0.14778316, 0.77325650, 1.80514084, 2.09852927, 1.0),
)


_TAIL = tuple(
    tuple(share * c * 0.5 ** ((4 - k) / 2) for k, c in enumerate(some))
    for share, some in zip((0.5, 1.0), _ERFC, strict=True)
)
"""Half of the same in powers of sqrt(2) x."""


def _is_long(x: Raw) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float32 and x.size >= _LONG


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    first, second, *others = coefficients
    out = np.multiply(x, first)
    np.add(out, second, out=out)
    for c in others:
        np.multiply(out, x, out=out)
        np.add(out, c, out=out)
    return out


def _ratio(coefficients: tuple[tuple[float, ...], ...], x: np.ndarray) -> np.ndarray:
    top, bottom = [_polynomial(some, x) for some in coefficients]
    return np.divide(top, bottom, out=top)


@kernel("numpy", "erf", "forward", gain=2.6, when=_is_long)
@blockwise
def erf(x: Raw) -> Raw:
    near = np.minimum(x, _END)
    np.maximum(near, -_END, out=near)
    out = _ratio(_ERF, np.multiply(near, near))
    np.multiply(out, near, out=out)
    return np.maximum(np.minimum(out, 1, out=out), -1, out=out)


@kernel("numpy", "special.erfc", "forward", gain=2.0, when=_is_long)
@blockwise
def erfc(x: Raw) -> Raw:
    size = np.abs(x)
    np.minimum(size, 10.3, out=size)
    out = _ratio(_ERFC, size)
    # the rounding error of the square: the square of the leading 12 bits is exact
    high = np.bitwise_and(size.view(np.int32), -4096).view(x.dtype)
    low, square = np.subtract(size, high), np.multiply(size, size)
    np.add(size, high, out=size)
    np.multiply(size, low, out=size)
    np.multiply(high, high, out=high)
    np.subtract(high, square, out=high)
    np.add(size, high, out=size)
    np.exp(np.negative(square, out=square), out=square)
    np.multiply(out, square, out=out)
    np.subtract(out, np.multiply(size, out, out=size), out=out)
    sign = np.copysign(np.float32(1), x)
    np.multiply(out, sign, out=out)
    return np.add(out, np.subtract(1, sign, out=sign), out=out)


def _tail(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return abs(x), at most 14.5, and the mass of the standard normal distribution beyond it."""
    near = np.abs(x)
    if not near.max() < 14.5:
        np.minimum(near, 14.5, out=near)
    out, bell = _ratio(_TAIL, near), np.multiply(near, near)
    np.multiply(bell, -0.5, out=bell)
    return near, np.multiply(out, np.exp(bell, out=bell), out=out)


@kernel("numpy", "gelu", "forward", gain=1.5, when=lambda x, approximate=False: _is_long(x) and not approximate)
@blockwise
def gelu(x: Raw, *, approximate: bool) -> Raw:
    if approximate:
        return PRIMITIVES["gelu"].generic(load("numpy"))(x, approximate=True)
    # x if it is positive, minus abs(x) times the mass of the tail
    size, tail = _tail(x)
    np.multiply(tail, size, out=tail)
    return np.subtract(np.maximum(x, zeros_beside(x.shape, x.dtype), out=size), tail, out=tail)


@blockwise
def _gelu_vjp(g: Raw, x: Raw, y: Raw) -> Raw:
    bell = np.abs(x)
    if bell.min() > 1e-30 and bell.max() < 1e15:
        mass = np.divide(y, x)
    else:  # the quotient has no digits, or is NaN
        tail = _tail(x)[1]
        mass = np.where(x > 0, 1 - tail, tail)
        x = np.clip(x, -14.5, 14.5)
    np.multiply(x, x, out=bell)
    np.multiply(bell, -0.5, out=bell)
    np.exp(bell, out=bell)
    np.multiply(bell, x, out=bell)
    np.multiply(bell, math.sqrt(0.5 / math.pi), out=bell)
    np.add(bell, mass, out=bell)
    return np.multiply(bell, g, out=bell)


@kernel("numpy", "gelu", "vjp:x", gain=1.6, when=lambda g, x, y: _is_long(x) and are_alike(g, x) and are_alike(y, x))
def gelu_vjp(g: Raw, x: Raw, y: Raw, *, approximate: bool) -> Raw:
    return NotImplemented if approximate else _gelu_vjp(g, x, y)

"""Handlers of NumPy universal functions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    alike,
    conjugate,
    constant,
    inexact,
    is_inexact,
    may_hold,
    on_host,
    operands,
    promoted,
    tensor,
    tensors,
    truth,
    values_of,
)
from agrad.interop.table import UFUNCS, find

Handler = Callable[..., Any]


def ufunc(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of ufuncs, by name, if this version of NumPy has them."""

    def file(handler: Handler) -> Handler:
        UFUNCS.update({function: handler for name in names if (function := find(name)) is not None})
        return handler

    return file


def _direct(name: str, *, floating: bool = False) -> Handler:
    function = getattr(agrad, name)

    def handler(*values: Any) -> Any:
        return function(*operands(*values, floating=floating))

    return handler


_SAME_KIND = (
    "abs add bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil conj equal "
    "floor floor_divide greater greater_equal isfinite isinf isnan less less_equal matmul maximum minimum multiply "
    "negative not_equal positive pow remainder sign square subtract trunc"
)
"""Functions of agrad that are NumPy ufuncs of the same names."""

_FLOATING = (
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh divide exp expm1 hypot log log10 log1p log2 logaddexp "
    "nextafter signbit sin sinh sqrt tan tanh"
)
"""The same, for ufuncs whose results are floating for integers too."""

for _name in _SAME_KIND.split():
    ufunc(_name)(_direct(_name))
for _name in _FLOATING.split():
    ufunc(_name)(_direct(_name, floating=True))
ufunc("rint")(_direct("round", floating=True))


def _logical(name: str) -> Handler:
    function = getattr(agrad, name)

    def handler(*values: Any) -> Any:
        return function(*[truth(x) for x in tensors(*values)])

    return handler


for _name in ("logical_and", "logical_not", "logical_or", "logical_xor"):
    ufunc(_name)(_logical(_name))


@ufunc("reciprocal")
def _reciprocal(x: Any) -> Any:
    (x,) = operands(x)
    return agrad.reciprocal(x) if is_inexact(x) else agrad.floor_divide(1, x)


ufunc("fabs")(lambda x: agrad.abs(inexact(tensor(x))))
ufunc("exp2")(lambda x: agrad.pow(2.0, inexact(tensor(x))))
ufunc("deg2rad", "radians")(lambda x: inexact(tensor(x)) * (math.pi / 180))
ufunc("rad2deg", "degrees")(lambda x: inexact(tensor(x)) * (180 / math.pi))
ufunc("fmax")(lambda x1, x2: _but_nan(agrad.maximum, x1, x2))
ufunc("fmin")(lambda x1, x2: _but_nan(agrad.minimum, x1, x2))


def _sign(x: Tensor) -> Tensor:
    """Return -1 or 1, the sign of a floating number and of a zero, as a constant."""
    return 1 - 2 * agrad.astype(agrad.signbit(x), x.dtype)


@ufunc("cbrt")
def _cbrt(x: Any) -> Any:
    # the power of a negative number is not real
    x = inexact(tensor(x))
    sign = _sign(x)
    return sign * (sign * x) ** (1 / 3)


@ufunc("float_power")
def _float_power(x1: Any, x2: Any) -> Any:
    x1, x2 = promoted(*tensors(x1, x2), least=np.float64)
    return agrad.pow(x1, x2)


def _but_nan(function: Handler, x1: Any, x2: Any) -> Any:
    """Apply a function of two numbers; if one is NaN, return the other."""
    x1, x2 = alike(x1, x2)
    if not is_inexact(x1):
        return function(x1, x2)
    return function(agrad.where(agrad.isnan(x1), x2, x1), agrad.where(agrad.isnan(x2), x1, x2))


@ufunc("fmod")
def _fmod(x1: Any, x2: Any) -> Any:
    # the remainder of the magnitudes is exact; its sign is the sign of x1
    x1, x2 = alike(x1, x2)
    if x1.dtype.kind == "unsigned integer":
        return agrad.remainder(x1, x2)
    sign = _sign(x1) if is_inexact(x1) else agrad.where(x1 < 0, -agrad.ones_like(x1), agrad.ones_like(x1))
    return sign * agrad.remainder(sign * x1, agrad.abs(x2))


@ufunc("divmod")
def _divmod(x1: Any, x2: Any) -> Any:
    x1, x2 = operands(x1, x2)
    return agrad.floor_divide(x1, x2), agrad.remainder(x1, x2)


@ufunc("modf")
def _modf(x: Any) -> Any:
    x = inexact(tensor(x))
    whole = agrad.trunc(x)
    # the fraction of an infinity is 0 instead of inf - inf = nan; a zero has the sign of the number
    sign = _sign(x)
    return _scalar(agrad.where(agrad.isinf(x), sign * 0.0, sign * (sign * x - agrad.abs(whole)))), whole


@ufunc("frexp")
def _frexp(x: Any) -> Any:
    x = inexact(tensor(x))
    exponent = np.asarray(np.frexp(values_of(x))[1])
    return _scaled(x, -exponent), constant(exponent, x)


@ufunc("ldexp")
def _ldexp(x1: Any, x2: Any) -> Any:
    if not isinstance(x1, Tensor):
        x1 = tensor(x1, x2)
    return _scaled(inexact(x1), values_of(x2))


def _scaled(x: Tensor, exponent: np.ndarray) -> Tensor:
    """Return ``x * 2**exponent``, in three exact steps.

    A single factor could overflow or underflow.
    """
    first = exponent // 3
    second = (exponent - first) // 2
    for part in (first, second, exponent - first - second):
        x = x * constant(np.ldexp(1.0, part).astype(x.dtype.name), x)
    return x


@ufunc("heaviside")
def _heaviside(x1: Any, x2: Any) -> Any:
    x1, x2 = alike(x1, x2, floating=True)
    steps = agrad.astype(x1 > 0, x1.dtype)
    out = agrad.where(x1 == 0, x2, steps)
    return _scalar(agrad.where(agrad.isnan(x1), x1, out) if may_hold(np.isnan, x1) else out)


def _scalar(out: Any) -> Any:
    """Return a 0-D result as a scalar without views, as NumPy ufuncs do, but not ``where``."""
    return out if out.shape else out[()]


@ufunc("logaddexp2")
def _logaddexp2(x1: Any, x2: Any) -> Any:
    x1, x2 = alike(x1, x2, floating=True)
    two = math.log(2)
    return agrad.logaddexp(x1 * two, x2 * two) / two


# constants without a counterpart in the standard
for _name in ("bitwise_count", "gcd", "lcm", "spacing"):
    ufunc(_name)(on_host(getattr(np, _name)))


@ufunc("vecdot")
def _vecdot(x1: Any, x2: Any) -> Any:
    return agrad.vecdot(*promoted(*tensors(x1, x2)), axis=-1)


@ufunc("matvec")
def _matvec(x1: Any, x2: Any) -> Any:
    x1, x2 = promoted(*tensors(x1, x2))
    return agrad.matmul(x1, x2[..., None])[..., 0]


@ufunc("vecmat")
def _vecmat(x1: Any, x2: Any) -> Any:
    x1, x2 = promoted(*tensors(x1, x2))
    return agrad.matmul(conjugate(x1)[..., None, :], x2)[..., 0, :]

"""NumPy's universal functions on Tensors, one by one."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    NUMBERS,
    alike,
    constant,
    dtype_of,
    inexact,
    is_complex,
    is_inexact,
    like_of,
    on_host,
    promoted,
    tensor,
    tensors,
    truth,
    values_of,
)
from agrad.interop.table import UFUNCS, find

Handler = Callable[..., Any]


def ufunc(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of ufuncs of these names.

    Names that this NumPy does not have are left out.
    """

    def file(handler: Handler) -> Handler:
        for name in names:
            function = find(name)
            if function is not None:
                UFUNCS[function] = handler
        return handler

    return file


def operands(*values: Any, floating: bool = False) -> list[Any]:
    """Return the operands in the dtype that NumPy promotes theirs to.

    Python's numbers are weak, and stay numbers.

    NumPy's scalars are arrays to NumPy and numbers to every other library.
    """
    if _alike(values):
        return list(values)
    like = like_of(*values)
    if like is not None and like.backend != "numpy":
        values = tuple([v.item() if isinstance(v, np.generic) else v for v in values])
    out = [v if type(v) in NUMBERS else tensor(v, like) for v in values]
    arrays = [v for v in out if isinstance(v, Tensor)]
    weak = [v for v in out if not isinstance(v, Tensor)]
    kinds = [np.dtype(v.dtype.name) for v in arrays]
    target = np.result_type(*kinds, *weak)
    if floating and target.kind in "biu":
        target = np.dtype(np.float64)
    if weak or any(kind != target for kind in kinds):
        wanted = dtype_of(target)
        arrays = [v if v.dtype == wanted else agrad.astype(v, wanted) for v in arrays]
        pending = iter(arrays)
        out = [next(pending) if isinstance(v, Tensor) else _fitting(v, wanted) for v in out]
    return out


def _alike(values: tuple[Any, ...]) -> bool:
    """Return True for Tensors of one floating dtype with floats, the common case."""
    kind = None
    for value in values:
        if isinstance(value, Tensor):
            if kind is None:
                kind = value.dtype
            elif value.dtype is not kind:
                return False
        elif type(value) is not float:
            return False
    return kind is not None and kind.kind == "real floating"


def _fitting(number: Any, dtype: Any) -> Any:
    """Return a weak number as a dtype takes it.

    array-api-strict takes no int for a truth value and no float for an int.
    """
    if dtype.kind == "real floating":
        return float(number)
    return int(number) if dtype.kind.endswith("integer") else number


def _direct(name: str, *, floating: bool = False) -> Handler:
    function = getattr(agrad, name)

    def handler(*values: Any) -> Any:
        return function(*operands(*values, floating=floating))

    return handler


# fmt: off
for _names, _name in (
    ("absolute", "abs"), ("add", "add"), ("bitwise_and", "bitwise_and"), ("bitwise_or", "bitwise_or"),
    ("bitwise_xor", "bitwise_xor"), ("ceil", "ceil"), ("conjugate", "conj"), ("equal", "equal"), ("floor", "floor"),
    ("floor_divide", "floor_divide"), ("greater", "greater"), ("greater_equal", "greater_equal"),
    ("invert", "bitwise_invert"), ("isfinite", "isfinite"), ("isinf", "isinf"), ("isnan", "isnan"),
    ("left_shift", "bitwise_left_shift"), ("less", "less"), ("less_equal", "less_equal"), ("matmul", "matmul"),
    ("maximum", "maximum"), ("minimum", "minimum"), ("multiply", "multiply"), ("negative", "negative"),
    ("not_equal", "not_equal"), ("positive", "positive"), ("power", "pow"), ("remainder", "remainder"),
    ("right_shift", "bitwise_right_shift"), ("sign", "sign"), ("square", "square"), ("subtract", "subtract"),
    ("trunc", "trunc"),
):
    ufunc(_names)(_direct(_name))
for _names, _name in (
    ("arccos", "acos"), ("arccosh", "acosh"), ("arcsin", "asin"), ("arcsinh", "asinh"), ("arctan", "atan"),
    ("arctan2", "atan2"), ("arctanh", "atanh"), ("copysign", "copysign"), ("cos", "cos"), ("cosh", "cosh"),
    ("divide", "divide"), ("exp", "exp"), ("expm1", "expm1"), ("hypot", "hypot"), ("log", "log"), ("log10", "log10"),
    ("log1p", "log1p"), ("log2", "log2"), ("logaddexp", "logaddexp"), ("nextafter", "nextafter"), ("rint", "round"),
    ("signbit", "signbit"), ("sin", "sin"), ("sinh", "sinh"), ("sqrt", "sqrt"), ("tan", "tan"), ("tanh", "tanh"),
):
    ufunc(_names)(_direct(_name, floating=True))
# fmt: on


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


@ufunc("fabs")
def _fabs(x: Any) -> Any:
    return agrad.abs(inexact(tensor(x)))


def _sign(x: Tensor) -> Tensor:
    """-1 and 1, constant: the sign of a floating number, also of a zero."""
    return 1 - 2 * agrad.astype(agrad.signbit(x), x.dtype)


@ufunc("cbrt")
def _cbrt(x: Any) -> Any:
    # by the magnitude, as the power of a negative number is not real
    x = inexact(tensor(x))
    sign = _sign(x)
    return sign * (sign * x) ** (1 / 3)


@ufunc("exp2")
def _exp2(x: Any) -> Any:
    return agrad.pow(2.0, inexact(tensor(x)))


@ufunc("deg2rad", "radians")
def _radians(x: Any) -> Any:
    return inexact(tensor(x)) * (math.pi / 180)


@ufunc("rad2deg", "degrees")
def _degrees(x: Any) -> Any:
    return inexact(tensor(x)) * (180 / math.pi)


@ufunc("float_power")
def _float_power(x1: Any, x2: Any) -> Any:
    x1, x2 = promoted(*tensors(x1, x2), least=np.float64)
    return agrad.pow(x1, x2)


@ufunc("fmax")
def _fmax(x1: Any, x2: Any) -> Any:
    return _but_nan(agrad.maximum, x1, x2)


@ufunc("fmin")
def _fmin(x1: Any, x2: Any) -> Any:
    return _but_nan(agrad.minimum, x1, x2)


def _but_nan(function: Handler, x1: Any, x2: Any) -> Any:
    """Return ``function`` of two numbers; of a number and a nan, the number."""
    x1, x2 = alike(x1, x2)
    if not is_inexact(x1):
        return function(x1, x2)
    return function(agrad.where(agrad.isnan(x1), x2, x1), agrad.where(agrad.isnan(x2), x1, x2))


@ufunc("fmod")
def _fmod(x1: Any, x2: Any) -> Any:
    # exact, as the remainder of the magnitudes is; the sign is x1's
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
    # an infinity has no fraction; its difference from itself would be nan. A zero has the sign of the number
    sign = _sign(x)
    return agrad.where(agrad.isinf(x), sign * 0.0, sign * (sign * x - agrad.abs(whole))), whole


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

    One factor alone may be no number of the dtype.
    """
    first = exponent // 3
    second = (exponent - first) // 2
    for part in (first, second, exponent - first - second):
        x = x * constant(np.ldexp(1.0, part).astype(x.dtype.name), x)
    return x


@ufunc("heaviside")
def _heaviside(x1: Any, x2: Any) -> Any:
    x1, x2 = alike(x1, x2, floating=True)
    zero, one = agrad.zeros_like(x1), agrad.ones_like(x1)
    steps = agrad.where(x1 < 0, zero, one)
    return agrad.where(x1 == 0, x2, agrad.where(agrad.isnan(x1), x1, steps))


@ufunc("logaddexp2")
def _logaddexp2(x1: Any, x2: Any) -> Any:
    x1, x2 = alike(x1, x2, floating=True)
    two = math.log(2)
    return agrad.logaddexp(x1 * two, x2 * two) / two


# whole numbers, and the distance to the next number: constants, of which the standard knows nothing
for _name in ("bitwise_count", "gcd", "lcm", "spacing"):
    if hasattr(np, _name):
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
    row = agrad.conj(x1) if is_complex(x1) else x1
    return agrad.matmul(row[..., None, :], x2)[..., 0, :]

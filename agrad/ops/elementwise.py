"""Elementwise functions, one row each.

A rule is ``g`` times the partial derivative: the vjp and the jvp at once. Complex functions follow the convention of
JAX and autograd: a rule multiplies by the derivative without conjugating. The gradient of abs(z)**2 is 2 conj(z).
"""

import math
import operator
import re
from typing import Any

from agrad.backends.base import in_digits_of
from agrad.dtypes import is_complex, is_floating
from agrad.errors import OperandError, ReadOnlyViewError, ShapeError
from agrad.ops.definition import elementwise, primitive, public_of_array
from agrad.registry import namespace

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "clip", "conj", "copysign", "cos", "cosh",
    "divide", "exp", "expm1", "imag", "log", "log1p", "log2", "log10", "logaddexp", "maximum", "minimum", "multiply",
    "negative", "nextafter", "positive", "pow", "real", "reciprocal", "remainder", "sign", "sin", "sinh", "sqrt",
    "square", "subtract", "tan", "tanh",
]  # fmt: skip

one_minus_square = elementwise(
    "one_minus_square",
    lambda g, x: -2 * g * x,
    forward=lambda xp, x, /: (1 - x) * (1 + x),
    doc="Return 1 - x**2 of each element, accurate near 1 and -1, with a derivative that is accurate near 0.",
    decompose=True,
    public=False,
)

# fmt: off
# ------------------------------------------------------------------ arithmetic
add = elementwise("add", lambda g: g, lambda g: g, jointly=True, commutative=True, takes_traced_numbers=True,
    operator=operator.add, neutral=0,
    doc="Return the sum of two arrays.", example="""
>>> agrad.add(np.asarray([1.0, 2.0]), np.asarray([[10.0], [20.0]]))
array([[11., 12.],
       [21., 22.]])
""")
subtract = elementwise("subtract", lambda g: g, lambda g: -g, jointly=True, takes_traced_numbers=True,
    operator=operator.sub,
    doc="Return the difference of two arrays.", example="""
>>> agrad.subtract(np.asarray([1.0, 2.0]), np.asarray([[10.0], [20.0]]))
array([[ -9.,  -8.],
       [-19., -18.]])
""")
multiply = elementwise("multiply", lambda g, x2: g * x2, lambda g, x1: g * x1, commutative=True,
    takes_traced_numbers=True, operator=operator.mul, product_rules=True, neutral=1,
    doc="Return the product of two arrays.", example="""
>>> agrad.multiply(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
array([3., 8.])
""")
divide = elementwise("divide", lambda g, x2: g / x2, lambda g, y, x2: -(g * y / x2), takes_traced_numbers=True,
    operator=operator.truediv,
    doc="Return the quotient of two arrays.", example="""
>>> agrad.divide(np.asarray([1.0, 3.0]), 2.0)
array([0.5, 1.5])
""")
negative = elementwise("negative", lambda g: -g, doc="Return the negative of each element.", example="""
>>> agrad.negative(np.asarray([1.0, -2.0]))
array([-1.,  2.])
""")
positive = elementwise("positive", lambda g: g, is_view=True, doc="Return each element unchanged.", example="""
>>> agrad.positive(np.asarray([1.0, -2.0]))
array([ 1., -2.])
""")
square = elementwise("square", lambda g, x: 2 * g * x, doc="Return the square of each element.", example="""
>>> agrad.square(np.asarray([2.0, -3.0]))
array([4., 9.])
>>> agrad.grad(agrad.square)(3.0)
np.float64(6.0)
""")
sqrt = elementwise("sqrt", lambda g, y: g / (2 * y), doc="Return the square root of each element.", example="""
>>> agrad.sqrt(np.asarray([4.0, 9.0]))
array([2., 3.])
""")
reciprocal = elementwise("reciprocal", lambda g, y: -(g * y * y), doc="Return 1 / x of each element.", example="""
>>> agrad.reciprocal(np.asarray([2.0, 4.0]))
array([0.5 , 0.25])
""")

# ------------------------------------------------------------------ exponentials and logarithms
exp = elementwise("exp", lambda g, y: g * y, doc="Return e raised to the power of each element.", example="""
>>> agrad.exp(np.asarray([0.0, 1.0]))
array([1.        , 2.71828183])
""")
# y + 1 has no digits left at -37
expm1 = elementwise("expm1", lambda xp, g, x: g * xp.exp(x),
    doc="Return exp(x) - 1 of each element, accurate near 0.", example="""
>>> agrad.expm1(np.asarray([0.0, 1e-12]))
array([0.e+00, 1.e-12])
""")
log = elementwise("log", lambda g, x: g / x, doc="Return the natural logarithm of each element.", example="""
>>> agrad.log(np.asarray([1.0, np.e]))
array([0., 1.])
""")
log1p = elementwise("log1p", lambda g, x: g / (1 + x),
    doc="Return log(1 + x) of each element, accurate near 0.", example="""
>>> agrad.log1p(np.asarray([0.0, 1e-12]))
array([0.e+00, 1.e-12])
""")
log2 = elementwise("log2", lambda g, x: g / (x * in_digits_of(x, math.log(2), lambda xp, one: xp.log(2 * one))),
    doc="Return the base-2 logarithm of each element.", example="""
>>> agrad.log2(np.asarray([1.0, 8.0]))
array([0., 3.])
""")
log10 = elementwise("log10", lambda g, x: g / (x * in_digits_of(x, math.log(10), lambda xp, one: xp.log(10 * one))),
    doc="Return the base-10 logarithm of each element.", example="""
>>> agrad.log10(np.asarray([1.0, 1000.0]))
array([0., 3.])
""")

# ------------------------------------------------------------------ trigonometric and hyperbolic
sin = elementwise("sin", lambda xp, g, x: g * xp.cos(x), doc="Return the sine of each element, in radians.", example="""
>>> agrad.sin(np.asarray([0.0, np.pi / 2]))
array([0., 1.])
""")
cos = elementwise("cos", lambda xp, g, x: -(g * xp.sin(x)),
    doc="Return the cosine of each element, in radians.", example="""
>>> agrad.cos(np.asarray([0.0, np.pi]))
array([ 1., -1.])
""")
tan = elementwise("tan", lambda g, y: g * (1 + y * y),
    doc="Return the tangent of each element, in radians.", example="""
>>> agrad.tan(np.asarray([0.0, np.pi / 4]))
array([0., 1.])
""")
asin = elementwise("asin", lambda xp, g, x: g / _cosine(xp, x),
    doc="Return the arcsine of each element, in radians.", example="""
>>> agrad.asin(np.asarray([0.0, 0.5, 1.0]))
array([0.        , 0.52359878, 1.57079633])
""")
acos = elementwise("acos", lambda xp, g, x: -(g / _cosine(xp, x)),
    doc="Return the arccosine of each element, in radians.", example="""
>>> agrad.acos(np.asarray([1.0, 0.0, -1.0]))
array([0.        , 1.57079633, 3.14159265])
""")
atan = elementwise("atan", lambda g, x: g / (1 + x * x),
    doc="Return the arctangent of each element, in radians.", example="""
>>> agrad.atan(np.asarray([0.0, 1.0]))
array([0.        , 0.78539816])
""")
sinh = elementwise("sinh", lambda xp, g, x: g * xp.cosh(x),
    doc="Return the hyperbolic sine of each element.", example="""
>>> agrad.sinh(np.asarray([0.0, 1.0]))
array([0.        , 1.17520119])
""")
cosh = elementwise("cosh", lambda xp, g, x: g * xp.sinh(x),
    doc="Return the hyperbolic cosine of each element.", example="""
>>> agrad.cosh(np.asarray([0.0, 1.0]))
array([1.        , 1.54308063])
""")
tanh = elementwise("tanh", lambda g, y: g * (1 - y * y),
    doc="Return the hyperbolic tangent of each element.", example="""
>>> agrad.tanh(np.asarray([0.0, 1.0]))
array([0.        , 0.76159416])
""")
asinh = elementwise("asinh", lambda xp, g, x: g / _over_one(xp, x),
    doc="Return the inverse hyperbolic sine of each element.", example="""
>>> agrad.asinh(np.asarray([0.0, 1.0]))
array([0.        , 0.88137359])
""")
acosh = elementwise("acosh", lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)),
    doc="Return the inverse hyperbolic cosine of each element.", example="""
>>> agrad.acosh(np.asarray([1.0, 2.0]))
array([0.       , 1.3169579])
""")
atanh = elementwise("atanh", lambda g, x: g / one_minus_square(x),
    doc="Return the inverse hyperbolic tangent of each element.", example="""
>>> agrad.atanh(np.asarray([0.0, 0.5]))
array([0.        , 0.54930614])
""")

# ------------------------------------------------------------------ complex parts; real results of complex arguments
real = elementwise("real", lambda g: g, keeps_type=False, is_view=True, numpy_view=True,
    doc="Return the real part of each element.", example="""
>>> agrad.real(np.asarray([1 + 2j, 3 - 1j]))
array([1., 3.])
>>> agrad.grad(lambda z: agrad.real(z * z))(np.asarray(1 + 2j))
np.complex128(2+4j)
""")
imag = elementwise("imag", lambda xp, g, x_meta: _imag_rule(xp, g, x_meta), keeps_type=False,
    is_view=True, numpy_view=True,
    doc="Return the imaginary part of each element.", example="""
>>> agrad.imag(np.asarray([1 + 2j, 3 - 1j]))
array([ 2., -1.])
""")
conj = elementwise("conj", lambda xp, g: xp.conj(g), is_view=True,
    doc="Return the complex conjugate of each element.", example="""
>>> agrad.conj(np.asarray([1 + 2j, 3 - 1j]))
array([1.-2.j, 3.+1.j])
>>> agrad.grad(lambda z: agrad.real(z * agrad.conj(z)))(np.asarray(1 + 2j))
np.complex128(2-4j)
""")
abs = elementwise("abs", lambda xp, g, x: g * _conj_sign(xp, x), keeps_type=False,
    doc="Return the absolute value of each element. The derivative at 0 is 0.", example="""
>>> agrad.abs(np.asarray([-2.0, 0.0, 3.0]))
array([2., 0., 3.])
>>> agrad.elementwise_grad(agrad.abs)(np.asarray([-2.0, 0.0, 3.0]))
array([-1.,  0.,  1.])
>>> agrad.abs(np.asarray(3 + 4j))
np.float64(5.0)
""")
# fmt: on
nextafter = elementwise(
    "nextafter",
    lambda g: g,
    None,
    doc="Return the next floating-point number after ``x1`` in the direction of ``x2``.",
    example="""
>>> agrad.nextafter(np.asarray([1.0, 1.0]), np.asarray([2.0, 0.0])) - 1.0
array([ 2.22044605e-16, -1.11022302e-16])
""",
)


@primitive(broadcasts=True, jointly=True, batch="leading")
def from_parts(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return complex numbers of real and imaginary parts, which broadcast."""
    return xp.from_parts(x1, x2)


@from_parts.vjp("x1")
def from_parts_real(xp: Any, g: Any) -> Any:
    return xp.real(g)


@from_parts.vjp("x2")
def from_parts_imag(xp: Any, g: Any) -> Any:
    return -xp.imag(g)


@from_parts.jvp("x1")
def from_parts_real_jvp(xp: Any, t: Any) -> Any:
    return xp.from_parts(t, xp.zeros_like(t))


@from_parts.jvp("x2")
def from_parts_imag_jvp(xp: Any, t: Any) -> Any:
    return xp.from_parts(xp.zeros_like(t), t)


namespace.from_parts = from_parts


@positive.write_back
def positive_put(value: Any) -> Any:
    return value


@conj.write_back
def conj_put(xp: Any, value: Any) -> Any:
    return xp.conj(value)


@real.write_back
def real_put(xp: Any, x: Any, value: Any) -> Any:
    return xp.from_parts(value, xp.imag(x)) if is_complex(x.dtype) else value


@imag.write_back
def imag_put(xp: Any, x: Any, value: Any) -> Any:
    if not is_complex(x.dtype):
        raise ReadOnlyViewError(
            "imag: the imaginary part of a real array is read-only. Cast the array to a complex dtype before you "
            "assign to it."
        )
    return xp.from_parts(xp.real(x), value)


def _cosine(xp: Any, x: Any) -> Any:
    """Return the cosine of the arcsine, of a complex number on the side of the branch cut that the library chose."""
    root = xp.sqrt(one_minus_square(x))
    if not is_complex(x.dtype):
        return root
    return xp.where(xp.real(root * xp.conj(xp.cos(xp.asin(x)))) < 0, -root, root)


def _over_one(xp: Any, x: Any) -> Any:
    # the square root of 1 + x**2; the square of a large number overflows
    return xp.sqrt(x * x + 1) if is_complex(x.dtype) else xp.hypot(x, xp.ones_like(x))


def _over_size(xp: Any, value: Any, x: Any) -> Any:
    """Return ``value / abs(x)``, and 0 where ``x`` is 0."""
    size = xp.abs(x)
    zero = size == 0
    return xp.where(zero, xp.zeros_like(value), value / xp.where(zero, xp.ones_like(size), size))


def _complex_sign(xp: Any, x: Any, /) -> Any:
    parts = xp.real(x), xp.imag(x)
    ends = [xp.isinf(part) for part in parts]
    # an infinite number has the direction of its infinite parts
    x = xp.where(
        ends[0] | ends[1],
        xp.from_parts(
            *[xp.where(end, xp.sign(part), xp.zeros_like(part)) for end, part in zip(ends, parts, strict=True)]
        ),
        x,
    )
    return _over_size(xp, x, x)


complex_sign = elementwise(
    "complex_sign",
    lambda xp, g, x, y: _over_size(xp, g - xp.conj(y) * xp.astype(xp.real(g * y), y.dtype), x),
    forward=_complex_sign,
    doc="Return x / abs(x) of complex numbers, and 0 at 0.",
    public=False,
)


@complex_sign.jvp
def complex_sign_jvp(xp: Any, t: Any, x: Any, y: Any) -> Any:
    return _over_size(xp, t - y * xp.astype(xp.real(xp.conj(y) * t), y.dtype), x)


sign_p = elementwise("sign", None, public=False)


@public_of_array
def sign(x: Any, /) -> Any:
    """Return -1, 0 or 1 by the sign of each element.

    The sign of a complex number is x / abs(x), and 0 at 0. Differentiable for complex dtypes; for real ones a constant.

    Parameters
    ----------
    x : array of any shape with a numeric dtype

    Returns
    -------
    array of the shape and dtype of ``x``

    Examples
    --------
    >>> agrad.sign(np.asarray([-2.0, 0.0, 3.0]))
    array([-1.,  0.,  1.])
    """
    return (complex_sign if hasattr(x, "dtype") and is_complex(x.dtype) else sign_p)(x)


def _imag_rule(xp: Any, g: Any, x: Any) -> Any:
    if not is_complex(x.dtype):
        return xp.zeros_like(g)
    # vjp: d imag(z) pairs with -1j as a transpose; jvp: imag(t) is the real part of -1j * t
    return -1j * xp.astype(g, x.dtype)


def _conj_sign(xp: Any, x: Any) -> Any:
    # not xp.sign for complex numbers: NumPy's divides 0 by 0
    return xp.conj(complex_sign(x)) if is_complex(x.dtype) else xp.sign(x)


remainder = elementwise(
    "remainder",
    lambda g: g,
    # not the floor of the quotient, which may have been rounded up to an integer
    lambda xp, g, x1, x2: -(g * xp.floor_divide(x1, x2)),
    doc="Return the remainder of the division, with the sign of ``x2``.",
    example="""
>>> agrad.remainder(np.asarray([7.0, -7.0]), 3.0)
array([1., 2.])
>>> agrad.grad(agrad.remainder, argnums=(0, 1))(7.0, 3.0)
(array(1.), np.float64(-2.0))
""",
)


def _share(xp: Any, g: Any, wins: Any, ties: Any) -> Any:
    # an equal pair shares the derivative evenly; a product with a mask would turn an infinite cotangent into NaN
    zero = xp.zeros_like(g)
    return xp.where(wins, g, xp.where(ties, g / 2, zero))


maximum = elementwise(
    "maximum",
    lambda xp, g, x1, x2: _share(xp, g, x1 > x2, x1 == x2),
    lambda xp, g, x1, x2: _share(xp, g, x2 > x1, x1 == x2),
    neutral=-math.inf,
    doc="Return the larger of two elements. Equal ones share the derivative evenly.",
    example="""
>>> agrad.maximum(np.asarray([-1.0, 0.0, 2.0]), 0.0)
array([0., 0., 2.])
>>> agrad.elementwise_grad(lambda x: agrad.maximum(x, 0.0))(np.asarray([-1.0, 0.0, 2.0]))
array([0. , 0.5, 1. ])
""",
)
minimum = elementwise(
    "minimum",
    lambda xp, g, x1, x2: _share(xp, g, x1 < x2, x1 == x2),
    lambda xp, g, x1, x2: _share(xp, g, x2 < x1, x1 == x2),
    neutral=math.inf,
    doc="Return the smaller of two elements. Equal ones share the derivative evenly.",
    example="""
>>> agrad.minimum(np.asarray([-1.0, 0.0, 2.0]), 0.0)
array([-1.,  0.,  0.])
>>> agrad.elementwise_grad(lambda x: agrad.minimum(x, 0.0))(np.asarray([-1.0, 0.0, 2.0]))
array([1. , 0.5, 0. ])
""",
)


def _angle_rule(xp: Any, g: Any, x1: Any, x2: Any, other: Any) -> Any:
    # through the length and not its square, which overflows long before the quotient does
    length = xp.hypot(x1, x2)
    return g * (other / length / length)


atan2 = elementwise(
    "atan2",
    lambda xp, g, x1, x2: _angle_rule(xp, g, x1, x2, x2),
    lambda xp, g, x1, x2: -_angle_rule(xp, g, x1, x2, x1),
    doc="Return the angle of the point (x2, x1), in radians from -pi to pi.",
    example="""
>>> agrad.atan2(np.asarray([0.0, 1.0, 0.0]), np.asarray([1.0, 0.0, -1.0]))
array([0.        , 1.57079633, 3.14159265])
""",
)


def _summand_share(xp: Any, x1: Any, x2: Any, total: Any, /) -> Any:
    # exp(x1 - total) never overflows; where the total is infinite, the infinite summands share the derivative
    zero, one = xp.zeros_like(total), xp.ones_like(total)
    infinite = xp.isinf(total)
    edge = xp.where(x1 == x2, one / 2, xp.where(x1 == total, one, zero))
    return xp.where(infinite, edge, xp.exp(xp.where(infinite, zero, x1 - xp.where(infinite, zero, total))))


summand_share = elementwise(
    "summand_share",
    # the product of both shares: 1 minus a share near 1 would have no digits left
    lambda g, x1, x2, total, y: g * (y * summand_share(x2, x1, total)),
    lambda g, x1, x2, total, y: -(g * (y * summand_share(x2, x1, total))),
    None,
    forward=_summand_share,
    doc="""Return the derivative of logaddexp(x1, x2) = ``total`` with respect to ``x1``.

    ``total`` is a constant to the rules, which include its derivative in the derivatives of the summands.
    """,
    decompose=True,
    public=False,
)
logaddexp = elementwise(
    "logaddexp",
    lambda g, x1, x2, y: g * summand_share(x1, x2, y),
    lambda g, x1, x2, y: g * summand_share(x2, x1, y),
    doc="Return log(exp(x1) + exp(x2)), without overflow.",
    example="""
>>> agrad.logaddexp(np.asarray([0.0, 1000.0]), np.asarray([0.0, 1000.0]))
array([6.93147181e-01, 1.00069315e+03])
>>> round(float(agrad.grad(agrad.logaddexp)(1000.0, 1000.0)), 6)
0.5
""",
)


def _copysign_rule(xp: Any, g: Any, x1: Any, y: Any) -> Any:
    # the magnitude of x1, so 0 at 0 as for abs
    kept = xp.signbit(x1) == xp.signbit(y)
    return xp.where(x1 == 0, xp.zeros_like(g), xp.where(kept, g, -g))


copysign = elementwise(
    "copysign",
    _copysign_rule,
    None,
    doc="Return the magnitude of ``x1`` with the sign of ``x2``.",
    example="""
>>> agrad.copysign(np.asarray([1.0, 2.0]), np.asarray([-0.0, 3.0]))
array([-1.,  2.])
>>> agrad.grad(agrad.copysign)(1.0, -3.0)
array(-1.)
""",
)


def _pow_base(xp: Any, g: Any, x1: Any, x2: Any) -> Any:
    # x2 * x1**(x2 - 1), but 0 where x2 is 0: there the power is the constant 1, also at x1 = 0
    if isinstance(x2, (int, float)):
        if x2 == 0:
            return xp.zeros_like(g)
        if x2 == 1:
            return g * x2
        # x1 ** 1 would be one more pass, and one more operation to differentiate
        return g * (x2 * x1) if x2 == 2 else g * (x2 * x1 ** (x2 - 1))
    if isinstance(x2, complex):
        return g * (x2 * x1 ** (x2 - 1))
    zero = x2 == 0
    ones = xp.ones_like(x2)
    return xp.where(zero, xp.zeros_like(g), g * (x2 * x1 ** (xp.where(zero, ones, x2) - 1)))


def _pow_exponent(xp: Any, g: Any, x1: Any, x2: Any, y: Any) -> Any:
    # y * log(x1); where x1 is 0 the power is constant in x2 (for x2 > 0), and log(0) must not reach the product
    if isinstance(x1, (int, float)):
        if x1 == 0:
            return xp.zeros_like(g)
        return g * y * (in_digits_of(y, math.log(x1), lambda xp, one: xp.log(x1 * one)) if x1 > 0 else math.nan)
    if isinstance(x1, complex):
        return g * y * xp.log(x1 + xp.zeros_like(y))
    zero = x1 == 0
    return xp.where(zero, xp.zeros_like(g), g * y * xp.log(xp.where(zero, xp.ones_like(x1), x1)))


pow = elementwise(
    "pow",
    _pow_base,
    _pow_exponent,
    operator=operator.pow,
    doc="Return ``x1`` raised to the power ``x2``.\n\nAt ``0**0``, which is 1, both derivatives are 0.",
    example="""
>>> agrad.pow(np.asarray([2.0, 3.0]), 2.0)
array([4., 9.])
>>> agrad.grad(agrad.pow)(3.0, 2.0)
np.float64(6.0)
>>> round(float(agrad.grad(agrad.pow, argnums=1)(np.e, 2.0)), 6)
7.389056
""",
)


def _between(xp: Any, x: Any, /, *, low: float, high: float) -> Any:
    return xp.minimum(xp.maximum(x, low), high)


def _between_rule(xp: Any, g: Any, x: Any, *, low: float, high: float) -> Any:
    return _share(xp, g, (x > low) & (x < high), (x == low) | (x == high))


between = elementwise(
    "between",
    _between_rule,
    forward=_between,
    doc="Return each element limited to the range from ``low`` to ``high``, two numbers.",
    public=False,
)


def _is_range(x: Any, low: Any, high: Any) -> bool:
    """Return True if the limits are two numbers in order, and ``x`` is real floating."""
    return (
        type(low) in (int, float)
        and type(high) in (int, float)
        and low < high
        and hasattr(x, "dtype")
        and is_floating(x.dtype)
        and not is_complex(x.dtype)
    )


@public_of_array
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit each element to a range.

    The derivative with respect to ``x`` is 1 inside the range and 0 outside. For a limit it is the reverse, and at a
    limit both share it.

    Parameters
    ----------
    x : array of any shape with a real dtype
    min, max : array or number, optional
        Limits, which broadcast. None means no limit.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> agrad.clip(np.asarray([-2.0, 0.5, 3.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ])
    >>> agrad.elementwise_grad(lambda x: agrad.clip(x, 0.0, 1.0))(np.asarray([-2.0, 0.5, 3.0]))
    array([0., 1., 0.])
    """
    if _is_range(x, min, max):
        return between(x, low=min, high=max)
    try:
        if min is not None:
            x = maximum(x, min)
        if max is not None:
            x = minimum(x, max)
    except (OperandError, ShapeError) as error:
        raise type(error)(re.sub("^(maximum|minimum)", "clip", str(error))) from None
    return positive(x) if min is None and max is None else x

"""Elementwise functions, one row each.

A rule is ``g`` times the partial derivative: the vjp and the jvp at once. Complex functions follow the convention of
JAX and autograd: a rule multiplies by the derivative without conjugating. The gradient of abs(z)**2 is 2 conj(z).
"""

import math
import operator
import re
from typing import Any

from agrad.dtypes import is_complex, is_floating
from agrad.errors import OperandError, ReadOnlyViewError, ShapeError
from agrad.ops.definition import elementwise, primitive, public_of_array, public_of_arrays
from agrad.ops.shared import array_arguments, no_view
from agrad.registry import CALLS, namespace

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
add      = elementwise("add",      lambda g: g,                     lambda g: g,       jointly=True, commutative=True,
                       takes_traced_numbers=True, operator=operator.add)
subtract = elementwise("subtract", lambda g: g,                     lambda g: -g,      jointly=True,
                       takes_traced_numbers=True, operator=operator.sub)
multiply = elementwise("multiply", lambda g, x2: g * x2,            lambda g, x1: g * x1,
                       commutative=True, takes_traced_numbers=True, operator=operator.mul, product_rules=True)
divide   = elementwise("divide",   lambda g, x2: g / x2,            lambda g, y, x2: -(g * y / x2),
                       takes_traced_numbers=True, operator=operator.truediv)
negative = elementwise("negative", lambda g: -g)
positive = elementwise("positive", lambda g: g, is_view=True)
square   = elementwise("square",   lambda g, x: 2 * g * x)
sqrt     = elementwise("sqrt",     lambda g, y: g / (2 * y))
reciprocal = elementwise("reciprocal", lambda g, y: -(g * y * y))

# ------------------------------------------------------------------ exponentials and logarithms
exp      = elementwise("exp",      lambda g, y: g * y)
expm1    = elementwise("expm1",    lambda xp, g, x: g * xp.exp(x))  # y + 1 has no digits left at -37
log      = elementwise("log",      lambda g, x: g / x)
log1p    = elementwise("log1p",    lambda g, x: g / (1 + x))
log2     = elementwise("log2",     lambda g, x: g / (x * math.log(2)))
log10    = elementwise("log10",    lambda g, x: g / (x * math.log(10)))

# ------------------------------------------------------------------ trigonometric and hyperbolic
sin      = elementwise("sin",      lambda xp, g, x: g * xp.cos(x))
cos      = elementwise("cos",      lambda xp, g, x: -(g * xp.sin(x)))
tan      = elementwise("tan",      lambda g, y: g * (1 + y * y))
asin     = elementwise("asin",     lambda xp, g, x: g / xp.sqrt(one_minus_square(x)))
acos     = elementwise("acos",     lambda xp, g, x: -(g / xp.sqrt(one_minus_square(x))))
atan     = elementwise("atan",     lambda g, x: g / (1 + x * x))
sinh     = elementwise("sinh",     lambda xp, g, x: g * xp.cosh(x))
cosh     = elementwise("cosh",     lambda xp, g, x: g * xp.sinh(x))
tanh     = elementwise("tanh",     lambda g, y: g * (1 - y * y))
asinh    = elementwise("asinh",    lambda xp, g, x: g / _over_one(xp, x))
acosh    = elementwise("acosh",    lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)))
atanh    = elementwise("atanh",    lambda g, x: g / one_minus_square(x))

# ------------------------------------------------------------------ complex parts; real results of complex arguments
real     = elementwise("real",     lambda g: g,                     keeps_type=False, is_view=True)
imag     = elementwise("imag",     lambda xp, g, x_meta: _imag_rule(xp, g, x_meta), keeps_type=False, is_view=True)
conj     = elementwise("conj",     lambda xp, g: xp.conj(g), is_view=True)
abs      = elementwise("abs",      lambda xp, g, x: g * _conj_sign(xp, x), keeps_type=False)

# ------------------------------------------------------------------ piecewise constant: no derivative, by decision
sign_p   = elementwise("sign",     None, public=False)
floor    = elementwise("floor",    None)
ceil     = elementwise("ceil",     None)
round    = elementwise("round",    None)
trunc    = elementwise("trunc",    None)
isfinite = elementwise("isfinite", None)
isinf    = elementwise("isinf",    None)
isnan    = elementwise("isnan",    None)
signbit  = elementwise("signbit",  None)
logical_not   = elementwise("logical_not",    None)
bitwise_invert = elementwise("bitwise_invert", None)

less          = elementwise("less",          None, None, operator=operator.lt)
less_equal    = elementwise("less_equal",    None, None, operator=operator.le)
greater       = elementwise("greater",       None, None, operator=operator.gt)
greater_equal = elementwise("greater_equal", None, None, operator=operator.ge)
equal         = elementwise("equal",         None, None, operator=operator.eq)
not_equal     = elementwise("not_equal",     None, None, operator=operator.ne)
logical_and   = elementwise("logical_and",   None, None)
logical_or    = elementwise("logical_or",    None, None)
logical_xor   = elementwise("logical_xor",   None, None)
bitwise_and   = elementwise("bitwise_and",   None, None, operator=operator.and_)
bitwise_or    = elementwise("bitwise_or",    None, None, operator=operator.or_)
bitwise_xor   = elementwise("bitwise_xor",   None, None, operator=operator.xor)
bitwise_left_shift  = elementwise("bitwise_left_shift",  None, None, operator=operator.lshift)
bitwise_right_shift = elementwise("bitwise_right_shift", None, None, operator=operator.rshift)
floor_divide  = elementwise("floor_divide",  None, None)
# fmt: on
nextafter = elementwise("nextafter", lambda g: g, None)


@primitive(broadcasts=True, jointly=True, batch="leading")
def from_parts(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return complex numbers of real and imaginary parts.

    Parameters
    ----------
    x1, x2 : array
        Real arrays that broadcast.

    Returns
    -------
    array
        Of a complex dtype.
    """
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


@positive.put
def positive_put(value: Any) -> Any:
    return value


@conj.put
def conj_put(xp: Any, value: Any) -> Any:
    return xp.conj(value)


@real.put
def real_put(xp: Any, x: Any, value: Any) -> Any:
    return xp.from_parts(value, xp.imag(x)) if is_complex(x.dtype) else value


@imag.put
def imag_put(xp: Any, x: Any, value: Any) -> Any:
    if not is_complex(x.dtype):
        raise ReadOnlyViewError("a write to the imaginary part of a real number; write to a complex one")
    return xp.from_parts(xp.real(x), value)


real.primitive.splits = imag.primitive.splits = True


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


@public_of_array
def sign(x: Any, /) -> Any:
    """Return -1, 0 or 1 by the sign of each element.

    That of a complex number is x / abs(x), and 0 at 0. Differentiable for complex dtypes; for real ones a constant.

    Parameters
    ----------
    x : array
        Of any shape and a numeric dtype.

    Returns
    -------
    array
        Of the shape and dtype of ``x``.

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
    # not the floor of the quotient, which may have been rounded up to a whole number
    lambda xp, g, x1, x2: -(g * xp.floor_divide(x1, x2)),
)


def _share(xp: Any, g: Any, wins: Any, ties: Any) -> Any:
    # an equal pair shares the derivative evenly; a product with a mask would turn an infinite cotangent into NaN
    zero = xp.zeros_like(g)
    return xp.where(wins, g, xp.where(ties, g / 2, zero))


maximum = elementwise(
    "maximum",
    lambda xp, g, x1, x2: _share(xp, g, x1 > x2, x1 == x2),
    lambda xp, g, x1, x2: _share(xp, g, x2 > x1, x1 == x2),
)
minimum = elementwise(
    "minimum",
    lambda xp, g, x1, x2: _share(xp, g, x1 < x2, x1 == x2),
    lambda xp, g, x1, x2: _share(xp, g, x2 < x1, x1 == x2),
)


def _angle_rule(xp: Any, g: Any, x1: Any, x2: Any, other: Any) -> Any:
    # through the length and not its square, which overflows long before the quotient does
    length = xp.hypot(x1, x2)
    return g * (other / length / length)


atan2 = elementwise(
    "atan2",
    lambda xp, g, x1, x2: _angle_rule(xp, g, x1, x2, x2),
    lambda xp, g, x1, x2: -_angle_rule(xp, g, x1, x2, x1),
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
    doc="""Return the derivative of logaddexp(x1, x2) = ``total`` by ``x1``.

    ``total`` is a constant to the rules, which have its derivative with those of the summands.
    """,
    decompose=True,
    public=False,
)
logaddexp = elementwise(
    "logaddexp",
    lambda g, x1, x2, y: g * summand_share(x1, x2, y),
    lambda g, x1, x2, y: g * summand_share(x2, x1, y),
)


def _copysign_rule(xp: Any, g: Any, x1: Any, y: Any) -> Any:
    # the magnitude of x1, so 0 at 0 as for abs
    kept = xp.signbit(x1) == xp.signbit(y)
    return xp.where(x1 == 0, xp.zeros_like(g), xp.where(kept, g, -g))


copysign = elementwise("copysign", _copysign_rule, None)


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
        return g * y * (math.log(x1) if x1 > 0 else math.nan)
    if isinstance(x1, complex):
        return g * y * xp.log(x1 + xp.zeros_like(y))
    zero = x1 == 0
    return xp.where(zero, xp.zeros_like(g), g * y * xp.log(xp.where(zero, xp.ones_like(x1), x1)))


pow = elementwise(
    "pow",
    _pow_base,
    _pow_exponent,
    operator=operator.pow,
)


@primitive(
    name="where",
    constant="condition",
    broadcasts=True,
    masks=True,
    moves=True,
    jointly=True,
    batch="leading",
    kind="elementwise",
)
def where_p(xp: Any, condition: Any, x1: Any, x2: Any, /) -> Any:
    return xp.where(condition, x1, x2)


@where_p.vjp("x1")
@where_p.jvp("x1")
def where_x1(xp: Any, g: Any, condition: Any) -> Any:
    return xp.where(condition, g, 0)


@where_p.vjp("x2")
@where_p.jvp("x2")
def where_x2(xp: Any, g: Any, condition: Any) -> Any:
    return xp.where(condition, 0, g)


@primitive(constant="used", masks=True, broadcasts=True, batch="leading", kind="elementwise")
def mask_unused(xp: Any, used: Any, part: Any, /) -> Any:
    """Return ``part``, but 0 where it is not used and not finite.

    The guard of passes behind ``where``. Both arrays have one shape. A derivative of it that is not finite is guarded
    in the same way.
    """
    return xp.where(used | xp.isfinite(part), part, xp.zeros_like(part))


@mask_unused.vjp("part")
@mask_unused.jvp("part")
def mask_unused_part(xp: Any, g: Any, used: Any, part: Any) -> Any:
    return mask_unused(used, xp.where(used | xp.isfinite(part), g, xp.zeros_like(g)))


def _guard(used: Any, part: Any, exact: bool) -> Any:
    return where_p(used, part, 0) if exact else mask_unused(used, part)


CALLS["guard"] = _guard


@public_of_arrays
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return the elements of one array where a condition holds, else of another.

    A NaN or an infinity in a branch that is not chosen does not reach the gradient: it gets the cotangent 0, whatever
    its values are.

    Parameters
    ----------
    condition : array
        Booleans.
    x1, x2 : array or number
        The three broadcast.

    Returns
    -------
    array
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0, 3.0])
    >>> agrad.where(x > 1.5, x**2, 0.0)
    array([0., 4., 9.])
    >>> agrad.elementwise_grad(lambda x: agrad.where(x > 1.5, x**2, 0.0))(x)
    array([0., 4., 6.])
    """
    out = where_p(*array_arguments("where", condition, x1, x2))
    return out if out.shape else no_view(out)  # NumPy's is an array, no scalar


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

    The derivative by ``x`` is 1 inside the range and 0 outside, that by a limit the reverse; at a limit they share it.

    Parameters
    ----------
    x : array
        Of any shape and a real dtype.
    min, max : array or number, optional
        The limits, which broadcast; None for no limit.

    Returns
    -------
    array
        Of the broadcast shape.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

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

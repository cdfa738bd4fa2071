"""``hypot``, powers of sizes, and divisors in derivatives of norms.

At 0 the derivative of a length is 0, and its second one NaN: the length has none, and a rule does not know if the
length is squared later. Divisions by a length are not elementwise, because passes guard elementwise primitives: behind
a product they take a cotangent of zero for an unused value, which does not hold here.
"""

import math
from typing import Any

from agrad.backends.base import in_digits_of
from agrad.ops.definition import elementwise, primitive
from agrad.registry import CALLS


def _safe(xp: Any, y: Any) -> tuple[Any, Any]:
    """Return the mask of zeros of ``y``, and ``y`` with ones there."""
    zero = y == 0
    return zero, xp.where(zero, xp.ones_like(y), y)


def _nan_where(xp: Any, zero: Any, value: Any) -> Any:
    return xp.where(zero, xp.full_like(value, math.nan), value)


@primitive(batch="leading")
def inverse_length(xp: Any, x: Any, /) -> Any:
    """Return 1 / x, and 0 where ``x`` is 0, for the derivative of a norm ``x``.

    Its derivative at 0 is NaN.
    """
    zero, safe = _safe(xp, x)
    return xp.where(zero, xp.zeros_like(safe), 1 / safe)


@inverse_length.vjp
@inverse_length.jvp
def inverse_length_both(xp: Any, g: Any, x: Any, y: Any) -> Any:
    return -(g * _nan_where(xp, x == 0, y * y))


length = elementwise(
    "length",
    lambda g, y: g * (0.5 * inverse_length(y)),
    forward=lambda xp, x, /: xp.sqrt(x),
    doc="Return the square root of sums of squares; at 0 its derivative is 0, and its second one NaN.",
    public=False,
)

CALLS["length"] = length


def _log_size(xp: Any, g: Any, x: Any, power: Any) -> Any:
    """Return ``g * power * log(abs(x))``, and 0 where x is 0."""
    zero = x == 0
    return xp.where(zero, xp.zeros_like(power), g * power * xp.log(xp.abs(xp.where(zero, xp.ones_like(x), x))))


def _signed(xp: Any, x: Any, p: Any, /) -> Any:
    zero = x == 0
    inside = xp.sign(x) * xp.abs(xp.where(zero, xp.ones_like(x), x)) ** p
    return xp.where(zero & (p <= -1), xp.full_like(inside, math.nan), inside)


signed_power = elementwise(
    "signed_power",
    lambda xp, g, x, p: g * xp.where(p == 0, xp.zeros_like(p), p * size_power(x, p - 1)),
    lambda xp, g, x, p, y: _log_size(xp, g, x, y),
    forward=_signed,
    doc="Return ``sign(x) * abs(x)**p``, and 0 at 0 down to a p of -1, as abs has the derivative 0 there.",
    public=False,
)
size_power = elementwise(
    "size_power",
    lambda xp, g, x, p: g * xp.where(p == 0, xp.zeros_like(p), p * signed_power(x, p - 1)),
    lambda xp, g, x, p, y: _log_size(xp, g, x, y),
    forward=lambda xp, x, p, /: xp.abs(x) ** p,
    doc="Return ``abs(x)**p`` with its derivatives at 0, which a rule of abs would lose for even powers.",
    public=False,
)


@primitive(broadcasts=True, constant="length", batch="leading")
def leg_share(xp: Any, x1: Any, x2: Any, length: Any, /) -> Any:
    """Return the derivative of hypot(x1, x2) = ``length`` by ``x1``.

    It is x1 / length, and 0 at the origin. The rules treat ``length`` as a constant, because the derivatives of the
    legs include it. An infinite leg gets the share 1 if the other one is finite; two infinite legs share evenly. At the
    origin the derivative is NaN.
    """
    zero, safe = _safe(xp, length)
    plain = xp.where(zero, xp.zeros_like(safe), x1 / xp.where(xp.isinf(safe), xp.ones_like(safe), safe))
    edge = xp.where(xp.isinf(x1), xp.sign(x1), xp.zeros_like(safe))
    edge = xp.where(xp.isinf(x2), edge * in_digits_of(edge, math.sqrt(0.5), lambda xp, one: xp.sqrt(one / 2)), edge)
    return xp.where(xp.isinf(length), edge, plain)


def _leg_slope(xp: Any, product: Any, length: Any) -> Any:
    zero, safe = _safe(xp, length)
    return _nan_where(xp, zero, product / safe)


@leg_share.vjp("x1")
@leg_share.jvp("x1")
def leg_share_mine(xp: Any, g: Any, x1: Any, x2: Any, length: Any) -> Any:
    other = leg_share(x2, x1, length)
    return g * _leg_slope(xp, other * other, hypot(x1, x2))


@leg_share.vjp("x2")
@leg_share.jvp("x2")
def leg_share_other(xp: Any, g: Any, x1: Any, x2: Any, y: Any, length: Any) -> Any:
    return -(g * _leg_slope(xp, y * leg_share(x2, x1, length), hypot(x1, x2)))


def _leg_rule(xp: Any, g: Any, mine: Any, other: Any, y: Any) -> Any:
    mine, other = (leg if hasattr(leg, "shape") else xp.zeros_like(y) + leg for leg in (mine, other))
    return g * leg_share(mine, other, y)


hypot = elementwise(
    "hypot",
    lambda xp, g, x1, x2, y: _leg_rule(xp, g, x1, x2, y),
    lambda xp, g, x1, x2, y: _leg_rule(xp, g, x2, x1, y),
    doc="Return sqrt(x1**2 + x2**2), without overflow of the squares.",
    example="""
>>> agrad.hypot(np.asarray([3.0, 3e200]), np.asarray([4.0, 4e200]))
array([5.e+000, 5.e+200])
>>> dx, dy = agrad.grad(agrad.hypot, argnums=(0, 1))(3.0, 4.0)
>>> round(float(dx), 6), round(float(dy), 6)
(0.6, 0.8)
""",
)

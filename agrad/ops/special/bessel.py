"""Bessel functions.

Derivatives: Abramowitz and Stegun 9.1.27, 9.1.28 and 9.6.26.
"""

from typing import Any

from agrad.ops.special import bessel_forms as forms
from agrad.ops.special.shared import function, underived, whole_number
from agrad.registry import public

# ------------------------------------------------------------------ modified


def decay_moment(x: Any, k: int) -> Any:
    """Return (-1)**k times the k-th derivative of exp(-x) i0(x) at abs(x).

    It is positive: nothing cancels in it.
    """
    return _decay_moment(x, k=k)


_decay_moment = function(
    "decay_moment",
    "x",
    forms.decay_moment,
    lambda xp, g, x, *, k: -(g * xp.sign(x) * decay_moment(x, k + 1)),
    doc="The mean over t of (1 - cos t)**k exp(-abs(x) (1 - cos t)).",
    settings=("k",),
    native=False,
    public=False,
)
i0 = function("i0", "x", forms.i0, lambda g, x: g * i1(x), doc="The modified Bessel function of order 0.")
i0e = function(
    "i0e",
    "x",
    forms.i0e,
    # i1e - sign(x) i0e without cancelling; 0 at the kink
    lambda xp, g, x: -(g * xp.sign(x) * decay_moment(x, 1)),
    doc="exp(-abs(x)) i0(x); its derivative at the kink 0 is 0.",
)
i1 = function(
    "i1",
    "x",
    forms.i1,
    lambda g, x: 0.5 * g * (i0(x) + iv(2.0, x)),
    doc="The modified Bessel function of order 1.",
)
i1e = function(
    "i1e",
    "x",
    forms.i1e,
    lambda g, x: g * (decay_moment(x, 2) - decay_moment(x, 1)),
    doc="exp(-abs(x)) i1(x).",
)


def _iv_rule(xp: Any, g: Any, v: Any, x: Any) -> Any:
    # (I[v - 1] + I[v + 1]) / 2 for v >= 1, elsewhere I[v + 1] + v / x I[v], which asks for no lower order
    high = v >= 1
    first = iv(xp.where(high, v - 1, v + 1), x)
    second = iv(xp.where(high, v + 1, v), x)
    zero = xp.zeros_like(v + x)
    ratio = xp.where(v == 0, zero, v / xp.where((v == 0) | high, xp.ones_like(x), x))
    half = zero + 0.5
    return g * (xp.where(high, half, zero + 1) * first + xp.where(high, half, ratio) * second)


iv = function(
    "iv",
    "v x",
    forms.iv,
    underived("iv", "v"),
    _iv_rule,
    doc="The modified Bessel function of real order v, in which it has no derivative here; x >= 0 unless v is whole.",
)

# ------------------------------------------------------------------ of the first and second kind

j0 = function("j0", "x", forms.j0, lambda g, x: -(g * j1(x)), doc="The Bessel function of the first kind, order 0.")
j1 = function(
    "j1",
    "x",
    forms.j1,
    lambda g, x: 0.5 * g * (j0(x) - _jn(x, n=2)),
    doc="The Bessel function of the first kind, order 1.",
)
_jn = function(
    "jn",
    "x",
    forms.jn,
    lambda g, x, *, n: 0.5 * g * (_jn(x, n=n - 1) - _jn(x, n=n + 1)),
    doc="",
    settings=("n",),
    public=False,
)


@public("special")
def jn(n: int, x: Any, /) -> Any:
    """Return the Bessel function of the first kind and of order n.

    n: one Python integer. x: an array of a real floating dtype. Raises ``OperandError`` for an order that is no integer
    or is an array.
    """
    return _jn(x, n=whole_number("jn", "n", n))


y0 = function("y0", "x", forms.y0, lambda g, x: -(g * y1(x)), doc="The Bessel function of the second kind, order 0.")
y1 = function(
    "y1", "x", forms.y1, lambda g, x, y: g * (y0(x) - y / x), doc="The Bessel function of the second kind, order 1."
)

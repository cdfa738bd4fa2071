"""Bessel functions.

Derivatives: Abramowitz and Stegun 9.1.27, 9.1.28 and 9.6.26.
"""

from typing import Any

from agrad.ops.definition import public_of_arrays
from agrad.ops.special import bessel_forms as forms
from agrad.ops.special.shared import function, inner, underived, whole_number

__all__ = ["i0", "i0e", "i1", "i1e", "iv", "j0", "j1", "jn", "y0", "y1"]

# ------------------------------------------------------------------ modified


decay_moment = inner(forms.decay_moment, lambda xp, g, x, *, k: -(g * xp.sign(x) * decay_moment(x, k=k + 1)))
i0 = function(forms.i0, lambda g, x: g * i1(x))
# i1e - sign(x) i0e without cancelling; 0 at the kink
i0e = function(forms.i0e, lambda xp, g, x: -(g * xp.sign(x) * decay_moment(x, k=1)))
i1 = function(forms.i1, lambda g, x: 0.5 * g * (i0(x) + iv(2.0, x)))
i1e = function(forms.i1e, lambda g, x: g * (decay_moment(x, k=2) - decay_moment(x, k=1)))


def _iv_rule(xp: Any, g: Any, v: Any, x: Any) -> Any:
    # (I[v - 1] + I[v + 1]) / 2 for v >= 1, otherwise I[v + 1] + v / x I[v], which needs no lower order
    high = v >= 1
    first = iv(xp.where(high, v - 1, v + 1), x)
    second = iv(xp.where(high, v + 1, v), x)
    zero = xp.zeros_like(v + x)
    ratio = xp.where(v == 0, zero, v / xp.where((v == 0) | high, xp.ones_like(x), x))
    half = zero + 0.5
    return g * (xp.where(high, half, zero + 1) * first + xp.where(high, half, ratio) * second)


iv = function(forms.iv, underived("iv", "v"), _iv_rule)

# ------------------------------------------------------------------ of the first and second kind

j0 = function(forms.j0, lambda g, x: -(g * j1(x)))
j1 = function(forms.j1, lambda g, x: 0.5 * g * (j0(x) - _jn(x, n=2)))
_jn = function(forms.jn, lambda g, x, *, n: 0.5 * g * (_jn(x, n=n - 1) - _jn(x, n=n + 1)), public=False)


@public_of_arrays("special")
def jn(n: int, x: Any, /) -> Any:
    """Return the Bessel function of the first kind and of order n.

    Parameters
    ----------
    n : int
        The order, a single Python integer.
    x : array of any shape with a real floating-point dtype

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.special.jn(2, np.asarray([0.0, 1.0])).round(6)
    array([0.      , 0.114903])
    """
    return _jn(x, n=whole_number("jn", "n", n))


y0 = function(forms.y0, lambda g, x: -(g * y1(x)))
y1 = function(forms.y1, lambda g, x, y: g * (y0(x) - y / x))

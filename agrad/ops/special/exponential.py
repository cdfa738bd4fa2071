"""Exponential integrals and Lambert's function."""

from typing import Any

from agrad.errors import OperandError
from agrad.ops.definition import public_of_array
from agrad.ops.special import exponential_forms as forms
from agrad.ops.special.shared import function, inner, whole_number

__all__ = ["exp1", "expi", "lambertw"]

exp1 = function(forms.exp1, lambda xp, g, x: -(g * xp.exp(-x) / x))
expi = function(forms.expi, lambda xp, g, x: g * (xp.exp(x) / x))


def lambertw_rule(xp: Any, g: Any, x: Any, y: Any, *, k: int) -> Any:
    # the second quotient is 0 / 0 at x = 0, the first loses digits of a large y
    near = (xp.abs(x) < 1) & (k == 0)
    zero = xp.zeros_like(x)
    first = xp.exp(-xp.where(near, y, zero))
    second = xp.where(near, zero, y) / xp.where(near, xp.ones_like(x), x)
    return g * (xp.where(near, first, second) / (1 + y))


_lambertw = inner(forms.lambertw, lambertw_rule)


@public_of_array("special")
def lambertw(x: Any, k: int = 0, /) -> Any:
    """Return Lambert's function, the real solution w of ``w * exp(w) = x``.

    Parameters
    ----------
    x : array of any shape with a real floating-point dtype
    k : {0, -1}
        The branch: 0 for w >= -1, -1 for w <= -1.

    Returns
    -------
    array
        Array of the shape of ``x``. NaN below -1 / e, and for the branch -1 above 0: the solutions are complex there.

    Examples
    --------
    >>> agrad.special.lambertw(np.asarray([0.0, 1.0, 5.0])).round(6)
    array([0.      , 0.567143, 1.326725])
    """
    branch = whole_number("lambertw", "k", k)
    if branch not in (0, -1):
        raise OperandError(f"special.lambertw: k must be 0 or -1, the branches with real values, got {k!r}")
    return _lambertw(x, k=branch)

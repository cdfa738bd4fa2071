"""Special functions: the error function, which the exact GELU needs."""

import math
from typing import Any

from agrad.engine.notation import elementwise

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): numerators and
# denominators, the highest power first, for |x| <= 0.46875, up to 4, and beyond
_P1 = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_Q1 = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_P2 = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
    2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
    1.23033935479799725e3,
)  # fmt: skip
_Q2 = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_P3 = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_Q3 = (
    1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
    2.33520497626869185e-3,
)  # fmt: skip


def _ratio(p: tuple[float, ...], q: tuple[float, ...], x: Any) -> Any:
    top, bottom = x * 0 + p[0], x * 0 + q[0]
    for a in p[1:]:
        top = top * x + a
    for b in q[1:]:
        bottom = bottom * x + b
    return top / bottom


def _erf_by_parts(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    small = xp.where(size < 0.46875, x, xp.zeros_like(x))
    middle = xp.clip(size, 0.46875, 4.0)
    large = xp.clip(size, 4.0, 6.0)
    near = small * _ratio(_P1, _Q1, small * small)
    between = 1 - xp.exp(-middle * middle) * _ratio(_P2, _Q2, middle)
    inverse = 1 / (large * large)
    tail = (1 / math.sqrt(math.pi) - inverse * _ratio(_P3, _Q3, inverse)) / large
    far = 1 - xp.exp(-large * large) * tail
    out = xp.where(size < 0.46875, near, xp.sign(x) * xp.where(size <= 4.0, between, far))
    return xp.where(xp.isnan(x), x, out)


def _erf(xp: Any, x: Any, /) -> Any:
    native = getattr(xp, "erf", None)
    return _erf_by_parts(xp, x) if native is None else native(x)


erf = elementwise(
    "erf",
    lambda xp, g, x: g * (2 / math.sqrt(math.pi)) * xp.exp(-x * x),
    forward=_erf,
    doc="The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to each element.",
)

__all__ = ["erf"]

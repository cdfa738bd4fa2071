"""Gauss's hypergeometric function."""

from typing import Any

from agrad.ops.special import hypergeometric_forms as forms
from agrad.ops.special.shared import function, underived

__all__ = ["hyp2f1"]


def _rule(xp: Any, g: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    # the factor a b / c, and no other value if it is 0: the next function may be infinite there
    factor = xp.where(a == c, b, xp.where(b == c, a, a * b / xp.where(c == 0, xp.ones_like(c), c)))
    factor = xp.where((c == 0) & (a != c) & (b != c), xp.full_like(factor, float("nan")), factor)
    place = xp.where(factor == 0, xp.zeros_like(z), z)
    return g * (factor * hyp2f1(a + 1, b + 1, c + 1, place))


hyp2f1 = function(forms.hyp2f1, underived("hyp2f1", "a"), underived("hyp2f1", "b"), underived("hyp2f1", "c"), _rule)

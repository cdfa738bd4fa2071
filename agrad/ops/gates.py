"""The product of ``silu``; its second derivatives keep their digits."""

from typing import Any

from agrad.ops.composites import sigmoid
from agrad.ops.definition import elementwise


def _gated_curve(xp: Any, g: Any, x: Any) -> Any:
    below, above = sigmoid(x), sigmoid(-x)
    return g * (below * above * (2 + x * (above - below)))


gated_slope = elementwise(
    "gated_slope",
    _gated_curve,  # 1 - gate would have no digits left at 37
    None,
    forward=lambda xp, x, gate, /: gate * (1 + x * (1 - gate)),
    doc="Return the derivative of ``gated``; ``gate`` is a constant to the rules here too.",
    decompose=True,
    public=False,
)
gated = elementwise(
    "gated",
    lambda g, x, gate: g * gated_slope(x, gate),
    None,
    forward=lambda xp, x, gate, /: x * gate,
    doc="""Return x times ``gate``, which is sigmoid(x).

    ``gate`` is a constant to the rules, which have its derivative with that of ``x``.
    """,
    decompose=True,
    public=False,
)

"""The rows of the special functions; ``special_formulas`` are their references."""

from collections.abc import Callable
from typing import Any

import numpy as np
from special_formulas import FORMULAS
from table import Example, Input, between, composite, constant, ex, normal, off_zero, positive, row, slow, values

import agrad
from agrad.registry import PRIMITIVES

Draw = Callable[..., Input]

# the arguments, of one letter each, whose rule says that there is no derivative
UNDERIVED = {"special.hyp2f1": "abc", "special.iv": "v", "special.polygamma": "n"}


def _formula(name: str, **fixed: int) -> Callable[..., Any]:
    return lambda xp, *args, **settings: FORMULAS[name](*args, **fixed, **settings)


def _row(name: str, function: Any, *examples: Example) -> None:
    row(f"special.{name}", *examples, call=function, reference=_formula(name))


def _unary(name: str, draw: Draw, *extra: Example, function: Any = None) -> None:
    _row(
        name,
        function or getattr(agrad.special, name),
        ex("matrix", draw(2, 3)),
        ex("0-d", draw()),
        ex("empty", draw(0, 2)),
        ex("batch", draw(2, 1, 3)),
        *extra,
    )


def _binary(name: str, left: Draw, right: Draw, *extra: Example, number: float = 1.5, function: Any = None) -> None:
    _row(
        name,
        function or getattr(agrad.special, name),
        ex("matrices", left(2, 3), right(2, 3)),
        ex("0-d", left(), right()),
        ex("empty", left(0, 3), right(0, 3)),
        ex("broadcast left", left(3), right(2, 3)),
        ex("broadcast both", left(2, 1, 3), right(4, 1)),
        ex("0-d right", left(2, 3), right()),
        ex("number left", number, right(2, 3)),
        ex("number right", left(2, 3), number),
        ex("integers left", constant([2, 3, 4], np.int64), right(2, 3)),
        *extra,
    )


_inside = between(0.1, 0.9)
_apart = between(-0.9, 0.9)
_negative = between(-3.7, -3.3)

_unary("erfc", normal, ex("tails", values([-5.0, -1.5, 0.2, 3.0, 5.5])))
_unary("erfcx", normal, ex("tails", values([-3.0, -1.5, 0.2, 3.0, 30.0])))
_unary("erfinv", _apart)
_unary("erfcinv", between(0.1, 1.9))
_unary("ndtr", normal, ex("tails", values([-6.0, 0.0, 6.0])))
_unary("log_ndtr", normal, ex("tails", values([-30.0, -6.0, 0.0, 6.0])))
_unary("ndtri", _inside)
_unary("sinc", normal, ex("around 0", values([0.0, 1e-9, -0.3, 1.0, 2.0, 4.7])))
_unary("expit", normal, ex("tails", values([-30.0, 0.0, 30.0])))
_unary("log_expit", normal, ex("tails", values([-30.0, 0.0, 30.0])))
_unary("logit", _inside)
_unary("entr", positive)
_unary("gamma", positive, ex("negative", _negative(3)))
_unary("gammaln", positive, ex("negative", _negative(3)), ex("large", values([30.0, 1e4])))
_unary("digamma", positive, ex("negative", _negative(3)))
_unary("exp1", positive, ex("far", values([0.1, 1.9, 2.1, 9.0])))
_unary("expi", positive, ex("far", values([-30.0, -2.1, -0.3, 39.0, 41.0])))
for _name in ("i0", "i1", "j0", "j1"):
    _unary(_name, normal, ex("large", values([-20.0, -9.0, 0.0, 9.0, 20.0])))
_unary("i0e", off_zero, ex("large", values([-40.0, 9.0, 40.0])), ex("kink", values([0.0, 1.0]), kink=True))
_unary("i1e", off_zero, ex("large", values([-40.0, 9.0, 40.0])))
_unary("y0", positive, ex("large", values([9.0, 20.0])))
_unary("y1", positive, ex("large", values([9.0, 20.0])))


def _of_order(n: int) -> dict[str, Callable[..., Any]]:
    return {"call": lambda x: agrad.special.jn(n, x), "reference": lambda xp, x: FORMULAS["jn"](n, x)}


_row(
    "jn",
    agrad.special.jn,
    *[ex(f"order {n}", values([-9.0, -0.5, 0.0, 0.3, 3.5, 20.0]), **_of_order(n)) for n in (-3, 0, 1, 2, 7)],
    ex("empty", normal(0, 2), **_of_order(2)),
    ex("0-d", normal(), **_of_order(2)),
)

_row(
    "lambertw",
    agrad.special.lambertw,
    ex("matrix", positive(2, 3)),
    ex("0-d", positive()),
    ex("empty", positive(0, 2)),
    ex("far", values([-0.36, -0.2, 0.0, 1e-8, 0.99, 1.01, 1e5])),
    ex(
        "branch -1",
        values([-0.35, -0.3, -0.2, -0.05]),
        call=lambda x: agrad.special.lambertw(x, -1),
        reference=lambda xp, x: FORMULAS["lambertw"](x, k=-1),
    ),
)
_row(
    "polygamma",
    agrad.special.polygamma,
    ex("number", 1, positive(2, 3)),
    ex("0", 0, positive(3)),
    ex("array", constant([0.0, 1.0, 2.0, 3.0]), positive(2, 4)),
    ex("integers", constant([1, 4], np.int64), positive(3, 2)),
    ex("empty", 1, positive(0, 2)),
    ex("negative", 1, _negative(3)),
    ex("negative of high order", constant([4.0, 5.0, 8.0]), _negative(2, 3)),
    ex("0-d", 2, positive()),
)
_row(
    "iv",
    agrad.special.iv,
    ex("number", 1.5, positive(2, 3)),
    ex("order 0 at 0", 0, values([0.0, 0.5, -2.0])),
    ex("order 1 at 0", 1, values([0.0, 0.5, -2.0])),
    ex("whole", constant([0.0, 1.0, 2.0]), off_zero(2, 3)),
    ex("fractions", constant([0.3, 0.7, 2.5]), positive(2, 3)),
    ex("large", constant([0.3, 7.0, 40.0]), values([35.0, 40.0, 20.0])),
    ex("empty", 2, positive(0, 2)),
    ex("0-d", 2, positive()),
)
_row(
    "hyp2f1",
    agrad.special.hyp2f1,
    ex("numbers", 1, 0.5, 2.5, _apart(2, 3)),
    ex("arrays", constant([0.3, 2.0, -1.5]), constant([1.1, -2.0, 0.4]), constant([0.7, 1.2, 3.1]), _apart(2, 3)),
    ex("logarithm", 1.0, 2.0, constant([2.0, 3.0, 4.0]), values([-0.85, 0.78, 0.88])),
    ex("empty", 1.5, 2.0, 3.0, _apart(0, 2)),
    ex("0-d", 1.5, 2.0, 3.0, _apart()),
)
_binary("beta", positive, positive)
_binary("betaln", positive, positive, ex("far apart", values([0.1, 0.5]), values([100.0, 50.0])))
_binary("zeta", between(1.5, 4.0), positive, ex("Riemann's", between(1.5, 4.0)(2, 3)))
_binary("gammainc", positive, positive, ex("tails", values([0.5, 3.0, 30.0, 30.0]), values([0.2, 9.0, 22.0, 40.0])))
_binary("gammaincc", positive, positive, ex("tails", values([0.5, 3.0, 30.0, 30.0]), values([0.2, 9.0, 22.0, 40.0])))
_binary("xlogy", normal, positive, ex("x 0", constant([0.0, 0.0]), values([0.5, 2.0])))
_binary("xlog1py", normal, positive)
_binary("rel_entr", positive, positive)
_binary("kl_div", positive, positive)
_row(
    "betainc",
    agrad.special.betainc,
    ex("matrices", positive(2, 3), positive(2, 3), _inside(2, 3)),
    ex("0-d", positive(), positive(), _inside()),
    ex("empty", positive(0, 3), positive(3), _inside(1, 3)),
    ex("broadcast", positive(3), positive(2, 1), _inside(4, 1, 1)),
    ex("numbers", 2, 0.5, _inside(3)),
    ex("number in the middle", positive(3), 1.5, _inside(3)),
    ex("tails", values([8.0, 20.0, 0.3]), values([3.0, 30.0, 0.4]), values([0.2, 0.6, 0.97])),
)

# ---------------------------------------------------------------- helpers that only rules call


def _setting(name: str, **settings: Any) -> Any:
    bind = PRIMITIVES[f"special.{name}"].bind
    return lambda *args: bind(*args, **settings)


def _helper(name: str, draws: tuple[Input, ...], *settings: dict[str, int]) -> None:
    examples = []
    for how in settings:
        label = ", ".join(f"{k} {v}" for k, v in how.items()) or "itself"
        examples.append(ex(label, *draws, call=_setting(name, **how), reference=_formula(name, **how)))
    row(f"special.{name}", *examples, call=_setting(name), reference=_formula(name))


_helper(
    "bell",
    (values([-9.0, -2.0, 0.0, 0.3, 5.5]),),
    {"n": 0, "half": False},
    {"n": 1, "half": True},
    {"n": 3, "half": False},
    {"n": 4, "half": True},
)
_helper("edge_log", (positive(2, 3),), {})
_helper("scaled_ierfc", (values([-2.0, -0.1, 0.5, 1.9, 2.1, 9.0]),), {"n": 1}, {"n": 2}, {"n": 4})
_helper("sinc_derivative", (values([-2.0, 0.0, 0.3, 1.1, 5.5]),), {"n": 1}, {"n": 2}, {"n": 3})
_helper("decay_moment", (values([-40.0, -2.0, 0.3, 5.5, 31.0]),), {"k": 0}, {"k": 1}, {"k": 3})
_helper("zeta_derivative", (between(1.5, 4.0)(2, 3), positive(3)), {"n": 0}, {"n": 1}, {"n": 2})
_helper("polygamma_rise", (positive(2, 3), positive(3)), {"n": 0}, {"n": 1}, {"n": 3})
_helper("gamma_density", (positive(2, 3), positive(3)), {})
_helper("log_gamma_density", (positive(2, 3), positive(3)), {})
_helper("log_digamma_gap", (values([0.3, 2.0, 30.0]),), {})
_helper("log_beta_density", (positive(2, 3), positive(3), _inside(2, 1)), {})
_helper("beta_density", (positive(2, 3), positive(3), _inside(2, 1)), {})
_helper("gammainc_by_a", (positive(2, 3), positive(2, 1)), {"n": 1}, {"n": 2}, {"n": 3})
_helper(
    "betainc_by_parameters",
    (positive(3), positive(3), _inside(2, 3)),
    {"n": 1, "m": 0},
    {"n": 0, "m": 2},
    {"n": 2, "m": 1},
)

slow("special.betainc", "special.betainc_by_parameters", "special.gammainc_by_a", "special.hyp2f1")

# ---------------------------------------------------------------- reductions
_weights = constant([0.5, 0.0, 2.0])
for _name in ("softmax", "log_softmax"):
    composite(
        f"special.{_name}",
        ex("all", normal(2, 3)),
        ex("axis", normal(2, 3), axis=0),
        ex("several axes", normal(2, 3, 2), axis=(0, 2)),
        reference=_formula(_name),
    )
composite(
    "special.logsumexp",
    ex("all", normal(2, 3)),
    ex("axis", normal(2, 3), axis=0, keepdims=True),
    ex("weights", normal(2, 3), 1, positive(3)),
    ex("weights with a zero", normal(2, 3), 1, _weights),
    reference=_formula("logsumexp"),
)

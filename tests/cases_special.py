"""The rows of the special functions.

The reference of a row is the function itself, of one number at a time: ``special_references.json`` has the numbers of
functions and first derivatives, and of the helpers of higher ones each is the derivative of the one before.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from table import (
    Example,
    Input,
    between,
    composite,
    constant,
    elementwise,
    ex,
    normal,
    off_zero,
    positive,
    row,
    slow,
    values,
)

import agrad
from agrad.registry import PRIMITIVES

Draw = Callable[..., Input]

# the arguments, of one letter each, whose rule says that there is no derivative
UNDERIVED = {"special.hyp2f1": "abc", "special.iv": "v", "special.polygamma": "n"}


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays as the reference of a row: computed element by element."""
    one = elementwise(lambda *at: float(function(*map(np.asarray, at))))
    return lambda xp, *args: one(*args)


def _of(label: str, call: Callable[..., Any], *args: Any, reference: Any = None) -> Example:
    return ex(label, *args, call=call, reference=_alone(reference or call))


def _row(name: str, *examples: Example) -> None:
    function = getattr(agrad.special, name)
    row(f"special.{name}", *examples, call=function, reference=_alone(function))


def _unary(name: str, draw: Draw, *extra: Example) -> None:
    _row(
        name,
        ex("matrix", draw(2, 3)),
        ex("0-d", draw()),
        ex("empty", draw(0, 2)),
        ex("batch", draw(2, 1, 3)),
        *extra,
    )


def _binary(name: str, left: Draw, right: Draw, *extra: Example, number: float = 1.5) -> None:
    _row(
        name,
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


def _jn(n: int) -> Callable[..., Any]:
    return lambda x: agrad.special.jn(n, x)


_row(
    "jn",
    *[_of(f"order {n}", _jn(n), values([-9.0, -0.5, 0.0, 0.3, 3.5, 20.0])) for n in (-3, 0, 1, 2, 7)],
    _of("empty", _jn(2), normal(0, 2)),
    _of("0-d", _jn(2), normal()),
)
_row(
    "lambertw",
    ex("matrix", positive(2, 3)),
    ex("0-d", positive()),
    ex("empty", positive(0, 2)),
    ex("far", values([-0.36, -0.2, 0.0, 1e-8, 0.99, 1.01, 1e5])),
    _of("branch -1", lambda x: agrad.special.lambertw(x, -1), values([-0.35, -0.3, -0.2, -0.05])),
)
_row(
    "polygamma",
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
    ex("numbers", 1, 0.5, 2.5, _apart(2, 3)),
    ex("arrays", constant([0.3, 2.0, -1.5]), constant([1.1, -2.0, 0.4]), constant([0.7, 1.2, 3.1]), _apart(2, 3)),
    ex("logarithm", 1.0, 2.0, constant([2.0, 3.0, 4.0]), values([-0.85, 0.78, 0.88])),
    ex("empty", 1.5, 2.0, 3.0, _apart(0, 2)),
    ex("0-d", 1.5, 2.0, 3.0, _apart()),
)
_binary("beta", positive, positive)
_binary("betaln", positive, positive, ex("far apart", values([0.1, 0.5]), values([100.0, 50.0])))
_RIEMANN = _of("Riemann's", agrad.special.zeta, between(1.5, 4.0)(2, 3), reference=lambda x: agrad.special.zeta(x, 1))
_binary("zeta", between(1.5, 4.0), positive, _RIEMANN)
_binary("gammainc", positive, positive, ex("tails", values([0.5, 3.0, 30.0, 30.0]), values([0.2, 9.0, 22.0, 40.0])))
_binary("gammaincc", positive, positive, ex("tails", values([0.5, 3.0, 30.0, 30.0]), values([0.2, 9.0, 22.0, 40.0])))
_binary("xlogy", normal, positive, ex("x 0", constant([0.0, 0.0]), values([0.5, 2.0])))
_binary("xlog1py", normal, positive)
_binary("rel_entr", positive, positive)
_binary("kl_div", positive, positive)
_row(
    "betainc",
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


def _helper(name: str, draws: tuple[Input, ...], *settings: dict[str, int], formula: Any = None) -> None:
    """File a row; ``formula``: of numbers and settings, if the helper is not its own reference."""
    examples = []
    for how in settings or ({},):
        label, call = ", ".join(f"{k} {v}" for k, v in how.items()) or "itself", _setting(name, **how)
        examples.append(_of(label, call, *draws, reference=formula and partial(formula, **how)))
    row(f"special.{name}", *examples, call=_setting(name), reference=_alone(_setting(name)))


def _bell(x: float, n: int, half: bool) -> float:
    """Return the n-th derivative by Rodrigues' formula: (-1)**n times a Hermite polynomial times the function."""
    evaluate = np.polynomial.hermite_e.hermeval if half else np.polynomial.hermite.hermval
    return (-1) ** n * evaluate(x, [0] * n + [1]) * math.exp(-x * x / (2 if half else 1))


def _polygamma_rise(x: Any, h: Any, n: int) -> Any:
    return agrad.special.polygamma(n, x + h) - agrad.special.polygamma(n, x)


def _gamma_density(a: float, x: float) -> float:
    return (a - 1) * math.log(x) - x - math.lgamma(a)


def _beta_density(a: float, b: float, x: float) -> float:
    return (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)


_SIDES, _THIRDS = (positive(2, 3), positive(3)), (positive(2, 3), positive(3), _inside(2, 1))
_helper("bell", (values([-9.0, -2.0, 0.0, 0.3, 5.5]),), {"n": 0, "half": False}, {"n": 1, "half": True},
        {"n": 3, "half": False}, {"n": 4, "half": True}, formula=_bell)  # fmt: skip
_helper("edge_log", (positive(2, 3),), formula=math.log)
_helper("scaled_ierfc", (values([-2.0, -0.1, 0.5, 1.9, 2.1, 9.0]),), {"n": 1}, {"n": 2}, {"n": 3})
_helper("sinc_derivative", (values([-2.0, 0.0, 0.3, 1.1, 5.5]),), {"n": 1}, {"n": 2}, {"n": 3})
_helper("decay_moment", (values([-40.0, -2.0, 0.3, 5.5, 31.0]),), {"k": 0}, {"k": 1}, {"k": 2})
_helper("zeta_derivative", (between(1.5, 4.0)(2, 3), positive(3)), {"n": 0}, {"n": 1}, {"n": 2})
_helper("polygamma_rise", _SIDES, {"n": 0}, {"n": 1}, {"n": 3}, formula=_polygamma_rise)
_helper("gamma_density", _SIDES, formula=lambda a, x: math.exp(_gamma_density(a, x)))
_helper("log_gamma_density", _SIDES, formula=_gamma_density)
_helper("log_digamma_gap", (values([0.3, 2.0, 30.0]),), formula=lambda z: math.log(z) - agrad.special.digamma(z))
_helper("log_beta_density", _THIRDS, formula=_beta_density)
_helper("beta_density", _THIRDS, formula=lambda a, b, x: math.exp(_beta_density(a, b, x)))
_helper("gammainc_by_a", (positive(2, 3), positive(2, 1)), {"n": 1}, {"n": 2}, {"n": 3})
_helper("betainc_by_parameters", (positive(3), positive(3), _inside(2, 3)),
        {"n": 1, "m": 0}, {"n": 0, "m": 1}, {"n": 1, "m": 1})  # fmt: skip

slow("special.betainc", "special.betainc_by_parameters", "special.gammainc_by_a", "special.hyp2f1")

# ---------------------------------------------------------------- reductions


def _logsumexp(xp: Any, x: Any, axis: Any = None, b: Any = 1.0, *, keepdims: bool = False) -> np.ndarray:
    return np.log(np.sum(b * np.exp(x), axis=axis, keepdims=keepdims))


def _log_softmax(xp: Any, x: Any, axis: Any = None) -> np.ndarray:
    return x - _logsumexp(xp, x, axis, keepdims=True)


_ROWS = (ex("all", normal(2, 3)), ex("axis", normal(2, 3), axis=0), ex("several axes", normal(2, 3, 2), axis=(0, 2)))
composite("special.log_softmax", *_ROWS, reference=_log_softmax)
composite("special.softmax", *_ROWS, reference=lambda *args, **how: np.exp(_log_softmax(*args, **how)))
composite(
    "special.logsumexp",
    ex("all", normal(2, 3)),
    ex("axis", normal(2, 3), axis=0, keepdims=True),
    ex("weights", normal(2, 3), 1, positive(3)),
    ex("weights with a zero", normal(2, 3), 1, constant([0.5, 0.0, 2.0])),
    reference=_logsumexp,
)

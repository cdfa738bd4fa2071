"""Functions of one argument, as mpmath has them, and the points at which their derivatives are measured.

``FORMULAS[name]`` has the function of (mp, x), the open interval of its points, points beside those of the grid, and
for some functions both derivatives in closed form; those of the others are differences at some 500 digits. Read by
``make_special_tables.py``, which writes ``digit_references.json``; it alone needs mpmath.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Function = Callable[[Any, Any], Any]
INF = math.inf

_FAR = (1e35, 1e20, 3e10, 1e5, 1500.0, 800.0, 700.0, 100.0, 86.0, 60.0, 40.0, 37.5, 25.0)
_NEAR = (20.5, 18.0, 15.0, 9.5, 8.0, 6.5, 5.0, 4.0, 3.2, 2.2, 1.7, 1.2, 1.0, 0.9, 0.7, 0.45, 0.3, 0.2)
_SMALL = (0.1, 0.05, 0.02, 5e-3, 1e-3, 1e-4, 3e-6, 2e-8, 1e-10, 1e-16, 1e-20, 1e-30, 1e-36)
_BEYOND = (1e300, 1e200, 1e160, 1e150, 1e100, 1e60, 1e-60, 1e-100, 1e-150, 1e-160, 1e-200, 1e-300)
"""What float32 cannot hold; the others are the numbers of float32 next to these."""


class Formula(NamedTuple):
    function: Function
    low: float
    high: float
    more: tuple[float, ...]
    slopes: tuple[Function, Function] | None
    kinks: tuple[float, ...]


FORMULAS: dict[str, Formula] = {}


def file(
    name: str,
    function: Function,
    low: float = -INF,
    high: float = INF,
    more: tuple[float, ...] = (),
    slopes: tuple[Function, Function] | None = None,
    kinks: tuple[float, ...] = (),
) -> None:
    """File a function; at ``kinks`` the convention is tested elsewhere."""
    FORMULAS[name] = Formula(function, low, high, more, slopes, kinks)


def points(name: str, single: Callable[[float], float]) -> list[float]:
    """Return the points of a function; ``single`` rounds a number to float32."""
    _, low, high, more, _, kinks = FORMULAS[name]
    sizes = [*map(single, (*_FAR, *_NEAR, *_SMALL)), *_BEYOND]
    wanted = {0.0, *sizes, *(-size for size in sizes), *more}
    return sorted(x for x in wanted if low < x < high and x not in kinks)


def derivatives(mp: Any, name: str, x: float) -> tuple[float, float]:
    """Return the first and the second derivative."""
    function, low, high, _, slopes, kinks = FORMULAS[name]
    size = abs(math.log10(abs(x))) if x else 0
    if slopes is not None:
        with mp.workdps(int(60 + 5 * size)):
            return tuple(float(mp.re(f(mp, mp.mpf(x)))) for f in slopes)  # type: ignore[return-value]
    with mp.workdps(int(500 + 3 * size)):
        at = mp.mpf(x)
        reach = min([abs(at) or mp.mpf(1), 1, *(abs(at - edge) for edge in (low, high, *kinks) if math.isfinite(edge))])
        step = reach * mp.mpf(10) ** -40
        below, middle, above = (function(mp, at + k * step) for k in (-1, 0, 1))
        return float((above - below) / (2 * step)), float((above - 2 * middle + below) / step**2)


def _edge(*places: float) -> tuple[float, ...]:
    """Return the numbers next to places, in float64, float32 and farther off."""
    return tuple(place + sign * off for place in places for sign in (1, -1) for off in (2.0**-50, 2.0**-22, 1e-6, 1e-3))


# ---------------------------------------------------------------- the standard's

ONE = _edge(1.0, -1.0)
file("negative", lambda mp, x: -x)
file("positive", lambda mp, x: x)
file("real", lambda mp, x: x)
file("imag", lambda mp, x: 0 * x)
file("conj", lambda mp, x: x)
file("abs", lambda mp, x: abs(x), kinks=(0.0,))
file("square", lambda mp, x: x * x)
file("sqrt", lambda mp, x: mp.sqrt(x), 0.0)
file("reciprocal", lambda mp, x: 1 / x, kinks=(0.0,))
file("exp", lambda mp, x: mp.exp(x))
file("expm1", lambda mp, x: mp.exp(x) - 1)
file("log", lambda mp, x: mp.log(x), 0.0, more=ONE)
file("log1p", lambda mp, x: mp.log(1 + x), -1.0, more=_edge(-1.0))
file("log2", lambda mp, x: mp.log(x) / mp.log(2), 0.0)
file("log10", lambda mp, x: mp.log(x) / mp.log(10), 0.0)
QUARTERS = (1.5703125, 1.57079632679, 1.5707963267948966, 3.1415927410125732, 3.141592653589793, 1.5707963705062866)
file("sin", lambda mp, x: mp.sin(x), more=QUARTERS)
file("cos", lambda mp, x: mp.cos(x), more=QUARTERS)
file("tan", lambda mp, x: mp.tan(x), more=QUARTERS)
file("asin", lambda mp, x: mp.asin(x), -1.0, 1.0, ONE)
file("acos", lambda mp, x: mp.acos(x), -1.0, 1.0, ONE)
file("atan", lambda mp, x: mp.atan(x), more=ONE)
file("sinh", lambda mp, x: (mp.exp(x) - mp.exp(-x)) / 2)
file("cosh", lambda mp, x: (mp.exp(x) + mp.exp(-x)) / 2)
file("asinh", lambda mp, x: mp.sign(x) * mp.log(abs(x) + mp.sqrt(x * x + 1)))
file("acosh", lambda mp, x: mp.log(x + mp.sqrt(x * x - 1)), 1.0, more=ONE)
file("atanh", lambda mp, x: (mp.log(1 + x) - mp.log(1 - x)) / 2, -1.0, 1.0, ONE)


# ---------------------------------------------------------------- activations


def _expit(mp: Any, x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def _tail(mp: Any, x: Any) -> Any:
    return mp.exp(-abs(x)) / (1 + mp.exp(-abs(x))) ** 2


def _tanh(mp: Any, x: Any) -> Any:
    small = mp.exp(-2 * abs(x))
    return mp.sign(x) * (1 - small) / (1 + small)


def _log_expit(mp: Any, x: Any) -> Any:
    return min(x, mp.mpf(0)) - mp.log1p(mp.exp(-abs(x)))


LOGISTIC = (lambda mp, x: _tail(mp, x), lambda mp, x: -_tail(mp, x) * _tanh(mp, x / 2))
LOG_LOGISTIC = (lambda mp, x: _expit(mp, -x), lambda mp, x: -_tail(mp, x))
HYPERBOLIC = (lambda mp, x: 4 * _tail(mp, 2 * x), lambda mp, x: -8 * _tanh(mp, x) * _tail(mp, 2 * x))
_ACTIVATION = "nn.functional."


def _silu_slope(mp: Any, x: Any) -> Any:
    return _expit(mp, x) + x * _tail(mp, x)


def _silu_curve(mp: Any, x: Any) -> Any:
    return _tail(mp, x) * (2 - x * _tanh(mp, x / 2))


def _erfc(mp: Any, x: Any) -> Any:
    if x > 1e10:  # by the asymptotic series, where mpmath's own fails
        term, total = mp.mpf(1), mp.mpf(0)
        for n in range(1, 60):
            total, term = total + term, -term * (2 * n - 1) / (2 * x * x)
        return mp.exp(-x * x) / (x * mp.sqrt(mp.pi)) * total
    return 2 - _erfc(mp, -x) if x < -1e10 else mp.erfc(x)


def _density(mp: Any, x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _ndtr(mp: Any, x: Any) -> Any:
    return _erfc(mp, -x / mp.sqrt(2)) / 2


def _exponential(alpha: Any, scale: Any = 1) -> Function:
    return lambda mp, x: mp.mpf(scale) * (x if x > 0 else mp.mpf(alpha) * (mp.exp(x) - 1))


def _mish(mp: Any, x: Any) -> Any:
    # tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2)
    if x > 0:
        e = mp.exp(-x)
        return x * (1 + 2 * e) / (1 + 2 * e + 2 * e * e)
    e = mp.exp(x)
    return x * e * (e + 2) / (e * (e + 2) + 2)


def _gelu_by_tanh(mp: Any, x: Any) -> Any:
    # with the coefficients as the floats that they are
    inner = mp.mpf(math.sqrt(2 / math.pi)) * (x + mp.mpf(0.044715) * x**3)
    return x * _expit(mp, 2 * inner)


SHRUNK = (0.5, -0.5)
file("relu", lambda mp, x: max(x, mp.mpf(0)), kinks=(0.0,))
file("sigmoid", _expit, slopes=LOGISTIC)
file("tanh", _tanh, slopes=HYPERBOLIC)
file("gelu", lambda mp, x: x * _ndtr(mp, x),
     slopes=(lambda mp, x: _ndtr(mp, x) + x * _density(mp, x),
             lambda mp, x: _density(mp, x) * (2 - x * x)))  # fmt: skip
file("gelu, tanh", _gelu_by_tanh)
file(f"{_ACTIVATION}logsigmoid", _log_expit, slopes=LOG_LOGISTIC)
file(f"{_ACTIVATION}leaky_relu", lambda mp, x: x if x > 0 else mp.mpf(0.01) * x, kinks=(0.0,))
file(f"{_ACTIVATION}elu", _exponential(1), kinks=(0.0,))
file(f"{_ACTIVATION}celu", _exponential(1), kinks=(0.0,))
file(f"{_ACTIVATION}selu", _exponential("1.6732632423543772", "1.0507009873554805"), kinks=(0.0,))
file(f"{_ACTIVATION}silu", lambda mp, x: x * _expit(mp, x), slopes=(_silu_slope, _silu_curve))
file(f"{_ACTIVATION}mish", _mish)
file(f"{_ACTIVATION}softplus", lambda mp, x: x if x > 20 else -_log_expit(mp, -x), kinks=(20.0,))
file(f"{_ACTIVATION}softsign", lambda mp, x: x / (1 + abs(x)), kinks=(0.0,))
file(f"{_ACTIVATION}tanhshrink", lambda mp, x: x - _tanh(mp, x),
     slopes=(lambda mp, x: _tanh(mp, x) ** 2, lambda mp, x: -HYPERBOLIC[1](mp, x)))  # fmt: skip
file(f"{_ACTIVATION}hardtanh", lambda mp, x: min(max(x, mp.mpf(-1)), mp.mpf(1)), kinks=(1.0, -1.0))
file(f"{_ACTIVATION}relu6", lambda mp, x: min(max(x, mp.mpf(0)), mp.mpf(6)), kinks=(0.0, 6.0))
file(f"{_ACTIVATION}hardsigmoid", lambda mp, x: min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6, kinks=(3.0, -3.0))
file(f"{_ACTIVATION}hardswish", lambda mp, x: x * min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6, kinks=(3.0, -3.0))
file(f"{_ACTIVATION}hardshrink", lambda mp, x: x if abs(x) > 0.5 else 0 * x, kinks=SHRUNK)
file(f"{_ACTIVATION}softshrink", lambda mp, x: x - mp.sign(x) * 0.5 if abs(x) > 0.5 else 0 * x, kinks=SHRUNK)

# ---------------------------------------------------------------- special functions


def _bell(mp: Any, x: Any) -> Any:
    return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)


def _erfcinv(mp: Any, x: Any) -> Any:
    with mp.workdps(700):
        return mp.erfinv(1 - x)


def _log_ndtr(mp: Any, x: Any) -> Any:
    return mp.log(_ndtr(mp, x)) if x < 0 else mp.log1p(-_ndtr(mp, -x))


def _log_ndtr_slope(mp: Any, x: Any) -> Any:
    return _density(mp, x) / _ndtr(mp, x)


def _erfcx(mp: Any, x: Any) -> Any:
    return mp.exp(x * x) * _erfc(mp, x)


def _erfcx_slope(mp: Any, x: Any) -> Any:
    return 2 * x * _erfcx(mp, x) - 2 / mp.sqrt(mp.pi)


def _sinc_slope(mp: Any, x: Any) -> Any:
    return (mp.cospi(x) - mp.sincpi(x)) / x if x else mp.mpf(0)


def _sinc_curve(mp: Any, x: Any) -> Any:
    return -(mp.pi**2) * mp.sincpi(x) - 2 * _sinc_slope(mp, x) / x if x else -(mp.pi**2) / 3


def _bessel(kind: str, order: int, scaled: bool = False) -> Function:
    def f(mp: Any, x: Any) -> Any:
        mirrored = -1 if order < 0 and order % 2 and kind != "i" else 1
        return mirrored * getattr(mp, f"bessel{kind}")(abs(order), x) * (mp.exp(-abs(x)) if scaled else 1)

    return f


def _bessel_slopes(kind: str, order: int) -> tuple[Function, Function]:
    sign = 1 if kind == "i" else -1
    low, here, high = (_bessel(kind, order + k) for k in (-1, 0, 1))
    lower, higher = (_bessel(kind, order + k) for k in (-2, 2))
    return (
        lambda mp, x: (low(mp, x) + sign * high(mp, x)) / 2,
        lambda mp, x: (lower(mp, x) + sign * 2 * here(mp, x) + higher(mp, x)) / 4,
    )


def _of_scaled(order: int) -> tuple[Function, Function]:
    first, second = _bessel_slopes("i", order)
    value = _bessel("i", order)
    return (
        lambda mp, x: mp.exp(-abs(x)) * (first(mp, x) - mp.sign(x) * value(mp, x)),
        lambda mp, x: mp.exp(-abs(x)) * (second(mp, x) - 2 * mp.sign(x) * first(mp, x) + value(mp, x)),
    )


file("erf", lambda mp, x: mp.erf(x), slopes=(_bell, lambda mp, x: -2 * x * _bell(mp, x)))
file("special.erfc", lambda mp, x: mp.erfc(x),
     slopes=(lambda mp, x: -_bell(mp, x), lambda mp, x: 2 * x * _bell(mp, x)))  # fmt: skip
file("special.erfcx", _erfcx, slopes=(_erfcx_slope, lambda mp, x: 2 * _erfcx(mp, x) + 2 * x * _erfcx_slope(mp, x)))
file("special.erfinv", lambda mp, x: mp.erfinv(x), -1.0, 1.0, ONE,
     slopes=(lambda mp, x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2),
             lambda mp, x: mp.pi / 2 * mp.erfinv(x) * mp.exp(2 * mp.erfinv(x) ** 2)))  # fmt: skip
file("special.erfcinv", _erfcinv, 0.0, 2.0, _edge(2.0),
     slopes=(lambda mp, x: -mp.sqrt(mp.pi) / 2 * mp.exp(_erfcinv(mp, x) ** 2),
             lambda mp, x: mp.pi / 2 * _erfcinv(mp, x) * mp.exp(2 * _erfcinv(mp, x) ** 2)))  # fmt: skip
file("special.ndtr", _ndtr, slopes=(_density, lambda mp, x: -x * _density(mp, x)))
file("special.log_ndtr", _log_ndtr,
     slopes=(_log_ndtr_slope, lambda mp, x: -_log_ndtr_slope(mp, x) * (x + _log_ndtr_slope(mp, x))))  # fmt: skip
file("special.ndtri", lambda mp, x: -mp.sqrt(2) * _erfcinv(mp, 2 * x), 0.0, 1.0, ONE,
     slopes=(lambda mp, x: mp.sqrt(2 * mp.pi) * mp.exp(_erfcinv(mp, 2 * x) ** 2),
             lambda mp, x: -2 * mp.pi * mp.sqrt(2) * _erfcinv(mp, 2 * x)
             * mp.exp(2 * _erfcinv(mp, 2 * x) ** 2)))  # fmt: skip
file("special.sinc", lambda mp, x: mp.sincpi(x), -1e5, 1e5, slopes=(_sinc_slope, _sinc_curve))
file("special.expit", _expit, slopes=LOGISTIC)
file("special.log_expit", _log_expit, slopes=LOG_LOGISTIC)
file("special.logit", lambda mp, x: mp.log(x) - mp.log(1 - x), 0.0, 1.0, ONE,
     slopes=(lambda mp, x: 1 / (x * (1 - x)), lambda mp, x: (2 * x - 1) / (x * (1 - x)) ** 2))  # fmt: skip
file("special.entr", lambda mp, x: -x * mp.log(x), 0.0,
     slopes=(lambda mp, x: -mp.log(x) - 1, lambda mp, x: -1 / x))  # fmt: skip
_LEFT = (-0.25, -0.75, -1.25, -2.75, -10.25, -20.75)
file("special.gamma", lambda mp, x: mp.gamma(x), 0.0, 1e6, (*_LEFT, 171.0, 30.5, 120.0),
     slopes=(lambda mp, x: mp.gamma(x) * mp.psi(0, x),
             lambda mp, x: mp.gamma(x) * (mp.psi(0, x) ** 2 + mp.psi(1, x))))  # fmt: skip
file("special.gammaln", lambda mp, x: mp.loggamma(x), 0.0, more=_LEFT,
     slopes=(lambda mp, x: mp.psi(0, x), lambda mp, x: mp.psi(1, x)))  # fmt: skip
file("special.digamma", lambda mp, x: mp.psi(0, x), 0.0, more=_LEFT,
     slopes=(lambda mp, x: mp.psi(1, x), lambda mp, x: mp.psi(2, x)))  # fmt: skip
file("special.exp1", lambda mp, x: mp.e1(x), 0.0,
     slopes=(lambda mp, x: -mp.exp(-x) / x, lambda mp, x: mp.exp(-x) * (1 + x) / x**2))  # fmt: skip
file("special.expi", lambda mp, x: mp.ei(x), kinks=(0.0,),
     slopes=(lambda mp, x: mp.exp(x) / x, lambda mp, x: mp.exp(x) * (x - 1) / x**2))  # fmt: skip
for _n in (0, 1):
    file(f"special.i{_n}", _bessel("i", _n), slopes=_bessel_slopes("i", _n), low=-2000.0, high=2000.0)
    file(f"special.i{_n}e", _bessel("i", _n, True), slopes=_of_scaled(_n), low=-2000.0, high=2000.0, kinks=(0.0,))
    file(f"special.j{_n}", _bessel("j", _n), slopes=_bessel_slopes("j", _n), low=-2000.0, high=2000.0)
    file(f"special.y{_n}", _bessel("y", _n), slopes=_bessel_slopes("y", _n), low=1e-17, high=2000.0)

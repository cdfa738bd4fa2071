"""The points of the special functions, and mpmath's value and derivatives there.

``REFERENCES[name]`` is a list of points (tuples of arguments, exact floats) and a dictionary of quantities: ``value``,
``d0`` for the derivative by the first argument, ``d01`` for the mixed second one and so on. Read by
``make_special_tables.py``, which writes the table that the tests read; it alone needs mpmath.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import digit_points

Quantity = Callable[..., Any]

REFERENCES: dict[str, tuple[list[tuple[float, ...]], dict[str, Quantity]]] = {}


def _numeric(f: Quantity, orders: tuple[int, ...]) -> Quantity:
    """Return a derivative by mpmath's differences, at a sufficient precision."""

    def derivative(mp: Any, *args: Any) -> Any:
        with mp.workdps(50):
            return mp.diff(
                lambda *at: f(mp, *at), args if len(args) > 1 else args[0], orders if len(args) > 1 else orders[0]
            )

    return derivative


def _precise(f: Quantity) -> Quantity:
    """Return ``f`` of one argument with the more digits the farther this is from 1."""

    def quantity(mp: Any, x: Any) -> Any:
        with mp.workdps(max(mp.mp.dps, 60 + int(5 * abs(math.log10(abs(x))) if x else 0))):
            return mp.re(f(mp, x))

    return quantity


def file(name: str, points: Sequence[Any], f: Any = None, labels: str = "d0 d00", **quantities: Quantity) -> None:
    """File the points of a function; without ``f`` it is that of ``digit_points``, and so are its derivatives.

    ``labels``: the derivatives taken numerically, unless ``quantities`` gives them in closed form.
    """
    if f is None:
        formula = digit_points.FORMULAS[name if name == "erf" else f"special.{name}"]
        f = _precise(formula.function)
        quantities = dict(zip(("d0", "d00"), map(_precise, formula.slopes or ()), strict=False)) | quantities
    rows = [p if isinstance(p, tuple) else (p,) for p in points]
    found: dict[str, Quantity] = {"value": f}
    for label in labels.split():
        places = [int(c) for c in label[1:]]
        orders = tuple(places.count(i) for i in range(len(rows[0])))
        found[label] = quantities.get(label) or _numeric(f, orders)
    REFERENCES[name] = ([tuple(map(float, r)) for r in rows], found)


def both(*values: float) -> list[float]:
    return [*(-v for v in reversed(values)), *values]


def grid(*axes: Sequence[float]) -> list[tuple[float, ...]]:
    return list(itertools.product(*axes))


MIDDLE = both(1e-300, 1e-10, 1e-3, 0.1, 0.3, 0.46, 0.48, 0.75, 1.0, 1.5, 2.0, 3.0, 3.95, 4.05, 5.0, 5.5)


file("erf", [*MIDDLE, 10.0])
file("erfc", [*MIDDLE, -10.0, 8.0, 10.0, 15.0, 20.0, 25.0, 26.0])
file("erfcx", [-26.0, -20.0, -5.0, -1.0, -0.3, 0.0, 1e-5, 0.3, 0.5, 1.0, 1.9, 2.1, 3.0, 4.1, 8.0, 20.0, 50.0, 1e3, 1e6])
file("erfinv", both(1e-300, 1e-10, 0.01, 0.3, 0.49, 0.51, 0.8, 0.99, 0.999999, 0.9999999999, 1 - 2.0**-50))
file(
    "erfcinv", [1e-250, 1e-100, 1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.49, 0.51, 0.9, 1.1, 1.4, 1.6, 1.9, 1.999, 2 - 2.0**-40]
)
file("ndtri", [1e-250, 1e-100, 1e-30, 1e-10, 1e-3, 0.02425, 0.1, 0.24, 0.26, 0.4, 0.6, 0.75, 0.9, 0.99, 1 - 2.0**-40])
_TAILED = [-37.0, -20.0, -8.0, -5.0, -2.0, -1.1, -0.9, -0.1, -1e-8, 1e-8, 0.3, 1.0, 2.0, 5.0, 8.0]
file("ndtr", _TAILED)
file("log_ndtr", [-1e5, -1e3, -100.0, *_TAILED, 20.0, 37.0], labels="d0 d00 d000")
file("sinc", [*both(1e-8, 0.1, 0.5, 0.9, 0.97, 1.3, 1.7, 2.5, 7.25, 100.3), 1e6 + 0.25])

# ---------------------------------------------------------------- logistic, entropies

_LOGISTIC = [-700.0, -100.0, -40.0, -10.0, -1.0, -0.1, 0.1, 0.5, 1.0, 10.0, 37.0, 40.0, 100.0, 700.0]
file("expit", _LOGISTIC)
file("log_expit", _LOGISTIC)
file("logit", [1e-100, 1e-20, 1e-5, 0.1, 0.29, 0.31, 0.49, 0.5 + 2.0**-30, 0.51, 0.64, 0.66, 0.9, 1 - 2.0**-40])
_PAIRS = grid([1e-200, 0.3, 1.0, 2.5, 1e4], [1e-150, 0.3000001, 0.9, 2.5000001, 1e5])
file("xlogy", _PAIRS, lambda mp, x, y: x * mp.log(y), "d0 d1 d01 d11",
     d0=lambda mp, x, y: mp.log(y), d1=lambda mp, x, y: x / y, d01=lambda mp, x, y: 1 / y,
     d11=lambda mp, x, y: -x / y**2)  # fmt: skip
file("xlog1py", [*_PAIRS, (2.0, -0.5), (2.0, -1 + 2.0**-30)], lambda mp, x, y: x * mp.log1p(y), "d0 d1 d01 d11",
     d0=lambda mp, x, y: mp.log1p(y), d1=lambda mp, x, y: x / (1 + y), d01=lambda mp, x, y: 1 / (1 + y),
     d11=lambda mp, x, y: -x / (1 + y) ** 2)  # fmt: skip
file("entr", [1e-300, 1e-10, 0.1, 0.5, 2.0, 1e5])
file("rel_entr", _PAIRS, lambda mp, x, y: x * mp.log(x / y), "d0 d1 d01 d11",
     d0=lambda mp, x, y: mp.log(x / y) + 1, d1=lambda mp, x, y: -x / y, d01=lambda mp, x, y: -1 / y,
     d11=lambda mp, x, y: x / y**2)  # fmt: skip
_UNLIKE = grid([1e-200, 0.3, 1.0, 1e4], [1e-150, 0.35, 0.9, 2.5, 1e5])
file("kl_div", _UNLIKE, lambda mp, x, y: x * mp.log(x / y) - x + y, "d0 d1 d01 d11",
     d0=lambda mp, x, y: mp.log(x / y), d1=lambda mp, x, y: 1 - x / y, d01=lambda mp, x, y: -1 / y,
     d11=lambda mp, x, y: x / y**2)  # fmt: skip

# ---------------------------------------------------------------- gamma

_GAMMA = [1e-300, 1e-8, 0.1, 0.49, 0.51, 0.999, 1.001, 1.3, 1.46, 1.999, 2.001, 2.4, 2.6, 5.5, 9.9, 10.1, 20.0, 50.5]
_LEFT = [-0.1, -0.4, -0.6, -1.3, -2.7, -5.5, -10.25, -20.75]
file("gamma", [*_GAMMA[1:], 100.3, 143.5, 170.6, *_LEFT])
file("gammaln", [*_GAMMA, 1e3, 1e6, 1e100, 1e300, *_LEFT], labels="d0")
file("digamma", [*_GAMMA[1:], 1e3, 1e6, *_LEFT], labels="d0 d00 d000", d000=lambda mp, x: mp.psi(3, x))
file("polygamma", grid([0.0, 1.0, 2.0, 3.0, 7.0, 20.0], [1e-5, 0.3, 1.0, 2.7, 9.0, 30.0, 1e4])
     + grid([0.0, 1.0, 4.0, 5.0, 8.0], [-0.4, -3.3, -3.7]),
     lambda mp, n, x: mp.psi(int(n), x), "d1 d11",
     d1=lambda mp, n, x: mp.psi(int(n) + 1, x), d11=lambda mp, n, x: mp.psi(int(n) + 2, x))  # fmt: skip
file("exp1", [1e-10, 1e-3, 0.1, 0.5, 1.0, 1.9, 2.1, 5.0, 30.0, 200.0, 600.0])
file("expi", [*both(1e-10, 1e-3, 0.1, 0.9, 2.1, 5.0, 30.0, 39.5, 40.5), 200.0, 600.0])


def _hyp2f1(order: int) -> Quantity:
    """Return the value or a derivative by the last argument: Abramowitz and Stegun 15.2.2."""

    def quantity(mp: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
        with mp.workdps(80):
            a, b, c = mp.mpf(a), mp.mpf(b), mp.mpf(c)
            front = mp.rf(a, order) * mp.rf(b, order) / mp.rf(c, order)
            return front * mp.re(mp.hyp2f1(a + order, b + order, c + order, z))

    return quantity


_HYPERGEOMETRIC = [(0.5, 1.0, 1.5), (1.0, 1.0, 2.0), (0.3, 2.7, 4.5), (2.0, 3.5, 1.2), (-1.4, 2.0, 0.6),
                   (0.7, 1.6, 2.3 + 2.0**-30), (1.5, 2.25, -0.75), (3.0, -2.5, -1 + 2.0**-40), (1.25, 3.5, 11.75),
                   (8.5, 7.0, 9.0), (-12.5, 3.0, 2.5), (-4.0, 2.5, 1.5)]  # fmt: skip
file("hyp2f1", [(*p, z) for p in _HYPERGEOMETRIC for z in
                (-1e8, -40.0, -3.0, -0.8, -0.1, -1e-9, 1e-9, 0.3, 0.6, 0.8, 0.93, 0.999, 1 - 2.0**-40)]
     + [(-4.0, 2.5, 1.5, 1.0), (-4.0, 2.5, 1.5, 3.0), (0.3, 0.9, 5.5, 1.0), (1.5, 2.0, 1.5, 3.0)],
     _hyp2f1(0), "d3 d33", d3=_hyp2f1(1), d33=_hyp2f1(2))  # fmt: skip


def _lambertw_slope(mp: Any, x: Any) -> Any:
    w = mp.re(mp.lambertw(x))
    return mp.exp(-w) / (1 + w)


file("lambertw", [-0.3678, -0.3, -0.2, -1e-3, -1e-20, 0.0, 1e-20, 1e-3, 0.1, 0.99, 1.01, 3.0, 100.0, 1e10, 1e300],
     lambda mp, x: mp.re(mp.lambertw(x)), d0=_lambertw_slope,
     d00=lambda mp, x: -_lambertw_slope(mp, x) * mp.exp(-mp.re(mp.lambertw(x)))
     * (2 + mp.re(mp.lambertw(x))) / (1 + mp.re(mp.lambertw(x))) ** 2)  # fmt: skip
_SIDES = grid([1e-10, 0.3, 1.0, 4.5, 30.0, 1e3], [1e-5, 0.8, 2.0, 11.0, 200.0, 1e5])


def _beta(mp: Any, a: Any, b: Any) -> Any:
    return mp.exp(_betaln(mp, a, b))


def _betaln(mp: Any, a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _da(mp: Any, a: Any, b: Any) -> Any:
    return mp.psi(0, a) - mp.psi(0, a + b)


file("beta", [p for p in _SIDES if p[0] > 1e-3 and p[0] + p[1] < 1e4], _beta, "d0 d1 d01",
     d0=lambda mp, a, b: _beta(mp, a, b) * _da(mp, a, b), d1=lambda mp, a, b: _beta(mp, a, b) * _da(mp, b, a),
     d01=lambda mp, a, b: _beta(mp, a, b) * (_da(mp, a, b) * _da(mp, b, a) - mp.psi(1, a + b)))  # fmt: skip
file("betaln", _SIDES, _betaln, "d0 d1 d01 d11", d0=_da, d1=lambda mp, a, b: _da(mp, b, a),
     d01=lambda mp, a, b: -mp.psi(1, a + b), d11=lambda mp, a, b: mp.psi(1, b) - mp.psi(1, a + b))  # fmt: skip


def _zeta(mp: Any, x: Any, q: Any, n: int = 0) -> Any:
    with mp.workdps(250):  # its tolerance is absolute, and the values go down to 1e-180
        return mp.zeta(x, q, n)


file("zeta", grid([1.0001, 1.5, 2.0, 5.5, 20.0, 60.0], [1e-3, 0.5, 1.0, 3.3, 20.0, 1e3]),
     _zeta, "d0 d1 d00 d01", d0=lambda mp, x, q: _zeta(mp, x, q, 1), d00=lambda mp, x, q: _zeta(mp, x, q, 2),
     d1=lambda mp, x, q: -x * _zeta(mp, x + 1, q),
     d01=lambda mp, x, q: -_zeta(mp, x + 1, q) - x * _zeta(mp, x + 1, q, 1))  # fmt: skip

# ---------------------------------------------------------------- incomplete

_ORDERS = [1e-5, 0.1, 0.9, 1.0, 2.5, 10.0, 100.0, 1e4]
_SPREAD = [(a, a * r) for a in _ORDERS for r in (1e-3, 0.3, 0.9, 0.99, 1.02, 1.5)] + [
    (0.1, 0.5), (0.1, 2.0), (0.1, 30.0), (1e-5, 0.7), (1e-5, 3.0), (0.9, 40.0), (2.5, 60.0), (10.0, 70.0),
    (100.0, 200.0),
]  # fmt: skip
_GAMMA_POINTS = [
    p for p in _SPREAD if not (p[0] > 99 and (p[1] / p[0] < 0.2 or (p[0] > 999 and not 0.8 < p[1] / p[0] < 1.2)))
]


def _lower(mp: Any, a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _upper(mp: Any, a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def _density(mp: Any, a: Any, x: Any) -> Any:
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def _by_a_and_x(mp: Any, a: Any, x: Any) -> Any:
    return _density(mp, a, x) * (mp.log(x) - mp.psi(0, a))


def _by_a(order: int) -> Quantity:
    """Return the derivative by a of the smaller of the two tails.

    Differences of that one keep their digits.
    """
    lower, upper = _numeric(_lower, (order, 0)), _numeric(_upper, (order, 0))
    return lambda mp, a, x: lower(mp, a, x) if x < a else -upper(mp, a, x)


_BY_A, _BY_A_TWICE = _by_a(1), _by_a(2)
file("gammainc", _GAMMA_POINTS, _lower, "d0 d1 d00 d01 d11", d1=_density, d01=_by_a_and_x, d0=_BY_A, d00=_BY_A_TWICE,
     d11=lambda mp, a, x: _density(mp, a, x) * ((a - 1) / x - 1))  # fmt: skip
file("gammaincc", _GAMMA_POINTS, _upper, "d0 d1 d00 d01", d1=lambda mp, a, x: -_density(mp, a, x),
     d0=lambda mp, a, x: -_BY_A(mp, a, x), d00=lambda mp, a, x: -_BY_A_TWICE(mp, a, x),
     d01=lambda mp, a, x: -_by_a_and_x(mp, a, x))  # fmt: skip


def _betainc(mp: Any, a: Any, b: Any, x: Any) -> Any:
    return _beta_lower(mp, a, b, x) if x * (a + b) < a else 1 + _beta_upper(mp, a, b, x)


def _beta_lower(mp: Any, a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _beta_upper(mp: Any, a: Any, b: Any, x: Any) -> Any:
    return -mp.betainc(b, a, 0, 1 - x, regularized=True)


def _by_parameters(n: int, m: int) -> Quantity:
    """Return the derivative by a and b of the smaller of the two tails."""
    lower, upper = _numeric(_beta_lower, (n, m, 0)), _numeric(_beta_upper, (n, m, 0))
    return lambda mp, a, b, x: (lower if x * (a + b) < a else upper)(mp, a, b, x)


def _beta_density(mp: Any, a: Any, b: Any, x: Any) -> Any:
    return mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) - _betaln(mp, a, b))


_BETA_POINTS = grid([0.01, 0.7, 1.0, 3.5, 40.0], [0.02, 0.6, 1.0, 5.5, 60.0], [1e-6, 0.05, 0.4, 0.7, 0.97]) + [
    (300.0, 500.0, x) for x in (0.3, 0.37, 0.38, 0.45)
]
file("betainc", _BETA_POINTS, _betainc, "d0 d1 d2 d00 d01 d02 d22", d2=_beta_density,
     d0=_by_parameters(1, 0), d1=_by_parameters(0, 1), d00=_by_parameters(2, 0), d01=_by_parameters(1, 1),
     d02=lambda mp, a, b, x: _beta_density(mp, a, b, x) * (mp.log(x) - _da(mp, a, b)),
     d22=lambda mp, a, b, x: _beta_density(mp, a, b, x) * ((a - 1) / x - (b - 1) / (1 - x)))  # fmt: skip

# ---------------------------------------------------------------- Bessel

_WIDE = both(1e-10, 0.01, 0.5, 1.0, 3.0, 7.0, 12.0, 25.0, 29.5, 30.5, 50.0, 100.0, 700.0)
for _n in (0, 1):
    file(f"i{_n}", _WIDE)
file("i0e", [*_WIDE, 1e4, 1e8])
file("i1e", [*_WIDE, 1e4, 1e8], labels="d0")


def _iv_slope(mp: Any, v: Any, x: Any) -> Any:
    return mp.re(mp.besseli(v - 1, x) + mp.besseli(v + 1, x)) / 2


def _iv_curve(mp: Any, v: Any, x: Any) -> Any:
    return mp.re(mp.besseli(v - 2, x) + 2 * mp.besseli(v, x) + mp.besseli(v + 2, x)) / 4


file("iv", grid([0.0, 0.3, 1.0, 2.5, 7.0, 24.5, 26.0, 80.0], [1e-3, 0.7, 5.0, 29.0, 31.0, 100.0, 600.0])
     + grid([0.0, 1.0, 2.0], [0.0, -0.5, -2.0]),
     lambda mp, v, x: mp.re(mp.besseli(v, x)), "d1 d11", d1=_iv_slope, d11=_iv_curve)  # fmt: skip
_OSCILLATING = [1e-8, 0.1, 1.0, 2.4, 5.0, 7.9, 8.1, 12.0, 25.0, 100.0, 1e3, 1e5]


def _j_slope(mp: Any, n: Any, x: Any) -> Any:
    return (mp.besselj(n - 1, x) - mp.besselj(n + 1, x)) / 2


def _j_curve(mp: Any, n: Any, x: Any) -> Any:
    return (mp.besselj(n - 2, x) - 2 * mp.besselj(n, x) + mp.besselj(n + 2, x)) / 4


for _n in (0, 1):
    file(f"j{_n}", both(*_OSCILLATING))
    file(f"y{_n}", _OSCILLATING)
file("jn", grid([2.0, 3.0, 10.0, 40.0], [1e-8, 0.1, 1.0, 2.9, 3.1, 9.0, 20.0, 39.0, 41.0, 200.0])
     + grid([-3.0, 7.0], [-9.0, -0.5, 3.5]),
     lambda mp, n, x: mp.besselj(n, x), "d1 d11", d1=_j_slope, d11=_j_curve)  # fmt: skip

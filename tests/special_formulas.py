"""The special functions by definition: sums, quadrature and the standard library.

Each takes NumPy arrays and numbers, and gives an array of float64. They are slow, and right to 1e-13 on the arguments
of the table alone.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_TURN = 2 * np.pi * np.arange(256) / 256
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_SHIFT = 12


def elementwise(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return ``f`` of numbers as a function of arrays."""
    return lambda *args, **settings: np.vectorize(lambda *at: f(*at, **settings), otypes=[np.float64])(*args)


def _integral(f: Callable[[np.ndarray], np.ndarray], end: float, panels: int = 6) -> float:
    """Return the integral of ``f`` from 0 to ``end``."""
    half = end / panels / 2
    nodes = (half * (_NODES + 1) + 2 * half * np.arange(panels)[:, None]).ravel()
    return float(half * np.sum(np.tile(_WEIGHTS, panels) * f(nodes)))


def _circle(radius: float, n: int) -> np.ndarray:
    """Return the points for the n-th derivative of a function: 0 for its value."""
    return radius * np.exp(2j * np.pi * np.arange(40) / 40) if n else np.zeros(1)


def _at_centre(values: np.ndarray, around: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th derivative at 0 from values on a circle.

    By Cauchy's integral, for an analytic function.
    """
    return math.factorial(n) * np.mean(values / around**n, axis=-1)


# ---------------------------------------------------------------- the error function's family


def _scaled_ierfc(x: float, n: int) -> float:
    """Return exp(x**2) times the n-fold integral of erfc from x to infinity."""
    end = math.sqrt(x * x + 45) - x
    return 2 / math.sqrt(math.pi) * _integral(lambda t: t**n / math.factorial(n) * np.exp(-t * t - 2 * x * t), end)


def _log_ndtr(x: float) -> float:
    tail = math.erfc(abs(x) / math.sqrt(2)) / 2
    return math.log(tail) if x < 0 else math.log1p(-tail)


def _sinc_derivative(x: float, n: int) -> float:
    """Return a derivative of sinc(x), the integral of cos(pi x t) over [0, 1]."""
    return _integral(lambda t: (np.pi * t) ** n * np.cos(np.pi * x * t + n * np.pi / 2), 1.0)


# ---------------------------------------------------------------- the gamma function's family


def _stirling(z: Any) -> Any:
    """Return the logarithm of gamma, for a real part that is not small."""
    tail = sum(b / (2 * k * (2 * k - 1)) * z ** (1 - 2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return (z - 0.5) * np.log(z) - z + math.log(2 * math.pi) / 2 + tail


def _over_gamma(z: Any) -> Any:
    """1 / gamma(z), of complex numbers."""
    z = np.asarray(z) + 0.0
    return np.prod(z[..., None] + np.arange(_SHIFT), axis=-1) * np.exp(-_stirling(z + _SHIFT))


def _digamma(x: float) -> float:
    far = x + _SHIFT
    tail = sum(b / (2 * k) * far ** (-2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return math.log(far) - 0.5 / far - tail - sum(1 / (x + k) for k in range(_SHIFT))


def _zeta(s: Any, q: float = 1.0) -> Any:
    """Return the sum of (q + k)**-s over k >= 0, by the Euler-Maclaurin formula."""
    far, rising = q + _SHIFT, s
    total = sum((q + k) ** -s for k in range(_SHIFT)) + far ** (1 - s) / (s - 1) + far**-s / 2
    for k, b in enumerate(_BERNOULLI, 1):
        total += b / math.factorial(2 * k) * rising * far ** (1 - s - 2 * k)
        rising = rising * (s + 2 * k - 1) * (s + 2 * k)
    return total


def _zeta_derivative(s: float, q: float, n: int) -> float:
    around = _circle((s - 1) / 3, n)
    return _at_centre(_zeta(s + around, q), around, n).real


def _polygamma(n: float, x: float) -> float:
    return -((-1) ** n) * math.gamma(n + 1) * _zeta(n + 1, x) if n else _digamma(x)


def _betaln(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


# ---------------------------------------------------------------- exponential integrals, Lambert's function

_EULER = 0.5772156649015329


def _exp1(x: float) -> float:
    if x > 2:
        return math.exp(-x) * _integral(lambda t: np.exp(-t) / (x + t), 45.0)
    return -_EULER - math.log(x) + _integral(lambda u: -np.expm1(-x * u) / u, 1.0)


def _expi(x: float) -> float:
    return -_exp1(-x) if x < 0 else _EULER + math.log(x) + _integral(lambda u: np.expm1(x * u) / u, 1.0)


def _lambertw(x: float, k: int = 0) -> float:
    """Return the solution by bisection."""
    low, high = (-1.0, 1 + math.log1p(max(0.0, x))) if k == 0 else (-50.0, -1.0)
    for _ in range(200):
        middle = (low + high) / 2
        if (middle * math.exp(middle) < x) == (k == 0):
            low = middle
        else:
            high = middle
    return middle


# ---------------------------------------------------------------- incomplete functions


def _summed(front: Any, quotient: Callable[[int], Any]) -> Any:
    """Return ``front`` times the sum of a series by the quotients of its terms.

    The first term is 1.
    """
    term, total, k = front, front, 0
    while np.any(abs(term) > 1e-18 * abs(total)):
        term = term * quotient(k)
        total, k = total + term, k + 1
    return total


def _gammainc(a: Any, x: float) -> Any:
    """Return x**a exp(-x) times the sum of x**k / gamma(a + k + 1).

    a: a number or complex numbers.
    """
    return _summed(x**a * math.exp(-x) * _over_gamma(a + 1), lambda k: x / (a + k + 1))


def _gammainc_by_a(a: float, x: float, n: int) -> float:
    around = _circle(1.0, n)
    return _at_centre(_gammainc(a + around, x), around, n).real


def _betainc(a: Any, b: Any, x: float) -> Any:
    """Return the incomplete beta integral by its series.

    x**a (1 - x)**b / (a beta(a, b)) times the sum of (a + b)_k / (a + 1)_k x**k, in Pochhammer's symbols.
    """
    front = x**a * (1 - x) ** b * _over_gamma(a + 1) * _over_gamma(b) / _over_gamma(a + b)
    return _summed(front, lambda k: (a + b + k) / (a + 1 + k) * x)


def _betainc_by_parameters(a: float, b: float, x: float, n: int, m: int) -> float:
    by_a, by_b = _circle(0.2, n), _circle(0.2, m)
    values = _betainc(a + by_a[:, None], b + by_b, x)
    return _at_centre(_at_centre(values, by_b, m), by_a, n).real


# ---------------------------------------------------------------- Bessel functions, by their integrals


def _mean(values: np.ndarray) -> float:
    """Return the mean over a period by the trapezoid rule, exact to rounding here."""
    return float(np.mean(values))


def _i(n: int, x: float, scaled: bool = False) -> float:
    return _mean(np.cos(n * _TURN) * np.exp(x * np.cos(_TURN) - (abs(x) if scaled else 0)))


def _jn(n: int, x: float) -> float:
    return _mean(np.cos(n * _TURN - x * np.sin(_TURN)))


def _y(n: int, x: float) -> float:
    waves = _integral(lambda t: np.sin(x * np.sin(t) - n * t), math.pi)
    fall = _integral(
        lambda t: (np.exp(n * t) + (-1) ** n * np.exp(-n * t)) * np.exp(-x * np.sinh(t)), math.asinh(45 / x)
    )
    return (waves - fall) / math.pi


def _hyp2f1(a: float, b: float, c: float, z: float) -> float:
    """Return the hypergeometric series, for abs(z) < 0.95."""
    terms = [1.0]
    for n in range(800):
        terms.append(terms[-1] * (a + n) * (b + n) / ((c + n) * (n + 1)) * z)
    return math.fsum(terms)


def _iv(v: float, x: float) -> float:
    """Return I by the power series, whose terms have one sign."""
    sign = -1 if x < 0 and v % 2 == 1 else 1
    return sign * _summed((abs(x) / 2) ** v / math.gamma(v + 1), lambda k: x * x / 4 / ((k + 1) * (k + 1 + v)))


def _decay_moment(x: float, k: int) -> float:
    falls = 1 - np.cos(_TURN)
    return _mean(falls**k * np.exp(-abs(x) * falls))


# ---------------------------------------------------------------- reductions


def logsumexp(x: Any, axis: Any = None, b: Any = 1.0, *, keepdims: bool = False) -> np.ndarray:
    return np.log(np.sum(b * np.exp(x), axis=axis, keepdims=keepdims))


def log_softmax(x: Any, axis: Any = None) -> np.ndarray:
    return x - logsumexp(x, axis, keepdims=True)


def softmax(x: Any, axis: Any = None) -> np.ndarray:
    return np.exp(log_softmax(x, axis))


def _bell(x: float, n: int, half: bool) -> float:
    """Return the n-th derivative by Rodrigues' formula.

    It is (-1)**n times a Hermite polynomial times the function.
    """
    evaluate = np.polynomial.hermite_e.hermeval if half else np.polynomial.hermite.hermval
    return (-1) ** n * evaluate(x, [0] * n + [1]) * math.exp(-x * x / (2 if half else 1))


_QUANTILE = NormalDist().inv_cdf
FORMULAS: dict[str, Callable[..., np.ndarray]] = {
    "logsumexp": logsumexp,
    "log_softmax": log_softmax,
    "softmax": softmax,
    **{
        name: elementwise(f)
        for name, f in {
            "erfc": math.erfc,
            "erfcx": lambda x: _scaled_ierfc(x, 0),
            "scaled_ierfc": _scaled_ierfc,
            "erfinv": lambda x: _QUANTILE((1 + x) / 2) / math.sqrt(2),
            "erfcinv": lambda x: -_QUANTILE(x / 2) / math.sqrt(2),
            "ndtr": lambda x: math.erfc(-x / math.sqrt(2)) / 2,
            "log_ndtr": _log_ndtr,
            "ndtri": _QUANTILE,
            "sinc": lambda x: _sinc_derivative(x, 0),
            "sinc_derivative": _sinc_derivative,
            "expit": lambda x: 1 / (1 + math.exp(-x)),
            "log_expit": lambda x: -math.log1p(math.exp(-x)),
            "logit": lambda x: math.log(x / (1 - x)),
            "entr": lambda x: -x * math.log(x),
            "xlogy": lambda x, y: x * math.log(y),
            "xlog1py": lambda x, y: x * math.log(1 + y),
            "rel_entr": lambda x, y: x * math.log(x / y),
            "kl_div": lambda x, y: x * math.log(x / y) - x + y,
            "gamma": math.gamma,
            "gammaln": math.lgamma,
            "digamma": _digamma,
            "polygamma": _polygamma,
            "polygamma_rise": lambda x, h, n: _polygamma(n, x + h) - _polygamma(n, x),
            "exp1": _exp1,
            "expi": _expi,
            "lambertw": _lambertw,
            "zeta": _zeta,
            "zeta_derivative": _zeta_derivative,
            "beta": lambda a, b: math.exp(_betaln(a, b)),
            "betaln": _betaln,
            "gammainc": _gammainc,
            "gammaincc": lambda a, x: 1 - _gammainc(a, x),
            "gammainc_by_a": _gammainc_by_a,
            "gamma_density": lambda a, x: math.exp((a - 1) * math.log(x) - x - math.lgamma(a)),
            "log_gamma_density": lambda a, x: (a - 1) * math.log(x) - x - math.lgamma(a),
            "log_digamma_gap": lambda z: math.log(z) - _digamma(z),
            "betainc": _betainc,
            "betainc_by_parameters": _betainc_by_parameters,
            "beta_density": lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / math.exp(_betaln(a, b)),
            "log_beta_density": lambda a, b, x: (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - _betaln(a, b),
            "i0": lambda x: _i(0, x),
            "i1": lambda x: _i(1, x),
            "i0e": lambda x: _i(0, x, scaled=True),
            "i1e": lambda x: _i(1, x, scaled=True),
            "decay_moment": _decay_moment,
            "iv": _iv,
            "hyp2f1": _hyp2f1,
            "bell": _bell,
            "edge_log": math.log,
            "jn": _jn,
            "j0": lambda x: _jn(0, x),
            "j1": lambda x: _jn(1, x),
            "y0": lambda x: _y(0, x),
            "y1": lambda x: _y(1, x),
        }.items()
    },
}

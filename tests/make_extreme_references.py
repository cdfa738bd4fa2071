"""Make the references of ``test_extreme_values.py`` with mpmath.

``python tests/make_extreme_references.py > tests/extreme_references.json``. Nothing else needs mpmath.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 700  # 1 + 1e-310 is not 1

Formula = Callable[[Any], Any]
Three = tuple[Formula, Formula, Formula]

TINY = {"float64": (5e-324, 1e-310, -1e-310, 1e-300, -1e-300), "float32": (1e-45, 1e-40, -1e-40, 1e-37, -1e-37)}
HUGE = {"float64": (1e300, -1e300, 1e160, -1e160), "float32": (1e38, -1e38, 1e20, -1e20)}
MIDDLE = (0.0, 1.0, -1.0, 0.5)

_tau = 2 / mp.sqrt(mp.pi)
_phi = 1 / mp.sqrt(2 * mp.pi)


def _bell(x: Any) -> Any:
    return mp.exp(-x * x)


def _density(x: Any) -> Any:
    return _phi * mp.exp(-x * x / 2)


def _expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def _tail(x: Any) -> Any:
    return mp.exp(-abs(x)) / (1 + mp.exp(-abs(x))) ** 2


def _sech2(x: Any) -> Any:
    return 4 * mp.exp(-2 * abs(x)) / (1 + mp.exp(-2 * abs(x))) ** 2


def _tanh(x: Any) -> Any:
    return mp.sign(x) * (1 - mp.exp(-2 * abs(x))) / (1 + mp.exp(-2 * abs(x)))


# name: the function, its derivative, its second derivative; and where it is defined
FUNCTIONS: dict[str, tuple[Three, Callable[[float], bool]]] = {
    "exp": ((mp.exp, mp.exp, mp.exp), lambda x: abs(x) < 1e3),
    "expm1": ((mp.expm1, mp.exp, mp.exp), lambda x: abs(x) < 1e3),
    "log": ((mp.log, lambda x: 1 / x, lambda x: -1 / x**2), lambda x: x > 0),
    "log1p": ((mp.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2), lambda x: x > -1),
    "log2": (
        (lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2)), lambda x: -1 / (x**2 * mp.log(2))),
        lambda x: x > 0,
    ),
    "log10": ((mp.log10, lambda x: 1 / (x * mp.log(10)), lambda x: -1 / (x**2 * mp.log(10))), lambda x: x > 0),
    "sin": ((mp.sin, mp.cos, lambda x: -mp.sin(x)), lambda x: abs(x) < 1e3),
    "cos": ((mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x)), lambda x: abs(x) < 1e3),
    "tan": (
        (mp.tan, lambda x: 1 + mp.tan(x) ** 2, lambda x: 2 * mp.tan(x) * (1 + mp.tan(x) ** 2)),
        lambda x: abs(x) < 1e3,
    ),
    "asin": (
        (mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: x / mp.sqrt(1 - x * x) ** 3),
        lambda x: abs(x) < 1,
    ),
    "atan": ((mp.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2), lambda x: True),
    "sinh": ((mp.sinh, mp.cosh, mp.sinh), lambda x: abs(x) < 1e3),
    "cosh": ((mp.cosh, mp.sinh, mp.cosh), lambda x: abs(x) < 1e3),
    "tanh": ((_tanh, _sech2, lambda x: -2 * _tanh(x) * _sech2(x)), lambda x: True),
    "asinh": (
        (mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), lambda x: -x / mp.sqrt(1 + x * x) ** 3),
        lambda x: True,
    ),
    "acosh": (
        (mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1), lambda x: -x / mp.sqrt(x * x - 1) ** 3),
        lambda x: x > 1,
    ),
    "atanh": ((mp.atanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2), lambda x: abs(x) < 1),
    "sqrt": ((mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * mp.sqrt(x) ** 3)), lambda x: x > 0),
    "square": ((lambda x: x * x, lambda x: 2 * x, lambda x: mp.mpf(2)), lambda x: True),
    "reciprocal": ((lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3), lambda x: x != 0),
    "abs": ((abs, mp.sign, lambda x: mp.mpf(0)), lambda x: x != 0),
    "sigmoid": (
        (_expit, _tail, lambda x: -mp.sign(x) * _tail(x) * (1 - mp.exp(-abs(x))) / (1 + mp.exp(-abs(x)))),
        lambda x: True,
    ),
    "special.expit": (
        (_expit, _tail, lambda x: -mp.sign(x) * _tail(x) * (1 - mp.exp(-abs(x))) / (1 + mp.exp(-abs(x)))),
        lambda x: True,
    ),
    "special.log_expit": (
        (lambda x: min(x, mp.mpf(0)) - mp.log1p(mp.exp(-abs(x))), lambda x: _expit(-x), lambda x: -_tail(x)),
        lambda x: True,
    ),
    "special.logit": (
        (
            lambda x: mp.log(x) - mp.log1p(-x),
            lambda x: 1 / (x * (1 - x)),
            lambda x: (2 * x - 1) / (x * (1 - x)) ** 2,
        ),
        lambda x: 0 < x < 1,
    ),
    "special.erf": ((mp.erf, lambda x: _tau * _bell(x), lambda x: -2 * x * _tau * _bell(x)), lambda x: abs(x) < 1e21),
    "special.erfc": ((mp.erfc, lambda x: -_tau * _bell(x), lambda x: 2 * x * _tau * _bell(x)), lambda x: abs(x) < 1e21),
    "special.ndtr": ((mp.ncdf, _density, lambda x: -x * _density(x)), lambda x: abs(x) < 1e21),
    "special.entr": ((lambda x: -x * mp.log(x), lambda x: -mp.log(x) - 1, lambda x: -1 / x), lambda x: x > 0),
    "special.sinc": (
        (
            lambda x: mp.sincpi(x),
            lambda x: mp.mpf(0) if x == 0 else (mp.cospi(x) - mp.sincpi(x)) / x,
            lambda x: (
                -(mp.pi**2) / 3 if x == 0 else -(mp.pi**2) * mp.sincpi(x) - 2 * (mp.cospi(x) - mp.sincpi(x)) / x**2
            ),
        ),
        lambda x: abs(x) < 1e3,
    ),
    "special.gammaln": (
        (
            lambda x: mp.log(abs(mp.gamma(x))) if abs(x) < 100 else mp.loggamma(x),
            lambda x: mp.digamma(x),
            lambda x: mp.polygamma(1, x),
        ),
        lambda x: x > 0,
    ),
    "special.digamma": ((mp.digamma, lambda x: mp.polygamma(1, x), lambda x: mp.polygamma(2, x)), lambda x: x > 0),
    "special.i0": (
        (lambda x: mp.besseli(0, x), lambda x: mp.besseli(1, x), lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2),
        lambda x: abs(x) < 1e3,
    ),
    "special.i1": (
        (
            lambda x: mp.besseli(1, x),
            lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2,
            lambda x: (3 * mp.besseli(1, x) + mp.besseli(3, x)) / 4,
        ),
        lambda x: abs(x) < 1e3,
    ),
    "special.j0": (
        (lambda x: mp.besselj(0, x), lambda x: -mp.besselj(1, x), lambda x: (mp.besselj(2, x) - mp.besselj(0, x)) / 2),
        lambda x: abs(x) < 1e3,
    ),
    "special.j1": (
        (
            lambda x: mp.besselj(1, x),
            lambda x: (mp.besselj(0, x) - mp.besselj(2, x)) / 2,
            lambda x: (mp.besselj(3, x) - 3 * mp.besselj(1, x)) / 4,
        ),
        lambda x: abs(x) < 1e3,
    ),
}


def rows(name: str, dtype: str) -> list[list[Any]]:
    three, inside = FUNCTIONS[name]
    points = [*MIDDLE, *TINY[dtype], *HUGE[dtype]]
    found = []
    for point in points:
        exact = float(np.dtype(dtype).type(point))
        if inside(exact):
            values = [np.dtype(dtype).type(float(mp.re(f(mp.mpf(exact))))) for f in three]
            found.append([point, *[float(v) for v in values]])
    return found


def main() -> None:
    lines = []
    for name in FUNCTIONS:
        for dtype in ("float64", "float32"):
            print(name, dtype, file=sys.stderr)
            with np.errstate(over="ignore"):
                body = ",\n".join(json.dumps(row) for row in rows(name, dtype))
            lines.append(f"{json.dumps(f'{name} {dtype}')}: [\n{body}\n]")
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()

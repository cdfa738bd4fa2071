"""Make coefficients and reference values of special functions with mpmath.

``python tests/make_special_tables.py coefficients > agrad/ops/special/coefficients.py``,
``python tests/make_special_tables.py references > tests/special_references.json`` and
``python tests/make_special_tables.py digits > tests/digit_references.json``. Nothing else needs mpmath.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import digit_points
import mpmath as mp
import numpy as np
from special_points import REFERENCES

mp.mp.dps = 40

HEAD = '''"""Chebyshev coefficients for the generic special functions: by ``tests/make_special_tables.py``, with mpmath.

Each tuple is the interpolant at the Chebyshev points of the function and the interval that its comment names, the
constant term first, cut where the terms fall below 1e-18.
"""
'''


def chebyshev(f: Callable[[Any], Any], low: Any, high: Any, degree: int) -> list[Any]:
    """Return the coefficients of the interpolation of ``f`` at Chebyshev points.

    The points are those of [low, high].
    """
    n = degree + 1
    angles = [mp.pi * (mp.mpf(k) + mp.mpf(1) / 2) / n for k in range(n)]
    values = [f((low + high) / mp.mpf(2) + (high - low) / mp.mpf(2) * mp.cos(a)) for a in angles]
    found = [2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n for j in range(n)]
    found[0] /= 2
    while abs(found[-1]) < mp.mpf("1e-18"):
        found.pop()
    assert len(found) < n - 2, "the degree is too low"
    return found


def _hankel(order: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return P and Q of the Hankel expansion, by u = (8 / x)**2.

    J = sqrt(2 / (pi x)) (P cos c - Q sin c), c = x - (order / 2 + 1 / 4) pi.

    Q is given times x. Abramowitz and Stegun 9.2.5 and 9.2.6.
    """

    def both(u: Any) -> tuple[Any, Any]:
        x = 8 / mp.sqrt(u)
        phase = x - mp.pi * (mp.mpf(order) / 2 + mp.mpf(1) / 4)
        size = mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        return (size * (j * mp.cos(phase) + y * mp.sin(phase)), x * size * (y * mp.cos(phase) - j * mp.sin(phase)))

    return lambda u: both(u)[0], lambda u: both(u)[1]


def tables() -> Iterator[tuple[str, str, list[Any]]]:
    root = mp.findroot(mp.digamma, 1.4616)
    yield (
        "GAMMALN",
        "log(gamma(z)) / ((z - 1) (z - 2)) on 1.5 <= z <= 2.5",
        chebyshev(lambda z: mp.loggamma(z) / ((z - 1) * (z - 2)) if z != 2 else 1 - mp.euler, 1.5, 2.5, 30),
    )
    yield (
        "DIGAMMA",
        "digamma(z) / (z - DIGAMMA_ROOT) on 1 <= z <= 2",
        chebyshev(lambda z: mp.digamma(z) / (z - root), 1, 2, 40),
    )
    yield ("J0", "j0(x) by x**2 on 0 <= x <= 8", chebyshev(lambda s: mp.besselj(0, mp.sqrt(s)), 0, 64, 40))
    yield (
        "J1",
        "j1(x) / x by x**2 on 0 <= x <= 8",
        chebyshev(lambda s: mp.besselj(1, mp.sqrt(s)) / mp.sqrt(s), 0, 64, 40),
    )
    yield (
        "Y0",
        "y0(x) - 2 / pi log(x) j0(x) by x**2 on 0 <= x <= 8",
        chebyshev(lambda s: mp.bessely(0, mp.sqrt(s)) - mp.log(s) / mp.pi * mp.besselj(0, mp.sqrt(s)), 0, 64, 40),
    )

    def y1_rest(s: Any) -> Any:
        x = mp.sqrt(s)
        return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x

    yield "Y1", "(y1(x) - 2 / pi (log(x) j1(x) - 1 / x)) / x by x**2 on 0 <= x <= 8", chebyshev(y1_rest, 0, 64, 40)
    for order in (0, 1):
        p, q = _hankel(order)
        yield f"P{order}", f"Hankel's P of order {order} by (8 / x)**2, x >= 8", chebyshev(p, 0, 1, 50)
        yield f"Q{order}", f"Hankel's Q of order {order} times x by (8 / x)**2, x >= 8", chebyshev(q, 0, 1, 50)


def coefficients() -> None:
    print(HEAD)
    root = mp.findroot(mp.digamma, 1.4616)
    print("# the positive root of digamma, as the sum of two floats")
    print(f"DIGAMMA_ROOT = ({float(root)!r}, {float(root - mp.mpf(float(root)))!r})")
    for name, what, values in tables():
        print(f"\n# {what}\n{name} = (")
        for start in range(0, len(values), 4):
            print("    " + " ".join(f"{float(v)!r}," for v in values[start : start + 4]))
        print(")  # fmt: skip")


def references() -> None:
    out = {}
    for name, (points, quantities) in REFERENCES.items():
        print(name, file=sys.stderr)
        rows = []
        for point in points:
            args = [mp.mpf(p) for p in point]
            rows.append([list(point), {label: float(f(mp, *args)) for label, f in quantities.items()}])
        out[name] = rows
    lines = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]" for name, rows in out.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


def digits() -> None:
    out = []
    for name in digit_points.FORMULAS:
        print(name, file=sys.stderr)
        rows = []
        for x in digit_points.points(name, lambda x: float(np.float32(x))):
            found = [f"{slope:.15g}" for slope in digit_points.derivatives(mp, name, x)]
            rows.append(f"[{', '.join([repr(x), *found])}]".replace("inf", "Infinity"))
        out.append(f"{json.dumps(name)}: [\n" + ",\n".join(rows) + "\n]")
    print("{\n" + ",\n".join(out) + "\n}")


if __name__ == "__main__":
    {"coefficients": coefficients, "references": references, "digits": digits}[sys.argv[1]]()

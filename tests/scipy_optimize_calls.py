"""Calls of ``scipy.optimize``, whose derivatives are those of the solutions."""

from typing import Any

import numpy as np
from scipy_calls import Calls

CALLS = Calls("optimize")
add = CALLS.add
_X = np.linspace(0.0, 3.0, 8)
_Y = 2.0 * np.exp(-0.7 * _X) + 0.05 * np.cos(9 * _X)
_A = np.asarray([0.5, 1.5, -1.0])
_HOW: dict[str, Any] = {"traced": False, "rtol": 1e-5}
_TIGHT: dict[str, Any] = {"method": "trf", "ftol": None, "xtol": 1e-15, "gtol": 1e-15}


def _quartic(x: Any, a: Any) -> Any:
    return ((x - a) ** 2).sum() + ((x * a - 1) ** 4).sum()


def _decay(x: Any, size: Any, rate: Any) -> Any:
    return size * np.exp(-rate * x)


def _residuals(p: Any, x: Any, y: Any) -> Any:
    return _decay(x, p[0], p[1]) - y


def _system(x: Any, a: Any) -> Any:
    return x**3 + x * (a * a).sum() - a


def _cubic(x: Any, a: Any) -> Any:
    return x**3 + x - a


def _array(root: Any) -> Any:
    return np.asarray([root]) if isinstance(root, float) else root


_START = [1.0, 1.0, 1.0]
add("minimize", lambda m, a: m.minimize(_quartic, _START, (a,), "BFGS", options={"gtol": 1e-9}).x, _A, **_HOW)
add(
    "minimize bounds",
    lambda m, a: m.minimize(_quartic, _START, args=(a,), bounds=[(0.9, 1.1), (None, 1), (-2, None)], tol=1e-13).x,
    _A,
    **_HOW,
)
add("root", lambda m, a: m.root(_system, _START, args=(a,), tol=1e-12).x, _A, **_HOW)
add(
    "root_scalar", lambda m, a: _array(m.root_scalar(_cubic, (a,), bracket=[-3.0, 3.0], xtol=1e-14).root),
    np.asarray(0.8), **_HOW,
)  # fmt: skip
add("least_squares", lambda m, x, y: m.least_squares(_residuals, [1.0, 1.0], args=(x, y), **_TIGHT).x, _X, _Y, **_HOW)
add(
    "least_squares loss",
    lambda m, x, y: m.least_squares(_residuals, [1.0, 1.0], args=(x, y), loss="soft_l1", f_scale=1.0, **_TIGHT).x, _X,
    _Y, **_HOW,
)  # fmt: skip
add("curve_fit", lambda m, x, y: m.curve_fit(_decay, x, y, **_TIGHT)[0], _X, _Y, **_HOW)
add(
    "curve_fit sigma", lambda m, x, y, s: m.curve_fit(_decay, x, y, [1.0, 1.0], s, True, **_TIGHT)[0], _X, _Y,
    np.linspace(0.1, 0.3, 8), **_HOW,
)  # fmt: skip

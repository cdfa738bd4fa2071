"""Calls of ``scipy.optimize``, whose derivatives are those of the solutions."""

from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from scipy_calls import Calls

CALLS = Calls("optimize")
_X = np.linspace(0.0, 3.0, 8)
_Y = 2.0 * np.exp(-0.7 * _X) + 0.05 * np.cos(9 * _X)
_A = np.asarray([0.5, 1.5, -1.0])
plain = partial(CALLS.plain, how={"traced": False, "rtol": 1e-5})
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


def _root(found: Any) -> Any:
    return np.asarray([found.root]) if isinstance(found.root, float) else found.root


_START, _ONES, _solution, _first = [1.0, 1.0, 1.0], [1.0, 1.0], attrgetter("x"), itemgetter(0)
_BOUNDS = [(0.9, 1.1), (None, 1), (-2, None)]
plain("minimize", "", _quartic, _START, (_A,), "BFGS", options={"gtol": 1e-9}, then=_solution)
plain("minimize", "bounds", _quartic, _START, args=(_A,), bounds=_BOUNDS, tol=1e-13, then=_solution)
plain("fsolve", "", _system, _START, (_A,), xtol=1e-12)
plain("root", "", _system, _START, args=(_A,), tol=1e-12, then=_solution)
plain("root_scalar", "", _cubic, (np.asarray(0.8),), bracket=[-3.0, 3.0], xtol=1e-14, then=_root)
_fitted = partial(plain, "least_squares", args=(_X, _Y), then=_solution, **_TIGHT)
_fitted("", _residuals, _ONES)
_fitted("loss", _residuals, _ONES, loss="soft_l1", f_scale=1.0)
plain("curve_fit", "", _decay, _X, _Y, **_TIGHT, then=_first)
plain("curve_fit", "sigma", _decay, _X, _Y, _ONES, np.linspace(0.1, 0.3, 8), True, **_TIGHT, then=_first)

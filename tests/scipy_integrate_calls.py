"""Calls of ``scipy.integrate``."""

from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from scipy_calls import FIRST, Calls

CALLS = Calls("integrate")
plain = CALLS.plain
_rng = np.random.default_rng(5)
_Y, _X = _rng.normal(size=(3, 5)), np.sort(_rng.uniform(0, 3, 5))
_Y6, _X6 = _rng.normal(size=(2, 6)), np.cumsum(_rng.uniform(0.2, 1, (2, 6)), axis=1)
_D = np.asarray(0.3)
_SAMPLED = "trapezoid cumulative_trapezoid simpson cumulative_simpson"
plain(_SAMPLED, "", _Y)
plain(_SAMPLED, "places", _Y, x=_X)
plain(_SAMPLED, "even", _Y6, x=_X6)
plain(_SAMPLED, "step", _Y6, dx=0.3)
plain(_SAMPLED, "axis", _Y6.T, x=_X6.T, axis=0)
plain(_SAMPLED, "complex", _Y + 1j * _Y[::-1], x=_X)
plain(_SAMPLED, "two", _Y[:, :2], x=_X[:2])
plain("trapezoid", "by step", _Y, dx=_D)
plain("simpson", "by step", _Y6, dx=_D)
plain("simpson", "falling", _Y, x=_X[::-1].copy())
plain("cumulative_trapezoid", "initial", _Y, _X, initial=0, axis=1)
plain("cumulative_simpson", "initial", _Y, x=_X, initial=0.5)
plain("cumulative_simpson", "initial axis", _Y, dx=0.1, axis=0, initial=0)
plain("romb", "", _Y, _D)
plain("romb", "axis", _rng.normal(size=(9, 2)), axis=0)
plain("romb", "two", _Y[:, :2], 0.5)


def _oscillator(t: Any, y: Any, k: Any) -> Any:
    return y[::-1] * k - 0.1 * y * t


_TIGHT: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-12}
_SLOW: dict[str, Any] = {"traced": False, "rtol": 1e-8, "slow": True}
_Y0, _K, _ys = np.asarray([1.0, 0.3]), np.asarray([1.0, -2.0]), attrgetter("y")
_solved = partial(plain, "solve_ivp", how=_SLOW, **_TIGHT)
_solved("", _oscillator, (0.0, 0.6), _Y0, t_eval=[0.0, 0.2, 0.6], args=(_K,), then=_ys)
_solved("back", _oscillator, (0.6, 0.2), _Y0, t_eval=[0.5, 0.3], args=(_K,), then=_ys, how=_SLOW | FIRST)
_solved("end", lambda t, y: -y * y, (0.0, 0.5), _Y0, then=lambda found: found.y[:, -1])
_stepped = partial(plain, "odeint", how=_SLOW | FIRST, **_TIGHT)
_stepped("", lambda y, t, k: _oscillator(t, y, k), _Y0, [0.0, 0.2, 0.6], args=(_K,))
_stepped("sequence", lambda t, y, k: [y[1] * k, -y[0]], _Y0, [0.4, 0.1], args=(np.asarray(_K[0]),), tfirst=True)
_first, _A, _B, _C = itemgetter(0), *map(np.asarray, (0.3, 2.1, 1.7))
_bell = lambda x, k: 1 / (k + x * x)  # noqa: E731
plain("fixed_quad", "", lambda x: x**3 / (1 + x * x), _A, _C, then=_first)
_LINES = lambda x, k: k[:, None] * x**2 * (x + k[:, None])  # noqa: E731
plain("fixed_quad", "arguments", _LINES, _A, 2.0, args=(np.asarray([0.5, 1.5]),), n=4, then=_first)
plain("fixed_quad", "complex", lambda x, k: k * x**3, 0.5, 2.0, args=(np.asarray(0.5 - 1.5j),), n=3, then=_first)
_integral = partial(plain, "quad", then=_first, how={"mapped": False, "traced": False, "rtol": 1e-9})
_integral("", lambda x, k: x**2.5 * k, _A, _B, args=(_C,))
_integral("back", lambda x, k: x * x / (k + x), _B, 0, _C)
_integral("infinite", _bell, _A, np.inf, _C)
_integral("from infinity", lambda x, k: k**x, -np.inf, _A, _C)
_integral("whole line", _bell, -np.inf, np.inf, _C)
_integral("points", lambda x, k: abs(x - 1.0) * k, 0.0, 3.0, _C, points=[1.0, 2.0])
_integral("complex", lambda x, k: 2.0 ** (k * x), 0.0, 3.0, np.asarray(0.7 + 0.4j), complex_func=True)

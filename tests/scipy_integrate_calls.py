"""Calls of ``scipy.integrate``."""

from typing import Any

import numpy as np
from scipy_calls import Calls

CALLS = Calls("integrate")
add = CALLS.add
_rng = np.random.default_rng(5)
_Y, _X = _rng.normal(size=(3, 5)), np.sort(_rng.uniform(0, 3, 5))
_Y6, _X6 = _rng.normal(size=(2, 6)), np.cumsum(_rng.uniform(0.2, 1, (2, 6)), axis=1)
_D = np.asarray(0.3)
for _name in ("trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson"):
    add(_name, lambda m, y, f=_name: getattr(m, f)(y), _Y)
    add(f"{_name} places", lambda m, y, x, f=_name: getattr(m, f)(y, x=x), _Y, _X)
    add(f"{_name} even", lambda m, y, x, f=_name: getattr(m, f)(y, x=x), _Y6, _X6)
    add(f"{_name} step", lambda m, y, f=_name: getattr(m, f)(y, dx=0.3), _Y6)
    add(f"{_name} axis", lambda m, y, x, f=_name: getattr(m, f)(y, x=x, axis=0), _Y6.T, _X6.T)
    add(f"{_name} complex", lambda m, y, x, f=_name: getattr(m, f)(y, x=x), _Y + 1j * _Y[::-1], _X)
    add(f"{_name} two", lambda m, y, x, f=_name: getattr(m, f)(y, x=x), _Y[:, :2], _X[:2])
add("trapezoid by step", lambda m, y, d: m.trapezoid(y, dx=d), _Y, _D)
add("simpson by step", lambda m, y, d: m.simpson(y, dx=d), _Y6, _D)
add("simpson falling", lambda m, y, x: m.simpson(y, x=x), _Y, _X[::-1].copy())
add("cumulative_trapezoid initial", lambda m, y, x: m.cumulative_trapezoid(y, x, initial=0, axis=1), _Y, _X)
add("cumulative_simpson initial", lambda m, y, x: m.cumulative_simpson(y, x=x, initial=0.5), _Y, _X)
add("cumulative_simpson initial axis", lambda m, y: m.cumulative_simpson(y, dx=0.1, axis=0, initial=0), _Y)
add("romb", lambda m, y, d: m.romb(y, d), _Y, _D)
add("romb axis", lambda m, y: m.romb(y, axis=0), _rng.normal(size=(9, 2)))
add("romb two", lambda m, y: m.romb(y, 0.5), _Y[:, :2])
add("fixed_quad", lambda m, a, b: m.fixed_quad(lambda x: x**3 / (1 + x * x), a, b)[0], _D, np.asarray(1.7))
add(
    "fixed_quad arguments",
    lambda m, a, k: m.fixed_quad(lambda x, k: k[:, None] * x**2 * (x + k[:, None]), a, 2.0, args=(k,), n=4)[0],
    _D,
    np.asarray([0.5, 1.5]),
)
add(
    "fixed_quad complex",
    lambda m, k: m.fixed_quad(lambda x, k: k * x**3, 0.5, 2.0, args=(k,), n=3)[0],
    np.asarray(0.5 - 1.5j),
)


def _oscillator(t: Any, y: Any, k: Any) -> Any:
    return y[::-1] * k - 0.1 * y * t


_TIGHT = {"rtol": 1e-11, "atol": 1e-12}
_Y0, _K = np.asarray([1.0, 0.3]), np.asarray([1.0, -2.0])
add(
    "solve_ivp",
    lambda m, y, k: m.solve_ivp(_oscillator, (0.0, 0.6), y, t_eval=[0.0, 0.2, 0.6], args=(k,), **_TIGHT).y,
    _Y0, _K, traced=False, rtol=1e-8, slow=True,
)  # fmt: skip
add(
    "solve_ivp back",
    lambda m, y, k: m.solve_ivp(_oscillator, (0.6, 0.2), y, t_eval=[0.5, 0.3], args=(k,), **_TIGHT).y,
    _Y0, _K, traced=False, order=1, rtol=1e-8, slow=True,
)  # fmt: skip
add(
    "solve_ivp end",
    lambda m, y: m.solve_ivp(lambda t, y: -y * y, (0.0, 0.5), y, **_TIGHT).y[:, -1],
    _Y0, traced=False, rtol=1e-8, slow=True,
)  # fmt: skip

add(
    "odeint",
    lambda m, y, k: m.odeint(lambda y, t, k: _oscillator(t, y, k), y, [0.0, 0.2, 0.6], args=(k,), **_TIGHT),
    _Y0, _K, traced=False, order=1, rtol=1e-8, slow=True,
)  # fmt: skip
add(
    "odeint sequence",
    lambda m, y, k: m.odeint(lambda t, y, k: [y[1] * k, -y[0]], y, [0.4, 0.1], args=(k,), tfirst=True, **_TIGHT),
    _Y0, _K[0], traced=False, order=1, rtol=1e-8, slow=True,
)  # fmt: skip
_quad = {"mapped": False, "traced": False, "rtol": 1e-9}
add(
    "quad", lambda m, a, b, k: m.quad(lambda x, k: x**2.5 * k, a, b, args=(k,))[0], *map(np.asarray, (0.3, 2.1, 1.7)),
    **_quad,
)  # fmt: skip
add(
    "quad back", lambda m, b, k: m.quad(lambda x, k: x * x / (k + x), b, 0, k)[0], *map(np.asarray, (2.1, 1.7)), **_quad
)
add(
    "quad infinite", lambda m, a, k: m.quad(lambda x, k: 1 / (k + x * x), a, np.inf, k)[0],
    *map(np.asarray, (0.3, 1.7)), **_quad,
)  # fmt: skip
add(
    "quad from infinity", lambda m, b, k: m.quad(lambda x, k: k**x, -np.inf, b, k)[0], *map(np.asarray, (0.3, 1.7)),
    **_quad,
)  # fmt: skip
add(
    "quad whole line", lambda m, k: m.quad(lambda x, k: 1 / (k + x * x), -np.inf, np.inf, k)[0], np.asarray(1.7),
    **_quad,
)  # fmt: skip
add(
    "quad points", lambda m, k: m.quad(lambda x, k: abs(x - 1.0) * k, 0.0, 3.0, k, points=[1.0, 2.0])[0],
    np.asarray(1.7), **_quad,
)  # fmt: skip
add(
    "quad complex", lambda m, k: m.quad(lambda x, k: 2.0 ** (k * x), 0.0, 3.0, k, complex_func=True)[0],
    np.asarray(0.7 + 0.4j), **_quad,
)  # fmt: skip

"""Calls of ``scipy.interpolate``: an interpolator is made and called in one."""

from functools import partial
from typing import Any

import numpy as np
from scipy_calls import Calls

import agrad
from agrad.scipy.shared import function

CALLS = Calls("interpolate")
add, plain = CALLS.add, CALLS.plain


@function
def _ring(y: Any) -> Any:
    """Return values that end as they begin."""
    y = agrad.asarray(y)
    return agrad.concat([y, y[:1]])


def _at(names: str, label: str, *inputs: Any, how: Any = (), call: tuple[Any, ...] = (), **settings: Any) -> None:
    """File calls of what is made of all inputs but the last, at the last; ``call``: more that is given there."""
    for name in names.split():
        add(f"{name} {label}".strip(), partial(_called, name, settings, call), *inputs, **dict(how))


def _called(name: str, settings: dict[str, Any], call: tuple[Any, ...], m: Any, *xs: Any) -> Any:
    return getattr(m, name)(*xs[:-1], **settings)(xs[-1], *call)


_SMOOTHED = {"rtol": 1e-8, "slow": True}
_rng = np.random.default_rng(7)
_X = np.asarray([0.1, 0.8, 1.3, 2.4, 3.0, 4.1])
_Y, _Y2 = _rng.normal(size=6), _rng.normal(size=(2, 6))
_T = np.asarray([[0.3, 1.0], [2.9, 3.6]])
_OUT = np.asarray([-0.7, 1.7, 5.2])
_MONOTONE = np.asarray([0.0, 0.4, 0.5, 0.3, -0.6, -0.9])
_SPLINES = "CubicSpline PchipInterpolator Akima1DInterpolator"
_at("CubicSpline Akima1DInterpolator interp1d", "", _X, _Y, _T)
_at(_SPLINES, "axis", _X, _Y2, _T, axis=1)
_at("CubicSpline", "beyond", _X, _Y, _OUT, bc_type="natural")
_at("CubicSpline", "clamped", _X, _Y, _T, bc_type="clamped", call=(1,))
_at("CubicSpline interp1d", "complex", _X, _Y + 1j * _Y[::-1], _T)
_at("CubicSpline PchipInterpolator", "two", _X[:2], _Y[:2], _T)
_at("CubicSpline", "three", _X[:3], _Y[:3], _T)
add("CubicSpline periodic", lambda m, x, y, t: m.CubicSpline(x, _ring(y), bc_type="periodic")(t), _X, _Y[:5], _OUT)
add(
    "CubicSpline conditions",
    lambda m, x, y, a, b, t: m.CubicSpline(x, y, bc_type=((1, a), (2, b)), axis=1)(t),
    _X, _Y2, np.asarray([0.3, -1.0]), np.asarray([0.2, 2.0]), _T,
)  # fmt: skip
add("CubicSpline derivative", lambda m, x, y, t: m.CubicSpline(x, y).derivative(2)(t), _X, _Y, _T)
add("CubicSpline antiderivative", lambda m, x, y, t: m.CubicSpline(x, y).antiderivative()(t), _X, _Y, _T)
add("CubicSpline integrate", lambda m, x, y, t: m.CubicSpline(x, y, axis=1).integrate(t[0], t[1]), _X, _Y2, _OUT)
add(
    "CubicSpline integrate periods",
    lambda m, x, y, t: m.CubicSpline(x, _ring(y), bc_type="periodic").integrate(t[0], t[2]),
    _X, _Y[:5], _OUT * 2,
)  # fmt: skip
add("CubicSpline nodes", lambda m, x, y: m.CubicSpline(x, y)(x), _X, _Y, order=0)
_at("PchipInterpolator", "", _X, _MONOTONE, _T)
add("PchipInterpolator slope", lambda m, x, y, t: m.PchipInterpolator(x, y)(t, nu=1), _X, np.exp(-_X), _OUT)
_at("PchipInterpolator", "three", _X[:3], _MONOTONE[:3], _T)
_at("Akima1DInterpolator", "modified", _X, _Y, _OUT, method="makima", extrapolate=True)
_at("Akima1DInterpolator", "three", _X[:3], _Y[:3], _T[0])
_at("CubicHermiteSpline", "", _X, _Y, _Y[::-1].copy(), _T)
_at("CubicHermiteSpline", "periodic", _X, _Y2, _Y2[::-1].copy(), _OUT, axis=-1, extrapolate="periodic")
_C = _rng.normal(size=(3, 5, 2))
_at("PPoly", "", _C, _X, _T)
_at("PPoly", "axis", np.moveaxis(_C, 2, 0).copy(), _X, _T, axis=1)
_at("PPoly", "complex", _C + 1j * _C[::-1], _X, _T, call=(1,))
add("PPoly antiderivative", lambda m, c, x, t: m.PPoly(c, x).antiderivative(2)(t), _C, _X, _OUT)
add("PPoly coefficients", lambda m, x, y: m.CubicSpline(x, y).derivative().c, _X, _Y)
_at("interp1d", "axis", _X, _Y2.T.copy(), _T, axis=0)
_at("interp1d", "falling", _X[::-1].copy(), _Y2, _T)
_at("interp1d", "beyond", _X, _Y2, _OUT, fill_value="extrapolate", assume_sorted=True)
add(
    "interp1d filled",
    lambda m, x, y, a, t: m.interp1d(x, y, bounds_error=False, fill_value=(a, 7.0))(t),
    _X, _Y2, np.asarray([0.5, -2.0]), _OUT,
)  # fmt: skip
for _kind in ("nearest", "nearest-up", "previous", "next", "zero", "slinear", "cubic"):
    add(f"interp1d {_kind}", lambda m, x, y, t, k=_kind: m.interp1d(x, y, k)(t), _X, _Y2, _T)
_P, _Q = np.asarray([0.0, 1.0, 2.5, 3.0]), np.asarray([2.0, 0.9, 0.0])
_V = _rng.normal(size=(4, 3, 2))
_AT = np.asarray([[0.3, 0.4], [2.7, 1.8], [1.2, 1.3]])


def _grid(m: Any, *given: Any, **settings: Any) -> Any:
    """Return an interpolant of a grid, of its axes and values, at places."""
    *axes, values, at = given
    return m.RegularGridInterpolator(tuple(axes), values, **settings)(at)


add("RegularGridInterpolator", _grid, _P, _Q[::-1].copy(), _V, _AT)
add("RegularGridInterpolator falling", _grid, _P, _Q, _V, _AT)
_beyond = partial(_grid, bounds_error=False, fill_value=None)
add("RegularGridInterpolator beyond", _beyond, _P, _V[..., 0], _OUT[:, None])
_nearest = partial(_grid, method="nearest", bounds_error=False, fill_value=3.0)
add("RegularGridInterpolator nearest", _nearest, _P, _V, _OUT[:, None])
add("RegularGridInterpolator complex", _grid, _P, _V * (1 + 2j), _AT[:, :1].copy())
plain("interpn", "", (_P,), _V, _AT[:, :1].copy())
plain("interpn", "coordinates", (_P,), _V, (_AT[:, 0].copy(),), "nearest")
_POINTS, _PLACES = _rng.normal(size=(8, 2)), _rng.normal(size=(3, 2))
_D = _rng.normal(size=(8, 2))
for _kernel in ("thin_plate_spline", "linear", "cubic", "quintic", "multiquadric", "inverse_multiquadric",
                "inverse_quadratic", "gaussian"):  # fmt: skip
    _at("RBFInterpolator", _kernel, _POINTS, _D[:, 0], _PLACES, how=_SMOOTHED, kernel=_kernel, epsilon=0.9)
add(
    "RBFInterpolator smoothing", lambda m, y, d, s, x: m.RBFInterpolator(y, d, smoothing=s, degree=2)(x),
    _POINTS, _D, np.full(8, 0.3), _PLACES, **_SMOOTHED,
)  # fmt: skip
_gaussian: dict[str, Any] = {"kernel": "gaussian", "epsilon": 1.2, "degree": -1}
_at("RBFInterpolator", "complex", _POINTS, _D[:, 0] + 1j * _D[:, 1], _PLACES, how=_SMOOTHED, **_gaussian)

_BX = np.asarray([0.0, 0.4, 1.1, 1.7, 2.0, 3.1])
_BY = np.asarray([[0.3, 1.2], [-0.5, 0.7], [1.4, 2.0], [0.2, -1.0], [0.9, 0.1], [-0.3, 0.6]])
_BT = np.asarray([0.0, 0.1, 0.2, 0.9, 1.6, 2.2, 3.1, 3.2, 3.4, 3.5])
_BAT = np.asarray([[-0.2, 0.15, 0.7], [1.3, 2.9, 3.3]])
_PLACES, _KNOTS, _NODES = _BAT.tolist(), _BT.tolist(), _BX.tolist()
for _k in range(4):
    add(f"BSpline {_k}", lambda m, t, c, x, k=_k: m.BSpline(t, c, k)(x), _BT[: 7 + _k], _BY, _BAT, order=1 + (_k == 3))
    add(f"make_interp_spline {_k}", lambda m, y, x, k=_k: m.make_interp_spline(_NODES, y, k)(x), _BY, _BAT, order=1)
add("BSpline slope", lambda m, t, c, x: m.BSpline(t, c, 3, axis=1)(x, 1), _BT, _BY.T, _BAT, order=1)
add("BSpline inside", lambda m, c: m.BSpline(_KNOTS, c, 3, False)([1.0, 2.9]), _BY, order=1)
add("BSpline periodic", lambda m, c, x: m.BSpline(_KNOTS, c, 3, "periodic")(x), _BY, _BAT, order=1)
add("BSpline complex", lambda m, c: m.BSpline(_KNOTS, c, 3)(_PLACES), _BY[:, 0] + 1j * _BY[:, 1])
add("BSpline derivative", lambda m, c, x: m.BSpline(_KNOTS, c, 3).derivative(2)(x), _BY, _BAT, order=1)
add("BSpline antiderivative", lambda m, t, c: m.BSpline(t, c, 3).antiderivative()(_PLACES), _BT, _BY, order=1)
add("BSpline integrate", lambda m, c, a: m.BSpline(_KNOTS, c, 3).integrate(a, 3.0), _BY, np.asarray(0.7))
add("BSpline integrate inside", lambda m, c: m.BSpline(_KNOTS, c, 3, False).integrate(-1.0, 9.0), _BY)
add("BSpline basis_element", lambda m, t: m.BSpline.basis_element(t)(_PLACES), _BT[2:7], order=1)
add("make_interp_spline by places", lambda m, x, y: m.make_interp_spline(x, y)(_PLACES), _BX, _BY, order=1)
add("make_interp_spline natural", lambda m, y: m.make_interp_spline(_NODES, y, bc_type="natural")(_PLACES), _BY)
add("make_interp_spline clamped", lambda m, y: m.make_interp_spline(_NODES, y, 3, bc_type="clamped").c, _BY)
add(
    "make_interp_spline slopes",
    lambda m, y, v: m.make_interp_spline(_NODES, y, 5, bc_type=([(1, v), (2, v)], [(1, 2 * v), (2, 0 * v)]))(_PLACES),
    _BY, _BY[0],
)  # fmt: skip
add(
    "make_interp_spline knots", lambda m, t, y: m.make_interp_spline(_NODES, y, 3, t)(0.7),
    np.asarray([-0.3, -0.2, -0.1, 0.0, 0.9, 1.6, 3.1, 3.2, 3.4, 3.5]), _BY, order=1,
)  # fmt: skip
for _k, _order in ((2, 1), (3, 2), (4, 1)):
    add(
        f"make_interp_spline periodic {_k}",
        lambda m, x, y, t, k=_k: m.make_interp_spline(x, _ring(y), k, bc_type="periodic")(t), _BX, _BY[:5], _BAT,
        order=_order,
    )  # fmt: skip
add(
    "make_interp_spline periodic few", lambda m, y: m.make_interp_spline(_NODES[:3], _ring(y), 5, bc_type="periodic").c,
    _BY[:2], order=1,
)  # fmt: skip
add(
    "BSpline integrate periodic", lambda m, c, a: m.BSpline(_KNOTS, c, 3, "periodic").integrate(a, 7.0), _BY,
    np.asarray(-0.8), order=1,
)  # fmt: skip

"""Calls of ``scipy.ndimage``."""

import numpy as np
from scipy_calls import FIRST, Calls

CALLS = Calls("ndimage")
plain = CALLS.plain
_RNG = np.random.default_rng(6)
_X, _A, _CUBE, _SINGLE = (_RNG.normal(size=shape) for shape in ((7,), (3, 5), (2, 3, 2), (1, 2)))
_K1, _K, _EVEN = (_RNG.normal(size=shape) for shape in ((3,), (3, 3), (2, 4)))
_Z, _W = _A[:2] + 1j * _A[1:], _K1 - 0.5j
_MODES = ("reflect", "constant", "nearest", "mirror", "wrap")

_TWO, _ONE = "correlate convolve", "correlate1d convolve1d"
plain(_TWO, "", _A, _K)
plain(_TWO, "even", _A, _EVEN, mode="mirror", origin=(-1, 1), how=FIRST)
plain(_TWO, "axes", _CUBE, _K, axes=(0, 2), how=FIRST)
plain(_TWO, "complex", _Z, _W, axes=1)
plain(_TWO, "wide", _SINGLE, _EVEN, mode="wrap")
plain(_ONE, "axis", _A, _K1, axis=0, origin=1)
plain(_ONE, "complex", _A, _W, how=FIRST)
plain(_ONE, "single", _SINGLE, _X, axis=0)
for _mode in _MODES:
    plain(_ONE, _mode, _A, _EVEN[0], mode=_mode, cval=0.5, how=FIRST)
    plain("gaussian_filter", _mode, _A, 0.8, mode=_mode, cval=0.5)
plain("gaussian_filter", "orders", _A, (0.8, 0.5), order=(1, 2), mode=("wrap", "reflect"), truncate=3.0)
plain("gaussian_filter", "axes", _CUBE, (0.7, 0.0), radius=2, axes=(2, 0))
plain("gaussian_filter", "complex", _Z, 0.6, how=FIRST)
for _order in range(4):
    plain("gaussian_filter1d", f"by sigma {_order}", _A, np.asarray(0.9), axis=0, order=_order, radius=3)
plain("gaussian_laplace gaussian_gradient_magnitude", "", _A, 0.7)
plain("gaussian_laplace", "axes", _CUBE, (0.7, 0.5), axes=(0, 2), mode="wrap")
plain("gaussian_gradient_magnitude", "modes", _A, (0.7, 0.5), mode=("nearest", "mirror"), radius=1)
plain("uniform_filter sobel prewitt laplace", "", _A)
plain("center_of_mass", "", abs(_CUBE), then=lambda found: found[0] * found[1] - found[2])
plain("uniform_filter", "sizes", _A, (2, 4), mode="constant", cval=1.0, origin=(0, -1))
plain("uniform_filter1d", "", _X, 3)
plain("uniform_filter1d", "axis", _A, 4, axis=0, mode="nearest", origin=1)
plain("sobel prewitt", "axis", _CUBE, axis=0, mode="constant", cval=0.5)
plain("laplace", "axes", _CUBE, mode=("mirror", "wrap"), axes=(1, 2))
plain("laplace", "complex", _Z, how=FIRST)

_AT = np.asarray([[0.3, 1.6, -0.7, 2.4, 5.2], [3.7, 0.2, 1.1, -2.4, 4.6]])
_PLACED = FIRST | {"fixed": (1,)}
for _mode in ("constant", "grid-constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap"):
    plain("map_coordinates", _mode, _A, _AT, order=1, mode=_mode, cval=0.5, how=FIRST)
    plain("map_coordinates", f"nearest element {_mode}", _A, _AT, order=0, mode=_mode, how=_PLACED)
plain("map_coordinates", "line", _X, np.abs(_AT[:1]), order=1)
plain("map_coordinates", "complex", _Z, _AT[:, :3], order=1, how={"fixed": (1,)})
_MAP = np.asarray([[0.8, 0.3], [-0.2, 1.1]])
_OFFSET = np.asarray([0.13, 0.37])
plain("affine_transform", "", _A, _MAP, _OFFSET, order=1)
plain("affine_transform", "diagonal", _A, _MAP[0] + 0.05, 0.13, output_shape=(2, 3), order=1, mode="mirror")
_WITH_OFFSETS = np.concatenate([_MAP, _OFFSET[:, None]], axis=1)
plain("affine_transform", "with offsets", _A, _WITH_OFFSETS, order=1, mode="nearest", how=FIRST)
plain("shift", "", _A, np.asarray([0.3, -1.4]), order=1, mode="nearest")
plain("shift", "number", _CUBE, 1.5, order=1, cval=0.5)
plain("zoom", "", _A, 1.7, order=1)
plain("zoom", "grid", _A, (2, 0.6), order=1, mode="reflect", grid_mode=True)

_LONG = np.sin(np.arange(36.0) ** 1.5).reshape(2, 18)
for _order in (2, 3, 4, 5):
    plain("spline_filter", f"{_order}", _A, _order, mode="grid-wrap")
    _how = FIRST | {"slow": _order > 3}
    for _mode in ("constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap"):
        plain("map_coordinates", f"{_mode} {_order}", _A, _AT, order=_order, mode=_mode, cval=0.5, how=_how)
plain("map_coordinates", "cubic", _A, np.abs(_AT[:, :3]) / 2)
plain("map_coordinates", "filtered", _A, _AT, mode="nearest", prefilter=False)
plain("map_coordinates", "reflect 3", _LONG.T @ _LONG, [[4.6], [5.2]], mode="reflect", how=FIRST)
plain("map_coordinates", "cubic complex", _Z, _AT[:, :3], how=_PLACED)
plain("spline_filter1d", "", _A, axis=0)
plain("shift", "cubic", _A, np.asarray([0.3, -1.4]))
plain("zoom", "cubic", _A, 1.7)
plain("affine_transform", "cubic", _A, _MAP, 0.13, mode="mirror")
plain("rotate", "", _A, 25.0, how=FIRST)
plain("rotate", "linear", _A, -90, axes=(0, 1), order=1)
plain("rotate", "by angle", _A, np.asarray(33.0), reshape=False, mode="mirror")
plain("rotate", "planes", _CUBE, 40.0, axes=(0, 2), order=2, mode="nearest", how=FIRST)

_RANKS, _FOOT = "maximum_filter minimum_filter median_filter", [[0, 1, 0], [1, 1, 1]]
plain(_RANKS, "", _A, size=3)
plain(_RANKS, "footprint", _A, footprint=_FOOT, mode="wrap", origin=(0, 1), how=FIRST)
plain(_RANKS, "axes", _CUBE, size=(2, 3), mode="constant", cval=0.1, axes=(0, 1), how=FIRST)
plain("rank_filter", "", _A, 1, size=3, mode="nearest")
plain("rank_filter", "footprint", _A, -2, footprint=_FOOT, mode="mirror")

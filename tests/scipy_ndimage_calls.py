"""Calls of ``scipy.ndimage``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("ndimage")
add = CALLS.add
_RNG = np.random.default_rng(6)
_X, _A, _CUBE, _SINGLE = (_RNG.normal(size=shape) for shape in ((7,), (3, 5), (2, 3, 2), (1, 2)))
_K1, _K, _EVEN = (_RNG.normal(size=shape) for shape in ((3,), (3, 3), (2, 4)))
_Z, _W = _A[:2] + 1j * _A[1:], _K1 - 0.5j
_MODES = ("reflect", "constant", "nearest", "mirror", "wrap")

for _name in ("correlate", "convolve"):
    add(f"{_name}", lambda m, x, w, f=_name: getattr(m, f)(x, w), _A, _K)
    add(
        f"{_name} even", lambda m, x, w, f=_name: getattr(m, f)(x, w, mode="mirror", origin=(-1, 1)), _A, _EVEN, order=1
    )
    add(f"{_name} axes", lambda m, x, w, f=_name: getattr(m, f)(x, w, axes=(0, 2)), _CUBE, _K, order=1)
    add(f"{_name} complex", lambda m, x, w, f=_name: getattr(m, f)(x, w, axes=1), _Z, _W)
    add(f"{_name} wide", lambda m, x, w, f=_name: getattr(m, f)(x, w, mode="wrap"), _SINGLE, _EVEN)
    for _mode in _MODES:
        add(
            f"{_name}1d {_mode}", lambda m, x, w, f=_name, mode=_mode: getattr(m, f + "1d")(x, w, mode=mode, cval=0.5),
            _A, _EVEN[0], order=1,
        )  # fmt: skip
    add(f"{_name}1d axis", lambda m, x, w, f=_name: getattr(m, f + "1d")(x, w, axis=0, origin=1), _A, _K1)
    add(f"{_name}1d complex", lambda m, x, w, f=_name: getattr(m, f + "1d")(x, w), _A, _W, order=1)
    add(f"{_name}1d single", lambda m, x, w, f=_name: getattr(m, f + "1d")(x, w, axis=0), _SINGLE, _X)

for _mode in _MODES:
    add(f"gaussian_filter {_mode}", lambda m, x, mode=_mode: m.gaussian_filter(x, 0.8, mode=mode, cval=0.5), _A)
add(
    "gaussian_filter orders",
    lambda m, x: m.gaussian_filter(x, (0.8, 0.5), order=(1, 2), mode=("wrap", "reflect"), truncate=3.0),
    _A,
)
add("gaussian_filter axes", lambda m, x: m.gaussian_filter(x, (0.7, 0.0), radius=2, axes=(2, 0)), _CUBE)
add("gaussian_filter complex", lambda m, x: m.gaussian_filter(x, 0.6), _Z, order=1)
for _order in range(4):
    add(
        f"gaussian_filter1d by sigma {_order}",
        lambda m, x, s, order=_order: m.gaussian_filter1d(x, s, axis=0, order=order, radius=3), _A, np.asarray(0.9),
    )  # fmt: skip
add("gaussian_laplace", lambda m, x: m.gaussian_laplace(x, 0.7), _A)
add("gaussian_laplace axes", lambda m, x: m.gaussian_laplace(x, (0.7, 0.5), axes=(0, 2), mode="wrap"), _CUBE)
add("gaussian_gradient_magnitude", lambda m, x: m.gaussian_gradient_magnitude(x, 0.7), _A)
add(
    "gaussian_gradient_magnitude modes",
    lambda m, x: m.gaussian_gradient_magnitude(x, (0.7, 0.5), mode=("nearest", "mirror"), radius=1),
    _A,
)
add("uniform_filter", lambda m, x: m.uniform_filter(x), _A)
add("uniform_filter sizes", lambda m, x: m.uniform_filter(x, (2, 4), mode="constant", cval=1.0, origin=(0, -1)), _A)
add("uniform_filter1d", lambda m, x: m.uniform_filter1d(x, 3), _X)
add("uniform_filter1d axis", lambda m, x: m.uniform_filter1d(x, 4, axis=0, mode="nearest", origin=1), _A)
for _name in ("sobel", "prewitt"):
    add(f"{_name}", lambda m, x, f=_name: getattr(m, f)(x), _A)
    add(f"{_name} axis", lambda m, x, f=_name: getattr(m, f)(x, axis=0, mode="constant", cval=0.5), _CUBE)
add("laplace", lambda m, x: m.laplace(x), _A)
add("laplace axes", lambda m, x: m.laplace(x, mode=("mirror", "wrap"), axes=(1, 2)), _CUBE)
add("laplace complex", lambda m, x: m.laplace(x), _Z, order=1)

_AT = np.asarray([[0.3, 1.6, -0.7, 2.4, 5.2], [3.7, 0.2, 1.1, -2.4, 4.6]])
for _mode in ("constant", "grid-constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap"):
    add(
        f"map_coordinates {_mode}", lambda m, x, c, mode=_mode: m.map_coordinates(x, c, order=1, mode=mode, cval=0.5),
        _A, _AT, order=1,
    )  # fmt: skip
    add(
        f"map_coordinates nearest element {_mode}",
        lambda m, x, c, mode=_mode: m.map_coordinates(x, c, order=0, mode=mode), _A, _AT, fixed=(1,), order=1,
    )  # fmt: skip
add("map_coordinates line", lambda m, x, c: m.map_coordinates(x, c, order=1), _X, np.abs(_AT[:1]))
add("map_coordinates complex", lambda m, x, c: m.map_coordinates(x, c, order=1), _Z, _AT[:, :3], fixed=(1,))
_MAP = np.asarray([[0.8, 0.3], [-0.2, 1.1]])
add("affine_transform", lambda m, x, c, o: m.affine_transform(x, c, o, order=1), _A, _MAP, np.asarray([0.13, 0.37]))
add(
    "affine_transform diagonal",
    lambda m, x, c: m.affine_transform(x, c, 0.13, output_shape=(2, 3), order=1, mode="mirror"), _A, _MAP[0] + 0.05,
)  # fmt: skip
add(
    "affine_transform with offsets", lambda m, x, c: m.affine_transform(x, c, order=1, mode="nearest"), _A,
    np.concatenate([_MAP, [[0.13], [0.37]]], axis=1), order=1,
)  # fmt: skip
add("shift", lambda m, x, s: m.shift(x, s, order=1, mode="nearest"), _A, np.asarray([0.3, -1.4]))
add("shift number", lambda m, x: m.shift(x, 1.5, order=1, cval=0.5), _CUBE)
add("zoom", lambda m, x: m.zoom(x, 1.7, order=1), _A)
add("zoom grid", lambda m, x: m.zoom(x, (2, 0.6), order=1, mode="reflect", grid_mode=True), _A)


_LONG = np.sin(np.arange(36.0) ** 1.5).reshape(2, 18)
for _order in (2, 3, 4, 5):
    add(f"spline_filter {_order}", lambda m, x, k=_order: m.spline_filter(x, k, mode="grid-wrap"), _A)
    for _mode in ("constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap"):
        add(
            f"map_coordinates {_mode} {_order}",
            lambda m, x, c, k=_order, mode=_mode: m.map_coordinates(x, c, order=k, mode=mode, cval=0.5), _A, _AT,
            order=1, slow=_order > 3,
        )  # fmt: skip
add("map_coordinates cubic", lambda m, x, c: m.map_coordinates(x, c), _A, np.abs(_AT[:, :3]) / 2)
add("map_coordinates filtered", lambda m, x, c: m.map_coordinates(x, c, mode="nearest", prefilter=False), _A, _AT)
add(
    "map_coordinates reflect 3", lambda m, x: m.map_coordinates(x, [[4.6], [5.2]], mode="reflect"), _LONG.T @ _LONG,
    order=1,
)  # fmt: skip
add("spline_filter1d", lambda m, x: m.spline_filter1d(x, axis=0), _A)
add("map_coordinates cubic complex", lambda m, x, c: m.map_coordinates(x, c), _Z, _AT[:, :3], fixed=(1,), order=1)
add("shift cubic", lambda m, x, s: m.shift(x, s), _A, np.asarray([0.3, -1.4]))
add("zoom cubic", lambda m, x: m.zoom(x, 1.7), _A)
add("affine_transform cubic", lambda m, x, c: m.affine_transform(x, c, 0.13, mode="mirror"), _A, _MAP)
add("rotate", lambda m, x: m.rotate(x, 25.0), _A, order=1)
add("rotate linear", lambda m, x: m.rotate(x, -90, axes=(0, 1), order=1), _A)
add("rotate by angle", lambda m, x, a: m.rotate(x, a, reshape=False, mode="mirror"), _A, np.asarray(33.0))
add("rotate planes", lambda m, x: m.rotate(x, 40.0, axes=(0, 2), order=2, mode="nearest"), _CUBE, order=1)

_FOOT = np.asarray([[0, 1, 0], [1, 1, 1]])
for _name in ("maximum_filter", "minimum_filter", "median_filter"):
    add(f"{_name}", lambda m, x, f=_name: getattr(m, f)(x, size=3), _A)
    add(
        f"{_name} footprint", lambda m, x, f=_name: getattr(m, f)(x, footprint=_FOOT, mode="wrap", origin=(0, 1)), _A,
        order=1,
    )  # fmt: skip
    add(
        f"{_name} axes", lambda m, x, f=_name: getattr(m, f)(x, size=(2, 3), mode="constant", cval=0.1, axes=(0, 1)),
        _CUBE, order=1,
    )  # fmt: skip
add("rank_filter", lambda m, x: m.rank_filter(x, 1, size=3, mode="nearest"), _A)
add("rank_filter footprint", lambda m, x: m.rank_filter(x, -2, footprint=_FOOT, mode="mirror"), _A)

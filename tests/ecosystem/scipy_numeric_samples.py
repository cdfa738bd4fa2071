"""Samples of SciPy's numerical packages.

``scipy.integrate``, ``differentiate``, ``optimize.elementwise``, ``linalg``, ``interpolate``, ``ndimage``, ``cluster``
and ``constants``.
"""

import functools
from operator import attrgetter
from typing import Any

import numpy as np
import scipy
from scipy import integrate, interpolate, ndimage, stats
from scipy.cluster import hierarchy
from scipy.optimize import elementwise

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X = np.linspace(0.0, 2.0, 9)
Y = rng.normal(size=9)
P = rng.uniform(0.3, 1.5, size=4)
MATRIX = rng.normal(size=(4, 3))
IMAGE = rng.normal(size=(7, 6))
KERNEL = rng.normal(size=(3, 3))
LABELS = np.repeat(np.asarray([1, 2, 0, 1, 2, 0, 1]), 6).reshape(7, 6)
BITS = IMAGE > 0
POINTS = rng.normal(size=(6, 2))
NEW = np.asarray([0.13, 0.77, 1.61])
TREE = hierarchy.linkage(POINTS, "average")


def xp_of(x: Any) -> Any:
    """Return the namespace of a sample's argument."""
    return np if isinstance(x, np.ndarray | np.generic) else x.__array_namespace__()


add = SAMPLES.add
of = functools.partial(SAMPLES.of, scipy)

of("integrate", "trapezoid", Y, X)
of("integrate", "cumulative_trapezoid", Y, X, initial=0)
of("integrate", "cumulative_simpson", Y, x=X)
of("integrate", "romb", Y, dx=0.1)
_result = attrgetter("integral")
of("integrate", "tanhsinh", lambda x: xp_of(x).exp(-x * x), -P, P + 0.5, then=_result)
add(
    "integrate.tanhsinh",
    lambda a, p: integrate.tanhsinh(lambda x, q: xp_of(x).exp(-q * x * x), a, a + 1, args=(p,)).integral, -P,
    P[::-1].copy(), label="args",
)  # fmt: skip
add(
    "integrate.nsum",
    lambda p: integrate.nsum(lambda k, q: xp_of(k).exp(-q * k), p * 0 + 1, p * 0 + 30, args=(p,)).sum, P + 1,
)  # fmt: skip
_estimate = attrgetter("estimate")
of("integrate", "cubature", lambda x: xp_of(x).exp(-x[:, 0] * x[:, 1]), P[:2] * 0, P[:2], then=_estimate)


def _quasi_monte_carlo(a: Any, b: Any) -> Any:
    points = stats.qmc.Halton(2, rng=1, scramble=False)
    f = lambda x: xp_of(x).exp(-x[0] * x[1])  # noqa: E731
    return integrate.qmc_quad(f, a, b, n_points=64, n_estimates=2, qrng=points).integral


add("integrate.qmc_quad", _quasi_monte_carlo, P[:2] * 0, P[:2])

of("differentiate", "derivative", lambda v: xp_of(v).exp(-v * v), P, then=attrgetter("df"))
of("differentiate", "jacobian", lambda v: v * v * v, P, then=attrgetter("df"))
of("differentiate", "hessian", lambda v: xp_of(v).sum(v * v * v, axis=0), P[:2], then=attrgetter("ddf"))


# optimize.elementwise
def _elementwise(name: str, f: Any, at: Any, result: str, *inputs: Any) -> None:
    """File a sample of a search of a function of x and a parameter, from a start."""
    search = getattr(elementwise, name)
    add(f"optimize.elementwise.{name}", lambda a, p: getattr(search(f, at(a), args=(p,)), result), *inputs)


_elementwise("find_root", lambda x, q: x * x - q, lambda a: (a, a + 3), "x", P * 0, P + 0.5)
_elementwise("find_minimum", lambda x, q: (x - q) ** 2 + q, lambda a: (a, a + 1.8, a + 4), "f_x", P * 0 - 1, P)
_elementwise("bracket_root", lambda x, q: x - q, lambda a: a, "bracket", P * 0, P)
_elementwise("bracket_minimum", lambda x, q: (x - q) ** 2, lambda a: a, "bracket", P * 0, P)

of("linalg", "block_diag", MATRIX, KERNEL)
of("linalg", "fiedler", Y)
of("linalg", "orthogonal_procrustes", IMAGE[:, :3], IMAGE[:, 3:])


# interpolate
def interpolated(name: str, *inputs: Any, rest: tuple[Any, ...] = (), **settings: Any) -> None:
    """File a sample of what interpolates, made of all inputs but the last, which are its places."""
    make = getattr(interpolate, name)
    add(f"interpolate.{name}", lambda *a: make(*a[:-1], *rest, **settings)(a[-1]), *inputs)


for _name in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "make_interp_spline", "make_splrep"):
    interpolated(_name, X, Y, NEW)
interpolated("CubicHermiteSpline", X, Y, Y[::-1].copy(), NEW)
interpolated("PPoly", rng.normal(size=(4, 8)), X, NEW)
interpolated("BPoly", rng.normal(size=(4, 8)), X, NEW)
_knots = np.linspace(-1, 3, 9)
interpolated("BSpline", _knots, Y[:6], NEW, rest=(2,))
add("interpolate.NdBSpline", lambda t, c, z: interpolate.NdBSpline((t,), c, 2)(z), _knots, Y[:6], NEW[:, None])
interpolated("make_lsq_spline", X, Y, np.asarray([0, 0, 0, 0, 1.1, 2, 2, 2, 2]), NEW)
interpolated("make_smoothing_spline", X, Y, NEW, lam=0.1)
add("interpolate.make_splprep", lambda y: interpolate.make_splprep([y, y[::-1]])[1], Y)
add("interpolate.generate_knots", lambda x, y: list(interpolate.generate_knots(x, y, s=0.5))[-1], X, Y)
interpolated("RBFInterpolator", POINTS, Y[:6], POINTS[:2] + 0.1)
add(
    "interpolate.RegularGridInterpolator", lambda x, v, q: interpolate.RegularGridInterpolator((x, x[:6]), v)(q),
    np.linspace(0, 1, 7), IMAGE, rng.uniform(0.1, 0.7, size=(3, 2)),
)  # fmt: skip

# ndimage
filtered = functools.partial(of, "ndimage")
filtered(
    "laplace prewitt sobel spline_filter spline_filter1d sum mean variance standard_deviation maximum minimum median "
    "extrema center_of_mass maximum_position minimum_position", IMAGE,
)  # fmt: skip
filtered(
    "black_tophat grey_closing grey_dilation grey_erosion grey_opening maximum_filter median_filter minimum_filter "
    "morphological_gradient morphological_laplace uniform_filter white_tophat maximum_filter1d minimum_filter1d "
    "uniform_filter1d", IMAGE, 3,
)  # fmt: skip
filtered("gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace", IMAGE, 0.8)
filtered("fourier_gaussian fourier_shift fourier_uniform fourier_ellipsoid", IMAGE, 1.2)
filtered("percentile_filter", IMAGE, 30, 3)
filtered("rank_filter", IMAGE, 2, 3)
filtered("rotate", IMAGE, 20.0)
filtered("shift", IMAGE, 0.4)
filtered("zoom", IMAGE, 1.3)
filtered("histogram", IMAGE, -2, 2, 4)
for _name, _constant in (
    ("affine_transform", [[0.9, 0.1], [-0.1, 0.8]]),
    ("map_coordinates", [[1.2, 2.7], [0.4, 3.1]]),
):
    add(f"ndimage.{_name}", lambda x, n=_name, c=_constant: getattr(ndimage, n)(x, xp_of(x).asarray(c)), IMAGE)
filtered("convolve correlate", IMAGE, KERNEL)
filtered("convolve1d correlate1d", IMAGE, KERNEL[0])
filtered(
    "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening "
    "binary_propagation distance_transform_bf distance_transform_cdt distance_transform_edt label", BITS,
)  # fmt: skip
filtered("sum_labels", IMAGE, LABELS)
filtered("labeled_comprehension", IMAGE, LABELS, [1, 2], np.mean, float, 0)
filtered("vectorized_filter", IMAGE, lambda w, axis: xp_of(w).mean(w, axis=axis), size=3)

# cluster
of("cluster.vq", "whiten", POINTS)
of("cluster.vq", "vq kmeans", POINTS, POINTS[:2] + 0.1)
of("cluster.vq", "kmeans2", POINTS, POINTS[:2] + 0.1, minit="matrix")
clustered = functools.partial(of, "cluster.hierarchy")
clustered("single complete average weighted centroid median ward linkage", POINTS, then=lambda tree: tree[:, 2])
clustered("cophenet inconsistent maxdists", TREE)
clustered("leaves_list num_obs_linkage is_monotonic is_valid_linkage", TREE, fixed=(0,))
_INCONSISTENT = hierarchy.inconsistent(TREE)
clustered("maxinconsts", TREE, _INCONSISTENT)
clustered("maxRstat", TREE, _INCONSISTENT, i=1)
clustered("is_valid_im", _INCONSISTENT)
clustered("fcluster", TREE, t=1.0)
clustered("fclusterdata", POINTS, t=1.0)
clustered("correspond", TREE, rng.uniform(size=15), fixed=(0, 1))
clustered("optimal_leaf_ordering", TREE, POINTS, then=lambda tree: tree[:, 2])
clustered("is_isomorphic", np.asarray([1, 1, 2]), np.asarray([2, 2, 1]))
clustered("leaders", TREE, hierarchy.fcluster(TREE, 1.0))

of("constants", "convert_temperature", Y, old_scale="C", new_scale="F")
of("constants", "lambda2nu nu2lambda", P, then=lambda x: x / 1e8)

"""Samples of SciPy's numerical packages.

``scipy.integrate``, ``differentiate``, ``optimize.elementwise``, ``linalg``, ``interpolate``, ``ndimage``, ``cluster``
and ``constants``.
"""

from typing import Any

import numpy as np
from scipy import constants, differentiate, integrate, interpolate, linalg, ndimage
from scipy.cluster import hierarchy, vq
from scipy.optimize import elementwise

from ecosystem.trial import Samples

SAMPLES = Samples()
_STRUCTURE = "creates or reads a structuring element or labels: Booleans and integers"
NOT_TRIED = {
    **{f"ndimage.{name}": _STRUCTURE for name in ("iterate_structure", "find_objects", "value_indices")},
    "ndimage.generic_filter": "calls a function of NumPy buffers",
    "ndimage.generic_filter1d": "calls a function of NumPy buffers",
    "ndimage.generic_gradient_magnitude": "calls functions that write into NumPy arrays",
    "ndimage.generic_laplace": "calls functions that write into NumPy arrays",
    "ndimage.geometric_transform": "calls a function for each position",
    "ndimage.watershed_ift": "accepts integers",
    "cluster.hierarchy.dendrogram": "draws a tree",
    "cluster.hierarchy.from_mlab_linkage": "changes a table's numbering",
    "cluster.hierarchy.to_mlab_linkage": "changes a table's numbering",
    "cluster.hierarchy.to_tree": "makes objects of a table",
}  # fmt: skip

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

# integrate
add("integrate.trapezoid", lambda y, x: integrate.trapezoid(y, x), Y, X)
add("integrate.cumulative_trapezoid", lambda y, x: integrate.cumulative_trapezoid(y, x, initial=0), Y, X)
add("integrate.cumulative_simpson", lambda y, x: integrate.cumulative_simpson(y, x=x), Y, X)
add("integrate.romb", lambda y: integrate.romb(y, dx=0.1), Y)
add("integrate.tanhsinh", lambda a, b: integrate.tanhsinh(lambda x: xp_of(x).exp(-x * x), a, b).integral, -P, P + 0.5)
add(
    "integrate.tanhsinh",
    lambda a, p: integrate.tanhsinh(lambda x, q: xp_of(x).exp(-q * x * x), a, a + 1, args=(p,)).integral, -P,
    P[::-1].copy(), label="args",
)  # fmt: skip
add(
    "integrate.nsum",
    lambda p: integrate.nsum(lambda k, q: xp_of(k).exp(-q * k), p * 0 + 1, p * 0 + 30, args=(p,)).sum,
    P + 1,
)
add(
    "integrate.cubature", lambda a, b: integrate.cubature(lambda x: xp_of(x).exp(-x[:, 0] * x[:, 1]), a, b).estimate,
    P[:2] * 0, P[:2],
)  # fmt: skip
add(
    "integrate.qmc_quad",
    lambda a, b: (
        integrate.qmc_quad(
            lambda x: xp_of(x).exp(-x[0] * x[1]),
            a,
            b,
            n_points=64,
            n_estimates=2,
            qrng=__import__("scipy.stats").stats.qmc.Halton(2, rng=1, scramble=False),
        ).integral
    ),
    P[:2] * 0,
    P[:2],
)

# differentiate
add("differentiate.derivative", lambda x: differentiate.derivative(lambda v: xp_of(v).exp(-v * v), x).df, P)
add("differentiate.jacobian", lambda x: differentiate.jacobian(lambda v: v * v * v, x).df, P)
add("differentiate.hessian", lambda x: differentiate.hessian(lambda v: xp_of(v).sum(v * v * v, axis=0), x).ddf, P[:2])

# optimize.elementwise
add(
    "optimize.elementwise.find_root",
    lambda a, p: elementwise.find_root(lambda x, q: x * x - q, (a, a + 3), args=(p,)).x, P * 0, P + 0.5,
)  # fmt: skip
add(
    "optimize.elementwise.find_minimum",
    lambda a, p: elementwise.find_minimum(lambda x, q: (x - q) ** 2 + q, (a, a + 1.8, a + 4), args=(p,)).f_x,
    P * 0 - 1,
    P,
)
add(
    "optimize.elementwise.bracket_root",
    lambda a, p: elementwise.bracket_root(lambda x, q: x - q, a, args=(p,)).bracket, P * 0, P,
)  # fmt: skip
add(
    "optimize.elementwise.bracket_minimum",
    lambda a, p: elementwise.bracket_minimum(lambda x, q: (x - q) ** 2, a, args=(p,)).bracket, P * 0, P,
)  # fmt: skip

# linalg
add("linalg.block_diag", lambda a, b: linalg.block_diag(a, b), MATRIX, KERNEL)
add("linalg.fiedler", lambda y: linalg.fiedler(y), Y)
add("linalg.orthogonal_procrustes", lambda a, b: linalg.orthogonal_procrustes(a, b), IMAGE[:, :3], IMAGE[:, 3:])

# interpolate
add("interpolate.CubicSpline", lambda x, y, z: interpolate.CubicSpline(x, y)(z), X, Y, NEW)
add("interpolate.PchipInterpolator", lambda x, y, z: interpolate.PchipInterpolator(x, y)(z), X, Y, NEW)
add("interpolate.Akima1DInterpolator", lambda x, y, z: interpolate.Akima1DInterpolator(x, y)(z), X, Y, NEW)
add(
    "interpolate.CubicHermiteSpline", lambda x, y, d, z: interpolate.CubicHermiteSpline(x, y, d)(z), X, Y,
    Y[::-1].copy(), NEW,
)  # fmt: skip
add("interpolate.PPoly", lambda c, x, z: interpolate.PPoly(c, x)(z), rng.normal(size=(4, 8)), X, NEW)
add("interpolate.BPoly", lambda c, x, z: interpolate.BPoly(c, x)(z), rng.normal(size=(4, 8)), X, NEW)
add("interpolate.BSpline", lambda t, c, z: interpolate.BSpline(t, c, 2)(z), np.linspace(-1, 3, 9), Y[:6], NEW)
add(
    "interpolate.NdBSpline", lambda t, c, z: interpolate.NdBSpline((t,), c, 2)(z), np.linspace(-1, 3, 9), Y[:6],
    NEW[:, None],
)  # fmt: skip
add("interpolate.make_interp_spline", lambda x, y, z: interpolate.make_interp_spline(x, y)(z), X, Y, NEW)
add(
    "interpolate.make_lsq_spline", lambda x, y, t, z: interpolate.make_lsq_spline(x, y, t)(z), X, Y,
    np.asarray([0, 0, 0, 0, 1.1, 2, 2, 2, 2]), NEW,
)  # fmt: skip
add("interpolate.make_smoothing_spline", lambda x, y, z: interpolate.make_smoothing_spline(x, y, lam=0.1)(z), X, Y, NEW)
add("interpolate.make_splrep", lambda x, y, z: interpolate.make_splrep(x, y)(z), X, Y, NEW)
add("interpolate.make_splprep", lambda y: interpolate.make_splprep([y, y[::-1]])[1], Y)
add("interpolate.generate_knots", lambda x, y: list(interpolate.generate_knots(x, y, s=0.5))[-1], X, Y)
add(
    "interpolate.RBFInterpolator", lambda p, y, q: interpolate.RBFInterpolator(p, y)(q), POINTS, Y[:6], POINTS[:2] + 0.1
)
add(
    "interpolate.RegularGridInterpolator", lambda x, v, q: interpolate.RegularGridInterpolator((x, x[:6]), v)(q),
    np.linspace(0, 1, 7), IMAGE, rng.uniform(0.1, 0.7, size=(3, 2)),
)  # fmt: skip

# ndimage
_FILTERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("black_tophat", "grey_closing", "grey_dilation", "grey_erosion", "grey_opening", "maximum_filter",
                     "median_filter", "minimum_filter", "morphological_gradient", "morphological_laplace",
                     "uniform_filter", "white_tophat"), (3,)),
    **dict.fromkeys(("gaussian_filter", "gaussian_filter1d", "gaussian_gradient_magnitude",
                     "gaussian_laplace"), (0.8,)),
    **dict.fromkeys(("laplace", "prewitt", "sobel", "spline_filter", "spline_filter1d", "sum", "mean", "variance",
                     "standard_deviation", "maximum", "minimum", "median", "extrema", "center_of_mass",
                     "maximum_position", "minimum_position"), ()),
    **dict.fromkeys(("maximum_filter1d", "minimum_filter1d", "uniform_filter1d"), (3,)),
    "percentile_filter": (30, 3), "rank_filter": (2, 3), "rotate": (20.0,), "shift": (0.4,), "zoom": (1.3,),
    **dict.fromkeys(("fourier_gaussian", "fourier_shift", "fourier_uniform", "fourier_ellipsoid"), (1.2,)),
    "affine_transform": (np.asarray([[0.9, 0.1], [-0.1, 0.8]]),),
    "map_coordinates": (np.asarray([[1.2, 2.7], [0.4, 3.1]]),),
    "histogram": (-2, 2, 4),
}  # fmt: skip
for _name, _settings in _FILTERS.items():
    add(
        f"ndimage.{_name}",
        lambda x, n=_name, s=_settings: getattr(ndimage, n)(
            x, *[xp_of(x).asarray(v) if isinstance(v, np.ndarray) else v for v in s]
        ),
        IMAGE,
    )
for _name in ("convolve", "correlate"):
    add(f"ndimage.{_name}", lambda x, k, n=_name: getattr(ndimage, n)(x, k), IMAGE, KERNEL)
    add(f"ndimage.{_name}1d", lambda x, k, n=_name: getattr(ndimage, f"{n}1d")(x, k), IMAGE, KERNEL[0])
for _name in (
    "binary_closing",
    "binary_dilation",
    "binary_erosion",
    "binary_fill_holes",
    "binary_hit_or_miss",
    "binary_opening",
    "binary_propagation",
):
    add(f"ndimage.{_name}", lambda x, n=_name: getattr(ndimage, n)(x), BITS)
for _name in ("distance_transform_bf", "distance_transform_cdt", "distance_transform_edt", "label"):
    add(f"ndimage.{_name}", lambda x, n=_name: getattr(ndimage, n)(x), BITS)
add("ndimage.sum_labels", lambda x, n: ndimage.sum_labels(x, n), IMAGE, LABELS)
add(
    "ndimage.labeled_comprehension", lambda x, n: ndimage.labeled_comprehension(x, n, [1, 2], np.mean, float, 0), IMAGE,
    LABELS,
)  # fmt: skip
add(
    "ndimage.vectorized_filter",
    lambda x: ndimage.vectorized_filter(x, lambda w, axis: xp_of(w).mean(w, axis=axis), size=3),
    IMAGE,
)

# cluster
add("cluster.vq.whiten", lambda p: vq.whiten(p), POINTS)
add("cluster.vq.vq", lambda p, c: vq.vq(p, c), POINTS, POINTS[:2] + 0.1)
add("cluster.vq.kmeans", lambda p, c: vq.kmeans(p, c), POINTS, POINTS[:2] + 0.1)
add("cluster.vq.kmeans2", lambda p, c: vq.kmeans2(p, c, minit="matrix"), POINTS, POINTS[:2] + 0.1)
for _name in ("single", "complete", "average", "weighted", "centroid", "median", "ward", "linkage"):
    add(f"cluster.hierarchy.{_name}", lambda p, n=_name: getattr(hierarchy, n)(p)[:, 2], POINTS)
for _name in (
    "cophenet",
    "inconsistent",
    "maxdists",
    "leaves_list",
    "num_obs_linkage",
    "is_monotonic",
    "is_valid_linkage",
):
    add(
        f"cluster.hierarchy.{_name}", lambda t, n=_name: getattr(hierarchy, n)(t), TREE,
        fixed=(0,) if "_" in _name else (),
    )  # fmt: skip
add("cluster.hierarchy.maxinconsts", lambda t, r: hierarchy.maxinconsts(t, r), TREE, hierarchy.inconsistent(TREE))
add("cluster.hierarchy.maxRstat", lambda t, r: hierarchy.maxRstat(t, r, 1), TREE, hierarchy.inconsistent(TREE))
add("cluster.hierarchy.is_valid_im", lambda r: hierarchy.is_valid_im(r), hierarchy.inconsistent(TREE))
add("cluster.hierarchy.fcluster", lambda t: hierarchy.fcluster(t, 1.0), TREE)
add("cluster.hierarchy.fclusterdata", lambda p: hierarchy.fclusterdata(p, 1.0), POINTS)
add("cluster.hierarchy.correspond", lambda t, y: hierarchy.correspond(t, y), TREE, rng.uniform(size=15), fixed=(0, 1))
add("cluster.hierarchy.optimal_leaf_ordering", lambda t, p: hierarchy.optimal_leaf_ordering(t, p)[:, 2], TREE, POINTS)
add(
    "cluster.hierarchy.is_isomorphic", lambda a, b: hierarchy.is_isomorphic(a, b), np.asarray([1, 1, 2]),
    np.asarray([2, 2, 1]),
)  # fmt: skip
add("cluster.hierarchy.leaders", lambda t, c: hierarchy.leaders(t, c), TREE, hierarchy.fcluster(TREE, 1.0))

# constants
add("constants.convert_temperature", lambda x: constants.convert_temperature(x, "C", "F"), Y)
add("constants.lambda2nu", lambda x: constants.lambda2nu(x) / 1e8, P)
add("constants.nu2lambda", lambda x: constants.nu2lambda(x) / 1e8, P)

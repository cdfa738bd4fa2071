"""Distances between vectors by the names of ``scipy.spatial.distance``.

A distance that is the square root of zero has the derivative 0, as norms do. Differences are squared after subtraction,
as ``|x|^2 + |y|^2 - 2 x y`` would lose the digits of small distances.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.interop.arguments import constant, is_complex, is_concrete, values_of
from agrad.ops.lengths import size_power
from agrad.scipy.shared import P, array, arrays, function, ratio, unsupported

if TYPE_CHECKING:
    from agrad.engine.typed import OfFirst

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon",
    "mahalanobis", "minkowski", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip

_ARRAYS = ("w", "V", "VI")
"""Options that are arrays."""


def _converted(options: dict[str, Any], *values: Any) -> tuple[list[Tensor], dict[str, Any]]:
    """Return the arrays, and the options that were given, in one dtype; negative weights become NaN."""
    options = {name: value for name, value in options.items() if value is not None}
    names = [name for name in _ARRAYS if name in options]
    found = arrays(*values, *[options[name] for name in names])
    options.update(zip(names, found[len(values) :], strict=True))
    if "w" in options:
        w = options["w"]
        options["w"] = agrad.where(w >= 0, w, agrad.full_like(w, agrad.nan))
    return found[: len(values)], options


METRICS: dict[str, Callable[..., Tensor]] = {}
"""Formulas of distances over the last axis of arrays that broadcast."""


def _metric(formula: Callable[Concatenate[Any, P], Tensor]) -> "OfFirst[P, Tensor]":
    """Decorate a formula of the last axes to be a function of two vectors, and add it to ``METRICS``."""
    name, parameters = formula.__name__, inspect.signature(formula)
    METRICS[name] = formula

    @functools.wraps(formula)
    def between(*args: Any, **options: Any) -> Tensor:
        options = parameters.bind(*args, **options).arguments
        (u, v), options = _converted(options, options.pop("u"), options.pop("v"))
        vectors = [u, v, *[options[name] for name in ("w", "V") if name in options]]
        if any(x.ndim != 1 or x.shape != u.shape for x in vectors):
            shapes = [tuple(x.shape) for x in vectors]
            raise ShapeError(f"{name}: vectors must have the same length, got shapes {shapes}")
        return formula(u, v, **options)

    return function(between)


def root(s: Any, p: float = 2.0) -> Tensor:
    """Return ``s ** (1 / p)``, with the derivative 0 where ``s`` is 0."""
    zero = s == 0
    safe = agrad.where(zero, agrad.ones_like(s), s)
    return agrad.where(zero, agrad.zeros_like(s), agrad.sqrt(safe) if p == 2 else safe ** (1 / p))


def _total(x: Tensor, w: Tensor | None) -> Tensor:
    return agrad.sum(x if w is None else w * x, axis=-1)


def _real(*xs: Tensor) -> None:
    if any(is_complex(x) for x in xs):
        raise DtypeError("this distance: vectors must be real. Pass agrad.real(x).")


def _unit(u: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the unit vector, 0 for a zero vector, and a mask of nonzero vectors.

    NaN would reach the derivative of every row of a table, also from pairs that have no part in the result.
    """
    square = _total(u * u, w)
    good = square != 0
    return ratio(u, agrad.expand_dims(root(square), axis=-1)), good


@_metric
def euclidean(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the root of the sum of squared differences.

    Like ``scipy.spatial.distance.euclidean``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has shape
    (). The derivative at equal vectors is 0.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.euclidean(u, v)), 6)
    2.291288
    >>> agrad.grad(distance.euclidean)(u, v).round(4)
    array([-0.4364, -0.8729,  0.2182])
    """
    return METRICS["minkowski"](u, v, w=w)


@_metric
def sqeuclidean(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the sum of squared differences.

    Like ``scipy.spatial.distance.sqeuclidean``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has
    shape ().

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.sqeuclidean(u, v)), 6)
    5.25
    >>> agrad.grad(distance.sqeuclidean)(u, v).round(4)
    array([-2., -4.,  1.])
    """
    return _total((u - v) * (u - v), w)


@_metric
def seuclidean(u: Any, v: Any, V: Any) -> Tensor:
    """Return the Euclidean distance of vectors divided by deviations.

    Like ``scipy.spatial.distance.seuclidean``: ``u``, ``v`` and the variances ``V`` have shape (n,), the result has
    shape ().

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v, variances = np.asarray([1.0, 2.0]), np.asarray([2.0, 4.0]), np.asarray([0.5, 2.0])
    >>> round(float(distance.seuclidean(u, v, variances)), 6)
    2.0
    >>> agrad.grad(lambda u: distance.seuclidean(u, v, variances))(u)
    array([-1. , -0.5])
    """
    return METRICS["minkowski"](u, v, w=1 / V)


@_metric
def cityblock(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the sum of absolute differences.

    Like ``scipy.spatial.distance.cityblock``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has shape
    ().

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.cityblock(u, v)), 6)
    3.5
    >>> agrad.grad(distance.cityblock)(u, v).round(4)
    array([-1., -1.,  1.])
    """
    return _total(agrad.abs(u - v), w)


@_metric
def chebyshev(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the largest absolute difference.

    Like ``scipy.spatial.distance.chebyshev``: ``u``, ``v`` and ``w`` have shape (n,), the result has shape ().
    Components of weight 0 are ignored, and all other weights are equal. Equal largest differences share the derivative
    evenly.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.chebyshev(u, v)), 6)
    2.0
    >>> float(agrad.grad(distance.chebyshev)(u, v)[1])
    -1.0
    """
    off = agrad.abs(u - v)
    if w is not None:
        off = agrad.where(w > 0, off, agrad.zeros_like(off))
    return agrad.max(off, axis=-1) if off.shape[-1] else agrad.sum(off, axis=-1)


@_metric
def minkowski(u: Any, v: Any, p: float = 2, w: Any = None) -> Tensor:
    """Return the norm of order ``p`` of the difference.

    Like ``scipy.spatial.distance.minkowski``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has shape
    (). ``p`` is a constant greater than 0, or infinity.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.minkowski(u, v, 3)), 6)
    2.08967
    >>> agrad.grad(lambda u, v: distance.minkowski(u, v, 3))(u, v).round(4)
    array([-0.229 , -0.916 ,  0.0573])
    """
    p = float(p)
    if not p > 0:
        raise ConfigurationError(f"minkowski: p must be greater than 0, got {p}")
    if w is None:
        return agrad.linalg.vector_norm(u - v, axis=-1, ord=p)
    if p == math.inf:
        return METRICS["chebyshev"](u, v, w=w)
    off = u - v
    return root(_total(size_power(off, agrad.full_like(off, p)), w), p) if p != 1 else METRICS["cityblock"](u, v, w=w)


@_metric
def cosine(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return one less the cosine of the angle between vectors.

    Like ``scipy.spatial.distance.cosine``: the real vectors ``u``, ``v`` and the weights ``w`` have shape (n,), the
    result has shape (). It is NaN for a zero vector. It is computed as half the squared distance of the unit vectors,
    which keeps the digits of small angles.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.cosine(u, v)), 6)
    0.071299
    >>> agrad.grad(distance.cosine)(u, v).round(4)
    array([-0.0296, -0.0591,  0.0328])
    """
    _real(u, v)
    # half the squared distance of the unit vectors: 1 less the cosine would lose the digits of small angles
    (x, some), (y, more) = _unit(u, w), _unit(v, w)
    found = 0.5 * _total((x - y) * (x - y), w)
    return agrad.where(some & more, found, agrad.full_like(found, math.nan))


@_metric
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Tensor:
    """Return one less the correlation of two vectors.

    Like ``scipy.spatial.distance.correlation``: the real vectors ``u``, ``v`` and the weights ``w`` have shape (n,),
    the result has shape (). For a constant vector, it is NaN or determined by rounding.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 5.0])
    >>> round(float(distance.correlation(u, v)), 6)
    0.092159
    >>> agrad.grad(distance.correlation)(u, v).round(4)
    array([ 0.0931, -0.1304,  0.0372])
    """
    _real(u, v)
    if not centered:
        return METRICS["cosine"](u, v, w=w)
    share = None if w is None else w / agrad.sum(w)
    size = u.shape[-1] if w is None else 1

    def moved(x: Tensor) -> Tensor:
        return x - agrad.expand_dims(_total(x, share) / size, axis=-1)

    return METRICS["cosine"](moved(u), moved(v), w=w)


@_metric
def canberra(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the sum of ``|u - v| / (|u| + |v|)``.

    Like ``scipy.spatial.distance.canberra``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has shape
    (). Components that are 0 in both vectors add 0.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.canberra(u, v)), 6)
    0.72549
    >>> agrad.grad(distance.canberra)(u, v).round(4)
    array([-0.4444, -0.2222,  0.1107])
    """
    return _total(ratio(agrad.abs(u - v), agrad.abs(u) + agrad.abs(v)), w)


@_metric
def braycurtis(u: Any, v: Any, w: Any = None) -> Tensor:
    """Return the sum of ``|u - v|`` over the sum of ``|u + v|``.

    Like ``scipy.spatial.distance.braycurtis``: ``u``, ``v`` and the weights ``w`` have shape (n,), the result has shape
    ().

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v = np.asarray([1.0, 2.0, 4.5]), np.asarray([2.0, 4.0, 4.0])
    >>> round(float(distance.braycurtis(u, v)), 6)
    0.2
    >>> agrad.grad(distance.braycurtis)(u, v).round(4)
    array([-0.0686, -0.0686,  0.0457])
    """
    above, below = _total(agrad.abs(u - v), w), _total(agrad.abs(u + v), w)
    beyond = agrad.where(above > 0, agrad.full_like(above, math.inf), agrad.full_like(above, math.nan))
    return agrad.where(below == 0, beyond, ratio(above, below))


@_metric
def mahalanobis(u: Any, v: Any, VI: Any) -> Tensor:
    """Return the distance of vectors by an inverse covariance.

    Like ``scipy.spatial.distance.mahalanobis``: ``u`` and ``v`` have shape (n,), the inverse covariance ``VI`` has
    shape (n, n), and the result has shape ().

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> u, v, inverse = np.asarray([1.0, 2.0]), np.asarray([2.0, 4.0]), np.asarray([[2.0, 0.0], [0.0, 0.5]])
    >>> round(float(distance.mahalanobis(u, v, inverse)), 6)
    2.0
    >>> agrad.grad(lambda u: distance.mahalanobis(u, v, inverse))(u)
    array([-1. , -0.5])
    """
    off = u - v
    return root(agrad.sum(agrad.matmul(off, VI) * off, axis=-1))


@function
def jensenshannon(p: Any, q: Any, base: float | None = None, *, axis: int = 0, keepdims: bool = False) -> Tensor:
    """Return the Jensen-Shannon distance between probability vectors.

    Like ``scipy.spatial.distance.jensenshannon``: ``p`` and ``q`` are divided by their sums along ``axis``, which is
    removed. At equal probabilities, the derivative is 0. With respect to a probability of 0, it is infinite if the
    other probability is not 0, otherwise 0.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> p, q = np.asarray([0.25, 0.75]), np.asarray([0.5, 0.5])
    >>> round(float(distance.jensenshannon(p, q)), 6)
    0.183908
    >>> agrad.grad(distance.jensenshannon)(p, q).round(4)
    array([-0.5993,  0.1998])
    """
    p, q = arrays(p, q)
    _real(p, q)
    totals = [agrad.sum(x, axis=axis, keepdims=True) for x in (p, q)]
    mean = (p / totals[0] + q / totals[1]) / 2
    # a class that neither has is of no part; its logarithm would make a derivative of NaN
    none = (p == 0) & (q == 0)
    mean = agrad.where(none, agrad.ones_like(mean), mean)
    # totals are separate from the mean, so that 0 * log(0) has no infinite derivative with respect to them
    sums = [
        agrad.sum(
            agrad.special.rel_entr(agrad.where(none, total * mean, x), total * mean) / total,
            axis=axis,
            keepdims=keepdims,
        )
        for x, total in zip((p, q), totals, strict=True)
    ]
    out = (sums[0] + sums[1]) / (2 if base is None else 2 * math.log(base))
    # of equal classes the sum is 0, or less by a rounding
    return root(agrad.where(out < 0, agrad.zeros_like(out), out))


METRICS["jensenshannon"] = functools.partial(jensenshannon, axis=-1)


def _chosen(metric: Any, options: dict[str, Any], data: list[Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of two arrays that broadcast, with the options that ``cdist`` adds from the data."""
    if callable(metric):
        return lambda u, v: _called(metric, u, v, options)
    if metric not in METRICS:
        raise ConfigurationError(
            f"distances: metric must be a function of vectors or one of {', '.join(sorted(METRICS))}, got {metric!r}"
        )
    _, options = _converted(options, *data)
    if metric in ("seuclidean", "mahalanobis"):
        both = agrad.concat(data, axis=0)
        if metric == "seuclidean" and "V" not in options:
            options["V"] = agrad.var(both, axis=0, correction=1)
        if metric == "mahalanobis" and "VI" not in options:
            if both.shape[0] <= both.shape[1]:
                raise ShapeError(
                    "mahalanobis: the covariance is singular, as there are not more vectors than components. Pass VI=."
                )
            off = both - agrad.mean(both, axis=0)
            options["VI"] = agrad.linalg.inv(agrad.matrix_transpose(off) @ off / (both.shape[0] - 1))
    return lambda u, v: METRICS[metric](u, v, **options)


def _called(metric: Callable[..., Any], u: Tensor, v: Tensor, options: dict[str, Any]) -> Tensor:
    """Return a function's values for all pairs of vectors of arrays that broadcast."""
    u, v = agrad.broadcast_arrays(u, v)
    rows = [agrad.reshape(x, (-1, x.shape[-1])) for x in (u, v)]
    out = agrad.vmap(lambda a, b: metric(a, b, **options), randomness="same")(*rows)
    return agrad.reshape(out, u.shape[:-1])


def _table(X: Any, *more: Any) -> list[Tensor]:
    found = arrays(X, *more)
    if any(x.ndim != 2 or x.shape[1] != found[0].shape[1] for x in found):
        raise ShapeError(f"distances: arrays must be 2-D with equal rows, got {[tuple(x.shape) for x in found]}")
    if any(is_complex(x) for x in found):
        raise DtypeError("distances: vectors must be real. Concatenate agrad.real(x) and agrad.imag(x).")
    return found


@unsupported("out", fix="Leave it out, and use the result")
@function
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Tensor:
    """Return the distances between all vectors of two tables.

    Like ``scipy.spatial.distance.cdist``: ``XA`` of shape (m, k) and ``XB`` of shape (n, k) are real, the result has
    shape (m, n). An array of shape (m, n, k) is an intermediate result. ``metric`` is the name of a function of this
    module, or a function of two vectors, which is called under ``vmap``. By default, ``V`` of ``seuclidean`` and ``VI``
    of ``mahalanobis`` come from the vectors and are differentiable. ``out`` is not supported.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> a, b = np.asarray([[0.0, 0.0], [3.0, 4.0]]), np.asarray([[0.0, 1.0]])
    >>> distance.cdist(a, b, "cityblock")
    array([[1.],
           [6.]])
    >>> agrad.grad(lambda b: agrad.sum(distance.cdist(a, b, "sqeuclidean")))(b)
    array([[-6., -4.]])
    """
    a, b = _table(XA, XB)
    return _chosen(metric, kwargs, [a, b])(agrad.expand_dims(a, axis=1), agrad.expand_dims(b, axis=0))


@unsupported("out", fix="Leave it out, and use the result")
@function
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Tensor:
    """Return the distances between the vectors of a table.

    Like ``scipy.spatial.distance.pdist``: ``X`` of shape (m, k) is real, the result has shape (m (m - 1) / 2,). The
    other arguments are the same as of ``cdist``.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> x = np.asarray([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> distance.pdist(x).round(4)
    array([5.    , 1.    , 4.2426])
    >>> agrad.grad(lambda x: distance.pdist(x)[0])(x)[1].round(4)
    array([0.6, 0.8])
    """
    (x,) = _table(X)
    rows = [agrad.take(x, constant(i, x), axis=0) for i in np.triu_indices(x.shape[0], 1)]
    return _chosen(metric, kwargs, [x])(*rows)


@function
def squareform(X: Any, force: str = "no", checks: bool = True) -> Tensor:
    """Convert distances of pairs to a square matrix, and back.

    Like ``scipy.spatial.distance.squareform``, between shapes (n (n - 1) / 2,) and (n, n). A matrix is checked only if
    its values can be read. One that is not symmetric with a diagonal of zeros raises ``ShapeError``, unless ``checks``
    is False.

    Examples
    --------
    >>> from agrad.scipy.spatial import distance
    >>> distance.squareform(np.asarray([1.0, 2.0, 3.0]))
    array([[0., 1., 2.],
           [1., 0., 3.],
           [2., 3., 0.]])
    >>> distance.squareform(distance.squareform(np.asarray([1.0, 2.0, 3.0])))
    array([1., 2., 3.])
    """
    x = array(X)
    wanted = {"no": (1, 2), "tomatrix": (1,), "tovector": (2,)}.get(force.lower())
    if wanted is None or x.ndim not in wanted:
        raise ShapeError(f"squareform: force={force!r} is not supported for an array of {x.ndim} axes")
    if x.ndim == 1:
        return _to_matrix(x)
    n = x.shape[0]
    if x.shape[1] != n:
        raise ShapeError(f"squareform: a matrix must be square, got shape {tuple(x.shape)}")
    if checks and is_concrete(x):
        values = values_of(x)
        if np.any(values != values.T) or np.any(np.diagonal(values) != 0):
            raise ShapeError(
                "squareform: a matrix must be symmetric with a diagonal of zeros. Pass checks=False to skip this check."
            )
    i, j = np.triu_indices(n, 1)
    return agrad.take(agrad.reshape(x, (-1,)), constant(i * n + j, x), axis=0)


def _to_matrix(x: Tensor) -> Tensor:
    pairs = x.shape[0]
    n = round((1 + (1 + 8 * pairs) ** 0.5) / 2)
    if n * (n - 1) // 2 != pairs:
        raise ShapeError(f"squareform: the length of a vector must be n (n - 1) / 2, got {pairs}")
    # the index after the last distance is for the diagonal
    places = np.full((n, n), pairs)
    i, j = np.triu_indices(n, 1)
    places[i, j] = places[j, i] = np.arange(pairs)
    x = agrad.concat([x, agrad.zeros_like(x[:1]) if pairs else constant(np.zeros(1, x.dtype.name), x)])
    return agrad.reshape(agrad.take(x, constant(places.reshape(-1), x), axis=0), (n, n))

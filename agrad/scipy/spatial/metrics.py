"""Formulas of distances over the last axis of arrays that broadcast.

Differences are squared after subtraction, as ``|x|^2 + |y|^2 - 2 x y`` would lose the digits of small distances. If a
distance is the square root of zero, its derivative is 0, as for norms.
"""

import math
from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError
from agrad.interop.arguments import is_complex
from agrad.ops.lengths import size_power
from agrad.scipy.shared import ratio


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


def _minkowski(u: Tensor, v: Tensor, *, p: float = 2, w: Tensor | None = None) -> Tensor:
    p = float(p)
    if not p > 0:
        raise ConfigurationError(f"minkowski: p must be greater than 0, got {p}")
    if w is None:
        return agrad.linalg.vector_norm(u - v, axis=-1, ord=p)
    if p == math.inf:
        return _chebyshev(u, v, w=w)
    off = u - v
    return root(_total(size_power(off, agrad.full_like(off, p)), w), p) if p != 1 else _cityblock(u, v, w=w)


def _euclidean(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    return _minkowski(u, v, w=w)


def _sqeuclidean(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    return _total((u - v) * (u - v), w)


def _seuclidean(u: Tensor, v: Tensor, *, V: Tensor) -> Tensor:
    return _minkowski(u, v, w=1 / V)


def _cityblock(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    return _total(agrad.abs(u - v), w)


def _chebyshev(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    off = agrad.abs(u - v)
    if w is not None:
        off = agrad.where(w > 0, off, agrad.zeros_like(off))
    return agrad.max(off, axis=-1) if off.shape[-1] else agrad.sum(off, axis=-1)


def _canberra(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    return _total(ratio(agrad.abs(u - v), agrad.abs(u) + agrad.abs(v)), w)


def _braycurtis(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    above, below = _total(agrad.abs(u - v), w), _total(agrad.abs(u + v), w)
    beyond = agrad.where(above > 0, agrad.full_like(above, math.inf), agrad.full_like(above, math.nan))
    return agrad.where(below == 0, beyond, ratio(above, below))


def _unit(u: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the unit vector, 0 of a zero vector, and where there is a unit vector.

    NaN would reach the derivative of every row of a table, also from pairs that have no part in the result.
    """
    square = _total(u * u, w)
    good = square != 0
    return ratio(u, agrad.expand_dims(root(square), axis=-1)), good


def _cosine(u: Tensor, v: Tensor, *, w: Tensor | None = None) -> Tensor:
    _real(u, v)
    # half the squared distance of the unit vectors: 1 less the cosine would lose the digits of small angles
    (x, some), (y, more) = _unit(u, w), _unit(v, w)
    found = 0.5 * _total((x - y) * (x - y), w)
    return agrad.where(some & more, found, agrad.full_like(found, math.nan))


def _correlation(u: Tensor, v: Tensor, *, w: Tensor | None = None, centered: bool = True) -> Tensor:
    _real(u, v)
    if not centered:
        return _cosine(u, v, w=w)
    share = None if w is None else w / agrad.sum(w)
    size = u.shape[-1] if w is None else 1

    def moved(x: Tensor) -> Tensor:
        return x - agrad.expand_dims(_total(x, share) / size, axis=-1)

    return _cosine(moved(u), moved(v), w=w)


def _jensenshannon(p: Tensor, q: Tensor, *, base: float | None = None) -> Tensor:
    return jensenshannon(p, q, base, axis=-1, keepdims=False)


def jensenshannon(p: Any, q: Any, base: float | None, *, axis: int, keepdims: bool) -> Tensor:
    """Return the Jensen-Shannon distance along an axis."""
    _real(p, q)
    totals = [agrad.sum(x, axis=axis, keepdims=True) for x in (p, q)]
    mean = (p / totals[0] + q / totals[1]) / 2
    # a class that neither has is of no part; its logarithm would make a derivative of NaN
    none = (p == 0) & (q == 0)
    mean = agrad.where(none, agrad.ones_like(mean), mean)
    # totals stand beside the mean, not below the classes: 0 * log(0) keeps no infinite derivative by them
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


def _mahalanobis(u: Tensor, v: Tensor, *, VI: Tensor) -> Tensor:
    off = u - v
    return root(agrad.sum(agrad.matmul(off, VI) * off, axis=-1))


METRICS: dict[str, Callable[..., Tensor]] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": _euclidean,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}

"""Statistics of samples."""

from typing import Any, NamedTuple

import agrad
from agrad import Tensor
from agrad.errors import OperandError, ShapeError
from agrad.scipy.shared import array, arrays, function, unsupported
from agrad.scipy.stats.base import chosen

__all__ = ["entropy", "pearsonr", "sem", "zscore"]


class Correlation(NamedTuple):
    """The result of ``pearsonr``."""

    statistic: Any


@unsupported("nan_policy", fix="Remove the NaNs first", error=OperandError)
@function
def zscore(a: Any, axis: int | None = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return offsets from the mean, divided by the standard deviation.

    Like ``scipy.stats.zscore``: the result has the shape of ``a``. It is NaN if all samples are equal. Other policies
    than ``nan_policy="propagate"`` are not supported.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x = np.asarray([1.0, 2.0, 6.0])
    >>> stats.zscore(x).round(6)
    array([-0.92582, -0.46291,  1.38873])
    >>> agrad.grad(lambda x: stats.zscore(x)[2])(x).round(6)
    array([ 0.044087, -0.055108,  0.011022])
    """
    a = array(a)
    offset = a - agrad.mean(a, axis=axis, keepdims=True)
    spread = agrad.std(a, axis=axis, correction=ddof, keepdims=True)
    flat = spread == 0
    return agrad.where(flat, agrad.full_like(a, agrad.nan), offset / agrad.where(flat, agrad.ones_like(spread), spread))


@function
def sem(a: Any, axis: int | None = 0, ddof: int = 1) -> Tensor:
    """Return the standard error of the mean.

    Like ``scipy.stats.sem``: the axis is removed.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x = np.asarray([1.0, 2.0, 6.0])
    >>> stats.sem(x).round(6)
    np.float64(1.527525)
    >>> agrad.grad(stats.sem)(x).round(6)
    array([-0.218218, -0.109109,  0.327327])
    """
    a = array(a)
    n = a.size if axis is None else a.shape[axis]
    return agrad.std(a, axis=axis, correction=ddof) / n**0.5


@function
def pearsonr(x: Any, y: Any, *, axis: int | None = 0) -> Any:
    """Return the correlation coefficient of samples, without a p-value.

    Like ``scipy.stats.pearsonr``: ``x`` and ``y`` broadcast, and the axis is removed. The result has only the field
    ``statistic``, which is NaN if all samples are equal.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> x, y = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 2.0, 4.0])
    >>> stats.pearsonr(x, y).statistic.round(6)
    np.float64(0.981981)
    >>> agrad.grad(lambda x: stats.pearsonr(x, y).statistic)(x).round(6)
    array([ 0.054554, -0.109109,  0.054554])
    """
    x, y = agrad.broadcast_arrays(*arrays(x, y))
    if (x.size if axis is None else x.shape[axis]) < 2:
        raise ShapeError("pearsonr: x and y must have at least two samples")
    parts = []
    for v in (x, y):
        offset = v - agrad.mean(v, axis=axis, keepdims=True)
        # by the largest, so that squares neither overflow nor vanish
        most = agrad.stop_gradient(agrad.max(agrad.abs(offset), axis=axis, keepdims=True))
        offset = offset / chosen(most > 0, most, 1.0)
        norm = agrad.sqrt(agrad.sum(offset * offset, axis=axis, keepdims=True))
        flat = norm == 0
        parts.append(chosen(flat, agrad.full_like(norm, agrad.nan), offset / chosen(flat, agrad.ones_like(norm), norm)))
    return Correlation(agrad.sum(parts[0] * parts[1], axis=axis))


@function
def entropy(pk: Any, qk: Any = None, base: float | None = None, axis: int = 0) -> Tensor:
    """Return the entropy of a distribution, or its relative entropy to another.

    Like ``scipy.stats.entropy``: ``pk`` and ``qk`` broadcast, are divided by their sums, and the axis is removed.
    ``base`` is a constant greater than 0.

    Examples
    --------
    >>> from agrad.scipy import stats
    >>> stats.entropy(np.asarray([0.25, 0.75])).round(6)
    np.float64(0.562335)
    >>> agrad.grad(lambda p: stats.entropy(p, np.asarray([0.5, 0.5])))(np.asarray([0.25, 0.75])).round(6)
    array([-0.823959,  0.274653])
    """
    if base is not None and not base > 0:
        raise OperandError(f"entropy: base must be greater than 0, got {base}")
    # totals are separate from the logarithm: a class without probability keeps its own infinite
    # derivative, and the others theirs
    if qk is None:
        p = array(pk)
        total = agrad.sum(p, axis=axis, keepdims=True)
        out = -agrad.sum(agrad.special.rel_entr(p, total) / total, axis=axis)
    else:
        p, q = agrad.broadcast_arrays(*arrays(pk, qk))
        total, other = (agrad.sum(v, axis=axis, keepdims=True) for v in (p, q))
        out = agrad.sum(agrad.special.rel_entr(p, total * (q / other)) / total, axis=axis)
    return out if base is None else out / agrad.log(agrad.full_like(out, base))

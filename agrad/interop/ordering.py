"""NumPy functions that sort, search and find distinct values, for Tensors.

NumPy computes positions on the host, and the elements at them are gathered from the Tensor, which is differentiable.
"""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Promoted,
    PromotedFloating,
    axis_of,
    cast,
    constant,
    flat,
    is_complex,
    on_host,
    picked,
    values_of,
    with_axis,
    zeros,
)
from agrad.interop.table import as_written, find, implements
from agrad.registry import CALLS


@implements("sort")
def _sort(a: Tensor, axis: Any = -1) -> Tensor:
    x, axis = with_axis(a, axis)
    if is_complex(x) or x.dtype == agrad.bool:
        return _taken(x, np.argsort(values_of(x), axis=axis, kind="stable"), axis)
    return agrad.sort(x, axis=axis)


def _taken(x: Tensor, order: np.ndarray, axis: int) -> Tensor:
    return picked(x, order, 0) if x.ndim == 1 else agrad.take_along_axis(x, constant(order, x), axis=axis)


@implements("sort_complex")
def _sort_complex(a: Tensor) -> Tensor:
    return _sort(a if is_complex(a) else agrad.astype(a, agrad.complex128))


@implements("argsort")
def _argsort(a: Tensor, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Tensor:
    x, axis = with_axis(a, axis)
    if is_complex(x) or x.dtype == agrad.bool:
        return constant(np.argsort(values_of(x), axis=axis, kind=kind, stable=stable), x)
    return agrad.argsort(x, axis=axis, stable=True)


@implements("partition")
def _partition(a: Tensor, kth: Any, axis: Any = -1, kind: str = "introselect") -> Tensor:
    x, axis = with_axis(a, axis)
    return _taken(x, np.argpartition(values_of(x), kth, axis=axis, kind=kind), axis)


_POSITIONS_AND_TRUTHS = (
    "allclose argpartition argwhere array_equal array_equiv diag_indices_from digitize flatnonzero in1d isin ix_ "
    "lexsort linalg.matrix_rank nonzero packbits ravel_multi_index tril_indices_from triu_indices_from unpackbits "
    "unravel_index"
)
"""Functions with results without a derivative: NumPy computes them on the host."""

for _name in _POSITIONS_AND_TRUTHS.split():
    implements(_name)(on_host(find(_name)))


@implements("searchsorted")
def _searchsorted(a: Promoted, v: Promoted, side: str = "left", sorter: Any = None) -> Tensor:
    x = a if sorter is None else picked(a, values_of(sorter), 0)
    return agrad.reshape(agrad.searchsorted(x, flat(v), side=side), v.shape)


@implements("isclose")
def _isclose(
    a: PromotedFloating, b: PromotedFloating, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Tensor:
    near = (agrad.abs(a - b) <= atol + rtol * agrad.abs(b)) & agrad.isfinite(b)
    out = near | (a == b)
    return out | (agrad.isnan(a) & agrad.isnan(b)) if equal_nan else out


@implements("iscomplex")
def _iscomplex(x: Tensor) -> Tensor:
    return agrad.imag(x) != 0 if is_complex(x) else agrad.zeros_like(x, dtype=agrad.bool)


@implements("iscomplexobj")
def _iscomplexobj(x: Tensor) -> bool:
    return is_complex(x)


as_written("isneginf isposinf isreal isrealobj setxor1d union1d unique_all unique_counts unique_inverse unique_values")


# ------------------------------------------------------------------ distinct values


@implements("unique")
def _unique(
    ar: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    equal_nan: bool = True,
) -> Any:
    _, index, *rest = np.unique(values_of(ar), True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    found = picked(ar, index, None if axis is None else axis_of(axis, ar.ndim))
    out = [found, *(constant(part, ar) for part in ([index] if return_index else []) + rest)]
    return out[0] if len(out) == 1 else tuple(out)


@implements("intersect1d")
def _intersect1d(ar1: Promoted, ar2: Promoted, assume_unique: bool = False, return_indices: bool = False) -> Any:
    _, first, second = np.intersect1d(values_of(ar1), values_of(ar2), assume_unique, return_indices=True)
    common = picked(ar1, first)
    return (common, constant(first, ar1), constant(second, ar1)) if return_indices else common


@implements("setdiff1d")
def _setdiff1d(ar1: Tensor, ar2: Tensor, assume_unique: bool = False) -> Tensor:
    x = flat(ar1) if assume_unique else _unique(ar1)
    return picked(x, np.flatnonzero(~np.isin(values_of(x), values_of(ar2))))


@implements("bincount")
def _bincount(x: Any, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    places = values_of(x)
    if weights is None:
        return constant(np.bincount(places, minlength=minlength), x)
    count = max(int(minlength), int(places.max(initial=-1)) + 1)
    return summed_at(cast(weights, np.float64), places, count)


def summed_at(values: Tensor, places: np.ndarray, count: int) -> Tensor:
    """Sum values by index, and return a vector of ``count`` sums."""
    start = zeros((count,), values)
    return CALLS["add_at"](start, values, (constant(np.asarray(places, dtype=np.int64), values),))

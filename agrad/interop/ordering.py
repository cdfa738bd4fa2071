"""NumPy's functions that sort, search and find distinct values, on Tensors.

What they pick is found by NumPy on the host, and then taken from the Tensor, so that a derivative goes through.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    axis_of,
    cast,
    constant,
    defaults_only,
    flat,
    inexact,
    is_complex,
    like_of,
    picked,
    promoted,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.table import find, implements
from agrad.registry import CALLS


@implements("sort")
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    defaults_only("sort", order=(order, None))
    x = tensor(a)
    if axis is None:
        x, axis = flat(x), 0
    if is_complex(x) or x.dtype == agrad.bool:
        return _taken(x, np.argsort(values_of(x), axis=axis, kind="stable"), axis)
    return agrad.sort(x, axis=axis_of(axis, x.ndim))


def _taken(x: Tensor, order: np.ndarray, axis: int) -> Tensor:
    return agrad.take_along_axis(x, constant(order, x), axis=axis_of(axis, x.ndim))


@implements("sort_complex")
def _sort_complex(a: Any) -> Tensor:
    x = tensor(a)
    x = x if is_complex(x) else agrad.astype(x, agrad.complex128)
    return _taken(x, np.argsort(values_of(x), axis=-1, kind="stable"), -1)


@implements("argsort")
def _argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    defaults_only("argsort", order=(order, None))
    x = tensor(a)
    if axis is None:
        x, axis = flat(x), 0
    if is_complex(x) or x.dtype == agrad.bool:
        return constant(np.argsort(values_of(x), axis=axis, kind=kind, stable=stable), x)
    return agrad.argsort(x, axis=axis_of(axis, x.ndim), stable=True)


@implements("partition")
def _partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    defaults_only("partition", order=(order, None))
    x = tensor(a)
    if axis is None:
        x, axis = flat(x), 0
    return _taken(x, np.argpartition(values_of(x), kth, axis=axis, kind=kind), axis)


def on_host(*names: str) -> None:
    """File functions whose results are whole numbers or truth values: NumPy's own, of the values, as constants."""
    for name in names:
        function = find(name)
        if function is not None:
            implements(name)(_hosted(function))


def _hosted(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(*args: Any, **settings: Any) -> Any:
        like = like_of(args, tuple(settings.values()))
        assert like is not None
        out = function(*map(_lowered, args), **{key: _lowered(value) for key, value in settings.items()})
        if isinstance(out, (tuple, list)):
            return type(out)(constant(part, like) for part in out)
        return constant(out, like) if isinstance(out, (np.ndarray, np.generic)) else out

    return handler


def _lowered(value: Any) -> Any:
    """An argument with the values on the host in the place of its Tensors."""
    if isinstance(value, Tensor):
        return values_of(value)
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        return type(value)(_lowered(part) for part in value)
    return value


# whole numbers and truth values
on_host(
    "allclose",
    "argpartition",
    "argwhere",
    "array_equal",
    "array_equiv",
    "diag_indices_from",
    "digitize",
    "flatnonzero",
    "in1d",
    "isin",
    "ix_",
    "lexsort",
    "linalg.matrix_rank",
    "nonzero",
    "packbits",
    "ravel_multi_index",
    "tril_indices_from",
    "triu_indices_from",
    "unpackbits",
    "unravel_index",
)


@implements("searchsorted")
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    x, v = promoted(*tensors(a, v))
    if sorter is not None:
        x = picked(x, values_of(sorter), 0)
    return agrad.reshape(agrad.searchsorted(x, flat(v), side=side), v.shape)


@implements("isclose")
def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tensor:
    a, b = promoted(*[inexact(x) for x in tensors(a, b)])
    near = (agrad.abs(a - b) <= atol + rtol * agrad.abs(b)) & agrad.isfinite(b)
    out = near | (a == b)
    return out | (agrad.isnan(a) & agrad.isnan(b)) if equal_nan else out


@implements("isposinf")
def _isposinf(x: Any) -> Tensor:
    x = inexact(tensor(x))
    return agrad.isinf(x) & (x > 0)


@implements("isneginf")
def _isneginf(x: Any) -> Tensor:
    x = inexact(tensor(x))
    return agrad.isinf(x) & (x < 0)


@implements("iscomplex")
def _iscomplex(x: Any) -> Tensor:
    x = tensor(x)
    return agrad.imag(x) != 0 if is_complex(x) else agrad.zeros_like(x, dtype=agrad.bool)


@implements("isreal")
def _isreal(x: Any) -> Tensor:
    return agrad.logical_not(_iscomplex(x))


@implements("iscomplexobj")
def _iscomplexobj(x: Any) -> bool:
    return is_complex(x)


@implements("isrealobj")
def _isrealobj(x: Any) -> bool:
    return not is_complex(x)


# ------------------------------------------------------------------ distinct values


@implements("unique")
def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    x = tensor(ar)
    _, index, inverse, counts = np.unique(
        values_of(x), return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=equal_nan
    )
    out = [picked(x, index) if axis is None else picked(x, index, axis_of(axis, x.ndim))]
    for wanted, part in ((return_index, index), (return_inverse, inverse), (return_counts, counts)):
        if wanted:
            out.append(constant(part, x))
    return out[0] if len(out) == 1 else tuple(out)


def _distinct(name: str, *fields: str) -> None:
    function = find(name)
    if function is None:
        return

    def handler(x: Any) -> Any:
        x = tensor(x)
        host = values_of(x)
        index = np.unique(host, return_index=True, equal_nan=False)[1]
        chosen = picked(x, index)
        result = function(host)
        if not fields:
            return chosen
        rest = {field: constant(getattr(result, field), x) for field in fields}
        return type(result)(values=chosen, **rest)

    implements(name)(handler)


_distinct("unique_values")
_distinct("unique_counts", "counts")
_distinct("unique_inverse", "inverse_indices")
_distinct("unique_all", "indices", "inverse_indices", "counts")


@implements("intersect1d")
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    a, b = promoted(*[flat(x) for x in tensors(ar1, ar2)])
    _, first, second = np.intersect1d(values_of(a), values_of(b), assume_unique, return_indices=True)
    common = picked(a, first)
    return (common, constant(first, a), constant(second, a)) if return_indices else common


@implements("setdiff1d")
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    a, b = [flat(x) for x in tensors(ar1, ar2)]
    a = a if assume_unique else _unique(a)
    return picked(a, np.flatnonzero(~np.isin(values_of(a), values_of(b))))


@implements("setxor1d")
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    a, b = promoted(*[flat(x) for x in tensors(ar1, ar2)])
    if not assume_unique:
        a, b = _unique(a), _unique(b)
    both = _sort(agrad.concat([a, b], axis=0))
    host = values_of(both)
    apart = np.concatenate(([True], host[1:] != host[:-1], [True]))
    return picked(both, np.flatnonzero(apart[1:] & apart[:-1])) if host.size else both


@implements("union1d")
def _union1d(ar1: Any, ar2: Any) -> Tensor:
    return _unique(agrad.concat(promoted(*[flat(x) for x in tensors(ar1, ar2)]), axis=0))


@implements("bincount")
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    if weights is None:
        return constant(np.bincount(values_of(x), minlength=minlength), tensor(x))
    w = tensor(weights, like_of(x))
    places = values_of(x)
    count = max(int(minlength), int(places.max(initial=-1)) + 1)
    return summed_at(cast(w, np.float64), places, count)


def summed_at(values: Tensor, places: np.ndarray, count: int) -> Tensor:
    """A vector of ``count`` sums, each of the values that go to its place."""
    zeros = agrad.zeros((count,), dtype=values.dtype, backend=values.backend, device=values.device)
    return CALLS["add_at"](zeros, values, (constant(np.asarray(places, dtype=np.int64), values),))

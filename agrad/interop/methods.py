"""Methods of NumPy ufuncs for Tensors."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    along,
    axes_of,
    axis_of,
    cast,
    flat,
    is_inexact,
    masked,
    merged,
    numeric,
    of_dtype,
    picked,
    promoted,
    rejects,
    replaced,
    rewrite,
    tensor,
    tensors,
    truth,
    values_of,
)
from agrad.interop.table import UFUNCS
from agrad.registry import CALLS

Function = Callable[..., Any]

_REDUCTIONS: dict[np.ufunc, tuple[Function, Function | None]] = {
    np.add: (agrad.sum, numeric),
    np.multiply: (agrad.prod, numeric),
    np.logical_and: (agrad.all, truth),
    np.logical_or: (agrad.any, truth),
    np.logaddexp: (agrad.logsumexp, None),
    np.maximum: (agrad.max, None),
    np.minimum: (agrad.min, None),
}
"""agrad's reductions, each with a conversion of its argument's dtype."""

ASSOCIATIVE = {
    *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot),
    *(np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm),
}
"""Ufuncs whose operands may be combined in any order."""


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    """Combine the elements along axes, as ``ufunc.reduce``.

    Raises ``ValueError`` for several axes if the order of the operands matters.
    """
    x = cast(tensor(array), dtype)
    fill = initial if ufunc.identity is None else ufunc.identity
    if where is not True and fill is None:
        raise ValueError(f"numpy.{ufunc.__name__}.reduce has no identity. With where=, pass initial=.")
    if where is not True:
        x = masked(x, where, fill)
    over = {"axis": axes_of(axis, x.ndim), "keepdims": bool(keepdims)}
    if initial is None:
        return cast(_reduced(ufunc, x, **over), dtype)
    if ufunc.identity is None and not x.size:
        return agrad.full_like(agrad.sum(x, **over), initial, dtype=x.dtype)
    out = cast(_reduced(ufunc, x, **over), dtype)
    return UFUNCS[ufunc](out, of_dtype(initial, out))


def _reduced(ufunc: np.ufunc, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    if ufunc in _REDUCTIONS:
        function, bring = _REDUCTIONS[ufunc]
        return function(x if bring is None else bring(x), axis=axis, keepdims=keepdims)
    if len(axis) > 1 and ufunc not in ASSOCIATIVE:
        raise ValueError(f"numpy.{ufunc.__name__}.reduce: axis must be one axis, as the order matters, got {axis}")
    x, lead, kept = merged(x, axis)
    parts = agrad.unstack(x, axis=-1)
    if not parts and ufunc.identity is None:
        raise ValueError(f"numpy.{ufunc.__name__}.reduce: the axis must not be empty, as the ufunc has no identity")
    if not parts:
        parts = (agrad.full_like(agrad.sum(x, axis=-1), ufunc.identity),)
    combine = UFUNCS[ufunc]
    while len(parts) > 1 and ufunc in ASSOCIATIVE:  # pairs make a graph of logarithmic depth
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = (*pairs, *(parts[-1:] if len(parts) % 2 else ()))
    out = functools.reduce(combine, parts)
    return agrad.reshape(out, kept if keepdims else lead)


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Tensor:
    """Return running results along one axis, as ``ufunc.accumulate``."""
    combine = UFUNCS[ufunc]
    x = cast(tensor(array), dtype)
    axis = axis_of(axis, x.ndim)
    if ufunc is np.add:
        return cast(agrad.cumulative_sum(numeric(x), axis=axis), dtype)
    if ufunc is np.multiply:
        return cast(agrad.cumulative_prod(numeric(x), axis=axis), dtype)
    if ufunc in ASSOCIATIVE:
        return doubled(combine, x, axis)
    parts = list(itertools.accumulate(agrad.unstack(x, axis=axis), combine))
    return cast(agrad.stack(promoted(*parts), axis=axis), dtype) if parts else x


def doubled(combine: Function, x: Tensor, axis: int) -> Tensor:
    """Return running results of an associative function, in steps of 1, 2, 4, ..."""
    step = 1
    while step < x.shape[axis]:
        rest = combine(x[along(axis, slice(None, -step))], x[along(axis, slice(step, None))])
        x = agrad.concat(promoted(x[along(axis, slice(None, step))], rest), axis=axis)
        step *= 2
    return x


def reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Tensor:
    """Reduce slices that begin at ``indices``, as ``ufunc.reduceat``."""
    x = cast(tensor(array), dtype)
    axis = axis_of(axis, x.ndim)
    starts = [int(i) for i in values_of(indices).reshape(-1)]
    n = x.shape[axis]
    if any(not 0 <= i < n for i in starts):
        raise IndexError(f"numpy.{ufunc.__name__}.reduceat: indices must be from 0 to {n - 1}, got {starts}")
    parts = []
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        piece = x[along(axis, slice(start, max(stop, start + 1)))]
        parts.append(reduce(ufunc, piece, axis=axis, dtype=dtype))
    return agrad.stack(promoted(*parts), axis=axis)


def outer(ufunc: np.ufunc, a: Any, b: Any, **settings: Any) -> Any:
    """Combine all pairs of elements of ``a`` and ``b``, as ``ufunc.outer``."""
    combine = UFUNCS[ufunc]
    if settings:
        raise rejects(f"{ufunc.__name__}.outer", f"{', '.join(settings)} is not supported for Tensors", "Leave it out")
    a, b = tensors(a, b)
    return combine(agrad.reshape(a, (*a.shape, *(1,) * b.ndim)), b)


def at(ufunc: np.ufunc, array: Any, index: Any, value: Any = None) -> None:
    """Change elements in place, as ``ufunc.at``, by rebinding the Tensor.

    If a position is repeated, the operands of the ufunc are combined in the order of the index.
    """
    name = f"{ufunc.__name__}.at"
    if not isinstance(array, Tensor):
        raise rejects(name, f"a must be a Tensor, got {type(array).__name__}", "Convert it first: agrad.asarray(a)")
    function = UFUNCS[ufunc]
    entries = index if isinstance(index, tuple) else (index,)
    entries = tuple([values_of(e) if isinstance(e, (Tensor, list)) else e for e in entries])
    places = np.asarray(np.arange(array.size).reshape(array.shape)[entries])
    operands = [tensor(value, array)] if ufunc.nin == 2 else []
    if is_inexact(array):
        operands = [cast(x, array.dtype) for x in operands]
    operands = [flat(agrad.broadcast_to(x, places.shape)) if x.ndim else x for x in operands]
    x, places = flat(array), places.reshape(-1)
    if not places.size:
        return
    if ufunc in (np.add, np.subtract) and is_inexact(array):
        (added,) = [x if x.ndim else agrad.broadcast_to(x, places.shape) for x in operands]
        x = CALLS["add_at"](x, added if ufunc is np.add else -added, places)
    else:
        x = _in_turns(function, x, places, *operands)
    rewrite(array, x)


def _in_turns(function: Function, x: Tensor, places: np.ndarray, *operands: Tensor) -> Tensor:
    """Apply a function at positions of ``x``, in one turn for each repetition of a position."""
    if (places[1:] > places[:-1]).all():  # no position is repeated
        return replaced(x, places, cast(function(picked(x, places), *operands), x.dtype))
    order = np.argsort(places, kind="stable")
    turns = np.empty_like(order)
    turns[order] = np.arange(places.size) - np.searchsorted(places[order], places[order])
    for turn in range(turns.max() + 1):
        now = np.flatnonzero(turns == turn)
        given = [picked(v, now) if v.ndim and now.size < places.size else v for v in operands]
        x = replaced(x, places[now], cast(function(picked(x, places[now]), *given), x.dtype))
    return x


def choose_where(result: Any, where: Any, out: Any, name: str) -> Any:
    """Return a ufunc's result for true elements of ``where``, otherwise ``out``."""
    if out is None:
        raise rejects(name, "where= without out= leaves other elements unset", "Pass out=, or use numpy.where")
    return masked(result, where, out)


METHODS = {"reduce": reduce, "accumulate": accumulate, "reduceat": reduceat, "outer": outer, "at": at}
"""Handlers by the name of the method."""

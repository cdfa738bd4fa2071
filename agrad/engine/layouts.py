"""Memory layouts of plain arrays, which determine which results are views."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.backends.base import Backend
from agrad.engine.namespaces import Memo
from agrad.engine.tensor import Tensor, wrap


def _sharing(kind: type) -> Backend | None:
    backend = backend_of_type(kind)
    if backend is None or backend.shares_memory is None or issubclass(kind, np.generic):
        return None
    return backend


SHARING = Memo(_sharing)
"""The backend by array type, or None for arrays that share no memory, such as NumPy scalars."""


def _has_scalars(kind: type) -> bool:
    backend = backend_of_type(kind)
    assert backend is not None
    assert backend.shares_memory is not None
    x = backend.xp.sum(backend.xp.asarray([0.0]))
    return not backend.shares_memory(backend.xp.reshape(x, (1,)), x)


SCALARS = Memo(_has_scalars)
"""Flags by array type: True if 0-dimensional results are scalars, as in NumPy."""


def with_scalars(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """Return an elementwise function that returns scalars if library functions do."""
    if isinstance(function, np.ufunc) or backend.shares_memory is None or not SCALARS[backend.array_types[0]]:
        return function

    def scalar(*arrays: Any, **settings: Any) -> Any:
        out = function(*arrays, **settings)
        return out if out.shape else out[()]

    return scalar


def with_values(data: Any, raw: Any) -> Any:
    """Return ``data`` with another plain array, and with its levels and nodes."""
    return wrap(with_values(data.data, raw), data.level, data.node) if isinstance(data, Tensor) else raw


def copied(value: Any) -> Any:
    """Return a row-major copy of a plain array, or itself if no array shares memory."""
    backend = SHARING[type(value)]
    if backend is None:
        return value

    def copy(value: Any) -> Any:
        out = backend.xp.empty(tuple(value.shape), dtype=value.dtype, device=backend.device_of(value))
        out[...] = value
        return out

    return backend.placed(copy)(value)


def copy_if_aliased(values: Iterable[Any], others: Sequence[Any] = (), *, row_major: bool = False) -> list[Any]:
    """Return the values, with a copy of each value that does not own its memory.

    A value owns its memory if it is writable, repeats no element, and shares no memory with an earlier value or with
    ``others``. With ``row_major``, it must be in row-major order too. Plain arrays are copied, and outside of
    transforms also their Tensors. All other values are returned unchanged.
    """
    values = list(values)
    if values and not others and not row_major:  # gradients of leaves, most of them new arrays
        backend = SHARING[type(values[0])]
        if backend is not None and len(set(map(type, values))) == 1 and backend.unaliased(values):
            return values
    held: dict[Any, list[Any]] = {}
    for other in others:
        raw = other.raw if isinstance(other, Tensor) else other
        backend = SHARING[type(raw)]
        if backend is not None:
            held.setdefault(backend.memory(raw), []).append(raw)
    for i, value in enumerate(values):
        plain = type(value) is Tensor and value.level.id == 0
        raw = value.data if plain else value
        backend = SHARING[type(raw)]
        if backend is None:
            if plain and getattr(value, "_link", None) is not None:
                values[i] = wrap(raw, value.level, value.node)
            continue
        block = backend.memory(raw)
        shared = block is None or (block in held and shares_any(raw, held[block]))
        if shared or (row_major and not backend.row_major(raw)):
            raw = copied(raw)
            values[i] = wrap(raw, value.level, value.node) if plain else raw
            block = backend.memory(raw)
        held.setdefault(block, []).append(raw)
    return values


@cache
def unit_stride(backend: Any, dtype: Any) -> int:
    """Return the stride of a contiguous vector."""
    found: int = backend.strides(backend.xp.empty((2,), dtype=dtype))[0]
    return found


def apart_by_rows(raw: Any, others: Sequence[Any] = ()) -> Any:
    """Return a row-major array that shares no memory with others."""
    backend = SHARING[type(raw)]
    if backend is None or (not others and backend.row_major(raw) and backend.memory(raw) is not None):
        return raw
    return copy_if_aliased([raw], others, row_major=True)[0]


def shares_any(raw: Any, others: Iterable[Any]) -> bool:
    """Return True if an array of a library with views shares memory with others."""
    shares = backend_of(raw).shares_memory
    assert shares is not None
    return any(raw is other or (type(other) is type(raw) and shares(raw, other)) for other in others)


def copy_if_interleaved(mapped: Any, *, packed: bool = False) -> Any:
    """Return batch elements, along the first axis, that are separate in memory.

    If the batch axis is between other axes in memory, a reshape of a batch element might be a copy although it is a
    view outside of ``vmap``. Such elements are copied (``copy_with_strides``).
    """
    raw = mapped.raw if isinstance(mapped, Tensor) else mapped
    backend = backend_of(raw)
    if backend.shares_memory is None:
        return mapped
    steps, lead = backend.strides(raw), raw.ndim - len(mapped.shape) + 1
    outer = min((abs(step) for step, n in zip(steps[:lead], raw.shape, strict=False) if n > 1), default=math.inf)
    if all(abs(step) <= outer or n == 1 for step, n in zip(steps[lead:], raw.shape[lead:], strict=True)):
        return mapped
    return with_values(mapped, copy_with_strides(raw, steps[lead:], packed=packed))


def copy_with_strides(raw: Any, steps: Sequence[int], *, packed: bool = False) -> Any:
    """Return a copy of batch elements, each with the layout of given strides.

    ``raw`` contains the batch elements along the first axes. ``steps`` are the strides. With ``packed``, the axes are
    in the order of the strides, without gaps between elements. Otherwise, a reshape of a batch element is a view if a
    reshape of an array with these strides is one.
    """
    backend, lead = backend_of(raw), raw.ndim - len(steps)
    shape = tuple(raw.shape[lead:])
    order = sorted(range(len(shape)), key=lambda i: -abs(steps[i]))
    lengths, last, inner, expected = list(shape), 1, -1, unit_stride(backend, raw.dtype)
    for i in reversed(order):
        if shape[i] == 1:
            continue
        if steps[i] != expected and not packed:  # leave a gap between elements, or behind the axis further inside
            last, lengths[inner] = (2, lengths[inner]) if inner < 0 else (last, lengths[inner] + 1)
        inner, expected = i, shape[i] * steps[i]
    room = (*raw.shape[:lead], *[lengths[i] for i in order], last)
    out = backend.xp.empty(room, dtype=raw.dtype, device=backend.device_of(raw))[(..., 0)]
    out = backend.xp.permute_dims(out, (*range(lead), *[lead + order.index(i) for i in range(len(shape))]))
    out = out[tuple([slice(n) for n in raw.shape])]
    out[...] = raw
    return out

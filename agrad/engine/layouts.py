"""Layouts of raw arrays in memory. They decide which results are views."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor, wrap
from agrad.registry import CALLS


class _Sharing(dict[type, bool]):
    """Flags by array type: True if arrays of the type may share memory.

    NumPy's scalars count as arrays only if ``scalars``.
    """

    def __init__(self, *, scalars: bool) -> None:
        super().__init__()
        self.scalars = scalars

    def __missing__(self, kind: type) -> bool:
        backend = backend_of_type(kind)
        shares = backend is not None and backend.shares_memory is not None
        self[kind] = shares = shares and (self.scalars or not issubclass(kind, np.generic))
        return shares


SHARING = _Sharing(scalars=False)
SPLIT = _Sharing(scalars=True)
"""The same flags for results that are parts of each element."""


def with_values(data: Any, raw: Any) -> Any:
    """Return ``data`` with ``raw`` as its raw array and with its levels and nodes."""
    return wrap(with_values(data.data, raw), data.level, data.node) if isinstance(data, Tensor) else raw


def copied(value: Any) -> Any:
    """Return a row-major copy of a raw array, or itself if none shares memory."""
    if not SHARING[type(value)]:
        return value
    backend = backend_of(value)

    def copy(value: Any) -> Any:
        out = backend.xp.empty(tuple(value.shape), dtype=value.dtype, device=backend.device_of(value))
        out[...] = value
        return out

    return backend.placed(copy)(value)


def lies_in_a_row(vector: Tensor) -> bool:
    """Return True if the elements of a 1-dimensional Tensor are contiguous in memory.

    A trace that asks is marked as dependent on layouts, whatever the answer.
    """
    raw = vector.raw
    backend = backend_of(raw)
    if backend.shares_memory is None or vector.size < 2:
        return True
    trace = mode().trace
    if trace is not None:
        trace.by_layout = True
    return bool(backend.strides(raw)[-1] == _unit(backend, raw.dtype))


@cache
def _unit(backend: Any, dtype: Any) -> int:
    """Return the stride of a contiguous vector."""
    found: int = backend.strides(backend.xp.empty((2,), dtype=dtype))[0]
    return found


def apart_by_rows(raw: Any, others: Iterable[Any] = ()) -> Any:
    """Return a raw array that is row-major and shares no memory with others.

    It is a copy if it has to be. Arrays of libraries that share no memory are returned as they are.
    """
    if not SHARING[type(raw)] or (backend_of(raw).row_major(raw) and not shares_any(raw, others)):
        return raw
    return copied(raw)


def shares_any(raw: Any, others: Iterable[Any]) -> bool:
    """Return True if a raw array, whose library shares memory, shares that of others."""
    shares = backend_of(raw).shares_memory
    assert shares is not None
    return any(raw is other or (type(other) is type(raw) and shares(raw, other)) for other in others)


def members_apart(mapped: Any, *, packed: bool = False) -> Any:
    """Return members, along the first axis of an array or Tensor, apart in memory.

    Results have the layout of operands: if the mapped axis lies among a member's own in memory, a reshape of a member
    might be a copy although it is a view for a member alone. Members that do not lie apart are copied; see
    ``members_like``.
    """
    raw = mapped.raw if isinstance(mapped, Tensor) else mapped
    backend = backend_of(raw)
    if backend.shares_memory is None:
        return mapped
    steps, lead = backend.strides(raw), raw.ndim - len(mapped.shape) + 1
    outer = min((abs(step) for step, n in zip(steps[:lead], raw.shape, strict=False) if n > 1), default=math.inf)
    if all(abs(step) <= outer or n == 1 for step, n in zip(steps[lead:], raw.shape[lead:], strict=True)):
        return mapped
    return with_values(mapped, members_like(raw, steps[lead:], packed=packed))


def members_like(raw: Any, steps: Sequence[int], *, packed: bool = False) -> Any:
    """Return a copy of members, each laid out like an array with given strides.

    raw: the members along the first axes. steps: the strides of such an array. packed: the order of the axes is that
    of the strides, and nothing lies between the elements. Otherwise a reshape of a member is a view if one of such an
    array is.
    """
    backend, lead = backend_of(raw), raw.ndim - len(steps)
    shape = tuple(raw.shape[lead:])
    order = sorted(range(len(shape)), key=lambda i: -abs(steps[i]))
    lengths, last, inner, expected = list(shape), 1, -1, _unit(backend, raw.dtype)
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


CALLS["lies_in_a_row"] = lies_in_a_row

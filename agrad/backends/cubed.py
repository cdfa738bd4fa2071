"""Cubed: arrays larger than memory, in chunks that are computed one by one."""

from collections.abc import Callable
from typing import Any

import cubed
import numpy as np
from cubed.core.ops import elemwise

from agrad.backends.generic import of_namespace
from agrad.backends.numpy import backend as host
from agrad.backends.special import SpecialWords, in_double
from agrad.registry import PRIMITIVES, kernel


def _take(x: Any, indices: Any, /, *, axis: int = 0) -> Any:
    n = x.shape[axis]
    if indices.shape[0] != n:
        return cubed.take(x, indices, axis=axis)
    # for as many indices as the axis is long, Cubed returns x itself
    longer = cubed.concat([indices, indices[:1]], axis=0)
    return cubed.take(x, longer, axis=axis)[(slice(None),) * axis + (slice(0, n),)]


def _broadcast_to(x: Any, shape: tuple[int, ...], /) -> Any:
    """Broadcast in chunks of about a twentieth of a task's memory, at most 8 MB; Cubed uses one element."""
    lead = len(shape) - x.ndim
    kept = [i >= lead and x.shape[i - lead] == n for i, n in enumerate(shape)]
    length = int(min(1e6, x.spec.allowed_mem / 160) ** (1 / max(1, kept.count(False))))
    chunks = [x.chunks[i - lead] if kept[i] else min(n, length) for i, n in enumerate(shape)]
    return cubed.broadcast_to(x, shape, chunks=tuple(chunks))


def _in_chunks(xp: Any, form: Callable[..., Any], dtype: Any, *arrays: Any, **settings: Any) -> Any:
    """Evaluate a form as one operation on NumPy chunks. A plan of its thousand operations would need minutes."""

    def on_chunks(*chunks: Any) -> Any:
        return np.asarray(in_double(host.BACKEND.xp, form, dtype, *chunks, **settings))

    return elemwise(on_chunks, *arrays, dtype=dtype)


def _reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    try:
        return cubed.reshape(x, shape, copy=copy)
    except ValueError:  # its chunks do not split or merge evenly
        return cubed.reshape(cubed.rechunk(x, x.shape), shape, copy=copy)


def _concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    # it compares the wrong lengths for a negative axis
    return cubed.concat(arrays, axis=axis if axis is None else axis % arrays[0].ndim)


_FUNCTIONS = {"take": _take, "broadcast_to": _broadcast_to, "reshape": _reshape, "concat": _concat}
BACKEND = of_namespace(cubed, functions=_FUNCTIONS | {"special": SpecialWords(evaluate=_in_chunks)})


@kernel("cubed", "random_truncated_normal", "forward")
def truncated_normal(u: Any, low: Any, high: Any) -> Any:
    return _in_chunks(None, PRIMITIVES["random_truncated_normal"].forward, low.dtype, u, low, high)

"""Cubed: arrays larger than memory, in chunks that are computed one by one."""

from typing import Any

import cubed

from agrad.backends.generic import of_namespace


def _take(x: Any, indices: Any, /, *, axis: int = 0) -> Any:
    n = x.shape[axis]
    if indices.shape[0] != n:
        return cubed.take(x, indices, axis=axis)
    # of as many indices as the axis is long Cubed returns x itself
    longer = cubed.concat([indices, indices[:1]], axis=0)
    return cubed.take(x, longer, axis=axis)[(slice(None),) * axis + (slice(0, n),)]


def _broadcast_to(x: Any, shape: tuple[int, ...], /) -> Any:
    """Broadcast in chunks of about 8 MB; Cubed's own have one element."""
    lead = len(shape) - x.ndim
    kept = [i >= lead and x.shape[i - lead] == n for i, n in enumerate(shape)]
    length = int(1e6 ** (1 / max(1, kept.count(False))))
    chunks = [x.chunks[i - lead] if kept[i] else min(n, length) for i, n in enumerate(shape)]
    return cubed.broadcast_to(x, shape, chunks=tuple(chunks))


BACKEND = of_namespace(cubed, functions={"take": _take, "broadcast_to": _broadcast_to})

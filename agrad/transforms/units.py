"""Unit vectors, as a batch of cotangents or tangents."""

from collections.abc import Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.engine.batching import Batch
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor, raw_of
from agrad.shapes import size
from agrad.transforms.arguments import zeros


def count_elements(values: Sequence[Any]) -> int:
    """Return the number of elements of some arrays."""
    return sum(size(value.shape) for value in values)


class Units:
    """Some of the unit vectors, as the elements of a batch.

    A single vector needs no batch.
    """

    def __init__(self, places: slice) -> None:
        self.start, self.stop = places.start, places.stop
        self.count = self.stop - self.start
        self.batch = None if self.count == 1 else Batch(self.count)

    def of(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the part of the unit vectors for each leaf, or None if it is zero.

        The elements of all leaves count as one vector.
        """
        out, offset = [], 0
        for leaf in leaves:
            out.append(self._leaf(leaf, offset))
            offset += size(leaf.shape)
        return out

    def _leaf(self, like: Any, offset: int) -> Any:
        count = size(like.shape)
        if self.start >= offset + count or self.stop <= offset:
            return None
        raw = raw_of(like)
        backend = backend_of(raw)
        xp, device = backend.xp, backend.device_of(raw)
        eye = xp.eye(self.count, count, k=self.start - offset, dtype=raw.dtype, device=device)
        if self.batch is None:
            return xp.reshape(eye, tuple(like.shape))
        return self.batch.wrap(xp.reshape(eye, (self.count, *like.shape)))

    def rows(self, value: Any, like: Any) -> Any:
        """Return the results of the unit vectors, stacked along a new first axis."""
        if self.batch is not None and isinstance(value, Tensor) and value.level is self.batch:
            return value.data
        value = zeros(like) if value is None else value
        xp, shape = namespace_of((value,)), (self.count, *value.shape)
        return xp.broadcast_to(value, shape) if self.batch is not None else xp.reshape(value, shape)


def joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else namespace_of(parts).concat(parts, axis=0)


def parts_of(rows: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the rows of each leaf, which follow one another."""
    out, offset = [], 0
    for leaf in leaves:
        stop = offset + size(leaf.shape)
        out.append(rows if stop - offset == rows.shape[0] else rows[offset:stop, ...])
        offset = stop
    return out


def shaped(value: Any, shape: tuple[int, ...]) -> Any:
    return value if tuple(value.shape) == shape else namespace_of((value,)).reshape(value, shape)

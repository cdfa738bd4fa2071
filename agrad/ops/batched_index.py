"""The axes of an index's result, and an index over a whole batch.

As in NumPy, index arrays and integers broadcast together to one block of axes. The block replaces their axes, or
precedes all other axes if other entries separate them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agrad.dtypes import as_dtype
from agrad.engine.batching import with_rank
from agrad.engine.tensor import BatchedTensor, Tensor
from agrad.errors import TracedValueError
from agrad.shapes import ARRAY

Template = tuple[Any, ...]


class Layout(NamedTuple):
    """The axes of the result of an index.

    ``block``: the number of axes of the block; ``first``: the number of other axes before it; ``rank``: the number of
    all axes; ``separated``: True if the block is in front because something separates the index arrays.
    """

    block: int
    first: int
    rank: int
    separated: bool

    def block_first(self, xp: Any, value: Any) -> Any:
        """Move the block of axes of a batch element directly behind the mapped axis."""
        if not self.first or not self.block:
            return value
        lead, stop = 1 + self.first, 1 + self.first + self.block
        return xp.permute_dims(value, (0, *range(lead, stop), *range(1, lead), *range(stop, len(value.shape))))

    def block_back(self, xp: Any, value: Any) -> Any:
        """Undo ``block_first``."""
        if not self.first or not self.block:
            return value
        stop = 1 + self.block
        others = tuple(range(stop, len(value.shape)))
        return xp.permute_dims(value, (0, *others[: self.first], *range(1, stop), *others[self.first :]))


def _is_mask(array: Any) -> bool:
    return as_dtype(array.dtype).kind == "bool"


def is_mapped_mask(array: Any, x: Any) -> bool:
    """Return True if any ``vmap`` maps over a mask of all of ``x``."""
    inner = array
    while isinstance(inner, Tensor) and not isinstance(inner, BatchedTensor):
        inner = inner.data
    return isinstance(inner, BatchedTensor) and _is_mask(array) and tuple(array.shape) == tuple(x.shape)


def layout(index: Template, arrays: Sequence[Any], mapped: Sequence[bool], ndim: int) -> Layout:
    """Return the layout of ``x[index]`` for a batch element ``x`` with ``ndim`` axes."""
    ndims = [len(array.shape) - is_mapped for array, is_mapped in zip(arrays, mapped, strict=True)]
    block = max((1 if _is_mask(array) else n for array, n in zip(arrays, ndims, strict=True)), default=0)
    consumed = [n if _is_mask(array) else 1 for array, n in zip(arrays, ndims, strict=True)]
    used = sum(consumed) + sum(isinstance(entry, (int, slice)) for entry in index)
    produced = first = runs = 0
    inside = False
    for entry in index:
        advanced = bool(arrays) and (entry is ARRAY or isinstance(entry, int))
        if advanced and not inside:
            runs += 1
            first = produced if runs == 1 else 0
        inside = advanced
        if entry is Ellipsis:
            produced += ndim - used
        elif entry is None or isinstance(entry, slice):
            produced += 1
    if not any(entry is Ellipsis for entry in index):
        produced += ndim - used
    return Layout(block, first, produced + block, runs > 1)


def over_members(
    xp: Any, index: Template, arrays: Sequence[Any], mapped: Sequence[bool], block: int
) -> tuple[Template, list[Any]]:
    """Return an index with mapped arrays as an index over the batch.

    Its block has the mapped axis in front. Masks that are not mapped become integers. Raises ``TracedValueError`` if a
    mask is mapped, because batch elements would select different numbers of elements.
    """
    rest = iter(zip(arrays, mapped, strict=True))
    template: list[Any] = []
    out: list[Any] = []
    for entry in index:
        if entry is not ARRAY:
            template.append(entry)
            continue
        array, is_mapped = next(rest)
        if not _is_mask(array):
            parts = [with_rank(xp, array, block) if is_mapped else array]
        elif is_mapped:
            raise TracedValueError(
                "x[mask]: vmap cannot index by a mapped mask, because batch elements would select different numbers "
                "of elements. Use agrad.where(mask, x, y) to keep the shape, or assign one value: x[mask] = number."
            )
        else:
            parts = list(xp.nonzero(array))
        template += [ARRAY] * len(parts)
        out += parts
    return tuple(template), out


def members(xp: Any, like: Any, count: int, block: int) -> Any:
    """Return the index array of the mapped axis, for a block of ``block`` more axes."""
    return xp.reshape(xp.arange_like(like, count), (count, *(1,) * block))


def aligned(xp: Any, value: Any, mapped: bool, rank: int) -> Any:
    """Return a value to write with a batch axis followed by ``rank`` axes."""
    shape = tuple(value.shape)
    lead, own = (shape[:1], shape[1:]) if mapped else ((1,), shape)
    own = own[max(len(own) - rank, 0) :]  # NumPy accepts values with additional leading axes of length one
    target = (*lead, *(1,) * (rank - len(own)), *own)
    return value if target == shape else xp.reshape(value, target)

"""NumPy's indexing rules for libraries that know only a part of them.

``plan`` splits an index into a basic one (a view) and one adjacent block of index arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.errors import IndexRangeError, ShapeError
from agrad.shapes import ARRAY, Shape, fill_index, size

Index = tuple[Any, ...]


def host_index(entry: Any, to_host: Callable[[Any], np.ndarray]) -> np.ndarray:
    """Return an index array as a NumPy array; an empty list is one of integers."""
    if not isinstance(entry, (list, tuple, int, np.ndarray, np.generic)):
        return to_host(entry)
    array = np.asarray(entry)
    return array.astype(np.intp) if not array.size and isinstance(entry, (list, tuple)) else array


def _entries(index: Index, arrays: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Return the entries of an index, arrays filled in, each with True for an array."""
    rest = iter(arrays)
    return [(next(rest), True) if entry is ARRAY else (entry, False) for entry in index]


def check_bounds(index: Index, arrays: Sequence[np.ndarray | None], shape: Shape) -> None:
    """Raise ``IndexRangeError`` for an integer out of range.

    Libraries call it that would clamp or drop such an integer silently. ``arrays`` stand for the ``ARRAY`` entries of
    ``index``; None stands for an array of integers that cannot be read.
    """
    entries = _entries(index, arrays)
    used = sum(_consumes(entry, known) for entry, known in entries)
    if used > len(shape):
        raise IndexRangeError(f"too many indices: {used} for an array of shape {shape}")
    # NumPy does not check the other index arrays where one picks no element
    nothing = any(entry is False or (is_array and _picks_nothing(entry)) for entry, is_array in entries)
    axis = 0
    for entry, is_array in entries:
        if entry is Ellipsis:
            axis += len(shape) - used
            continue
        integers = is_array and not nothing and entry is not None and entry.dtype.kind in "iu"
        if integers or (not is_array and isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)):
            low, high = (int(entry.min()), int(entry.max())) if integers else (int(entry), int(entry))
            if low < -shape[axis] or high >= shape[axis]:
                wrong = low if low < -shape[axis] else high
                raise IndexRangeError(f"index {wrong} is out of bounds for axis {axis} of length {shape[axis]}")
        axis += _consumes(entry, is_array)


def _picks_nothing(array: np.ndarray | None) -> bool:
    return array is not None and (not array.any() if array.dtype == bool else not array.size)


def _consumes(entry: Any, is_array: bool) -> int:
    """Return the number of axes that an entry takes, without those of an Ellipsis."""
    if entry is Ellipsis or isinstance(entry, (bool, np.bool_)):
        return 0
    if entry is None:
        return int(is_array)
    if is_array and str(entry.dtype).endswith("bool"):
        return entry.ndim
    return 1


def explicit(index: Index, shape: Shape) -> Index:
    """Return a basic index without Ellipsis, slices in bounds. ``ARRAY`` is one axis."""
    used = sum(entry is ARRAY or _consumes(entry, False) for entry in index)
    out: list[Any] = []
    axis = 0
    for entry in index:
        if entry is Ellipsis:
            out += [slice(None)] * (len(shape) - used)
            axis += len(shape) - used
        elif isinstance(entry, slice):
            picked = range(*entry.indices(shape[axis])) if axis < len(shape) else range(0)
            end = picked.stop if picked.stop >= 0 else None
            out.append(slice(picked.start, end, picked.step) if picked else slice(0, 0))
            axis += 1
        else:
            out.append(entry)
            axis += entry is not None
    return tuple(out)


class Plan(NamedTuple):
    """An index in steps.

    Reverse the axes ``flip``, take the view ``basic``, permute it by ``axes`` (None: not at all), and index its axes
    ``first, first + 1, ...`` with ``arrays``, all of integers.
    """

    flip: tuple[int, ...]
    basic: Index
    axes: tuple[int, ...] | None
    first: int
    arrays: tuple[Any, ...]


def plan(
    index: Index,
    arrays: Sequence[Any],
    shape: Shape,
    nonzero: Callable[[Any], tuple[Any, ...]],
    zeros: Callable[[int], Any],
) -> Plan:
    """Split an index by NumPy's rules, with steps made positive.

    ``arrays`` are the library's own, of integers or booleans; ``nonzero`` and ``zeros`` make index arrays of a mask and
    of a length. Raises ``IndexRangeError`` or ``ShapeError`` where the index does not fit ``shape``.
    """
    entries = _entries(index, arrays)
    used = sum(_consumes(entry, is_array) for entry, is_array in entries)
    if used > len(shape) or sum(entry is Ellipsis for entry, _ in entries) > 1:
        raise IndexRangeError(f"the index {index} has too many entries for an array of shape {shape}")
    if not any(entry is Ellipsis for entry, _ in entries):
        entries.append((Ellipsis, False))

    flip: list[int] = []
    basic: list[Any] = []
    indexed: list[int] = []
    blocks: list[Any] = []
    runs: list[bool] = []
    axis = out = 0
    for entry, is_array in entries:
        consumed = len(shape) - used if entry is Ellipsis else _consumes(entry, is_array)
        produced = consumed
        runs.append(not (entry is Ellipsis or isinstance(entry, slice)) and (is_array or entry is not None))
        if not consumed and (is_array or isinstance(entry, (bool, np.bool_))):  # a mask over a new axis of length one
            basic.append(None)
            blocks.append(zeros(int(bool(entry))))
            indexed.append(out)
            produced = 1
        elif is_array:
            basic += [slice(None)] * consumed
            blocks += _integers(entry, shape, axis, nonzero)
            indexed += range(out, out + produced)
        elif entry is Ellipsis:
            basic += [slice(None)] * consumed
        elif isinstance(entry, slice):
            part, reversed_ = _ascending(entry, shape[axis])
            basic.append(part)
            flip += [axis] if reversed_ else []
        else:
            basic.append(entry)
            produced = int(entry is None)
        axis += consumed
        out += produced

    if indexed and _separated(runs):
        axes = (*indexed, *(i for i in range(out) if i not in indexed))
        return Plan(tuple(flip), tuple(basic), axes, 0, tuple(blocks))
    return Plan(tuple(flip), tuple(basic), None, indexed[0] if indexed else 0, tuple(blocks))


def _integers(array: Any, shape: Shape, axis: int, nonzero: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return an index array, of a mask from ``axis`` on the integers it stands for."""
    if not str(array.dtype).endswith("bool"):
        return (array,)
    # NumPy lets a mask of no elements pass for any length
    if any(m not in (0, n) for m, n in zip(array.shape, shape[axis:], strict=False)):
        raise ShapeError(f"a mask of shape {tuple(array.shape)} does not fit {shape} from axis {axis} on")
    return tuple(nonzero(array))


def _ascending(part: slice, length: int) -> tuple[slice, bool]:
    """Return a slice with a positive step, and True where the axis is reversed first."""
    start, stop, step = part.indices(length)
    if step > 0:
        return slice(start, max(start, stop), step), False
    count = len(range(start, stop, step))
    start = length - 1 - start
    stop = start + (count - 1) * -step + 1 if count else start
    return slice(start, max(start, stop), -step), True


def _separated(runs: Sequence[bool]) -> bool:
    """Return whether index arrays (integers are such) stand in more than one run."""
    started = [now for before, now in zip([False, *runs], runs, strict=False) if now and not before]
    return len(started) > 1


def positions(index: Index, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
    """Return the positions of the elements of ``x[index]`` in the flattened ``x``."""
    return np.asarray(np.arange(size(shape)).reshape(shape)[fill_index(index, arrays)])

"""The NumPy indexing rules for libraries that support only a part of them.

An index is a template, whose ``ARRAY`` entries are placeholders for arrays, and these arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.errors import IndexRangeError
from agrad.shapes import ARRAY, Shape, fill_index, size

Index = tuple[Any, ...]


def host_index(entry: Any, to_host: Callable[[Any], np.ndarray]) -> np.ndarray:
    """Return an index array as a NumPy array. An empty list becomes integers."""
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

    Use it for libraries that clamp or drop such an integer silently. ``arrays`` replace the ``ARRAY`` entries of
    ``index``. None represents an array of integers that cannot be read.
    """
    entries = _entries(index, arrays)
    used = sum(_consumes(entry, known) for entry, known in entries)
    if used > len(shape):
        raise IndexRangeError(f"too many indices: {used} for an array of shape {shape}")
    # if one index array selects no element, NumPy does not check the others
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
    """Return the number of axes that an entry consumes, without the axes of an Ellipsis."""
    if entry is Ellipsis or isinstance(entry, (bool, np.bool_)):
        return 0
    if entry is None:
        return int(is_array)
    if is_array and str(entry.dtype).endswith("bool"):
        return entry.ndim
    return 1


def explicit(index: Index, shape: Shape) -> Any:
    """Return an index with an entry for each axis and slices in bounds.

    Returns None if it has Booleans. ``ARRAY`` counts as one axis. Raises ``IndexRangeError`` for an integer out of
    range.
    """
    out: list[Any] = []
    axis, used = 0, sum(entry is not None and entry is not Ellipsis for entry in index)
    for entry in index:
        kind = type(entry)
        if entry is None:
            out.append(entry)
            continue
        if kind is bool or kind is np.bool_:
            return None
        if entry is Ellipsis:
            out += [slice(None)] * (len(shape) - used)
            axis += len(shape) - used
            continue
        if axis >= len(shape):
            raise IndexRangeError(f"too many indices: {used} for an array of shape {shape}")
        n = shape[axis]
        if kind is slice:
            start, stop, step = entry.indices(n)
            some = start < stop if step > 0 else start > stop
            entry = slice(start, stop if stop >= 0 else None, step) if some else slice(0, 0)
        elif entry is not ARRAY and not -n <= entry < n:
            raise IndexRangeError(f"index {entry} is out of bounds for axis {axis} of length {n}")
        out.append(entry)
        axis += 1
    return (*out, *(slice(None),) * (len(shape) - axis))


def positions(index: Index, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
    """Return the positions of the elements of ``x[index]`` in the flattened ``x``."""
    return np.asarray(np.arange(size(shape)).reshape(shape)[fill_index(index, arrays)])

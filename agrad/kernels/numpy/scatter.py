"""Sums of values at index positions on NumPy."""

import math
from typing import Any

import numpy as np

from agrad.registry import kernel
from agrad.shapes import ARRAY, fill_index

_FEW = 512
"""Elements up to which ``numpy.add.at`` is as fast as flat positions."""

_LONG_ROW = 150
"""Elements of a row from which on it is faster to add row by row than element by element, measured."""

Shape = tuple[int, ...]


@kernel("numpy", "scatter_add", "namespace", gain=2.5)
def scatter_add(g: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...], shape: Shape) -> np.ndarray:
    """Return zeros of ``shape`` with ``g`` added at the index.

    Repeated positions accumulate in the order of ``g``. ``numpy.add.at`` has a fast loop for one flat index. For an
    index of several parts, it needs ten times as long.
    """
    out = np.zeros(shape, dtype=g.dtype)
    arrays = all(type(i) is np.ndarray for i in indices)
    if arrays and all(i.dtype.kind == "b" for i in indices):  # without integer arrays no position repeats
        out[fill_index(index, indices)] = g
    elif not arrays or g.size <= _FEW or not _add_flat(out, g, indices, index):
        np.add.at(out, fill_index(index, indices), g)
    return out


@kernel("numpy", "scatter_sum", "forward", gain=6.0)
def scatter_sum(*parts: Any, indices: tuple[tuple[Any, ...], ...], shape: Shape) -> np.ndarray:
    """Return zeros of ``shape`` with each part added at its index."""
    first = parts[0]
    if indices[0] == (Ellipsis,):
        out = np.array(first)
    else:
        out = np.zeros(shape, first.dtype)
        out[indices[0]] = first
    for part, index in zip(parts[1:], indices[1:], strict=True):
        out[index] += part
    return out


def _add_flat(out: np.ndarray, g: np.ndarray, indices: tuple[np.ndarray, ...], index: tuple[Any, ...]) -> bool:
    """Add by flat positions or by rows, or return False.

    It returns False for an index other than full slices followed by arrays of integers in range.
    """
    lead, end = len(index) - len(indices), len(index)
    if not all(entry == slice(None) for entry in index[:lead]) or not all(entry is ARRAY for entry in index[lead:]):
        return False
    places: Any = 0
    for entry, n in zip(indices, out.shape[lead:end], strict=True):
        counted = _counted(entry, n)
        if counted is None:
            return False  # numpy.add.at raises the error
        places = places * n + counted
    places = places.reshape(-1)
    blocks, length, row = math.prod(out.shape[:lead]), math.prod(out.shape[lead:end]), math.prod(out.shape[end:])
    if row >= _LONG_ROW:
        to, given = out.reshape(blocks, length, row), g.reshape(blocks, places.size, row)
        for k, place in enumerate(places.tolist()):
            to[:, place] += given[:, k]
        return True
    if blocks > 1 or row > 1:
        starts = np.arange(blocks)[:, None] * length + places
        places = (starts[:, :, None] * row + np.arange(row)).reshape(-1)
    np.add.at(out.reshape(-1), places, g.reshape(-1))
    return True


def _counted(index: np.ndarray, length: int) -> np.ndarray | None:
    """Return integers counted from the start of an axis, or None if they do not fit."""
    if index.dtype.kind not in "iu" or not index.size:
        return None
    least = int(index.min())
    if least < -length or int(index.max()) >= length:
        return None
    index = index.astype(np.intp, copy=False)
    return index if least >= 0 else np.where(index < 0, index + length, index)

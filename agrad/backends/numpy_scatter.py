"""Adding at an index on NumPy: by positions in the flat array, or row by row, where ``numpy.add.at`` is slow.

``numpy.add.at`` has a fast loop for one flat index, and takes ten times as long where an index has several parts.
"""

import math
from typing import Any

import numpy as np

from agrad.registry import kernel
from agrad.shapes import ARRAY, fill_index

_FEW = 512
"""Elements up to which ``numpy.add.at`` is as fast as working out flat positions."""

_LONG_ROW = 150
"""Elements of a row from which on adding row by row is faster than element by element, measured."""

Shape = tuple[int, ...]


def scatter_add(g: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...], shape: Shape) -> np.ndarray:
    """Zeros of ``shape`` with ``g`` added at the index; repeated positions accumulate, in the order of ``g``."""
    out = np.zeros(shape, dtype=g.dtype)
    arrays = all(type(i) is np.ndarray for i in indices)
    if arrays and all(i.dtype.kind == "b" for i in indices):  # without integer arrays no position is named twice
        out[fill_index(index, indices)] = g
    elif not arrays or g.size <= _FEW or not _add_flat(out, g, indices, index):
        np.add.at(out, fill_index(index, indices), g)
    return out


@kernel("numpy", "scatter_sum", "forward")
def scatter_sum(*parts: Any, indices: tuple[tuple[Any, ...], ...], shape: Shape) -> np.ndarray:
    """Zeros of ``shape`` with each part added at its index, in one array."""
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
    """Add by flat positions or rows where the index is of a kind that has them; gives whether it was."""
    lead = len(index) - 1
    whole = all(entry is ARRAY for entry in index) and len(index) == out.ndim
    one = len(indices) == 1 and index[lead] is ARRAY and all(entry == slice(None) for entry in index[:lead])
    if not (whole or one):
        return False
    lengths = out.shape if whole else out.shape[lead : lead + 1]
    parts = [_counted(i, n) for i, n in zip(indices, lengths, strict=True)]
    if any(part is None for part in parts):
        return False  # numpy.add.at says what is wrong
    if whole:
        flat: Any = 0
        for part, n in zip(parts, lengths, strict=True):
            flat = flat * n + part
        np.add.at(out.reshape(-1), np.broadcast_to(flat, g.shape).reshape(-1), g.reshape(-1))
        return True
    places, row = parts[0].reshape(-1), math.prod(out.shape[lead + 1 :])
    blocks = math.prod(out.shape[:lead])
    to, given = out.reshape(blocks, lengths[0], row), g.reshape(blocks, places.size, row)
    if row >= _LONG_ROW:
        for k, place in enumerate(places.tolist()):
            to[:, place] += given[:, k]
        return True
    starts = np.arange(blocks)[:, None] * lengths[0] + places
    flat = starts[:, :, None] * row + np.arange(row)
    np.add.at(out.reshape(-1), flat.reshape(-1), g.reshape(-1))
    return True


def _counted(index: np.ndarray, length: int) -> np.ndarray | None:
    """Integers that count from the start of an axis; None where one is out of its range, or they are no integers."""
    if index.dtype.kind not in "iu" or not index.size:
        return None
    least = int(index.min())
    if least < -length or int(index.max()) >= length:
        return None
    index = index.astype(np.intp, copy=False)
    return index if least >= 0 else np.where(index < 0, index + length, index)

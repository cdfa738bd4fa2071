"""NumPy: the vocabulary, and what NumPy does faster than the generic words."""

import sys
from types import SimpleNamespace
from typing import Any

import array_api_compat.numpy as compat
import numpy as np

from agrad.backends.base import Backend, vocabulary
from agrad.shapes import fill_index


def getitem(x: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    return x[fill_index(index, indices)]


def setitem(x: np.ndarray, value: Any, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    out = np.array(x)
    out[fill_index(index, indices)] = value
    return out


def scatter_add(
    g: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...], shape: tuple[int, ...]
) -> np.ndarray:
    out = np.zeros(shape, dtype=g.dtype)
    if indices:
        np.add.at(out, fill_index(index, indices), g)
    else:  # without an array, no position is named twice
        out[fill_index(index, indices)] = g
    return out


def _references(holder: SimpleNamespace) -> int:
    raw = holder.data
    return _count(raw)


def _count(raw: np.ndarray) -> int:
    return sys.getrefcount(raw)


_ALONE = _references(SimpleNamespace(data=np.empty(1)))
"""What the interpreter counts when one attribute and one caller's variable hold an array, and nothing else."""


def donatable(raw: np.ndarray) -> bool:
    return type(raw) is np.ndarray and raw.flags.owndata and raw.flags.writeable and sys.getrefcount(raw) <= _ALONE


def _find_device(name: str) -> str | None:
    return name if name == "cpu" else None


BACKEND = Backend(
    name="numpy",
    xp=vocabulary(compat, getitem=getitem, setitem=setitem, scatter_add=scatter_add),
    version=np.__version__,
    array_types=(np.ndarray, np.generic),
    default_device=lambda: "cpu",
    devices=lambda: ("cpu",),
    find_device=_find_device,
    device_of=lambda x: "cpu",
    to_host=lambda x: np.asarray(x),
    from_host=lambda a, device: np.array(a),
    synchronize=lambda: None,
    donatable=donatable,
)

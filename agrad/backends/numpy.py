"""NumPy: the vocabulary, and what NumPy does faster than the generic words."""

import sys
import weakref
from typing import Any

import array_api_compat.numpy as compat
import numpy as np

import agrad.backends.numpy_kernels  # noqa: F401 - files the kernels
from agrad.backends.base import Backend, vocabulary
from agrad.backends.numpy_fused import keep_memory, where
from agrad.backends.numpy_words import WORDS
from agrad.shapes import fill_index


def getitem(x: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    return x[fill_index(index, indices)]


def setitem(x: np.ndarray, value: Any, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    out = np.array(x)
    out[fill_index(index, indices)] = value
    return out


def scatter_add(g: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, dtype=g.dtype)
    if indices:
        np.add.at(out, fill_index(index, indices), g)
    else:  # without an array, no position is named twice
        out[fill_index(index, indices)] = g
    return out


class _Holder:
    __slots__ = ("data",)

    data: np.ndarray


def references(holder: Any) -> int:
    """What the interpreter counts for ``holder.data``: at least ``ALONE``, and just that where nobody else holds it."""
    return sys.getrefcount(holder.data)


def _calibrate() -> int:
    # how many of its own temporaries an interpreter counts is its own affair; one that does not count gives 0
    holder = _Holder()
    holder.data = np.empty(1)
    return references(holder) if hasattr(sys, "getrefcount") else 0


ALONE = _calibrate()


def donatable(holder: Any) -> bool:
    # no variable for the array: it would be counted, and whether it is depends on how the interpreter made the call.
    # A view of the array counts, as it holds its base; a weak reference does not, so it is asked for.
    return (
        type(holder.data) is np.ndarray
        and holder.data.flags.owndata
        and holder.data.flags.writeable
        and references(holder) <= ALONE
        and not weakref.getweakrefcount(holder.data)
    )


def _find_device(name: str) -> str | None:
    return name if name == "cpu" else None


BACKEND = Backend(
    name="numpy",
    xp=vocabulary(compat, **WORDS, where=where, getitem=getitem, setitem=setitem, scatter_add=scatter_add),
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

keep_memory()

"""NumPy: the vocabulary, and what NumPy does faster than the generic words."""

import sys
import weakref
from collections.abc import Sequence
from typing import Any

import array_api_compat.numpy as compat
import numpy as np

import agrad.backends.host_random
import agrad.backends.numpy_elementwise
import agrad.backends.numpy_kernels
import agrad.backends.numpy_linalg
import agrad.backends.numpy_products
import agrad.backends.numpy_reductions  # noqa: F401 - files the kernels
from agrad.backends import special_words
from agrad.backends.base import CONTENT, Backend, vocabulary
from agrad.backends.numpy_fused import keep_memory, where
from agrad.backends.numpy_scatter import scatter_add
from agrad.backends.numpy_words import WORDS
from agrad.shapes import fill_index


def getitem(x: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    return x[fill_index(index, indices)]


def setitem(x: np.ndarray, value: Any, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    out = np.array(x)
    out[fill_index(index, indices)] = value
    return out


def from_parts(x1: Any, x2: Any, /) -> np.ndarray:
    # x1 + 1j * x2 would make nan of an infinite part
    out = np.empty(np.broadcast(x1, x2).shape, np.result_type(x1, x2, np.complex64))
    out.real, out.imag = x1, x2
    return out


def laid_out_like(x: Any, like: Any) -> np.ndarray:
    if x.strides == like.strides:
        return np.asarray(x)
    out = np.empty_like(like, subok=False)
    out[...] = x
    return out


def memory(x: np.ndarray) -> int | None:
    if not x.flags.writeable or 0 in x.strides:
        return None
    block: Any = x
    while isinstance(block, np.ndarray) and block.base is not None:
        block = block.base
    return id(block)


def apart(arrays: Sequence[np.ndarray]) -> bool:
    for x in arrays:
        if x.base is not None or not x.flags.writeable:
            return False
    return len(set(map(id, arrays))) == len(arrays)


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
    xp=vocabulary(
        compat,
        **WORDS,
        where=where,
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        from_parts=from_parts,
        special=special_words.NUMPY,
    ),
    version=np.__version__,
    array_types=(np.ndarray, np.generic),
    refused={
        "MaskedArray": "its mask would be lost; give x.filled(value), or x.data and agrad.where with x.mask",
        "matrix": "its * and ** are those of matrices; give numpy.asarray(x), and write @ for the product",
    },
    default_device=lambda: "cpu",
    devices=lambda: ("cpu",),
    find_device=_find_device,
    device_of=lambda x: "cpu",
    to_host=lambda x: np.asarray(x),
    from_host=lambda a, device: np.array(a),
    synchronize=lambda: None,
    laid_out_like=laid_out_like,
    strides=lambda x: x.strides,
    shares_memory=np.may_share_memory,
    memory=memory,
    apart=apart,
    read_only=lambda x: isinstance(x, np.ndarray) and not x.flags.writeable,
    content=lambda x: x.tobytes if x.nbytes <= CONTENT else None,
    donatable=donatable,
)

keep_memory()

"""NumPy: its backend, and the memory of its arrays."""

import ctypes
import math
import mmap
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad.kernels.numpy  # noqa: F401 - these file kernels
from agrad.backends import special as special_functions
from agrad.backends.base import CONTENT, Backend, vocabulary
from agrad.backends.numpy.linalg import lu, solve_or_nan
from agrad.backends.numpy.namespace import FUNCTIONS, STANDARD
from agrad.registry import namespace_kernels
from agrad.shapes import fill_index


def getitem(x: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    return x[fill_index(index, indices)]


def setitem(x: np.ndarray, value: Any, /, *indices: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    out = np.array(x)
    out[fill_index(index, indices)] = value
    return out


def from_parts(x1: Any, x2: Any, /) -> np.ndarray:
    # x1 + 1j * x2 would convert an infinite part to NaN
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


def unfilled(x: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros like a new array, in pages that the system has not filled yet.

    Of another shape than that of ``x`` they are in C order.
    """
    same = type(x) is not np.ndarray or x.shape == shape
    if same and (type(x) is not np.ndarray or x.base is not None or not (x.flags.c_contiguous or x.flags.f_contiguous)):
        return x
    try:
        pages = mmap.mmap(-1, math.prod(shape) * x.itemsize, **_PRIVATE)
    except (OSError, ValueError):
        return x if same else np.zeros(shape, x.dtype)
    return np.ndarray(shape, x.dtype, pages, strides=x.strides if same else None)


_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""Reads of shared pages would fill them."""


def unaliased(arrays: Sequence[np.ndarray]) -> bool:
    for x in arrays:
        if x.base is not None or not x.flags.writeable:
            return False
    return len(set(map(id, arrays))) == len(arrays)


class _Holder:
    __slots__ = ("data",)

    data: np.ndarray


def _calibrate() -> int:
    # interpreters differ in counting references from their own temporaries; 0 for one that does not count them
    holder = _Holder()
    holder.data = np.empty(1)
    return sys.getrefcount(holder.data) if hasattr(sys, "getrefcount") else 0


ALONE = _calibrate()
"""What ``sys.getrefcount(holder.data)`` returns if there is no other reference."""


def donatable(*holders: Any) -> list[bool]:
    # no variable for the array, which would be one more reference; a view of the array counts, because it refers to its
    # base, and a weak reference does not
    return [
        type(holder.data) is np.ndarray
        and holder.data.flags.owndata
        and holder.data.flags.writeable
        and sys.getrefcount(holder.data) <= ALONE
        and not weakref.getweakrefcount(holder.data)
        for holder in holders
    ]


_KEPT = 1 << 28
"""The number of freed bytes at the end of the heap that the process keeps."""

_TRIM_THRESHOLD = -1
"""The number of that parameter in the C library, ``M_TRIM_THRESHOLD`` of ``malloc.h``."""


def keep_memory() -> None:
    """Have glibc keep the memory of freed temporaries for the next ones.

    By default, glibc returns the top of its heap to the system when twice the size of the largest array freed so far is
    free there. Every page of the next temporaries is then fetched and cleared again: a chain of a few arrays of half a
    megabyte needs eight times as long. After one array of 32 MB is freed (none of its pages is touched), glibc
    allocates arrays of up to that size from its heap. It would then keep 64 MB at the heap's end, which a tape of ten
    arrays of 6 MB exceeds; this function sets it to 256 MB. Nothing changes with ``MALLOC_`` variables or another C
    library.
    """
    np.empty((1 << 25) - (1 << 16), np.uint8)
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        set_parameter = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    set_parameter(_TRIM_THRESHOLD, _KEPT)


def _sparse(values: np.ndarray, where: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array((values, where.columns.astype(where.indptr.dtype), where.indptr), where.shape)


BACKEND = Backend(
    name="numpy",
    xp=vocabulary(
        STANDARD,
        **FUNCTIONS,
        **namespace_kernels("numpy"),
        getitem=getitem,
        setitem=setitem,
        from_parts=from_parts,
        special=special_functions.NUMPY,
    ),
    version=np.__version__,
    array_types=(np.ndarray, np.generic),
    refused={
        "MaskedArray": "its mask would be lost; pass x.filled(value), or x.data and agrad.where with x.mask",
        "matrix": "its * and ** multiply matrices; pass numpy.asarray(x), and write @ for the product",
    },
    to_host=lambda x: np.asarray(x),
    from_host=lambda a, device: np.array(a),
    laid_out_like=laid_out_like,
    strides=lambda x: x.strides,
    row_major=lambda x: x.flags.c_contiguous,
    shares_memory=np.may_share_memory,
    memory=memory,
    unfilled=unfilled,
    unaliased=unaliased,
    read_only=lambda x: isinstance(x, np.ndarray) and not x.flags.writeable,
    content=lambda x: x.tobytes if x.nbytes <= CONTENT else None,
    donatable=donatable,
    sparse=_sparse,
)
vars(BACKEND.xp.linalg).update(lu=lu, solve_or_nan=solve_or_nan)

keep_memory()

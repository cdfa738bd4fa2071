"""CuPy: NumPy's interface on an NVIDIA GPU, and the fused kernels of ``cupy_kernels``."""

import weakref
from typing import Any

import array_api_compat.cupy as compat
import cupy
import cupyx
import numpy as np

import agrad.backends.cupy_kernels
import agrad.backends.cupy_random  # noqa: F401 - both file kernels
from agrad.backends import cupy_devices, special_words
from agrad.backends.base import FOLLOWERS, Backend, vocabulary
from agrad.backends.indexing import host_index
from agrad.backends.numpy import ALONE, references
from agrad.registry import PRIMITIVES
from agrad.shapes import fill_index


def _usable_devices() -> int:
    """The number of CUDA devices; ``ImportError`` with the reason where CuPy cannot compute."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ImportError(f"CuPy {cupy.__version__} finds no usable CUDA device ({error})") from error
    if not count:
        raise ImportError(f"CuPy {cupy.__version__} finds no CUDA device")
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # its loader has errors of its own
        reason = f"CuPy {cupy.__version__} cannot load NVRTC, its CUDA compiler ({error})"
        raise ImportError(reason) from error
    return count


COUNT = _usable_devices()


def _fill(index: tuple[Any, ...], indices: tuple[Any, ...]) -> Any:
    arrays = [i if isinstance(i, cupy.ndarray) else cupy.asarray(host_index(i, cupy.asnumpy)) for i in indices]
    return fill_index(index, arrays)


def getitem(x: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    if not indices:
        return x[fill_index(index, ())]
    with x.device:
        return x[_fill(index, indices)]


def setitem(x: Any, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    with x.device:
        out = cupy.array(x)
        out[_fill(index, indices)] = value
    return out


_ATOMIC = frozenset("ILQefdi")
"""The dtypes whose atomic addition CuPy uses: float16 to float64, int32, and unsigned 32 and 64 bits."""


def scatter_add(g: Any, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    with g.device:
        where = _fill(index, indices)
        if not indices:
            out = cupy.zeros(shape, g.dtype)
            out[where] = g
            return out
        if g.dtype.kind == "c":
            out = cupy.empty(shape, g.dtype)
            out.real = _accumulate(g.real, where, shape, g.real.dtype)
            out.imag = _accumulate(g.imag, where, shape, g.imag.dtype)
            return out
        if g.dtype.char in _ATOMIC:
            return _accumulate(g, where, shape, g.dtype)
        # sums of integers wrap around alike in a wider unsigned dtype
        wide = _accumulate(g, where, shape, np.uint64 if g.dtype.itemsize == 8 else np.uint32)
        return wide != 0 if g.dtype.kind == "b" else wide.astype(g.dtype)


def from_parts(x1: Any, x2: Any, /) -> Any:
    with x1.device:
        out = cupy.empty(cupy.broadcast(x1, x2).shape, cupy.result_type(x1, x2, np.complex64))
        out.real, out.imag = x1, x2
    return out


def _accumulate(g: Any, where: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    out = cupy.zeros(shape, dtype)
    cupyx.scatter_add(out, where, g.astype(dtype, copy=False))
    return out


def laid_out_like(x: Any, like: Any) -> Any:
    if x.strides == like.strides:
        return x
    with x.device:
        out = cupy.empty_like(like)
        out[...] = x
    return out


def donatable(holder: Any) -> bool:
    return (
        type(holder.data) is cupy.ndarray
        and holder.data.base is None
        and holder.data.flags.c_contiguous
        and references(holder) <= ALONE
        and not weakref.getweakrefcount(holder.data)
    )


def _find_device(name: str) -> Any:
    kind, _, number = name.partition(":")
    if kind not in ("cuda", "gpu"):
        return None
    if not number:
        return cupy.cuda.Device()
    return cupy.cuda.Device(int(number)) if number.isdecimal() and int(number) < COUNT else None


def _from_host(a: np.ndarray, device: Any) -> Any:
    with device if device is not None else cupy.cuda.Device():
        return cupy.array(a)


BACKEND = Backend(
    name="cupy",
    xp=vocabulary(
        compat,
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        from_parts=from_parts,
        special=special_words.CUPY,
    ),
    version=cupy.__version__,
    array_types=(cupy.ndarray,),
    default_device=cupy.cuda.Device,
    devices=lambda: [cupy.cuda.Device(i) for i in range(COUNT)],
    find_device=_find_device,
    device_of=lambda x: x.device,
    to_host=cupy.asnumpy,
    from_host=_from_host,
    synchronize=lambda: cupy.cuda.Device().synchronize(),
    laid_out_like=laid_out_like,
    strides=lambda x: x.strides,
    shares_memory=cupy.may_share_memory,
    memory=lambda x: None if 0 in x.strides else x.data.mem.ptr,
    donatable=donatable,
    **({"placed": cupy_devices.placed} if COUNT > 1 else {}),
)
if COUNT > 1:
    cupy_devices.place_words(BACKEND.xp)
    FOLLOWERS.append(cupy_devices.Follower())
    for _primitive in PRIMITIVES.values():
        _primitive.build_anew()

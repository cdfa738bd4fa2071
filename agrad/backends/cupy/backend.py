"""CuPy: the NumPy interface on an NVIDIA GPU.

With several devices, every function runs on the device of its arrays, by ``devices.placed``.
"""

import importlib
import sys
import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat.cupy as compat
import cupy
import numpy as np

from agrad.backends import special as special_functions
from agrad.backends.base import DEVICE_SCOPES, HANDOVERS, Backend, broadcast_batches, vocabulary
from agrad.backends.cupy import devices as cupy_devices
from agrad.backends.cupy.streams import Handover, synchronize
from agrad.backends.indexing import host_index
from agrad.backends.numpy.backend import ALONE
from agrad.kernels.cupy import convolution  # noqa: F401 - as the package does, this files kernels
from agrad.kernels.cupy.elementwise import JOINT, elementwise_kernel
from agrad.registry import namespace_kernels
from agrad.shapes import fill_index


def _usable_devices() -> int:
    """Return the number of CUDA devices.

    Raise ``ImportError`` with the reason if CuPy cannot compute.
    """
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ImportError(f"CuPy {cupy.__version__} finds no usable CUDA device ({error})") from error
    if not count:
        raise ImportError(f"CuPy {cupy.__version__} finds no CUDA device")
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # the NVRTC loader raises its own exceptions
        reason = f"CuPy {cupy.__version__} cannot load NVRTC, its CUDA compiler ({error})"
        raise ImportError(reason) from error
    return count


COUNT = _usable_devices()


def _fill(index: tuple[Any, ...], indices: tuple[Any, ...]) -> Any:
    arrays = [i if isinstance(i, cupy.ndarray) else cupy.asarray(host_index(i, cupy.asnumpy)) for i in indices]
    return fill_index(index, arrays)


def getitem(x: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    return x[_fill(index, indices)]


def setitem(x: Any, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    out = cupy.array(x)
    out[_fill(index, indices)] = value
    return out


_ATOMIC = frozenset("ILQefdi")
"""The dtypes that CuPy adds atomically: float16 to float64, int32, and unsigned 32 and 64 bits."""


def scatter_add(g: Any, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
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
    # sums of integers wrap around in the same way in a wider unsigned dtype
    wide = _accumulate(g, where, shape, np.uint64 if g.dtype.itemsize == 8 else np.uint32)
    return wide != 0 if g.dtype.kind == "b" else wide.astype(g.dtype)


def from_parts(x1: Any, x2: Any, /) -> Any:
    out = cupy.empty(cupy.broadcast(x1, x2).shape, cupy.result_type(x1, x2, np.complex64))
    out.real, out.imag = x1, x2
    return out


def _accumulate(g: Any, where: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    out = cupy.zeros(shape, dtype)
    cupy.add.at(out, where, g.astype(dtype, copy=False))
    return out


_CREATION = ("arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "zeros",
             "zeros_like")  # fmt: skip


def _on_device(name: str) -> Callable[..., Any]:
    """Return a creation function that uses ``device``, unlike the function of array-api-compat."""
    function = getattr(compat, name)

    def create(*args: Any, device: Any = None, **settings: Any) -> Any:
        if device is None:
            return function(*args, **settings)
        with device:
            return function(*args, **settings)

    create.__name__ = name
    return create


def _divided(name: str) -> Callable[..., Any]:
    """Return ``floor_divide`` or ``remainder`` for floats, as the standard defines them.

    The CuPy functions round the quotient first.
    """
    function = getattr(compat, name)

    def divide(x1: Any, x2: Any, /) -> Any:
        dtype = cupy.result_type(x1, x2)
        if dtype.kind != "f":
            return function(x1, x2)
        wide = np.result_type(dtype, np.float32)
        x1, x2 = (x.astype(wide, copy=False) if hasattr(x, "astype") else wide.type(x) for x in (x1, x2))
        return elementwise_kernel(name)(x1, x2).astype(dtype, copy=False)

    divide.__name__ = name
    return divide


def solve(x1: Any, x2: Any, /) -> Any:
    """Return the solution y of ``x1 @ y = x2``.

    The CuPy function does not broadcast, and fails if ``x2`` has no columns.
    """
    if x2.ndim == 1:
        return solve(x1, x2[:, None])[..., 0]
    x1, x2 = broadcast_batches(cupy, x1, x2)
    return compat.linalg.solve(x1, x2) if x2.size else cupy.empty(x2.shape, cupy.result_type(x1, x2))


def _general(name: str) -> Callable[..., Any]:
    """Return ``eig`` or ``eigvals``, with complex results for empty matrices too."""
    function = getattr(compat.linalg, name)
    return lambda x, /: function(x if x.size else x.astype(cupy.result_type(x, np.complex64)))


def lu(x: Any, /) -> tuple[Any, ...]:
    """Return P, L and U of each matrix, by the CuPy function for a single one."""
    m, n = x.shape[-2:]
    k = min(m, n)
    shapes = ((m, m), (m, k), (k, n))
    if not x.size:
        return tuple(cupy.array(cupy.broadcast_to(cupy.eye(*s, dtype=x.dtype), (*x.shape[:-2], *s))) for s in shapes)
    factors = importlib.import_module("cupyx.scipy.linalg").lu  # its import needs the libraries of a GPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # for singular matrices
        each = [factors(one, check_finite=False) for one in x.reshape(-1, m, n)]
    parts = [cupy.stack(part).astype(x.dtype, copy=False) for part in zip(*each, strict=True)]
    return tuple(part.reshape(*x.shape[:-2], *s) for part, s in zip(parts, shapes, strict=True))


def laid_out_like(x: Any, like: Any) -> Any:
    if x.strides == like.strides:
        return x
    with x.device:
        out = cupy.empty_like(like)
        out[...] = x
    return out


def donatable(*holders: Any) -> list[bool]:
    return [
        type(holder.data) is cupy.ndarray
        and holder.data.base is None
        and holder.data.flags.c_contiguous
        and sys.getrefcount(holder.data) <= ALONE
        and not weakref.getweakrefcount(holder.data)
        for holder in holders
    ]


@cache
def _device_name(number: int) -> str:
    return str(cupy.cuda.Device(number))


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


_XP = vocabulary(
    compat,
    getitem=getitem,
    setitem=setitem,
    scatter_add=scatter_add,
    from_parts=from_parts,
    **namespace_kernels("cupy"),
    special=special_functions.CUPY,
    floor_divide=_divided("floor_divide"),
    remainder=_divided("remainder"),
    **{name: _on_device(name) for name in _CREATION},
)
vars(_XP.linalg).update(
    {name: _general(name) for name in ("eig", "eigvals") if hasattr(_XP.linalg, name)},
    lu=lu,
    solve=solve,
    solve_or_nan=solve,
)


def _sparse(values: Any, where: Any) -> Any:
    from cupyx.scipy.sparse import csr_matrix

    index = [cupy.asarray(part.astype(np.int32)) for part in (where.columns, where.indptr)]
    return csr_matrix((values, *index), shape=where.shape)


BACKEND = Backend(
    name="cupy",
    xp=_XP,
    version=cupy.__version__,
    array_types=(cupy.ndarray,),
    default_device=cupy.cuda.Device,
    device_name=lambda x: _device_name(x.data.device_id),
    devices=lambda: [cupy.cuda.Device(i) for i in range(COUNT)],
    find_device=_find_device,
    to_host=cupy.asnumpy,
    from_host=_from_host,
    synchronize=synchronize,
    laid_out_like=laid_out_like,
    strides=lambda x: x.strides,
    row_major=lambda x: x.flags.c_contiguous,
    shares_memory=cupy.may_share_memory,
    sparse=_sparse,
    memory=lambda x: None if 0 in x.strides else x.data.mem.ptr,
    donatable=donatable,
    joint=JOINT,
    **({"placed": cupy_devices.placed} if COUNT > 1 else {}),
)
HANDOVERS.append(Handover)
if COUNT > 1:
    cupy_devices.place_functions(BACKEND.xp)
    DEVICE_SCOPES.append(cupy_devices.DeviceScope())

"""array-api-strict: the standard alone, on several devices that refuse to mix."""

from types import SimpleNamespace
from typing import Any

import array_api_strict as strict
import numpy as np

from agrad.backends.base import CONTENT, Backend, vocabulary
from agrad.backends.indexing import explicit, flat_getitem, flat_scatter_add, flat_setitem, host_index, positions
from agrad.backends.numpy.backend import from_parts as numpy_parts
from agrad.backends.numpy.backend import laid_out_like as numpy_laid_out
from agrad.backends.numpy.backend import memory as numpy_memory
from agrad.backends.special import HostWords

_HOST = strict.Device("CPU_DEVICE")


def _to_host(x: Any) -> np.ndarray:
    return np.asarray(x.to_device(_HOST))


def _from_host(a: np.ndarray, device: Any) -> Any:
    return strict.asarray(np.array(a), device=device)


def _positions(index: tuple[Any, ...], indices: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
    return positions(index, [host_index(i, _to_host) for i in indices], shape)


def getitem(x: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    if not indices and not any(isinstance(entry, (bool, np.bool_)) for entry in index):
        # a view, as the library's own; it wants every axis named
        return x[explicit(index if Ellipsis in index else (*index, Ellipsis), x.shape)]
    return flat_getitem(strict, x, _positions(index, indices, x.shape))


def setitem(x: Any, value: Any, /, *indices: Any, index: tuple[Any, ...]) -> Any:
    if isinstance(value, (bool, int, float, complex)):
        value = strict.asarray(value, dtype=x.dtype, device=x.device)
    elif value.dtype != x.dtype:
        value = strict.astype(value, x.dtype)
    return flat_setitem(strict, x, value, _positions(index, indices, x.shape))


def scatter_add(g: Any, /, *indices: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    where = _positions(index, indices, shape)
    return flat_scatter_add(strict, strict.broadcast_to(g, where.shape), where, shape)


def _extension(name: str) -> SimpleNamespace:
    # dir() of the package leaves its extensions out
    module = getattr(strict, name)
    # eig and eigvals are left out of __all__ too
    names = [
        *module.__all__,
        *(name for name in ("eig", "eigvals") if name not in module.__all__ and hasattr(module, name)),
    ]
    return SimpleNamespace(**{function: getattr(module, function) for function in names})


def _find_device(name: str) -> Any:
    try:
        return _HOST if name == "cpu" else strict.Device(name)
    except ValueError:
        return None


def _laid_out_like(x: Any, like: Any) -> Any:
    same = x._array.strides == like._array.strides
    return x if same else strict.asarray(numpy_laid_out(x._array, like._array), device=x.device)


BACKEND = Backend(
    name="array_api_strict",
    xp=vocabulary(
        strict,
        linalg=_extension("linalg"),
        fft=_extension("fft"),
        getitem=getitem,
        setitem=setitem,
        scatter_add=scatter_add,
        from_parts=lambda x1, x2: strict.asarray(numpy_parts(_to_host(x1), _to_host(x2)), device=x1.device),
        special=HostWords(_to_host, _from_host),
    ),
    version=strict.__version__,
    array_types=(type(strict.zeros(())),),
    default_device=lambda: strict.__array_namespace_info__().default_device(),
    devices=lambda: strict.__array_namespace_info__().devices(),
    find_device=_find_device,
    device_of=lambda x: x.device,
    to_host=_to_host,
    from_host=_from_host,
    synchronize=lambda: None,
    laid_out_like=_laid_out_like,
    strides=lambda x: x._array.strides,
    memory=lambda x: numpy_memory(x._array),
    shares_memory=lambda a, b: np.may_share_memory(a._array, b._array),
    read_only=lambda x: not x._array.flags.writeable,
    content=lambda x: x._array.tobytes if x._array.nbytes <= CONTENT else None,
)

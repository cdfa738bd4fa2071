"""array-api-strict: the standard alone, on several devices that refuse to mix.

Its arrays hold NumPy arrays. The functions beyond the standard are computed on these.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import array_api_compat.numpy as compat
import array_api_strict as strict
import numpy as np

from agrad.backends.base import CONTENT, Backend, vocabulary
from agrad.backends.indexing import host_index
from agrad.backends.numpy import backend as host
from agrad.backends.numpy.linalg import lu, solve_or_nan
from agrad.backends.numpy.words import scatter_add
from agrad.backends.special import SpecialWords, in_double

_HOST = strict.Device("CPU_DEVICE")


def _to_host(x: Any) -> np.ndarray:
    return np.asarray(x._array)


def _from_host(a: np.ndarray, device: Any) -> Any:
    return strict.asarray(np.array(a), device=device)


def _on_host(word: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of NumPy arrays to take and return arrays of this library."""

    def on_host(x: Any, /, *arrays: Any, **settings: Any) -> Any:
        # setitem also takes a number
        given = [host_index(a, lambda a: getattr(a, "_array", a)) for a in arrays]
        found = word(_to_host(x), *given, **settings)
        own = [strict.asarray(part, device=x.device) for part in (found if isinstance(found, tuple) else (found,))]
        return tuple(own) if isinstance(found, tuple) else own[0]

    return on_host


def _in_double(xp: Any, form: Callable[..., Any], dtype: Any, *arrays: Any, **settings: Any) -> Any:
    # on NumPy, as the library's checks of a form's thousand operations take a second
    def on_numpy(*values: np.ndarray) -> Any:
        return in_double(compat, form, values[0].dtype, *values, **settings)

    return _on_host(on_numpy)(*arrays)


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
    return x if x._array.strides == like._array.strides else _on_host(host.laid_out_like)(x, like)


BACKEND = Backend(
    name="array_api_strict",
    xp=vocabulary(
        strict,
        linalg=_extension("linalg"),
        fft=_extension("fft"),
        getitem=_on_host(host.getitem),
        setitem=_on_host(host.setitem),
        scatter_add=_on_host(scatter_add),
        from_parts=_on_host(host.from_parts),
        convolution=_on_host(host.convolution),
        special=SpecialWords(evaluate=_in_double),
    ),
    version=strict.__version__,
    array_types=(type(strict.zeros(())),),
    default_device=lambda: strict.__array_namespace_info__().default_device(),
    devices=lambda: strict.__array_namespace_info__().devices(),
    find_device=_find_device,
    to_host=_to_host,
    from_host=_from_host,
    laid_out_like=_laid_out_like,
    strides=lambda x: x._array.strides,
    row_major=lambda x: x._array.flags.c_contiguous,
    memory=lambda x: host.memory(x._array),
    shares_memory=lambda a, b: np.may_share_memory(a._array, b._array),
    read_only=lambda x: not x._array.flags.writeable,
    content=lambda x: x._array.tobytes if x._array.nbytes <= CONTENT else None,
)
vars(BACKEND.xp.linalg).update(lu=_on_host(lu), solve_or_nan=_on_host(solve_or_nan))

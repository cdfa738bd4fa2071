"""Any library of the array API standard, by the namespace of its arrays.

For an array with ``__array_namespace__`` and without an adapter, a backend of its namespace is created when the first
such array is used. Adapters are created by ``of_namespace`` too, with their own functions and fields.
"""

import importlib
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from agrad.backends.base import WIDER, Backend, Names, check_digits, iterate, public
from agrad.backends.convolution import beside, convolution
from agrad.backends.generic_functions import ExtensionFunctions, diagonal, lu, solve_or_nan, vector_norm
from agrad.backends.indexing import host_index
from agrad.backends.special import SpecialWords, in_double
from agrad.dtypes import as_dtype
from agrad.errors import BackendUnavailableError, DtypeError, OperandError

__all__ = ["of_namespace"]

_made: dict[int, Backend] = {}


def namespace_of_type(kind: type) -> Any:
    """Return the namespace of the arrays of a type, or None for other types."""
    if not hasattr(kind, "__array_namespace__"):
        return None
    for instance in (lambda: object.__new__(kind), lambda: None):
        try:  # the method of most libraries reads nothing of its array
            return kind.__array_namespace__(instance())
        except Exception:
            continue
    path = kind.__module__
    while path and not hasattr(sys.modules.get(path), "__array_namespace_info__"):
        path = path.rpartition(".")[0]
    return sys.modules.get(path)


def of_type(kind: type) -> Backend | None:
    """Return the backend of an array type, or None for other types."""
    module = namespace_of_type(kind)
    return None if module is None else of_namespace(module)


def of_name(name: str) -> Backend | None:
    """Return the backend of a namespace by its import name.

    Returns None if there is no such module.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name + ".").startswith(error.name + "."):
            return None
        raise
    if not hasattr(module, "__array_namespace_info__"):
        raise BackendUnavailableError(f"{name!r} is not a namespace of the array API standard.")
    return of_namespace(module)


# ------------------------------------------------------------ values on the host

_OWN_READERS = ("asnumpy", "todense", "unwrap_numpy")
"""Methods that return a NumPy array: of dpnp, of sparse, and of ndonnx for a known value."""


def _by_elements(x: Any) -> np.ndarray:
    name = as_dtype(x.dtype).name
    number = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[np.dtype(name).kind]
    return np.asarray([number(x[place]) for place in np.ndindex(*x.shape)], name).reshape(x.shape)


def to_host(x: Any) -> np.ndarray:
    """Return an array as a NumPy array, by the first method that its library supports."""
    own = [getattr(type(x), name) for name in _OWN_READERS if hasattr(type(x), name)]
    reasons = []
    for read in own or (np.asarray, np.from_dlpack, _by_elements):
        try:
            found = np.asarray(read(x))
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        if found.dtype.kind in "biufc" and found.shape == tuple(x.shape):
            return found
    raise OperandError(f"The values of this {type(x).__name__} cannot be read here ({'; '.join(reasons)[:200]})")


class _Host:
    """Arrays of a library from the host, and the values of its index arrays."""

    def __init__(self, xp: Any, read: Callable[[Any], np.ndarray], lazy: bool) -> None:
        self.xp, self.read, self.lazy = xp, read, lazy
        self.hosted: dict[int, np.ndarray] = {}

    def array(self, a: np.ndarray, device: Any = None, like: Any = None) -> Any:
        dtype = getattr(self.xp, a.dtype.name, None)
        if dtype is None:
            raise DtypeError(f"{self.xp._library} has no dtype {a.dtype.name}. Cast the array first.")
        where = beside(like) if device is None else {"device": device}
        try:
            made = self.xp.asarray(np.array(a), dtype=dtype, **where)
        except (TypeError, ValueError):  # a library that accepts only its own arrays
            made = self.xp.reshape(self.xp.asarray(a.reshape(-1).tolist(), dtype=dtype, **where), a.shape)
        if self.lazy and a.dtype.kind in "biu":
            self.hosted[id(made)] = np.array(a)
            weakref.finalize(made, self.hosted.pop, id(made), None)
        return made

    def values(self, array: Any) -> np.ndarray | None:
        """Return the values of an index array, or None if they cannot be read.

        The value of a lazy array is known if it came from the host. It is never computed for an index.
        """
        if self.lazy and hasattr(array, "dtype") and not isinstance(array, (np.ndarray, np.generic)):
            return self.hosted.get(id(array))
        try:
            return host_index(array, self.read)
        except OperandError:
            return None


# ------------------------------------------------------------ the backend of a namespace


def _in_double(xp: Any, form: Callable[..., Any], dtype: Any, *arrays: Any, **settings: Any) -> Any:
    check_digits(form.__name__, arrays[0])
    return in_double(xp, form, dtype, *arrays, **settings)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of a library with masks to raise for masked elements."""

    def call(*args: Any, **settings: Any) -> Any:
        for x in args:
            for part in x if isinstance(x, (list, tuple)) else (x,):
                if hasattr(part, "mask") and np.asarray(part.mask).any():
                    raise OperandError(
                        f"{type(part).__name__} with masked elements is not differentiated. Fill them, or select the "
                        "others, before the call."
                    )
        return function(*args, **settings)

    return call


def _writes(module: Any, x: Any) -> bool:
    """Return True if a copy is writable, and a write leaves the original [1.0]."""
    with suppress(Exception):
        copy = module.astype(x, x.dtype)
        copy[0] = 2.0
        return bool(copy[0] == 2.0) and bool(x[0] == 1.0)
    return False


def of_namespace(
    module: Any, name: str = "", functions: Mapping[str, Any] = MappingProxyType({}), **own: Any
) -> Backend:
    """Return the backend of a namespace, created at the first call.

    ``functions`` replace functions of the namespace; its entries ``linalg`` and ``fft`` are dictionaries. ``own`` are
    fields of ``Backend`` instead of the default ones.
    """
    if id(module) in _made:
        return _made[id(module)]
    sample, info, name = module.asarray([1.0]), module.__array_namespace_info__(), name or module.__name__
    kind = own.get("array_types", (type(sample),))[0]
    masked, lazy = hasattr(kind, "mask"), own.get("lazy", hasattr(kind, "compute"))
    read = _checked(to_host) if masked else own.get("to_host", to_host)
    xp = Names(name, **public(module) | dict(functions))
    for part in ("linalg", "fft"):
        # a function beyond the standard may have another meaning elsewhere
        section = public(getattr(module, part, None)) | {"lu": partial(lu, xp)} | dict(functions.get(part, {}))
        setattr(xp, part, Names(name, f"{part}.", **{n: f for n, f in section.items() if f is not None}))
    host = _Host(xp, read, lazy)
    with suppress(Exception):  # Python numbers, of any precision
        if not lazy and np.asarray(sample).dtype == object:
            WIDER[kind] = xp
    writes = not lazy and _writes(module, sample)
    extension = ExtensionFunctions(xp, lambda a, like: host.array(a, like=like), host.values, writes)
    device_of = own.get("device_of", (lambda x: x.device) if hasattr(sample, "device") else lambda x: "cpu")
    beyond = {name: getattr(extension, name) for name in vars(ExtensionFunctions) if not name.startswith("_")}
    beyond |= {
        "iterate": iterate,
        "convolution": partial(convolution, xp),
        "special": SpecialWords(evaluate=_in_double),
    }
    beyond["__array_namespace_info__"] = module.__array_namespace_info__
    vars(xp).update(beyond | {name: value for name, value in functions.items() if name not in ("linalg", "fft")})
    for form in (diagonal, vector_norm, solve_or_nan):
        vars(xp.linalg).setdefault(form.__name__, partial(form, xp))
    if masked:
        for names in (xp.__dict__, xp.linalg.__dict__, xp.fft.__dict__):
            names.update({n: _checked(f) for n, f in names.items() if callable(f) and not isinstance(f, type)})
    fields = {
        "version": str(getattr(sys.modules.get(kind.__module__.partition(".")[0]), "__version__", "unknown")),
        "array_types": (kind,),
        "to_host": read,
        "from_host": host.array,
        "device_of": device_of,
        "default_device": info.default_device,
        "devices": lambda: [getattr(d, "filter_string", d) for d in info.devices() if d is not None],
        "find_device": partial(_device_by_name, module, info),
        "device_name": lambda x: str(device_of(x)),
        "lazy": lazy,
        "content": partial(_content, read) if writes else lambda x: None,
    }
    _made[id(module)] = backend = Backend(name=name, xp=xp, **fields | own)
    return backend


def _device_by_name(module: Any, info: Any, spec: str) -> Any:
    """Return the device of that name, as the library accepts or lists it; "cpu" and "gpu" may be a part."""
    try:
        return module.zeros((1,), device=spec).device
    except Exception:
        found = [d for d in info.devices() if f"'{spec}'" in repr(d) or (spec[1:] == "pu" and spec in repr(d).lower())]
        return found[0] if found else None


def _content(read: Callable[[Any], np.ndarray], x: Any) -> Callable[[], Any]:
    """Return a function of the content of a writable array."""
    try:
        read(x)
    except OperandError:  # a value that is not known yet
        return partial(id, x)
    return lambda: read(x).tobytes()

"""The backends: loading array libraries, and the backend of new arrays."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from agrad.backends import generic
from agrad.backends.base import Backend
from agrad.errors import BackendUnavailableError, DeviceUnavailableError, OperandError
from agrad.registry import CALLS

__all__ = [
    "Backend", "BackendReport", "Selection", "available_backends", "backend_of", "backend_of_device", "backend_of_type",
    "get_backend", "load", "selected", "set_backend", "to_host", "use_backend",
]  # fmt: skip

_MODULES = {
    "numpy": "agrad.backends.numpy.backend",
    "cupy": "agrad.backends.cupy.backend",
    "torch": "agrad.backends.torch",
    "jax": "agrad.backends.jax",
    "dask": "agrad.backends.dask",
    "array_api_strict": "agrad.backends.strict",
    "mlx": "agrad.backends.mlx",
    "cubed": "agrad.backends.cubed",
}
"""The module of each backend. Other packages add modules by the entry point group ``agrad.backends``."""

_REMEDY = {
    **{name: f"pip install 'agrad[{name}]'" for name in ("torch", "jax", "dask")},
    "cupy": "pip install 'agrad[cuda13]' (or 'agrad[cuda12]'), on a machine with an NVIDIA GPU and its driver",
    "cubed": "pip install cubed",
    "mlx": "pip install mlx (on Linux: 'mlx[cpu]')",
    "array_api_strict": "pip install 'agrad[test]'",
}

_loaded: dict[str, Backend] = {}
_of_type: dict[type, Backend | None] = dict.fromkeys((type(None), bool, int, float, complex, str, list, tuple, dict))
"""The backends of types seen so far. The most frequent Python types are known not to be arrays."""


def _modules() -> dict[str, str]:
    import importlib.metadata  # needs a fifth of the time of importing NumPy

    found = dict(_MODULES)
    for entry in importlib.metadata.entry_points(group="agrad.backends"):
        found.setdefault(entry.name, entry.value)
    return found


def load(name: str) -> Backend:
    """Return the backend of that name, importing its library on the first call.

    If it is not available, raises ``BackendUnavailableError`` with the reason and the fix, and does not select another
    backend.
    """
    if name in _loaded:
        return _loaded[name]
    module = _MODULES.get(name) or _modules().get(name)
    try:
        backend = importlib.import_module(module).BACKEND if module else _of_import_name(name)
    except BackendUnavailableError:
        raise
    except Exception as error:
        remedy = _REMEDY.get(name)
        raise BackendUnavailableError(
            f"Backend {name!r} is not available: {error}" + (f". Install it with: {remedy}" if remedy else "")
        ) from error
    _loaded[name] = backend
    return backend


def _of_import_name(name: str) -> Backend:
    backend = None if _root(name) in _MODULES else generic.of_name(name)
    if backend is None:
        raise BackendUnavailableError(
            f"Backend {name!r} is unknown. agrad knows {', '.join(map(repr, _modules()))}, and libraries of the array "
            "API standard by their import names."
        )
    return backend


def _root(module: str) -> str:
    name = module.partition(".")[0]
    return "jax" if name == "jaxlib" else name


def backend_of_type(kind: type) -> Backend | None:
    """Return the backend whose arrays are of this type, or None.

    Its library is already imported, because the type exists. Its process-wide switches are not changed. Raises
    ``OperandError`` for an array type whose meaning an operation on its data would lose.
    """
    if kind in _of_type:
        return _of_type[kind]
    libraries = [_root(base.__module__) for base in kind.__mro__]
    known = libraries[0] in _MODULES or "agrad" in libraries or issubclass(kind, np.generic)
    other = hasattr(kind, "__array_namespace__") and not known  # a base class may be from NumPy, such as its operators
    for name in libraries:
        if name in _MODULES or (other and name in _modules()):
            load(name)
    for backend in tuple(_loaded.values()):
        if issubclass(kind, backend.array_types):
            _check_kind(kind, backend)
            _of_type[kind] = backend
            return backend
    made = generic.of_type(kind) if other else None
    if made is not None:
        _of_type[kind] = _loaded.setdefault(made.name, made)
    return made


def _check_kind(kind: type, backend: Backend) -> None:
    for base in kind.__mro__:
        if base.__name__ in backend.refused and base.__module__.partition(".")[0] == backend.name:
            raise OperandError(f"{kind.__name__} is not differentiated: {backend.refused[base.__name__]}")


def backend_of(array: Any) -> Backend:
    """Return the backend of a plain array, or raise ``OperandError``."""
    backend = backend_of_type(type(array))
    if backend is None:
        raise OperandError(
            f"{type(array).__name__} is not an array of a library that agrad knows. Create one with agrad.asarray."
        )
    return backend


def backend_of_device(device: Any) -> Backend | None:
    """Return the loaded backend that a device object belongs to, or None."""
    if device is None or isinstance(device, str):
        return None
    return next((b for b in tuple(_loaded.values()) if type(b.default_device()) is type(device)), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """The backend of new arrays, and one of its devices (None: the default device)."""

    backend: Backend
    device: Any = None


_innermost: ContextVar[Selection | None] = ContextVar("agrad_backend", default=None)
_process: list[Selection] = []


def _select(name: str, device: Any = None) -> Selection:
    backend = load(name)
    selection = Selection(backend, None if device is None else backend.device(device))
    backend.on_select()
    return selection


def selected() -> Selection:
    """Return the selection in force.

    This is the innermost ``use_backend``. Without it, ``set_backend``, then the environment, then NumPy.
    """
    inner = _innermost.get()
    if inner is not None:
        return inner
    if not _process:
        name = os.environ.get("AGRAD_BACKEND") or "numpy"
        try:
            _process.append(_select(name, os.environ.get("AGRAD_DEVICE") or None))
        except BackendUnavailableError as error:
            raise BackendUnavailableError(f"AGRAD_BACKEND={name}: {error}") from error
        except DeviceUnavailableError as error:
            raise DeviceUnavailableError(f"AGRAD_DEVICE: {error}") from error
    return _process[0]


def get_backend() -> str:
    """Return the name of the backend of new arrays.

    Returns
    -------
    str
        The name, such as ``"numpy"``.

    Raises
    ------
    BackendUnavailableError, DeviceUnavailableError
        If ``AGRAD_BACKEND`` or ``AGRAD_DEVICE`` is set to a backend or device that is not available.

    Examples
    --------
    >>> agrad.get_backend()
    'numpy'
    >>> with agrad.use_backend("array_api_strict"):
    ...     print(agrad.get_backend())
    array_api_strict
    """
    return selected().backend.name


def set_backend(name: str, device: Any = None) -> None:
    """Select the backend and the device of new arrays for the whole process.

    Existing arrays are unchanged, and operations on them use their backend. If an error is raised, the selection does
    not change.

    Parameters
    ----------
    name : str
        Name of a backend, one of ``available_backends``.
    device : str or device, optional
        A device of the backend, by its name (``"cuda:1"``) or as an object of the library. By default, the default
        device of the library.

    Raises
    ------
    BackendUnavailableError
        If the backend is unknown or not available.
    DeviceUnavailableError
        If the backend does not have the device.

    Examples
    --------
    >>> agrad.set_backend("numpy")
    >>> agrad.zeros(2).backend
    'numpy'
    """
    _process[:] = [_select(name, device)]


@contextmanager
def use_backend(name: str, device: Any = None) -> Iterator[None]:
    """Select the backend and the device of new arrays inside a ``with`` block.

    The selection holds in this thread or task only.

    Parameters
    ----------
    name : str
        Name of a backend, one of ``available_backends``.
    device : str or device, optional
        A device of the backend, by its name (``"cuda:1"``) or as an object of the library. By default, the default
        device of the library.

    Yields
    ------
    None

    Raises
    ------
    BackendUnavailableError
        If the backend is unknown or not available.
    DeviceUnavailableError
        If the backend does not have the device.

    Examples
    --------
    >>> with agrad.use_backend("array_api_strict"):
    ...     x = agrad.asarray([1.0, 2.0])
    >>> x
    Tensor([1.0, 2.0], dtype=float64, backend=array_api_strict, device=CPU_DEVICE)
    >>> agrad.grad(lambda x: agrad.sum(x**2))(x)
    Tensor([2.0, 4.0], dtype=float64, backend=array_api_strict, device=CPU_DEVICE)
    """
    token = _innermost.set(_select(name, device))
    try:
        yield
    finally:
        _innermost.reset(token)


@dataclass(frozen=True, slots=True)
class BackendReport:
    """The report of ``available_backends`` on one backend."""

    name: str
    available: bool
    version: str | None
    devices: tuple[str, ...]
    reason: str | None
    """The reason why it is not available, with the fix; None if it is available."""


def available_backends(*, check: bool = True) -> dict[str, BackendReport]:
    """Return a report on every backend by name.

    Parameters
    ----------
    check : bool, optional
        If True, the default, import each installed library, which can take seconds the first time. If False, report
        the installed version of libraries that are not imported yet, without devices. Such a library may still fail to
        import.

    Returns
    -------
    dict of str to BackendReport
        The version and the devices of each backend, or the reason why it is not available.

    Examples
    --------
    >>> reports = agrad.available_backends()
    >>> list(reports)[:6]
    ['numpy', 'cupy', 'torch', 'jax', 'dask', 'array_api_strict']
    >>> reports["numpy"].available
    True
    """
    modules = _modules()
    names = dict.fromkeys((*modules, *_loaded))
    return {name: _report(name) if check or name in _loaded else _installed(name, modules[name]) for name in names}


def _report(name: str) -> BackendReport:
    try:
        backend = load(name)
        devices = tuple(str(d) for d in backend.devices())
    except Exception as error:  # a half-installed library may raise any exception
        return BackendReport(name, False, None, (), str(error))
    return BackendReport(name, True, backend.version, devices, None)


def _installed(name: str, module: str) -> BackendReport:
    """Return a report on a backend from the metadata of installed packages."""
    import importlib.metadata
    from importlib.util import find_spec

    library = name if name in _MODULES else module.partition(".")[0]
    if find_spec(library) is None:
        remedy = _REMEDY.get(name)
        return BackendReport(name, False, None, (), "not installed" + (f". Install it: {remedy}" if remedy else ""))
    version = None
    for package in (f"{library}-cuda13x", f"{library}-cuda12x", library):
        with suppress(importlib.metadata.PackageNotFoundError):
            version = version or importlib.metadata.version(package)
    return BackendReport(name, True, version, (), None)


def to_host(array: Any) -> np.ndarray:
    """Return a plain array as a NumPy array, which may share its memory."""
    return backend_of(array).to_host(array)


CALLS["load_backend"] = load

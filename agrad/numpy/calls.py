"""Calls of NumPy functions on the arrays of every backend."""

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.backends import backend_of_type, selected, use_backend
from agrad.engine.explain import RUNNING
from agrad.engine.tape import mode
from agrad.errors import DtypeError, RefusedFunctionError
from agrad.interop import numpy as protocols
from agrad.interop.arguments import constant, values_of
from agrad.interop.creation import LIKE
from agrad.interop.table import FUNCTIONS, UFUNCS

Function = Callable[..., Any]

_SCALARS = (np.bool, np.int32, np.int64, np.float32, np.float64, np.complex128)
PLAIN = frozenset({np.ndarray, bool, int, float, complex, str, type(None), slice, type, type(...), *_SCALARS})
"""Types that NumPy handles and that contain no Tensor."""
_NUMBERS = frozenset({int, float})
_TENSORS = _NUMBERS | {bool, str, type(None), Tensor}
_ITERATORS = (Iterator, type({}.keys()), type({}.values()), type({}.items()))
_WRITING = frozenset({np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""Functions that write to their first argument."""
_AFTER_ARRAYS = ("axis", "dtype", "out", "keepdims", "initial", "where")
"""Parameters of the methods of ufuncs that reduce."""
_STANDARD = frozenset("?bBhHiIlLqQfdFD")
"""The type codes of NumPy's dtypes that the standard has."""


class Home(NamedTuple):
    """A backend and one of its devices, None for the default one, for new arrays."""

    backend: str
    device: Any


def home() -> Home | None:
    """Return the backend and device of new arrays, or None for plain NumPy arrays.

    Inside of a transform they are Tensors on the backend of the arguments of the function that it calls, or on the
    selected one if these are NumPy arrays, which move there.
    """
    running, here = RUNNING.get(), selected()
    inside = running is not None or mode().trace is not None
    like = first(running or ()) if inside else None
    if like is not None and like.backend != "numpy":
        return Home(like.backend, like.device)
    return Home(here.backend.name, here.device) if inside or here.backend.name != "numpy" else None


def first(values: Any) -> Tensor | None:
    """Return the first array in a pytree that is not a NumPy array."""
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            continue
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (list, tuple)):
            found = first(value)
        elif isinstance(value, dict):
            found = first(value.values())
        else:
            found = agrad.asarray(value) if _is_foreign(value) else None
        if found is not None:
            return found
    return None


def _is_foreign(value: Any) -> bool:
    """Return True for an array of another library than NumPy."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "shape"):
        return False
    return backend_of_type(type(value)) is not None


def beside(value: Any, like: Tensor) -> Any:
    """Return an argument with its arrays as constants on the backend of ``like``."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([beside(part, like) for part in value])
    if kind is np.ndarray:
        return value if like.backend == "numpy" or value.dtype.char not in _STANDARD else constant(value, like)
    if kind in PLAIN or isinstance(value, Tensor) or not _is_foreign(value):
        return value
    value = agrad.asarray(value)
    # a NumPy array mixed with one of the selected backend moves there
    return value if value.backend in (like.backend, selected().backend.name) else value.to(like.backend)


def settled(out: Any, where: Home | None) -> Any:
    """Return a result of NumPy's with its arrays as constants in a home.

    On NumPy only floating arrays become Tensors, which accept writes of traced values; integers and Booleans, which
    index and count, remain NumPy arrays. Dtypes that the standard lacks remain NumPy's on every backend.
    """
    if where is None or isinstance(out, np.generic):
        return out
    if isinstance(out, np.ndarray):
        if type(out) is not np.ndarray or out.dtype.char not in _STANDARD or not out.dtype.isnative:
            return out
        if where.backend == "numpy":
            return agrad.asarray(out, backend="numpy") if out.dtype.kind in "fc" else out
        return _moved(out, where)
    if isinstance(out, (tuple, list)):
        parts = [settled(part, where) for part in out]
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
    return out


_NARROW = {"float64": "float32", "complex128": "complex64", "int64": "int32", "uint64": "uint32"}


def _moved(array: np.ndarray, where: Home) -> Tensor:
    """Return an array in a home, with half the precision if the home has no 64-bit numbers."""
    try:
        return agrad.asarray(array, backend=where.backend, device=where.device)
    except DtypeError:
        if array.dtype.name not in _NARROW:
            raise
        _say_narrow(where.backend)
        return agrad.asarray(array.astype(_NARROW[array.dtype.name]), backend=where.backend, device=where.device)


@functools.cache
def _say_narrow(backend: str) -> None:
    warnings.warn(
        f"agrad.numpy: the backend {backend!r} does not support 64-bit dtypes. New arrays have 32-bit dtypes. "
        f"To enable 64-bit JAX arrays, call agrad.set_backend({backend!r}).",
        stacklevel=5,
    )


def elsewhere(where: Home | None) -> Home | None:
    """Return a home that is not NumPy, or None.

    On NumPy the results of functions of NumPy arrays remain NumPy arrays.
    """
    return None if where is None or where.backend == "numpy" else where


def read(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with generators and views of dictionaries as lists."""
    return tuple([list(a) if isinstance(a, _ITERATORS) and not isinstance(a, np.flatiter) else a for a in args])


def is_plain(value: Any) -> bool:
    """Return True for values that NumPy handles, and for lists and tuples of them."""
    kind = type(value)
    if kind is list or kind is tuple:
        return PLAIN.issuperset(map(type, value)) or all(map(is_plain, value))
    return kind in PLAIN


def untouched(args: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Return True for plain values on NumPy outside of transforms: NumPy's own call."""
    for value in (*args, *settings.values()):
        if type(value) not in PLAIN and not is_plain(value):
            return False
    return RUNNING.get() is None and mode().trace is None and selected().backend.name == "numpy"


def _leading(args: tuple[Any, ...]) -> Tensor | None:
    """Return the first argument, or the first element of a list of Tensors, if it is a Tensor."""
    lead = args[0] if args else None
    if (type(lead) is list or type(lead) is tuple) and lead and _TENSORS.issuperset(map(type, lead)):
        lead = lead[0]
    return lead if type(lead) is Tensor else None


def accepting(function: Function) -> Function:
    """Return the counterpart of a function of arrays."""
    is_ufunc = isinstance(function, np.ufunc)
    direct = UFUNCS.get(function) if is_ufunc else None

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        if not settings:
            tensors = False
            for arg in args:
                kind = type(arg)
                if kind is Tensor:
                    tensors = True
                elif kind not in (_NUMBERS if tensors else PLAIN):
                    listed = kind is tuple or kind is list
                    if not listed or not (_NUMBERS if tensors else PLAIN).issuperset(map(type, arg)):
                        break
                    if is_ufunc if tensors else (RUNNING.get() is not None or mode().trace is not None):
                        break
            else:
                if not tensors:
                    if selected().backend.name == "numpy":
                        return function(*args)
                elif type(args[0]) is Tensor and (not is_ufunc or (direct is not None and len(args) == function.nin)):
                    return direct(*args) if direct else _by_handler(function, args[0], args, settings)
        if not is_ufunc and (tensor := _leading(args)) is not None:
            if _TENSORS.issuperset(map(type, (*args[1:], *settings.values()))):
                return _by_handler(function, tensor, args, settings)
        elif untouched(args, settings):
            return function(*args, **settings)
        args = read(args)
        like = first((*args, *settings.values())) if settings else first(args)
        if like is None:
            return settled(function(*args, **settings), elsewhere(home()))
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            args, settings["out"] = args[: function.nin], args[function.nin :]
        args = _all_beside(args, like, target=_target(function))
        settings = {name: value if name == "out" else beside(value, like) for name, value in settings.items()}
        if not is_ufunc:
            return _by_handler(function, like, args, settings)
        found = protocols.array_ufunc(function, "__call__", args, _with_outs(settings))
        return function(*args, **settings) if found is NotImplemented else found

    return call


@functools.cache
def _target(function: Function) -> int | None:
    """Return the position of the argument that a function writes to, if it has one."""
    if function in _WRITING:
        return 0
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:  # a C function of an older NumPy
        names = list((function in FUNCTIONS and FUNCTIONS[function].parameters) or ())
    return names.index("out") if "out" in names else None


def _all_beside(args: tuple[Any, ...], like: Tensor, target: int | None) -> tuple[Any, ...]:
    """Return arguments like ``beside``, except the one that is written to."""
    return tuple([arg if i == target else beside(arg, like) for i, arg in enumerate(args)])


def _with_outs(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the arrays of ``out`` in a tuple, as the protocol has them."""
    out = settings.pop("out", None)
    return settings if out is None else {**settings, "out": out if type(out) is tuple else (out,)}


def _by_handler(function: Function, like: Tensor, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return protocols.array_function(like, function, (), args, settings)


def creating(function: Function) -> Function:
    """Return the counterpart of a function that creates arrays."""

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        if untouched(args, settings):
            return function(*args, **settings)
        if (like := settings.pop("like", None)) is not None:
            where: Home | None = _home_of(like)
        else:
            args = read(args)
            like = first((*args, *settings.values()))
            if like is None:
                return settled(function(*args, **settings), home())
            where = None
        if function in FUNCTIONS and first((*args, *settings.values())) is not None:
            args = tuple([beside(arg, like) for arg in args])
            return _by_handler(function, like, args, settings)
        if function in CONVERTING:
            return _by_handler(function, like, tuple([beside(arg, like) for arg in args]), settings)
        # a shape or a count, which is read on the host
        args = tuple([_on_host(arg) for arg in args])
        settings = {name: _on_host(value) for name, value in settings.items()}
        return settled(function(*args, **settings), where or home() or _home_of(like))

    return call


def _home_of(like: Any) -> Home:
    found = first((like,))
    return Home("numpy", None) if found is None else Home(found.backend, found.device)


def _on_host(value: Any) -> Any:
    return value if first((value,)) is None else values_of(value)


CONVERTING = {
    function for function in LIKE if function.__name__.startswith("as") or function.__name__ in ("array", "require")
}
"""Functions that convert arrays, and are dispatched by ``like=`` alone."""


class Ufunc:
    """A universal function on arrays of every backend, with its methods.

    Parameters
    ----------
    original : numpy.ufunc
        The NumPy function; attributes such as ``nin`` and ``identity`` are its own.
    """

    def __init__(self, original: np.ufunc) -> None:
        self._original, self._call = original, accepting(original)
        self.__name__, self.__doc__ = original.__name__, original.__doc__

    def __call__(self, *args: Any, **settings: Any) -> Any:
        return self._call(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        if name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            found = self._method(name)
        else:
            found = getattr(self._original, name)
        setattr(self, name, found)
        return found

    def _method(self, name: str) -> Function:
        method = getattr(self._original, name)

        def call(*args: Any, **settings: Any) -> Any:
            args = read(args)
            like = first(args)
            if like is None:
                return settled(method(*args, **settings), elsewhere(home()))
            if name in ("reduce", "accumulate", "reduceat"):
                arrays = 2 if name == "reduceat" else 1
                settings.update(zip(_AFTER_ARRAYS, args[arrays:], strict=False))
                args = args[:arrays]
            args = _all_beside(args, like, target=0 if name == "at" else None)
            return protocols.array_ufunc(self._original, name, args, _with_outs(settings))

        call.__name__, call.__doc__ = name, method.__doc__
        return call

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} of agrad.numpy>"

    def __reduce__(self) -> Any:
        return (_named, (self.__name__,))


def _named(name: str) -> Any:
    return getattr(importlib.import_module("agrad.numpy"), name)


def untraced(function: str) -> None:
    """Raise ``RefusedFunctionError`` if ``jit`` traces the caller, which draws."""
    if mode().trace is not None:
        raise RefusedFunctionError(
            f"{function} must not be called while jit traces the function, because each call would repeat its numbers. "
            "Draw with agrad.random and a key that is an argument, or outside of the jitted function."
        )


def drawing(function: Function) -> Function:
    """Return the counterpart of a function or method that draws random numbers."""
    name = getattr(function, "__name__", "draw")

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        untraced(f"numpy.random.{name}")
        where = home()
        token = RUNNING.set(None)
        try:
            with use_backend("numpy"):  # the method may draw by others of its object
                out = function(*map(_on_host, args), **{k: _on_host(v) for k, v in settings.items()})
        finally:
            RUNNING.reset(token)
        return settled(out, where)

    return call

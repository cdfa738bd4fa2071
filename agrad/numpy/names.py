"""The counterparts of NumPy names.

They are definitions of this file, functions of arrays by their kind, and otherwise NumPy's own objects.
"""

import functools
import importlib
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.backends import backend_of_type
from agrad.errors import RefusedFunctionError
from agrad.interop.arguments import constant, flat, is_concrete, picked, promoted, tensor, values_of
from agrad.interop.table import FUNCTIONS
from agrad.numpy.calls import (
    Ufunc,
    accepting,
    beside,
    creating,
    drawing,
    elsewhere,
    first,
    home,
    read,
    settled,
    untouched,
)

_CREATING = (
    "ascontiguousarray asfortranarray require copy zeros ones eye identity linspace logspace geomspace zeros_like "
    "ones_like full_like tri diag diagflat vander meshgrid indices frombuffer fromfile fromstring fromregex genfromtxt "
    "loadtxt load bartlett blackman hamming hanning kaiser tril triu tile repeat"
)
OWN: dict[str, dict[str, Any]] = {
    "": {name: creating(getattr(np, name)) for name in _CREATING.split()},
    "fft": {name: creating(getattr(np.fft, name)) for name in ("fftfreq", "rfftfreq")},
}
"""Counterparts by module and name, which are not found by the kind of NumPy's object."""


def counterpart(part: str, name: str, value: Any) -> Any:
    """Return the counterpart of the NumPy object ``value`` of that name in a module."""
    found = OWN.get(part, {}).get(name)
    if found is not None:
        return found
    if isinstance(value, np.ufunc):
        return Ufunc(value)
    if isinstance(value, ModuleType):
        if name == "polynomial" and not part:
            return importlib.import_module("agrad.numpy.polynomial")
        return sys.modules.get(f"agrad.numpy.{part}.{name}", value)
    if part == "random":
        return drawing(value) if callable(value) and not isinstance(value, type) and name not in _STATE else value
    if callable(value) and not isinstance(value, type) and value in FUNCTIONS:
        return accepting(value)
    return value


def own(definition: Any) -> Any:
    """Register a definition instead of the NumPy object of its name."""
    original = getattr(np, definition.__name__)
    definition.__doc__ = original.__doc__ if isinstance(definition, type) else definition.__doc__ or original.__doc__
    OWN[""][definition.__name__] = definition
    return definition


# ------------------------------------------------------------------ creating arrays


def _converting(name: str) -> Callable[..., Any]:
    original = getattr(np, name)
    convert = creating(original)

    def call(obj: Any, /, dtype: Any = None, **settings: Any) -> Any:
        if untouched((obj,), settings):
            return original(obj, dtype, **settings)
        (obj,) = read((obj,))
        if first((obj,)) is None:
            return convert(obj, dtype, **settings)
        ndmin = settings.pop("ndmin", 0)
        # an object array cannot be traced: its elements become one array, if they have one shape
        out = convert(obj, None if dtype is object else dtype, **settings)
        return out if out.ndim >= ndmin else out[(None,) * (ndmin - out.ndim)]

    call.__name__ = call.__qualname__ = name
    call.__doc__ = getattr(np, name).__doc__
    return call


OWN[""].update({name: _converting(name) for name in ("array", "asarray", "asanyarray")})


@own
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    out = OWN[""]["asarray"](a, dtype=dtype)
    concrete = np.asarray_chkfinite(out) if not isinstance(out, Tensor) else None
    return out if concrete is None else concrete


def _empty(name: str) -> Callable[..., Any]:
    # zeros: a derivative may read what the function never writes
    made = creating(getattr(np, name.replace("empty", "zeros")))
    return lambda *args, **settings: made(*args, **settings)


def _limits(name: str) -> Callable[..., Any]:
    original = getattr(np, name)
    return lambda dtype: original(dtype.dtype if isinstance(dtype, Tensor) else dtype)


for _name, _make in {"empty": _empty, "empty_like": _empty, "finfo": _limits, "iinfo": _limits}.items():
    _made = _make(_name)
    _made.__name__, _made.__doc__ = _name, getattr(np, _name).__doc__
    OWN[""][_name] = _made


@own
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **settings: Any) -> Any:
    like = first((start, stop, step))
    if like is None:
        return _arange(*((start,) if stop is None else (start, stop)), step=step, dtype=dtype, **settings)
    start, stop = (0, start) if stop is None else (start, stop)
    # the number of elements has no derivative
    count = max(0, math.ceil(float(values_of((stop - start) / step))))
    out = start + constant(np.arange(count, dtype=float), like) * step
    return out if dtype is None else out.astype(dtype)


_arange = creating(np.arange)


@own
def full(shape: Any, fill_value: Any, dtype: Any = None, **settings: Any) -> Any:
    if first((fill_value,)) is None:
        return _full(shape, fill_value, dtype, **settings)
    return np.copy(np.broadcast_to(OWN[""]["array"](fill_value, dtype), shape))


_full = creating(np.full)


@own
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **settings: Any) -> Any:
    return function(*settled(list(np.indices(shape, dtype=dtype)), home()), **settings)


@own
def fromiter(iter: Any, dtype: Any = None, count: int = -1, *, like: Any = None) -> Any:
    values = list(iter) if count < 0 else [value for _, value in zip(range(count), iter, strict=False)]
    return OWN[""]["array"](values, dtype)


class _Joined:
    """``r_`` and ``c_``: NumPy joins the positions of the elements, and these are picked."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        like = first(items)
        if like is None:
            return settled(self._original[key], home())
        start, parts, positions = 0, [], []
        for item in items:
            if isinstance(item, str):
                positions.append(item)
                continue
            part = tensor(beside(np.r_[item] if isinstance(item, slice) else item, like), like)
            place = np.arange(start, start + part.size).reshape(part.shape)
            positions.append(place if part.ndim else int(place))
            start += part.size
            parts.append(flat(part))
        return picked(agrad.concat(promoted(*parts)), np.asarray(self._original[tuple(positions)]))

    def __len__(self) -> int:
        return 0


class _Grid:
    """``mgrid`` and ``ogrid``."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getitem__(self, key: Any) -> Any:
        return settled(self._original[key], home())


OWN[""].update(r_=_Joined(np.r_), c_=_Joined(np.c_), mgrid=_Grid(np.mgrid), ogrid=_Grid(np.ogrid))


def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    if first((x,)) is None:
        return settled(_as_strided(x, shape, strides, subok, writeable), elsewhere(home()))
    packed = tuple(n * x.itemsize for n in np.empty(x.shape, bool).strides)
    if is_concrete(x) and getattr(x, "strides", packed) != packed:
        raise RefusedFunctionError("as_strided: x must be in C order. Call numpy.ascontiguousarray(x) first.")
    axes = zip(x.shape if shape is None else shape, packed if strides is None else strides, strict=True)
    # the positions of the elements, which are picked: a copy
    return picked(x, functools.reduce(np.add.outer, [np.arange(n) * s // x.itemsize for n, s in axes], np.asarray(0)))


_as_strided = np.lib.stride_tricks.as_strided
as_strided.__doc__ = _as_strided.__doc__
OWN["lib.stride_tricks"] = {"as_strided": as_strided}

# ------------------------------------------------------------------ classes and loops


class _ArrayClass(type):
    """Tests by class: arrays of every backend and Tensors are ``ndarray`` instances."""

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.__subclasscheck__(type(value))

    def __subclasscheck__(cls, kind: type) -> bool:
        if kind is cls or issubclass(kind, (np.ndarray, Tensor)):
            return True
        return not issubclass(kind, np.generic) and backend_of_type(kind) is not None

    def __eq__(cls, kind: Any) -> bool:  # type(x) == np.ndarray
        return kind is cls or kind is np.ndarray or kind is Tensor

    __hash__ = type.__hash__


@own
class ndarray(metaclass=_ArrayClass):
    def __new__(cls, shape: Any, dtype: Any = float, *args: Any, **settings: Any) -> Any:
        if args or settings:
            return np.ndarray(shape, dtype, *args, **settings)
        return OWN[""]["empty"](shape, dtype)


@own
def ndenumerate(arr: Any) -> Any:
    return np.ndenumerate(arr) if first((arr,)) is None else ((i, arr[i]) for i in np.ndindex(arr.shape))


@own
class vectorize:
    def __init__(self, pyfunc: Any = None, *args: Any, **settings: Any) -> None:
        self.pyfunc, self._original = pyfunc, np.vectorize(pyfunc, *args, **settings)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        like = first(args)
        if like is None or settings or self._original.signature is not None or self._original.excluded:
            return settled(self._original(*args, **settings), elsewhere(home()))
        xs = np.broadcast_arrays(*[tensor(beside(arg, like), like) for arg in args])
        shape, xs = xs[0].shape, [flat(x) for x in xs]
        outs = [self.pyfunc(*[x[i] for x in xs]) for i in range(math.prod(shape))]

        def joined(parts: Any) -> Any:
            return agrad.reshape(OWN[""]["array"](list(parts)), shape)

        return tuple(map(joined, zip(*outs, strict=True))) if isinstance(outs[0], tuple) else joined(outs)


# ------------------------------------------------------------------ random numbers

_STATE = frozenset({"seed", "get_state", "set_state", "get_bit_generator", "set_bit_generator"})


def _placing(original: type) -> type:
    """Return a subclass of a NumPy generator whose arrays are on the backend of the program."""
    methods = {
        name: drawing(method)
        for name, method in vars(original).items()
        if name[0] != "_" and callable(method) and name not in _STATE and name != "spawn"
    }
    return type(original.__name__, (original,), {**methods, "__doc__": original.__doc__, "__module__": "numpy.random"})


_Generator = _placing(np.random.Generator)


def default_rng(seed: Any = None) -> Any:
    """Return a NumPy generator whose arrays are on the backend of the program."""
    return seed if isinstance(seed, _Generator) else _Generator(np.random.default_rng(seed).bit_generator)


OWN["random"] = {"default_rng": default_rng, "RandomState": _placing(np.random.RandomState)}

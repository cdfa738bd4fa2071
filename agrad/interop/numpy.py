"""NumPy protocols ``__array_ufunc__`` and ``__array_function__``, and methods.

This module is loaded at the first call that needs it. A function that is not in the tables raises an error with a fix;
nothing detaches silently.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.backends import backend_of, backend_of_type
from agrad.errors import RefusedFunctionError
from agrad.interop import (  # noqa: F401 - they register handlers
    choosing,
    creation,
    einsum,
    fourier,
    linear_algebra,
    manipulation,
    ordering,
    polynomials,
    reductions,
    refused,
    scimath,
    signals,
    statistics,
    ufuncs,
)
from agrad.interop.arguments import cast, deliver, dtype_of, known, masked, rejects, tensor
from agrad.interop.creation import LIKE, like_array
from agrad.interop.foreign_operators import values_of_labelled
from agrad.interop.methods import METHODS, choose_where
from agrad.interop.scipy import find_ufunc
from agrad.interop.scipy import special_function as special_function
from agrad.interop.table import FUNCTIONS, REFUSED, UFUNCS, answer, called_as, find

_IGNORED = ("order", "subok", "casting")


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the result of a ufunc or of one of its methods on Tensors.

    Returns NotImplemented for an operand of an unknown class, so that NumPy calls that class next. Raises
    ``RefusedFunctionError``, a ``TypeError``, for a ufunc without a handler.
    """
    if not settings and method == "__call__":
        common = UFUNCS.get(ufunc)
        if common is not None and all(map(known, inputs)):
            return common(*inputs)
    out = settings.pop("out", ())
    inputs = tuple(map(values_of_labelled, inputs))
    operands = inputs if method != "at" else (inputs[0], *inputs[2:])
    if not all(map(known, (*operands, *out))):
        return NotImplemented
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    function = UFUNCS.get(ufunc) or find_ufunc(ufunc)
    if function is None:
        remedy = REFUSED.get(ufunc.__name__) if getattr(np, ufunc.__name__, None) is ufunc else None
        raise RefusedFunctionError(
            f"{ufunc.__name__}: agrad has no derivative for this ufunc. "
            f"{remedy or 'Use agrad functions, an @agrad.primitive, or call it on x.detach().numpy()'}."
        )
    if method != "__call__":
        return deliver(called_as(f"numpy.{name}", METHODS[method], ufunc, *inputs, **settings), out or None, name)
    casting = settings.get("casting", "same_kind")
    where, dtype = settings.pop("where", True), settings.pop("dtype", None)
    for setting in _IGNORED:
        settings.pop(setting, None)
    if settings:
        raise RefusedFunctionError(
            f"numpy.{name}: {', '.join(settings)} is not supported for Tensors. Move the axes with numpy.moveaxis."
        )
    if dtype is not None:
        inputs = tuple([cast(x, dtype) if isinstance(x, Tensor) else np.asarray(x, dtype) for x in inputs])
    if where is not True:
        # common functions are finite at 1: a nan of an element that is left out would reach the gradient
        result = function(*[masked(tensor(x), where, 1) if np.shape(x) else x for x in inputs])
        parts = result if isinstance(result, tuple) else (result,)
        outs = out or (None,) * len(parts)
        parts = tuple([choose_where(part, where, o, name) for part, o in zip(parts, outs, strict=True)])
        result = parts if isinstance(result, tuple) else parts[0]
    else:
        result = function(*inputs)
    return deliver(result, out or None, name, casting)


def array_function(
    asked: Tensor, function: Any, types: Sequence[type], args: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Return the result of a NumPy function with a Tensor among its arguments.

    Returns NotImplemented for an argument of an unknown class. Raises ``RefusedFunctionError``, a ``TypeError``, for a
    function without a handler.
    """
    for kind in types:
        if not issubclass(kind, Tensor) and kind is not np.ndarray and backend_of_type(kind) is None:
            return NotImplemented
        if issubclass(kind, np.ndarray) and kind is not np.ndarray:
            return NotImplemented
    if function in FUNCTIONS:
        return answer(FUNCTIONS[function], args, settings)
    if function in LIKE:
        return like_array(function, asked, args, settings)
    name = f"{getattr(function, '__module__', 'numpy')}.{function.__name__}"
    remedy = REFUSED.get(name.removeprefix("numpy."))
    raise RefusedFunctionError(
        f"{name} does not support Tensors. {remedy or 'Use agrad functions, or call it on x.detach().numpy()'}."
    )


def array_method(name: str, x: Tensor, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Call a method of NumPy arrays on a Tensor.

    It calls the NumPy function of that name, except for those in ``_METHODS_ALONE``.
    """
    if name in _METHODS_ALONE:
        return called_as(f"Tensor.{name}", _METHODS_ALONE[name], x, *args, **settings)
    if name in ("reshape", "transpose") and args and not np.iterable(args[0]) and args != (None,):
        args = (args,)
    if name in ("conj", "conjugate"):
        return UFUNCS[np.conjugate](x)
    args = (*args[:1], x, *args[1:]) if name == "compress" else (x, *args)
    return answer(FUNCTIONS[find(name)], args, settings, f"Tensor.{name}")


class Flat:
    """The elements of a Tensor in row-major order, as ``ndarray.flat``."""

    def __init__(self, x: Tensor) -> None:
        self.base = x

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(agrad.reshape(self.base, (-1,)))

    def __getitem__(self, key: Any) -> Tensor:
        return agrad.reshape(self.base, (-1,))[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        # a reshape may be a copy, so the write is to positions
        positions = np.arange(self.base.size)[key]
        if isinstance(value, (Tensor, np.ndarray, list, tuple)) and np.ndim(value):
            value = tensor(value, self.base)
            value = answer(FUNCTIONS[np.resize], (value, np.shape(positions)), {})
        self.base[np.unravel_index(positions, self.base.shape)] = value


flat_iterator = Flat


def _astype(
    x: Tensor, dtype: Any, order: Any = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Tensor:
    dtype = dtype_of(dtype)
    if casting != "unsafe" and not np.can_cast(x.dtype.name, dtype.name, casting):
        raise TypeError(f"astype: {x.dtype} cannot be cast to {dtype} with casting={casting!r}")
    return x if not copy and x.dtype == dtype else agrad.astype(x, dtype)


def _copy(x: Tensor, order: Any = "C") -> Tensor:
    # unlike numpy.copy the method has its elements row by row, and views of the copy by reshape write into it
    x = agrad.reshape(agrad.reshape(x, (-1,)), x.shape) if order == "C" and x.ndim > 1 else x
    return answer(FUNCTIONS[np.copy], (x,), {})


def _flatten(x: Tensor, order: Any = "C") -> Tensor:
    if isinstance(order, int):
        raise rejects("ndarray.flatten", f"order must be a string, got {order}", "Write x.reshape(x.shape[0], -1)")
    return agrad.astype(answer(FUNCTIONS[np.ravel], (x, order), {}), x.dtype, copy=True)


def _fill(x: Tensor, value: Any) -> None:
    x[...] = value


def _partition(x: Tensor, kth: Any, axis: Any = -1, **settings: Any) -> None:
    x[...] = answer(FUNCTIONS[np.partition], (x, kth, axis), settings)


def _sort(x: Tensor, axis: Any = -1, **settings: Any) -> None:
    x[...] = answer(FUNCTIONS[np.sort], (x, axis), settings)


def _tolist(x: Tensor) -> Any:
    x._check_read("tolist()")
    return backend_of(x.raw).to_host(x.raw).tolist()


_METHODS_ALONE: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "copy": _copy,
    "fill": _fill,
    "flatten": _flatten,
    "partition": _partition,
    "sort": _sort,
    "tolist": _tolist,
}
"""Methods that differ from the NumPy function of their name, or without such a function."""

"""Keys from a seed, split keys, keys folded with a number; checks of arguments."""

import math
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.faces import complete_docstring
from agrad.ops import sampling
from agrad.ops.definition import of_first

if TYPE_CHECKING:
    from agrad.engine.typed import OfFirst

__all__ = ["fold_in", "key", "split"]

FLOATS = ("float32", "float64")
P = ParamSpec("P")


def draw(function: Callable[Concatenate[Any, P], agrad.Tensor]) -> "OfFirst[P, agrad.Tensor]":
    """Return a function of a key with a type, and with a complete docstring.

    Parameters
    ----------
    key : array of shape (4,), uint32
    shape : int, tuple of int or None
        Shape of the result. By default, the shape to which the parameters broadcast.
    loc : number or array
        Location. The result is differentiable in an array.
    scale : number or array
        Scale. The result is differentiable in an array.
    dtype : dtype or None
        float32 or float64. By default, the dtype of the array parameters, otherwise the default of the backend.

    Returns
    -------
    array of the given shape and dtype, of the library and on the device of the key; a Tensor for a Tensor
    """
    return of_first(complete_docstring(function, draw))


def key(seed: int, *, backend: str | None = None, device: Any = None) -> agrad.Tensor:
    """Return the key of a seed.

    Parameters
    ----------
    seed : int
        Integer from 0 to 2**128 - 1.
    backend, device
        Backend and device of the key. By default, the selected backend and its default device.

    Returns
    -------
    Tensor
        Tensor of shape (4,), uint32. A plain array of this shape and dtype is also a key.

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> key.shape, key.dtype
    ((4,), agrad.uint32)
    >>> bool(agrad.all(agrad.random.normal(key, 3) == agrad.random.normal(agrad.random.key(0), 3)))
    True
    """
    whole = number(seed, "key", "the seed", 2**128)
    words = [whole >> 32 * i & 0xFFFFFFFF for i in range(4)]
    return agrad.asarray(words, dtype=agrad.uint32, backend=backend, device=device)


@of_first
def split(key: Any, /, n: int = 2) -> agrad.Tensor:
    """Return keys that are independent of each other and of draws from ``key``.

    Parameters
    ----------
    key : array of shape (4,), uint32
    n : int
        Number of keys.

    Returns
    -------
    array of shape (n, 4), uint32, with the keys as rows

    Examples
    --------
    >>> first, second = agrad.random.split(agrad.random.key(0))
    >>> np.round(agrad.random.normal(first, 3), 4)
    Tensor([1.0157, -0.759, 1.4281], dtype=float64, backend=numpy, device=cpu)
    >>> np.round(agrad.random.normal(second, 3), 4)
    Tensor([0.4465, 0.8517, 0.654], dtype=float64, backend=numpy, device=cpu)
    """
    return sampling.keys(checked(key, "split"), count=number(n, "split", "n", 2**31), domain=sampling.SPLIT, data=0)


@of_first
def fold_in(key: Any, data: int, /) -> agrad.Tensor:
    """Return a key derived from a key and an integer, such as the number of a step.

    Parameters
    ----------
    key : array of shape (4,), uint32
    data : int
        Integer from 0 to 2**128 - 1.

    Returns
    -------
    array of shape (4,), uint32

    Examples
    --------
    >>> key = agrad.random.key(0)
    >>> [round(agrad.random.uniform(key).item(), 4) for key in [agrad.random.fold_in(key, epoch) for epoch in range(3)]]
    [0.6445, 0.5337, 0.9004]
    """
    whole = number(data, "fold_in", "data", 2**128)
    return sampling.keys(checked(key, "fold_in"), count=1, domain=sampling.FOLD, data=whole)[0, :]


def checked(key: Any, name: str) -> Any:
    """Return ``key``, checked to be a key."""
    if not hasattr(key, "shape") or not hasattr(key, "dtype"):
        raise OperandError(
            f"{name}: the first argument must be a key, got {type(key).__name__}. Create one with "
            "agrad.random.key(seed)"
        )
    if tuple(key.shape) != (4,) or agrad.uint32 != key.dtype:
        raise ShapeError(
            f"{name}: the key must have shape (4,) and dtype uint32, got shape {tuple(key.shape)} and dtype "
            f"{key.dtype}. agrad.random.key creates one key, and split returns several keys in rows"
        )
    return key


def number(value: Any, name: str, what: str, end: int) -> int:
    """Return an integer, checked to be 0 or more and less than ``end``."""
    try:
        whole = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        whole = -1
    if not 0 <= whole < end:
        raise ConfigurationError(f"{name}: {what} must be an integer from 0 to {end - 1}, got {value!r}")
    return whole


def shape_of(shape: Any, name: str) -> tuple[int, ...]:
    """Return a shape as a tuple of integers of 0 or more."""
    try:
        found = tuple(index(n) for n in shape) if isinstance(shape, (tuple, list)) else (index(shape),)
    except TypeError:
        found = (-1,)
    if any(n < 0 for n in found):
        raise ShapeError(f"{name}: a shape must be an integer of at least 0 or a tuple of them, got {shape!r}")
    return found


def broadcast_shape(shape: Any, name: str, *parameters: Any) -> tuple[int, ...]:
    """Return the given shape, by default the shape to which the parameters broadcast."""
    shapes = [tuple(p.shape) for p in parameters if hasattr(p, "shape")]
    if shape is None:
        return agrad.broadcast_shapes(*shapes) if shapes else ()
    found = shape_of(shape, name)
    try:
        fits = not shapes or agrad.broadcast_shapes(found, *shapes) == found
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"{name}: parameters of shapes {', '.join(map(str, shapes))} do not broadcast to {found}")
    return found


def floating(dtype: Any, name: str, key: Any, *parameters: Any) -> str:
    """Return the name of the dtype: given, or of the parameters, or of the backend."""
    if dtype is None:
        arrays = [p for p in parameters if hasattr(p, "dtype")]
        dtype = agrad.result_type(*arrays) if arrays else None
        if dtype is None or agrad.isdtype(dtype, ("integral", "bool")):
            tensor = agrad.asarray(key)
            dtype = agrad.zeros((), backend=tensor.backend, device=tensor.device).dtype
    found = agrad.zeros((), dtype=dtype, backend="numpy").dtype.name if not isinstance(dtype, str) else dtype
    if found not in FLOATS:
        raise DtypeError(
            f"{name}: the dtype must be float32 or float64, got {found}. Cast the sample with agrad.astype"
        )
    return found


def shape_and_dtype(key: Any, shape: Any, dtype: Any, name: str, *parameters: Any) -> tuple[tuple[int, ...], str]:
    """Return the shape and the dtype's name of a draw; check all arguments."""
    found = broadcast_shape(shape, name, *parameters)
    return found, floating(dtype, name, checked(key, name), *parameters)


def parameter(value: Any, name: str, what: str, key: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return a parameter as an array of a shape and dtype on the key's device."""
    if not hasattr(value, "shape"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OperandError(f"{name}: {what} must be a number or an array, got {type(value).__name__}")
        tensor = agrad.asarray(key)
        value = agrad.full((), value, dtype=dtype, backend=tensor.backend, device=tensor.device)
        value = value if isinstance(key, agrad.Tensor) else value.raw
    kind = getattr(agrad, dtype)
    value = value if kind == value.dtype else agrad.astype(value, kind)
    return value if tuple(value.shape) == shape else agrad.broadcast_to(value, shape)


def positive(value: Any, name: str, what: str) -> Any:
    """Return a parameter, checked to be above 0 and finite if it is a number."""
    if not hasattr(value, "shape") and isinstance(value, (int, float)) and not (0 < value < math.inf):
        raise ConfigurationError(f"{name}: {what} must be above 0 and finite, got {value!r}")
    return value

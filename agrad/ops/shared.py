"""Small helpers that several sections of the calculus use: argument checks at the door, axes kept by reductions."""

from functools import partial
from typing import Any

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import DType
from agrad.engine.scalars import Scalar, deferred_array
from agrad.engine.tensor import Tensor
from agrad.errors import OperandError
from agrad.shapes import kept_shape, normalize_axes, normalize_axis

NUMBERS = (bool, int, float, complex)


def shape_of(x: Any, name: str = "this function") -> tuple[int, ...]:
    """The shape of an array; ``OperandError`` for what is none."""
    try:
        return tuple(x.shape)
    except AttributeError:
        raise OperandError(
            f"{name} takes a Tensor or an array, not {type(x).__name__}; make one with agrad.asarray"
        ) from None


def ndim_of(x: Any, name: str = "this function") -> int:
    """The number of dimensions of an array; ``OperandError`` for what is none."""
    return len(shape_of(x, name))


def raw_of(x: Any) -> Any:
    """The raw array under all levels of a Tensor; anything else as it is."""
    return x.raw if isinstance(x, Tensor) else x


def axes_of(axis: Any, x: Any) -> tuple[int, ...]:
    """A reduction's axes in one form: a sorted tuple of non-negative numbers."""
    return normalize_axes(axis, ndim_of(x))


def axis_of(axis: int, x: Any) -> int:
    """One axis in one form: a non-negative number."""
    return normalize_axis(axis, ndim_of(x))


def native_dtype(dtype: Any, x: Any) -> Any:
    """The dtype as the array library of ``x`` names it; None stays None."""
    if type(dtype) is not DType:
        return dtype
    return getattr(backend_of(raw_of(x)).xp, dtype.name)


def array_arguments(name: str, *values: Any) -> list[Any]:
    """Numbers among the arguments made arrays of the first array's backend; weak, so they take the others' dtype."""
    known = next((v for v in values if hasattr(v, "shape")), None)
    if known is None:
        raise OperandError(f"{name} takes at least one array; make one with agrad.asarray")
    if all(hasattr(v, "shape") for v in values):
        return list(values)
    raw = raw_of(known)
    backend = backend_of(raw)
    xp, device = backend.xp, backend.device_of(raw)
    arrays = [raw_of(v) for v in values if hasattr(v, "shape")]
    typed = [a for a in arrays if not xp.isdtype(a.dtype, "bool")] or arrays
    dtype = xp.result_type(*typed)
    out = []
    for value in values:
        if not hasattr(value, "shape"):
            number = value.value if isinstance(value, Scalar) else value
            if type(number) not in NUMBERS:
                raise OperandError(f"{name} takes arrays and numbers, not {type(number).__name__}")
            kind = dtype
            if isinstance(number, float) and not xp.isdtype(dtype, ("real floating", "complex floating")):
                kind = xp.float64
            place = partial(xp.asarray, dtype=kind, device=device)
            value = deferred_array(type(number), (value,), place) if isinstance(value, Scalar) else place(value)
        out.append(value)
    return out


def keep(xp: Any, value: Any, shape: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    """The result of a reduction over ``axis`` of an array of ``shape``, with the reduced axes kept as ones."""
    target = kept_shape(shape, axis)
    return value if tuple(value.shape) == target else xp.reshape(value, target)


def holds_tensor(value: Any) -> bool:
    """Whether ``value`` is a Tensor or a nested list or tuple with one in it."""
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(holds_tensor, value)))


def no_view(value: Any) -> Any:
    """``value``, a result that shares no memory with an argument or is not to be known to: it is written to alone."""
    if isinstance(value, Tensor):
        value._link = None
    return value


def is_array(value: Any) -> bool:
    """Whether ``value`` is a Tensor or a raw array of a backend that is loaded or loadable."""
    return isinstance(value, Tensor) or backend_of_type(type(value)) is not None

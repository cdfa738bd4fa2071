"""Conversion of arguments of NumPy functions, and helpers of handlers."""

import functools
import math
from typing import Annotated, Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.backends import backend_of_type
from agrad.errors import DetachError, DtypeError, RefusedFunctionError, TracedValueError, described
from agrad.registry import CALLS, namespace

NUMBERS = (bool, int, float, complex)

Floating = Annotated[Tensor, "floating"]
"""A parameter of a handler that is converted to a floating dtype, real or complex."""
Promoted = Annotated[Tensor, "promoted"]
"""Parameters that are converted to one dtype by NumPy promotion."""
PromotedFloating = Annotated[Tensor, "promoted floating"]
"""Parameters that are converted to one floating dtype."""


_FORMS: dict[Any, tuple[bool, bool]] = {
    Tensor: (False, False),
    Tensor | None: (False, False),
    Floating: (True, False),
    Promoted: (False, True),
    PromotedFloating: (True, True),
}
"""Two flags for each annotation: conversion to a floating dtype, conversion to one dtype with others."""


def arrays_of(handler: Any) -> dict[str, tuple[bool, bool]]:
    """Return the array parameters of a handler with the flags of ``_FORMS``."""
    annotated = handler.__annotations__.items()
    return {name: _FORMS[form] for name, form in annotated if name != "return" and form in _FORMS}


def convert(arrays: dict[str, tuple[bool, bool]], given: dict[str, Any]) -> None:
    """Convert the arrays among the arguments, in place, as their flags say."""
    together = []
    for name, (floating, promotes) in arrays.items():
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, Tensor):
            given[name] = value = tensor(value, like_of(*given.values()))
        if floating:
            given[name] = inexact(value)
        if promotes:
            together.append(name)
    if len(together) > 1:
        given.update(zip(together, promoted(*[given[name] for name in together]), strict=True))


def like_of(*values: Any) -> Any:
    """Return the first Tensor in the values and nested sequences, or None."""
    for value in values:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (list, tuple)):
            found = like_of(*value)
            if found is not None:
                return found
    return None


def constant(values: Any, like: Tensor) -> Tensor:
    """Return numbers or a NumPy array as a constant Tensor on the device of ``like``."""
    # no copy is needed: nothing writes to the values
    values, backend = np.asarray(values), like.backend
    return agrad.asarray(values) if backend == "numpy" else agrad.asarray(values, backend=backend, device=like.device)


def tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """Return the Tensor of an array, a number, or a nested sequence of these."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        # NumPy promotes the dtypes of a sequence, the standard's stack does not
        return agrad.stack(promoted(*[tensor(part, like_of(value)) for part in value]))
    if like is None or (hasattr(value, "shape") and not isinstance(value, np.generic) and value.ndim):
        return agrad.asarray(value)
    backend = backend_of_type(type(value))
    if backend is not None and backend.name == like.backend and not isinstance(value, np.generic):
        return agrad.asarray(value)
    return constant(value, like)


def tensors(*values: Any) -> list[Any]:
    """Return Tensors of all arguments on one backend; None is unchanged."""
    like = like_of(*values)
    return [None if value is None else tensor(value, like) for value in values]


def values_of(value: Any) -> np.ndarray:
    """Return the values on the host, without their gradient."""
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        return np.stack([values_of(part) for part in value])
    if hasattr(value, "shape") and not isinstance(value, (np.ndarray, np.generic)):
        return agrad.asarray(value).numpy()
    return np.asarray(value)


def lowered(value: Any, read: Any = values_of) -> Any:
    """Replace the Tensors of an argument by their values on the host."""
    if isinstance(value, Tensor):
        return read(value)
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        return type(value)(lowered(part, read) for part in value)
    return value


def on_host(function: Any, read: Any = values_of) -> Any:
    """Return a handler that calls the NumPy function on the host.

    Arrays in its result become constant Tensors.
    """

    def handler(*args: Any, **settings: Any) -> Any:
        like = like_of(args, tuple(settings.values()))
        out = function(*lowered(args, read), **{name: lowered(value, read) for name, value in settings.items()})
        return _raised(out, like)

    return handler


def _raised(out: Any, like: Tensor) -> Any:
    if isinstance(out, (tuple, list)):
        return type(out)(_raised(part, like) for part in out)
    return constant(out, like) if isinstance(out, (np.ndarray, np.generic)) else out


def is_concrete(x: Tensor) -> bool:
    """Return True if the values can be read; in some transforms they cannot."""
    try:
        x._check_concrete("a look at the values")
    except TracedValueError:
        return False
    return True


def may_hold(condition: Any, *xs: Tensor) -> bool:
    """Return False if no element meets a condition and reading the values is free."""
    return not are_at_hand(*xs) or bool(condition(*[x.raw for x in xs]).any())


def are_at_hand(*xs: Tensor) -> bool:
    """Return True if values are NumPy arrays and no transform hides them."""
    return all(x.backend == "numpy" and is_concrete(x) for x in xs)


def dtype_of(dtype: Any) -> Any:
    """Return the agrad dtype for anything that NumPy accepts as a dtype.

    Raises ``DtypeError`` for dtypes outside the standard.
    """
    try:
        return getattr(agrad, np.dtype(dtype).name)
    except (AttributeError, TypeError):
        raise DtypeError(
            f"dtype must be a dtype of the array API standard, got {dtype!r}. Use bool, int8 to int64, uint8 to "
            "uint64, float32, float64, complex64 or complex128."
        ) from None


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Convert a Tensor to a dtype in any NumPy form; None keeps its dtype."""
    return x if dtype is None or x.dtype == dtype else agrad.astype(x, dtype_of(dtype))


_INEXACT, _COMPLEX = {"real floating", "complex floating", "f", "c"}, {"complex floating", "c"}
"""Kinds of dtypes, as agrad and as NumPy name them."""


def is_inexact(x: Any) -> bool:
    """Return True for a floating dtype, real or complex."""
    return x.dtype.kind in _INEXACT


def is_complex(x: Any) -> bool:
    """Return True for a complex dtype."""
    return x.dtype.kind in _COMPLEX


def as_complex(x: Tensor) -> Tensor:
    """Convert a real array to the complex dtype of its precision."""
    return x if is_complex(x) else agrad.astype(x, agrad.complex64 if x.dtype == agrad.float32 else agrad.complex128)


def conjugate(x: Tensor) -> Tensor:
    """Return the conjugate, or a real array unchanged."""
    return agrad.conj(x) if is_complex(x) else x


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose."""
    return conjugate(agrad.matrix_transpose(x))


def inexact(x: Any) -> Tensor:
    """Convert integers and Booleans to float64; keep floating dtypes."""
    return x if is_inexact(x) else agrad.astype(x, agrad.float64)


def promoted(*xs: Tensor, least: Any = None) -> list[Tensor]:
    """Convert Tensors to the dtype to which NumPy promotes their dtypes and ``least``."""
    kinds = [x.dtype for x in xs]
    if least is None and kinds.count(kinds[0]) == len(kinds):
        return list(xs)
    target = _promotion(tuple([kind.name for kind in kinds]), least)
    return [x if kind is target else agrad.astype(x, target) for x, kind in zip(xs, kinds, strict=True)]


@functools.lru_cache(maxsize=256)
def _promotion(names: tuple[str, ...], least: Any) -> Any:
    return dtype_of(np.result_type(*map(np.dtype, names), *([] if least is None else [least])))


def operands(*values: Any, floating: bool = False) -> list[Any]:
    """Convert operands to the dtype that NumPy promotes theirs to.

    Python numbers are weak and remain numbers. NumPy scalars are arrays for NumPy and numbers for every other library.
    """
    if _have_one_dtype(values, floating):
        return [float(v) if type(v) is int else v for v in values]
    like = like_of(*values)
    if like is not None and like.backend != "numpy":
        values = tuple([v.item() if isinstance(v, np.generic) else v for v in values])
    out = [v if type(v) in NUMBERS else tensor(v, like) for v in values]
    target = np.result_type(*[np.dtype(v.dtype.name) if isinstance(v, Tensor) else v for v in out])
    if floating and target.kind in "biu":
        target = np.dtype(np.float64)
    return [cast(v, target) if isinstance(v, Tensor) else _fitting(v, target) for v in out]


def _have_one_dtype(values: tuple[Any, ...], floating: bool) -> bool:
    """Return True for Tensors of one dtype, which may be real numbers' too; the common cases."""
    kind, numbers = None, False
    for value in values:
        if isinstance(value, Tensor):
            if kind is None:
                kind = value.dtype
            elif value.dtype is not kind:
                return False
        elif type(value) is float or type(value) is int:
            numbers = True
        else:
            return False
    return kind is not None and (kind.kind == "real floating" or not (numbers or floating))


def _fitting(number: Any, dtype: np.dtype) -> Any:
    """Convert a weak number to the Python type that fits a dtype.

    array-api-strict does not accept an int for a Boolean or a float for an int.
    """
    return float(number) if dtype.kind == "f" else int(number) if dtype.kind in "iu" else number


def alike(*values: Any, floating: bool = False) -> list[Tensor]:
    """Convert operands to Tensors of one dtype; Python numbers are weak."""
    out = operands(*values, floating=floating)
    like = like_of(*out)
    if like is None:
        return tensors(*out)
    return [x if isinstance(x, Tensor) else constant(np.asarray(x, like.dtype.name), like) for x in out]


def numeric(x: Tensor) -> Tensor:
    """Convert Booleans to integers, as NumPy sums do."""
    return agrad.astype(x, agrad.int64) if x.dtype == agrad.bool else x


def truth(x: Tensor) -> Tensor:
    """Convert numbers to Booleans: True if they are not 0."""
    return x if x.dtype == agrad.bool else x != 0


def axis_of(axis: Any, ndim: int) -> int:
    """Return an axis that is not negative. Raises ``AxisError`` of NumPy."""
    return int(np.lib.array_utils.normalize_axis_index(int(axis), ndim))


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes that are not negative; all axes for None."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(int(a) for a in np.lib.array_utils.normalize_axis_tuple(axis, ndim))


def with_axis(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Return the array and an axis; for None the flattened array and 0."""
    return (flat(x), 0) if axis is None else (x, axis_of(axis, x.ndim))


def on_axis(n: int, axis: int, ndim: int) -> tuple[int, ...]:
    """Return a shape of ``ndim`` dimensions, ``n`` along ``axis`` and 1 elsewhere."""
    return tuple(n if i == axis else 1 for i in range(ndim))


def resized(x: Tensor, axis: int, n: int) -> tuple[int, ...]:
    """Return the shape of the array with the length ``n`` along ``axis``."""
    return (*x.shape[:axis], n, *x.shape[axis + 1 :])


def zeros(shape: tuple[int, ...], like: Tensor, dtype: Any = None) -> Tensor:
    """Return zeros on the backend and device of ``like``, by default with its dtype."""
    return agrad.zeros(shape, dtype=like.dtype if dtype is None else dtype, backend=like.backend, device=like.device)


def between_zeros(x: Tensor, widths: dict[int, tuple[int, int]]) -> Tensor:
    """Return the array with as many zeros before and after it along each axis."""
    index: list[Any] = [slice(None)] * x.ndim
    shape = list(x.shape)
    for axis, (before, after) in widths.items():
        index[axis] = slice(before, before + shape[axis])
        shape[axis] += before + after
    if tuple(shape) == x.shape:
        return x
    return namespace.scatter_add(x, index=tuple(index), shape=tuple(shape))


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """Return an index that applies ``index`` only to ``axis``."""
    return (*(slice(None),) * axis, index)


def flat(x: Tensor) -> Tensor:
    """Return all elements in row-major order, in one dimension."""
    return agrad.reshape(x, (-1,)) if x.ndim != 1 else x


def merged(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Return a matrix with ``axis`` joined as its rows, and shapes of results.

    They are the shape without the axes, and that with keepdims.
    """
    axes = axes_of(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if axes != tuple(range(len(rest), x.ndim)):
        x = agrad.permute_dims(x, (*rest, *axes))
    lead, joined = x.shape[: len(rest)], x.shape[len(rest) :]
    return agrad.reshape(x, (math.prod(lead), math.prod(joined))), lead, kept


def picked(x: Tensor, positions: np.ndarray, axis: int | None = None) -> Tensor:
    """Return the elements at positions along ``axis``.

    For None, elements of the flattened array, in the shape of the positions.
    """
    positions = np.asarray(positions)
    if axis is None:
        x, axis = flat(x), 0
    return agrad.take(x, positions, axis=axis) if positions.ndim == 1 else x[along(axis, positions)]


def stretched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the array broadcast to a shape, or itself if it has that."""
    return x if x.shape == shape else agrad.broadcast_to(x, shape)


def replaced(x: Tensor, places: np.ndarray, new: Tensor) -> Tensor:
    """Return a vector with values at positions; fewer values are repeated.

    If a position is repeated, the last value is kept.
    """
    order = np.arange(x.size)
    order[places] = x.size + np.arange(places.size) % new.size
    return picked(agrad.concat([x, new]), order)


def rewrite(x: Tensor, result: Tensor) -> None:
    """Write new values into a Tensor, given in any shape: it is rebound."""
    CALLS["write"](x, agrad.reshape(result, x.shape), "x[i] = v")


def rearranged(x: Tensor, function: Any) -> Tensor:
    """Apply a function of NumPy that moves, repeats or drops elements."""
    positions = np.arange(x.size).reshape(x.shape)
    return picked(x, function(positions))


def rejects(function: str, why: str, remedy: str) -> RefusedFunctionError:
    """Return the error for a call that is not supported."""
    return RefusedFunctionError(f"numpy.{function}: {why}. {remedy}.")


def deliver(result: Any, out: Any, function: str, casting: str = "same_kind") -> Any:
    """Write a result to ``out`` and return ``out``, or the result for None.

    A Tensor is rebound and keeps the gradient. Raises ``DetachError`` for an ndarray if the result has a gradient.
    """
    if isinstance(result, tuple):
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) == len(result):
            return tuple(
                part if o is None else deliver(part, o, function, casting) for part, o in zip(result, outs, strict=True)
            )
    if isinstance(out, tuple):
        if len(out) != 1:
            raise rejects(function, f"out must be one array, got {len(out)}", "Pass one")
        out = out[0]
    if out is None:
        return result
    if not isinstance(out, Tensor):
        if result.requires_grad or not is_concrete(result):
            raise DetachError(
                f"numpy.{function}: out must be a Tensor, got {described(out)}, which cannot hold a recorded or traced "
                "result. Omit out= (for a += b write a = a + b), or begin with agrad.zeros(shape)."
            )
        if not isinstance(out, np.ndarray):
            raise rejects(
                function,
                f"out must be a Tensor or a NumPy array, got {described(out)}",
                "Convert it: agrad.asarray(out)",
            )
        out[...] = result.numpy()
        return out
    if not np.can_cast(np.dtype(result.dtype.name), np.dtype(out.dtype.name), casting):
        raise DtypeError(f"numpy.{function}: out must have a dtype that can hold {result.dtype}, got {out.dtype}")
    if result.shape != out.shape and np.broadcast_shapes(result.shape, out.shape) == out.shape:
        result = agrad.broadcast_to(result, out.shape)
    return CALLS["write"](out, cast(result, out.dtype), f"out= of numpy.{function}")


def masked(x: Tensor, where: Any, fill: Any) -> Tensor:
    """Return ``x`` if ``where`` is True, otherwise ``fill``."""
    if where is True:
        return x
    return agrad.where(cast(tensor(where, x), bool), x, of_dtype(fill, x))


def of_dtype(value: Any, x: Tensor) -> Any:
    """Return a number or an array as an operand with the dtype of ``x``."""
    return value if type(value) in (int, float) and is_inexact(x) else cast(tensor(value, x), x.dtype)


_SIMPLE = (Tensor, *NUMBERS, np.generic, type(None))


def known(value: Any) -> bool:
    """Return True for an operand of a class that handlers know."""
    if isinstance(value, _SIMPLE):
        return True
    if isinstance(value, (list, tuple)):
        return all(map(known, value))
    return type(value) is np.ndarray or (not isinstance(value, np.ndarray) and backend_of_type(type(value)) is not None)

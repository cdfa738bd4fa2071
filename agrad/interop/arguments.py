"""What NumPy's functions are handed, brought to Tensors: what all handlers share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.backends import backend_of_type
from agrad.errors import DetachError, DtypeError, RefusedFunctionError, TracedValueError

NUMBERS = (bool, int, float, complex)


def like_of(*values: Any) -> Tensor | None:
    """The first Tensor among the values, nested sequences searched."""
    for value in values:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (list, tuple)):
            found = like_of(*value)
            if found is not None:
                return found
    return None


def constant(values: Any, like: Tensor) -> Tensor:
    """Numbers or a NumPy array as a constant Tensor where ``like`` is."""
    # by DLPack and the like a view could come back; what is given here is ours or is never written
    return agrad.asarray(np.asarray(values), backend=like.backend, device=like.device)


def tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """A Tensor of an argument as NumPy reads it: an array, a number, or a nested sequence of these."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        # NumPy's sequences promote, the standard's stacks do not
        return agrad.stack(promoted(*[tensor(part, like_of(value)) for part in value]))
    if like is None or (hasattr(value, "shape") and not isinstance(value, np.generic) and value.ndim):
        return agrad.asarray(value)
    if isinstance(value, np.ndarray) and like.backend == "numpy":
        return agrad.asarray(value)
    return constant(value, like)


def tensors(*values: Any) -> list[Any]:
    """Tensors of all the arguments, on the backend of the first Tensor among them; None stays None."""
    like = like_of(*values)
    return [None if value is None else tensor(value, like) for value in values]


def values_of(value: Any) -> np.ndarray:
    """The values on the host, for what steers an operation and is no part of its derivative."""
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)) and like_of(value) is not None:
        return np.stack([values_of(part) for part in value])
    if hasattr(value, "shape") and not isinstance(value, (np.ndarray, np.generic)):
        return agrad.asarray(value).numpy()
    return np.asarray(value)


def is_concrete(x: Tensor) -> bool:
    """Whether the values are there to be read, which inside some transforms they are not."""
    try:
        x._check_concrete("a look at the values")
    except TracedValueError:
        return False
    return True


def dtype_of(dtype: Any) -> Any:
    """agrad's dtype for whatever NumPy takes for one. Raises ``DtypeError`` for those outside the standard."""
    try:
        return getattr(agrad, np.dtype(dtype).name)
    except (AttributeError, TypeError):
        raise DtypeError(
            f"{dtype!r} is no dtype of the array API standard; the standard's are bool, int8 to int64, uint8 to "
            "uint64, float32, float64, complex64 and complex128"
        ) from None


def cast(x: Tensor, dtype: Any) -> Tensor:
    """The Tensor in a dtype as NumPy names it; None leaves it as it is."""
    if dtype is None or x.dtype == dtype_of(dtype):
        return x
    return agrad.astype(x, dtype_of(dtype))


def is_inexact(x: Any) -> bool:
    """Whether the dtype is floating, real or complex."""
    return agrad.isdtype(x.dtype, ("real floating", "complex floating"))


def is_complex(x: Any) -> bool:
    """Whether the dtype is complex."""
    return agrad.isdtype(x.dtype, "complex floating")


def inexact(x: Any) -> Tensor:
    """Integers and truth values as float64; floating dtypes stay."""
    return x if is_inexact(x) else agrad.astype(x, agrad.float64)


def promoted(*xs: Tensor, least: Any = None) -> list[Tensor]:
    """The Tensors in the dtype that NumPy promotes theirs (and ``least``) to."""
    kinds = [np.dtype(x.dtype.name) for x in xs]
    if least is None and all(kind == kinds[0] for kind in kinds):
        return list(xs)
    target = np.result_type(*kinds, *([] if least is None else [least]))
    return [cast(x, target) for x in xs]


def alike(*values: Any, floating: bool = False) -> list[Tensor]:
    """All as Tensors of the dtype that NumPy promotes theirs to; Python's numbers give way to the arrays' dtypes."""
    like = like_of(*values)
    arrays = [None if type(v) in NUMBERS else tensor(v, like) for v in values]
    weak = [v for v in values if type(v) in NUMBERS]
    target = np.result_type(*[np.dtype(x.dtype.name) for x in arrays if x is not None], *weak)
    if floating and target.kind in "biu":
        target = np.dtype(np.float64)
    assert like is not None
    return [
        constant(np.asarray(v, dtype=target), like) if x is None else cast(x, target)
        for v, x in zip(values, arrays, strict=True)
    ]


def numeric(x: Tensor) -> Tensor:
    """Truth values as the integers that NumPy's sums take them for."""
    return agrad.astype(x, agrad.int64) if x.dtype == agrad.bool else x


def axis_of(axis: Any, ndim: int) -> int:
    """One axis, not negative. Raises NumPy's ``AxisError``."""
    return int(np.lib.array_utils.normalize_axis_index(int(axis), ndim))


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes, not negative: all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(int(a) for a in np.lib.array_utils.normalize_axis_tuple(axis, ndim))


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """``index`` at ``axis`` and everything along the axes before it."""
    return (*(slice(None),) * axis, index)


def flat(x: Tensor) -> Tensor:
    """All elements in row-major order, in one dimension."""
    return agrad.reshape(x, (-1,)) if x.ndim != 1 else x


def merged(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """The array with the axes of a reduction moved to the end and made one, and the shape that keepdims gives."""
    axes = axes_of(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if axes != tuple(range(len(rest), x.ndim)):
        x = agrad.permute_dims(x, (*rest, *axes))
    lead = x.shape[: len(rest)]
    return agrad.reshape(x, (*lead, int(np.prod(x.shape[len(rest) :], dtype=int)))), kept


def picked(x: Tensor, positions: np.ndarray, axis: int | None = None) -> Tensor:
    """The elements at whole-number positions along ``axis``, or of the flattened array, in the positions' shape."""
    positions = np.asarray(positions)
    if axis is None:
        out = agrad.take(flat(x), constant(positions.reshape(-1), x), axis=0)
        return agrad.reshape(out, positions.shape)
    return agrad.take(x, constant(positions, x), axis=axis)


def rearranged(x: Tensor, function: Any) -> Tensor:
    """What ``function``, NumPy's own, makes of the array, where it only moves, repeats or drops elements."""
    positions = np.arange(x.size).reshape(x.shape)
    return picked(x, function(positions))


def rejects(function: str, why: str, remedy: str) -> RefusedFunctionError:
    """The error of a call that cannot stay in the graph."""
    return RefusedFunctionError(f"numpy.{function} {why}; {remedy}")


def defaults_only(function: str, **given: tuple[Any, Any]) -> None:
    """Raise for a setting that is not at its default; each is given as (value, default)."""
    for setting, (value, default) in given.items():
        if value is not default and not (isinstance(value, type(default)) and value == default):
            raise rejects(function, f"takes no {setting}={value!r} for Tensors", f"leave {setting} out")


def deliver(result: Any, out: Any, function: str, casting: str = "same_kind") -> Any:
    """Make ``out`` stand for a result, as NumPy's ``out=`` asks.

    A Tensor is rebound, so that its gradient is right. An ndarray would lose the gradient and is refused for a result
    that has one.
    """
    if isinstance(result, tuple):
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) == len(result):
            return tuple(
                part if o is None else deliver(part, o, function, casting) for part, o in zip(result, outs, strict=True)
            )
    if isinstance(out, tuple):
        if len(out) != 1:
            raise rejects(function, f"makes one result, but out= names {len(out)}", "give one")
        out = out[0]
    if out is None:
        return result
    if not isinstance(out, Tensor):
        if result.requires_grad:
            raise DetachError(
                f"numpy.{function}: out= is a {type(out).__name__}, which records nothing, so that the gradient would "
                "be lost; leave out= away (for a += b write a = a + b), or give a Tensor"
            )
        out[...] = result.numpy()
        return out
    if not np.can_cast(np.dtype(result.dtype.name), np.dtype(out.dtype.name), casting):
        raise DtypeError(f"numpy.{function}: a result of {result.dtype} does not go into out= of {out.dtype}")
    if result.shape != out.shape and np.broadcast_shapes(result.shape, out.shape) == out.shape:
        result = agrad.broadcast_to(result, out.shape)
    return out._rebind(cast(result, out.dtype), f"out= of numpy.{function}")


def masked(x: Tensor, where: Any, fill: Any) -> Tensor:
    """The elements where ``where`` holds, and the number ``fill`` elsewhere."""
    mask = tensor(where, x)
    return agrad.where(cast(mask, bool), x, agrad.full_like(x, fill))


_SIMPLE = (Tensor, *NUMBERS, np.generic, type(None))


def known(value: Any) -> bool:
    """Whether an operand is one that handlers understand."""
    if isinstance(value, _SIMPLE):
        return True
    if isinstance(value, (list, tuple)):
        return all(map(known, value))
    return type(value) is np.ndarray or (not isinstance(value, np.ndarray) and backend_of_type(type(value)) is not None)


def shapes_of(values: Sequence[Any]) -> list[tuple[int, ...]]:
    """The shapes of arrays."""
    return [tuple(value.shape) for value in values]

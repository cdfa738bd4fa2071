"""New arrays. They are born on the selected backend, unless the arguments say otherwise."""

from typing import Any

import numpy as np

from agrad.backends import Backend, backend_of, backend_of_type, load, selected
from agrad.dtypes import as_dtype, is_floating
from agrad.engine.levels import AMBIENT
from agrad.engine.tensor import Tensor, constant, wrap
from agrad.errors import OperandError, ShapeError
from agrad.ops.casting import astype
from agrad.ops.manipulation import broadcast_to, reshape, stack
from agrad.ops.shared import ndim_of, raw_of
from agrad.ops.transfer import to, to_device


def _place(backend: str | None, device: Any) -> tuple[Backend, Any]:
    """The backend and device for a new array: as named, else as selected."""
    if backend is not None:
        found = load(backend)
        return found, None if device is None else found.device(device)
    selection = selected()
    return selection.backend, selection.device if device is None else selection.backend.device(device)


def _native(dtype: Any, backend: Backend) -> Any:
    if dtype is None:
        return None
    return getattr(backend.xp, as_dtype(dtype).name)


def _born(raw: Any, requires_grad: bool) -> Tensor:
    tensor = wrap(raw, AMBIENT)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _new(name: str, args: tuple[Any, ...], dtype: Any, device: Any, backend: str | None, requires_grad: bool) -> Tensor:
    place, native = _place(backend, device)
    keywords = {} if native is None else {"device": native}
    raw = getattr(place.xp, name)(*args, dtype=_native(dtype, place), **keywords)
    return _born(raw, requires_grad)


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Tensor of a number, a nested sequence, an array of a known library, or a Tensor.

    An array stays on its own backend and device unless others are named, and its memory is shared unless ``copy`` is
    True. Numbers and sequences go to the selected backend. A sequence with Tensors in it stays differentiable.
    ``requires_grad`` makes the result a leaf whose gradient ``backward`` computes; its dtype must be floating.
    """
    if isinstance(obj, Tensor) or backend_of_type(type(obj)) is not None:
        out = obj if isinstance(obj, Tensor) else constant(obj, AMBIENT)
        if backend is not None:
            out = to(out, backend)
        if device is not None:
            out = to_device(out, device)
        if dtype is not None and out.dtype != as_dtype(dtype):
            out = astype(out, dtype)
        elif copy and out.raw is raw_of(obj):
            out = astype(out, out.dtype, copy=True)
        if requires_grad and not out.requires_grad:
            return _born(out.raw, True)
        return out
    if isinstance(obj, (list, tuple)) and _holds_tensor(obj):
        out = _stacked(obj)
        return astype(out, dtype) if dtype is not None and out.dtype != as_dtype(dtype) else out
    if isinstance(obj, (list, tuple)):
        obj = _plain(obj)
    elif (
        not isinstance(obj, (bool, int, float, complex))
        and not hasattr(obj, "__array__")
        and not hasattr(obj, "__buffer__")
    ):
        raise OperandError(f"asarray takes numbers, nested sequences of them and arrays, not {type(obj).__name__}")
    return _new("asarray", (obj,), dtype, device, backend, requires_grad)


def _holds_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor) or (isinstance(obj, (list, tuple)) and any(map(_holds_tensor, obj)))


def _stacked(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        parts = [_stacked(part) for part in obj]
        known = next((p for p in parts if isinstance(p, Tensor)), None)
        if known is not None:
            parts = [p if hasattr(p, "shape") else _like(p, known) for p in parts]
        return stack(parts) if known is not None else asarray(parts)
    return obj


def _like(number: Any, tensor: Tensor) -> Any:
    raw = tensor.raw
    backend = backend_of(raw)
    return backend.xp.asarray(number, dtype=raw.dtype, device=backend.device_of(raw))


def _plain(obj: Any) -> Any:
    """A nested sequence with NumPy's scalars turned into numbers, which every library takes."""
    if isinstance(obj, (list, tuple)):
        return [_plain(part) for part in obj]
    if isinstance(obj, np.generic) or (isinstance(obj, np.ndarray) and obj.ndim == 0):
        return obj.item()
    if isinstance(obj, np.ndarray):
        return obj.tolist()
    return obj


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in shape) if isinstance(shape, (tuple, list)) else (int(shape),)


def zeros(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor of zeros of ``shape`` (an int or a tuple)."""
    return _new("zeros", (_shape(shape),), dtype, device, backend, requires_grad)


def ones(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor of ones of ``shape`` (an int or a tuple)."""
    return _new("ones", (_shape(shape),), dtype, device, backend, requires_grad)


def empty(
    shape: Any, *, dtype: Any = None, device: Any = None, backend: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor of ``shape`` (an int or a tuple) whose values are whatever the memory held."""
    return _new("empty", (_shape(shape),), dtype, device, backend, requires_grad)


def full(
    shape: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """A Tensor of ``shape`` (an int or a tuple) filled with a number or a Tensor of one element (differentiable)."""
    shape = _shape(shape)
    if hasattr(fill_value, "shape"):
        value = asarray(fill_value, dtype=dtype, device=device, backend=backend)
        from_one = value if not value.shape else value[(0,) * value.ndim]
        return broadcast_to(from_one, shape)
    return _new("full", (shape, fill_value), dtype, device, backend, requires_grad)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from ``start`` up to, not including, ``stop`` in steps of ``step``; with one argument, from 0."""
    if stop is None:
        start, stop = 0, start
    return _new("arange", (start, stop, step), dtype, device, backend, requires_grad)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, numbers or Tensors of shape () (differentiable)."""
    known = next((v for v in (start, stop) if hasattr(v, "shape")), None)
    if known is None:
        place, native = _place(backend, device)
        keywords = {} if native is None else {"device": native}
        raw = place.xp.linspace(start, stop, num, dtype=_native(dtype, place), endpoint=endpoint, **keywords)
        return _born(raw, requires_grad)
    raw = raw_of(known)
    home = backend_of(raw)
    kind = dtype or (raw.dtype if is_floating(raw.dtype) else None)
    steps = linspace(0, 1, num, dtype=kind, device=home.device_of(raw), endpoint=endpoint, backend=home.name)
    if not isinstance(start, Tensor) and not isinstance(stop, Tensor):
        steps = steps.raw
    return start * (1 - steps) + stop * steps


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    backend: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on its ``k``-th diagonal and zeros elsewhere."""
    place, native = _place(backend, device)
    keywords = {} if native is None else {"device": native}
    raw = place.xp.eye(n_rows, n_cols, k=k, dtype=_native(dtype, place), **keywords)
    return _born(raw, requires_grad)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None, backend: str | None = None) -> Tensor:
    """A Tensor of the selected backend (or of ``backend``) that holds the memory of any array with ``__dlpack__``.

    ``copy``: True for a copy always, False for an error where one would be needed. ``device``: where to put it. A
    Tensor stays differentiable. Raises ``OperandError`` for what has no ``__dlpack__``; what the two libraries cannot
    hand over is their own ``BufferError``.
    """
    if not hasattr(x, "__dlpack__"):
        raise OperandError(f"from_dlpack takes an object with __dlpack__, not {type(x).__name__}; use agrad.asarray")
    place = selected().backend if backend is None else load(backend)
    target = None if device is None else place.device(device)
    known = x if isinstance(x, Tensor) else None if backend_of_type(type(x)) is None else constant(x, AMBIENT)
    if known is not None and backend_of(known.raw) is not place and (copy is not False or known.requires_grad):
        known, copy = to(known, place.name), None
    if known is not None and backend_of(known.raw) is place:
        if copy is False and target not in (None, place.device_of(known.raw)):
            raise BufferError(f"from_dlpack: an array cannot be had on the device {device} without a copy")
        return asarray(known, device=target, copy=copy)
    source = x if known is None else known.raw
    native = getattr(place.xp, "from_dlpack", None)
    if native is not None:
        made = native(source) if copy is None else native(source, copy=copy)
    elif copy is False:
        raise BufferError(f"from_dlpack: backend {place.name!r} takes no array without a copy")
    else:
        made = place.from_host(np.from_dlpack(source), target)
    return asarray(constant(made, AMBIENT), device=target)


def _filled_like(x: Any, name: str, args: tuple[Any, ...], dtype: Any, device: Any) -> Any:
    ndim_of(x, f"{name}_like")
    raw = raw_of(x)
    backend = backend_of(raw)
    keywords = {"device": backend.device(device)} if device is not None else {}
    out = getattr(backend.xp, f"{name}_like")(raw, *args, dtype=_native(dtype, backend), **keywords)
    return constant(out, AMBIENT) if isinstance(x, Tensor) else out


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the shape, dtype, backend and device of ``x``: a Tensor for a Tensor, else a raw array. A constant."""
    return _filled_like(x, "zeros", (), dtype, device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of the shape, dtype, backend and device of ``x``: a Tensor for a Tensor, else a raw array. A constant."""
    return _filled_like(x, "ones", (), dtype, device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array like ``x`` whose values are whatever the memory held."""
    return _filled_like(x, "empty", (), dtype, device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array like ``x`` filled with a number, or with a Tensor of no dimensions (differentiable)."""
    if hasattr(fill_value, "shape"):
        ndim_of(x, "full_like")
        if tuple(fill_value.shape):
            raise ShapeError(f"full_like fills with one value, not with an array of shape {tuple(fill_value.shape)}")
        raw = raw_of(x)
        here = backend_of(raw)
        value = (
            constant(fill_value, AMBIENT)
            if isinstance(x, Tensor) and not isinstance(fill_value, Tensor)
            else fill_value
        )
        value = astype(value, raw.dtype if dtype is None else dtype, copy=False)
        return broadcast_to(to_device(value, here.device_of(raw) if device is None else device), tuple(x.shape))
    return _filled_like(x, "full", (fill_value,), dtype, device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate grids of one-dimensional arrays; ``indexing="xy"`` exchanges the first two axes. Differentiable."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    for x in arrays:
        if ndim_of(x, "meshgrid") != 1:
            raise OperandError(f"meshgrid takes one-dimensional arrays, not one of shape {tuple(x.shape)}")
    n = len(arrays)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    shape = [0] * n
    for x, place in zip(arrays, places, strict=True):
        shape[place] = x.shape[0]
    return tuple(
        broadcast_to(reshape(x, tuple(-1 if i == place else 1 for i in range(n))), tuple(shape))
        for x, place in zip(arrays, places, strict=True)
    )


__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

"""Tensors of numbers, sequences, arrays and DLPack memory."""

from functools import partial
from typing import Any

import numpy as np

from agrad.backends import Backend, backend_of, backend_of_device, backend_of_type, load, selected
from agrad.dtypes import as_dtype, is_floating
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE, captured
from agrad.engine.scalars import TracedNumber, host_array_call
from agrad.engine.tensor import Tensor, raw_of, wrap
from agrad.errors import DtypeError, OperandError
from agrad.ops.casting import astype
from agrad.ops.manipulation import reshape, stack
from agrad.ops.transfer import rebuild, to, to_device
from agrad.registry import public

__all__ = ["asarray", "from_dlpack"]


def place_of(backend: str | None, device: Any) -> tuple[Backend, Any]:
    """Return the given or selected backend and device of a new array."""
    if backend is not None:
        found = load(backend)
        return found, None if device is None else found.device(device)
    selection = selected()
    owner = backend_of_device(device)
    if owner is not None and owner is not selection.backend:  # portable code sets the device with x.device
        return owner, device
    return selection.backend, selection.device if device is None else selection.backend.device(device)


def dtype_on(dtype: Any, backend: Backend) -> Any:
    if dtype is None:
        return None
    found = as_dtype(dtype)
    native = getattr(backend.xp, found.name, None)
    if native is None:
        raise DtypeError(
            f"dtype must be a dtype of the array API standard that {backend.name!r} supports, got {dtype!r}. Write "
            "agrad.float64, for example."
        )
    return native


def read(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with traced numbers read, which binds the trace to them."""
    return tuple([arg.read() if isinstance(arg, TracedNumber) else arg for arg in args])


def new(
    name: str, args: tuple[Any, ...], dtype: Any, device: Any, backend: str | None, requires_grad: bool, **settings: Any
) -> Tensor:
    place, native = place_of(backend, device)
    if native is not None:
        settings["device"] = native
    raw = getattr(place.xp, name)(*read(args), dtype=dtype_on(dtype, place), **settings)
    return rebuild(raw, requires_grad)


_NO_NUMBERS = (np.object_, np.character, np.datetime64, np.timedelta64, np.void)


def _of_numbers(raw: Any) -> Any:
    """Return an array. Raise ``DtypeError`` for objects, text, dates and records."""
    dtype = raw.dtype
    if as_dtype(dtype).kind == "other" and isinstance(dtype, np.dtype) and issubclass(dtype.type, _NO_NUMBERS):
        raise DtypeError(f"asarray: the array must have a numeric or Boolean dtype, got {dtype}. Convert it first.")
    return raw


@public
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
    """Create a Tensor from a number, a nested sequence, an array or a Tensor.

    An array remains on its backend and device unless you pass others. Numbers and sequences go to the selected backend.
    A sequence that contains Tensors is differentiable.

    Parameters
    ----------
    obj : number, nested sequence, array or Tensor
        An array of any known library, or an object with ``__array__`` or a buffer.
    dtype : dtype, optional
        dtype of any library. By default, the dtype of ``obj``.
    device : device, optional
        A device of another backend also selects that backend.
    copy : bool, optional
        If True, the result does not share memory with an array.
    backend : str, optional
        Backend of the result. By default, the backend of the array.
    requires_grad : bool
        If True, the result is a leaf tensor whose gradient ``backward`` computes; its dtype must be floating-point.

    Returns
    -------
    Tensor

    Raises
    ------
    DtypeError
        If the array contains objects, strings, dates or records, or ``requires_grad`` is True and the dtype is not
        floating.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> agrad.sum(x**3).backward()
    >>> x.grad
    Tensor([3.0, 12.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.asarray(np.asarray([1, 2]), dtype=agrad.float32)
    Tensor([1.0, 2.0], dtype=float32, backend=numpy, device=cpu)
    """
    if CAPTURED:
        obj = captured(obj)
    if isinstance(obj, Tensor) or backend_of_type(type(obj)) is not None:
        # a traced Tensor that represents a plain array becomes a Tensor, as the plain array does
        obj = np.asarray(obj) if isinstance(obj, np.generic) else obj  # a scalar has no views
        out = rebuild(_of_numbers(obj), False) if not isinstance(obj, Tensor) or obj.level.id < 0 else obj
        if backend is not None:
            if (
                dtype is not None
                and out.dtype != as_dtype(dtype)
                and hasattr(load(out.backend).xp, as_dtype(dtype).name)
            ):
                out = astype(out, dtype)  # cast first: the target may lack the old dtype
            out = to(out, backend)
        if device is not None:
            owner = backend_of_device(device) if backend is None else None
            out = to_device(out if owner is None else to(out, owner.name), device)
        if dtype is not None and out.dtype != as_dtype(dtype):
            out = astype(out, dtype)
        elif copy and out.raw is raw_of(obj):
            out = astype(out, out.dtype, copy=True)
        if requires_grad and not out.requires_grad:
            bare = out.bare
            if not isinstance(bare, Tensor) or bare.level.id >= 0:
                out._check_concrete("requires_grad=True")
            return rebuild(bare, True)
        return out
    if isinstance(obj, TracedNumber):
        made = host_array_call(
            type(obj.value), (obj,), lambda number: asarray(number, dtype=dtype, device=device, backend=backend)
        )
        return asarray(made, requires_grad=requires_grad)
    if isinstance(obj, (list, tuple)) and (known := _first_array(obj)) is not None:
        return asarray(_stacked(obj, known), dtype=dtype, device=device, backend=backend, requires_grad=requires_grad)
    if isinstance(obj, (list, tuple)):
        dtype = _numpy_dtype(obj) if dtype is None else dtype
        obj = _plain(obj)
    elif (
        not isinstance(obj, (bool, int, float, complex))
        and not hasattr(obj, "__array__")
        and not hasattr(obj, "__buffer__")
    ):
        raise OperandError(
            f"asarray: obj must be a number, a nested sequence of numbers or an array, got {type(obj).__name__}"
        )
    out = new("asarray", (obj,), dtype, device, backend, requires_grad)
    _of_numbers(out.raw)
    return out


def _first_array(obj: Any) -> Any:
    """Return the first Tensor, or array of a library but NumPy, in a nested sequence.

    None if there is none.
    """
    if isinstance(obj, (list, tuple)):
        return next((found for part in obj if (found := _first_array(part)) is not None), None)
    if isinstance(obj, Tensor):
        return obj
    backend = backend_of_type(type(obj))
    return None if backend is None or backend.name == "numpy" else obj


def _stacked(obj: Any, known: Any) -> Any:
    """Stack a nested sequence with Tensors into one array.

    ``known``: the array whose backend and device numbers get.
    """
    if not isinstance(obj, (list, tuple)):
        return host_array_call(_same, (obj,), partial(_like, raw=raw_of(known)))
    shape, parts = _opened(obj)
    joined = stack([part if _is_array(part) else _stacked(part, known) for part in parts])
    return joined if len(shape) == 1 else reshape(joined, (*shape, *joined.shape[1:]))


def _opened(obj: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the axes that all entries of a nested sequence share, and the entries."""
    parts = list(obj)
    shape: tuple[int, ...] = (len(obj),)
    while parts and all(isinstance(part, (list, tuple)) and len(part) == len(parts[0]) for part in parts):
        shape, parts = (*shape, len(parts[0])), [entry for part in parts for entry in part]
    return shape, parts


def _is_array(part: Any) -> bool:
    return isinstance(part, Tensor) or (hasattr(part, "shape") and not isinstance(part, np.generic))


def _same(number: Any) -> Any:
    return number


def _like(number: Any, raw: Any) -> Any:
    """Move a number to an array's backend and device.

    It gets the dtype of the array if that can hold it.
    """
    if not isinstance(number, (bool, int, float, complex, np.number, np.bool_)):
        raise OperandError(
            f"asarray: a sequence with Tensors must contain only numbers and Tensors, got {type(number).__name__}"
        )
    backend = backend_of(raw)
    if isinstance(number, np.generic):
        number = number if backend.name == "numpy" else number.item()
    dtype = as_dtype(raw.dtype)
    if is_floating(dtype):
        native = getattr(backend.xp, np.result_type(np.dtype(dtype.name), number).name)
    else:
        lesser = isinstance(number, (float, complex)) or (dtype.kind == "bool" and not isinstance(number, bool))
        native = None if lesser else raw.dtype
    return backend.xp.asarray(number, dtype=native, device=backend.device_of(raw))


def _numpy_dtype(obj: Any) -> Any:
    """Return the dtype that the NumPy arrays in a nested sequence promote to.

    Numbers among them are weakly typed. None if there are no arrays.
    """
    dtypes: set[Any] = set()
    weak: dict[type, Any] = {}
    parts = [obj]
    while parts:
        part = parts.pop()
        if isinstance(part, (list, tuple)):
            parts += part
        elif isinstance(part, np.ndarray):
            dtypes.add(part.dtype)
        else:
            weak |= {kind: kind(0) for kind in (bool, int, float, complex) if type(part) is kind}
    return np.result_type(*dtypes, *weak.values()) if dtypes else None


def _plain(obj: Any) -> Any:
    """Convert NumPy scalars and arrays in a nested sequence to numbers and lists.

    Every library accepts these.
    """
    if isinstance(obj, (list, tuple)):
        return [_plain(part) for part in obj]
    if isinstance(obj, np.generic) or (isinstance(obj, np.ndarray) and obj.ndim == 0):
        return obj.item()
    if isinstance(obj, np.ndarray):
        return obj.tolist()
    return obj.read() if isinstance(obj, TracedNumber) else obj


@public
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None, backend: str | None = None) -> Tensor:
    """Make a Tensor that holds the memory of an array with ``__dlpack__``.

    A Tensor remains differentiable: ``to`` moves and copies a Tensor that requires a gradient.

    Parameters
    ----------
    x : array
        An object with ``__dlpack__``, or an array of a known library.
    device : device, optional
        Device of the result.
    copy : bool, optional
        If True, always copy. If False, raise an error if a copy is needed. By default, copy only if needed.
    backend : str, optional
        By default, the selected one.

    Returns
    -------
    Tensor

    Raises
    ------
    BufferError
        If the memory cannot be shared.

    Examples
    --------
    >>> array = np.asarray([1.0, 2.0])
    >>> x = agrad.from_dlpack(array)
    >>> array[0] = 5.0
    >>> x
    Tensor([5.0, 2.0], dtype=float64, backend=numpy, device=cpu)
    """
    if not hasattr(x, "__dlpack__") and backend_of_type(type(x)) is None:
        raise OperandError(f"from_dlpack: x must have a method __dlpack__, got {type(x).__name__}. Use agrad.asarray.")
    place = selected().backend if backend is None else load(backend)
    target = None if device is None else place.device(device)
    if isinstance(x, Tensor) or backend_of_type(type(x)) is not None:
        known = x if isinstance(x, Tensor) else wrap(x, GLOBAL_TAPE)
        if backend_of(known.raw) is not place:
            shared = None if copy or known.requires_grad else _shared(known.raw, place, copy)
            if shared is not None:
                return asarray(wrap(shared, GLOBAL_TAPE), device=target)
            known, copy = to(known, place.name), None
        if copy is False and target not in (None, place.device_of(known.raw)):
            raise BufferError(f"from_dlpack: device {device} needs a copy of the array, got copy=False")
        return asarray(known, device=target, copy=copy)
    native = getattr(place.xp, "from_dlpack", None)
    if native is not None:
        made = native(x) if copy is None else native(x, copy=copy)
    elif copy is False:
        raise BufferError(f"from_dlpack: backend {place.name!r} always copies, got copy=False")
    else:
        made = place.from_host(np.from_dlpack(x), target)
    return asarray(wrap(made, GLOBAL_TAPE), device=target)


def _shared(raw: Any, place: Backend, copy: bool | None) -> Any:
    """Return the memory of an array as an array of another backend.

    Return None if that needs a copy, or raise ``BufferError`` if ``copy`` is False.
    """
    native = getattr(place.xp, "from_dlpack", None)
    try:
        if native is None or not hasattr(raw, "__dlpack__"):
            raise BufferError("one of them does not support DLPack")
        return native(raw) if copy is None else native(raw, copy=copy)
    except Exception as error:  # the exception types differ between libraries
        if copy is None:
            return None
        names = f"{backend_of(raw).name!r} as one of {place.name!r}"
        raise BufferError(f"from_dlpack: an array of {names} needs a copy, got copy=False: {error}") from error

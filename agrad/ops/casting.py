"""Dtypes: ``astype``, and functions on the dtypes of any library."""

import functools
from dataclasses import dataclass
from typing import Any

from agrad.backends import backend_of, selected
from agrad.dtypes import DType, as_dtype, is_floating
from agrad.engine.tensor import Tensor, raw_of
from agrad.errors import DtypeError
from agrad.ops.definition import primitive, public_of_array
from agrad.ops.shared import native_dtype
from agrad.ops.transfer import to_device
from agrad.registry import public

__all__ = ["astype", "can_cast", "cast", "finfo", "iinfo", "isdtype", "result_type"]


@primitive(name="astype", linear="x", batch="leading", kind="elementwise", is_view=True)
def astype_p(xp: Any, x: Any, /, *, dtype: Any, copy: bool) -> Any:
    return xp.astype(x, dtype, copy=copy)


@astype_p.vjp
def astype_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    if xp.isdtype(g.dtype, "complex floating") and not xp.isdtype(x_meta.dtype, "complex floating"):
        g = xp.real(g)
    return xp.astype(g, x_meta.dtype)


@public
@primitive(constant="x", batch="leading", kind="elementwise", is_view=True)
def cast(xp: Any, x: Any, /, *, dtype: Any, copy: bool) -> Any:
    """Cast to or from a dtype that has no derivative.

    Parameters
    ----------
    x : array of any shape and dtype
    dtype : dtype
        dtype of the result.
    copy : bool
        If False, return ``x`` itself if it already has the dtype. By default, copy.

    Returns
    -------
    array
        A constant.

    Examples
    --------
    >>> agrad.cast(np.asarray([1.5, -2.5]), dtype=agrad.int64, copy=True)
    array([ 1, -2])
    """
    return xp.astype(x, dtype, copy=copy)


@astype_p.write_back
@cast.write_back
def astype_put(xp: Any, x: Any, value: Any) -> Any:
    return xp.astype(value, x.dtype, copy=False)


@public_of_array
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Cast an array to another dtype.

    Differentiable between floating dtypes; any other result is a constant.

    Parameters
    ----------
    x : array of any shape and dtype
    dtype : dtype
        dtype of any library.
    copy : bool
        If False, return ``x`` itself if it already has the dtype.
    device : device, optional
        Device of the result.

    Returns
    -------
    array of the shape of ``x``

    Raises
    ------
    DtypeError
        If a floating-point Tensor is cast to a dtype that the standard does not define.

    Examples
    --------
    >>> agrad.astype(np.asarray([1.5, -2.5]), agrad.int64)
    array([ 1, -2])
    >>> agrad.grad(lambda x: agrad.sum(agrad.astype(x, agrad.float32)))(np.asarray([1.5, -2.5])).dtype
    dtype('float64')
    """
    if device is not None:
        x = to_device(x, device)
    floats = is_floating(dtype) and is_floating(x.dtype)
    if not floats and isinstance(x, Tensor) and is_floating(x.dtype) and as_dtype(dtype).kind == "other":
        raise DtypeError(
            f"astype: dtype of a floating-point Tensor must be one of the array API standard, got {dtype!r}. Write "
            "agrad.float64, for example, or cast x.detach()."
        )
    native = native_dtype(dtype, x)
    if not copy and isinstance(x, Tensor) and x.raw.dtype == native:
        return x
    return (astype_p if floats else cast)(x, dtype=native, copy=copy)


def _is_array(value: Any) -> bool:
    """Return True for an array, but not for dtypes and scalar classes of NumPy."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def _xp_for(values: tuple[Any, ...]) -> Any:
    for value in values:
        if _is_array(value):
            return backend_of(raw_of(value)).xp
    return selected().backend.xp


def _native(value: Any, xp: Any) -> Any:
    """Return the plain array of a Tensor, and the agrad dtype for any dtype."""
    if isinstance(value, Tensor):
        return value.raw
    if _is_array(value) or isinstance(value, (bool, int, float, complex)):
        return value
    return getattr(xp, as_dtype(value).name)


@public
def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that the arguments promote to.

    Parameters
    ----------
    *arrays_and_dtypes : arrays, dtypes or numbers
        dtypes of any library.

    Returns
    -------
    DType

    Examples
    --------
    >>> agrad.result_type(agrad.float32, agrad.float64), agrad.result_type(np.ones(2, dtype=np.float32), 2.0)
    (agrad.float64, agrad.float32)
    """
    xp = _xp_for(arrays_and_dtypes)
    return as_dtype(xp.result_type(*[_native(value, xp) for value in arrays_and_dtypes]))


@public
def can_cast(from_: Any, to: Any, /) -> bool:
    """Return True if the standard's promotion rules allow a cast.

    Parameters
    ----------
    from_ : array or dtype
        dtype of any library.
    to : dtype
        dtype of any library.

    Returns
    -------
    bool

    Examples
    --------
    >>> agrad.can_cast(agrad.int32, agrad.float64), agrad.can_cast(agrad.float64, agrad.float32)
    (True, False)
    """
    xp = _xp_for((from_,))
    return bool(xp.can_cast(_native(from_, xp), _native(to, xp)))


@public
def isdtype(dtype: Any, kind: Any) -> bool:
    """Return True if a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        dtype of any library.
    kind : str, dtype or tuple of these
        A name of a kind, such as ``"real floating"``, or a dtype.

    Returns
    -------
    bool

    Examples
    --------
    >>> agrad.isdtype(agrad.float32, "real floating"), agrad.isdtype(agrad.int8, ("bool", "real floating"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    found = as_dtype(dtype)
    if not isinstance(kind, str):
        return found == as_dtype(kind)
    kinds = {
        "bool": ("bool",),
        "signed integer": ("signed integer",),
        "unsigned integer": ("unsigned integer",),
        "integral": ("signed integer", "unsigned integer"),
        "real floating": ("real floating",),
        "complex floating": ("complex floating",),
        "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
    }
    if kind not in kinds:
        raise ValueError(f"isdtype: kind must be one of {', '.join(kinds)}, got {kind!r}")
    return found.kind in kinds[kind]


@dataclass(frozen=True, slots=True)
class FInfo:
    """Machine limits of a floating dtype, as Python numbers.

    For a complex dtype, the limits of its real and imaginary parts.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IInfo:
    """Machine limits of an integer dtype, as Python numbers."""

    bits: int
    max: int
    min: int
    dtype: DType


def _limits(name: str, type: Any) -> tuple[Any, DType]:
    dtype = as_dtype(type.dtype if _is_array(type) else type)
    xp = _xp_for((type,) if _is_array(type) else ())
    kinds = ("real floating", "complex floating") if name == "finfo" else ("signed integer", "unsigned integer")
    if dtype.kind not in kinds:
        raise DtypeError(f"{name}: dtype must be {' or '.join(kinds)}, got {dtype}")
    return getattr(xp, name)(getattr(xp, dtype.name)), dtype


@public
def finfo(type: Any, /) -> FInfo:
    """Return the machine limits of a floating dtype.

    Parameters
    ----------
    type : dtype or array
        dtype of any library, or an array with that dtype.

    Returns
    -------
    FInfo
        ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and ``dtype``.

    Examples
    --------
    >>> agrad.finfo(agrad.float32).bits, float(agrad.finfo(agrad.float64).eps)
    (32, 2.220446049250313e-16)
    """
    return _finfo(type) if isinstance(type, DType) else _finfo.__wrapped__(type)


@functools.lru_cache(maxsize=32)
def _finfo(type: Any) -> FInfo:
    found, dtype = _limits("finfo", type)
    limits = (float(getattr(found, name)) for name in ("eps", "max", "min", "smallest_normal"))
    return FInfo(int(found.bits), *limits, as_dtype(_PARTS.get(dtype.name, dtype.name)))


_PARTS = {"complex64": "float32", "complex128": "float64"}


@public
def iinfo(type: Any, /) -> IInfo:
    """Return the machine limits of an integer dtype.

    Parameters
    ----------
    type : dtype or array
        dtype of any library, or an array with that dtype.

    Returns
    -------
    IInfo
        ``bits``, ``max``, ``min`` and ``dtype``.

    Examples
    --------
    >>> agrad.iinfo(agrad.int8).min, agrad.iinfo(agrad.int8).max
    (-128, 127)
    """
    found, dtype = _limits("iinfo", type)
    return IInfo(int(found.bits), int(found.max), int(found.min), dtype)

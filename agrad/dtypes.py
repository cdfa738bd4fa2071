"""Dtypes by name, equal to the dtypes of the same name in all array libraries."""

from typing import Any

import numpy as np


class DType:
    """Dtype of the array API standard, equal to the same dtype of any library.

    Parameters
    ----------
    name : str
        Name, such as ``"float32"``.
    kind : str
        Kind, such as ``"real floating"`` or ``"signed integer"``.
    itemsize : int
        Number of bytes of an element.

    Examples
    --------
    >>> agrad.float32
    agrad.float32
    >>> agrad.float32 == np.float32, agrad.float32.kind, agrad.float32.itemsize
    (True, 'real floating', 4)
    >>> agrad.zeros(2, dtype=agrad.float32).dtype
    agrad.float32
    >>> isinstance(agrad.float32, agrad.DType)
    True
    """

    __slots__ = ("__weakref__", "itemsize", "kind", "name")

    def __init__(self, name: str, kind: str, itemsize: int) -> None:
        self.name: str = name
        self.kind: str = kind
        self.itemsize: int = itemsize

    def __repr__(self) -> str:
        return f"agrad.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        try:
            return other is not None and dtype_name(other) == self.name
        except TypeError:  # an object without a hash is not a dtype of any library
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))

    @property
    def char(self) -> str:
        """The NumPy type code."""
        return self.dtype.char

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype, which NumPy requests in ``zeros(3, dtype=t.dtype)``."""
        return np.dtype(self.name)


def _standard(kind: str, *names: str) -> dict[str, DType]:
    return {name: DType(name, kind, np.dtype(name).itemsize) for name in names}


DTYPES: dict[str, DType] = {
    **_standard("bool", "bool"),
    **_standard("signed integer", "int8", "int16", "int32", "int64"),
    **_standard("unsigned integer", "uint8", "uint16", "uint32", "uint64"),
    **_standard("real floating", "float32", "float64"),
    **_standard("complex floating", "complex64", "complex128"),
}
"""The dtypes of the standard, by name."""

_EXTENDED = {"float16": ("real floating", 2), "bfloat16": ("real floating", 2)}
_names: dict[type, dict[Any, str]] = {}
_found: dict[type, dict[Any, DType]] = {}
_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of any library, such as ``"float32"``."""
    kind = type(dtype)
    if kind is DType:
        return dtype.name
    # by type first: array-api-strict's dtypes have the hashes of NumPy's, and warn when compared with them
    known = _names.setdefault(kind, {})
    try:
        return known[dtype]
    except KeyError:
        pass
    if isinstance(dtype, type):
        name = _PYTHON.get(dtype) or getattr(dtype, "__name__", str(dtype)).rstrip("_")
    else:
        name = str(dtype).rpartition(".")[2]
    known[dtype] = name
    return name


def as_dtype(dtype: Any) -> DType:
    """Return the agrad dtype for a dtype of any library, or for a name."""
    kind = type(dtype)
    found: DType
    if kind is DType:
        found = dtype
        return found
    try:
        return _found[kind][dtype]
    except KeyError:
        found = _found.setdefault(kind, {})[dtype] = _as_dtype(dtype)
        return found


def _as_dtype(dtype: Any) -> DType:
    name = dtype if isinstance(dtype, str) else dtype_name(dtype)
    found = DTYPES.get(name)
    if found is None:
        kind, itemsize = _EXTENDED.get(name, ("other", getattr(dtype, "itemsize", 0)))
        found = DTYPES[name] = DType(name, kind, itemsize)
    return found


def is_floating(dtype: Any) -> bool:
    """Return True for the floating dtypes, real and complex, which have derivatives."""
    return as_dtype(dtype).kind in ("real floating", "complex floating")


def is_complex(dtype: Any) -> bool:
    """Return True for the complex floating dtypes."""
    return as_dtype(dtype).kind == "complex floating"

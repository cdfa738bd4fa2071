"""Tensors and their description in one `.safetensors` file.

A file holds NumPy arrays by name and one JSON object, in the header's `__metadata__` under the key "agrad". It is
written as a whole or not at all. Any program that reads safetensors can read the arrays, and no file is unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from operator import index
from typing import Any

import numpy as np

from agrad.data.classification import encodes
from agrad.data.files import StrPath, check_writable, read_file, write_whole
from agrad.errors import ConfigurationError, DataError, DtypeError, MissingExtraError, listed

try:
    import safetensors
    import safetensors.numpy as safetensors_numpy
except ImportError:
    safetensors = None  # type: ignore[assignment]

__all__ = ["check_tensors", "check_writable", "load", "save"]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64"),
)
HEADER_LIMIT = 100_000_000
"""The largest header in bytes, a limit of the format."""
DEPTH = 100
"""The deepest nesting of metadata. Programs that walk deeper ones run out of stack."""
KEY = "agrad"
"""The key of agrad's metadata in the header."""


def save(path: StrPath, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write NumPy arrays by name and metadata to a file.

    The previous file stays until the new one is complete and on the disk. A killed process leaves at most a
    `.agrad-*.tmp` beside it. Numbers are saved bit for bit.

    Parameters
    ----------
    path : str or path
        The file.
    tensors : mapping of str to numpy.ndarray
        The arrays by name.
    metadata : mapping
        A JSON object. A tuple in it is loaded as a list.

    Raises
    ------
    MissingExtraError
        If the safetensors package is not installed.
    DtypeError
        If the format has no name for a dtype (complex128, text, objects).
    ConfigurationError
        If JSON cannot hold a name or the metadata unchanged.
    SaveError
        If `path` cannot be written.
    """
    _require(path)
    # one key only, because safetensors writes several in an order that changes from run to run
    header = {KEY: _json(metadata)}
    content = safetensors_numpy.save({name: _plain(name, value) for name, value in tensors.items()}, header)
    if int.from_bytes(content[:8], "little") > HEADER_LIMIT:
        raise ConfigurationError(
            f"metadata: expected names, shapes and metadata of at most {HEADER_LIMIT} bytes in all, found "
            "more; keep large state as tensors"
        )
    write_whole(path, content)


def load(
    path: StrPath,
    expected: Mapping[str, tuple[tuple[int, ...], str | None]] | None = None,
    foreign: bool = False,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays, by name, and the metadata that `save` wrote to a file.

    Parameters
    ----------
    path : str or path
        The file.
    expected : mapping or None
        Shape and dtype name of each array; the arrays are then checked as by `check_tensors`.
    foreign : bool
        True to accept files of other programs, which have no metadata of agrad.

    Returns
    -------
    tuple of dict
        The arrays, writable and with memory of their own, and the metadata.

    Raises
    ------
    MissingExtraError
        If the safetensors package is not installed.
    DataError
        If the file is missing, truncated, of another format or by another program, or does not hold the expected
        arrays.
    """
    _require(path)
    content = read_file(path)
    file = repr(os.fspath(path))
    header, size = _header(content, file)
    _check_size(header, size, file)
    try:
        views = safetensors_numpy.load(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"{file}: expected a safetensors file, found a damaged one: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: expected arrays of the dtypes {', '.join(DTYPES)}, found another: {error}") from error
    texts = header.get("__metadata__")
    known = not foreign or (isinstance(texts, dict) and KEY in texts)
    metadata = _metadata(header, file) if known else {}
    tensors = {name: np.array(views[name]) for name in sorted(views)}
    if expected is not None:
        check_tensors(path, tensors, expected)
    return tensors, metadata


def check_tensors(
    path: StrPath,
    tensors: Mapping[str, np.ndarray],
    expected: Mapping[str, tuple[tuple[int, ...], str | None]],
) -> None:
    """Raise `DataError` unless the tensors of a file are the expected ones.

    The message lists the first arrays that are missing, not expected, or of another shape or dtype.

    Parameters
    ----------
    path : str or path
        The file, for the message.
    tensors : mapping of str to numpy.ndarray
        The arrays by name.
    expected : mapping
        For each name the shape and the dtype's name, None for any dtype.

    Raises
    ------
    DataError
        If they differ.
    """
    problems = []
    for name, (shape, dtype) in expected.items():
        if name not in tensors:
            problems.append(f"{name}: expected {dtype or 'an array'} of shape {tuple(shape)}, found none")
            continue
        found = tensors[name]
        if found.shape != tuple(shape):
            problems.append(f"{name}: expected shape {tuple(shape)}, found {found.shape}")
        if dtype is not None and found.dtype.name != dtype:
            problems.append(f"{name}: expected dtype {dtype}, found {found.dtype.name}")
    problems.extend(f"{name}: not expected" for name in tensors if name not in expected)
    if problems:
        few = listed(problems, 8, "\n  ", 150)
        raise DataError(f"{os.fspath(path)!r} does not hold the arrays that were expected:\n  {few}")


def _require(path: StrPath) -> None:
    """Raise `MissingExtraError` if the safetensors package is not installed."""
    if safetensors is None:
        raise MissingExtraError(
            f"{os.fspath(path)!r}: models are kept in safetensors files, and the package safetensors is not "
            "installed; install it with: pip install 'agrad[train]'"
        )


def _plain(name: object, value: np.ndarray) -> np.ndarray:
    """Return `value` in C order and native bytes; safetensors stores others wrongly."""
    if not isinstance(name, str) or not name or name == "__metadata__" or not encodes(name):
        raise ConfigurationError(f"expected names of tensors as non-empty text, found {name!r}")
    array = np.asarray(value)
    if array.dtype.name not in DTYPES:
        raise DtypeError(
            f"tensor {name!r}: expected one of the dtypes {', '.join(DTYPES)}, found {array.dtype}; "
            "cast it before saving"
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as JSON text, checked to be loaded unchanged."""
    plain = dict(metadata)
    if _too_deep(plain):
        raise ConfigurationError(f"metadata: expected at most {DEPTH} levels, found deeper ones")
    _check_json(plain, "metadata")
    return json.dumps(plain)


def _too_deep(value: Any) -> bool:
    """Return True for a value that nests deeper than `DEPTH`."""
    level = [value]
    for _ in range(DEPTH):
        held = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in held for item in items if isinstance(item, dict | list | tuple)]
        if not level:
            return False
    return True


def _check_json(value: object, where: str) -> None:
    # json.dumps would turn the key 1 into "1" without an error, and possibly two keys into one
    """Raise `ConfigurationError` for a value that JSON would change or refuse."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigurationError(f"{where}: expected text as keys, found {key!r}")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _check_json(item, f"{where}[{number}]")
    elif value is not None and not isinstance(value, str | int | float):
        raise ConfigurationError(
            f"{where}: expected text, a Python number, a boolean, None, a list or a dict, found {type(value).__name__}"
        )


def _header(content: bytes, name: str) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file, and the number of bytes behind it."""
    if len(content) < 8:
        raise DataError(f"{name}: expected a safetensors file, of 8 bytes or more; found {len(content)} bytes")
    length = int.from_bytes(content[:8], "little")
    if length > HEADER_LIMIT:
        raise DataError(
            f"{name}: expected a safetensors file, which starts with the length of its header, at most "
            f"{HEADER_LIMIT}; found {length}"
        )
    if length > len(content) - 8:
        raise DataError(f"{name}: expected a header of {length} bytes, found {len(content) - 8}; the file is truncated")
    try:
        header = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: expected a safetensors file, found a header that is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise DataError(f"{name}: expected a safetensors file, found a header that is no JSON object")
    return header, len(content) - 8 - length


def _metadata(header: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the JSON object of agrad in the header of a file."""
    texts = header.get("__metadata__")
    text = texts.get(KEY) if isinstance(texts, dict) else None
    if not isinstance(text, str):
        raise DataError(
            f"{name}: expected a safetensors file that agrad wrote, with its description under {KEY!r} in "
            "the header; found none"
        )
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: expected a JSON object under {KEY!r} in the header, found: {error}") from error
    if not isinstance(metadata, dict):
        raise DataError(f"{name}: expected a JSON object under {KEY!r} in the header, found {text[:40]!r}")
    if _too_deep(metadata):
        raise DataError(f"{name}: expected metadata of at most {DEPTH} levels in the header, found deeper ones")
    return metadata


def _check_size(header: dict[str, Any], found: int, name: str) -> None:
    # the package finds this too, but its message has neither number
    """Raise `DataError` unless as many bytes follow the header as it describes."""
    try:
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        expected = index(max(ends, default=0))
    except (LookupError, TypeError):
        return  # a damaged header, which the package describes
    if found != expected:
        raise DataError(
            f"{name}: expected {expected} bytes of arrays after the header, found {found}; the file is "
            f"{'truncated' if found < expected else 'longer than its header says'}"
        )

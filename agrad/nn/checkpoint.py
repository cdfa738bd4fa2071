"""Safetensors files with arrays and metadata.

A file contains NumPy arrays by name and one JSON object under the key "agrad" in `__metadata__` of the header. A file
is written completely or not at all. Any safetensors reader can read the arrays, and no file is unpickled.
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
from agrad.nn.state import mismatches

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
"""Largest header in bytes, a limit of the format."""
DEPTH = 100
"""Maximum nesting depth of metadata. Code that walks deeper metadata runs out of stack."""
KEY = "agrad"
"""The key of agrad's metadata in the header."""


def save(path: StrPath, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write NumPy arrays by name and metadata to a file.

    JSON must represent the metadata unchanged, except for tuples, which are loaded as lists. The previous file remains
    until the new one is complete and on disk. A killed process leaves at most a `.agrad-*.tmp` file in the same folder.
    Numbers are saved bit for bit.
    """
    check_installed(repr(os.fspath(path)))
    # one key only, because safetensors writes several in an order that changes from run to run
    header = {KEY: _json(metadata)}
    content = safetensors_numpy.save({name: _plain(name, value) for name, value in tensors.items()}, header)
    if int.from_bytes(content[:8], "little") > HEADER_LIMIT:
        raise ConfigurationError(
            f"metadata: the header must have at most {HEADER_LIMIT} bytes. Save large state as tensors."
        )
    write_whole(path, content)


def load(
    path: StrPath,
    expected: Mapping[str, tuple[tuple[int, ...], str | None]] | None = None,
    foreign: bool = False,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays, by name, and the metadata that `save` wrote to a file.

    Shapes and dtypes are checked as in `check_tensors` if `expected` is given. With `foreign`, files that agrad did not
    write, and that lack its metadata, are accepted. The arrays are writable and do not share memory.
    """
    check_installed(repr(os.fspath(path)))
    content = read_file(path)
    file = repr(os.fspath(path))
    header, size = _header(content, file)
    _check_size(header, size, file)
    try:
        views = safetensors_numpy.load(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"{file}: the safetensors file is damaged: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: arrays must have one of the dtypes {', '.join(DTYPES)}: {error}") from error
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
    """Raise `DataError` with the first `mismatches` of the tensors of a file."""
    if problems := mismatches(tensors, expected):
        few = listed(problems, 8, "\n  ", 150)
        raise DataError(f"{os.fspath(path)!r} does not contain the expected arrays:\n  {few}")


def check_installed(what: str) -> None:
    """Raise `MissingExtraError` if the safetensors package is not installed."""
    if safetensors is None:
        raise MissingExtraError(
            f"{what}: saving and loading models requires the package safetensors. Install it with: pip "
            "install 'agrad[train]'"
        )


def _plain(name: object, value: np.ndarray) -> np.ndarray:
    """Return `value` in C order and native byte order, as safetensors requires."""
    if not isinstance(name, str) or not name or name == "__metadata__" or not encodes(name):
        raise ConfigurationError(f"tensor names must be non-empty strings, got {name!r}")
    array = np.asarray(value)
    if array.dtype.name not in DTYPES:
        raise DtypeError(
            f"tensor {name!r}: dtype must be one of {', '.join(DTYPES)}, got {array.dtype}. Cast it before saving."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as JSON text, checked to be loaded unchanged."""
    plain = dict(metadata)
    if _too_deep(plain):
        raise ConfigurationError(f"metadata: nesting depth must be at most {DEPTH}")
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
    """Raise `ConfigurationError` for a value that JSON changes or does not support."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigurationError(f"{where}: keys must be strings, got {key!r}")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _check_json(item, f"{where}[{number}]")
    elif value is not None and not isinstance(value, str | int | float):
        raise ConfigurationError(
            f"{where}: the value must be a string, number, Boolean, None, list or dict, got {type(value).__name__}"
        )


def _header(content: bytes, name: str) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file and the number of bytes after it."""
    if len(content) < 8:
        raise DataError(f"{name} is not a safetensors file: it must have at least 8 bytes, got {len(content)}")
    length = int.from_bytes(content[:8], "little")
    if length > HEADER_LIMIT:
        raise DataError(
            f"{name} is not a safetensors file: the header must have at most {HEADER_LIMIT} bytes, got {length}"
        )
    if length > len(content) - 8:
        raise DataError(f"{name} is truncated: the header must have {length} bytes, got {len(content) - 8}")
    try:
        header = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not a safetensors file: the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise DataError(f"{name} is not a safetensors file: the header is not a JSON object")
    return header, len(content) - 8 - length


def _metadata(header: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the JSON object of agrad in the header of a file."""
    texts = header.get("__metadata__")
    text = texts.get(KEY) if isinstance(texts, dict) else None
    if not isinstance(text, str):
        raise DataError(f"{name} was not saved by agrad: the header must contain the key {KEY!r}")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: {KEY!r} in the header must be a JSON object: {error}") from error
    if not isinstance(metadata, dict):
        raise DataError(f"{name}: {KEY!r} in the header must be a JSON object, got {text[:40]!r}")
    if _too_deep(metadata):
        raise DataError(f"{name}: the nesting depth of the metadata in the header must be at most {DEPTH}")
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
            f"{name} is {'truncated' if found < expected else 'longer than its header says'}: the arrays after the "
            f"header must have {expected} bytes, got {found}"
        )

"""Reader of NumPy archives."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from agrad.data.files import StrPath, open_file
from agrad.errors import DataError, listed

RATIO = 1032
"""The largest number of bytes that deflate packs into one byte."""


def read_npz(
    path: StrPath, *, required: Sequence[str] = (), optional: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays of a `.npz` file, all of them or none.

    Parameters
    ----------
    path : str or path
        The file.
    required : sequence of str
        Arrays that the file must contain.
    optional : sequence of str or None
        Other arrays to read. None means all.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays by name.

    Raises
    ------
    DataError
        If the file is missing, not an archive, damaged, lacks an array, or holds Python objects (which are never
        unpickled).

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "arrays.npz")
    ...     np.savez(path, X=np.ones((2, 3)), y=np.array([0, 1]))
    ...     arrays = agrad.data.read_npz(path, required=["X", "y"])
    >>> arrays["X"].shape, arrays["y"]
    ((2, 3), array([0, 1]))
    """
    name = repr(os.fspath(path))
    with open_file(path) as file:
        return _npz(file, name, required, optional)


def _npz(file: IO[bytes], name: str, required: Sequence[str], optional: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Return the arrays of an open archive."""
    try:
        start = file.read(4)
        if start[:2] != b"PK":
            raise DataError(
                f"{name}: expected an archive of numpy.savez, which starts with the bytes 50 4b; "
                f"found {start.hex(' ') or 'an empty file'}"
            )
        file.seek(0)
        # NumPy warns of headers written by Python 2, but reads them
        with (
            warnings.catch_warnings(action="ignore"),
            np.load(file, allow_pickle=False) as archive,
        ):
            members = {key.removesuffix(".npy"): key for key in archive.zip.namelist()}
            missing = [key for key in required if key not in members]
            if missing:
                raise DataError(
                    f"{name}: expected the arrays {', '.join(required)}; missing {', '.join(missing)}, "
                    f"found {listed(sorted(members)) or 'none'}"
                )
            wanted = members if optional is None else [k for k in (*required, *optional) if k in members]
            return {key: _member(archive.zip, members[key], f"{name}, array {listed([repr(key)])}") for key in wanted}
    except DataError:
        raise
    except Exception as error:
        # for damage zipfile, zlib and NumPy's header parser raise a dozen types, none of them documented
        reason = listed([str(error) or type(error).__name__], width=120)
        raise DataError(f"{name}: expected an archive of numpy.savez, found a damaged one: {reason}") from error


def _member(archive: Any, member: str, name: str) -> np.ndarray:
    # checked before it is read, because a damaged header could make NumPy reserve a terabyte
    """Return one array of an archive, checked to have the size that its header says."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise DataError(f"{name}: expected version 1.0 or 2.0 of the npy format, found {version}")
        shape, _, dtype = reader[version](stream)
        start = stream.tell()
    if dtype.hasobject:
        raise DataError(f"{name}: expected numbers or text, found Python objects; save it with a plain dtype")
    expected = int(np.prod(np.array(shape, dtype=object))) * dtype.itemsize
    kind = f"shape {listed([str(shape)])} and dtype {listed([str(dtype)])}"
    info = archive.getinfo(member)
    found = info.file_size - start
    if expected != found:
        raise DataError(f"{name}: expected {listed([str(expected)])} bytes for {kind}, found {found}")
    if math.prod(shape) and not dtype.itemsize:
        raise DataError(f"{name}: expected numbers or text, found elements of no size, of {kind}")
    packing = zipfile.compressor_names.get(info.compress_type, str(info.compress_type))
    if packing not in ("store", "deflate") and info.file_size > RATIO * (info.compress_size + 1):
        raise DataError(
            f"{name}: expected an array packed by deflate, as numpy.savez_compressed does, found {packing}, of which "
            f"agrad unpacks at most {RATIO} times the size. Save the file again with numpy.savez_compressed."
        )
    if info.file_size > RATIO * (info.compress_size + 1):
        raise DataError(
            f"{name}: expected {found} bytes for {kind}, found {info.compress_size} "
            "compressed ones, which cannot hold so many"
        )
    with archive.open(member) as stream:
        value = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared at the end of the stream
    return value

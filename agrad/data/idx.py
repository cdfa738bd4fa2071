"""The IDX format of MNIST's files: a magic number, lengths, big-endian elements."""

from __future__ import annotations

import math
import os
import struct

import numpy as np

from agrad.data.files import StrPath, read_file, unpack
from agrad.errors import DataError

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: StrPath) -> np.ndarray:
    """Read one IDX file, gzipped or not, as its content shows.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    numpy.ndarray
        A writable array of the file's shape and dtype (uint8, int8, int16, int32, float32 or float64) in the machine's
        byte order.

    Raises
    ------
    DataError
        If the file is missing, damaged, of another format, or shorter or longer than its header says.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bytes.idx")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6]))
    ...     array = agrad.data.read_idx(path)
    >>> array
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)
    """
    content = read_file(path)
    # the header says how much to unpack; one byte more shows that there is too much
    start, shape, dtype = _header(unpack(content, path, 4 + 4 * 255), path)
    return parse_idx(unpack(content, path, start + math.prod(shape) * dtype.itemsize + 1), path)


def parse_idx(content: bytes, path: StrPath) -> np.ndarray:
    """Return the array in the unpacked bytes of an IDX file; errors name `path`."""
    name = repr(os.fspath(path))
    start, shape, dtype = _header(content, path)
    expected = math.prod(shape) * dtype.itemsize
    found = len(content) - start
    if found != expected:
        raise DataError(
            f"{name}: expected {expected} bytes of data for shape {shape} and dtype {dtype.name}, found "
            f"{found}; the file is {'truncated' if found < expected else 'longer than its header says'}"
        )
    try:
        return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
    except ValueError as error:
        # more dimensions than NumPy has, or a size of zero beside sizes that overflow
        raise DataError(f"{name}: no array can have the shape {shape} of the header: {error}") from error


def _header(content: bytes, path: StrPath) -> tuple[int, tuple[int, ...], np.dtype]:
    """Return the start, shape and dtype of the elements of an IDX file."""
    name = repr(os.fspath(path))
    if len(content) < 4:
        raise DataError(f"{name}: expected an IDX file, whose header has 4 bytes or more, found {len(content)}")
    code, rank = content[2], content[3]
    if content[:2] != b"\0\0" or code not in DTYPES:
        codes = ", ".join(f"{known:02x}" for known in DTYPES)
        raise DataError(
            f"{name}: expected an IDX file, which starts with the bytes 00 00, a dtype code ({codes}) and the number "
            f"of dimensions, found {content[:4].hex(' ')}"
        )
    start = 4 + 4 * rank
    if rank == 0:
        raise DataError(f"{name}: expected an IDX file of one dimension or more, found none in the header")
    if len(content) < start:
        raise DataError(f"{name}: expected {start} bytes of header for {rank} dimensions, found {len(content)}")
    shape = struct.unpack(f">{rank}I", content[4:start])
    dtype = np.dtype(DTYPES[code])
    return start, shape, dtype

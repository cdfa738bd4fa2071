"""The IDX format of MNIST's files: a magic number, lengths, big-endian elements."""

from __future__ import annotations

import math
import os
import struct

import numpy as np

from agrad.data.files import StrPath, read_up_to, unpacked
from agrad.errors import DataError

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: StrPath) -> np.ndarray:
    """Read one IDX file, packed by gzip, bzip2, xz or zip, or not packed.

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
    name = repr(os.fspath(path))
    with unpacked(path) as file:
        head = file.read(4)
        if len(head) < 4:
            raise DataError(f"{name}: expected an IDX file, whose header has 4 bytes or more, found {len(head)}")
        *zeros, code, rank = head
        if any(zeros) or code not in DTYPES:
            codes = ", ".join(f"{known:02x}" for known in DTYPES)
            raise DataError(
                f"{name}: expected an IDX file, which starts with the bytes 00 00, a dtype code ({codes}) and the "
                f"number of dimensions, found {head.hex(' ')}"
            )
        if rank == 0:
            raise DataError(f"{name}: expected an IDX file of one dimension or more, found none in the header")
        sizes, dtype = file.read(4 * rank), np.dtype(DTYPES[code])
        if len(sizes) < 4 * rank:
            raise DataError(
                f"{name}: expected {4 + 4 * rank} bytes of header for {rank} dimensions, found {4 + len(sizes)}"
            )
        shape = struct.unpack(f">{rank}I", sizes)
        expected = math.prod(shape) * dtype.itemsize
        # one byte more shows that there is too much
        content = read_up_to(file, expected + 1)
    if len(content) != expected:
        raise DataError(
            f"{name}: expected {expected} bytes of data for shape {shape} and dtype {dtype.name}, found "
            f"{len(content)}; the file is {'truncated' if len(content) < expected else 'longer than its header says'}"
        )
    try:
        return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    except ValueError as error:
        # more dimensions than NumPy has, or a size of zero beside sizes that overflow
        raise DataError(f"{name}: no array can have the shape {shape} of the header: {error}") from error

"""Launches of kernels on CuPy, which compile on first use."""

import struct
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from agrad.kernels.cupy.source import CHUNK, ELEMENTWISE, THREADS, joint_update, masked

Raw = Any

C_TYPES = {"f": "float", "d": "double"}
"""The C types of the elements of arrays, by the characters of their dtypes."""

MOST_BLOCKS = 1 << 16
"""The most blocks of a launch over elements."""


def are_of_one_dtype(first: Raw, *others: Raw) -> bool:
    """Return True for arrays of float32 or float64, none of them empty."""
    dtype = first.dtype
    return dtype.char in C_TYPES and all(a.dtype == dtype and a.size > 0 for a in (first, *others))


@cache
def compiled(text: str, name: str) -> Any:
    """Return a kernel of a CUDA source, which a device compiles once."""
    import cupy

    return cupy.RawKernel(text, name, options=("-std=c++17",))


def launch_over(size: int, kernel: Any, *arguments: Any) -> None:
    """Launch a kernel whose threads share ``size`` elements, its last argument."""
    kernel((min(-(-size // THREADS), MOST_BLOCKS),), (THREADS,), (*arguments, np.int64(size)))


@cache
def elementwise_kernel(name: str, by_value: bool | None = None) -> Any:
    """Return the kernel of an entry of ``ELEMENTWISE``, or its ``masked`` rule."""
    import cupy

    source = ELEMENTWISE[name] if by_value is None else masked(name, by_value)
    return cupy.ElementwiseKernel(*source, f"agrad_{name}{'' if by_value is None else '_masked'}")


def on_each(name: str, x: Raw, *others: Any) -> Any:
    """Launch a kernel over all elements, on the device of the arrays."""
    with x.device:
        return elementwise_kernel(name)(x, *others)


def on_used(name: str, used: Any, g: Any, *others: Any) -> Any:
    """Launch a rule that returns 0 instead of infinity or NaN for unused elements.

    used: Booleans, or None if elements with the cotangent 0 are unused.
    """
    with g.device:
        return elementwise_kernel(name, used is None)(*(() if used is None else (used,)), g, *others)


Part = tuple[Sequence[Any], int, int]
"""The arrays, addresses and numbers of a part, its size, and the number of its blocks."""


def launch_parts(kernel: Any, most: int, parts: Sequence[Part], shared: Sequence[float] = ()) -> None:
    """Launch the kernel that ``joint_kernel`` wrote for ``most`` parts over some."""
    words: list[int] = []
    first = 0
    for values, size, blocks in parts:
        for value in values:
            if isinstance(value, float):
                words += struct.unpack("q", struct.pack("d", value))
            else:
                words.append(value if isinstance(value, int) else value.data.ptr)
        words += size, first
        first += blocks
    table = np.zeros(most * len(words) // len(parts), np.int64)
    table[: len(words)] = words
    kernel((first,), (THREADS,), (table.view(f"V{table.nbytes}"), np.int32(len(parts)), *shared))


class Joint(threading.local):
    """A context whose updates are launched together, at its end.

    Nothing may read their results earlier. An exception ends it too.
    """

    waiting: dict[Any, list[Part]] | None = None

    def __enter__(self) -> None:
        self.waiting = {}

    def __exit__(self, *exception: object) -> None:
        waiting, self.waiting = self.waiting or {}, None
        for (_, kernel, most, values), parts in waiting.items():
            with parts[0][0][0].device:
                for start in range(0, len(parts), most):
                    launch_parts(kernel, most, parts[start : start + most], tuple(map(float, values)))


JOINT = Joint()


def updated(name: str, arrays: Sequence[Raw], values: tuple[float, ...], over: Sequence[Raw]) -> tuple[Raw, ...]:
    """Compute a parameter and its state from the old ones, the gradient and numbers.

    The arrays are the parameter, the gradient and the state, all of the same shape. The results are written into
    ``over``, or are new arrays. If all arrays are contiguous on one device, the context ``JOINT`` delays the launch to
    its end.
    """
    p, waiting = arrays[0], JOINT.waiting
    device = p.data.device_id
    if not over:
        import cupy

        with p.device:
            over = [cupy.empty(p.shape, p.dtype) for _ in arrays[1:]]
    if waiting is None or [a for a in arrays if not a.flags.c_contiguous or a.data.device_id != device]:
        on_each(name, *arrays, *values, *over)
    else:
        text, most = joint_update(name, C_TYPES[p.dtype.char], len(arrays))
        key = device, compiled(text, f"agrad_{name}_parts"), most, values
        waiting.setdefault(key, []).append(((*arrays, *over), p.size, -(-p.size // CHUNK)))
    return tuple(over)

"""Launches of elementwise kernels of CuPy, which compile on first use."""

import struct
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from agrad.kernels.cupy.source import CHUNK, ELEMENTWISE, THREADS, joint_update, masked

Raw = Any


@cache
def elementwise_kernel(name: str) -> Any:
    """Return the CuPy kernel for an entry of ``ELEMENTWISE``."""
    import cupy

    source = ELEMENTWISE[name]
    return cupy.ElementwiseKernel(source.inputs, source.outputs, source.body, f"agrad_{name}")


def on_each(name: str, x: Raw, *others: Any) -> Any:
    """Launch a kernel over all elements, on the device of the arrays."""
    with x.device:
        return elementwise_kernel(name)(x, *others)


@cache
def _masked_kernel(name: str, by_value: bool) -> Any:
    import cupy

    inputs, outputs, body = masked(name, by_value)
    return cupy.ElementwiseKernel(inputs, outputs, body, f"agrad_{name}_masked")


def on_used(name: str, used: Any, g: Any, *others: Any) -> Any:
    """Launch a rule that returns 0 instead of infinity or NaN for unused elements.

    used: Booleans, or None if elements with the cotangent 0 are unused.
    """
    with g.device:
        return _masked_kernel(name, used is None)(*(() if used is None else (used,)), g, *others)


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


@cache
def _joint_kernel(name: str, char: str, device: int, arrays: int) -> tuple[Any, int]:
    """Return the kernel over parts, compiled for a device, and the maximum number of parts."""
    import cupy

    text, most = joint_update(name, {"f": "float", "d": "double"}[char], arrays)
    kernel = cupy.RawKernel(text, f"agrad_{name}_parts")
    with cupy.cuda.Device(device):
        kernel.compile()
    return kernel, most


class Joint(threading.local):
    """A context whose updates are launched together, at its end.

    Nothing may read their results earlier. An exception ends it too.
    """

    waiting: dict[Any, list[Part]] | None = None

    def __enter__(self) -> None:
        self.waiting = {}

    def __exit__(self, *exception: object) -> None:
        waiting, self.waiting = self.waiting or {}, None
        for (kernel, most, values), parts in waiting.items():
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
        key = (*_joint_kernel(name, p.dtype.char, device, len(arrays)), values)
        waiting.setdefault(key, []).append(((*arrays, *over), p.size, -(-p.size // CHUNK)))
    return tuple(over)

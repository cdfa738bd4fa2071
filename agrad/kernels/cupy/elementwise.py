"""Launches of CuPy's elementwise kernels, which compile on first use."""

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from agrad.kernels.cupy.source import ELEMENTWISE, THREADS, joint_update

Raw = Any


@cache
def elementwise_kernel(name: str) -> Any:
    """Return CuPy's kernel for an entry of ``ELEMENTWISE``."""
    import cupy

    source = ELEMENTWISE[name]
    return cupy.ElementwiseKernel(source.inputs, source.outputs, source.body, f"agrad_{name}")


def on_each(name: str, x: Raw, *others: Any) -> Any:
    """Launch a kernel over all elements, on the device of the arrays."""
    with x.device:
        return elementwise_kernel(name)(x, *others)


CHUNK = 4 * THREADS
"""The elements of an update that a block computes."""


class Part(NamedTuple):
    """One part of the launch of a ``joint_kernel``."""

    parameters: Sequence[Any]
    """Arrays, addresses and numbers."""
    size: int
    blocks: int
    """The number of blocks that the kernel is told."""
    grid: int
    """The number of blocks that are launched."""


def launch_parts(kernel: Any, parts: Sequence[Part], most: int, shared: Sequence[float] = ()) -> None:
    """Launch a kernel of ``joint_kernel`` for ``most`` parts over some."""
    width, first = len(parts[0].parameters) + 3, 0
    words = np.zeros(most * width, np.int64)
    for k, part in enumerate(parts):
        row = words[k * width : (k + 1) * width]
        for i, value in enumerate(part.parameters):
            if isinstance(value, float):
                row[i : i + 1].view(np.float64)[0] = value
            else:
                row[i] = value if isinstance(value, int) else value.data.ptr
        row[-3:] = part.size, first, part.blocks
        first += part.grid
    kernel((first,), (THREADS,), (words.view(f"V{words.nbytes}"), np.int32(len(parts)), *shared))


@cache
def _joint_kernel(name: str, char: str, device: int, arrays: int) -> tuple[Any, int]:
    """Return the kernel over parts, compiled for a device, and the most parts."""
    import cupy

    joint = joint_update(name, {"f": "float", "d": "double"}[char], arrays)
    kernel = cupy.RawKernel(joint.text, joint.name)
    with cupy.cuda.Device(device):
        kernel.compile()
    return kernel, joint.most


class Joint(threading.local):
    """A context whose updates are launched together, at its end.

    Nothing may read their results before. An exception is an end too.
    """

    waiting: dict[Any, list[Sequence[Raw]]] | None = None

    def __enter__(self) -> None:
        self.waiting = {}

    def __exit__(self, *exception: object) -> None:
        waiting, self.waiting = self.waiting or {}, None
        for (kernel, most, values), parts in waiting.items():
            blocks = [-(-arrays[0].size // CHUNK) for arrays in parts]
            some = [Part(arrays, arrays[0].size, n, n) for arrays, n in zip(parts, blocks, strict=True)]
            with parts[0][0].device:
                for start in range(0, len(some), most):
                    launch_parts(kernel, some[start : start + most], most, tuple(map(float, values)))


JOINT = Joint()


def updated(name: str, arrays: Sequence[Raw], values: tuple[float, ...], over: Sequence[Raw]) -> tuple[Raw, ...]:
    """Compute a parameter and its state from them, its gradient and numbers.

    The arrays, of one shape, are the parameter, the gradient and the state. The results are written over ``over``, or
    are new arrays. In the context ``JOINT`` the launch waits for its end, if all arrays are contiguous on one device.
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
        waiting.setdefault(key, []).append((*arrays, *over))
    return tuple(over)

"""Launches of CuPy's elementwise kernels, which compile on first use."""

from functools import cache
from typing import Any

from agrad.backends.cupy.source import ELEMENTWISE

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

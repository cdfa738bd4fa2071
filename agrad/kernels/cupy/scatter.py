"""Sums of parts of an array on CuPy, which basic indices select, by one kernel."""

from functools import cache
from typing import Any

import numpy as np

from agrad.kernels.cupy.elementwise import C_TYPES, are_of_one_dtype, compiled, launch_over
from agrad.kernels.cupy.source import ARGUMENT_BYTES, THREADS, digits_function
from agrad.registry import kernel
from agrad.shapes import PartAxis, axes_of_part, size

Raw = Any


def most_parts(axes: int) -> int:
    """Return how many parts of an array with some axes fit into a kernel's arguments."""
    return (ARGUMENT_BYTES - 8 * axes - 32) // (8 + 32 * axes)


@cache
def scatter_source(real: str, axes: int) -> str:
    """Return the kernel for arrays of a type with some axes."""
    return f"""
typedef {real} T;
{digits_function(axes)}
struct Axis {{ long long start, step, length, stride; }};
struct Part {{ const T* p; Axis axes[{axes}]; }};
struct Parts {{ long long shape[{axes}]; Part all[{most_parts(axes)}]; }};

// Each element of out is the sum of the elements of the parts at its position; with more, of its old value too.
extern "C" __global__ void scatter_sum(const Parts parts, int count, int more, T* out, long long size) {{
    for (long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x; i < size; i += gridDim.x * {THREADS}ll) {{
        long long at[{axes}];
        digits(i, parts.shape, at);
        T sum = more ? out[i] : T(0);
        for (int k = 0; k < count; k++) {{
            const Part& part = parts.all[k];
            long long place = 0;
            bool covers = true;
            for (int a = 0; a < {axes}; a++) {{
                const Axis& axis = part.axes[a];
                long long past = at[a] - axis.start, number = axis.step == 1 ? past : past / axis.step;
                covers = covers && past >= 0 && number * axis.step == past && number < axis.length;
                place += number * axis.stride;
            }}
            T value = covers ? part.p[place] : T(0);
            sum = k == 0 && !more ? value : sum + value;
        }}
        out[i] = sum;
    }}
}}
"""


def _words(part: Raw, axes: list[PartAxis]) -> list[int]:
    """Return the address of a part, and its positions and stride along each axis of the sum."""
    address, words = part.data.ptr, list[int]()
    for axis in axes or [PartAxis(0, 1, 1, -1)]:
        start, step, stride = axis.start, axis.step, part.strides[axis.part_axis] if axis.part_axis >= 0 else 0
        if step < 0:
            address += (axis.length - 1) * stride
            (start, step), stride = axis.turned(), -stride
        words += start, step, axis.length, stride // part.itemsize
    return [address, *words]


@kernel("cupy", "scatter_sum", "forward", gain=11.0, when=are_of_one_dtype)
def scatter_sum(*parts: Raw, indices: tuple[tuple[Any, ...], ...], shape: tuple[int, ...]) -> Raw:
    import cupy

    axes = [axes_of_part(index, shape) or [] for index in indices]
    count, n = max(1, len(shape)), size(shape)
    most = most_parts(count)
    with parts[0].device:
        out = cupy.empty(shape, parts[0].dtype)
        run = compiled(scatter_source(C_TYPES[out.dtype.char], count), "scatter_sum")
        for first in range(0, len(parts), most):
            some = range(first, min(first + most, len(parts)))
            table = np.zeros(count + most * (1 + 4 * count), np.int64)
            words = [*(shape or (1,)), *[word for k in some for word in _words(parts[k], axes[k])]]
            table[: len(words)] = words
            launch_over(n, run, table.view(f"V{table.nbytes}"), np.int32(len(some)), np.int32(first > 0), out)
    return out

"""Maxima of windows on CuPy, and their derivative, by one kernel each."""

import math
from functools import cache
from typing import Any

import numpy as np

from agrad.kernels.cupy.elementwise import C_TYPES, are_of_one_dtype, compiled, launch_over
from agrad.kernels.cupy.source import THREADS, digits_function
from agrad.registry import kernel

Raw = Any
Steps = tuple[int, ...]


def _positions_source(real: str, axes: int) -> str:
    """Return the functions from an element's number to its position in a window."""
    return f"""
typedef {real} T;
typedef long long I;
struct Windows {{
    I in[{axes}], out[{axes}], length[{axes}], stride[{axes}], dilation[{axes}], inputs, outputs, taps;
}};

{digits_function(axes)}
// The offset of an element of the window at a position, by its number in the window.
__device__ inline I offset(const Windows& w, const I* window, I tap) {{
    I at[{axes}], place = 0;
    digits(tap, w.length, at);
    for (int a = 0; a < {axes}; a++) place = place * w.in[a] + window[a] * w.stride[a] + at[a] * w.dilation[a];
    return place;
}}
"""


@cache
def pooling_source(real: str, axes: int) -> str:
    """Return the kernels for the last axes of contiguous arrays."""
    return f"""{_positions_source(real, axes)}
extern "C" __global__ void max_pool(const Windows w, const T* x, T* y, I size) {{
    for (I i = (I)blockIdx.x * {THREADS} + threadIdx.x; i < size; i += gridDim.x * {THREADS}ll) {{
        I window[{axes}];
        digits(i % w.outputs, w.out, window);
        const T* source = x + i / w.outputs * w.inputs;
        T best = source[offset(w, window, 0)];
        for (I tap = 1; tap < w.taps; tap++) {{
            T value = source[offset(w, window, tap)];
            best = best >= value || best != best ? best : value;
        }}
        y[i] = best;
    }}
}}

// Each element adds the cotangents of the windows in which it is the first maximum, or the first NaN.
extern "C" __global__ void max_pool_vjp(const Windows w, const T* g, const T* x, const T* y, T* out, I size) {{
    for (I i = (I)blockIdx.x * {THREADS} + threadIdx.x; i < size; i += gridDim.x * {THREADS}ll) {{
        I place[{axes}], at[{axes}], window[{axes}], batch = i / w.inputs, mine = i % w.inputs;
        digits(mine, w.in, place);
        const T* source = x + batch * w.inputs;
        T sum = T(0);
        for (I tap = 0; tap < w.taps; tap++) {{
            bool covers = true;
            I number = 0;
            digits(tap, w.length, at);
            for (int a = 0; a < {axes}; a++) {{
                I first = place[a] - at[a] * w.dilation[a];
                window[a] = first / w.stride[a];
                covers = covers && first >= 0 && window[a] * w.stride[a] == first && window[a] < w.out[a];
                number = number * w.out[a] + window[a];
            }}
            if (!covers) continue;
            number += batch * w.outputs;
            I chosen = 0;
            for (; chosen < w.taps - 1; chosen++) {{
                T value = source[offset(w, window, chosen)];
                if (value == y[number] || value != value) break;
            }}
            if (chosen == tap) sum += g[number];
        }}
        out[i] = sum;
    }}
}}
"""


def _run(name: str, x: Raw, y: Raw, kernel: Steps, strides: Steps, dilation: Steps, *arrays: Raw) -> None:
    """Launch a kernel. x, y: arrays of the shapes of the input and the result. The last of ``arrays`` is written."""
    axes = len(kernel)
    inputs, outputs = x.shape[-axes:], y.shape[-axes:]
    counts = math.prod(inputs), math.prod(outputs), math.prod(kernel)
    windows = np.array([*inputs, *outputs, *kernel, *strides, *dilation, *counts], np.int64)
    run = compiled(pooling_source(C_TYPES[x.dtype.char], axes), name)
    launch_over(arrays[-1].size, run, windows.view(f"V{windows.nbytes}"), *arrays)


@kernel("cupy", "max_pool", "forward", gain=4.0, when=are_of_one_dtype)
def max_pool(x: Raw, *, kernel: Steps, strides: Steps, dilation: Steps) -> Raw:
    import cupy

    axes = len(kernel)
    lengths = zip(x.shape[-axes:], kernel, strides, dilation, strict=True)
    shape = (*x.shape[:-axes], *[(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in lengths])
    with x.device:
        y = cupy.empty(shape, x.dtype)
        if y.size:
            _run("max_pool", x, y, kernel, strides, dilation, cupy.ascontiguousarray(x), y)
    return y


@kernel("cupy", "max_pool", "vjp:x", gain=24.0, when=are_of_one_dtype)
def max_pool_vjp(g: Raw, x: Raw, y: Raw, *, kernel: Steps, strides: Steps, dilation: Steps) -> Raw:
    import cupy

    with x.device:
        out = cupy.empty(x.shape, x.dtype)
        given = [cupy.ascontiguousarray(a) for a in (g, x, y)]
        _run("max_pool_vjp", x, y, kernel, strides, dilation, *given, out)
    return out

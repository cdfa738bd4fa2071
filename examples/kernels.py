"""Derivatives for foreign code
============================

Derivatives for foreign code: a C function, a Numba function, a CUDA kernel.

Each is a function of plain arrays with a derivative rule written by hand. ``python
examples/kernels.py`` runs the available ones.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import agrad

SOURCE = """
#include <math.h>
void softplus(const double *x, double *y, double *slope, long n) {
    for (long i = 0; i < n; i++) {
        double e = exp(-fabs(x[i]));
        y[i] = fmax(x[i], 0.0) + log1p(e);
        slope[i] = x[i] >= 0 ? 1 / (1 + e) : e / (1 + e);
    }
}
"""


def c_function() -> Callable[[Any], Any]:
    """Return log(1 + exp(x)) by C, with the derivative for the pullback."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("no C compiler, cc, was found")
    folder = Path(tempfile.mkdtemp())
    (folder / "softplus.c").write_text(SOURCE, encoding="utf-8")
    library = folder / "softplus.so"
    subprocess.run(
        [
            compiler,
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(folder / "softplus.c"),
            "-lm",
        ],
        check=True,
    )
    raw = ctypes.CDLL(str(library)).softplus
    raw.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long]

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.ascontiguousarray(x, np.float64)
        y, slope = np.empty_like(x), np.empty_like(x)
        raw(x.ctypes.data, y.ctypes.data, slope.ctypes.data, x.size)
        return y, slope

    @agrad.custom_vjp(batch="loop")
    def softplus(x: Any) -> Any:
        return run(x)[0]

    softplus.defvjp(run, lambda slope, g: (g * slope,))
    return softplus


def numba_function() -> Callable[[Any, Any], Any]:
    """Return the recurrence y[i] = a * y[i - 1] + x[i] by Numba, with its transpose."""
    import numba

    @numba.njit
    def forward(a: float, x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x)
        last = 0.0
        for i in range(x.size):
            last = a * last + x[i]
            y[i] = last
        return y

    @numba.njit
    def backward(a: float, y: np.ndarray, g: np.ndarray) -> tuple[float, np.ndarray]:
        back = np.empty_like(g)
        total, last = 0.0, 0.0
        for i in range(g.size - 1, -1, -1):
            last = g[i] + a * last
            back[i] = last
            if i:
                total += last * y[i - 1]
        return total, back

    @agrad.custom_vjp(batch="loop")
    def smooth(a: Any, x: Any) -> Any:
        return forward(float(a), x)

    def fwd(a: Any, x: Any) -> tuple[Any, Any]:
        y = forward(float(a), x)
        return y, (a, y)

    def bwd(kept: Any, g: Any) -> tuple[Any, Any]:
        a, y = kept
        slope, back = backward(float(a), y, np.ascontiguousarray(g))
        return np.asarray(slope), back

    smooth.defvjp(fwd, bwd)
    return smooth


def cuda_kernel() -> Callable[[Any], Any]:
    """Return x * sigmoid(x) and its derivative in one pass over a CuPy array."""
    import cupy

    kernel = cupy.RawKernel(
        r"""
        extern "C" __global__
        void swish(const double* x, double* y, double* slope, long long n) {
            long long i = blockDim.x * (long long) blockIdx.x + threadIdx.x;
            if (i < n) {
                double s = 1 / (1 + exp(-x[i]));
                y[i] = x[i] * s;
                slope[i] = s * (1 + x[i] * (1 - s));
            }
        }
        """,
        "swish",
    )

    def run(x: Any) -> tuple[Any, Any]:
        x = cupy.ascontiguousarray(x)
        y, slope = cupy.empty_like(x), cupy.empty_like(x)
        if x.size:
            kernel(((x.size + 255) // 256,), (256,), (x, y, slope, np.int64(x.size)))
        return y, slope

    @agrad.custom_vjp(batch="loop")
    def swish(x: Any) -> Any:
        return run(x)[0]

    swish.defvjp(run, lambda slope, g: (g * slope,))
    return swish


def main() -> None:
    """Print the results of each kernel at a few points."""
    x = np.asarray([-1.0, 0.0, 2.0])
    try:
        softplus = c_function()
        print(
            "C      softplus",
            softplus(x),
            "slope",
            agrad.grad(lambda x: agrad.sum(softplus(x)))(x),
        )
    except RuntimeError as error:
        print("C      left out:", error)
    try:
        smooth = numba_function()
        print(
            "Numba  smooth  ",
            smooth(0.5, x),
            "slope",
            agrad.grad(lambda a: agrad.sum(smooth(a, x)))(0.5),
        )
    except ImportError as error:
        print("Numba  left out:", error)
    try:
        with agrad.use_backend("cupy"):
            swish = cuda_kernel()
            on_gpu = agrad.asarray(x, backend="cupy")
            print(
                "CUDA   swish   ",
                swish(on_gpu),
                "slope",
                agrad.grad(lambda x: agrad.sum(swish(x)))(on_gpu),
            )
    except (ImportError, ValueError) as error:
        print("CUDA   left out:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()

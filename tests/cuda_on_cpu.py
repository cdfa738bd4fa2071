"""A stand-in for CuPy that compiles the fused kernels' CUDA text as C++ and runs it on the CPU.

It shows that the text means what its rule says, and that each wrapper hands over its arguments in order. The threads of
a block take turns on one processor, each as far as the next ``__syncthreads``.
How CuPy and a GPU treat the same text is for a machine that has one.
"""

import ctypes
import re
import shutil
import subprocess
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from agrad.backends.cupy_source import ELEMENTWISE, row_source

COMPILER = shutil.which("g++") or shutil.which("clang++")

_ON_CPU = """
#include <cmath>
#include <ucontext.h>
using std::exp; using std::log; using std::fabs; using std::fmax;
using std::sqrt; using std::tanh; using std::erfc;
typedef long long int64;
struct Three { unsigned x, y; };
static Three threadIdx, blockIdx, blockDim;
enum { MOST = 1024, STACK = 1 << 15 };
static ucontext_t turns, threads[MOST];  // one processor: each thread runs until it waits for the others
alignas(16) static char stacks[MOST][STACK];
static unsigned me_, waiting, ended;
static void meet() { waiting++; swapcontext(&threads[me_], &turns); }
#define __device__ static
#define __global__
#define __shared__ static
#define __syncthreads() meet()
template <class F> struct Body { static const F* call; };
template <class F> const F* Body<F>::call;
template <class F> void whole() { (*Body<F>::call)(); ended++; }
template <class F> void run_blocks(int blocks, int width, int height, F body) {
    blockDim = {unsigned(width), unsigned(height)};
    Body<F>::call = &body;
    const unsigned all = width * height;
    if (all > MOST) __builtin_abort();
    for (int b = 0; b < blocks; b++) {
        blockIdx = {unsigned(b), 0};
        for (me_ = 0; me_ < all; me_++) {
            getcontext(&threads[me_]);
            threads[me_].uc_stack.ss_sp = stacks[me_];
            threads[me_].uc_stack.ss_size = STACK;
            threads[me_].uc_link = &turns;
            makecontext(&threads[me_], whole<F>, 0);
        }
        for (ended = 0; ended == 0;) {
            waiting = 0;
            for (me_ = 0; me_ < all; me_++) {
                threadIdx = {me_ % blockDim.x, me_ / blockDim.x};
                swapcontext(&turns, &threads[me_]);
            }
            if ((waiting && ended) || waiting + ended != all) __builtin_abort();  // not all came to the same point
        }
    }
}
"""


def parameters(text: str) -> list[tuple[str, str]]:
    """The (type, name) pairs of a parameter list in ``ElementwiseKernel`` notation."""
    return [tuple(part.split()) for part in text.split(",")]


def _loop(name: str) -> str:
    kernel = ELEMENTWISE[name]
    arguments, locals_ = [], []
    for text, const in ((kernel.inputs, "const "), (kernel.outputs, "")):
        for kind, argument in parameters(text):
            arguments.append(f"{const}{kind}* {argument}_")
            # a reference, so that results written over arguments would show a read that comes too late
            locals_.append(f"{const}{kind}& {argument} = {argument}_[i];")
    return (
        f'extern "C" void each_{name}(long long count_, {", ".join(arguments)}) {{\n'
        f"for (long long i = 0; i < count_; i++) {{ {' '.join(locals_)}\n{kernel.body} }} }}\n"
    )


def _launcher(match: re.Match) -> str:
    name, arguments = match.groups()
    names = ", ".join(argument.split()[-1] for argument in arguments.split(","))
    return (
        f'extern "C" void launch_{name}(int blocks, int width, int height, {arguments}) '
        f"{{ run_blocks(blocks, width, height, [=] {{ {name}({names}); }}); }}\n"
    )


def host_library(folder: Path, real: str) -> ctypes.CDLL:
    """All kernels for one dtype (``float`` or ``double``), compiled for the CPU."""
    launchers = ""
    rows = row_source(real)
    for match in re.finditer(r"__global__ void (\w+)\(([^)]*)\)", rows):
        launchers += _launcher(match)
    text = _ON_CPU + rows + launchers + "typedef long long L;\n" + "".join(map(_loop, ELEMENTWISE))
    source, library = folder / f"{real}.cpp", folder / f"{real}.so"
    source.write_text(text)
    command = [COMPILER, "-std=c++14", "-O1", "-shared", "-fPIC", "-o", library, source]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def cuda_text(real: str) -> str:
    """All kernels as one CUDA file: the row kernels as they are, the elementwise ones in a plain loop."""
    made = row_source(real) + "typedef long long int64;\ntypedef int L;\n"
    for name in ELEMENTWISE:
        loop = _loop(name).replace('extern "C" void', 'extern "C" __global__ void')
        made += loop.replace("i = 0;", "i = (long long)blockIdx.x * blockDim.x + threadIdx.x;").replace(
            "i++", "i += (long long)gridDim.x * blockDim.x"
        )
    return made


class Array(np.ndarray):
    """A NumPy array with CuPy's ``device``, which is a context manager."""

    @property
    def device(self) -> nullcontext:
        return nullcontext()


def in_c(argument: Any) -> Any:
    """An argument of a launch: the address of an array, or a 64-bit integer."""
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_longlong(int(argument))


def fake_cupy(libraries: dict[str, ctypes.CDLL]) -> types.ModuleType:
    """A module with the few names of CuPy that the kernels use; ``launches`` counts what they ask for."""
    cupy = types.ModuleType("cupy")
    cupy.launches = []
    cupy.empty_like = np.empty_like
    cupy.empty = lambda shape, dtype: np.empty(shape, dtype).view(Array)
    cupy.ascontiguousarray = lambda a: np.ascontiguousarray(a).view(Array)

    class ElementwiseKernel:
        def __init__(self, inputs: str, outputs: str, body: str, name: str) -> None:
            self.inputs, self.outputs = parameters(inputs), parameters(outputs)
            self.name = name.removeprefix("agrad_")
            assert ELEMENTWISE[self.name].body == body

        def __call__(self, *arguments: Any) -> Any:
            taken, given = arguments[: len(self.inputs)], arguments[len(self.inputs) :]
            real = next(a.dtype for a in taken if isinstance(a, np.ndarray) and a.dtype.kind == "f")
            kinds = {"T": real, "L": np.dtype(np.int64), "int64": np.dtype(np.int64), "bool": np.dtype(bool)}
            for (kind, _), a in zip(self.inputs, taken, strict=True):
                assert kind != "T" or not isinstance(a, np.ndarray) or a.dtype == real
            shape = np.broadcast_shapes(*(np.shape(a) for a in taken))
            holders = [
                np.ascontiguousarray(np.broadcast_to(np.asarray(a, dtype=kinds[kind]), shape))
                for (kind, _), a in zip(self.inputs, taken, strict=True)
            ]
            assert len(given) in (0, len(self.outputs))
            outputs = list(given) or [np.empty(shape, real).view(Array) for _ in self.outputs]
            assert all(out.flags.c_contiguous and out.shape == shape for out in outputs)
            library = libraries[real.char]
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*holders, *outputs)]
            count = ctypes.c_longlong(int(np.prod(shape, dtype=int)))
            getattr(library, f"each_{self.name}")(count, *pointers)
            cupy.launches.append(self.name)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

    class RawModule:
        def __init__(self, *, code: str) -> None:
            (real,) = (real for real in ("float", "double") if code == row_source(real))
            self.library = libraries[real[0]]

        def get_function(self, name: str) -> Any:
            launch = getattr(self.library, f"launch_{name}")

            def run(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
                assert all(a.flags.c_contiguous for a in arguments if isinstance(a, np.ndarray))
                launch(*grid, *block, *map(in_c, arguments))
                cupy.launches.append(name)

            return run

    cupy.ElementwiseKernel, cupy.RawModule = ElementwiseKernel, RawModule
    return cupy

"""The CUDA that is emulated below CuPy (tests/cupy_on_cpu) computes, and finds the faults that it should."""

import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.needs("cuda_on_cpu")

KERNELS = """
import json, os, sys
import cupy, numpy as np
import cuda_on_cpu

def kernel(body, parameters="const float* x, float* y"):
    return cupy.RawKernel('extern "C" __global__ void k(' + parameters + ") { int i = threadIdx.x; " + body + " }", "k")

def attempt(function):
    try:
        return np.asarray(function().get()).tolist()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def captured(body, mode=None, non_blocking=True):
    with cupy.cuda.Stream(non_blocking=non_blocking) as stream:
        stream.begin_capture(mode)
        try:
            body()
        finally:
            graph = stream.end_capture()
    return graph

def refused(*arguments, **options):
    try:
        captured(*arguments, **options)
    except Exception as error:
        return f"{error.__context__} / {error}"
    return "not refused"

x = cupy.arange(100, dtype="float32")
y = cupy.zeros(100, "float32")
found = {}
"""


def run(script: str, **environment: str) -> tuple[dict[str, Any], str]:
    """Run a script in a process of its own; return the ``found`` that it fills, and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", KERNELS + script + "\nprint(json.dumps(found))"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def launch(body: str, x: Any, y: Any, threads: int | None = None, parameters: str = "const {0}* x, {1}* y") -> Any:
    """Launch one block of a kernel whose threads are numbered by ``i``; return the second array."""
    import cupy

    names = {"f": "float", "d": "double", "i": "int", "I": "unsigned", "e": "__half", "F": "complex<float>"}
    given = parameters.format(names[x.dtype.char], names[y.dtype.char])
    text = "#include <cupy/complex.cuh>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    text += f'extern "C" __global__ void k({given}) {{ int i = threadIdx.x; {body} }}'
    cupy.RawKernel(text, "k")((1,), (threads or len(x),), (x, y))
    return y.get()


# ---------------------------------------------------------------- faults of kernels


def test_what_lies_outside_of_an_array() -> None:
    script = """
run = lambda body: (kernel(body)((1,), (100,), (x, y)), y)[1]
found["read next"] = attempt(lambda: cupy.isnan(run("y[i] = x[i + 1];")))
found["read far"] = attempt(lambda: run("y[i] = x[i + 128];"))
found["read before"] = attempt(lambda: run("y[i] = x[i - 2000];"))
found["written next"] = attempt(lambda: run("if (i == 99) y[i + 1] = 0;"))
found["written before"] = attempt(lambda: run("if (i == 0) y[i - 1] = 0;"))
found["once"] = attempt(lambda: run("y[i] = 7;"))
found["written far"] = attempt(lambda: run("y[i + 1000] = 0;"))
del y
found["freed"] = attempt(lambda: (kernel("((float*)x)[i] = 0;")((1,), (1,), (np.uintp(at), x)), x)[1])
found["after"] = attempt(lambda: x + 1)
"""
    found, said = run("at = cupy.zeros(3).data.ptr\n" + script, CUPY_ON_CPU_POOL="0")
    assert found["read next"] == [False] * 99 + [True]
    for where in ("read far", "read before", "written next", "written before", "written far", "freed"):
        assert "cudaErrorIllegalAddress" in found[where], where
    assert found["once"] == [7] * 100
    assert found["after"] == list(range(1, 101))
    assert said.count("something was written outside of a block of 400 bytes") == 2
    assert said.count("k: a read or a write outside of every block of memory") == 4


def test_a_null_pointer_and_a_trap() -> None:
    script = """
found["null"] = attempt(lambda: (kernel("y[i] = x[i];")((1,), (1,), (np.uintp(0), y)), y)[1])
found["trap"] = attempt(lambda: (kernel("if (i == 3) __trap();")((1,), (4,), (x, y)), y)[1])
found["after"] = attempt(lambda: x[:2])
"""
    found, _ = run(script)
    assert "cudaErrorIllegalAddress" in found["null"]
    assert "cudaErrorLaunchFailure" in found["trap"]
    assert found["after"] == [0, 1]


def test_barriers_that_not_all_threads_reach() -> None:
    script = """
bodies = {
    "two lines": "if (i < 50) __syncthreads();\\n else __syncthreads();",
    "two kinds": "if (i < 32) __syncwarp(); else if (i < 50) __syncthreads(); else y[i] = __shfl_sync(~0u, x[i], 0);",
    "own lane": "y[i] = __shfl_sync(1u, x[i], 0);",
    "returned": "if (i > 49) return; y[i] = 0; __syncthreads(); y[i] = x[49 - i];",
}
for name, body in bodies.items():
    found[name] = attempt(lambda: (kernel(body)((1,), (64,), (x, y)), y)[1])
"""
    found, said = run(script)
    for name in ("two lines", "two kinds", "own lane"):
        assert "cudaErrorLaunchFailure" in found[name], name
    assert "threads of a block wait at barriers that the others do not reach (lines 1, 2)" in said
    assert found["returned"][:50] == list(range(49, -1, -1))


def test_a_barrier_that_is_missing() -> None:
    script = """
text = "__shared__ float s[100]; s[i] = x[i]; %s y[i] = s[99 - i];"
for name, barrier in (("with", "__syncthreads();"), ("without", "")):
    found[name] = attempt(lambda: cupy.nan_to_num((kernel(text % barrier)((1,), (100,), (x, y)), y)[1], nan=-1))
"""
    backwards = list(range(99, -1, -1))
    # a thread sees what those before it wrote, and the pattern where those behind it will write
    found, _ = run(script)
    assert found == {"with": backwards, "without": [-1] * 50 + backwards[50:]}
    found, _ = run(script, CUPY_ON_CPU_ORDER="descending")
    assert found == {"with": backwards, "without": backwards[:50] + [-1] * 50}


def test_shared_memory_is_lost_between_blocks() -> None:
    import cupy

    text = 'extern "C" __global__ void k(float* y) { __shared__ float s; extern __shared__ float t[];'
    text += "y[blockIdx.x] = s + t[0]; s = t[0] = 1; }"
    y = cupy.zeros(3, "f")
    cupy.RawKernel(text, "k")((3,), (1,), (y,), shared_mem=4)
    assert np.isnan(y.get()).all()


def test_launches_beyond_the_limits() -> None:
    import cupy

    text = 'extern "C" __global__ void k(float* y) { extern __shared__ float s[]; s[threadIdx.x] = 1; y[0] = s[0]; }'
    kernel, y = cupy.RawKernel(text, "k"), cupy.zeros(1, "f")
    for grid, block, shared in [((1,), (1025,), 0), ((1,), (1, 1, 65), 0), ((1, 65536), (1,), 0), ((1,), (1,), 49153)]:
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match="InvalidValue"):
            kernel(grid, block, (y,), shared_mem=shared)
    kernel.max_dynamic_shared_size_bytes = 100_000
    kernel((1,), (1024,), (y,), shared_mem=100_000)
    assert y.get() == 1
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="InvalidValue"):
        kernel.max_dynamic_shared_size_bytes = 300_000


# ---------------------------------------------------------------- captures


def test_what_a_capture_refuses() -> None:
    script = """
runtime, Stream = cupy.cuda.runtime, cupy.cuda.Stream
modes = runtime.streamCaptureModeGlobal, runtime.streamCaptureModeThreadLocal
held = runtime.malloc(8)
found["malloc"] = [refused(lambda: runtime.malloc(8), mode) for mode in modes]
found["free"] = [refused(lambda: runtime.free(held), mode) for mode in modes]
found["synchronize"] = refused(lambda: cupy.cuda.get_current_stream().synchronize())
found["device"] = refused(lambda: cupy.cuda.Device().synchronize())
found["query"] = refused(lambda: cupy.cuda.get_current_stream().done)
def on_legacy():
    with Stream.null:
        cupy.add(x, y, out=y)
found["legacy"] = refused(on_legacy, non_blocking=False)
found["legacy beside"] = refused(on_legacy)
found["relaxed"] = refused(lambda: runtime.malloc(8))
def forked(joined):
    origin, other = cupy.cuda.get_current_stream(), Stream(non_blocking=True)
    other.wait_event(origin.record())
    with other:
        cupy.add(x, y, out=y)
    if joined:
        origin.wait_event(other.record())
found["forked"] = [refused(lambda: forked(joined)) for joined in (True, False)]
"""
    found, _ = run(script)
    unsupported, invalid = "cudaErrorStreamCaptureUnsupported", "cudaErrorStreamCaptureInvalidated"
    for refused in (*found["malloc"], *found["free"], found["synchronize"], found["device"]):
        assert unsupported in refused and invalid in refused
    # CuPy takes the error for "not done"
    assert invalid in found["query"]
    assert "cudaErrorStreamCaptureImplicit" in found["legacy"]
    assert found["legacy beside"] == found["relaxed"] == found["forked"][0] == "not refused"
    assert "cudaErrorStreamCaptureUnjoined" in found["forked"][1]


def test_a_graph_works_on_the_addresses_of_its_capture() -> None:
    import cuda_on_cpu
    import cupy

    x, y = cupy.arange(3.0), cupy.ones(3)
    cupy.add(x, y, out=y)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        cupy.add(x, y, out=y)
        graph = stream.end_capture()
    assert_array_equal(y.get(), [1, 2, 3])
    x[...] = 10
    before = cuda_on_cpu.counts()
    trace = cuda_on_cpu.trace(graph.launch)
    after = cuda_on_cpu.counts()
    assert_array_equal(y.get(), [11, 12, 13])
    assert (after.graphs - before.graphs, after.launches - before.launches) == (1, 0)
    assert trace == ["graphLaunch of 1: cupy_add__float64_float64_float64"]


def test_a_graph_whose_memory_was_freed() -> None:
    script = """
z = cupy.zeros(100, "float32")
cupy.add(x, z, out=y)
graph = captured(lambda: cupy.add(x, z, out=y))
del z
found["launch"] = attempt(lambda: (graph.launch(), y)[1])
"""
    found, _ = run(script, CUPY_ON_CPU_POOL="0")
    assert "cudaErrorIllegalAddress" in found["launch"]


# ---------------------------------------------------------------- memory and devices


def test_numpy_and_cupy_do_not_mix() -> None:
    import cupy

    x = cupy.ones(3)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(x)
    with pytest.raises(TypeError, match="Unsupported type"):
        x + np.ones(3)


def test_copies_in_the_wrong_direction(capfd: pytest.CaptureFixture[str]) -> None:
    import cupy

    runtime, host, x = cupy.cuda.runtime, np.zeros(3), cupy.ones(3)
    for to, source, size, kind in [
        (host.ctypes.data, host.ctypes.data, 24, runtime.memcpyHostToDevice),
        (x.data.ptr, x.data.ptr, 24, runtime.memcpyHostToDevice),
        (x.data.ptr, x.data.ptr, 24, runtime.memcpyDeviceToHost),
        (host.ctypes.data, x.data.ptr, 1 << 40, runtime.memcpyDeviceToHost),
        (host.ctypes.data, x.data.ptr, 24, runtime.memcpyDeviceToDevice),
    ]:
        with pytest.raises(runtime.CUDARuntimeError, match="InvalidValue"):
            runtime.memcpy(to, source, size, kind)
    assert "a copy from host to device, but the memory is not there" in capfd.readouterr().err


def test_counters_and_the_trace() -> None:
    import cuda_on_cpu
    import cupy

    x = cupy.ones(4, "f")
    x + x

    def work() -> None:
        y = cupy.asarray(np.ones(4, "f"))
        y.data.copy_from_device(x.data, 16)
        y.data.memset(0, 16)
        (x + y).get()

    before = cuda_on_cpu.counts()
    trace = cuda_on_cpu.trace(work)
    gone = cuda_on_cpu.Counts(*(b - a for a, b in zip(before, cuda_on_cpu.counts(), strict=True)))
    assert (gone.launches, gone.h2d, gone.d2h, gone.d2d, gone.memsets, gone.graphs) == (1, 1, 1, 1, 1, 0)
    calls = [line for line in trace if not line.startswith("malloc")]
    assert calls[-2:] == ["memcpyAsync D2H", "streamSynchronize"]
    assert "cupy_add__float32_float32_float32 <<<1, 4>>>" in calls and gone.syncs >= 1
    assert cuda_on_cpu.trace(lambda: None) == []


def test_memory_that_was_not_written_is_nan() -> None:
    script = """
for dtype in "efdF":
    found[dtype] = attempt(lambda: cupy.isnan(cupy.empty(3, dtype)))
found["i"] = attempt(lambda: cupy.empty(3, "int32"))
"""
    found, _ = run(script, CUPY_ON_CPU_POOL="0")
    assert found == {**dict.fromkeys("efdF", [True] * 3), "i": [0x7FFF7FFF] * 3}


def test_two_devices() -> None:
    script = """
with cupy.cuda.Device(1):
    z, stream = cupy.arange(3.0), cupy.cuda.Stream()
    matrix = cupy.eye(2)
found["devices"] = [x.device.id, z.device.id, cupy.asarray(z).device.id]
found["add"] = attempt(lambda: x + z)
found["kernel"] = attempt(lambda: (kernel("y[i] = 1;")((1,), (3,), (x, z)), z)[1])
found["product"] = attempt(lambda: cupy.eye(2) @ matrix)
found["copied"] = attempt(lambda: cupy.asarray(z) + cupy.ones(3))
text = 'extern "C" __global__ void k(double* z) { z[threadIdx.x] = 5; }'
function = cupy.RawModule(code=text).get_function("k")
function((1,), (3,), (cupy.zeros(3),))
def there(function):
    with cupy.cuda.Device(1):
        function((1,), (3,), (z,))
        return z
found["own"] = attempt(lambda: there(function))
"""
    found, said = run(script, CUPY_ON_CPU_DEVICES="2")
    assert found["devices"] == [0, 1, 0]
    assert "Peer access is unavailable" in found["add"]
    assert "cudaErrorIllegalAddress" in found["kernel"] and "k is given memory of another device" in said
    assert "EXECUTION_FAILED" in found["product"]
    assert found["copied"] == [1, 2, 3] and found["own"] == [5, 5, 5]


def test_a_stream_and_a_module_of_another_device() -> None:
    script = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
driver, runtime = cupy.cuda.driver, cupy.cuda.runtime
function = cupy.RawKernel('extern "C" __global__ void k() {}', "k")
with cupy.cuda.Device(1):
    stream = cupy.cuda.Stream(non_blocking=True)
    there = function.kernel
here = function.kernel
sizes = [ctypes.c_uint(n) for n in (1, 1, 1, 1, 1, 1, 0)]
launch = lambda kernel, s: cuda.cuLaunchKernel(ctypes.c_void_p(kernel.ptr), *sizes, ctypes.c_void_p(s), None, None)
found["launches"] = [launch(here, 0), launch(there, 0), launch(here, stream.ptr)]
"""
    found, said = run(script, CUPY_ON_CPU_DEVICES="2")
    assert found["launches"] == [0, 400, 400]
    assert "k was loaded on device 1 and is launched on another" in said
    assert "on a stream of device 1 while device 0 is current" in said


# ---------------------------------------------------------------- what threads have


def test_shuffles_and_votes() -> None:
    import cupy

    x = cupy.arange(48, dtype="f")
    lanes, n = np.arange(48) % 32, np.arange(48)
    out = lambda: cupy.zeros(48, "f")  # noqa: E731
    down = launch("y[i] = __shfl_down_sync(~0u, x[i], 3, 8);", x, out())
    assert_array_equal(down, np.where(lanes % 8 < 5, n + 3, n))
    assert_array_equal(launch("y[i] = __shfl_up_sync(~0u, x[i], 1);", x, out()), np.where(lanes > 0, n - 1, n))
    found = launch("y[i] = __shfl_xor_sync(~0u, x[i], 16);", x, out())
    # of the second warp there are 16 lanes only
    assert_array_equal(found[:32], n[:32] ^ 16)
    assert np.isnan(found[32:]).all()
    assert_array_equal(launch("y[i] = __shfl_sync(~0u, x[i], 5);", x, out()), n // 32 * 32 + 5)
    votes = launch("y[i] = __popc(__ballot_sync(~0u, i % 3 == 0));", x, out())
    assert_array_equal(votes, [11] * 32 + [5] * 16)
    kinds = "y[i] = __any_sync(~0u, i == 40) + 2 * __all_sync(~0u, i < 32) + 4 * __syncthreads_count(i < 5);"
    assert_array_equal(launch(kinds, x, out()), [22] * 32 + [21] * 16)


def test_a_reduction_by_shuffles_and_shared_memory() -> None:
    import cupy

    body = """
    __shared__ float s[32];
    float v = x[i];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
    if (i % 32 == 0) s[i / 32] = v;
    __syncthreads();
    if (i < 32) {
        v = s[i];
        for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
        if (i == 0) y[0] = v;
    }"""
    x = cupy.arange(1024, dtype="f")
    assert launch(body, x, cupy.zeros(1, "f")) == 1023 * 512


def test_atomic_operations() -> None:
    import cupy

    x = cupy.asarray(np.random.default_rng(0).integers(0, 1000, 200, dtype="i"))
    body = "atomicAdd(y, x[i]); atomicMax(y + 1, x[i]); atomicMin(y + 2, x[i]); atomicXor(y + 3, x[i]);"
    body += "atomicCAS(y + 4, 0, x[i]); atomicExch(y + 5, 7); atomicOr(y + 6, x[i]);"
    host = x.get()
    expected = [host.sum(), host.max(), 0, np.bitwise_xor.reduce(host), host[0], 7, np.bitwise_or.reduce(host)]
    assert_array_equal(launch(body, x, cupy.zeros(7, "i")), expected)
    floats = x.astype("f")
    assert launch("atomicAdd(y, x[i]);", floats, cupy.zeros(1, "f")) == host.sum()


def test_functions_of_the_device() -> None:
    import cupy

    x = np.linspace(0.01, 0.99, 50)
    erfc = np.vectorize(math.erfc)
    for body, expected in [
        ("y[i] = erf(erfinv(x[i]));", x),
        ("y[i] = erfc(erfcinv(2 * x[i]));", 2 * x),
        ("y[i] = normcdf(normcdfinv(x[i]));", x),
        ("y[i] = erfcx(x[i]);", np.exp(x * x) * erfc(x)),
        ("y[i] = cyl_bessel_i0(x[i]);", np.i0(x)),
        ("y[i] = sinpi(x[i]) + cospi(x[i]);", np.sin(np.pi * x) + np.cos(np.pi * x)),
        ("y[i] = __longlong_as_double(__double_as_longlong(rsqrt(x[i])));", x**-0.5),
        ("y[i] = max(x[i], 0.5f) + min(1, x[i]) + fma(x[i], 2.0, 1.0);", np.maximum(x, 0.5) + x + 2 * x + 1),
        ("y[i] = __umul64hi(1ull << 63, 4ull * i) + __popc(i);", [2 * k + k.bit_count() for k in range(50)]),
        ("y[i] = __clz(i + 1) + __ffs(i + 1);", [32 + (k & -k).bit_length() - k.bit_length() for k in range(1, 51)]),
        ("y[i] = __int_as_float(__float_as_int(x[i]));", x.astype("f")),
    ]:
        assert_allclose(launch(body, cupy.asarray(x), cupy.zeros(50)), expected, rtol=4e-15, err_msg=body)
    assert_allclose(launch("y[i] = erff(erfinvf(x[i]));", cupy.asarray(x, "f"), cupy.zeros(50, "f")), x, rtol=3e-7)


def test_kernels_of_other_dtypes() -> None:
    import cupy

    rng = np.random.default_rng(0)
    z = (rng.normal(size=20) + 1j * rng.normal(size=20)).astype("F")
    found = launch("y[i] = exp(x[i]) * conj(x[i]);", cupy.asarray(z), cupy.zeros(20, "F"))
    assert_allclose(found, np.exp(z) * z.conj(), rtol=2e-6)
    h = rng.normal(size=20).astype("e")
    found = launch("y[i] = __hadd(x[i], __float2half(0.5f)) * x[i];", cupy.asarray(h), cupy.zeros(20, "e"))
    assert_array_equal(found, (h + np.float16(0.5)) * h)
    f = rng.normal(size=20).astype("f")
    found = launch("y[i] = __bfloat162float(__float2bfloat16(x[i]));", cupy.asarray(f), cupy.zeros(20, "f"))
    assert_array_equal(found, bfloat16(f))
    for ours, theirs in [(cupy.exp, np.exp), (cupy.sum, np.sum), (cupy.cumsum, np.cumsum), (cupy.sort, np.sort)]:
        for a in (z, h, f):
            assert_allclose(ours(cupy.asarray(a)).get(), theirs(a), rtol=4e-3 if a is h else 2e-6, atol=1e-6)


def test_templates_and_variables_of_modules() -> None:
    import cupy

    text = """
    __constant__ float factors[2] = {2, 3};
    template <class T> __global__ void t(T* y) {
        __shared__ T s[4];
        s[threadIdx.x] = threadIdx.x * factors[1];
        __syncthreads();
        y[threadIdx.x] = s[3 - threadIdx.x];
    }"""
    module = cupy.RawModule(code=text, name_expressions=["t<float>", "t<double>"])
    for dtype, name in (("f", "t<float>"), ("d", "t<double>")):
        y = cupy.zeros(4, dtype)
        module.get_function(name)((1,), (4,), (y,))
        assert_array_equal(y.get(), [9, 6, 3, 0])
    pointer = module.get_global("factors")
    cupy.ndarray(2, "f", pointer)[...] = 10
    module.get_function("t<float>")((1,), (4,), (cupy.zeros(4, "f"),))
    assert_array_equal(cupy.ndarray(2, "f", pointer).get(), [10, 10])


def test_a_text_that_does_not_compile() -> None:
    import cupy

    with pytest.raises(cupy.cuda.compiler.CompileException, match="no_such_name"):
        cupy.RawKernel('extern "C" __global__ void k(float* y) { y[0] = no_such_name; }', "k").compile()


# ---------------------------------------------------------------- cuBLAS and cuBLASLt


def bfloat16(x: Any) -> Any:
    """Round float32 to bfloat16, to nearest even."""
    bits = x.astype("f").view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4").view("f")


def tf32(x: Any) -> Any:
    """Round float32 to the 10 bits of TensorFloat-32, to nearest even."""
    bits = x.astype("f").view("u4").astype("u8")
    return ((bits + 0xFFF + (bits >> 13 & 1)) >> 13 << 13).astype("u4").view("f")


def test_products_of_tensor_cores() -> None:
    import cupy
    from cupy.cuda import cublas, device

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 6)).astype("f"), rng.normal(size=(6, 5)).astype("f")
    out, handle = cupy.zeros((4, 5), "f"), device.get_cublas_handle()
    one, zero = np.ones(1, "f"), np.zeros(1, "f")
    for compute, rounded in [(cublas.CUBLAS_COMPUTE_32F_FAST_TF32, tf32), (cublas.CUBLAS_COMPUTE_32F, np.asarray)]:
        x, y = cupy.asarray(a), cupy.asarray(b)
        # rows are columns of the transposed matrices
        sizes = (cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, 5, 4, 6)
        kinds = (y.data.ptr, 0, 5, x.data.ptr, 0, 6, zero.ctypes.data, out.data.ptr, 0, 5)
        cublas.gemmEx(handle, *sizes, one.ctypes.data, *kinds, compute, -1)
        assert_allclose(out.get(), rounded(a).astype("d") @ rounded(b).astype("d"), rtol=1e-6, atol=1e-6)
    half = cupy.asarray(a.astype("e")) @ cupy.asarray(b.astype("e"))
    assert_allclose(half.get(), a.astype("e").astype("d") @ b.astype("e").astype("d"), rtol=2e-3, atol=2e-3)
    with pytest.raises(cublas.CUBLASError, match="NOT_SUPPORTED"):
        kinds = (y.data.ptr, 0, 5, x.data.ptr, 0, 6, zero.ctypes.data, out.data.ptr, 2, 5)
        cublas.gemmEx(handle, *sizes, one.ctypes.data, *kinds, cublas.CUBLAS_COMPUTE_32F, -1)


def test_systems_and_factorizations() -> None:
    import cupy
    import cupyx

    rng = np.random.default_rng(0)
    for dtype in "fdFD":
        a = rng.normal(size=(2, 3, 3)).astype(dtype) + (1j * rng.normal(size=(2, 3, 3)) if dtype in "FD" else 0)
        a, digits = a.astype(dtype), 2e-3 if dtype in "fF" else 1e-9
        assert_allclose(cupy.linalg.inv(cupy.asarray(a)).get(), np.linalg.inv(a), rtol=digits, atol=digits)
        assert_allclose(cupy.linalg.solve(cupy.asarray(a), cupy.asarray(a)).get(), [np.eye(3)] * 2, atol=digits)
        assert_allclose(cupy.linalg.det(cupy.asarray(a)).get(), np.linalg.det(a), rtol=digits)
        assert_allclose((cupy.asarray(a) @ cupy.asarray(a)).get(), a @ a, rtol=digits, atol=digits)
        positive = a @ a.conj().swapaxes(1, 2)
        for m in (positive, positive[0]):
            assert_allclose(
                cupy.linalg.cholesky(cupy.asarray(m)).get(), np.linalg.cholesky(m), rtol=digits, atol=digits
            )
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        cupy.linalg.inv(cupy.zeros((2, 2)))
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        cupy.linalg.cholesky(-cupy.eye(2))


EPILOGUES = {"DEFAULT": 1, "BIAS": 4, "RELU_BIAS": 6, "RELU_AUX_BIAS": 134, "DRELU_BGRAD": 152, "BGRADB": 512}


class Lt:
    """A product D = A B of matrices by columns, through the functions of cuBLASLt."""

    def __init__(self) -> None:
        import ctypes

        import cupy

        cupy.zeros(1)
        self.c, self.library = ctypes, ctypes.CDLL("libcublasLt.so.13")
        self.handle = self.made("cublasLtCreate")

    def made(self, name: str, *arguments: Any) -> Any:
        made = self.c.c_void_p()
        assert getattr(self.library, name)(self.c.byref(made), *arguments) == 0
        return made

    def layout(self, rows: int, columns: int) -> Any:
        c = self.c
        sizes = (c.c_uint64(rows), c.c_uint64(columns), c.c_int64(rows))
        return self.made("cublasLtMatrixLayoutCreate", c.c_int(0), *sizes)

    def product(self, a: Any, b: Any, d: Any, epilogue: str, bias: Any = None, aux: Any = None) -> int:
        """Multiply the transposed arrays (m, k) and (k, n), given as (k, m) and (n, k); return the status."""
        c = self.c
        task = self.made("cublasLtMatmulDescCreate", c.c_int(68), c.c_int(0))
        held: list[tuple[int, Any]] = [(7, c.c_uint32(EPILOGUES[epilogue]))]
        held += [] if bias is None else [(8, c.c_uint64(bias.data.ptr))]
        held += [] if aux is None else [(11, c.c_uint64(aux.data.ptr)), (12, c.c_int64(aux.shape[1] * 8))]
        for which, value in held:
            size = c.c_size_t(c.sizeof(value))
            assert self.library.cublasLtMatmulDescSetAttribute(task, c.c_int(which), c.byref(value), size) == 0
        k, m = a.shape
        n = b.shape[0]
        layouts = [self.layout(m, k), self.layout(k, n), self.layout(m, n)]
        at = [c.c_void_p(x.data.ptr) for x in (a, b, d)]
        one, zero = c.c_float(1), c.c_float(0)
        given = (
            c.byref(one),
            at[0],
            layouts[0],
            at[1],
            layouts[1],
            c.byref(zero),
            at[2],
            layouts[2],
            at[2],
            layouts[2],
        )
        return self.library.cublasLtMatmul(self.handle, task, *given, None, None, c.c_size_t(0), None)


def test_epilogues() -> None:
    import cupy

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 10)).astype("f"), rng.normal(size=(7, 6)).astype("f")
    bias = rng.normal(size=10).astype("f")
    x, y, v, out = cupy.asarray(a), cupy.asarray(b), cupy.asarray(bias), cupy.zeros((7, 10), "f")
    plain, lt = b @ a, Lt()
    digits = {"rtol": 1e-5, "atol": 1e-5}
    assert lt.product(x, y, out, "BIAS", v) == 0
    assert_allclose(out.get(), plain + bias, **digits)
    mask = cupy.full((7, 16), 255, "u1")
    assert lt.product(x, y, out, "RELU_AUX_BIAS", v, mask) == 0
    assert_allclose(out.get(), np.maximum(plain + bias, 0), **digits)
    bits = np.unpackbits(mask.get(), axis=1, bitorder="little")
    assert_array_equal(bits[:, :10], plain + bias > 0)
    assert not bits[:, 10:].any()
    assert lt.product(x, y, out, "DRELU_BGRAD", v, mask) == 0
    gradient = np.where(plain + bias > 0, plain, 0)
    assert_allclose(out.get(), gradient, **digits)
    assert_allclose(v.get(), gradient.sum(0), **digits)
    sums = cupy.zeros(7, "f")
    assert lt.product(x, y, out, "BGRADB", sums) == 0
    assert_allclose(out.get(), plain, **digits)
    assert_allclose(sums.get(), b.sum(1), **digits)


def test_epilogues_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    x, y, out, lt = cupy.ones((6, 10), "f"), cupy.ones((7, 6), "f"), cupy.zeros((7, 10), "f"), Lt()
    invalid, unsupported = 7, 15
    assert lt.product(x, y, out, "BIAS") == invalid
    assert lt.product(x, y, out, "RELU_AUX_BIAS", out, cupy.zeros((7, 2), "u1")) == invalid
    monkeypatch.setenv("CUPY_ON_CPU_LT_REFUSES", "RELU_BIAS,BIAS")
    assert lt.product(x, y, out, "BIAS", out) == unsupported
    assert lt.product(x, y, out, "DEFAULT") == 0


def test_a_function_that_is_not_emulated(capfd: pytest.CaptureFixture[str]) -> None:
    import cupy
    from cupy.cuda import cublas, device

    with pytest.raises(cublas.CUBLASError, match="NOT_SUPPORTED"):
        cublas.sasum(device.get_cublas_handle(), 3, cupy.ones(3, "f").data.ptr, 1, cupy.ones(1, "f").data.ptr)
    assert "cublasSasum_v2 is not emulated" in capfd.readouterr().err


# ---------------------------------------------------------------- where it refuses to be


def test_where_it_refuses_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import cuda_on_cpu
    import cuda_on_cpu_compiler

    assert cuda_on_cpu.refusal() is None
    monkeypatch.setattr(cuda_on_cpu, "has_gpu", lambda: True)
    assert "has an NVIDIA GPU" in str(cuda_on_cpu.refusal())
    monkeypatch.setenv("CUPY_ON_CPU", "force")
    assert cuda_on_cpu.refusal() is None
    monkeypatch.setattr(cuda_on_cpu, "CUPY", "13.6.0")
    assert "cupy-cuda13x 13.6.0, and 14.2.0 is installed" in str(cuda_on_cpu.refusal())
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 9")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_on_cpu_compiler.too_old() == "it needs g++ 11 or newer, and g++ is 9"
    compiler.unlink()
    assert "there is none" in str(cuda_on_cpu.refusal())
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "this is linux on aarch64" in str(cuda_on_cpu.refusal())


def test_switched_off() -> None:
    asked = "import sys; import cupy; print('cuda_on_cpu' in sys.modules, cupy.cuda.is_available())"
    environment = os.environ | {"CUPY_ON_CPU": "0"}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]

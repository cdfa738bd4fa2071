"""The emulated CUDA (tests/cupy_on_cpu) finds the faults that it should."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from processes import run_program
from refusals import fails

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
    """Run a script in another process; return its ``found`` and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", KERNELS + script + "\nprint(json.dumps(found))"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


# ---------------------------------------------------------------- faults of kernels


def test_what_lies_outside_of_an_array_and_a_trap() -> None:
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
found["null"] = attempt(lambda: (kernel("((float*)x)[i] = 0;")((1,), (1,), (np.uintp(0), x)), x)[1])
found["trap"] = attempt(lambda: (kernel("if (i == 3) __trap();")((1,), (4,), (x, x)), x)[1])
found["after"] = attempt(lambda: x + 1)
"""
    found, said = run("at = cupy.zeros(3).data.ptr\n" + script, CUPY_ON_CPU_POOL="0")
    assert found["read next"] == [False] * 99 + [True]
    for where in ("read far", "read before", "written next", "written before", "written far", "freed", "null"):
        assert "cudaErrorIllegalAddress" in found[where], where
    assert "cudaErrorLaunchFailure" in found["trap"]
    assert found["once"] == [7] * 100
    assert found["after"] == list(range(1, 101))
    assert said.count("something was written outside of a block of 400 bytes") == 2
    assert said.count("k: a read or a write outside of every block of memory") == 5


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
        fails(cupy.cuda.driver.CUDADriverError, "InvalidValue", kernel, grid, block, (y,), shared_mem=shared)
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
        fails(runtime.CUDARuntimeError, "InvalidValue", runtime.memcpy, to, source, size, kind)
    assert "a copy from host to device, but the memory is not there" in capfd.readouterr().err


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
    assert run_program(asked, CUPY_ON_CPU="0").split() == ["False", "False"]

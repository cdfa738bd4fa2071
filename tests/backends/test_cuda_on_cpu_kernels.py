"""Kernels and libraries of the emulated CUDA compute what NumPy computes."""

import math
from typing import Any

import numpy as np
import pytest
from jit_help import rounded
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.needs("cuda_on_cpu")


def launch(body: str, x: Any, y: Any, threads: int | None = None, parameters: str = "const {0}* x, {1}* y") -> Any:
    """Launch a block whose threads are numbered by ``i``; return the second array."""
    import cupy

    names = {"f": "float", "d": "double", "i": "int", "I": "unsigned", "e": "__half", "F": "complex<float>"}
    given = parameters.format(names[x.dtype.char], names[y.dtype.char])
    text = "#include <cupy/complex.cuh>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    text += f'extern "C" __global__ void k({given}) {{ int i = threadIdx.x; {body} }}'
    cupy.RawKernel(text, "k")((1,), (threads or len(x),), (x, y))
    return y.get()


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
    assert_array_equal(found, rounded(f, "bfloat16"))
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


def test_products_of_tensor_cores() -> None:
    import cupy
    from cupy.cuda import cublas, device

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 6)).astype("f"), rng.normal(size=(6, 5)).astype("f")
    out, handle = cupy.zeros((4, 5), "f"), device.get_cublas_handle()
    one, zero = np.ones(1, "f"), np.zeros(1, "f")
    for compute, right in [
        (cublas.CUBLAS_COMPUTE_32F_FAST_TF32, rounded(a, "tf32").astype("d") @ rounded(b, "tf32")),
        (cublas.CUBLAS_COMPUTE_32F, a.astype("d") @ b),
    ]:
        x, y = cupy.asarray(a), cupy.asarray(b)
        # rows are columns of the transposed matrices
        sizes = (cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, 5, 4, 6)
        kinds = (y.data.ptr, 0, 5, x.data.ptr, 0, 6, zero.ctypes.data, out.data.ptr, 0, 5)
        cublas.gemmEx(handle, *sizes, one.ctypes.data, *kinds, compute, -1)
        assert_allclose(out.get(), right, rtol=1e-6, atol=1e-6)
    half = cupy.asarray(a.astype("e")) @ cupy.asarray(b.astype("e"))
    assert_allclose(half.get(), a.astype("e").astype("d") @ b.astype("e").astype("d"), rtol=2e-3, atol=2e-3)
    with pytest.raises(cublas.CUBLASError, match="NOT_SUPPORTED"):
        kinds = (y.data.ptr, 0, 5, x.data.ptr, 0, 6, zero.ctypes.data, out.data.ptr, 2, 5)
        cublas.gemmEx(handle, *sizes, one.ctypes.data, *kinds, cublas.CUBLAS_COMPUTE_32F, -1)


def test_a_function_that_is_not_emulated(capfd: pytest.CaptureFixture[str]) -> None:
    import cupy
    from cupy.cuda import cublas, device

    with pytest.raises(cublas.CUBLASError, match="NOT_SUPPORTED"):
        cublas.sasum(device.get_cublas_handle(), 3, cupy.ones(3, "f").data.ptr, 1, cupy.ones(1, "f").data.ptr)
    assert "cublasSasum_v2 is not emulated" in capfd.readouterr().err

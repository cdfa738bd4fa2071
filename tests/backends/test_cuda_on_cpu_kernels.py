"""Kernels and libraries of the emulated CUDA compute what NumPy computes."""

import math
from typing import Any

import numpy as np
import pytest
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
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="getrf"):
        cupy.linalg.inv(cupy.zeros((2, 2)))
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="potrf"):
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

    def layout(self, rows: int, columns: int, count: int) -> Any:
        c = self.c
        sizes = (c.c_uint64(rows), c.c_uint64(columns), c.c_int64(rows))
        made = self.made("cublasLtMatrixLayoutCreate", c.c_int(0), *sizes)
        for which, value in ((5, c.c_int32(count)), (6, c.c_int64(rows * columns))):
            size = c.c_size_t(c.sizeof(value))
            assert self.library.cublasLtMatrixLayoutSetAttribute(made, c.c_int(which), c.byref(value), size) == 0
        return made

    def product(
        self, a: Any, b: Any, d: Any, epilogue: str, bias: Any = None, aux: Any = None, compute: int = 68
    ) -> int:
        """Multiply (k, m) and (n, k), which are transposed matrices; return the status."""
        c = self.c
        task = self.made("cublasLtMatmulDescCreate", c.c_int(compute), c.c_int(0))
        held: list[tuple[int, Any]] = [(7, c.c_uint32(EPILOGUES[epilogue]))]
        held += [] if bias is None else [(8, c.c_uint64(bias.data.ptr))]
        held += [] if aux is None else [(11, c.c_uint64(aux.data.ptr)), (12, c.c_int64(aux.shape[1] * 8))]
        for which, value in held:
            size = c.c_size_t(c.sizeof(value))
            assert self.library.cublasLtMatmulDescSetAttribute(task, c.c_int(which), c.byref(value), size) == 0
        *batch, k, m = a.shape
        n, count = b.shape[-2], math.prod(batch)
        layouts = [self.layout(m, k, count), self.layout(k, n, count), self.layout(m, n, count)]
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


def test_batches_and_tensor_cores_of_cublaslt() -> None:
    import cupy

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 6, 10)).astype("f"), rng.normal(size=(3, 7, 6)).astype("f")
    x, y, out, lt = cupy.asarray(a), cupy.asarray(b), cupy.zeros((3, 7, 10), "f"), Lt()
    assert lt.product(x, y, out, "DEFAULT") == 0
    assert_allclose(out.get(), b @ a, rtol=1e-5, atol=1e-5)
    assert lt.product(x, y, out, "DEFAULT", compute=77) == 0
    assert_allclose(out.get(), tf32(b).astype("d") @ tf32(a).astype("d"), rtol=1e-6, atol=1e-6)


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

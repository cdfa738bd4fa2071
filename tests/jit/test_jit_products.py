"""Products by cuBLASLt and cuBLAS on CuPy's arrays, and what follows them."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from jit_help import close as close_leaves
from jit_help import descent, draw, names, network, rounded
from refusals import fails
from tensors import here

import agrad
from agrad import optim
from agrad.jit.lower.cuda import products as cuda_products
from agrad.jit.lower.cuda import segments as cuda_segments
from agrad.jit.lower.cuda.epilogues import FusedEpilogue
from agrad.jit.lower.cuda.products import cupy_narrow_matmul, epilogues_where_available, product_function
from agrad.jit.passes.precision import NarrowProduct
from agrad.jit.program import Instruction, Variable
from agrad.kernels.cupy import cublaslt
from agrad.kernels.cupy import products as lt_products
from agrad.kernels.cupy.cublaslt import CublasLtError
from agrad.kernels.cupy.products import Lt, gemm, lt_of
from agrad.registry import PRIMITIVES

pytestmark = pytest.mark.needs("cupy")

# ------------------------------------------------------------------ products by cuBLASLt


@pytest.fixture
def lt() -> Iterator[Lt]:
    """cuBLASLt on CuPy's current device, which has refused nothing yet."""
    lt_of.cache_clear()
    found = lt_of(sys.modules["cupy"].cuda.Device().id)
    assert not found.absent
    yield found
    lt_of.cache_clear()


def on_gpu(x: Any) -> Any:
    """Return the array on the GPU, by columns where it lies by columns."""
    import cupy

    x = np.asarray(x)
    return cupy.asarray(x.T).T if x.flags.f_contiguous else cupy.asarray(x)


def function_of(operation: Any, given: Sequence[Any], shape: tuple[int, ...], *dtypes: str) -> Any:
    """Return the function of a product of such arrays, whose results have one shape."""
    variables = [Variable(a.shape, a.dtype, type(a)) for a in given]
    outputs = [Variable(shape, np.dtype(dtype), type(given[0])) for dtype in dtypes or ("float32",)]
    run = product_function(Instruction(operation, tuple(variables), {}, tuple(outputs)))
    assert run is not None
    return run


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert type(got).__module__.startswith("cupy")
    np.testing.assert_allclose(got.get(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_each_layout(lt: Lt, dtype: str) -> None:
    for m, k, n in ((3, 4, 5), (1, 4, 5), (3, 1, 2), (6, 2, 1)):
        x, w, bias = draw(dtype, m, k), draw(dtype, k, n), on_gpu(draw(dtype, n))
        right = x.astype(np.float64) @ w
        for a in in_each_layout(x):
            for b in in_each_layout(w):
                biased = right + bias.get()
                rows = ({}, right), ({"bias": bias}, biased), ({"bias": bias, "relu": True}, np.maximum(biased, 0))
                for settings, expected in rows[: 3 if dtype == "float32" else 1]:
                    found = lt.attempt(a, b, **settings)
                    assert found is not None
                    close(found[0], expected)
                    assert found[0].dtype == dtype


def in_each_layout(x: np.ndarray) -> list[Any]:
    """Return the matrix by rows, by columns, and with gaps between rows, columns, elements."""
    import cupy

    m, n = x.shape
    rows, columns, sparse = (cupy.zeros(shape, x.dtype) for shape in ((m, n + 3), (n, m + 2), (m, 2 * n)))
    rows[:, 1 : n + 1], columns[:, 1 : m + 1], sparse[:, ::2] = on_gpu(x), on_gpu(x).T, on_gpu(x)
    return [on_gpu(x), on_gpu(np.asfortranarray(x)), rows[:, 1 : n + 1], columns[:, 1 : m + 1].T, sparse[:, ::2]]


def test_masks_and_sums(lt: Lt) -> None:
    for m, k, n in ((3, 4, 5), (9, 3, 130), (1, 1, 1)):
        x, w, b = draw("float32", m, k), draw("float32", k, n), draw("float32", n)
        on = on_gpu(x), on_gpu(w)
        right = x @ w + b
        y, mask = lt.product(*on, on_gpu(b), relu=True, mask=True)
        close(y, np.maximum(right, 0))
        np.testing.assert_array_equal(cuda_products._truth(mask, n).get(), right > 0)
        masked = np.where(right > 0, x @ w, 0)
        (g,) = lt.product(*on, mask=mask)
        close(g, masked)
        g, total = lt.product(*on, mask=mask, sums=True)
        close(g, masked)
        close(total, masked.sum(0), 1e-4)
        y, total = lt.product(*on, sums=True)
        close(y, x @ w)
        close(total, w.sum(0))


def test_a_status_is_an_error_that_names_function_and_status(lt: Lt) -> None:
    x, w = on_gpu(draw("float32", 4, 3)), on_gpu(draw("float64", 3, 5))
    fails(CublasLtError, r"cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_\w+ \(\d+\)", lt.product, x, w)
    task = cublaslt.Task(lt.library, cublaslt.COMPUTE_32F, cublaslt.REAL["f"])
    invalid = r"cublasLtMatmulDescSetAttribute: CUBLAS_STATUS_INVALID_VALUE \(7\)"
    fails(CublasLtError, invalid, task.set, cublaslt.AUX_LD, cublaslt.c_int(128))


def test_the_choice_of_an_algorithm_knows_how_the_addresses_are_aligned(
    lt: Lt, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer, told = lt.library.call["MatmulPreferenceSetAttribute"], {}

    def spy(preference: Any, attribute: int, value: Any, size: int) -> None:
        told[attribute] = value._obj.value
        prefer(preference, attribute, value, size)

    monkeypatch.setitem(lt.library.call, "MatmulPreferenceSetAttribute", spy)
    x, w = draw("float32", 4, 3), draw("float32", 3, 5)
    at = on_gpu(np.concatenate([[0, 0], x.reshape(-1), [0], w.reshape(-1)]).astype(np.float32))
    (got,) = lt.product(at[2:14].reshape(4, 3), at[15:30].reshape(3, 5))
    close(got, x @ w)
    assert told == {1: lt_products.WORKSPACE, 5: 4, 6: 8, 7: 256, 8: 256}


# ------------------------------------------------------------------ training steps, whole and with refusals


def trained(backend: str, steps: int = 5) -> tuple[Any, list[np.ndarray]]:
    """Train three layers for some steps; return the program, the loss and the parameters."""
    with agrad.use_backend(backend):
        model = network(6, 5, 4, 3, seed=1)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = agrad.jit(descent(optimizer, lambda x, labels: agrad.cross_entropy(model(x), labels)))
        given = here(draw("float32", 7, 6)), here(np.arange(7) % 3)
        for _ in range(steps):
            loss = step(*given)
        found = [loss.numpy(), *(p.detach().numpy() for p in model.parameters())]
        return step.lower(*given), found


ENDS = [name for name in cublaslt.EPILOGUES if name]


@pytest.mark.needs("cupy_on_cpu")
@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("", ""),
        ("BGRADA", "BGRADA"),
        ("DRELU,DRELU_BGRAD", "DRELU_BGRAD"),
        ("RELU_AUX_BIAS", "RELU_AUX_BIAS"),
        ("RELU_AUX_BIAS,RELU_BIAS", "RELU_AUX_BIAS,RELU_BIAS"),
        ("RELU_AUX_BIAS,DRELU_BGRAD", "DRELU_BGRAD,RELU_AUX_BIAS"),
        ("RELU_AUX_BIAS,DRELU,DRELU_BGRAD", "DRELU,RELU_AUX_BIAS"),
        (",".join(ENDS), "BGRADA,BIAS,DRELU,RELU_AUX_BIAS"),
        ("DEFAULT", "DEFAULT"),
        (",".join(["DEFAULT", *ENDS]), "BGRADA,BIAS,DEFAULT,DRELU,RELU_AUX_BIAS"),
    ],
)
def test_a_step_by_cublaslt_and_by_what_it_refuses(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, refused: str, said: str
) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_REFUSES", refused)
    lowered, found = trained("cupy")
    for a, b in zip(found, trained("numpy")[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert ",".join(sorted({name or "DEFAULT" for name, *_ in lt.refused})) == said
    assert not lt.absent
    between = "".join(re.findall(r"^between graphs.*\n((?:    .*\n)*)", lowered.code, re.M))
    assert ("matmul" in between) == ("DEFAULT" in refused)
    assert "DEFAULT" in refused or "could not be captured" not in lowered.code


@pytest.mark.needs("cupy_on_cpu")
def test_what_is_refused_is_asked_for_once_and_of_its_kind_alone(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_REFUSES", "BGRADA")
    x, w = on_gpu(draw("float32", 4, 3)), on_gpu(draw("float32", 3, 5))
    assert lt.attempt(x, w, sums=True) is None
    monkeypatch.delenv("CUPY_ON_CPU_LT_REFUSES")
    assert lt.attempt(x, w, sums=True) is None
    assert list(lt.refused.values()) == ["cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED (15)"]
    for a, settings in ((x[1:], {"sums": True}), (on_gpu(np.asfortranarray(x.get())), {"sums": True}), (x, {})):
        found = lt.attempt(a, w, **settings)
        assert found is not None
        close(found[0], a.get() @ w.get())
    assert len(lt.refused) == 1


def test_lack_of_memory_is_an_error_and_no_refusal(lt: Lt, cupy: Any) -> None:
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=1 << 16)
    x, w = cupy.ones((300, 2), np.float32), cupy.ones((2, 300), np.float32)
    run = function_of(PRIMITIVES["matmul"], (x, w), (300, 300))
    with cupy.cuda.using_allocator(pool.malloc):
        fails(cupy.cuda.memory.OutOfMemoryError, "Out of memory", run, x, w)
    assert not lt.refused
    close(run(x, w), np.full((300, 300), 2.0))


@pytest.mark.parametrize("positive", [False, True])
def test_zero_counts_as_no_positive_result(lt: Lt, monkeypatch: pytest.MonkeyPatch, positive: bool, cupy: Any) -> None:
    """Where cuBLASLt's mask says otherwise the mask is agrad's own."""
    product = lt.product

    def with_its_mask(*given: Any, **settings: Any) -> Any:
        found = product(*given, **settings)
        if positive and settings.get("mask") is True:
            found[1].fill(255)
        return found

    monkeypatch.setattr(lt, "product", with_its_mask)
    given = [cupy.zeros(shape, np.float32) for shape in ((2, 3), (3, 4), (4,))]
    joined = FusedEpilogue(PRIMITIVES["linear"], relu=True, mask=True)
    _, mask = function_of(joined, given, (2, 4), "float32", "uint8")(*given)
    assert mask.dtype == np.uint8
    assert not mask.any()


@pytest.mark.parametrize("char", ["f", "e", "H"])
def test_a_product_reads_agrads_own_mask(lt: Lt, char: str) -> None:
    assert lt.reads_bits(np.dtype("float32"), np.dtype(char))
    for shape in ((1, 1), (3, 130), (5, 8)):
        y = draw("float32", *shape)
        y.flat[::3], y.flat[::5] = 0.0, np.nan
        bits = lt_products.positive_bits(on_gpu(y))
        assert bits.shape == (shape[0], -(-shape[1] // 128) * 16)
        np.testing.assert_array_equal(cuda_products._truth(bits, shape[1]).get(), y > 0)


def test_a_mask_of_another_layout_is_not_given_to_a_product(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lt_products.positive_bits
    monkeypatch.setattr(lt_products, "positive_bits", lambda y: own(y[:, ::-1]))
    assert not lt.reads_bits(np.dtype("float32"), np.dtype("float32"))


# ------------------------------------------------------------------ precisions


@pytest.mark.parametrize("precision", ["tf32", "float16", "bfloat16", None])
def test_a_jitted_product_is_captured_in_its_precision(lt: Lt, precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_segments, "FEWEST", 1)
    x, w, b = draw("float32", 4, 3), draw("float32", 3, 5), draw("float32", 5)
    f = agrad.jit(lambda x, w, b: (agrad.matmul(x, w), agrad.relu(agrad.linear(x, w, b))), precision=precision)
    for scale in (1, 2, 4):
        given = [on_gpu(a) for a in (scale * x, w, b)]
        product, mapped = f(*given)
        exact = scale * x.astype(np.float64) @ w
        narrow = precision and (scale * rounded(x, precision)).astype(np.float64) @ rounded(w, precision)
        right = exact if narrow is None else narrow
        close(product, right, 1e-6 * scale)
        close(mapped, np.maximum(right + b, 0), 1e-6 * scale)
        assert product.dtype == np.float32
        assert precision is None or np.abs(product.get() - exact).max() > 1e-5
    code = f.lower(*given).code
    assert "graph:" in code
    assert "between graphs" not in code
    assert not lt.refused


def test_cupys_variable_asks_for_tf32(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = draw("float32", 4, 3), draw("float32", 3, 5)
    given = on_gpu(x), on_gpu(w)
    for value, right in (("0", x @ w), ("1", rounded(x, "tf32") @ rounded(w, "tf32"))):
        monkeypatch.setenv("CUPY_TF32", value)
        close(function_of(PRIMITIVES["matmul"], given, (4, 5))(*given), right, 1e-6)


def test_products_of_narrow_factors_by_cublas() -> None:
    for precision in ("float16", "bfloat16", "tf32"):
        x, w = draw("float32", 4, 3), draw("float32", 5, 3).T
        right = rounded(x, precision) @ rounded(w, precision)
        if precision == "tf32":
            got = gemm(on_gpu(x), on_gpu(w), np.dtype("float32"), True)
        else:
            way = cupy_narrow_matmul(precision)
            factors = way.narrow(on_gpu(x)), way.narrow(on_gpu(w))
            got = way.product(*factors)  # type: ignore[misc]
            batch = way.product(factors[0][None], factors[1])  # type: ignore[misc]
            close(batch[0], right, 1e-6)
        close(got, right, 1e-6)
        assert got.dtype == np.float32


def test_narrow_products_by_cublaslt_and_by_what_it_refuses(lt: Lt) -> None:
    """With a bias and without; the second time the product is refused."""
    x, w, b = (draw("float32", *shape) for shape in ((4, 3), (3, 5), (5,)))
    for precision in ("float16", "bfloat16"):
        way = cupy_narrow_matmul(precision)
        factors = [way.narrow(on_gpu(a)) for a in (x, w)]
        right = rounded(x, precision) @ rounded(w, precision)
        for name, more, expected in (("matmul", [], right), ("linear", [on_gpu(b)], right + b)):
            given = [*factors, *more]
            product = NarrowProduct(name, way.product, precision)  # type: ignore[arg-type]
            run = function_of(product, given, (4, 5))
            close(run(*given), expected, 1e-6)
            assert not lt.refused
            settings = {"dtype": np.dtype("float32"), "tensor_float": False}
            lt.refused = {lt_products._key(*factors, bias, **settings): "" for bias in (None, b)}
            close(run(*given), expected, 1e-6)
            lt.refused = {}


def narrow_results(x: Any, w: Any, c: Any, b: Any, g: Any) -> Any:
    """Products that only products read: of rows, batches and views, with a ReLU and its derivative."""

    def f(x: Any, w: Any) -> Any:
        y = agrad.relu(agrad.matmul(agrad.matmul(x, w), c))
        z = agrad.permute_dims(agrad.reshape(agrad.matmul(y, w), (*y.shape[:2], 2, -1)), (0, 2, 1, 3))
        return agrad.matmul(agrad.reshape(agrad.matmul(z, agrad.matrix_transpose(z)), (-1, y.shape[1])), b)

    y, pull = agrad.vjp(f, x, w)
    return y, *pull(g)


def affine_results(x: Any, w: Any, c: Any, b: Any, g: Any) -> Any:
    return agrad.matmul(agrad.relu(agrad.linear(x, w, b[0, : w.shape[1]])), c)


@pytest.mark.needs("cupy_on_cpu")
@pytest.mark.parametrize("refused", ["", "RELU_AUX", "DRELU", "DEFAULT,RELU,RELU_AUX,DRELU"])
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_products_that_only_products_read_are_rounded_once(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, precision: Any, refused: str
) -> None:
    """The numbers are those of float32 products and roundings, bit for bit."""
    monkeypatch.setenv("CUPY_ON_CPU_LT_REFUSES", refused)
    given = [on_gpu(draw("float32", *shape)) for shape in ((2, 5, 4), (4, 4), (4, 4), (5, 6), (20, 6))]
    for f, wide_bias, expected in (
        (narrow_results, "0", {"matmul_relu_mask_rounded", "matmul_masked_rounded", "matmul_rounded"}),
        (affine_results, "0", set()),
        (affine_results, "1", {"linear_relu_rounded"}),
    ):
        monkeypatch.setenv("CUPY_ON_CPU_LT_WIDE_BIAS", wide_bias)
        lt.known.clear()
        lt.refused.clear()
        jitted = agrad.jit(f, precision=precision)
        with monkeypatch.context() as patch:
            patch.setattr(cuda_products, "with_narrow_results", lambda program, adds_bias: program)
            right = agrad.jit(f, precision=precision)(*given)
        made = names(jitted.lower(*given).stages[-1][1])
        assert {name for name in made if name.endswith("_rounded")} == expected
        for _ in range(3):
            close_leaves(jitted(*given), right, rtol=0)


@pytest.mark.needs("cupy_on_cpu")
@pytest.mark.parametrize("char", ["e", "H"])
def test_a_bias_is_added_before_the_rounding_only_if_the_device_does(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, char: str
) -> None:
    dtype, way = np.dtype(char), cupy_narrow_matmul({"e": "float16", "H": "bfloat16"}[char])
    assert not lt.adds_before_rounding(dtype)
    monkeypatch.setenv("CUPY_ON_CPU_LT_WIDE_BIAS", "1")
    lt.known.clear()
    lt.refused.clear()
    assert lt.adds_before_rounding(dtype)
    product = lt.product

    def early(x: Any, weight: Any, bias: Any, **settings: Any) -> Any:
        """Round the bias first, as a library would that ignores its dtype."""
        narrow = way.narrow(bias)
        wide = narrow.astype(np.float32) if char == "e" else (narrow.astype(np.uint32) << 16).view(np.float32)
        return product(x, weight, wide, **settings)

    monkeypatch.setattr(lt, "product", early)
    lt.known.clear()
    assert not lt.adds_before_rounding(dtype)


def test_bfloat16_is_rounded_to_the_nearest() -> None:
    rng = np.random.default_rng(0)
    ties = (rng.integers(0, 1 << 16, 1000, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 3.4e38, 1e-45, -1e-40], np.float32)
    # a NaN whose bits below are all ones must not become an infinity, nor a zero of the other sign
    worst = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    x = np.concatenate([draw("float32", 1000), ties, special, worst])
    got = (cupy_narrow_matmul("bfloat16").narrow(on_gpu(x)).get().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    real = ~np.isnan(x)
    np.testing.assert_array_equal(got[real], rounded(x, "bfloat16")[real])
    finite = real & np.isfinite(got)
    assert np.all(np.abs(got[finite] - x[finite]) <= np.maximum(np.abs(x[finite]) * 2.0**-8, 1e-40))


# ------------------------------------------------------------------ without cuBLASLt


@pytest.fixture
def without_cublaslt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cublaslt, "library_name", lambda: "libcublasLt.so.0")
    lt_of.cache_clear()
    cuda_products._warn.cache_clear()
    yield
    lt_of.cache_clear()
    cuda_products._warn.cache_clear()


@pytest.mark.usefixtures("without_cublaslt")
def test_its_absence_is_said_once_and_stands_in_the_code() -> None:
    with pytest.warns(RuntimeWarning, match=r"libcublasLt\.so\.0.*pip install nvidia-cublas") as warned:
        lowered, found = trained("cupy")
    assert len([w for w in warned if w.category is RuntimeWarning]) == 1
    assert len(re.findall(r"# cuBLASLt is not available \(.*libcublasLt\.so\.0", lowered.code)) == 1
    for a, b in zip(found, trained("numpy")[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert "libcublasLt" in trained("cupy", 1)[0].code  # without another warning, which would be an error


@pytest.mark.usefixtures("without_cublaslt")
def test_a_program_without_products_does_not_miss_it() -> None:
    f = agrad.jit(lambda x: agrad.sum(x * x))
    x = on_gpu(draw("float32", 4, 3))
    assert abs(f(x).item() - float((x.get() ** 2).sum())) < 1e-4
    assert "cuBLASLt" not in f.lower(x).code


def test_products_are_joined_where_cublaslt_computes_them(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(backend: str) -> set[str]:
        place = on_gpu if backend == "cupy" else np.asarray
        args = [place(draw("float32", *shape)) for shape in ((4, 3), (3, 5), (5,))]
        f = agrad.jit(lambda x, w, b: agrad.relu(agrad.linear(x, w, b)))
        return {i.name for i in epilogues_where_available(f.lower(*args).stages[0][1]).instructions}

    assert names("cupy") == {"linear_relu"}
    assert names("numpy") == {"linear", "relu"}
    monkeypatch.setattr(lt, "absent", "it is not there")
    cuda_products._warn.cache_clear()
    with pytest.warns(RuntimeWarning, match="it is not there"):
        assert names("cupy") == {"linear", "relu"}
    cuda_products._warn.cache_clear()

"""The fused CUDA kernels without a GPU: nvcc compiles their text, and a C++ compiler runs it on the CPU.

``cuda_on_cpu`` stands in for CuPy. The same kernels on a GPU are compared with their generic rules elsewhere.
"""

import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cuda_on_cpu
import numpy as np
import pytest

from agrad.backends import cupy_kernels
from agrad.registry import KERNELS

NVCC = shutil.which("nvcc")


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc here to compile CUDA with")
@pytest.mark.parametrize("real", ["float", "double"])
def test_the_text_is_cuda(tmp_path: Path, real: str) -> None:
    source = tmp_path / "kernels.cu"
    source.write_text(cuda_on_cpu.cuda_text(real))
    done = subprocess.run(
        [NVCC, "-ptx", "-std=c++17", "-Werror", "all-warnings", "-o", source.with_suffix(".ptx"), source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert source.with_suffix(".ptx").read_text().count(".entry") == len(cuda_on_cpu.ELEMENTWISE) + 6


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict:
    if cuda_on_cpu.COMPILER is None:
        pytest.skip("there is no C++ compiler here to run the kernels' text with")
    folder = tmp_path_factory.mktemp("kernels")
    return {real[0]: cuda_on_cpu.host_library(folder, real) for real in ("float", "double")}


@pytest.fixture
def call(libraries: dict, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Call a kernel by name and part, as the engine would: guard first, then the arrays in order."""
    fake = cuda_on_cpu.fake_cupy(libraries)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    caches = (cupy_kernels._elementwise, cupy_kernels._rows, cupy_kernels._row_module)
    for made in caches:
        made.cache_clear()

    def run(name: str, part: str, /, *arrays: np.ndarray | None, **settings: object) -> object:
        filed = KERNELS["cupy", name, part]
        own = [a if a is None else a.view(cuda_on_cpu.Array) for a in arrays]
        assert len(own) == len(filed.names) and set(settings) <= set(filed.settings)
        assert filed.when(*own) and filed.when(**dict(zip(filed.names, own, strict=True)), **settings)
        fake.launches.clear()
        result = filed.function(*own, **settings)
        assert len(fake.launches) == 1
        return result

    yield run
    for made in caches:
        made.cache_clear()


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return np.dtype(request.param)


def draw(dtype: np.dtype, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape, scale=3).astype(dtype)


def close(got: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> None:
    assert got.dtype == dtype
    digits = 40 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, np.asarray(expected, dtype=dtype), rtol=digits, atol=digits)


def slope(f: Callable, x: np.ndarray) -> np.ndarray:
    """df/dx of an elementwise function of float64 numbers, by a complex step or a central difference."""
    h = 1e-5
    return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)


def gelu(x: np.ndarray) -> np.ndarray:
    return np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ELEMENTWISE_CASES = {
    "relu": (lambda x: np.maximum(x, 0), {}, "y"),
    "tanh": (np.tanh, {}, "y"),
    "sigmoid": (sigmoid, {}, "y"),
    "gelu": (gelu, {"approximate": False}, "x"),
    "gelu_tanh": (gelu_tanh, {"approximate": True}, "x"),
}


@pytest.mark.parametrize("case", ELEMENTWISE_CASES)
def test_activations(call: Callable, dtype: np.dtype, case: str) -> None:
    function, settings, saved = ELEMENTWISE_CASES[case]
    name = case.removesuffix("_tanh")
    x = draw(dtype, 5, 7)
    wide = x.astype(np.float64)
    y = function(wide).astype(dtype)
    if ("cupy", name, "forward") in KERNELS:
        close(call(name, "forward", x, **settings), y, dtype)
    g = draw(dtype, 7, 5).T  # not contiguous
    got = call(name, "vjp:x", g, y if saved == "y" else x, **settings)
    digits = 2e-6 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(got, g * slope(function, wide), rtol=1e-8, atol=digits)


def test_activations_keep_their_form_far_out(call: Callable, dtype: np.dtype) -> None:
    x = np.array([-1000.0, -0.0, 1000.0, np.nan, np.inf, -np.inf], dtype=dtype)
    np.testing.assert_array_equal(call("sigmoid", "forward", x), np.array([0, 0.5, 1, np.nan, 1, 0], dtype))
    zero = np.zeros_like(x)
    np.testing.assert_array_equal(call("relu", "vjp:x", x, zero), zero)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1,), 0),
        ((7,), 0),
        ((3, 10), 1),
        ((3, 10), 0),
        ((2, 5, 3), 1),
        ((2, 600), 1),
        ((300, 2), 1),
        ((33, 9), 1),
    ],
)
def test_softmax_and_log_softmax(call: Callable, dtype: np.dtype, shape: tuple, axis: int) -> None:
    x, g = draw(dtype, *shape), draw(dtype, *shape)[::-1]
    log_y = log_softmax(x, axis)
    y = np.exp(log_y)
    close(call("softmax", "forward", x, axis=axis), y, dtype)
    close(call("log_softmax", "forward", x, axis=axis), log_y, dtype)
    dot = (g * y).sum(axis=axis, keepdims=True, dtype=np.float64)
    close(call("softmax", "vjp:x", g, y.astype(dtype), axis=axis), y * (g - dot), dtype)
    rounded = log_y.astype(dtype)
    total = g.sum(axis=axis, keepdims=True, dtype=np.float64)
    expected = g - np.exp(rounded.astype(np.float64)) * total
    close(call("log_softmax", "vjp:x", g, rounded, axis=axis), expected, dtype)


def test_softmax_of_rows_that_overflow(call: Callable, dtype: np.dtype) -> None:
    x = np.array([[1e4, -1e4, 1e4], [-np.inf, 0, -np.inf], [-np.inf] * 3, [np.nan, 0, 0]], dtype=dtype)
    got = call("softmax", "forward", x, axis=1)
    expected = [[0.5, 0, 0.5], [0, 1, 0], [np.nan] * 3, [np.nan] * 3]
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    loss, lse = call("softmax_cross_entropy", "forward", x, np.array([0, 1, 2, 0]))
    assert math.isclose(loss[0], math.log(2), rel_tol=1e-6)
    np.testing.assert_array_equal(lse[1:], np.array([0, -np.inf, np.nan], dtype))
    assert loss[1] == 0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 10), (40, 3), (2, 700)])
@pytest.mark.parametrize("integers", ["int64", "uint8", "int32"])
def test_cross_entropy(call: Callable, dtype: np.dtype, rows: int, columns: int, integers: str) -> None:
    x = draw(dtype, rows, columns)
    labels = (np.arange(rows) * 7 % columns).astype(integers)
    log_y = log_softmax(x, 1)
    loss, lse = call("softmax_cross_entropy", "forward", x, labels)
    chosen = np.arange(rows), labels
    close(loss, -log_y[chosen], dtype)
    close(lse, (x - log_y)[:, 0], dtype)
    one_hot = np.zeros((rows, columns))
    one_hot[chosen] = 1
    g_loss, g_lse = draw(dtype, rows), draw(dtype, rows, 1)[:, 0]
    y = np.exp(x - lse[:, None].astype(np.float64))
    of_loss, of_lse = g_loss[:, None] * (y - one_hot), g_lse[:, None] * y
    for given, expected in (
        ((g_loss, g_lse), of_loss + of_lse),
        ((g_loss, None), of_loss),
        ((None, g_lse), of_lse),
    ):
        close(call("softmax_cross_entropy", "vjp:x", *given, x, labels, lse), expected, dtype)


def test_cross_entropy_beside_a_large_logit(call: Callable, dtype: np.dtype) -> None:
    x = np.array([[1e30, 1e30, 0], [-1e30, -1e30, -1e30]], dtype=dtype)
    labels = np.array([0, 2])
    loss, lse = call("softmax_cross_entropy", "forward", x, labels)
    close(loss, np.log([2.0, 3.0]), dtype)
    got = call("softmax_cross_entropy", "vjp:x", np.array([1, 3], dtype), None, x, labels, lse)
    close(got, np.array([[-0.5, 0.5, 0], [1, 1, -2]]), dtype)


def test_a_label_out_of_range_reads_nothing_outside(call: Callable, dtype: np.dtype) -> None:
    loss, lse = call("softmax_cross_entropy", "forward", draw(dtype, 4, 3), np.array([0, 3, -1, 2**40]))
    assert np.isfinite(loss[0]) and np.isnan(loss[1:]).all() and np.isfinite(lse).all()


def test_guards_leave_the_rest_to_the_generic_code() -> None:
    def applies(name: str, part: str, *arrays: np.ndarray) -> bool:
        return KERNELS["cupy", name, part].when(*arrays)

    x = draw(np.dtype(np.float32), 3, 4)
    for name in ("sigmoid", "gelu", "softmax", "log_softmax"):
        assert applies(name, "forward", x)
        for other in (x.astype(np.float16), x.astype(np.complex64), x.astype(np.int32), x[:0]):
            assert not applies(name, "forward", other)
    for name in ("relu", "tanh", "sigmoid", "gelu", "softmax", "log_softmax"):
        assert applies(name, "vjp:x", x, x)
        assert not applies(name, "vjp:x", x.astype(np.float64), x) and not applies(name, "vjp:x", x[:1], x)
    labels = np.zeros(3, np.int64)
    assert applies("softmax_cross_entropy", "forward", x, labels)
    assert not applies("softmax_cross_entropy", "forward", x, labels[:2])
    assert not applies("softmax_cross_entropy", "forward", x, labels.astype(np.float32))
    assert not applies("softmax_cross_entropy", "forward", x[None], labels)
    assert not applies("softmax_cross_entropy", "vjp:x", x[:, 0].astype(np.float64), None, x, labels, x[:, 0])
    assert not applies("sgd_update", "forward", x, x, x.astype(np.float64))
    assert not applies("adam_update", "forward", x, x, x, x[:2])


def optimizer_results(dtype: np.dtype, make: Callable, grads: list[np.ndarray], start: np.ndarray) -> list:
    import torch

    p = torch.tensor(start)
    optimizer = make(torch, [p])
    results = []
    for g in grads:
        p.grad = torch.tensor(g)
        optimizer.step()
        results.append(p.numpy().copy())
    return results


SGD = [
    {},
    {"weight_decay": 0.1},
    {"maximize": True},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"momentum": 0.8, "dampening": 0.3},
    {"momentum": 0.8, "maximize": True},
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("options", SGD, ids=str)
def test_sgd_is_pytorchs(call: Callable, dtype: np.dtype, options: dict, donate: bool) -> None:
    start, grads = draw(dtype, 4, 3), [draw(dtype, 4, 3, k)[..., 0] for k in (1, 2, 3)]
    wanted = optimizer_results(dtype, lambda torch, ps: torch.optim.SGD(ps, lr=0.1, **options), grads, start)
    every = {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0, **options}
    p, v = start.copy(), None
    for g, expected in zip(grads, wanted, strict=True):
        before, kept, old_v = p.copy(), g.copy(), v
        new, v = call("sgd_update", "forward", p, g, v, lr=0.1, donate=donate, **every)
        np.testing.assert_array_equal(g, kept)
        assert np.shares_memory(new, p) == donate
        assert (v is None) == (every["momentum"] == 0)
        if donate and old_v is not None:
            assert np.shares_memory(v, old_v)
        if not donate:
            np.testing.assert_array_equal(p, before)
        close(new, expected, dtype)
        p = new


@pytest.mark.needs("torch")
@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_is_pytorchs(call: Callable, dtype: np.dtype, decoupled: bool, weight_decay: float, donate: bool) -> None:
    start, grads = draw(dtype, 4, 3), [draw(dtype, 4, 3, k)[..., 0] for k in (1, 2, 3)]
    options = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": weight_decay}

    def make(torch: object, ps: list) -> object:
        return (torch.optim.AdamW if decoupled else torch.optim.Adam)(ps, **options)

    wanted = optimizer_results(dtype, make, grads, start)
    p, m, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
    same = {"lr": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6}
    same |= {"weight_decay": weight_decay, "decoupled": decoupled}
    for step, (g, expected) in enumerate(zip(grads, wanted, strict=True), 1):
        old = p, m, v
        copies = [a.copy() for a in old]
        p, m, v = call("adam_update", "forward", p, g, m, v, step=step, donate=donate, **same)
        for new, before, copy in zip((p, m, v), old, copies, strict=True):
            assert np.shares_memory(new, before) == donate
            if not donate:
                np.testing.assert_array_equal(before, copy)
        close(p, expected, dtype)

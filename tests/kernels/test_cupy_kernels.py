"""CuPy's fused kernels: their guards, their text, what they compute, and random programs of them."""

import math
import os
from collections.abc import Callable
from itertools import compress, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker import host
from kernel_pairs import completed, generic
from nvcc import ptx

import agrad
from agrad import nn
from agrad.backends import load
from agrad.kernels.cupy import kernels as cupy_kernels  # noqa: F401 - the kernels are filed without CuPy too
from agrad.kernels.cupy.source import ELEMENTWISE, Elementwise, masked, row_source
from agrad.registry import KERNELS, PRIMITIVES


def loop(name: str, kernel: Elementwise) -> str:
    """An elementwise kernel as CUDA of its own."""
    arguments, locals_ = [], []
    for text, const in ((kernel.inputs, "const "), (kernel.outputs, "")):
        for part in text.split(","):
            *raw, kind, argument = part.split()
            if raw:  # the kernel indexes the array itself
                arguments.append(f"{const}{kind}* {argument}")
                continue
            arguments.append(f"{const}{kind}* {argument}_")
            locals_.append(f"{const}{kind}& {argument} = {argument}_[i];")
    return (
        f'extern "C" __global__ void each_{name}(long long count, {", ".join(arguments)}) {{\n'
        "long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"if (i < count) {{ {' '.join(locals_)}\n{kernel.body} }} }}\n"
    )


@pytest.mark.parametrize("real", ["float", "double"])
def test_the_text_is_cuda(tmp_path: Path, real: str) -> None:
    types = "typedef long long int64;\ntypedef unsigned int uint32;\ntypedef unsigned short uint16;\n"
    types += "typedef unsigned char uint8;\ntypedef unsigned long long uint64;\ntypedef int int32;\n"
    guarded = [loop(f"{name}_{k}", masked(name, k)) for name in ("product", "tanh_vjp") for k in (False, True)]
    text = row_source(real) + types + "".join([loop(*pair) for pair in ELEMENTWISE.items()] + guarded)
    assert ptx(text, tmp_path).count(".entry") == len(ELEMENTWISE) + 9


def apply(name: str, part: str, /, *arrays: object, **settings: object) -> object:
    """Call a kernel by name and part, as the engine would: guard first, then the arrays in order."""
    filed = KERNELS["cupy", name, part]
    assert len(arrays) == len(filed.names)
    assert set(settings) <= set(filed.settings)
    assert filed.when(*arrays)
    return filed.function(*arrays, **settings)


def call(name: str, part: str, /, *arrays: np.ndarray | None, **settings: object) -> object:
    """The same with NumPy's arrays; gives such."""
    backend = load("cupy")
    out = apply(name, part, *[a if a is None else backend.from_host(a, None) for a in arrays], **settings)
    return tuple(map(host, out)) if isinstance(out, tuple) else host(out)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return np.dtype(request.param)


def draw(dtype: np.dtype, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape, scale=3).astype(dtype)


def close(got: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> None:
    assert got.dtype == dtype
    digits = 40 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, np.asarray(expected, dtype=dtype), rtol=digits, atol=digits)


def check(name: str, dtype: np.dtype, values: dict[str, np.ndarray], **options: object) -> None:
    """Compare the kernels of an operation with the generic code on NumPy, in double precision."""
    wide = completed(name, {n: a.astype(float) if a.dtype == dtype else a for n, a in values.items()}, **options)
    cotangents = [n for n in KERNELS["cupy", name, "vjp:x"].names if n.startswith("g_") or n == "g"]
    like, compared = {"g": "y", "g_loss": "loss", "g_lse": "lse"}, 0
    for part, has in [("forward", ()), *(("vjp:x", has) for has in product((False, True), repeat=len(cotangents)))]:
        if ("cupy", name, part) not in KERNELS or (part == "vjp:x" and not any(has)):
            continue
        given = {g: draw(dtype, *wide[like[g]].shape[::-1]).T.astype(float) for g in compress(cotangents, has)}
        known = wide | dict.fromkeys(cotangents) | given
        kernel, right = KERNELS["cupy", name, part], generic(name, part, known, **options)
        arrays = [a if a is None or a.dtype != float else a.astype(dtype) for a in (known[n] for n in kernel.names)]
        got = call(name, part, *arrays, **{n: v for n, v in options.items() if n in kernel.settings})
        for mine, other in zip(got, right, strict=True) if isinstance(got, tuple) else [(got, right)]:
            close(mine, other, dtype)
            compared += 1
    assert compared


AXES = [((1,), 0), ((7,), 0), ((3, 10), 1), ((3, 10), 0), ((2, 5, 3), 1), ((2, 600), 1), ((300, 2), 1), ((33, 9), 1)]
OF_X: list[tuple[str, tuple[int, ...], dict]] = [
    *((name, (5, 7), {}) for name in ("relu", "tanh", "sigmoid")),
    *(("gelu", (5, 7), {"approximate": approximate}) for approximate in (False, True)),
    *((name, shape, {"axis": axis}) for name in ("softmax", "log_softmax") for shape, axis in AXES),
]


@pytest.mark.needs("cupy")
@pytest.mark.parametrize(("name", "shape", "options"), OF_X)
def test_activations_and_softmax(dtype: np.dtype, name: str, shape: tuple[int, ...], options: dict) -> None:
    check(name, dtype, {"x": draw(dtype, *shape)}, **options)


@pytest.mark.needs("cupy")
def test_activations_keep_their_form_far_out(dtype: np.dtype) -> None:
    x = np.array([-1000.0, -0.0, 1000.0, np.nan, np.inf, -np.inf], dtype=dtype)
    np.testing.assert_array_equal(call("sigmoid", "forward", x), np.array([0, 0.5, 1, np.nan, 1, 0], dtype))
    zero = np.zeros_like(x)
    np.testing.assert_array_equal(call("relu", "vjp:x", x, zero), zero)


@pytest.mark.needs("cupy")
def test_softmax_of_rows_that_overflow(dtype: np.dtype) -> None:
    x = np.array([[1e4, -1e4, 1e4], [-np.inf, 0, -np.inf], [-np.inf] * 3, [np.nan, 0, 0]], dtype=dtype)
    got = call("softmax", "forward", x, axis=1)
    expected = [[0.5, 0, 0.5], [0, 1, 0], [np.nan] * 3, [np.nan] * 3]
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    loss, lse = call("softmax_cross_entropy", "forward", x, np.array([0, 1, 2, 0]))
    assert math.isclose(loss[0], math.log(2), rel_tol=1e-6)
    np.testing.assert_array_equal(lse[1:], np.array([0, np.nan, np.nan], dtype))
    assert loss[1] == 0


MEAN = {"ignore": None, "smoothing": 0.0, "reduction": "mean"}


@pytest.mark.needs("cupy")
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 10), (40, 3), (2, 700)])
@pytest.mark.parametrize("integers", ["int64", "uint8", "int32"])
def test_cross_entropy(dtype: np.dtype, rows: int, columns: int, integers: str) -> None:
    labels = (np.arange(rows) * 7 % columns).astype(integers)
    check("softmax_cross_entropy", dtype, {"x": draw(dtype, rows, columns), "labels": labels})


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("ignore", "smoothing"), [(None, 0.0), (1, 0.0), (None, 0.1), (1, 0.25), (-100, 1.0)])
@pytest.mark.parametrize(("rows", "columns", "integers"), [(1, 1, "int8"), (5, 10, "uint64"), (40, 3, "int16"),
                                                           (2, 700, "uint16"), (6000, 7, "int64")])  # fmt: skip
def test_cross_entropy_with_its_reduction(
    dtype: np.dtype, rows: int, columns: int, integers: str, ignore: int | None, smoothing: float, reduction: str
) -> None:
    labels = (np.arange(rows) * 7 % columns).astype(integers)
    labels[0] = columns - 1
    if rows > 1 and ignore is not None and not integers.startswith("u"):
        labels[1::3] = ignore
    elif ignore == -100:
        ignore = None
    options = {"ignore": ignore, "smoothing": smoothing, "reduction": reduction}
    check("cross_entropy_of_labels", dtype, {"x": draw(dtype, rows, columns), "labels": labels}, **options)


@pytest.mark.needs("cupy")
def test_cross_entropy_adds_in_the_same_order_every_time(dtype: np.dtype) -> None:
    x, labels = draw(dtype, 5000, 9), np.arange(5000) % 9
    found = {float(call("cross_entropy_of_labels", "forward", x, labels, **MEAN)[0]) for _ in range(4)}
    assert len(found) == 1
    rows = call("cross_entropy_of_labels", "forward", x, labels, **{**MEAN, "reduction": "none"})[0]
    close(np.array(found.pop(), dtype), rows.astype(float).mean(), dtype)


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_rows_that_are_ignored_change_nothing(dtype: np.dtype, smoothing: float) -> None:
    x = np.array([[1, 2, 3], [np.nan] * 3, [np.inf, 0, -np.inf], [-np.inf, 0, 1]], dtype)
    labels, options = np.array([2, 9, 9, 1]), {**MEAN, "ignore": 9, "smoothing": smoothing}
    loss, divisor = call("cross_entropy_of_labels", "forward", x, labels, **options)
    right = call("cross_entropy_of_labels", "forward", x[[0, 3]], labels[[0, 3]], **options)
    np.testing.assert_array_equal((loss, divisor), right)
    assert divisor == 2 and np.isfinite(loss) == (smoothing == 0)

    def slopes(x: np.ndarray, labels: np.ndarray, divisor: np.ndarray) -> np.ndarray:
        given = np.array(2, dtype), x, labels, divisor
        return call("cross_entropy_of_labels", "vjp:x", *given, ignore=9, smoothing=smoothing)

    found = slopes(x, labels, divisor)
    assert np.isfinite(found).all() and not found[1:3].any()
    np.testing.assert_array_equal(found, slopes(x[::-1], labels[::-1], divisor)[::-1])
    loss, divisor = call("cross_entropy_of_labels", "forward", x, np.full(4, 9), **options)
    assert np.isnan(loss) and divisor == 0
    assert not slopes(x, np.full(4, 9), divisor).any()


@pytest.mark.needs("cupy")
def test_cross_entropy_beside_a_large_logit(dtype: np.dtype) -> None:
    x = np.array([[1e30, 1e30, 0], [-1e30, -1e30, -1e30]], dtype=dtype)
    labels = np.array([0, 2])
    loss, lse = call("softmax_cross_entropy", "forward", x, labels)
    close(loss, np.log([2.0, 3.0]), dtype)
    got = call("softmax_cross_entropy", "vjp:x", np.array([1, 3], dtype), None, x, labels, lse)
    close(got, np.array([[-0.5, 0.5, 0], [1, 1, -2]]), dtype)


@pytest.mark.needs("cupy")
def test_a_label_out_of_range_reads_nothing_outside(dtype: np.dtype) -> None:
    loss, lse = call("softmax_cross_entropy", "forward", draw(dtype, 4, 3), np.array([0, 3, -1, 2**40]))
    assert np.isfinite(loss[0]) and np.isnan(loss[1:]).all() and np.isfinite(lse).all()


def test_guards_leave_the_rest_to_the_generic_code() -> None:
    def applies(name: str, part: str, *arrays: np.ndarray) -> bool:
        return KERNELS["cupy", name, part].when(*arrays)

    x = draw(np.dtype(np.float32), 3, 4)
    for name in ("relu", "sigmoid", "gelu", "softmax", "log_softmax"):
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
    assert applies("cross_entropy_of_labels", "forward", x, labels)
    assert not applies("cross_entropy_of_labels", "vjp:x", None, x, labels, x[0, 0])
    assert not applies("softmax_cross_entropy", "vjp:x", x[:, 0].astype(np.float64), None, x, labels, x[:, 0])
    assert not applies("sgd_update", "forward", x, x, x.astype(np.float64))
    assert not applies("adam_update", "forward", x, x, x, x[:2])


SGD = {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0, "maximize": False}
ADAM = {"rate": 0.01, "floor": 1e-6, "beta1": 0.8, "beta2": 0.95, "decay": 0.0, "shrink": None}
UPDATES = [
    ("sgd_update", SGD),
    ("sgd_update", {**SGD, "weight_decay": 0.1}),
    ("sgd_update", {**SGD, "maximize": True}),
    ("sgd_update", {**SGD, "momentum": 0.9}),
    ("sgd_update", {**SGD, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("sgd_update", {**SGD, "momentum": 0.8, "dampening": 0.3}),
    ("sgd_update", {**SGD, "momentum": 0.8, "maximize": True}),
    ("adam_update", ADAM),
    ("adam_update", {**ADAM, "decay": 0.1}),
    ("adam_update", {**ADAM, "shrink": 0.999}),
]


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_updates_are_the_generic_code(dtype: np.dtype, name: str, options: dict, donate: bool) -> None:
    """In double precision on NumPy."""
    backend, names = load("cupy"), PRIMITIVES[name].arrays
    state = [draw(dtype, 4, 3), *[np.zeros((4, 3), dtype)] * (len(names) - 2)]
    on_gpu = [backend.from_host(a, None) for a in state]
    for step in (1, 2, 3):
        g = draw(dtype, 4, 3, step)[..., 0]
        first = {"dampening": 0.0} if step == 1 else {}
        settings = {**options, **(first if name == "sgd_update" else {"step": step})}
        wide = [a.astype(np.float64) for a in (state[0], g, *state[1:])]
        state = generic(name, "forward", dict(zip(names, wide, strict=True)), donate=False, **settings)
        before, given = [host(a) for a in on_gpu], backend.from_host(g, None)
        made = apply(name, "forward", on_gpu[0], given, *on_gpu[1:], donate=donate, **settings)
        np.testing.assert_array_equal(host(given), g)
        for new, old, copy, right in zip(made, on_gpu, before, state, strict=True):
            idle = new is made[1] and not options.get("momentum", True)
            assert backend.shares_memory(new, old) == (donate or idle)
            if not donate:
                np.testing.assert_array_equal(host(old), copy)
            close(host(new), right, dtype)
        on_gpu = list(made)


# ------------------------------------------------------------------ random programs


SEEDS = range(int(os.environ.get("FUSED_PROGRAMS", "12")))
Step = Callable[[Any, Any], Any]
"""From the state, an array of shape (rows, columns), and a weight of shape (columns, columns) to the next state."""


def slices(rng: np.random.Generator) -> Step:
    a, b = sorted(rng.integers(1, 5, 2))
    parts = [(..., slice(a)), (..., slice(int(b), None)), (..., slice(None, None, -1)), (slice(0, 1),), (..., int(a))]
    chosen = [parts[k] for k in rng.permutation(len(parts))[: rng.integers(1, 5)]]

    def step(x: Any, w: Any) -> Any:
        return x * 0.5 + sum(agrad.sum(agrad.tanh(x[index])) * (k + 1) for k, index in enumerate(chosen)) * 0.1

    return step


def windows(rng: np.random.Generator) -> Step:
    kernel, stride = (int(n) for n in rng.integers(1, 4, 2))

    def step(x: Any, w: Any) -> Any:
        rows, columns = x.shape
        pooled = nn.functional.max_pool2d(agrad.reshape(agrad.concat([x, x @ w], axis=0), (1, 2, rows, columns)),
                                          (min(kernel, rows), kernel), stride)  # fmt: skip
        return x + agrad.mean(pooled) + pooled[0, 0, 0, 0]

    return step


def chosen_by_mask(rng: np.random.Generator) -> Step:
    limit, kind = float(rng.normal()), int(rng.integers(4))
    inner = [agrad.log, agrad.sqrt, lambda y: 1 / y, lambda y: agrad.exp(y * 800)][kind]
    return lambda x, w: agrad.where(x > abs(limit), agrad.tanh(inner(agrad.where(x > abs(limit), x, -x))) * x, x)


STEPS: list[Callable[[np.random.Generator], Step]] = [
    slices, windows, chosen_by_mask,
    lambda rng: lambda x, w: agrad.linear(x, w, w[0]),
    lambda rng: lambda x, w: agrad.linear(x, agrad.permute_dims(w, (1, 0)), w[:, 1]) * x,
    lambda rng: lambda x, w: agrad.tanh(x) * agrad.sigmoid(x @ w),
    lambda rng: lambda x, w: agrad.exp(-x * x) / (1 + w[1] ** 2),
    lambda rng: lambda x, w: agrad.softmax(x, axis=0) + agrad.relu(x),
    lambda rng: lambda x, w: agrad.softmax(x * w[2], axis=1) / agrad.sqrt(x * x + w[:, 0] ** 2 + 0.1),
    lambda rng: lambda x, w: x - nn.functional.layer_norm(x, x.shape[1]),
]  # fmt: skip


def program(seed: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.choice([1, 3, 8, 40])), int(rng.integers(5, 9))
    steps = [STEPS[k](rng) for k in rng.integers(0, len(STEPS), rng.integers(2, 6))]
    integers = rng.choice(["int64", "int32", "uint8", "int16"])
    labels = rng.integers(0, columns, rows).astype(integers)
    ignored = int(labels[rng.integers(rows)]) if rows > 1 and rng.random() < 0.5 else -100
    how = {"ignore_index": ignored, "label_smoothing": float(rng.choice([0.0, 0.0, 0.1])),
           "reduction": str(rng.choice(["mean", "sum", "none"]))}  # fmt: skip

    def loss(x: Any, w: Any, labels: Any) -> Any:
        for step in steps:
            x = step(x, w)
        return agrad.sum(nn.functional.cross_entropy(x, labels, **how) * 0.5) + agrad.mean(x * x) * 0.01

    return loss, [rng.normal(size=(rows, columns)), rng.normal(size=(columns, columns)) / columns, labels]


@pytest.mark.needs("cupy")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program(seed: int) -> None:
    loss, inputs = program(seed)
    right = agrad.value_and_grad(loss, argnums=(0, 1))(*inputs)
    given = [load("cupy").from_host(a, None) for a in inputs]
    for call in (agrad.value_and_grad(loss, argnums=(0, 1)), agrad.jit(agrad.value_and_grad(loss, argnums=(0, 1)))):
        for _ in range(2):
            value, gradients = call(*given)
            np.testing.assert_allclose(host(value), right[0], rtol=1e-9)
            for mine, other in zip(gradients, right[1], strict=True):
                np.testing.assert_allclose(host(mine), other, rtol=1e-7, atol=1e-9)

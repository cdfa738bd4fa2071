"""CuPy's kernels of several operations in one launch: sums of slices, affine maps, guarded rules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checker import host
from kernel_pairs import generic
from nvcc import ptx

import agrad
from agrad.backends import load
from agrad.kernels.cupy import kernels as cupy_kernels  # noqa: F401 - the kernels are filed without CuPy too
from agrad.kernels.cupy.pooling import pooling_source
from agrad.kernels.cupy.scatter import most_parts, scatter_source
from agrad.registry import KERNELS, PRIMITIVES

RNG = np.random.default_rng(4)
ALL, EVERY = slice(None), (Ellipsis,)


def place(a: Any) -> Any:
    return load("cupy").from_host(np.asarray(a), None)


@pytest.mark.parametrize("axes", [1, 3, 8])
@pytest.mark.parametrize("write", [scatter_source, pooling_source])
def test_the_text_is_cuda(tmp_path: Path, write: Callable[[str, int], str], axes: int) -> None:
    assert ".entry" in ptx(write("float", axes), tmp_path)


SUMS: list[tuple[tuple[int, ...], list[tuple[Any, ...]]]] = [
    ((6,), [(slice(0, 2),), (slice(2, 6),)]),
    ((6,), [(slice(None, None, 2),), (slice(4, None, -3),), EVERY]),
    ((6,), [(2,)]),
    ((1,), [EVERY, EVERY]),
    ((), [EVERY, EVERY]),
    ((3, 4), [(1,), (Ellipsis, slice(1, 3)), (2, 3), (slice(None, None, -1), 0)]),
    ((3, 4), [(None, ALL, 1), (Ellipsis, None, slice(3, 0, -2))]),
    ((2, 3, 4), [(ALL, 1), (1, Ellipsis), (Ellipsis, slice(0, 4, 3)), (0, 1, 2), EVERY]),
    ((70,), [(slice(k, k + 7),) for k in range(60)]),
    ((5, 2, 2, 3), [(k % 5, Ellipsis, slice(k % 3, None)) for k in range(40)]),
]


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "indices"), SUMS, ids=str)
def test_a_sum_of_parts(shape: tuple[int, ...], indices: list[tuple[Any, ...]], dtype: Any) -> None:
    """Bit by bit as the generic rule, also with parts that are not contiguous, infinite, or more than a launch has."""
    parts = [RNG.normal(size=np.zeros(shape)[index].shape).astype(dtype) for index in indices]
    parts[-1][...] = [-0.0, np.nan, np.inf][len(parts) % 3]
    settings = {"indices": tuple(indices), "shape": shape}
    right = generic_sum(parts, **settings)
    kernel = KERNELS["cupy", "scatter_sum", "forward"]
    turned = [place(part.T.copy()).T for part in parts]
    spread = [place(np.stack([part, part], -1))[..., 1] for part in parts]
    for given in ([place(part) for part in parts], turned, spread):
        assert kernel.when(*given)
        found = host(kernel.function(*given, **settings))
        assert found.dtype == dtype and found.shape == shape
        np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
    assert most_parts(1) < 120 and len(SUMS[-1][1]) > most_parts(4)


def generic_sum(parts: list[np.ndarray], indices: tuple[tuple[Any, ...], ...], shape: tuple[int, ...]) -> np.ndarray:
    total = None
    for part, index in zip(parts, indices, strict=True):
        whole = np.zeros(shape, part.dtype)
        whole[index] = part
        total = whole if total is None else total + whole
    return total


def test_guards_of_sums_and_affine_maps() -> None:
    x = np.ones((3, 4), np.float32)
    summed, affine = KERNELS["cupy", "scatter_sum", "forward"].when, KERNELS["cupy", "linear", "forward"].when
    assert summed(x, x[0])
    for other in (x.astype(np.float64), x[:0], x.astype(np.float16)):
        assert not summed(x, other)
    assert not summed(x.astype(int))
    assert affine(x, x.T, x[:, 0]) and affine(np.ones((2, 3, 4), np.float32), x.T, x[:, 0])
    for given in ((x[0], x.T, x[:, 0]), (x, x.T, x[:, :1]), (x, x.T, x[:2, 0]), (x, x.T.astype(float), x[:, 0]),
                  (x[:0], x.T, x[:, 0]), (x[:, :3], x.T, x[:, 0]), (x, x.T[None], x[:, 0]),
                  (np.ones((3, 2, 4), np.float32).swapaxes(0, 1), x.T, x[:, 0])):  # fmt: skip
        assert not affine(*given)


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (33, 130), (2, 4, 3), (0, 3), (3,), (2, 3, 0)])
def test_an_affine_map(dtype: Any, shape: tuple[int, ...]) -> None:
    x, weight, bias = (RNG.normal(size=s).astype(dtype) for s in (shape, (7, shape[-1]), (7,)))
    weight, digits = weight.T, 40 * np.finfo(dtype).eps * max(1, shape[-1])
    if x.size > 4:
        x.reshape(-1)[:2] = np.inf, np.nan
    right = x.astype(float) @ weight.astype(float) + bias
    given = [place(x), place(weight.T).T, place(bias)]
    columns = [place(np.repeat(a, 2, -1))[..., ::2] for a in (x, weight, bias)]
    for some in (given, columns):
        found = host(agrad.linear(*some))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, rtol=digits, atol=digits)


@pytest.mark.needs("cupy")
def test_an_affine_map_without_cublaslt(monkeypatch: pytest.MonkeyPatch) -> None:
    from agrad.kernels.cupy import kernels, products

    monkeypatch.setenv("CUPY_ON_CPU_LT_REFUSES", "BIAS")
    refusing = products.Lt()
    monkeypatch.setattr(kernels, "current_lt", lambda: refusing)
    x, weight, bias = (RNG.normal(size=s) for s in ((5, 3), (3, 7), (7,)))
    np.testing.assert_allclose(host(agrad.linear(place(x), place(weight), place(bias))), x @ weight + bias, rtol=1e-12)
    assert refusing.refused


GUARDED = [(name, part) for backend, name, part in KERNELS if backend == "cupy" and part.startswith("masked ")]


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "part"), GUARDED)
def test_a_guarded_rule(name: str, part: str, dtype: Any) -> None:
    """All pairs of special numbers, with the used elements given, and by the value of the cotangent."""
    special = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    g, x = (a.reshape(4, -1) for a in np.meshgrid(special, special))
    x = np.clip(x, 0, 1) if name in ("tanh", "sigmoid") else x  # their values
    rule, kernel = PRIMITIVES[name].vjps[part.removeprefix("masked vjp:")], KERNELS["cupy", name, part]
    values = dict.fromkeys(kernel.names, x) | {"g": g}
    with np.errstate(all="ignore"):
        plain = rule.function(*[values[n] for n in rule.names])
    for used in (None, np.resize([True, False, False], g.shape)):
        kept = g != 0 if used is None else used
        right = np.where(kept | np.isfinite(plain), plain, 0)
        for turn in (np.ascontiguousarray, np.asfortranarray):
            arrays = [None if used is None else place(used), *[place(turn(values[n])) for n in kernel.names[1:]]]
            assert kernel.when(*arrays)
            found = host(kernel.function(*arrays))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, right, rtol=4 * np.finfo(dtype).eps)
    row = {"g": g} | dict.fromkeys(kernel.names[2:], x[:1, 3:7].repeat(4, 1))
    with np.errstate(all="ignore"):
        plain = rule.function(*[row[n] for n in rule.names])
    found = kernel.function(None, *[place(row[n]) for n in kernel.names[1:]])
    right = np.where((g != 0) | np.isfinite(plain), plain, 0)
    np.testing.assert_allclose(host(found), right, rtol=4 * np.finfo(dtype).eps)
    small, rest = np.ones(3, dtype), [np.ones(3, dtype)] * (len(kernel.names) - 3)
    for wrong in ((None, small, small.astype(np.float16)), (None, small, 2.0), (np.ones(2, bool), small, small),
                  (None, small, np.ones((2, 3), dtype)), (None, small[:0], small[:0])):  # fmt: skip
        assert not kernel.when(*wrong, *rest)


POOLS = [
    ((7,), (3,), (1,), (1,)), ((2, 9), (2,), (2,), (3,)), ((2, 3, 6, 8), (2, 2), (2, 2), (1, 1)),
    ((1, 7, 9), (3, 2), (2, 1), (1, 2)), ((2, 5, 4, 6), (3, 2, 2), (1, 2, 3), (1, 1, 2)), ((3, 5), (5,), (1,), (1,)),
]  # fmt: skip


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "strides", "dilation"), POOLS, ids=str)
@pytest.mark.parametrize("kind", ["distinct", "ties", "special"])
def test_maxima_of_windows(dtype: Any, shape: Any, kernel: Any, strides: Any, dilation: Any, kind: str) -> None:
    """The first of equal elements has the derivative, a NaN before all others."""
    x = RNG.permutation(np.arange(np.prod(shape))).reshape(shape).astype(dtype)
    if kind != "distinct":
        x = RNG.integers(0, 3, shape).astype(dtype)
    if kind == "special":
        x = np.where(RNG.random(shape) < 0.3, RNG.choice([np.nan, np.inf, -np.inf], shape), x).astype(dtype)
    how = {"kernel": kernel, "strides": strides, "dilation": dilation}
    y = generic("max_pool", "forward", {"x": x}, **how)
    g = RNG.normal(size=y.shape).astype(dtype)
    right = generic("max_pool", "vjp:x", {"x": x, "y": y, "g": g}, **how)
    forward, rule = (KERNELS["cupy", "max_pool", part] for part in ("forward", "vjp:x"))
    for turn in (np.ascontiguousarray, np.asfortranarray):
        values = {name: place(turn(a)) for name, a in (("x", x), ("y", y), ("g", g))}
        assert forward.when(values["x"]) and rule.when(*[values[name] for name in rule.names])
        np.testing.assert_array_equal(host(forward.function(values["x"], **how)), y)
        found = host(rule.function(*[values[name] for name in rule.names], **how))
        np.testing.assert_allclose(found, right, rtol=20 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)

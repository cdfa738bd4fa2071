"""CuPy's groups of rows: what goes into them, and what their kernels compute, wherever the operands lie."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import draw
from test_jit_cupy import CASES as ELEMENTWISE
from test_jit_cupy import groups, program_of

import agrad
from agrad.jit.lower.cuda import rows as cuda_rows
from agrad.jit.lower.cuda.rows import place_of
from agrad.jit.passes.tiling import ROW_LENGTH, best_split, whole_row_splits
from agrad.jit.program import interpret

Function = Callable[..., Any]


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    centred = x - agrad.mean(x, axis=-1, keepdims=True)
    return centred / agrad.sqrt(agrad.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * w + b


def by_hand(x: Any) -> Any:
    """A softmax, with the largest element and the logarithm of the sum as further results."""
    top = agrad.max(x, axis=-1, keepdims=True)
    y = agrad.exp(x - top)
    total = agrad.sum(y, axis=-1, keepdims=True)
    return y / total, top, agrad.log(total) + top


def masked(x: Any, mask: Any, rate: float) -> Any:
    low = agrad.min(x, axis=-1, keepdims=True)
    y = agrad.where(agrad.logical_and(mask, x > low * rate), x * rate, 0.0)
    return y, agrad.sum(y, axis=-1), y <= low


def totals(x: Any, w: Any) -> Any:
    y = agrad.tanh(x * w)
    norm = agrad.sum(y * y, axis=-1, keepdims=True)
    z = y / (norm + 1.0)
    return z, agrad.sum(z, axis=0), agrad.max(z * 2.0, axis=0), agrad.mean(y), agrad.sum(norm), agrad.min(y, axis=0)


def reshaped(x: Any) -> Any:
    rows, n = x.shape
    length = agrad.reshape(agrad.sqrt(agrad.sum(x * x, axis=1)), (rows, 1))
    return agrad.reshape(x * 2.0 / length, (rows, 1, n)) + 1.0


def truths(x: Any) -> Any:
    y = agrad.sin(x)
    found = [of(y > bound, axis=1, keepdims=True) for of in (agrad.all, agrad.any) for bound in (-0.9, 0.0, 0.9)]
    return [agrad.where(truth, y, -y) for truth in found]


def between(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Operands that broadcast along the first, a middle and the last axis."""
    y = x * a + b
    return y - agrad.mean(y, axis=-1, keepdims=True) * c


def normed(t: str, *shape: int) -> tuple[Any, ...]:
    return draw(t, *shape), draw(t, shape[-1]), draw(t, shape[-1]) * 2


def loss(x: Any, w: Any, b: Any) -> Any:
    return agrad.sum(layer_norm(x, w, b) ** 3)


CASES: dict[str, tuple[Function, Callable[[str], tuple[Any, ...]]]] = {
    **{
        f"layer norm {shape}": (layer_norm, lambda t, shape=shape: normed(t, *shape))
        for shape in ((4, 16, 32), (5, 7), (9, 2), (2, 3, 10), (11, 600), (3, 2051), (2, 8192), (1, 64))
    },
    **{
        f"its gradient {shape}": (agrad.grad(loss, argnums=(0, 1, 2)), lambda t, shape=shape: normed(t, *shape))
        for shape in ((4, 9, 32), (70, 6), (5, 1026))
    },
    "softmax": (by_hand, lambda t: (draw(t, 3, 5, 50),)),
    "masks": (masked, lambda t: (draw(t, 6, 20), draw(t, 6, 20) > 0, 0.7)),
    "a mask for all rows": (masked, lambda t: (draw(t, 6, 20), draw(t, 20) > 0, 0.7)),
    "totals": (totals, lambda t: (draw(t, 40, 24), draw(t, 24))),
    "totals of odd rows": (totals, lambda t: (draw(t, 7, 13), draw(t, 13))),
    "totals of long rows": (totals, lambda t: (draw(t, 9, 1500), draw(t, 1500))),
    "reshaped": (reshaped, lambda t: (draw(t, 6, 12),)),
    "truth values": (truths, lambda t: (draw(t, 9, 70),)),
    "broadcasts": (between, lambda t: (draw(t, 4, 6, 8), draw(t, 1, 6, 1), draw(t, 4, 1, 8), draw(t, 4, 1, 1))),
}


def laid(x: np.ndarray, how: str) -> Any:
    """Return an array on the GPU with these elements, that lies in memory in some way."""
    import cupy

    if how == "in order" or not x.ndim:
        return cupy.asarray(x)
    if how == "in Fortran's order":
        return cupy.asarray(x.T.copy()).T
    if how == "a part":
        room = cupy.zeros(tuple(n + 3 for n in x.shape), x.dtype)
        part = room[tuple(slice(1, n + 1) for n in x.shape)]
    elif how == "backwards":
        part = cupy.zeros(x.shape, x.dtype)[tuple(slice(None, None, -1) for _ in x.shape)]
    else:
        part = cupy.zeros(x.size + 1, x.dtype)[1:].reshape(x.shape)
    part[...] = cupy.asarray(x)
    return part


LAYOUTS = ["in order", "in Fortran's order", "a part", "backwards", "not aligned"]


@pytest.mark.parametrize("launch", [1, 3, 1024], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [*CASES, *ELEMENTWISE])
def test_kernels_compute_what_numpy_does(launch: Function, case: str, dtype: str) -> None:
    function, make = (CASES | ELEMENTWISE)[case]
    found = groups(program_of(function, *make(dtype)))
    assert any(group.split < len(group.shape) for group in found) is (case in CASES)
    rng, digits = np.random.default_rng(3), (2000 if case in CASES else 300) * np.finfo(dtype).eps
    for k, group in enumerate(found):
        inputs: list[Any] = []
        for v in group.program.inputs:
            x = 0.7 if v.on_host else rng.normal(size=v.shape)
            if not v.on_host:
                x = x > 0 if v.dtype == bool else (np.abs(x) + 0.5 if case in CASES else x).astype(v.dtype)
            inputs.append(x)
        expected = interpret(group.program, inputs)
        for how in (LAYOUTS[0], LAYOUTS[1 + k % 4], LAYOUTS[1 + (k + 1) % 4]) if case in CASES else LAYOUTS:
            given = [x if type(x) is float else laid(np.asarray(x), how) for x in inputs]
            for a, b, v in zip(launch(group, *given), expected, group.program.outputs, strict=True):
                assert a.dtype == v.dtype and a.shape == v.shape
                np.testing.assert_allclose(a, np.asarray(b), rtol=digits, atol=digits, err_msg=how)


def test_nan_passes_as_in_numpy(launch: Function) -> None:
    x = np.array([[1.0, np.nan, 2.0], [np.inf, -np.inf, 0.0], [-np.inf] * 3, [0.0, -1.0, -2.0]])
    with np.errstate(all="ignore"):
        (group,) = groups(program_of(by_hand, x))
        expected = interpret(group.program, [x])
    for a, b in zip(launch(group, laid(x, "in order")), expected, strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-12)


def test_sums_do_not_depend_on_the_run(launch: Function) -> None:
    x, w = draw("float32", 300, 24), draw("float32", 24)
    for group in groups(program_of(totals, x, w)):
        given = [laid(x if v.shape == x.shape else w, "in order") for v in group.program.inputs]
        for got, again in zip(launch(group, *given), launch(group, *given), strict=True):
            np.testing.assert_array_equal(got, again)


def test_arrays_without_elements_and_indices_of_64_bits(cupy: Any) -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        return agrad.sin(layer_norm(x, w, b)) * 2.0

    fast = agrad.jit(f)
    for shape in ((0, 4), (2, 0, 4), (0, 3, 4)):
        for _ in range(3):
            given = [cupy.zeros(shape), cupy.ones(4), cupy.ones(4)]
            assert fast(*given).shape == shape
    (group,) = groups(program_of(layer_norm, *normed("float32", 6, 32)))
    near = {v: cuda_rows.Layout((32, 1) if len(v.shape) == 2 else (1,), True) for v in group.program.inputs}
    far = {v: cuda_rows.Layout((1 << 30, 1) if len(v.shape) == 2 else (1,), True) for v in group.program.inputs}
    assert "long long" not in cuda_rows.RowSource(group, near).text()
    assert "(long long)blockIdx.x" in cuda_rows.RowSource(group, far).text()


def test_layer_norm_is_one_kernel_and_its_gradient_two(cuda_on_cpu: Any) -> None:
    for function, count in ((layer_norm, 1), (agrad.grad(loss, argnums=(0, 1, 2)), 2)):
        fast = agrad.jit(function)
        given = [laid(x, "in order") for x in normed("float32", 300, 32)]
        for _ in range(2):
            fast(*given)
        fast.lower(*given)
        lines = cuda_on_cpu.trace(lambda fast=fast, given=given: fast(*given))
        names = " ".join(lines)
        assert names.count("group_rows") == 1
        assert names.count("finish") == count - 1
        assert "cupy_mean" not in names and "cupy_sum" not in names


def test_what_makes_a_group_of_rows() -> None:
    (group,) = groups(program_of(layer_norm, *normed("float32", 4, 16, 32)))
    assert (group.shape, group.split) == ((4, 16, 32), 2)
    # rows that are too long, and reductions over a part of a row
    assert not groups(program_of(lambda x: x - agrad.max(x, axis=1, keepdims=True), draw("float32", 3, ROW_LENGTH + 1)))
    for group in groups(program_of(lambda x: agrad.sum(x * 2.0, axis=1) + 1.0, draw("float32", 3, 4, 5))):
        assert "sum" not in [i.name for i in group.program.instructions]


def test_splits() -> None:
    assert whole_row_splits((4, 16, 32), np.dtype("float32")) == {1, 2, 3}
    assert whole_row_splits((4, 16, ROW_LENGTH), np.dtype("float32")) == {2, 3}
    assert best_split((4, 16, 32), {1, 2, 3}) == 3
    assert best_split((4, 16, 32), {1, 2}) == 1
    assert best_split((4, 16, 256), {1, 2}) == 2
    assert best_split((4, 16, 3), {1, 2}) == 1


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 1, 6), (7,), (1, 1), (2, 3, 1, 4)])
def test_places_of_elements(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        strides = [int(s) for s in rng.integers(-9, 9, len(shape))]
        packed = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        for some in (strides, packed, [0] * len(shape)):
            text = place_of("i", shape, some).replace("/", "//")
            for number, index in enumerate(np.ndindex(*shape)):
                assert eval(text, {"i": number}) == sum(a * b for a, b in zip(index, some, strict=True))

"""Products of matrices in a lower precision: what is rounded, what is not, and training with it."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from checker import host
from jit_help import names, rounded
from modes import check_same
from refusals import fails

import agrad
from agrad import optim
from agrad.errors import ConfigurationError
from agrad.jit.passes.precision import PRECISIONS

NARROW = {"numpy": ("float16",), "torch": ("float16", "bfloat16"), "jax": ("float16", "bfloat16")}
NARROW["cupy"] = NARROW["torch"]


def narrow(backend: str) -> tuple[str, ...]:
    """The narrow dtypes of a backend that has some; ``test_what_a_backend_does_not_have`` sees the others refuse."""
    if backend not in NARROW:
        pytest.skip(f"{backend} has no narrow floating dtypes")
    return NARROW[backend]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def distance(got: Any, right: np.ndarray) -> float:
    return float(np.linalg.norm(host(got) - right) / np.linalg.norm(right))


UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def affine(x: Any, w: Any, b: Any) -> Any:
    return agrad.tanh(agrad.linear(x, w, b))


def gradients(x: Any, w: Any, b: Any, g: Any) -> Any:
    y, pull = agrad.vjp(affine, x, w, b)
    return y, *pull(g)


def by_hand(x: Any, w: Any, b: Any, g: Any, precision: str) -> Any:
    """The same in double precision, of rounded factors."""
    xr, wr = (rounded(a, precision).astype(np.float64) for a in (x, w))
    y = np.tanh(xr @ wr + b)
    inner = (g * (1 - y * y)).astype(np.float32)
    gr = rounded(inner, precision).astype(np.float64)
    return y, gr @ wr.T, xr.T @ gr, inner.sum(0)


def test_factors_are_rounded_and_nothing_else(backend: str, place: Any) -> None:
    given = draw(30, 40), draw(40, 20, seed=1) / 8, draw(20, seed=2), draw(30, 20, seed=3)
    for precision in narrow(backend):
        jitted = agrad.jit(gradients, precision=precision)
        arrays = [place(a) for a in given]
        exact = gradients(*arrays)
        for _ in range(2):
            for got, right, wide in zip(jitted(*arrays), by_hand(*given, precision), exact, strict=True):
                assert got.dtype == wide.dtype
                # sums are those of float32: results rounded to the narrow dtype would be off by four times as much
                assert distance(got, right) < 0.1 * UNIT[precision]
                if right.ndim == 2:
                    assert distance(got, host(wide)) > 0.2 * UNIT[precision]


def hard_to_round(precision: str) -> np.ndarray:
    """Numbers of the narrow dtype, the middles between neighbours, and the float32 numbers beside the middles."""
    if precision == "float16":
        numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    else:
        numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    numbers = np.unique(np.abs(numbers[np.isfinite(numbers)]))
    numbers = numbers[(numbers == 0) | (numbers >= 2.0**-100)]  # libraries may flush subnormal numbers to 0
    middles = numbers[:-1] + (numbers[1:] - numbers[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(side)) for side in (0, np.inf)]
    above = np.asarray([65519.996, 65520, 65536, 1e30, 3.3e38, np.inf, np.nan], np.float32)
    found = np.concatenate([numbers, middles, *beside, above])
    return np.concatenate([found, -found])


def test_rounding_is_to_the_nearest_and_ties_to_even(backend: str, place: Any) -> None:
    for precision in narrow(backend):
        x = hard_to_round(precision)
        with np.errstate(over="ignore"):
            right = np.where(np.isnan(x), np.nan, rounded(x, precision))
        product = agrad.jit(agrad.matmul, precision=precision)(place(x[:, None]), place(np.ones((1, 1), np.float32)))
        np.testing.assert_array_equal(host(product)[:, 0], right)


def test_an_array_is_rounded_once_and_before_it_is_turned(backend: str, place: Any) -> None:
    for precision in narrow(backend):
        arrays = [place(a) for a in (draw(3, 4), draw(4, 2), draw(2), draw(3, 2))]
        stages = agrad.jit(gradients, precision=precision).lower(*arrays).stages
        at = [name for name, _ in stages].index("precision")
        assert stages[at + 1][0] == "dead code"
        program = stages[at + 1][1]
        assert names(program).count(f"rounded[{precision}]") == 3
        turns = [i for i in program.instructions if i.name == "matrix_transpose"]
        makers = [program.instructions[program.makers[turn.operands[0]]].name for turn in turns]
        assert makers == [f"rounded[{precision}]"] * 2


def test_a_view_with_all_elements_is_rounded_with_its_array(backend: str, place: Any) -> None:
    """A part is rounded by itself, and a conversion is no view of the rounded array."""

    def products(x: Any, w: Any) -> Any:
        parts = agrad.reshape(x, (2, 6))[:, 2:], x[:1], agrad.positive(agrad.astype(x, x.dtype))
        whole = agrad.flip(x, axis=0), agrad.permute_dims(agrad.reshape(x, (4, 3)), (1, 0)), x[None]
        return tuple([agrad.matmul(part, w) for part in (x, *parts, *whole)])

    x, w = draw(3, 4), draw(4, 2)
    for precision in narrow(backend):
        jitted = agrad.jit(products, precision=precision)
        given = place(x), place(w)
        for _ in range(3):
            for got, right in zip(jitted(*given), products(rounded(x, precision), rounded(w, precision)), strict=True):
                np.testing.assert_allclose(host(got), right, rtol=1e-5, atol=1e-6)
        stages = jitted.lower(*given).stages
        (program,) = [program for name, program in stages if name == "precision"]
        assert 4 <= names(program).count(f"rounded[{precision}]") <= 6  # the array, w, two parts, conversions


def test_tf32_is_a_permission(backend: str, place: Any) -> None:
    arrays = [place(a) for a in (draw(3, 4), draw(4, 2), draw(2), draw(3, 2))]
    on_gpu = "cuda" in str(getattr(arrays[0], "device", "")).lower()
    room = 2.0**-8 if on_gpu else 1e-6  # a GPU may use it: eleven bits of each factor
    for got, right in zip(agrad.jit(gradients, precision="tf32")(*arrays), gradients(*arrays), strict=True):
        np.testing.assert_allclose(host(got), host(right), rtol=room, atol=room)


def test_batches_of_matrices_vectors_and_other_dtypes(backend: str, place: Any) -> None:
    for precision in narrow(backend):
        jitted = agrad.jit(agrad.matmul, precision=precision)
        shapes = {(2, 3, 4): (4, 5), (3, 2, 4): (3, 4, 5), (2, 1, 3, 4): (3, 4, 5), (4,): (4, 5), (5,): (5,)}
        for a, b in shapes.items():
            x, y = draw(*a), draw(*b, seed=1)
            right = rounded(x, precision).astype(np.float64) @ rounded(y, precision)
            np.testing.assert_allclose(host(jitted(place(x), place(y))), right, rtol=1e-5, atol=1e-5)
        x, y = draw(3, 4).astype(np.float64), draw(4, 2).astype(np.float64)
        if backend != "jax":  # whose default has no float64
            np.testing.assert_allclose(host(jitted(place(x), place(y))), x @ y, rtol=1e-14)


def by_weight(f: Any, x: Any, b: Any, w: Any) -> Any:
    return f(x, w, b)


def test_derivatives_of_a_call(backend: str, place: Any) -> None:
    for precision in narrow(backend):
        x, w, b, _ = given = draw(6, 5), draw(5, 4), draw(4), np.ones((6, 4), np.float32)
        jitted = agrad.jit(affine, precision=precision)
        mine, plain = (partial(by_weight, f, place(x), place(b)) for f in (jitted, affine))
        slope = agrad.grad(lambda v, f=mine: agrad.sum(f(v)))(place(w))
        assert distance(slope, by_hand(*given, precision)[2]) < 0.2 * UNIT[precision]
        # the second order is that of the function in float32
        check_same(mine, plain, (place(w),), ("reverse over reverse",), 0.1)


def test_what_a_backend_does_not_have(backend: str, place: Any) -> None:
    x, y = place(draw(3, 4)), place(draw(4, 2))
    for precision in PRECISIONS[1:]:
        if precision not in NARROW.get(backend, ()):
            refusal = f"{precision}.*Omit it|'float16'.*, got '{precision}'"
            fails(ConfigurationError, refusal, agrad.jit(agrad.matmul, precision=precision), x, y)
            agrad.jit(agrad.add, precision=precision)(x, x)  # there is nothing to round
    fails(ConfigurationError, "tf32, bfloat16, float16", agrad.jit, agrad.matmul, precision="half")


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_float16_overflows_and_underflows_without_the_right_scale(backend: str, place: Any) -> None:
    """Gradients of 1e-9 are 0 in float16, and beyond it with a scale that is too large; one between is found."""
    if "float16" not in NARROW.get(backend, ()):
        pytest.skip(f"{backend} has no float16")
    x, w = place(draw(16, 4)), draw(4, 3)
    target = place(draw(16, 3, seed=5))
    parameter = agrad.asarray(place(w), requires_grad=True)
    optimizer = optim.SGD([parameter], lr=1e6)
    scale = optim.LossScale(optimizer, init_scale=2.0**60)

    def loss_of(x: Any, target: Any) -> Any:
        return agrad.sum(agrad.square(agrad.matmul(x, parameter) - target)) * 1e-9

    @agrad.jit(precision="float16")
    def plain(x: Any, target: Any) -> Any:
        loss_of(x, target).backward()
        found, parameter.grad = parameter.grad, None
        return found

    @agrad.jit(precision="float16")
    def step(x: Any, target: Any) -> Any:
        loss = loss_of(x, target)
        scale(loss).backward()
        scale.step()
        optimizer.zero_grad()
        return loss

    assert np.all(host(plain(x, target)) == 0)  # what flows back into the product is below 6e-8
    skipped = 0
    while np.array_equal(parameter.detach().numpy(), w):
        step(x, target)
        skipped += 1
    assert skipped > 10
    assert 2.0**20 < scale.scale < 2.0**50
    right = agrad.grad(lambda w: agrad.sum(agrad.square(agrad.matmul(x, w) - target)) * 1e-9)(place(w))
    np.testing.assert_allclose(parameter.detach().numpy(), w - 1e6 * host(right), rtol=2e-3, atol=2e-4)
    assert step.cache_info().misses == 1

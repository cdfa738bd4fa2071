"""``compiler="auto"``: which programs JAX compiles, what happens to the others, and what ``explain`` says."""

import sys
from typing import Any

import numpy as np
import pytest
from jit_help import descent, same_steps
from tensors import draw

import agrad
from agrad import nn, optim

needs_jax = pytest.mark.needs("jax")
auto = agrad.jit(compiler="auto")
STEPS = 120


def loop(x: Any, xs: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        c = agrad.tanh(c * 0.5 + row) + agrad.sin(c) * 0.1
        return c, agrad.sum(c)

    return agrad.scan(step, x, xs)


GIVEN = draw(4), draw(STEPS, 4, seed=1)


def compiler_of(jitted: Any) -> str:
    """What the last trace says on the compiler."""
    found: str = jitted.explain().compilers[-1]
    return found


@needs_jax
def test_a_loop_of_small_operations_is_compiled_by_jax() -> None:
    jitted = auto(loop)
    for got in (jitted(*GIVEN), jitted(*GIVEN)):
        for a, b in zip(got, loop(*GIVEN), strict=True):
            assert type(a) is np.ndarray
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert compiler_of(jitted) == "compiled by JAX: 840 operations of 4 elements each on average"
    assert repr(jitted.explain()).endswith("\n     " + compiler_of(jitted))
    assert "compiled by XLA" in str(jitted.lower(*GIVEN))


@needs_jax
@pytest.mark.parametrize(
    "function", [lambda x: x * 2 + 1, lambda x: agrad.scan(lambda c, _: (c * 2, None), x, length=9)]
)
def test_a_short_program_is_not(function: Any) -> None:
    jitted = auto(function)
    jitted(np.ones(3))
    assert compiler_of(jitted).startswith("not compiled by JAX, which would gain little: ")
    assert "compiled by XLA" not in str(jitted.lower(np.ones(3)))


@needs_jax
def test_a_loop_on_large_arrays_is_not() -> None:
    x = np.ones(200_000)
    jitted = auto(lambda x: agrad.scan(lambda c, _: (agrad.tanh(c * 0.5 + c) - c, None), x, length=150)[0])
    agrad.eval_shape(jitted, x)
    program = str(jitted.lower(x))
    assert "compiled by XLA" not in program


def test_without_a_compiler_explain_says_what_it_would_gain() -> None:
    jitted = agrad.jit(loop)
    jitted(*GIVEN)
    assert compiler_of(jitted) == (
        "compiler='jax' would take about 1/5 of the time: 840 operations of 4 elements each on average"
    )
    short = agrad.jit(lambda x: x + 1)
    short(np.ones(2))
    assert compiler_of(short) == ""
    assert repr(short.explain()).endswith("programs found: 0")


def test_without_jax_the_program_runs_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["agrad.jit.compile"], "find_spec", lambda name: None)
    jitted = auto(loop)
    np.testing.assert_allclose(jitted(*GIVEN)[0], loop(*GIVEN)[0], rtol=1e-12)
    assert compiler_of(jitted).startswith("not compiled: JAX is not installed. Run pip install 'agrad[jax]' (840 op")


@needs_jax
def test_a_jax_that_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agrad.backends._loaded", {})
    monkeypatch.setitem(sys.modules, "agrad.backends.jax", None)
    jitted = auto(loop)
    np.testing.assert_allclose(jitted(*GIVEN)[0], loop(*GIVEN)[0], rtol=1e-12)
    assert compiler_of(jitted).startswith("not compiled by JAX: Backend 'jax' is not available")


@agrad.primitive(name="by_hand")
def by_hand(xp: Any, x: Any, /) -> Any:
    return np.array(x) * 2  # the host's memory


@by_hand.vjp
def by_hand_vjp(xp: Any, g: Any) -> Any:
    return g * 2


@agrad.primitive(name="by_hand_backwards")
def by_hand_backwards(xp: Any, x: Any, /) -> Any:
    return x * 2


@by_hand_backwards.vjp
def by_hand_backwards_vjp(xp: Any, g: Any) -> Any:
    return by_hand(g)


@needs_jax
@pytest.mark.parametrize("operation", [by_hand, by_hand_backwards])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_what_jax_cannot_compile_runs_on_numpy(operation: Any, rate: float | None) -> None:
    """In a program with a number of the host too, in its derivative alone, and with state."""
    w, count = agrad.asarray(draw(4), requires_grad=True), agrad.asarray(np.zeros(2), requires_grad=True)

    def f(xs: Any, rate: float | None) -> Any:
        return operation(agrad.sum(loop(w, xs)[1])) * (1.0 if rate is None else rate)

    @auto
    def counted(xs: Any, rate: float | None) -> Any:
        with agrad.no_grad():
            count.assign(count + 1)
        return f(xs, rate)

    for n in (1, 2):
        w.grad = None
        counted(GIVEN[1], rate).backward()
        got = w.grad.numpy()
        w.grad = None
        f(GIVEN[1], rate).backward()
        np.testing.assert_allclose(got, w.grad.numpy(), rtol=1e-11)
        np.testing.assert_array_equal(count.detach().numpy(), np.full(2, float(n)))
    assert compiler_of(counted).startswith("not compiled by JAX: jit: compiler='jax' cannot compile by_hand: Tracer")


@needs_jax
def test_dtypes_that_jax_lacks_run_on_numpy() -> None:
    xs = GIVEN[1].astype(">f8")
    jitted = auto(loop)
    np.testing.assert_allclose(jitted(GIVEN[0], xs)[0], loop(*GIVEN)[0], rtol=1e-12)
    assert compiler_of(jitted).startswith(
        "not compiled by JAX: jit: compiler='jax' does not support arrays of dtype('>f8')"
    )


@pytest.mark.needs("torch")
def test_arrays_of_other_libraries() -> None:
    import torch

    jitted = auto(lambda x: agrad.scan(lambda c, _: (agrad.sin(c), None), x, length=STEPS)[0])
    assert type(jitted(torch.ones(2))) is torch.Tensor
    assert compiler_of(jitted) == "not compiled by JAX: its arrays are not NumPy arrays"


@needs_jax
def test_programs_of_thousands_of_operations_are_not_compiled() -> None:
    def f(x: Any) -> Any:
        for _ in range(2600):
            x = x * 0.5
        return x

    jitted = auto(f)
    np.testing.assert_allclose(jitted(np.ones(2)), 0.5**2600)
    assert compiler_of(jitted) == "not compiled by JAX: 2,600 operations would take minutes. Use agrad.scan for loops"


@needs_jax
def test_training_steps_and_their_state() -> None:
    xs = draw(STEPS, 4, seed=1)

    def made() -> Any:
        w = nn.init.parameter(draw(4), dtype="float64")
        step = descent(optim.Adam([w], lr=0.05), lambda xs: agrad.sum(loop(w, xs)[1]), "first")
        return lambda xs: (step(xs), w.detach() + 0, w.grad + 0)

    step = same_steps(made, xs, rtol=1e-10, compiler="auto")
    assert compiler_of(step).startswith("compiled by JAX: ")
    assert step.cache_info().misses <= 3


@needs_jax
def test_derivatives_of_calls_in_every_order() -> None:
    jitted = auto(lambda x: agrad.sum(loop(x, GIVEN[1])[1]))
    right = agrad.hessian(lambda x: agrad.sum(loop(x, GIVEN[1])[1]))(GIVEN[0])
    np.testing.assert_allclose(agrad.hessian(jitted)(GIVEN[0]), right, rtol=1e-10)
    np.testing.assert_allclose(auto(agrad.hessian(jitted))(GIVEN[0]), right, rtol=1e-10)

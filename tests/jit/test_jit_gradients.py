"""Gradients that outlive a jitted step, and the references that users hold to them."""

import weakref
from typing import Any

import numpy as np
import pytest
from jit_help import descent, function_of, regression, same_steps
from tensors import host as values

import agrad
from agrad import optim
from agrad.kernels.numpy.blas import ROUTINES

ROWS = 3


MADE = {"SGD": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9), "Adam": lambda ps: optim.Adam(ps, lr=0.01)}


def trained(zero: str, jitted: bool = True, kind: str = "SGD", rows: int = ROWS) -> Any:
    """Return a step, its parameters, and batches; ``zero`` says when gradients are forgotten."""
    return regression(80, 128, 3, rows=rows, make=MADE[kind], zero=zero, jitted=jitted)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("zero", ["first", "to zeros", "never", "last"])
@pytest.mark.parametrize("rows", [1, ROWS, 200])
def test_steps_and_gradients_are_those_of_an_ordinary_run(backend: str, kind: str, zero: str, rows: int) -> None:
    steps = [trained(zero, jitted, kind=kind, rows=rows) for jitted in (False, True)]
    for i in range(4):
        losses = [float(step(*batches[i]).item()) for step, _, batches in steps]
        np.testing.assert_allclose(losses[1], losses[0], rtol=2e-5)
        for right, got in zip(steps[0][1], steps[1][1], strict=True):
            np.testing.assert_allclose(values(got), values(right), rtol=2e-4, atol=2e-6)
            assert (got.grad is None) is (right.grad is None) is (zero == "last")
            if right.grad is not None:
                assert got.grad.dtype == right.grad.dtype
                assert got.grad is got.grad
                np.testing.assert_allclose(values(got.grad), values(right.grad), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("held", ["gradient", "array", "view", "detached"])
@pytest.mark.parametrize("zero", ["first", "to zeros", "never"])
def test_a_gradient_that_somebody_holds_never_changes(backend: str, zero: str, held: str) -> None:
    step, parameters, batches = trained(zero)
    take = {
        "gradient": lambda g: g,
        "array": lambda g: g.data,
        "view": lambda g: g.data[1:, ...],
        "detached": lambda g: g.detach(),
    }[held]
    kept = []
    for i in range(8):
        step(*batches[i % 4])
        if i >= 3:
            kept += [(take(p.grad), values(take(p.grad))) for p in parameters]
    assert [np.array_equal(values(holder), before) for holder, before in kept] == [True] * 5 * len(parameters)


def test_a_gradient_does_not_follow_its_batch() -> None:
    """Nor writes of the user's into the arrays that it was computed from."""
    steps = [trained("first", jitted) for jitted in (False, True)]
    for step, _, batches in steps:
        x, t = (part.data.copy() for part in batches[0])
        for _ in range(3):
            step(agrad.asarray(x), agrad.asarray(t))
        x[:] = 7.0
    for right, got in zip(steps[0][1], steps[1][1], strict=True):
        np.testing.assert_allclose(values(got.grad), values(right.grad), rtol=2e-4, atol=2e-6)


@pytest.mark.skipif(not ROUTINES, reason="NumPy's BLAS has no known names")
@pytest.mark.parametrize(("rows", "late"), [(1, True), (ROWS, True), (200, False)])
def test_a_gradient_of_few_rows_is_computed_when_it_is_read(rows: int, late: bool) -> None:
    step, parameters, batches = trained("first", rows=rows)
    for i in range(3):
        step(*batches[i])
    assert callable(parameters[0]._grad) is late
    assert ("update of a product" in str(step.lower(*batches[0]))) is late
    first = parameters[0].grad
    assert parameters[0].grad is first
    first[0, 0] = 5.0
    assert parameters[0].grad[0, 0] == 5.0


def test_programs_share_gradients_that_are_computed_late() -> None:
    """A step leaves them, and another jitted function, or an ordinary pass, adds to them."""
    found = []
    for jitted in (False, True):
        step, parameters, batches = trained("first", jitted)

        def norm(parameters: Any = parameters) -> Any:
            return sum(agrad.sum(p.grad**2) for p in parameters)

        measure = agrad.jit(norm) if jitted else norm
        for i in range(4):
            step(*batches[i])
        norms = [measure().item()]
        agrad.sum(parameters[0] ** 2).backward()
        norms.append(measure().item())
        step(*batches[0])
        found.append([*norms, measure().item()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_a_step_that_reads_the_last_gradient(backend: str) -> None:
    def made() -> Any:
        w = agrad.ones((128, 80), dtype=agrad.float32, requires_grad=True)
        train = descent(optim.SGD([w], lr=0.01, momentum=0.9), lambda x: agrad.sum((x @ w) ** 2), "first")
        return lambda x: (0.0 if w.grad is None else agrad.sum(w.grad), train(x))[0]

    same_steps(made, agrad.full((2, 128), 0.01, dtype=agrad.float32), rtol=1e-4)


NO_CHANGE = "agrad.sum(w * 2)"
CHANGES = {
    NO_CHANGE: 1,
    "w.grad = None": 1,
    "w.grad = None; agrad.sum(w * w).backward(); agrad.sum(w * 3).backward()": 1,
    "agrad.sum(w * w).backward()": 2,
    "agrad.sum(w * w).backward() if w.grad is None else setattr(w, 'grad', None)": 2,
}
"""What is done with a gradient, and the number of programs for it."""


@pytest.mark.parametrize("text", CHANGES)
@pytest.mark.parametrize("given", [(None, 5.0, 7.0, None), (5.0, None, 7.0, 5.0)])
def test_gradients_that_are_not_read_need_no_program_of_their_own(
    text: str, given: tuple[Any, ...], backend: str
) -> None:
    """One that is set before it is read may be there or not, and one that is left alone stays the same Tensor."""
    change = function_of(text, "w")
    traced, plain = (agrad.asarray([1.0, 2.0], requires_grad=True) for _ in range(2))
    jitted = agrad.jit(lambda: change(traced))
    for value in given:
        for w in (traced, plain):
            w.grad = None if value is None else agrad.full(2, value, dtype=w.dtype)
        before = traced.grad
        jitted()
        change(plain)
        assert (traced.grad is before) is (text == NO_CHANGE or (before is None and plain.grad is None))
        assert (traced.grad is None) is (plain.grad is None)
        if plain.grad is not None:
            np.testing.assert_array_equal(traced.grad.numpy(), plain.grad.numpy())
    assert jitted.cache_info().misses == CHANGES[text]


@pytest.mark.skipif(not ROUTINES, reason="NumPy's BLAS has no known names")
@pytest.mark.parametrize("how", ["accumulated", "replaced", "by Adam"])
def test_a_gradient_lies_where_the_last_one_lay_if_nobody_holds_it(how: str) -> None:
    kind, zero = ("Adam" if how == "by Adam" else "SGD"), "never" if how == "accumulated" else "first"
    step, parameters, batches = trained(zero, kind=kind, rows=200)
    weight = parameters[0]
    for i in range(3):
        step(*batches[i])

    def place() -> int:
        return int(weight.grad.data.__array_interface__["data"][0])

    before = place()
    step(*batches[3])
    assert place() == before
    for take in (lambda g: g, lambda g: g.data, lambda g: g.data[2:], lambda g: g[1], weakref.ref):
        held = take(weight.grad)
        if isinstance(held, weakref.ref):
            step(*batches[0])
            assert held() is None
            continue
        before, kept = place(), values(held)
        step(*batches[0])
        assert place() != before
        np.testing.assert_array_equal(values(held), kept)
        step(*batches[1])
        del held


def test_gradients_of_another_kind_are_not_written_into() -> None:
    """The user gives one of another dtype or order, which the next step replaces."""
    step, parameters, batches = trained("first", rows=200)
    for i in range(3):
        step(*batches[i])
    weight = parameters[0]
    for given in (np.zeros(weight.shape), np.zeros(weight.shape[::-1], np.float32).T):
        weight.grad = agrad.asarray(given)
        step(*batches[0])
        assert weight.grad.dtype == agrad.float32
        assert not given.any()

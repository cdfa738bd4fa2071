"""Results of control flow: arrays of their own in row-major order, outside and inside of jit and vmap."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from modes import check_mapped, check_same, check_traced

import agrad
from agrad.backends import selected

X = np.asarray([[1.0, 2.0], [5.0, 3.0]])

CASES: dict[str, Callable[[Any], Any]] = {
    "cond, the operand": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: x, lambda x: x * 2.0, x),
    "cond, a view": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: x.mT, lambda x: x * 2.0, x),
    "cond, transposed": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: x.mT * 2.0, lambda x: x * 2.0, x),
    "cond, known": lambda x: agrad.cond(True, lambda x: x.mT * 2.0, lambda x: x, x),
    "cond, a part": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: x[:, 0], lambda x: x[0] * 2.0, x),
    "switch": lambda x: agrad.switch(agrad.astype(x[0, 0], agrad.int64), [lambda x: x * 2.0, lambda x: x.mT], x),
    "no steps": lambda x: agrad.while_loop(lambda x: agrad.sum(x) < 0, lambda x: x * 2.0, x),
    "steps": lambda x: agrad.while_loop(lambda x: agrad.sum(x) < 40, lambda x: x.mT * 2.0, x),
    "fori_loop": lambda x: agrad.fori_loop(0, 3, lambda i, x: x.mT * 2.0, x),
    "carry": lambda x: agrad.scan(lambda c, row: (c.mT * 2.0, row), x, x)[0],
    "rows": lambda x: agrad.scan(lambda c, row: (c, c.mT), x, x)[1],
    "a row": lambda x: agrad.scan(lambda c, row: (c, c * row), x, x[:1])[1],
    "carry of no steps": lambda x: agrad.scan(lambda c, row: (c, row), x, x[:0])[0],
}


@pytest.mark.parametrize("order", ["C", "F"])
@each_row(CASES)
def test_a_write_through_a_reshape_of_a_result(case: Row, order: Any, place: Any) -> None:
    def f(x: Any) -> Any:
        y = case.value(x)
        view = agrad.reshape(y, (-1,))
        view += 10.0
        return y

    def fresh() -> Any:
        return agrad.asarray(place(np.array(X, order=order)))

    # a library whose arrays share no memory has no views
    expected = host(case.value(fresh())) + (10.0 if selected().backend.shares_memory is not None else 0.0)
    for run in (f, agrad.jit(f), agrad.jit(f)):
        x = fresh()
        assert_close(run(x), expected, "value", 0.0)
        assert_close(x, X, "operand", 0.0)
    check_same(f, case.value, (fresh(),), ("tangent",))
    check_traced(f, (fresh(),), ("tangent",))
    members = np.stack([X, X + 1.0, X - 0.5])
    for axis in range(3):
        mapped = agrad.asarray(place(np.array(np.moveaxis(members, 0, axis), order=order)))
        check_mapped(f, [mapped], (axis,), values=0.0, derivatives=False)
        assert_close(mapped, np.moveaxis(members, 0, axis), "mapped operand", 0.0)


@pytest.mark.parametrize("x", [1.0, -1.0])
def test_results_share_no_memory_with_one_another(x: float, place: Any) -> None:
    def both(x: Any) -> Any:
        y = x * 2.0
        return y, y

    def f(x: Any) -> Any:
        first, second = agrad.cond(agrad.sum(x) > 0, both, lambda x: (x, x), x)
        first += 10.0
        return second, x * 1.0

    given = np.full((2, 3), x)
    expected = np.full((2, 3), 2.0 * x if x > 0 else x)
    for run in (f, agrad.jit(f)):
        found, operand = run(agrad.asarray(place(given)))
        assert_close(found, expected, "the other result", 0.0)
        assert_close(operand, given, "operand", 0.0)
    assert_close(agrad.vmap(f)(agrad.asarray(place(given)))[0], expected, "mapped", 0.0)


def test_the_gradient_through_a_copied_result(place: Any) -> None:
    def loss(x: Any) -> Any:
        y = agrad.cond(agrad.sum(x) > 0, lambda x: x.mT, lambda x: x, x)
        y[0, 1] = 7.0
        return agrad.sum(y * y * y)

    expected = 3.0 * X * X
    expected[1, 0] = 0.0
    assert_close(agrad.grad(loss)(place(X)), expected, "reverse", 1e-12)
    assert_close(agrad.grad(agrad.jit(loss))(place(X)), expected, "jitted", 1e-12)
    second = np.zeros((2, 2, 2, 2))
    for i, j in np.ndindex(2, 2):
        second[i, j, i, j] = 6.0 * X[i, j] * ((i, j) != (1, 0))
    assert_close(agrad.hessian(loss)(place(X)), second, "second order", 1e-12)


PAIRS: dict[str, Callable[[Any], Any]] = {
    "one array twice": lambda x: agrad.while_loop(lambda v: agrad.sum(v[0]) < 40, lambda v: (v[0] * 2.0,) * 2, (x, x)),
    "a view": lambda x: agrad.while_loop(
        lambda v: agrad.sum(v[0]) < 40, lambda v: (v[0].mT * 2.0, v[0].mT), (x, x * 1.0)
    ),
    "a captured array": lambda x: agrad.while_loop(
        lambda v: agrad.sum(v[0]) < 40, lambda v: (v[0] * 2.0, x), (x, x * 1.0)
    ),
    "branches": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: (x, x.mT), lambda x: (x, x * 2.0), x),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_write_to_a_raw_result_changes_nothing_else(name: str) -> None:
    for run in (PAIRS[name], jitted := agrad.jit(PAIRS[name]), jitted):
        for k in range(2):
            x = X.copy()
            results = run(x)
            other = results[1 - k].copy()
            results[k][...] += 10.0
            assert_close(x, X, "operand", 0.0)
            assert_close(results[1 - k], other, "the other result", 0.0)
            assert results[k].flags.c_contiguous


def test_a_write_to_a_result_changes_no_constant() -> None:
    k = np.ones(2)
    for f in (
        lambda x: agrad.while_loop(lambda v: agrad.sum(v[0]) < 40, lambda v: (v[0] * 2.0, k[:]), (x, k * 2.0))[1],
        lambda x: agrad.cond(x[0, 0] > 0, lambda: k, lambda: x[0]),
    ):
        run = agrad.jit(f)
        run(X)[...] = -7.0
        assert k.tolist() == run(X).tolist() == [1.0, 1.0]

"""``scan``, ``cond`` and ``while_loop`` outside of jit, and their results: arrays of their own in row-major order."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from modes import check_mapped, check_same, check_traced, compare, gradient, loop, total
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, OperandError, ShapeError

_rng = np.random.default_rng(2)
W, H0, XS = _rng.standard_normal((3, 3)) * 0.5, _rng.standard_normal(3), _rng.standard_normal((7, 3))


def by_definition(step: Any, carry: Any, xs: Any, reverse: bool = False, checkpoint: Any = False) -> Any:
    """The definition of ``scan``, on arrays named x."""
    rows = [{"x": xs["x"][(i, ...)]} for i in range(len(XS))]
    ys = []
    for row in rows[::-1] if reverse else rows:
        carry, y = step(carry, row)
        ys.append(y)
    return carry, [agrad.stack(list(parts)) for parts in zip(*(ys[::-1] if reverse else ys), strict=True)]


def loss(scan: Any, **settings: Any) -> Any:
    """The loss of a recurrent network, which depends on its last state and all its outputs."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h = agrad.tanh(agrad.matmul(w, carry["h"]) + x["x"])
            return {"h": h, "n": carry["n"] + 1.0}, (h * h, agrad.sum(x["x"]))

        carry, (squares, sums) = scan(step, {"h": h, "n": agrad.sum(h) * 0}, {"x": xs}, **settings)
        places = agrad.reshape(agrad.cumulative_sum(agrad.ones_like(sums)), (-1, 1))
        return agrad.sum(carry["h"]) * carry["n"] + agrad.sum(squares * places) + agrad.sum(sums * sums)

    return f


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True, 3])
def test_scan_is_its_definition(reverse: bool, checkpoint: Any, place: Any) -> None:
    f, plain = (loss(scan, reverse=reverse, checkpoint=checkpoint) for scan in (agrad.scan, by_definition))
    modes = ("value", "gradient", "forward over reverse", "backward", "vmap of the gradient")
    check_same(f, plain, tuple(map(place, (W, H0, XS))), modes, 1e-11)


def test_scan_without_xs_and_without_steps() -> None:
    carry, ys = agrad.scan(lambda c, x: (c * 2, c), np.ones(2), length=4)
    assert_close(carry, [16.0, 16.0], "carry")
    assert_close(ys[:, 0], [1, 2, 4, 8], "ys")
    total, ys = agrad.scan(lambda c, x: (c + x, c), 0.0, np.asarray([1.0, 2.0, 3.0], dtype=np.float32))
    assert (total, ys.tolist(), ys.dtype) == (6.0, [0.0, 1.0, 3.0], np.float32)  # a number's first y is as the others
    assert agrad.scan(lambda c, x: (c, 2.0), 0.0, XS)[1].tolist() == [2.0] * len(XS)
    carry, nothing = agrad.scan(lambda c, x: (c + x, None), np.zeros(3), XS)
    assert nothing is None
    assert_close(carry, XS.sum(axis=0), "a sum")
    _, ys = agrad.scan(lambda c, x: (c, {"y": agrad.stack([x, x])}), 0.0, XS[:0])
    assert ys["y"].shape == (0, 2, 3) and ys["y"].dtype == np.float64


def test_scan_keeps_pieces_only() -> None:
    """Checkpointed by the square root, each step runs twice, and no more than a piece is on the tape."""
    runs: list[int] = []

    def step(c: Any, x: Any) -> Any:
        runs.append(1)
        return agrad.sin(c) + x, None

    x = agrad.asarray(np.zeros((100, 2)), requires_grad=True)
    carry, _ = agrad.scan(step, agrad.zeros(2), x, checkpoint=True)
    operations = [row.op for row in agrad.graph(carry, limit=None).rows if row.op]
    assert operations.count("checkpoint piece") == math.isqrt(100) and "sin" not in operations
    agrad.sum(carry).backward()
    assert len(runs) == 200
    assert x.grad is not None and x.grad.shape == (100, 2)


def step(c: Any, x: Any) -> Any:
    return c, x


ERRORS: list[Refusal] = [
    (ShapeError, "must have one length, got 2, 7", lambda: agrad.scan(step, 0.0, (XS, XS[:2]))),
    (ShapeError, "must have one length", lambda: agrad.scan(step, 0.0, XS, length=3)),
    (ConfigurationError, "length must be an integer", lambda: agrad.scan(step, 0.0)),
    (ConfigurationError, "must not be negative, got -1", lambda: agrad.scan(step, 0.0, length=-1)),
    (ShapeError, "must have an axis to scan along", lambda: agrad.scan(step, 0.0, np.asarray(1.0))),
    (OperandError, "must be an array", lambda: agrad.scan(step, 0.0, ["a"])),
    (OperandError, "a pair", lambda: agrad.scan(lambda c, x: c, H0, XS)),
    (ShapeError, "must return a carry with the structure", lambda: agrad.scan(lambda c, x: ((c, c), x), H0, XS)),
    (ShapeError, "it was float64(3,), got float64(1,)", lambda: agrad.scan(lambda c, x: (c[:1], x), H0, XS)),
    (ShapeError, "must not change the shape", lambda: agrad.scan(lambda c, x: (agrad.astype(c, "float32"), x), H0, XS)),
    (OperandError, "Use agrad.asarray", lambda: agrad.scan(lambda c, x: (c, "y"), H0, XS)),
    (ConfigurationError, "checkpoint must be a Boolean or", lambda: agrad.scan(step, H0, XS, checkpoint=0)),
    (ShapeError, "must be a scalar", lambda: agrad.cond(H0 > 0, lambda: 1, lambda: 2)),
    (ShapeError, "structure", lambda: agrad.while_loop(lambda v: True, lambda v: (v, v), H0)),
]

test_errors = refuses(ERRORS)


def test_cond(place: Any) -> None:
    x = place(H0)
    f = lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: agrad.sum(x * x), lambda x: agrad.sum(-x), x)  # noqa: E731
    for at in (x, -x):
        total = float(host(at).sum())
        assert_close(agrad.grad(f)(at), 2 * host(at) if total > 0 else -np.ones(3), "the branch taken")
    assert agrad.cond(True, lambda: 1, lambda: 2) == 1
    assert_close(agrad.vmap(lambda v: agrad.cond(v > 0, lambda: v, lambda: -v))(x), np.abs(H0), "both run, one counts")


def test_while_loop(place: Any) -> None:
    """Newton's square root: the derivative through the steps, both ways, is that of the root."""

    def root(a: Any) -> Any:
        def better(state: Any) -> Any:
            x, _ = state
            after = (x + a / x) * 0.5
            return after, agrad.abs(after - x)

        return agrad.while_loop(lambda s: s[1] > 1e-12, better, (a * 0 + 1.0, a * 0 + 1.0))[0]

    check_same(root, agrad.sqrt, (place(np.asarray(2.0)),), ("value", "gradient", "tangent", "reverse over reverse"))
    assert_close(agrad.vmap(root)(place(np.asarray([2.0, 300.0]))), np.sqrt([2.0, 300.0]), "members stop one by one")


MATRICES = np.stack([np.zeros((2, 2)), np.diag([1.0, 2.0]), np.ones((2, 2)), [[2.0, 1.0], [1.0, 3.0]]])
FAILING: dict[str, Any] = {
    "inv": lambda a: agrad.cond(agrad.abs(agrad.linalg.det(a)) > 0.5, agrad.linalg.inv, lambda a: a * a, a),
    "solve": lambda a: agrad.cond(a[1, 1] < 1.5, agrad.tanh, lambda a: agrad.linalg.solve(a @ a.T, a), a),
    "switch": lambda a: agrad.switch(
        agrad.astype(a[1, 1], agrad.int64), [lambda a: a * 3, agrad.sin, agrad.linalg.inv, agrad.linalg.cholesky], a
    ),
    "index": lambda a: agrad.cond(
        a[1, 1] < 2.5,
        lambda i: agrad.take(a, i, axis=0),
        lambda i: agrad.take(a, i - 2, axis=0) ** 2,
        agrad.reshape(agrad.astype(a[1, 1] > 2.5, agrad.int64) * 3, (1,)),
    ),
}


@each_row(FAILING)
def test_a_branch_fails_for_no_batch_element_that_does_not_take_it(case: Row, place: Any) -> None:
    f, xs = case.value, place(MATRICES)
    check_mapped(f, [xs], tolerance=1e-11)
    second = agrad.hessian(total(f))
    compare(agrad.vmap(second)(xs), loop(second, [xs], (0,)), "second order", 1e-11)
    check_mapped(f, [place(MATRICES[:1])], wrap=agrad.jit)  # there are branches that nobody takes


def of_trace(number: Any, other: Any = agrad.sin) -> Any:
    """Return a branch for a trace above 4, where ``number`` of a matrix and a weight has all derivatives."""
    return lambda w, a: agrad.cond(
        agrad.linalg.trace(a) > 4, number, lambda w, a: agrad.sum(other(a) * w), w[()] - 1, a
    )


UNTAKEN: dict[str, Any] = {
    "solve": of_trace(lambda w, a: agrad.sum(agrad.linalg.solve(a @ a.T, a * w))),
    "eigenvectors": of_trace(lambda w, a: w * agrad.sum(agrad.linalg.eigh(a + a.T)[1][0, :] ** 2 * a)),
    "singular vectors": of_trace(lambda w, a: w * agrad.sum(agrad.linalg.svd(a)[0] ** 2 * a)),
    "determinant": of_trace(lambda w, a: w * agrad.linalg.slogdet(a)[1]),
    "norm": of_trace(lambda w, a: agrad.linalg.vector_norm(a * w)),
    "weight": of_trace(lambda w, a: agrad.sum(a) / w + agrad.sqrt(w)),
    "weight that raises": of_trace(lambda w, a: agrad.sum(agrad.linalg.inv(a * w))),
    "logarithm": of_trace(lambda w, a: agrad.log(agrad.sum(a) - 4) * w),
    "switch": lambda w, a: agrad.switch(
        agrad.astype(agrad.linalg.trace(a), agrad.int64) - 1,
        [
            lambda w, a: agrad.sum(w * a),
            lambda w, a: w * agrad.sqrt(agrad.sum(a) - 1.5),
            lambda w, a: w * agrad.linalg.vector_norm(a - agrad.linalg.inv(a)),
            lambda w, a: w / agrad.linalg.det(a - 1),
        ],
        w,
        a,
    ),
    "finished": lambda w, a: agrad.while_loop(
        lambda s: agrad.linalg.trace(s[1]) > 2.5,
        lambda s: (s[0] * w, agrad.linalg.inv(s[1]) * (s[0] / (2 + s[0]))),
        (w[()] + agrad.sum(a), a),
    )[1],
}


@each_row(UNTAKEN)
def test_a_branch_has_no_derivative_for_batch_elements_that_do_not_take_it(case: Row, place: Any) -> None:
    """In any order of transforms, derivatives of ``vmap`` are those of a loop, also if nobody takes the branch."""

    def check(f: Any, xs: Any, *modes: str) -> None:
        def looped(w: Any, xs: Any) -> Any:
            rows = [agrad.tree.leaves(f(w, xs[(i, ...)])) for i in range(xs.shape[0])]
            return [agrad.stack(list(parts)) for parts in zip(*rows, strict=True)]

        with np.errstate(all="ignore"):
            check_same(agrad.vmap(f, in_axes=(None, 0)), looped, xs, modes, 1e-9)

    some, nobody = ([place(np.asarray(w)), place(xs)] for w, xs in ((1.5, MATRICES), (1.0, MATRICES[1:3])))
    if case.name == "finished":  # a loop without reverse mode
        check(case.value, some, "value", "tangent", "forward over forward")
        return
    check(case.value, some, "value", "forward over reverse", "reverse over forward", "reverse over reverse")
    check(gradient(case.value), some, "gradient")
    check(case.value, nobody, "reverse over reverse")


# ---------------------------------------------------------------- results of control flow

PAIR_OF_ROWS = np.asarray([[1.0, 2.0], [5.0, 3.0]])

RESULTS: dict[str, Callable[[Any], Any]] = {
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
@each_row(RESULTS)
def test_a_write_through_a_reshape_of_a_result(case: Row, order: Any, place: Any) -> None:
    def f(x: Any) -> Any:
        y = case.value(x)
        view = agrad.reshape(y, (-1,))
        view += 10.0
        return y

    def fresh() -> Any:
        return agrad.asarray(place(np.array(PAIR_OF_ROWS, order=order)))

    expected = host(case.value(fresh())) + 10.0
    for run in (f, agrad.jit(f), agrad.jit(f)):
        x = fresh()
        assert_close(run(x), expected, "value", 0.0)
        assert_close(x, PAIR_OF_ROWS, "operand", 0.0)
    check_same(f, case.value, (fresh(),), ("tangent",))
    check_traced(f, (fresh(),), ("tangent",))
    members = np.stack([PAIR_OF_ROWS, PAIR_OF_ROWS + 1.0, PAIR_OF_ROWS - 0.5])
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

    expected = 3.0 * PAIR_OF_ROWS * PAIR_OF_ROWS
    expected[1, 0] = 0.0
    assert_close(agrad.grad(loss)(place(PAIR_OF_ROWS)), expected, "reverse", 1e-12)
    assert_close(agrad.grad(agrad.jit(loss))(place(PAIR_OF_ROWS)), expected, "jitted", 1e-12)
    second = np.zeros((2, 2, 2, 2))
    for i, j in np.ndindex(2, 2):
        second[i, j, i, j] = 6.0 * PAIR_OF_ROWS[i, j] * ((i, j) != (1, 0))
    assert_close(agrad.hessian(loss)(place(PAIR_OF_ROWS)), second, "second order", 1e-12)


def small(pair: Any) -> Any:
    return agrad.sum(pair[0]) < 40


PAIRS: dict[str, Callable[[Any], Any]] = {
    "one array twice": lambda x: agrad.while_loop(small, lambda v: (v[0] * 2.0,) * 2, (x, x)),
    "a view": lambda x: agrad.while_loop(small, lambda v: (v[0].mT * 2.0, v[0].mT), (x, x * 1.0)),
    "a captured array": lambda x: agrad.while_loop(small, lambda v: (v[0] * 2.0, x), (x, x * 1.0)),
    "branches": lambda x: agrad.cond(agrad.sum(x) > 0, lambda x: (x, x.mT), lambda x: (x, x * 2.0), x),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_write_to_a_raw_result_changes_nothing_else(name: str) -> None:
    for run in (PAIRS[name], jitted := agrad.jit(PAIRS[name]), jitted):
        for k in range(2):
            x = PAIR_OF_ROWS.copy()
            results = run(x)
            other = results[1 - k].copy()
            results[k][...] += 10.0
            assert_close(x, PAIR_OF_ROWS, "operand", 0.0)
            assert_close(results[1 - k], other, "the other result", 0.0)
            assert results[k].flags.c_contiguous


def test_a_write_to_a_result_changes_no_constant() -> None:
    k = np.ones(2)
    for f in (
        lambda x: agrad.while_loop(lambda v: agrad.sum(v[0]) < 40, lambda v: (v[0] * 2.0, k[:]), (x, k * 2.0))[1],
        lambda x: agrad.cond(x[0, 0] > 0, lambda: k, lambda: x[0]),
    ):
        run = agrad.jit(f)
        run(PAIR_OF_ROWS)[...] = -7.0
        assert k.tolist() == run(PAIR_OF_ROWS).tolist() == [1.0, 1.0]

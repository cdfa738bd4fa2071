"""``scan``, ``cond`` and ``while_loop`` outside of jit: values, derivatives, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from modes import check_mapped, check_same, compare, gradient, loop, total
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

    a = place(np.asarray(2.0))
    assert_close(root(a), math.sqrt(2), "value")
    assert_close(agrad.grad(root)(a), 0.5 / math.sqrt(2), "reverse")
    assert_close(agrad.jvp(root, (a,), (a,))[1], 1 / math.sqrt(2), "forward")
    assert_close(agrad.grad(agrad.grad(root))(a), -0.25 * 2**-1.5, "second order")
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

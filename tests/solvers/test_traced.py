"""The solvers inside ``jit``: the same solutions and derivatives, and NaN where they do not converge."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.solvers import traced

A = np.asarray([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
B = np.asarray([1.0, 2.0, 3.0])

Function = Callable[[Any], Any]
SOLVERS: dict[str, Callable[[Any], Function]] = {
    "fixed_point": lambda a: lambda b: agrad.fixed_point(lambda x: agrad.tanh(agrad.matmul(a, x) * 0.1) + b / 2, 0 * b),
    "root": lambda a: lambda b: agrad.root(lambda x: x**3 + agrad.matmul(a, x) - b, 0 * b),
    "linear_solve": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * (1 + b * b), b * b),
    "cg": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * agrad.sum(b * b), b, method="cg"),
    "bicgstab": lambda a: (
        lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) + agrad.multiply(b, x), b, method="bicgstab")
    ),
}


@pytest.fixture(params=SOLVERS)
def solve(request: Any, place: Any) -> Function:
    return SOLVERS[request.param](place(A))


def loss(solve: Function) -> Function:
    return lambda b: agrad.sum(agrad.sin(solve(b)))


@pytest.mark.parametrize("dense", [True, False])
def test_solutions_and_derivatives(solve: Function, dense: bool, place: Any, monkeypatch: Any) -> None:
    if not dense:
        monkeypatch.setattr(traced, "DENSE", 1)
    b, along = place(B), place(np.asarray([1.0, -0.5, 0.25]))
    for f, what in (
        (solve, "value"),
        (agrad.grad(loss(solve)), "reverse"),
        (lambda b: agrad.jvp(solve, (b,), (along,))[1], "forward"),
        (lambda b: agrad.jvp(agrad.grad(loss(solve)), (b,), (along,))[1], "second order"),
        (lambda b: agrad.vmap(solve)(agrad.stack([b, 2 * b, b * b])), "mapped"),
    ):
        assert_close(agrad.jit(f)(b), host(f(b)), what, 1e-6)


def test_no_solution_is_nan(place: Any) -> None:
    b = place(B)
    for f in (
        lambda b: agrad.fixed_point(lambda x: 2 * x + b, b, maxiter=20),
        lambda b: agrad.root(lambda x: x * x + 1, b + 0.3, maxiter=3),
    ):
        assert np.isnan(host(agrad.jit(f)(b))).all()

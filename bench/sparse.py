"""Sparse Jacobians compared with dense ones and colored differences, and the picture of a pattern.

    python -m bench.sparse [NAME...]
    python -m bench.sparse --picture docs/_static/sparse.svg

Times are processor seconds, the minimum of several; the candidates alternate in one process.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize._numdiff import approx_derivative, group_columns
from scipy.sparse import csr_matrix

import agrad
from bench.adbench import OBSERVATIONS, observed
from bench.common import load


class Problem(NamedTuple):
    """A function, its argument, and one of the same form that is small enough for a dense Jacobian."""

    f: Callable[[Any], Any]
    x: np.ndarray
    small: np.ndarray | None


RNG = np.random.default_rng(0)


def tridiagonal(x: Any) -> Any:
    return x[:-2] * x[1:-1] - 2 * x[1:-1] ** 2 + agrad.sin(x[2:])


def stencil(x: Any) -> Any:
    """Return the residual of Bratu's equation on a grid, by five points."""
    p = agrad.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x + 0.01 * agrad.exp(x)


def brusselator(y: Any) -> Any:
    """Return the rates of two substances that react and diffuse on a periodic grid."""

    def spread(w: Any) -> Any:
        around = (
            agrad.roll(w, 1, axis=0) + agrad.roll(w, -1, axis=0) + agrad.roll(w, 1, axis=1) + agrad.roll(w, -1, axis=1)
        )
        return around - 4 * w

    u, v = y[0], y[1]
    return agrad.stack([1 + u * u * v - 4.4 * u + spread(u), 3.4 * u - u * u * v + spread(v)])


def collocation(z: Any) -> Any:
    """Return the Hermite-Simpson defects for van der Pol's oscillator with a control; rows are times."""
    h = 0.05

    def rate(s: Any, u: Any) -> Any:
        return agrad.stack([s[:, 1], (1 - s[:, 0] ** 2) * s[:, 1] - s[:, 0] + u], axis=1)

    s, u = z[:, :2], z[:, 2]
    k = rate(s, u)
    middle = rate((s[1:] + s[:-1]) / 2 + h / 8 * (k[:-1] - k[1:]), (u[1:] + u[:-1]) / 2)
    return s[1:] - s[:-1] - h / 6 * (k[:-1] + 4 * middle + k[1:])


class _Functions:
    """The functions of ``bench.transforms_jobs`` in agrad."""

    sum, concat, sqrt, cos, sin = (staticmethod(getattr(agrad, n)) for n in ("sum", "concat", "sqrt", "cos", "sin"))

    def stack_last(self, parts: Any) -> Any:
        return agrad.stack(parts, axis=-1)

    def __init__(self) -> None:
        self.concat = lambda parts, axis: agrad.concat(parts, axis=axis)  # type: ignore[method-assign,assignment]
        self.sum = lambda x, axis: agrad.sum(x, axis=axis)  # type: ignore[method-assign,assignment]


def adjustment(cameras: int, points: int, observations: int) -> Problem:
    """Return ADBench's bundle adjustment as one function of all cameras, points and weights."""
    camera, point = RNG.integers(0, cameras, observations), RNG.integers(0, points, observations)
    feature, m = RNG.standard_normal((observations, 2)), _Functions()
    ends = 11 * cameras, 11 * cameras + 3 * points

    def f(x: Any) -> Any:
        c, p = agrad.reshape(x[: ends[0]], (cameras, 11)), agrad.reshape(x[ends[0] : ends[1]], (points, 3))
        v = agrad.concat([c[camera], p[point], x[ends[1] :][:, None]], axis=1)
        return observed(m, v, feature)

    usual = np.concatenate(
        [np.tile([0.3] * 3 + [0.0] * 8, cameras), np.tile([0.0, 0.0, 3.0], points), np.ones(observations)]
    )
    return Problem(f, usual + 0.1 * RNG.standard_normal(usual.size), None)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "tridiagonal, n = 1,000": lambda: Problem(tridiagonal, RNG.standard_normal(1000), RNG.standard_normal(1000)),
    "tridiagonal, n = 100,000": lambda: Problem(tridiagonal, RNG.standard_normal(100_000), None),
    "stencil, 300 x 300": lambda: Problem(stencil, RNG.standard_normal((300, 300)), RNG.standard_normal((30, 30))),
    "Brusselator, 2 x 64 x 64": lambda: Problem(
        brusselator, RNG.uniform(size=(2, 64, 64)), RNG.uniform(size=(2, 20, 20))
    ),
    "collocation, 5,000 times": lambda: Problem(collocation, RNG.uniform(size=(5000, 3)), RNG.uniform(size=(300, 3))),
    "bundle adjustment, set 1": lambda: adjustment(49, 7776, OBSERVATIONS[0]),
    "bundle adjustment, set 3": lambda: adjustment(161, 48_126, OBSERVATIONS[2]),
}


def least(call: Callable[[], Any], times: int) -> float:
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return float(best)


def measured(name: str) -> str:
    """Return a row of the table: times as multiples of an evaluation."""
    f, x, small = PROBLEMS[name]()
    once = least(lambda: f(x), 15)
    jac = agrad.sparse_jacobian(f)
    first = least(lambda: jac(x), 1)
    matrix = jac(x)
    later = least(lambda: jac(x), 5)
    tracemalloc.start()
    agrad.sparse_jacobian(f)(x)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    jitted, values = agrad.jit(jac), agrad.jit(f)
    jitted(x), values(x)
    replayed, replayed_once = least(lambda: jitted(x), 5), least(lambda: values(x), 15)
    pattern = csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    groups = group_columns(pattern)

    def flat(v: np.ndarray) -> np.ndarray:
        return np.asarray(f(v.reshape(x.shape))).ravel()

    differences = least(lambda: approx_derivative(flat, x.ravel(), sparsity=(pattern, groups)), 2)
    error = abs(approx_derivative(flat, x.ravel(), method="3-point", sparsity=(pattern, groups)) - matrix).max()
    dense = ""
    if small is not None:
        agrad.sparse_jacobian(f)(small)
        ours = agrad.sparse_jacobian(f)
        wanted = agrad.jacobian(f)(small)
        assert np.allclose(ours(small).toarray(), wanted.reshape(-1, small.size))
        ratio = least(lambda: agrad.jacobian(f)(small), 2) / least(lambda: ours(small), 5)
        dense = f"{ratio:,.0f} (n = {small.size:,})"
    colors = _colors(f, x)
    cells = [
        name, f"{matrix.shape[0]:,} x {matrix.shape[1]:,}", f"{matrix.nnz:,}", colors, f"{1e3 * once:.2f}",
        f"{1e3 * first:.0f} ({first / once:.0f})", f"{1e3 * later:.1f} ({later / once:.1f})",
        f"{1e3 * replayed:.1f} ({replayed / replayed_once:.1f})",
        f"{1e3 * differences:.0f} ({differences / once:.0f}, {int(groups.max()) + 1} groups)", f"{error:.0e}", dense,
        f"{memory / 2**20:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _colors(f: Callable[[Any], Any], x: np.ndarray) -> str:
    from agrad.transforms import sparse

    plans: list[Any] = []
    made = sparse._Plan

    class Noted(made):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            plans.append(self)

    sparse._Plan = Noted  # type: ignore[misc]
    try:
        agrad.sparse_jacobian(f)(x)
    finally:
        sparse._Plan = made  # type: ignore[misc]
    return f"{plans[0].coloring.number} {'columns' if plans[0].forward else 'rows'}"


def picture(file: Path) -> None:
    """Draw the pattern of a stencil and of a Hessian, with the colors of the columns."""
    from agrad.transforms.coloring import colored

    def energy(x: Any) -> Any:
        return agrad.sum(x[0] * x[1:] ** 2) + agrad.sum((x[1:] - x[:-1]) ** 4)

    matplotlib, figure = load("matplotlib"), load("matplotlib.figure").Figure
    grid = agrad.sparse_jacobian(stencil)(np.ones((6, 6)))
    arrow = agrad.sparse_hessian(energy)(np.arange(1.0, 19.0))
    page = figure(figsize=(9, 4.6), layout="constrained")
    shown = (("A stencil on 6 x 6 points", grid, (6, 6), False), ("A Hessian, by its symmetry", arrow, (18,), True))
    for axes, (title, matrix, shape, symmetric) in zip(page.subplots(1, 2), shown, strict=True):
        found = colored(matrix, shape, symmetric)
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        axes.scatter(matrix.indices, rows, c=[f"C{k}" for k in found.colors[matrix.indices]], marker="s", s=22)
        axes.set(title=f"{title}: {matrix.shape[1]} columns, {found.number} colors", aspect="equal")
        axes.set(xlabel="element of the argument", ylabel="element of the result")
        axes.invert_yaxis()
    # no date, and fixed names of parts: the same picture creates the same file
    with matplotlib.rc_context({"svg.hashsalt": "agrad"}):
        page.savefig(file, format="svg", metadata={"Date": None})


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--picture"]:
        picture(Path(arguments[1]))
        return
    agrad.sparse_jacobian(tridiagonal)(np.ones(9))  # imports
    heads = (
        "problem",
        "shape",
        "elements",
        "colors",
        "f, ms",
        "first call",
        "later",
        "jit",
        "differences",
        "error",
        "dense / sparse",
        "MB",
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in PROBLEMS:
        if not arguments or any(word in name for word in arguments):
            print(measured(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

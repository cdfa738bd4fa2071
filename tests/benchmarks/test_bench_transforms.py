"""The suite of transforms: every library computes the same derivatives; a quick run; what is missing is named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from refusals import fails
from test_bench import check_files, tables

from bench import adbench, transforms, transforms_jobs
from bench.common import Missing, Timing
from bench.limits import Limits
from bench.transforms_jobs import HESSIAN, LOOP, SAMPLES

pytest_plugins = ["bench_fixtures"]

PROBLEMS = transforms_jobs.problems(quick=True)
MODULES = {"torch.func": "torch", "autograd": "autograd"}


def off(problem: transforms_jobs.Problem) -> float:
    return 1e-4 if isinstance(problem.x, tuple) else 1e-9


def check_job(name: str, problem: transforms_jobs.Problem, error: float, what: str) -> None:
    """Check that a library computes what agrad does."""
    ours, theirs = transforms_jobs.job("agrad", problem), transforms_jobs.job(name, problem)
    found, expected = np.asarray(ours.read(ours.step())), np.asarray(theirs.read(theirs.step()))
    assert found.shape == expected.shape and np.any(found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=error * (1 + np.max(np.abs(expected))), err_msg=what)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(m)) for n, m in MODULES.items()])
def test_the_libraries_compute_the_same(name: str) -> None:
    compared = 0
    for (objective, task), problem in PROBLEMS.items():
        if objective == "Gaussian mixture" and task == HESSIAN and name == "autograd":
            continue  # it takes a minute
        if task == LOOP or (problem.rows and name == "autograd"):
            fails(Missing, "vmap", transforms_jobs.job, name, problem)
            continue
        check_job(name, problem, off(problem), f"{objective}: {task}")
        compared += 1
    assert compared >= 14


def test_samples_by_a_map_are_those_of_the_loop() -> None:
    mapped, loop = (transforms_jobs.job("agrad", PROBLEMS["digits perceptron", task]) for task in (SAMPLES, LOOP))
    np.testing.assert_allclose(mapped.read(mapped.step()), loop.read(loop.step()), atol=1e-5)


def test_derivatives_that_differ_are_an_error() -> None:
    same = {"Rosenbrock: gradient": [3.0, 5.0, 2]}
    transforms._check({"agrad": same, "jax": {"Rosenbrock: gradient": [3.0, 5.0 + 1e-9, 2]}})
    other = {"agrad": same, "jax": {"Rosenbrock: gradient": [3.1, 5.0, 2]}}
    fails(Missing, "Rosenbrock: gradient: jax has another derivative than agrad", transforms._check, other)


def test_what_falls_short_is_said() -> None:
    timings = {
        "a: gradient": {"agrad": Timing([2.0, 2.0]), "autograd": Timing([1.0, 1.0]), "jax": Timing([1.0, 1.0])},
        "b: gradient": {"agrad": Timing([1.0, 1.0]), "torch.func": Timing([2.0, 2.0])},
    }
    best = Limits(flops=1.0, bytes=10.0, where="the processor")
    traffic = {"a: gradient": 10, "b: gradient": 5}
    text, short = transforms.table(timings, ["torch.func", "jax", "autograd"], traffic, best)
    assert short == ["a: gradient: 2.00 x autograd"]
    (rows,) = tables(text)
    assert rows[2][1:] == ["2e+03", "", "", "2.00 (2.00 to 2.00)", "2.00 (2.00 to 2.00)", "50.00%"]


def test_a_jitted_function_that_is_slower_than_eager_is_said() -> None:
    timings = {"a: gradient": {"agrad": Timing([1.0, 1.0]), "agrad.jit": Timing([1.5, 1.3])}}
    text, short = transforms.table(timings, [], {"a: gradient": 10}, Limits(flops=1.0, bytes=10.0, where="here"))
    assert short == ["a: gradient: jitted 1.40 x eager"]
    assert "1.40 (1.35 to 1.45)" in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.needs(m)) for n, m in ({"agrad.jit": "numpy"} | MODULES).items()]
)
def test_the_libraries_compute_the_same_objectives_of_adbench(name: str) -> None:
    for row, problem in adbench.problems(quick=True).items():
        check_job(name, problem, 1e-9, str(row))


def test_a_loop_too_long_to_compile_is_left_out() -> None:
    short, long = [p for p in adbench.problems().values() if p.unrolled]
    for name, problem in (("agrad.jit", long), ("jax.jit", long), ("jax.jit", short)):
        fails(Missing, "too long to compile", transforms_jobs.job, name, problem)


def test_rotations_of_the_hand() -> None:
    words = transforms_jobs.library("agrad").words
    for axis in range(3):
        turn = adbench.turned(words, np.asarray([0.3, -1.2]), axis)
        np.testing.assert_allclose(turn @ np.swapaxes(turn, 1, 2), np.stack([np.eye(3)] * 2), atol=1e-12)
        np.testing.assert_allclose(np.linalg.det(turn), 1.0)
        np.testing.assert_allclose(turn[:, axis, axis], 1.0)


def test_a_quick_run(run: Callable, tmp_path: Path) -> None:
    code, out, err = run("transforms", "--quick", "--peers", "none", "--json", str(tmp_path / "transforms.json"))
    assert code == 0, out + err
    rows = tables(out)[0]
    assert [row[0] for row in rows[2:]] == [f"Rosenbrock: {task}" for name, task in PROBLEMS if name == "Rosenbrock"]
    assert set(check_files(tmp_path / "transforms.json", "transforms")["seconds"]) == {row[0] for row in rows[2:]}

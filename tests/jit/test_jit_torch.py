"""Traced programs of PyTorch's arrays handed to ``torch.compile``: the same results, and what it does not take."""

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jit_help import same_training
from modes import check_same
from refusals import fails

import agrad
from agrad import optim
from agrad.errors import ConfigurationError

pytestmark = pytest.mark.needs("torch")

COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.fixture(autouse=True)
def on_torch() -> Iterator[None]:
    with agrad.use_backend("torch"):
        yield


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that PyTorch is given to compile, which run as they are."""
    given: list[Any] = []

    def compiler(graph: Any, **options: Any) -> Any:
        given.append(graph)
        return graph

    monkeypatch.setattr("torch.compile", compiler)
    return given


def array(*shape: int, seed: int = 0) -> Any:
    import torch

    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def trained(make: Any, drop: float = 0.0) -> Any:
    import torch

    jitted = same_training(make, torch.as_tensor, drop=drop, torch_compile=True)
    assert jitted.cache_info()[:2] == (4, 1)
    return jitted


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_a_training_step_is_one_graph(graphs: list[Any], drop: float, torch: Any) -> None:
    """Random numbers of a counted key are drawn before it."""
    jitted = trained(lambda p: optim.SGD(p, lr=lambda step: 0.1 * 0.7**step, momentum=0.9), drop)
    (graph,) = graphs
    assert "aten.mm" in graph.code
    given = array(8, 6), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    assert jitted.lower(*given).code.startswith("# compiled by torch.compile")


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler, which torch.compile needs on a CPU")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
def test_what_pytorch_compiles_computes_the_same() -> None:
    trained(lambda p: optim.Adam(p, lr=0.05))


def test_derivatives_of_a_compiled_function(graphs: list[Any]) -> None:
    f = lambda x: agrad.sum(agrad.tanh(x) ** 3)  # noqa: E731
    modes = ("gradient", "reverse over reverse")
    check_same(agrad.jit(f, torch_compile=True), f, (array(4, 3),), modes, 1e-5)
    assert graphs


def test_numbers_do_not_widen_results_and_may_change_their_kind(graphs: list[Any], torch: Any) -> None:
    jitted = agrad.jit(lambda x, y, a: (x * a, y * a + 1, agrad.sum(x) * a, a * 2), torch_compile=True)
    x, y = array(3), torch.tensor(2.0)
    for a in (0.3, 0.5, 2.0):
        got = jitted(x, y, a)
        for left, right in zip(got[:3], (x * a, y * a + 1, x.sum() * a), strict=True):
            assert left.dtype == torch.float32
            np.testing.assert_allclose(left, right, rtol=1e-6)
        assert got[3] == a * 2
    assert len(graphs) == 1


def test_results_are_arrays_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def frugal(graph: Any, **options: Any) -> Any:
        def run(*given: Any) -> list[Any]:
            out = graph(*given)
            return [out[0], out[0]]  # as a compiler may that finds two results equal

        return run

    monkeypatch.setattr("torch.compile", frugal)
    jitted = agrad.jit(lambda x: (x + 1, 1 + x), torch_compile=True)
    for _ in range(2):
        a, b = jitted(array(4))
        a += 1
        np.testing.assert_allclose(b, array(4) + 1)


def test_what_is_not_compiled_says_so_once_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, **options: Any) -> Any:
        raise RuntimeError("no compiler found\nand much more")

    monkeypatch.setattr("torch.compile", broken)
    jitted = agrad.jit(lambda x: x * 2, torch_compile=True)
    with pytest.warns(RuntimeWarning, match=r"torch_compile=False.*RuntimeError: no compiler found$") as caught:
        np.testing.assert_array_equal(jitted(array(4)), array(4) * 2)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(jitted(array(4)), array(4) * 2)


def test_an_error_of_the_program_is_its_own(graphs: list[Any], torch: Any) -> None:
    jitted = agrad.jit(agrad.linalg.cholesky, torch_compile=True)
    good = torch.eye(3)
    fails(torch.linalg.LinAlgError, "positive-definite", jitted, -good)
    np.testing.assert_allclose(jitted(good), good)
    assert len(graphs) == 1


def test_on_a_cpu_programs_are_compiled_only_if_asked(graphs: list[Any]) -> None:
    x = array(4)
    for options in ({}, {"torch_compile": False}):
        jitted = agrad.jit(lambda x: x * 2, **options)
        np.testing.assert_array_equal(jitted(x), x * 2)
    assert not graphs
    recorded = array(4).requires_grad_()
    assert agrad.jit(lambda x: x * 2, torch_compile=True)(recorded).requires_grad
    assert not graphs
    fails(ConfigurationError, "torch_compile", lambda: agrad.jit(lambda x: x, torch_compile="yes"))

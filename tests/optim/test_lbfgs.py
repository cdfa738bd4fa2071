"""L-BFGS against PyTorch's, with and without a line search; resumed; refusals."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close, all_equal, draw, host, leaf

import agrad
from agrad import optim
from agrad.errors import ConfigurationError, DataError, DtypeError, TracedValueError


def rosenbrock(xp: Any, x: Any, b: Any) -> Any:
    """A valley in four dimensions, with a second parameter of no axes."""
    curved = x[1:] - x[:-1] ** 2
    return 10 * xp.sum(curved**2) + xp.sum((1 - x[:-1]) ** 2) + (b - x[0]) ** 2


def closure_of(optimizer: Any, loss: Any) -> Any:
    def closure() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    return closure


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.2, "max_iter": 7, "history_size": 3},
        {"line_search_fn": "strong_wolfe", "max_iter": 20, "history_size": 2, "lr": 0.5},
        {"line_search_fn": "strong_wolfe", "max_iter": 8, "max_eval": 5},
        {"line_search_fn": "strong_wolfe", "tolerance_grad": 1e-2, "tolerance_change": 1e-3},
    ],
    ids=str,
)
def test_steps_are_pytorchs(backend: str, options: dict[str, Any], torch: Any) -> None:
    if backend == "dask":  # each number that is read computes all arrays before it again
        options = {**options, "max_iter": 2}
    start = np.asarray([-1.2, 1.0, -0.5, 0.8])
    ours = [leaf(start), leaf(np.asarray(2.0))]
    theirs = [torch.tensor(start, requires_grad=True), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)]
    optimizer, other = optim.LBFGS(ours, **options), torch.optim.LBFGS(theirs, **options)
    mine = closure_of(optimizer, lambda: rosenbrock(agrad, *ours))
    closure = closure_of(other, lambda: rosenbrock(torch, *theirs))
    for _ in range(1 if backend == "dask" else 4):
        with agrad.no_grad():
            loss = optimizer.step(mine)
        np.testing.assert_allclose(loss.item(), other.step(closure).item(), rtol=1e-7, atol=1e-9)
        all_close(ours, [b.detach().numpy() for b in theirs], atol=1e-8)
    state = other.state[theirs[0]]
    assert (optimizer.evaluations, optimizer.iterations) == (state["func_evals"], state["n_iter"])


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_complex_parameters_and_one_without_a_gradient(place: Any, search: str | None) -> None:
    target = draw(3) + 1j * draw(3, seed=1)
    z = agrad.asarray(place(np.zeros(3, complex)), requires_grad=True)
    idle = agrad.asarray(place(draw(2)), requires_grad=True)
    there, before = place(target), host(idle)
    optimizer = optim.LBFGS([z, idle], line_search_fn=search, tolerance_change=1e-14)
    weights = place(np.asarray([1.0, 3.0, 10.0]))
    for _ in range(4):
        optimizer.step(closure_of(optimizer, lambda: agrad.sum(agrad.square(agrad.abs(z - there)) * weights)))
    np.testing.assert_allclose(host(z), target, atol=1e-6)
    np.testing.assert_array_equal(host(idle), before)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_resumed_run_is_equal_bit_for_bit(backend: str, search: str | None) -> None:
    start = np.asarray([-1.2, 1.0, -0.5, 0.8])
    first, second = ([leaf(start), leaf(np.asarray(2.0))] for _ in range(2))
    made = [optim.LBFGS(p, lr=0.3, max_iter=3, line_search_fn=search) for p in (first, second)]
    fresh = made[1].state_dict()
    closures = [closure_of(o, lambda p=p: rosenbrock(agrad, *p)) for o, p in zip(made, (first, second), strict=True)]
    made[1].load_state_dict(fresh)
    for _ in range(2):
        made[0].step(closures[0])
    for a, b in zip(second, first, strict=True):
        a.assign((b.detach() + 0).raw)
    state = made[0].state_dict()
    made[1].load_state_dict(state)
    for _ in range(2):
        for optimizer, closure in zip(made, closures, strict=True):
            optimizer.step(closure)
    all_equal(first, second)
    for wrong in (
        {**state, "gradient": np.ones(3)},
        {**state, "moves": state["moves"][1:]},
        {**fresh, "t": np.ones(())},
    ):
        fails(DataError, "the state of LBFGS was not loaded", made[1].load_state_dict, wrong)


def test_the_closure_may_be_jitted() -> None:
    w = leaf(np.asarray([-1.2, 1.0]))
    b = leaf(np.asarray(0.0))
    optimizer = optim.LBFGS([w, b], line_search_fn="strong_wolfe", max_iter=50)
    closure = agrad.jit(closure_of(optimizer, lambda: rosenbrock(agrad, w, b)))
    optimizer.step(closure)
    np.testing.assert_allclose(host(w), [1.0, 1.0], atol=1e-5)
    assert closure.cache_info().hits > 10


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_an_evaluation_takes_two_reads_of_the_device(
    backend: str, search: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    names = ("item", "tolist", "numpy", "__float__", "__bool__", "__int__", "__array__")
    for name, method in {name: getattr(agrad.Tensor, name) for name in names}.items():

        def read(self: Any, *args: Any, method: Any = method, **kwargs: Any) -> Any:
            reads.append(method.__name__)
            return method(self, *args, **kwargs)

        monkeypatch.setattr(agrad.Tensor, name, read)
    w, b = leaf(np.asarray([-1.2, 1.0, -0.5, 0.8])), leaf(np.asarray(2.0))
    optimizer = optim.LBFGS([w, b], line_search_fn=search, max_iter=4 if backend == "dask" else 8, lr=0.1)
    optimizer.step(closure_of(optimizer, lambda: rosenbrock(agrad, w, b)))
    assert 3 < optimizer.evaluations <= len(reads) <= 2 * optimizer.evaluations


def test_wrong_use_is_an_error() -> None:
    w = leaf(np.ones(2))
    optimizer = optim.LBFGS([w])
    fails(ConfigurationError, "LBFGS: step requires a closure and cannot be skipped", optimizer.step)
    fails(ConfigurationError, "one group", lambda: optim.LBFGS([{"params": [w]}, {"params": [leaf(np.ones(2))]}]))
    match = "LBFGS: parameters must have one precision, got float"
    fails(DtypeError, match, optim.LBFGS, [w, leaf(np.ones(2, np.float32))])
    closure = closure_of(optimizer, lambda: agrad.sum(w**2))

    fails(TracedValueError, r"LBFGS\.step inside", agrad.jit(lambda: optimizer.step(closure)))
    np.testing.assert_array_equal(host(w), np.ones(2))

"""Functions, Tensors, models and trainers travel to other processes, by pickle and by cloudpickle."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_program
from tensors import all_equal

import agrad
from agrad import sin
from agrad.backends import load

X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def cube(x: Any) -> Any:
    return agrad.sum(x**3)


def with_a_global(x: Any) -> Any:
    return sin(x)


def model() -> Any:
    agrad.nn.manual_seed(0)
    norm, drop = agrad.nn.BatchNorm1d(4), agrad.nn.Dropout(0.1)
    return agrad.nn.Sequential(agrad.nn.Linear(3, 4), norm, agrad.nn.ReLU(), drop, agrad.nn.Linear(4, 1))


def trained(jit: bool | None = None) -> Any:
    made = model()
    trainer = agrad.train.Trainer(made, agrad.nn.MSELoss(), agrad.optim.Adam(made.parameters()), ["r2"], jit=jit)
    trainer.fit(X, Y, epochs=2, progress=False)
    return trainer


def stepped(optimizer: Any) -> Any:
    """Take a step, and return the parameters."""
    for p in optimizer.parameters:
        p.grad = agrad.ones_like(p.detach())
    optimizer.step()
    return [p.detach().numpy() for p in optimizer.parameters]


def optimizer() -> Any:
    made = agrad.optim.Adam(model().parameters(), lr=0.1)
    stepped(made)
    return made


def fitted() -> Any:
    from agrad.sklearn import MLPRegressor

    return MLPRegressor(random_state=0).partial_fit(X, Y[:, 0])


def same(function: Any) -> Any:
    """Return a function that was called before, and so has what calls leave."""
    function(X)
    return function


ON_X = {
    "function": lambda: agrad.sin,
    "function of linalg": lambda: agrad.linalg.svdvals,
    "function of special": lambda: agrad.special.gammaln,
    "function of nn": lambda: agrad.nn.functional.gelu,
    "imported name": lambda: with_a_global,
    "grad": lambda: same(agrad.grad(cube)),
    "value_and_grad": lambda: same(agrad.value_and_grad(cube)),
    "jit": lambda: same(agrad.jit(cube)),
    "jit of grad": lambda: same(agrad.jit(agrad.grad(cube))),
    "grad of jit": lambda: same(agrad.grad(agrad.jit(cube))),
    "vmap": lambda: same(agrad.vmap(agrad.grad(cube))),
    "hessian": lambda: same(agrad.hessian(cube)),
    "jacobian": lambda: same(agrad.jacobian(lambda x: x[0] ** 2)),
    "checkpoint": lambda: same(agrad.grad(agrad.checkpoint(cube))),
    "closure": lambda: lambda x: agrad.grad(cube)(x) + agrad.jvp(cube, (x,), (x,))[1],
    "estimator": lambda: fitted().predict,
    "trainer": lambda: trained().predict,
    "trainer without jit": lambda: trained(jit=False).predict,
    "module": lambda: model().eval(),
}
"""Functions of ``X``."""

THINGS = {
    "optimizer": (optimizer, stepped),
    "tensor": (lambda: agrad.asarray(X, requires_grad=True), lambda t: [t.detach().numpy(), t.requires_grad]),
    "backend": (lambda: load("numpy"), lambda b: [b is load("numpy")]),
    "loader": (lambda: agrad.data.DataLoader(X, batch_size=5, shuffle=True, seed=3), list),
}
"""Other objects, and what must be the same of them."""


def arrays(value: Any) -> list[np.ndarray]:
    leaves = agrad.tree.leaves(value)
    return [leaf.detach().numpy() if isinstance(leaf, agrad.Tensor) else np.asarray(leaf) for leaf in leaves]


def assert_same(found: Any, expected: Any) -> None:
    all_equal(arrays(found), arrays(expected))


RECEIVER = """
import pathlib, pickle, sys
here = pathlib.Path(sys.argv[1])
f = pickle.loads((here / "sent").read_bytes())
(here / "back").write_bytes(pickle.dumps(f()))
"""


def elsewhere(pickled: bytes, tmp_path: Path) -> Any:
    """Call a pickled function without arguments in another process, and return what it returned."""
    (tmp_path / "sent").write_bytes(pickled)
    run_program(RECEIVER, tmp_path)
    return pickle.loads((tmp_path / "back").read_bytes())


@pytest.mark.needs("cloudpickle", "sklearn", "safetensors")
def test_copies_through_cloudpickle_in_another_process(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    functions = {name: make() for name, make in ON_X.items()}
    things = {name: make() for name, (make, _) in THINGS.items()}

    def answer() -> list[Any]:
        return [
            [arrays(functions[name](X)) for name in functions],
            [arrays(THINGS[name][1](things[name])) for name in things],
        ]

    sent = cloudpickle.dumps(answer)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert_same(elsewhere(sent, tmp_path), answer())


@pytest.mark.parametrize("name", ["function", "function of linalg", "function of nn", "imported name", "jit", "module"])
def test_copies_through_pickle(name: str) -> None:
    function = ON_X[name]()
    assert_same(pickle.loads(pickle.dumps(function))(X), function(X))


def test_trainers_and_optimizers_through_pickle() -> None:
    trainer = trained()
    copy = pickle.loads(pickle.dumps(trainer))
    for one in (copy, trainer):
        one.fit(X, Y, epochs=2, progress=False)
    assert [record["loss"] for record in copy.history] == [record["loss"] for record in trainer.history]
    assert_same(copy.model.state_dict(), trainer.model.state_dict())
    assert_same(stepped(pickle.loads(pickle.dumps(optimizer()))), stepped(optimizer()))


def test_backends_pickle_by_name(backend: str) -> None:
    made = load(backend)
    assert pickle.loads(pickle.dumps(made)) is made
    x = agrad.asarray([1.0, 2.0], requires_grad=True)
    copy = pickle.loads(pickle.dumps(x))
    assert copy.backend == x.backend and copy.requires_grad

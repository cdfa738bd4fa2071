"""Modules called with other values of their parameters: under every transform, tied, shared, and as they were after."""

from typing import Any

import numpy as np
from refusals import fails
from tensors import same_state
from torch_parity import close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, OperandError, ShapeError

RNG = np.random.default_rng(8)
X = RNG.normal(size=(5, 2, 4, 4))


def network(library: Any) -> Any:
    layers = library.Conv2d(2, 4, 3, groups=2), library.BatchNorm2d(4), library.Tanh(), library.Flatten()
    return library.Sequential(*layers, library.Linear(16, 3)).double().eval()


def values(module: nn.Module) -> dict[str, Any]:
    return {name: here(host(tensor)) for name, tensor in module.named_parameters()}


def test_gradients_of_each_example_are_pytorchs(backend: str, torch: Any) -> None:
    mine, theirs = network(nn), network(torch.nn)
    nn.load_torch_state_dict(mine, theirs.state_dict())
    before = mine.state_dict()

    def loss(parameters: Any, x: Any) -> Any:
        return agrad.sum(nn.functional_call(mine, parameters, agrad.expand_dims(x, axis=0)) ** 2)

    def their_loss(parameters: Any, x: Any) -> Any:
        return (torch.func.functional_call(theirs, (parameters, dict(theirs.named_buffers())), (x[None],)) ** 2).sum()

    tensors = {name: tensor.detach() for name, tensor in theirs.named_parameters()}
    expected = torch.func.vmap(torch.func.grad(their_loss), in_dims=(None, 0))(tensors, torch.asarray(X))
    each = agrad.vmap(agrad.grad(loss), in_axes=(None, 0))
    for f in (each, agrad.jit(each)):
        found = f(values(mine), here(X))
        for name, array in expected.items():
            close(found[name], array.mT if name == "4.weight" else array, name)
    second = agrad.jvp(agrad.grad(lambda p: loss(p, here(X[0]))), (values(mine),), (values(mine),))[1]

    def slope(parameters: Any) -> Any:
        gradient = torch.func.grad(their_loss)(parameters, torch.asarray(X[0]))
        return sum((gradient[name] * tensor).sum() for name, tensor in tensors.items())

    close(second["0.weight"], torch.func.grad(slope)(tensors)["0.weight"], "the second derivative")
    same_state(mine.state_dict(), before)


class Several(nn.Module):
    """Parameters in containers, one of them by two names."""

    def __init__(self) -> None:
        self.layer = nn.Linear(2, 2, dtype="float64")
        self.same = self.layer.weight
        self.others = [(nn.Parameter(np.ones(2)), {"deep": nn.Parameter(np.ones(2))}), self.layer]

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        first, rest = self.others[0]
        return agrad.sum(self.others[1](x @ self.same) + first + 2.0 * rest["deep"]) * factor


def test_parameters_in_containers_and_by_two_names() -> None:
    module = Several()
    held, weight = module.others[0], module.layer.weight
    given = {"same": np.eye(2) * 2, "layer.bias": np.zeros(2), "others.0.0": np.full(2, 3.0)}
    given["others.0.1.deep"] = np.full(2, 5.0)
    assert host(nn.functional_call(module, given, np.ones((1, 2)), {"factor": 2.0})) == 2 * (8 + 6 + 20)
    assert host(nn.functional_call(module, ({"same": given["same"]}, {}), (np.ones((1, 2)),))) != 0
    assert module.others[0] is held and module.layer.weight is weight and module.same is weight
    fails(ValueError, "matmul", lambda: nn.functional_call(module, given, np.ones((1, 3))))
    assert module.others[0] is held and module.layer.weight is weight and module.same is weight


def test_buffers_that_are_given_get_the_running_values() -> None:
    layer = nn.BatchNorm1d(2, momentum=0.5, dtype="float64")
    mean = agrad.asarray(np.zeros(2))
    nn.functional_call(layer, {"running_mean": mean}, np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert mean.numpy().tolist() == [1.0, 1.5] and layer.running_mean.numpy().tolist() == [0.0, 0.0]


def test_errors_name_the_remedy() -> None:
    layer = nn.Linear(2, 3)
    for error, match, arguments in (
        (OperandError, "functional_call: module must be a Module, got int", (3, {})),
        (OperandError, "functional_call: parameters must be dicts of arrays, got NoneType", (layer, None)),
        (OperandError, "parameters must be dicts of arrays, got ndarray", (layer, [np.ones(3)])),
        (OperandError, "functional_call: bias must be an array, got float", (layer, {"bias": 1.0})),
        (ConfigurationError, "no parameter or buffer 'w'.* are: weight, bias", (layer, {"w": np.ones(3)})),
        (ShapeError, r"functional_call: bias must have shape \(3,\), got \(2,\)", (layer, {"bias": np.ones(2)})),
        (ConfigurationError, "must be passed once", (Several(), {"layer.weight": np.eye(2), "same": np.eye(2)})),
    ):
        fails(error, match, nn.functional_call, *arguments, np.ones((1, 2)))

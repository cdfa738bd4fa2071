"""Weights of PyTorch's modules in agrad's, and back."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import here, host, same_state

import agrad
from agrad import nn
from agrad.errors import DataError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.needs("torch")


def network(space: Any) -> Any:
    """A model of layers that both have, in agrad's or PyTorch's ``nn``."""
    return space.Sequential(
        *(space.Conv2d(2, 4, 3, padding=1, groups=2), space.BatchNorm2d(4), space.ReLU()),
        *(space.ConvTranspose2d(4, 3, 2), space.GroupNorm(3, 3), space.PReLU(3), space.MaxPool2d(2), space.Flatten()),
        *(space.Linear(27, 5), space.LayerNorm(5), space.Dropout(0.5)),
        space.ModuleDict({"head": space.Linear(5, 2, bias=False)})["head"],
    )


@pytest.fixture
def theirs() -> Any:
    torch.manual_seed(0)
    model = network(torch.nn).double()
    model(torch.randn(8, 2, 6, 6).double())  # running values other than the first ones
    return model.eval()


X = np.random.default_rng(0).normal(size=(3, 2, 6, 6))


@pytest.mark.parametrize("form", ["tensors", "arrays", "parameters"])
def test_a_network_computes_what_pytorch_s_does(backend: str, theirs: Any, form: str) -> None:
    mine = network(nn).double().eval()
    state = theirs.state_dict()
    if form == "arrays":
        state = {name: value.numpy() for name, value in state.items()}
    if form == "parameters":
        state.update(theirs.named_parameters())
    assert nn.load_torch_state_dict(mine, state) == ([], [])
    found = mine(here(X))
    np.testing.assert_allclose(host(found), theirs(torch.tensor(X)).detach().numpy(), rtol=1e-10, atol=1e-12)
    again = nn.torch_state_dict(mine)
    assert again.keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(again[name], value.numpy())
    network(torch.nn).double().load_state_dict({name: torch.from_numpy(array) for name, array in again.items()})


def test_embedding_and_shared_weights_stand_by_all_names(backend: str) -> None:
    ours, shared = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3)), nn.Linear(3, 3)
    ours.append(shared).append(shared)
    their_shared = torch.nn.Linear(3, 3)
    theirs = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 3), their_shared, their_shared)
    state = theirs.state_dict()
    nn.load_torch_state_dict(ours, state)
    assert nn.torch_state_dict(ours).keys() == state.keys()
    np.testing.assert_array_equal(host(shared.weight), their_shared.weight.detach().numpy().T)
    nn.load_torch_state_dict(ours, {name: value for name, value in state.items() if not name.startswith("3")})
    other = {**state, "3.weight": state["3.weight"] + 1}
    fails(DataError, r"3\.weight: must have the values of 2\.weight", nn.load_torch_state_dict, ours, other)


def test_other_dtypes_are_cast(backend: str) -> None:
    layer = nn.Linear(3, 2)
    theirs = torch.nn.Linear(3, 2).bfloat16()
    nn.load_torch_state_dict(layer, theirs.state_dict())
    np.testing.assert_array_equal(host(layer.weight), theirs.weight.detach().float().numpy().T)
    assert layer.weight.dtype == agrad.float32 and layer.weight.backend == backend


def test_integers_are_cast_if_they_fit() -> None:
    module = nn.ReLU()
    module.register_buffer("count", np.zeros(2, "int8"))
    nn.load_torch_state_dict(module, {"count": torch.tensor([1, 127])})
    assert host(module.count).tolist() == [1, 127] and module.count.dtype.name == "int8"
    match, large = "count: must contain only numbers that int8 can represent", {"count": torch.tensor([1, 128])}
    fails(DataError, match, nn.load_torch_state_dict, module, large)


class Counting(nn.Module):
    def __init__(self) -> None:
        self.batches, self.seed = 3, 7

    def host_state(self) -> dict[str, int]:
        return {"batches": self.batches, "seed": self.seed}

    def load_host_state(self, state: Any) -> None:
        self.batches, self.seed = state["batches"], state["seed"]

    def torch_counts(self) -> dict[str, int]:
        return {"batches": self.batches}


def test_counts_that_pytorch_has_are_loaded() -> None:
    model = nn.Sequential(Counting())
    assert nn.torch_state_dict(model) == {"0.batches": 3}
    nn.load_torch_state_dict(model, {"0.batches": torch.tensor(5)})
    assert model[0].host_state() == {"batches": 5, "seed": 7}
    match, wrong = r"0\.batches: must be an integer of at least 0, got -1", {"0.batches": torch.tensor(-1)}
    fails(DataError, match, nn.load_torch_state_dict, model, wrong)
    assert nn.load_torch_state_dict(model, {}) == ([], [])


def test_narrow_modules_are_loaded() -> None:
    with agrad.use_backend("torch"):
        layer = nn.Linear(3, 2).bfloat16()
    theirs = torch.nn.Linear(3, 2)
    nn.load_torch_state_dict(layer, theirs.state_dict())
    assert torch.equal(layer.weight.raw, theirs.weight.detach().T.bfloat16())


def test_state_that_does_not_fit_loads_nothing(backend: str) -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = nn.torch_state_dict(layer)
    good = {name: value + 1 for name, value in before.items()}
    for change, match in (
        ({"0.weight": np.zeros((3, 2))}, r"0\.weight: must have shape \(2, 3\), got \(3, 2\)"),
        ({"0.weight": np.zeros((2, 3), int)}, r"0\.weight: must be float32, got int64"),
        ({"0.weight": "text"}, r"0\.weight: must be an array, got str"),
        ({"extra": np.zeros(2)}, "extra: not expected"),
    ):
        fails(DataError, match, nn.load_torch_state_dict, layer, {**good, **change})
    del good["0.bias"]
    fails(DataError, r"0\.bias: missing", lambda: nn.load_torch_state_dict(layer, good))
    same_state(nn.torch_state_dict(layer), before)
    found = nn.load_torch_state_dict(layer, {**good, "extra": 1}, strict=False)
    assert found == (["0.bias"], ["extra"])
    np.testing.assert_array_equal(nn.torch_state_dict(layer)["0.weight"], good["0.weight"])
    assert nn.torch_state_dict(nn.BatchNorm1d(2, track_running_stats=False)).keys() == {"weight", "bias"}

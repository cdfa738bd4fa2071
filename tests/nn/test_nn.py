"""Modules: what they find, their state, layers against formulas, and randomness that is the same everywhere."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import draw, here, host, same_state

import agrad
from agrad import nn, random
from agrad.errors import BackendUnavailableError, DataError, DtypeError


class Net(nn.Module):
    """Parameters and modules in every kind of place."""

    def __init__(self) -> None:
        self.first = nn.Linear(3, 4, dtype="float64")
        self.blocks = [nn.Linear(4, 4, bias=False, dtype="float64"), nn.Sequential(nn.ReLU(), nn.Dropout(0.5))]
        self.heads = {"a": nn.Linear(4, 2, dtype="float64"), "b": (nn.init.parameter(np.ones(2)),)}
        self.scale = here(np.array(2.0))
        self.frozen = nn.init.parameter(np.zeros(2))
        self.frozen.requires_grad = False
        self._cache = here(np.zeros(5))
        self.again = self.first
        self.size = 7

    def forward(self, x: Any) -> Any:
        x = self.blocks[1](self.blocks[0](agrad.tanh(self.first(x))))
        self.last = x  # the result of an operation is no part of the module
        return self.heads["a"](x) * self.scale


PARAMETERS = ["first.weight", "first.bias", "blocks.0.weight", "heads.a.weight", "heads.a.bias", "heads.b.0", "frozen"]


# ------------------------------------------------------------------ what a module is made of


def test_everything_is_found_once_by_name(backend: str) -> None:
    net = Net()
    net(here(draw(5, 3)))
    assert [name for name, _ in net.named_parameters()] == PARAMETERS
    assert [p is q for (_, p), q in zip(net.named_parameters(), net.parameters(), strict=True)] == [True] * 7
    assert [(name, buffer is net.scale) for name, buffer in net.named_buffers()] == [("scale", True)]
    assert net.buffers()[0] is net.scale
    modules = [name for name, _ in net.named_modules()]
    assert modules == ["", "first", "blocks.0", "blocks.1", "blocks.1.0", "blocks.1.1", "heads.a"]
    assert all(p.backend == backend for p in [*net.parameters(), *net.buffers()])


def test_repr_shows_the_parts_and_the_number_of_parameters() -> None:
    inner = nn.Sequential(nn.Linear(128, 10, bias=False))
    model = nn.Sequential(nn.Linear(784, 128), nn.GELU(approximate="tanh"), nn.Dropout(0.25), inner)
    assert repr(model) == (
        "Sequential(\n  0: Linear(784, 128)\n  1: GELU(approximate='tanh')\n  2: Dropout(p=0.25)\n"
        "  3: Sequential(\n    0: Linear(128, 10, bias=False)\n  )\n)  # 101,760 parameters"
    )
    assert "blocks.0: Linear(4, 4, bias=False)" in repr(Net())


# ------------------------------------------------------------------ state


def test_state_goes_to_a_fresh_model_on_any_backend(backend: str) -> None:
    with agrad.use_backend("numpy"):
        other = Net()
        other.train()
        other(here(draw(5, 3)))
    net = Net()
    state = other.state_dict()
    assert sorted(state) == sorted([*PARAMETERS, "scale", "blocks.1.1.seed", "blocks.1.1.calls"])
    assert all(type(a) is np.ndarray for a in state.values()) and state["blocks.1.1.calls"] == 1
    kept = net.parameters()
    net.load_state_dict(state)
    assert [a is b for a, b in zip(kept, net.parameters(), strict=True)] == [True] * 7
    same_state(net.state_dict(), state)
    assert all(p.backend == backend and p.requires_grad == (p is not net.frozen) for p in net.parameters())
    before = {name: a.copy() for name, a in state.items()}
    for p in net.parameters():
        p.assign(p.raw + 1)
    same_state(state, before)


def test_state_that_does_not_fit_loads_nothing(backend: str) -> None:
    net = Net()
    before = net.state_dict()
    good = {name: a + 1 for name, a in before.items()}
    for change, match in (
        ({"first.weight": np.zeros((4, 3))}, r"first.weight: must be float64 of shape \(3, 4\), got .* of \(4, 3\)"),
        ({"first.bias": np.zeros(4, np.float32)}, "first.bias: must be float64"),
        ({"extra": np.zeros(2)}, "extra: not expected"),
        ({"blocks.1.1.seed": np.array(1.5)}, "seed: must be int64"),
        ({"blocks.1.1.calls": np.array(-1)}, "calls: must be at least 0, got -1"),
        ({"scale": None}, "scale: must be float64 of shape"),
    ):
        fails(DataError, match, net.load_state_dict, {**good, **change})
    del good["heads.b.0"]
    fails(DataError, r"heads\.b\.0: must be float32 of shape .*got none", net.load_state_dict, good)
    same_state(net.state_dict(), before)


def test_moving_and_casting_keep_the_tensors(backend: str) -> None:
    net = Net().eval()
    x = draw(5, 3)
    expected = host(net(here(x)))
    tensors = net.parameters()
    agrad.sum(net(here(x))).backward()
    assert net.to("numpy") is net
    assert [a is b for a, b in zip(tensors, net.parameters(), strict=True)] == [True] * 7
    assert all(p.backend == "numpy" and p.is_leaf and p.requires_grad == (p is not net.frozen) for p in tensors)
    assert backend == "numpy" or all(p.grad is None for p in tensors)
    np.testing.assert_allclose(host(net(agrad.asarray(x))), expected, rtol=1e-12)
    net.to(backend)
    assert net.scale.backend == backend
    net.astype(agrad.float32)
    assert all(p.dtype == agrad.float32 and p.grad is None for p in tensors)
    agrad.sum(net.first(agrad.asarray(x.astype("float32"), backend=backend))).backward()
    assert net.first.weight.grad.dtype == agrad.float32
    fails(DtypeError, "floating", lambda: net.astype("int32"))
    net.astype("complex64")
    fails(DtypeError, "imaginary", lambda: net.astype("float32"))
    assert net.first.weight.dtype == agrad.complex64
    fails(BackendUnavailableError, "Backend 'no such backend' is unknown", lambda: net.to("no such backend"))
    assert all(p.backend == backend for p in tensors)


# ------------------------------------------------------------------ randomness


def values(seed: int | None, dtype: str) -> list[np.ndarray]:
    rng = None if seed is None else agrad.random.Generator(seed)
    model = nn.Sequential(nn.Linear(5, 4, rng=rng, dtype=dtype), nn.Linear(4, 3, rng=rng, dtype=dtype))
    return [host(p) for p in model.parameters()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_seed_gives_the_same_values_everywhere(backend: str, dtype: str) -> None:
    with agrad.use_backend("numpy"):
        expected = values(5, "float64")
    for got in (values(5, dtype), (nn.manual_seed(5), values(None, dtype))[1]):
        for a, b in zip(got, expected, strict=True):
            assert a.dtype.name == dtype
            np.testing.assert_array_equal(a, b.astype(dtype))
    assert not np.array_equal(values(6, dtype)[0], expected[0].astype(dtype))
    nn.manual_seed(5)
    first, second = values(None, dtype), values(None, dtype)
    assert not np.array_equal(first[0], second[0])


def test_initial_values_have_their_distributions() -> None:
    rng, shape = np.random.default_rng(0), (400, 300)
    linear = host(nn.Linear(400, 300, rng=rng, dtype="float64").weight)
    assert np.abs(linear).max() <= 0.05
    assert math.isclose(linear.std(), 0.05 / math.sqrt(3), rel_tol=0.01)
    for values, std in (
        (nn.init.kaiming_uniform(shape, rng, a=0), math.sqrt(2 / 400)),
        (nn.init.kaiming_normal(shape, rng), math.sqrt(2 / 400)),
        (nn.init.xavier_uniform(shape, rng), math.sqrt(2 / 700)),
        (nn.init.xavier_normal(shape, rng, gain=2.0), 2 * math.sqrt(2 / 700)),
        (nn.init.uniform(shape, 0.3, rng), 0.3 / math.sqrt(3)),
        (nn.init.normal(shape, 0.3, rng), 0.3),
    ):
        assert values.shape == shape and values.dtype == np.float64
        assert math.isclose(values.std(), std, rel_tol=0.01) and abs(values.mean()) < 0.02 * std
    assert not nn.init.zeros((2, 3)).any()
    parameter = nn.init.parameter(np.ones(2), dtype=agrad.complex64)
    assert parameter.requires_grad and parameter.dtype == agrad.complex64


def test_the_masks_are_fixed_for_ever() -> None:
    layer = nn.Dropout(0.5)
    layer.load_state_dict({"seed": np.array(1234), "calls": np.array(0)})
    packed = [np.packbits(random.bernoulli(layer.key(call), 0.5, (3, 8)).numpy()).tolist() for call in (0, 1)]
    assert packed == [[102, 227, 163], [208, 104, 84]]


def test_a_layer_warns_once_of_a_wider_input() -> None:
    layer = nn.Linear(3, 2, dtype="float32")
    wide = np.ones((4, 3))
    with pytest.warns(RuntimeWarning, match=r"^Linear\(3, 2\): the input is float64 .* agrad\.astype") as caught:
        assert layer(wide).dtype == agrad.float64
    assert [Path(warning.filename).name for warning in caught] == ["test_nn.py"]
    assert layer(wide).dtype == agrad.float64  # no second one, which would be an error here
    layer(wide.astype("float32")), nn.Linear(3, 2, dtype="float64")(wide)

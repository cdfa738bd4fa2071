"""Modules: their parts and containers, state, freezing, casts, copies, depth, and the same random values everywhere."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import here, host, same_state

import agrad
from agrad import nn, random
from agrad.errors import BackendUnavailableError, DataError, DtypeError, NotDifferentiableError


class Net(nn.Module):
    """Parameters, buffers and modules in every kind of place."""

    def __init__(self) -> None:
        super().__init__()
        self._stem = nn.Linear(3, 4)
        self._scale = nn.Parameter(here(np.ones(4, "float32")))
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 1)})
        self.gains = nn.ParameterList([here(np.ones(4, "float32"))])
        self.shifts = nn.ParameterDict({"x": here(np.zeros(4, "float32"))})
        self.rest = [nn.Linear(4, 4, bias=False), nn.Sequential(nn.ReLU(), nn.Dropout(0.5))]
        self.pairs = {"b": (nn.init.parameter(np.ones(2)),)}
        self.frozen = nn.Parameter(here(np.zeros(2, "float32")), requires_grad=False)
        self.register_buffer("steps", here(np.array(3)))
        self.register_buffer("mask", here(np.ones(4, "float32")), persistent=False)
        self.seen = nn.Buffer(here(np.zeros(2)), persistent=False)
        self.kept = nn.Buffer(here(np.zeros(2, "float32")))
        self.factor = here(np.array(2.0, "float32"))
        self._cache = here(np.zeros(5))
        self.again = self._stem
        self.size = 7

    def forward(self, x: Any, head: str = "a") -> Any:
        x = self._stem(x) * self._scale
        for block in self.blocks:
            x = agrad.tanh(block(x)) * self.gains[0] + self.shifts["x"]
        self.last = x = self.rest[1](self.rest[0](x))  # the result of an operation is no part of the module
        return self.heads[head](x * self.mask) * self.factor


PARAMETERS = [
    "_stem.weight", "_stem.bias", "_scale", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
    "heads.a.weight", "heads.a.bias", "heads.b.weight", "heads.b.bias", "gains.0", "shifts.x", "rest.0.weight",
    "pairs.b.0", "frozen",
]  # fmt: skip
X = np.linspace(-1.0, 1.0, 15, dtype="float32").reshape(5, 3)


def test_parts_have_pytorch_s_names(backend: str) -> None:
    net = Net()
    assert net(here(X)).shape == (5, 2)
    assert [name for name, _ in net.named_parameters()] == PARAMETERS
    assert [p is q for (_, p), q in zip(net.named_parameters(), net.parameters(), strict=True)] == [True] * 16
    assert [name for name, _ in net.named_buffers()] == ["steps", "mask", "seen", "kept", "factor"]
    assert net.buffers()[4] is net.factor
    assert all(p.backend == backend for p in [*net.parameters(), *net.buffers()])
    drawn = ["rest.1.1.seed", "rest.1.1.calls"]
    saved = [*PARAMETERS, "steps", "kept", "factor", *drawn]
    assert sorted(net.state_dict("net.")) == sorted(f"net.{name}" for name in saved)
    net.mask = here(np.zeros(4, "float32"))  # what the name holds is left out, as in PyTorch
    assert "mask" not in net.state_dict()
    children = ["_stem", "blocks", "heads", "gains", "shifts", "rest.0", "rest.1"]
    assert [name for name, _ in net.named_children()] == children
    inner = ["blocks.0", "blocks.1", "heads.a", "heads.b", "rest.1.0", "rest.1.1"]
    assert sorted(name for name, _ in net.named_modules()) == sorted(["", *children, *inner])
    assert net.children()[1] is net.blocks
    assert net.get_submodule("heads.a") is net.heads["a"] is net.heads.a
    assert net.get_parameter("gains.0") is net.gains[0] and net.get_buffer("steps") is net.steps
    assert [name for name, _ in net.named_parameters("n", recurse=False)] == ["n._scale", "n.pairs.b.0", "n.frozen"]
    assert all(isinstance(p, nn.Parameter) and type(p) is agrad.Tensor for p in net.parameters())
    assert isinstance(net.seen, nn.Buffer) and not isinstance(net.seen, nn.Parameter)
    assert not isinstance(here(np.ones(2)), nn.Parameter) and not isinstance(1.0, nn.Buffer)


def test_a_frozen_parameter_stays_one(backend: str) -> None:
    net = Net().eval()
    net.plain = agrad.asarray(np.ones(2), backend=backend, requires_grad=True)
    net.blocks.requires_grad_(False)
    net.requires_grad_(False)
    assert [name for name, _ in net.named_parameters()] == [*PARAMETERS, "plain"]
    assert not any(p.requires_grad for p in net.parameters())
    net.heads.requires_grad_(True)
    before = net.state_dict()
    optimizer = agrad.optim.SGD(net.parameters(), lr=0.1)
    agrad.sum(net(here(X))).backward()
    optimizer.step()
    after = net.state_dict()
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert changed == ["heads.a.weight", "heads.a.bias"]
    net.zero_grad(set_to_none=False)
    assert not host(net.heads.a.weight.grad).any()
    net.zero_grad()
    assert net.heads.a.weight.grad is net.heads.b.weight.grad is None
    frozen = nn.Parameter(np.ones(2), requires_grad=False)
    assert isinstance(frozen, nn.Parameter) and not frozen.requires_grad


def test_sequential_is_a_list_with_names() -> None:
    a, b, c, d = (nn.Linear(1, 1) for _ in range(4))
    row = nn.Sequential({"conv": a, "act": b})
    assert row.conv is a and [name for name, _ in row.named_children()] == ["conv", "act"]
    row.append(c).insert(1, d)
    assert [name for name, _ in row.named_children()] == ["conv", "1", "act", "3"]
    assert list(row) == [a, d, b, c] and row[-1] is c and d in row and nn.ReLU() not in row
    part = row[1:3]
    assert list(part) == [d, b] and [name for name, _ in part.named_children()] == ["1", "act"]
    row.act = e = nn.ReLU()
    assert row[2] is e
    row.extra = b
    assert len(row) == 5 and row[4] is b and row.extra is b
    del row[0], row.extra
    assert [name for name, _ in row.named_children()] == ["0", "act", "2"]
    assert row.pop(0) is d and len(row) == 2
    assert list(nn.Sequential(a) + nn.Sequential(b)) == [a, b]
    row[0] = a
    row[0:2] = [b, d]
    assert list(row) == [b, d]


def test_lists_and_dicts() -> None:
    a, b, c = (nn.ReLU() for _ in range(3))
    row = nn.ModuleList([a])
    row += [b]
    row.extend([c]).insert(0, nn.Tanh())
    assert [type(m).__name__ for m in row] == ["Tanh", "ReLU", "ReLU", "ReLU"]
    assert row.pop() is c and list(row[1:]) == [a, b] and isinstance(row[1:], nn.ModuleList)
    assert [name for name, _ in row[1:].named_children()] == ["0", "1"]
    named = nn.ModuleDict({"a": a})
    named.update({"b": b})
    named["c"] = c
    assert list(named) == list(named.keys()) == ["a", "b", "c"] and dict(named.items())["b"] is b
    assert named.pop("b") is b and "b" not in named and named.get("b") is None and len(named) == 2
    named["training"] = b
    assert not named.eval().training and named["training"] is b and not b.training
    named.clear()
    assert not list(named.values()) and named
    w = nn.Parameter(np.ones(2))
    params = nn.ParameterList([w, np.zeros(3)])
    assert params[0] is w and w in params and isinstance(params[1], nn.Parameter)
    params.append(nn.Buffer(np.ones(1)))
    assert [name for name, _ in params.named_buffers()] == ["2"]


def test_a_result_is_no_parameter() -> None:
    w = nn.Parameter(np.ones(2))
    fails(NotDifferentiableError, "result of multiply", nn.ReLU().register_parameter, "w", w * 2)
    copied = nn.Parameter(w * 2)
    assert copied.is_leaf and copied.requires_grad and w.requires_grad


def test_changed_containers_are_seen_by_jit() -> None:
    row, named = nn.Sequential(nn.Tanh()), nn.ModuleDict({"a": nn.Sigmoid()})
    params = nn.ParameterList([np.ones(3)])

    def f(x: Any) -> Any:
        return named["a"](row(x)) * params[0]

    jitted, x = agrad.jit(f), agrad.asarray(np.arange(3.0))
    for change in (
        lambda: None,
        lambda: row.append(nn.ReLU()).append(nn.Softplus()),
        lambda: row.pop(0),
        lambda: row.__setitem__(0, nn.Sigmoid()),
        lambda: named.update({"a": nn.Identity()}),
        lambda: params.__setitem__(0, np.full(3, 2.0)),
        lambda: params.insert(0, np.full(3, 5.0)),
    ):
        change()
        np.testing.assert_allclose(host(jitted(x)), host(f(x)), rtol=1e-12)
    assert jitted.cache_info().misses >= 5


# ------------------------------------------------------------------ text, state, casts and copies


def test_repr_shows_the_parts_and_the_number_of_parameters() -> None:
    inner = nn.Sequential(nn.Linear(128, 10, bias=False))
    model = nn.Sequential(nn.Linear(784, 128), nn.GELU(approximate="tanh"), nn.Dropout(0.25), inner)
    assert repr(model) == (
        "Sequential(\n  0: Linear(784, 128)\n  1: GELU(approximate='tanh')\n  2: Dropout(p=0.25)\n"
        "  3: Sequential(\n    0: Linear(128, 10, bias=False)\n  )\n)  # 101,760 parameters"
    )
    assert "rest.0: Linear(4, 4, bias=False)" in repr(Net())


def test_state_goes_to_a_fresh_model_on_any_backend(backend: str) -> None:
    with agrad.use_backend("numpy"):
        other = Net()
        other.train()
        other(here(X))
    net = Net()
    state = other.state_dict()
    assert all(type(a) is np.ndarray for a in state.values()) and state["rest.1.1.calls"] == 1
    kept = net.parameters()
    net.load_state_dict(state)
    assert [a is b for a, b in zip(kept, net.parameters(), strict=True)] == [True] * 16
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
        ({"_stem.weight": np.zeros((4, 3))}, r"_stem.weight: must be float32 of shape \(3, 4\), got .* of \(4, 3\)"),
        ({"_stem.bias": np.zeros(4)}, "_stem.bias: must be float32"),
        ({"extra": np.zeros(2)}, "extra: not expected"),
        ({"rest.1.1.seed": np.array(1.5)}, "seed: must be int64"),
        ({"rest.1.1.calls": np.array(-1)}, "calls: must be at least 0, got -1"),
        ({"factor": None}, "factor: must be float32 of shape"),
    ):
        fails(DataError, match, net.load_state_dict, {**good, **change})
    del good["pairs.b.0"]
    fails(DataError, r"pairs\.b\.0: must be float32 of shape .*got none", net.load_state_dict, good)
    same_state(net.state_dict(), before)


def test_not_strict_loading_says_what_is_missing(backend: str) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    state = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).state_dict()
    assert net.load_state_dict(state) == ([], [])
    part = {"0.weight": state["0.weight"] + 1, "1.calls": np.array(4), "other": np.ones(2)}
    bias = host(net[0].bias)
    found = net.load_state_dict(part, strict=False)
    assert found.missing_keys == ["0.bias", "1.seed"] and found.unexpected_keys == ["other"]
    np.testing.assert_array_equal(host(net[0].weight), part["0.weight"])
    np.testing.assert_array_equal(host(net[0].bias), bias)
    assert net[1].calls == 4 and net[1].seed == int(state["1.seed"])
    wrong = {"0.weight": np.ones(3, "float32"), "1.calls": np.array(9)}
    fails(DataError, r"0\.weight: must be float32 of shape", net.load_state_dict, wrong, strict=False)
    assert net[1].calls == 4


def test_moving_and_casting_keep_the_tensors(backend: str) -> None:
    net = Net().eval()
    expected = host(net(here(X)))
    tensors = net.parameters()
    agrad.sum(net(here(X))).backward()
    assert net.to("numpy") is net
    assert [a is b for a, b in zip(tensors, net.parameters(), strict=True)] == [True] * 16
    assert all(p.backend == "numpy" and p.is_leaf and p.requires_grad == (p is not net.frozen) for p in tensors)
    assert backend == "numpy" or all(p.grad is None for p in tensors)
    np.testing.assert_allclose(host(net(agrad.asarray(X))), expected, rtol=1e-5)
    net.to(backend)
    assert net.factor.backend == backend
    net.astype(agrad.float64)
    assert all(p.dtype == agrad.float64 and p.grad is None for p in tensors)
    agrad.sum(net._stem(agrad.asarray(X.astype("float64"), backend=backend))).backward()
    assert net._stem.weight.grad.dtype == agrad.float64
    fails(DtypeError, "floating", net.astype, "int32")
    fails(DtypeError, "imaginary", net.astype("complex64").astype, "float32")
    fails(BackendUnavailableError, "Backend 'no such backend' is unknown", net.to, "no such backend")
    assert all(p.backend == backend and p.dtype == agrad.complex64 for p in tensors)


@pytest.mark.parametrize("target", [agrad.float64, "float64", np.float64])
def test_to_takes_a_dtype(backend: str, target: Any) -> None:
    net = Net().to(target)
    assert {p.dtype.name for p in net.parameters()} == {"float64"}
    assert net.steps.dtype.kind == "signed integer" and net.kept.dtype == agrad.float64
    assert net.to("numpy", "float32").gains[0].backend == "numpy"
    for cast, dtype in ((net.double, agrad.float64), (net.float, agrad.float32)):
        assert cast().kept.dtype == dtype
    fails(DtypeError, "floating", net.to, agrad.int32)
    assert net.kept.dtype == agrad.float32


@pytest.mark.needs("torch")
def test_narrow_dtypes(torch: Any) -> None:
    with agrad.use_backend("torch"):
        net = nn.Linear(3, 2)
        assert net.bfloat16()(agrad.ones((1, 3), dtype="bfloat16")).dtype.name == "bfloat16"
        assert net.half().weight.dtype.name == "float16"
        assert net.to(torch.float64).weight.dtype == agrad.float64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["deep", "pickle"])
def test_copies(backend: str, copied: Any) -> None:
    net = Net()
    net.register_forward_hook(_double)
    net.tied = net.blocks[0].weight
    net.blocks.requires_grad_(False)
    net._scale.grad = agrad.ones_like(net._scale)
    twin = copied(net)
    assert (twin._scale.grad is not None) == (copied is copy.deepcopy)
    assert [name for name, _ in twin.named_parameters()] == PARAMETERS
    assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in net.parameters()]
    assert twin.tied is twin.blocks[0].weight and twin.tied is not net.tied
    assert sorted(twin.state_dict()) == sorted(net.state_dict())
    x = here(X)
    np.testing.assert_array_equal(host(twin(x)), host(net(x)))
    twin._scale.assign(twin._scale.raw * 2)
    assert not np.array_equal(host(twin._scale), host(net._scale))


def _double(module: Any, args: Any, out: Any) -> Any:
    return out * 2


def test_a_thousand_modules_deep_and_in_a_ring() -> None:
    ring: Any = nn.Linear(1, 1)
    model: Any = ring
    for _ in range(1000):
        model = nn.Sequential(model)
    ring.back = model
    assert len(model.modules()) == 1001
    assert [name for name, _ in model.named_parameters()] == ["0." * 1000 + "weight", "0." * 1000 + "bias"]
    assert len(model.named_modules(remove_duplicate=False)) == 1001
    seen: list[Any] = []
    assert model.apply(seen.append) is model
    assert seen[0] is ring and seen[-1] is model
    model.load_state_dict(model.state_dict())
    assert not model.eval().to(agrad.float64).requires_grad_(False)[0].training
    assert repr(model).count("Sequential(") == 1000


def test_shared_parts_have_all_their_names() -> None:
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.Sequential(shared))
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    every = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert every == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
    assert model.get_parameter("1.0.bias") is shared.bias
    assert repr(model).count("Linear(2, 2)") == 2


# ------------------------------------------------------------------ randomness, and wider inputs


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
    assert [Path(warning.filename).name for warning in caught] == ["test_modules.py"]
    assert layer(wide).dtype == agrad.float64  # no second one, which would be an error here
    layer(wide.astype("float32")), nn.Linear(3, 2, dtype="float64")(wide)

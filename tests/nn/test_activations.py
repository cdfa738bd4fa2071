"""Activations against PyTorch's: values, derivatives at kinks and far out, second order, and the modules."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, check_same, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, ShapeError

F = nn.functional
NORMAL = np.random.default_rng(0).normal(size=(3, 4, 2)) * 2
FAR = np.array([-1000.0, -800.0, -40.0, -1e-9, 1e-9, 40.0, 800.0, 1000.0])
PLAIN = ("relu", "tanh", "sigmoid", "logsigmoid", "selu", "silu", "mish", "softsign", "tanhshrink", "relu6",
         "hardswish", "softplus", "leaky_relu", "elu", "celu", "hardtanh", "hardshrink", "softshrink",
         "gelu")  # fmt: skip
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("gelu", {"approximate": "tanh"}), ("softplus", {"beta": 3.0, "threshold": 2.0}), ("elu", {"alpha": 0.3}),
    ("celu", {"alpha": 0.25}), ("celu", {"alpha": 2.0}), ("leaky_relu", {"negative_slope": 0.2}),
    ("hardtanh", {"min_val": -0.5, "max_val": 2.0}), ("hardshrink", {"lambd": 1.0}), ("softshrink", {"lambd": 1.0}),
    ("threshold", {"threshold": 0.2, "value": -3.0}),
]  # fmt: skip
AXES: list[tuple[str, dict[str, Any]]] = [
    ("softmax", {"dim": 1}), ("log_softmax", {"dim": -1}), ("softmin", {"dim": 0}), ("glu", {"dim": 1}), ("glu", {}),
    ("normalize", {}), ("normalize", {"p": 3.0, "dim": -1}),
]  # fmt: skip
CALLS = (
    [Call(name, [NORMAL]) for name in PLAIN]
    + [Call(name, [NORMAL], options) for name, options in OPTIONS + AXES]
    + [Call("prelu", [NORMAL, np.array([0.25])]), Call("prelu", [NORMAL, np.linspace(0.1, 0.4, 4)])]
    + [Call(name, [NORMAL, NORMAL[::-1].copy()], {}) for name in ("cosine_similarity", "pairwise_distance")]
)
KINKS: dict[str, list[float]] = {
    "hardtanh": [-1.0, 1.0], "relu6": [6.0], "hardswish": [-3.0, 3.0],
    "hardshrink": [-0.5, 0.5], "softshrink": [-0.5, 0.5],
}  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
def test_hardsigmoid(backend: str) -> None:
    import torch

    # PyTorch's own derivative is a sixth in single precision
    def theirs(x: Any) -> Any:
        return torch.nn.functional.relu6(x + 3) / 6

    check_same(F.hardsigmoid, theirs, [NORMAL])
    check_same(F.hardsigmoid, theirs, [np.array([-1000.0, -3.0, 0.0, 3.0, 1000.0])], smooth=False)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", PLAIN)
def test_far_out_and_at_kinks(backend: str, name: str) -> None:
    check_call(Call(name, [FAR]), modes=False)
    check_call(Call(name, [np.array([0.0, *KINKS.get(name, [])])], smooth=False), modes=False)
    x = here(np.concatenate([FAR, [0.0], KINKS.get(name, [])]))
    second = agrad.grad(lambda x: agrad.sum(agrad.grad(lambda x: agrad.sum(getattr(F, name)(x)))(x)))(x)
    assert np.all(np.isfinite(host(second)))
    with np.errstate(invalid="ignore"):
        assert np.isnan(host(getattr(F, name)(here(np.array([np.nan]))))[0])


@pytest.mark.needs("torch")
def test_vectors_of_zeros(backend: str) -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    y = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 2.0]])
    check_call(Call("normalize", [x], smooth=False), modes=False)
    check_call(Call("cosine_similarity", [x, y], smooth=False), modes=False)


@pytest.mark.needs("torch")
def test_prelu_learns_its_slopes(backend: str) -> None:
    import torch

    module, theirs = nn.PReLU(4, 0.1, dtype="float64"), torch.nn.PReLU(4, 0.1, dtype=torch.float64)
    agrad.sum(agrad.square(module(here(NORMAL)))).backward()
    theirs(torch.asarray(NORMAL)).square().sum().backward()
    np.testing.assert_allclose(host(module.weight.grad), theirs.weight.grad.numpy(), rtol=1e-12)
    assert list(module.state_dict()) == ["weight"]
    assert repr(module) == "PReLU(num_parameters=4)  # 4 parameters"


def test_errors_name_the_remedy(backend: str) -> None:
    x = here(NORMAL)
    with pytest.raises(ShapeError, match=r"glu: axis -2 of x must have an even length, got shape \(3, 5, 2\)"):
        F.glu(here(np.zeros((3, 5, 2))), dim=-2)
    with pytest.raises(ShapeError, match=r"prelu: weight must have shape \(1,\) or \(4,\), .* got \(3,\)"):
        F.prelu(x, here(np.ones(3)))
    with pytest.raises(ConfigurationError, match="'none' or 'tanh'"):
        F.gelu(x, approximate="erf")
    with pytest.raises(ConfigurationError, match="min_val"):
        F.hardtanh(x, 1.0, -1.0)
    for name, options in (("softplus", {"beta": 0}), ("celu", {"alpha": 0}), ("softshrink", {"lambd": -1})):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            getattr(F, name)(x, **options)
    with pytest.raises(ConfigurationError, match="num_parameters"):
        nn.PReLU(0)

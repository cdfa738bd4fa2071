"""Fillings of Tensors and functions of lists of parameters, beside PyTorch's."""

import math
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import here, host

import agrad
from agrad import nn
from agrad.errors import ShapeError
from agrad.nn import init


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("uniform_", {"a": -1.0, "b": 3.0}), ("normal_", {"mean": 1.0, "std": 2.0}), ("trunc_normal_", {}),
        ("trunc_normal_", {"mean": 1.0, "std": 2.0, "a": 0.0, "b": 2.0}), ("xavier_uniform_", {"gain": 2.0}),
        ("xavier_normal_", {}), ("kaiming_uniform_", {"a": 0.5}), ("kaiming_normal_", {"mode": "fan_out"}),
        ("kaiming_normal_", {"nonlinearity": "relu"}),
        ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "tanh"}),
    ],
)  # fmt: skip
def test_draws_have_pytorch_s_distributions(name: str, options: dict[str, Any], torch: Any) -> None:
    torch.manual_seed(0)
    for turned, shape in ((True, (300, 200)), (False, (60, 40, 5, 5))):
        mine = nn.Parameter(np.zeros(shape))
        theirs = torch.zeros(tuple(reversed(shape)) if turned else shape, dtype=torch.float64)
        assert getattr(init, name)(mine, **options, rng=np.random.default_rng(0)) is mine
        getattr(torch.nn.init, name)(theirs, **options)
        got, expected = host(mine), theirs.numpy()
        scale = expected.std()
        assert math.isclose(got.std(), scale, rel_tol=0.02) and abs(got.mean() - expected.mean()) < 0.02 * scale
        quantiles = [0.001, 0.1, 0.4, 0.6, 0.9, 0.999]
        np.testing.assert_allclose(np.quantile(got, quantiles), np.quantile(expected, quantiles), atol=0.1 * scale)


def test_fixed_values_are_pytorch_s(torch: Any) -> None:
    for name, shape, options in (
        ("constant_", (3, 2), {"val": 2.5}), ("ones_", (3,), {}), ("zeros_", (3,), {}), ("eye_", (3, 5), {}),
        ("dirac_", (6, 3, 4), {}), ("dirac_", (6, 2, 3, 3), {"groups": 3}),
    ):  # fmt: skip
        mine, theirs = nn.Parameter(np.full(shape, 7.0)), torch.full(shape, 7.0)
        getattr(init, name)(mine, **options)
        getattr(torch.nn.init, name)(theirs, **options)
        np.testing.assert_array_equal(host(mine), theirs.numpy())
    names = ("linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "conv2d", "conv_transpose1d")
    for call in (*((name,) for name in names), ("leaky_relu", 0.3)):
        assert math.isclose(init.calculate_gain(*call), torch.nn.init.calculate_gain(*call), rel_tol=1e-15)


def test_orthogonal_and_sparse(backend: str) -> None:
    for shape in ((4, 7), (7, 4), (6, 2, 2)):
        w = nn.Parameter(here(np.zeros(shape)))
        q = host(init.orthogonal_(w, gain=2.0)).reshape(shape[0], -1)
        small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)
    w = nn.Parameter(here(np.ones((10, 400), "float32")))
    values = host(init.sparse_(w, 0.25, std=2.0))
    np.testing.assert_array_equal((values == 0).sum(0), 3)
    assert math.isclose(values[values != 0].std(), 2.0, rel_tol=0.05)


def test_one_seed_gives_the_same_values_everywhere(backend: str) -> None:
    for name in ("normal_", "trunc_normal_", "kaiming_uniform_"):
        w, x = nn.Parameter(here(np.zeros((3, 4), "float32"))), nn.Parameter(np.zeros((3, 4), "float32"))
        for tensor in (w, x):
            getattr(init, name)(tensor, rng=agrad.random.Generator(3))
        np.testing.assert_array_equal(host(w), host(x))
        assert w.backend == backend and w.requires_grad and w.is_leaf


def test_vectors(backend: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2, dtype="float64"), nn.PReLU(dtype="float32"))
    match = r"vector_to_parameters: vec must have shape \(9,\), got \(8,\)"
    fails(ShapeError, match, nn.utils.vector_to_parameters, here(np.zeros(8)), model.parameters())
    nn.utils.vector_to_parameters(here(np.arange(9.0)), model.parameters())
    np.testing.assert_array_equal(host(model[0].weight), np.arange(6.0).reshape(3, 2))
    assert model[1].weight.dtype == agrad.float32 and model[1].weight.item() == 8.0
    vector = nn.utils.parameters_to_vector(model[0].parameters())
    agrad.sum(vector * vector).backward()
    np.testing.assert_array_equal(host(model[0].bias.grad), [12.0, 14.0])


def test_clipping_without_a_limit_or_parameters(backend: str) -> None:
    p = nn.Parameter(here(np.array([3.0, 4.0])))
    p.grad = here(np.array([3.0, -4.0]))
    assert nn.utils.clip_grad_norm_([p], math.inf).item() == 5.0
    nn.utils.clip_grad_value_([p], math.inf)
    np.testing.assert_array_equal(host(p.grad), [3.0, -4.0])
    assert nn.utils.clip_grad_norm_((q for q in ()), 1.0).item() == 0.0
    nn.utils.clip_grad_value_([], 1.0)

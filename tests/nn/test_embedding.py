"""Rows of a table and affine maps against PyTorch's, in every mode, and the layer."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, check_same, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError

F = nn.functional
RNG = np.random.default_rng(14)
NUMBERS, TABLE = np.array([[0, 3, 3], [4, 1, 0]]), RNG.normal(size=(5, 2))
X, W = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(5, 3))
CALLS = [
    Call("embedding", [NUMBERS, TABLE]),
    Call("embedding", [NUMBERS, TABLE], {"padding_idx": 3}),
    Call("embedding", [NUMBERS, TABLE], {"padding_idx": -5}),
    Call("embedding", [np.array(2), TABLE]),
    Call("linear", [X, W]),
    Call("linear", [X, W, RNG.normal(size=5)]),
    Call("linear", [X, W[0]]),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


BAG, STARTS, FACTORS = np.array([4, 0, 3, 3, 1, 2, 0]), np.array([0, 3, 3, 5]), RNG.normal(size=7)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags(backend: str, mode: str) -> None:
    import torch

    theirs = torch.nn.functional.embedding_bag
    for how in ({}, {"padding_idx": 3}, {"include_last_offset": True}):
        starts = np.append(STARTS, 7) if "include_last_offset" in how else STARTS
        check_same(
            lambda w, how=how, starts=starts: F.embedding_bag(here(BAG), w, here(starts), mode=mode, **how),
            lambda w, how=how, starts=starts: theirs(torch.asarray(BAG), w, torch.asarray(starts), mode=mode, **how),
            [TABLE],
            smooth=False,
        )
    check_same(
        lambda w: F.embedding_bag(here(NUMBERS), w, mode=mode, padding_idx=0),
        lambda w: theirs(torch.asarray(NUMBERS), w, mode=mode, padding_idx=0),
        [TABLE],
        smooth=False,
    )
    if mode == "sum":
        check_same(
            lambda w, s: F.embedding_bag(here(BAG), w, here(STARTS), mode=mode, per_sample_weights=s),
            lambda w, s: theirs(torch.asarray(BAG), w, torch.asarray(STARTS), mode=mode, per_sample_weights=s),
            [TABLE, FACTORS],
            smooth=False,
        )


@pytest.mark.needs("torch")
def test_the_layer_of_bags(backend: str) -> None:
    import torch

    layer = nn.EmbeddingBag(5, 2, mode="sum", padding_idx=1, dtype="float64")
    theirs = torch.nn.EmbeddingBag(5, 2, mode="sum", padding_idx=1, dtype=torch.float64)
    theirs.load_state_dict({name: torch.asarray(value) for name, value in layer.state_dict().items()})
    close(layer(here(NUMBERS)), theirs(torch.asarray(NUMBERS)), "rows")
    close(layer(here(BAG), here(STARTS)), theirs(torch.asarray(BAG), torch.asarray(STARTS)), "offsets")
    assert repr(layer) == "EmbeddingBag(5, 2, padding_idx=1, mode='sum')  # 10 parameters"
    for arrays, how, error in (
        ((BAG,), {}, ShapeError), ((NUMBERS, STARTS), {}, ShapeError),
        ((BAG, STARTS), {"mode": "min"}, ConfigurationError),
        ((BAG, STARTS), {"per_sample_weights": FACTORS}, ConfigurationError),
    ):  # fmt: skip
        with pytest.raises(error, match="embedding_bag"):
            F.embedding_bag(here(arrays[0]), here(TABLE), *map(here, arrays[1:]), **how)


def test_offsets_that_do_not_begin_with_0() -> None:
    with pytest.raises(OperandError, match="the first offset"):
        F.embedding_bag(BAG, TABLE, STARTS + 1)


@pytest.mark.needs("torch")
def test_layer(backend: str) -> None:
    import torch

    layer = nn.Embedding(5, 2, padding_idx=-2, dtype="float64")
    np.testing.assert_array_equal(host(layer.weight)[3], 0)
    theirs = torch.nn.Embedding(5, 2, padding_idx=-2, dtype=torch.float64)
    theirs.load_state_dict({name: torch.asarray(value) for name, value in layer.state_dict().items()})
    value, expected = layer(here(NUMBERS)), theirs(torch.asarray(NUMBERS))
    close(value, expected, "the value")
    agrad.sum(value * value).backward()
    (expected * expected).sum().backward()
    close(layer.weight.grad, theirs.weight.grad, "the gradient")
    assert repr(layer).startswith("Embedding(5, 2, padding_idx=3)")


@pytest.mark.parametrize(
    ("error", "numbers", "table", "padding"),
    [
        (OperandError, np.array([5]), TABLE, None),
        (OperandError, np.array([-1]), TABLE, None),
        (DtypeError, np.array([1.0]), TABLE, None),
        (ShapeError, NUMBERS, TABLE[0], None),
        (ConfigurationError, NUMBERS, TABLE, 5),
    ],
)
def test_refusals(error: type[Exception], numbers: Any, table: Any, padding: Any) -> None:
    with pytest.raises(error, match="embedding"):
        F.embedding(numbers, table, padding_idx=padding)


def test_layers_refuse_rows_that_are_not_there() -> None:
    with pytest.raises(ConfigurationError, match="padding_idx"):
        nn.Embedding(3, 2, padding_idx=3)

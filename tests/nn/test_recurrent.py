"""Recurrent networks against PyTorch's with the same values, in every mode, with sequences of several lengths."""

from typing import Any

import numpy as np
import pytest
from module_parity import check_module, same_values
from torch_parity import close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, ShapeError

RNG = np.random.default_rng(22)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def made(name: str, *sizes: int, **options: Any) -> tuple[Any, Any]:
    """Return a module and PyTorch's, of random values."""
    import torch

    ours = getattr(nn, name)(*sizes, **options, dtype="float64", rng=np.random.default_rng(0))
    return ours, getattr(torch.nn, name)(*sizes, **options, dtype=torch.float64)


def joined(module: Any, *arrays: Any) -> Any:
    """Return the outputs and last states of a module, given a state or none, as one array of one axis."""
    x, *state = arrays
    long = isinstance(module, nn.LSTM | nn.LSTMCell) or type(module).__name__ in ("LSTM", "LSTMCell")
    found = module(x, tuple(state) if long and state else None if not state else state[0])
    parts: list[Any] = []
    while isinstance(found, tuple):
        parts, found = [found[0], *parts], found[1]
    parts.append(found)
    if isinstance(module, nn.Module):
        return agrad.concat([agrad.reshape(part, (-1,)) for part in parts])
    import torch

    return torch.cat([part.reshape(-1) for part in parts])


NETWORKS: list[tuple[str, dict[str, Any], list[np.ndarray]]] = [
    ("RNN", {}, [draw(4, 2, 3)]),
    ("RNN", {"nonlinearity": "relu", "bias": False, "bidirectional": True}, [draw(4, 2, 3)]),
    ("LSTM", {}, [draw(3, 2, 3), draw(1, 2, 5), draw(1, 2, 5)]),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, [draw(4, 3)]),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "batch_first": True}, [draw(2, 3, 3), draw(2, 2, 2), draw(2, 2, 5)]),
    ("GRU", {"batch_first": True}, [draw(2, 4, 3), draw(1, 2, 5)]),
    ("GRU", {"num_layers": 2, "bidirectional": True, "bias": False}, [draw(3, 1, 3)]),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "options", "arrays"), NETWORKS, ids=lambda one: one if isinstance(one, str) else "")
def test_networks(backend: str, name: str, options: dict[str, Any], arrays: list[np.ndarray]) -> None:
    ours, theirs = made(name, 3, 5, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    check_module(ours, theirs, arrays, joined, modes=name == "LSTM" and not options)


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("name", "options", "states"),
    [
        ("RNNCell", {}, 1),
        ("RNNCell", {"nonlinearity": "relu", "bias": False}, 0),
        ("LSTMCell", {}, 2),
        ("GRUCell", {}, 1),
    ],
)
@pytest.mark.parametrize("batch", [(2,), ()])
def test_cells(backend: str, name: str, options: dict[str, Any], states: int, batch: tuple[int, ...]) -> None:
    ours, theirs = made(name, 3, 5, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    arrays = [draw(*batch, 3), *(draw(*batch, 5) for _ in range(states))]
    check_module(ours, theirs, arrays, joined, modes=len(batch) == 1, smooth="nonlinearity" not in options)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_lengths_are_those_of_packed_sequences(backend: str, name: str, jitted: bool) -> None:
    import torch

    ours, theirs = made(name, 3, 5, num_layers=2, bidirectional=True)
    same_values(ours, theirs)
    x, lengths = draw(4, 3, 3), np.array([2, 4, 1])
    x[2:, 0] = np.nan
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.asarray(x), lengths.tolist(), enforce_sorted=False)
    expected, last = theirs(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(expected)

    def outputs(x: Any, lengths: Any) -> Any:
        return ours(x, lengths=lengths)

    found, state = (agrad.jit(outputs) if jitted else outputs)(here(x), here(lengths))
    close(found, expected, "the outputs")
    agrad.sum(found).backward()
    expected.sum().backward()
    close(ours.weight_ih_l0.grad, theirs.weight_ih_l0.grad, "the gradient of a weight")
    pairs = zip(state, last, strict=True) if name == "LSTM" else [(state, last)]
    for mine, other in pairs:
        close(mine, other, "the last state")


def test_a_jitted_network_is_one_loop(backend: str) -> None:
    layer = nn.GRU(3, 5, dtype="float64")

    def loss(x: Any) -> Any:
        return agrad.sum(layer(x)[0] ** 2)

    counts = [str(agrad.jit(agrad.grad(loss)).lower(here(draw(n, 2, 3)))).count("\n") for n in (3, 9)]
    assert counts[0] == counts[1]


def test_dropout_between_layers(backend: str) -> None:
    layer = nn.LSTM(3, 5, num_layers=2, dropout=0.5, dtype="float64", rng=np.random.default_rng(0))
    x = here(draw(4, 2, 3))
    first, second = (host(layer(x)[0]) for _ in range(2))
    assert not np.array_equal(first, second)
    layer.dropout.load_host_state({"seed": layer.dropout.seed, "calls": 0})
    np.testing.assert_array_equal(host(layer(x)[0]), first)
    layer.eval()
    np.testing.assert_array_equal(host(layer(x)[0]), host(layer(x)[0]))


def test_refusals(backend: str) -> None:
    layer, x = nn.LSTM(3, 5, dtype="float64"), here(draw(4, 2, 3))
    with pytest.raises(ShapeError, match=r"\(l, n, 3\)"):
        layer(here(draw(4, 2, 4)))
    with pytest.raises(ShapeError, match=r"the state must have shape \(1, 2, 5\) and \(1, 2, 5\)"):
        layer(x, (here(draw(1, 2, 5)), here(draw(1, 2, 4))))
    with pytest.raises(ShapeError, match=r"the state must have shape \(1, 2, 5\) and \(1, 2, 5\)"):
        layer(x, (here(draw(1, 2, 5)),))
    with pytest.raises(ShapeError, match=r"with l of at least 1, or without n, got \(0, 2, 3\)"):
        layer(x[:0, ...])
    with pytest.raises(ShapeError, match="lengths"):
        layer(x, lengths=here(np.array([1, 2, 3])))
    with pytest.raises(DtypeError, match="integers"):
        layer(x, lengths=here(np.array([1.0, 2.0])))
    with pytest.raises(ShapeError, match=r"LSTMCell: x must have shape \(n, 3\) or \(3,\), got \(4, 2, 3\)"):
        nn.LSTMCell(3, 5, dtype="float64")(x)
    with pytest.raises(ShapeError, match=r"GRUCell: the state must have shape \(2, 5\), got \[\(2, 4\)\]"):
        nn.GRUCell(3, 5, dtype="float64")(x[0, ...], here(draw(2, 4)))
    for options in ({"nonlinearity": "sin"}, {"num_layers": 0}, {"dropout": 2.0}):
        with pytest.raises(ConfigurationError, match=next(iter(options)) if "dropout" not in options else "Dropout"):
            nn.RNN(3, 5, **options)
    with pytest.raises(ConfigurationError, match="proj_size"):
        nn.LSTM(3, 5, proj_size=5)


def test_lengths_past_the_end_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="from 1 to 4"):
        nn.RNN(3, 5, dtype="float64", backend="numpy")(draw(4, 2, 3), lengths=np.array([4, 5]))

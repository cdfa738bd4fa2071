"""Attention, recurrent networks and transformers against PyTorch with the same values, in every mode."""

import math
from typing import Any

import numpy as np
import pytest
from jit_help import memory_of
from module_parity import check_module, same_values
from tensors import all_close
from torch_parity import Call, check_call, close, here, host

import agrad
from agrad import nn

F = nn.functional
RNG = np.random.default_rng(21)
INF = np.inf


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


Q, K, V = draw(2, 3, 5, 4), draw(2, 3, 6, 4), draw(2, 3, 6, 2)
TAKEN = RNG.random((5, 6)) > 0.4
TAKEN[2] = False
ADDED = np.where(RNG.random((2, 1, 5, 6)) > 0.3, draw(2, 1, 5, 6), -INF)
ADDED[1, 0, 3] = -INF
CALLS = [
    Call("scaled_dot_product_attention", [Q, K, V]),
    Call("scaled_dot_product_attention", [Q[0, 0], K[0, 0], V[0, 0]], {"scale": 0.7}),
    Call("scaled_dot_product_attention", [Q, K, V], {"is_causal": True}),
    Call("scaled_dot_product_attention", [K, Q, Q], {"is_causal": True}),
    Call("scaled_dot_product_attention", [Q, K, V, TAKEN]),
    Call("scaled_dot_product_attention", [Q, K, V, ADDED]),
    Call("scaled_dot_product_attention", [Q, K, V, draw(2, 3, 1, 6)]),
    Call("scaled_dot_product_attention", [Q, K[:, :1], V[:1]]),
    Call("scaled_dot_product_attention", [draw(2, 6, 5, 4), K, V], {"enable_gqa": True}),
]


def in_blocks(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Compute attention of two by three matrices by blocks of some queries."""
    monkeypatch.setattr("agrad.nn.functional.attention.AT_ONCE", 0)
    monkeypatch.setattr("agrad.nn.functional.attention.BLOCK", 36 * rows)


@pytest.mark.parametrize("blocks", [False, True], ids=["at once", "in blocks"])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(
    backend: str, call: Call, blocks: bool, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    if blocks:
        in_blocks(monkeypatch, 2)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        check_call(call, modes=not blocks or call is CALLS[3] or call is CALLS[5])


def test_queries_without_a_key_give_zeros(backend: str) -> None:
    out = F.scaled_dot_product_attention(here(Q), here(K), here(V), here(TAKEN))
    np.testing.assert_array_equal(host(out)[:, :, 2], 0)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_blocks_need_no_matrix_of_all_pairs(jitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(1024, 8)
    plain = agrad.grad(
        lambda q, k, v: agrad.sum(F.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2), (0, 1, 2)
    )
    gradient = agrad.jit(plain) if jitted else plain
    at_once, expected = memory_of(plain, x, x, x)[1], plain(x, x, x)
    assert at_once > 2 * 8 * 1024**2
    monkeypatch.setattr("agrad.nn.functional.attention.AT_ONCE", 1 << 14)
    monkeypatch.setattr("agrad.nn.functional.attention.BLOCK", 1 << 14)
    found = gradient(x, x, x)
    assert memory_of(gradient, x, x, x)[1] < at_once / 8
    all_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("blocks", [False, True], ids=["at once", "in blocks"])
def test_dropout(backend: str, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        in_blocks(monkeypatch, 2)

    def attention(v: Any) -> Any:
        return F.scaled_dot_product_attention(here(Q), here(K), v, dropout_p=0.25)

    nn.manual_seed(5)
    first, second = host(attention(here(V))), host(attention(here(V)))
    assert not np.array_equal(first, second)
    nn.manual_seed(5)
    jitted = agrad.jit(attention)
    for expected in (first, second):  # the queries are constants of the program, and the draws are not
        np.testing.assert_allclose(host(jitted(here(V))), expected, rtol=1e-12)
    nn.manual_seed(5)
    # a linear function of the values: the backward pass must drop the same weights
    v = agrad.asarray(here(V), requires_grad=True)
    out = attention(v)
    agrad.sum(out).backward()
    np.testing.assert_array_equal(host(out), first)
    np.testing.assert_allclose(np.sum(host(v.grad) * V), np.sum(first), rtol=1e-10)
    ones = F.scaled_dot_product_attention(*(here(np.ones((400, 6, 4))) for _ in range(3)), dropout_p=0.25)
    np.testing.assert_allclose(np.mean(host(ones)), 1.0, atol=0.03)


# ------------------------------------------------------------------ the attention layer

X, MEMORY = draw(5, 2, 8), draw(6, 2, 8)
PADDED = np.array([[False] * 4 + [True] * 2, [False] * 6])
LEFT_OUT = np.triu(np.ones((5, 6), bool), 2)
LAYER: list[tuple[dict[str, Any], list[np.ndarray], dict[str, Any]]] = [
    ({}, [X, MEMORY, MEMORY], {"key_padding_mask": PADDED, "attn_mask": np.where(LEFT_OUT, -INF, 0.25)}),
    ({"bias": False}, [X, MEMORY, MEMORY], {"key_padding_mask": PADDED, "attn_mask": LEFT_OUT}),
    ({"kdim": 3, "vdim": 5}, [X, draw(6, 2, 3), draw(6, 2, 5)], {"average_attn_weights": False}),
    ({"batch_first": True}, [X, X, X], {"attn_mask": draw(10, 2, 2)}),
    ({"batch_first": True}, [X[:, 0], MEMORY[:, 0], MEMORY[:, 0]], {"key_padding_mask": PADDED[0]}),
]


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize(("options", "arrays", "given"), LAYER, ids=["cross", "no bias", "kdim", "self", "single"])
def test_attention_layer(
    backend: str, options: dict[str, Any], arrays: list[Any], given: dict[str, Any], torch: Any
) -> None:
    ours = nn.MultiheadAttention(8, 2, **options, dtype="float64", rng=np.random.default_rng(0))
    theirs = torch.nn.MultiheadAttention(8, 2, **options, dtype=torch.float64)
    assert {name for name, _ in ours.named_parameters()} == {name for name, _ in theirs.named_parameters()}

    def call(module: Any, *xs: Any) -> Any:
        place = here if module is ours else torch.asarray
        masks = {name: place(v) if isinstance(v, np.ndarray) else v for name, v in given.items()}
        out, weights = module(*xs, **masks)
        short, none = module(*xs, **masks, need_weights=False)
        assert none is None
        # all results, of which one has other axes, in one
        factors = place(np.cos(np.arange(math.prod(weights.shape))).reshape(tuple(weights.shape)))
        return out + 2 * short + (torch if module is theirs else agrad).sum(weights * factors)

    check_module(ours, theirs, arrays, call)


def test_attention_layer_is_causal_and_drops_weights(backend: str) -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True, dtype="float64", rng=np.random.default_rng(0))
    x = here(X)
    assert not np.array_equal(host(layer(x, x, x)[0]), host(layer(x, x, x)[0]))
    layer.eval()
    mask = here(np.triu(np.ones((2, 2), bool), 1))
    for need in (True, False):
        causal = layer(x, x, x, need_weights=need, is_causal=True)[0]
        np.testing.assert_allclose(host(causal), host(layer(x, x, x, attn_mask=mask)[0]), atol=1e-14)


# ------------------------------------------------------------------ recurrent networks


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


RELU = {"nonlinearity": "relu", "bias": False}
NETWORKS: list[tuple[str, dict[str, Any], list[np.ndarray]]] = [
    ("RNN", {}, [draw(4, 2, 3)]),
    ("RNN", {**RELU, "bidirectional": True}, [draw(4, 2, 3)]),
    ("LSTM", {}, [draw(3, 2, 3), draw(1, 2, 5), draw(1, 2, 5)]),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, [draw(4, 3)]),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "batch_first": True}, [draw(2, 3, 3), draw(2, 2, 2), draw(2, 2, 5)]),
    ("GRU", {"batch_first": True}, [draw(2, 4, 3), draw(1, 2, 5)]),
    ("GRU", {"num_layers": 2, "bidirectional": True, "bias": False}, [draw(3, 1, 3)]),
    *((name, how, [draw(*batch, 3), *(draw(*batch, 5) for _ in range(states))]) for batch in ((2,), ())
      for name, how, states in (("RNNCell", {}, 1), ("RNNCell", RELU, 0), ("LSTMCell", {}, 2), ("GRUCell", {}, 1))),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "options", "arrays"), NETWORKS, ids=lambda one: one if isinstance(one, str) else "")
def test_networks_and_cells(backend: str, name: str, options: dict[str, Any], arrays: list[np.ndarray]) -> None:
    ours, theirs = made(name, 3, 5, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    modes = arrays[0].ndim == 2 if "Cell" in name else name == "LSTM" and not options
    check_module(ours, theirs, arrays, joined, modes=modes, smooth="nonlinearity" not in options)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_lengths_are_those_of_packed_sequences(backend: str, name: str, jitted: bool, torch: Any) -> None:
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


# ------------------------------------------------------------------ transformers


def masked(**masks: np.ndarray | bool) -> Any:
    """Return a call of a module with masks."""

    def call(module: Any, *arrays: Any) -> Any:
        import torch

        place = here if isinstance(module, nn.Module) else torch.asarray
        return module(*arrays, **{k: place(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()})

    return call


SRC, TGT = draw(4, 2, 8), draw(3, 2, 8)
CAUSAL = {n: np.triu(np.ones((n, n), bool), 1) for n in (3, 4)}
PADDED = np.array([[False, False, False, True], [False, False, True, True]])
SIZES = (8, 2, 6, 0.0)
FIRST = {"norm_first": True}
WHOLE = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 6, "dropout": 0.0, "batch_first": True}
TRANSFORMERS: list[tuple[str, tuple[Any, ...], dict[str, Any], list[np.ndarray], dict[str, Any]]] = [
    ("EncoderLayer", SIZES, {}, [SRC], {"src_mask": CAUSAL[4], "src_key_padding_mask": PADDED}),
    ("EncoderLayer", SIZES, {**FIRST, "activation": "gelu", "bias": False}, [SRC],
     {"src_mask": CAUSAL[4], "is_causal": True}),
    *(("DecoderLayer", SIZES, how, [TGT, SRC], {"tgt_mask": CAUSAL[3], "memory_key_padding_mask": PADDED})
      for how in ({}, FIRST)),
    ("", (8, 2), WHOLE, [SRC.swapaxes(0, 1), TGT.swapaxes(0, 1)],
     {"tgt_mask": CAUSAL[3], "src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED}),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize("row", range(len(TRANSFORMERS)))
def test_transformers(backend: str, row: int) -> None:
    name, sizes, options, arrays, masks = TRANSFORMERS[row]
    ours, theirs = made(f"Transformer{name}", *sizes, **options)
    check_module(ours, theirs, arrays, masked(**masks), modes="activation" in options)


def test_transformer_of_single_precision_and_its_mask(backend: str, torch: Any) -> None:
    assert nn.Transformer(8, 2, 1, 1, 6)(here(SRC.astype("f4")), here(TGT.astype("f4"))).shape == TGT.shape
    with agrad.use_backend("numpy"):
        mask = nn.Transformer.generate_square_subsequent_mask(3)
    np.testing.assert_array_equal(mask.numpy(), torch.nn.Transformer.generate_square_subsequent_mask(3).numpy())


def test_causal_without_a_mask(backend: str) -> None:
    layer = nn.TransformerEncoderLayer(*SIZES, dtype="float64", rng=np.random.default_rng(0))
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, dtype="float64"))
    whole, part = host(encoder(here(SRC), is_causal=True)), host(encoder(here(SRC[:2]), is_causal=True))
    np.testing.assert_allclose(whole[:2], part, atol=1e-12)
    np.testing.assert_allclose(host(encoder(here(SRC), here(CAUSAL[4]))), whole, atol=1e-12)


def test_copies_of_a_layer_drop_other_elements(backend: str) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.3, dtype="float64", rng=np.random.default_rng(0))
    encoder = nn.TransformerEncoder(layer, 2)
    seeds = [m.seed for _, m in encoder.named_modules() if isinstance(m, nn.Dropout)]
    assert len(set(seeds)) == len(seeds) == 8
    np.testing.assert_array_equal(host(encoder.layers[0].linear1.weight), host(encoder.layers[1].linear1.weight))
    random = nn.TransformerEncoder(nn.Sequential(nn.AlphaDropout(0.3), nn.RReLU()), 2)
    assert len({m.seed for m in random.modules() if isinstance(m, (nn.AlphaDropout, nn.RReLU))}) == 4
    x = here(SRC)
    assert not np.array_equal(host(encoder(x)), host(encoder(x)))
    step = agrad.jit(encoder)
    assert not np.array_equal(host(step(x)), host(step(x)))

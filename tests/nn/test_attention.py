"""Attention against PyTorch's: values and derivatives in every mode, by blocks too, their memory, and the layer."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from module_parity import check_module
from torch_parity import Call, check_call, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, ShapeError

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


@pytest.mark.needs("torch")
@pytest.mark.parametrize("blocks", [False, True], ids=["at once", "in blocks"])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if blocks:
        in_blocks(monkeypatch, 2)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        check_call(call, modes=not blocks or call is CALLS[3] or call is CALLS[5])


def test_queries_without_a_key_give_zeros(backend: str) -> None:
    out = F.scaled_dot_product_attention(here(Q), here(K), here(V), here(TAKEN))
    np.testing.assert_array_equal(host(out)[:, :, 2], 0)


def peak(function: Any, *args: Any) -> int:
    """Return the bytes that a call has at once."""
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_blocks_need_no_matrix_of_all_pairs(jitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(1024, 8)
    plain = agrad.grad(
        lambda q, k, v: agrad.sum(F.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2), (0, 1, 2)
    )
    gradient = agrad.jit(plain) if jitted else plain
    at_once, expected = peak(plain, x, x, x), plain(x, x, x)
    assert at_once > 2 * 8 * 1024**2
    monkeypatch.setattr("agrad.nn.functional.attention.AT_ONCE", 1 << 14)
    monkeypatch.setattr("agrad.nn.functional.attention.BLOCK", 1 << 14)
    found = gradient(x, x, x)
    assert peak(gradient, x, x, x) < at_once / 8
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


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


@pytest.mark.parametrize(
    ("error", "match", "arrays", "options"),
    [
        (ShapeError, r"arrays must have shapes \(\.\.\., l, e\)", [Q, K[..., :3], V], {}),
        (ShapeError, r"arrays must have shapes \(\.\.\., l, e\)", [Q, K, V[:, :, :3]], {}),
        (ShapeError, "must have shapes that broadcast", [Q, K[:, :2], V], {}),
        (ShapeError, "must have shapes that broadcast", [Q, K, V, TAKEN[:4]], {}),
        (ShapeError, "multiple", [Q, K[:, :2], V[:, :2]], {"enable_gqa": True}),
        (DtypeError, "real", [Q + 0j, K, V], {}),
        (DtypeError, "real floating", [np.ones((2, 4), int), K, V], {"scale": 1.0}),
        (DtypeError, "attn_mask", [Q, K, V, TAKEN.astype(int)], {}),
        (ConfigurationError, "attn_mask must be None if is_causal=True", [Q, K, V, TAKEN], {"is_causal": True}),
        (ConfigurationError, "dropout_p", [Q, K, V], {"dropout_p": 1.5}),
    ],
)
def test_refusals(error: type[Exception], match: str, arrays: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(error, match=match):
        F.scaled_dot_product_attention(*arrays, **options)


# ------------------------------------------------------------------ the layer

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


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize(("options", "arrays", "given"), LAYER, ids=["cross", "no bias", "kdim", "self", "single"])
def test_layer(backend: str, options: dict[str, Any], arrays: list[Any], given: dict[str, Any]) -> None:
    import torch

    ours = nn.MultiheadAttention(8, 2, **options, dtype="float64", rng=np.random.default_rng(0))
    theirs = torch.nn.MultiheadAttention(8, 2, **options, dtype=torch.float64)
    assert {name for name, _ in ours.named_parameters()} == {name for name, _ in theirs.named_parameters()}

    def call(module: Any, *xs: Any) -> Any:
        place = here if module is ours else torch.asarray
        masks = {name: place(v) if isinstance(v, np.ndarray) else v for name, v in given.items()}
        out, weights = module(*xs, **masks)
        assert module(*xs, **masks, need_weights=False)[1] is None
        # both results, of which the second has other axes, in one
        return out + (weights**2).sum() if module is theirs else out + agrad.sum(weights**2)

    check_module(ours, theirs, arrays, call)
    mine, (_, expected) = (
        ours(*map(here, arrays), **{k: here(v) if hasattr(v, "shape") else v for k, v in given.items()}),
        theirs(
            *map(torch.asarray, arrays), **{k: torch.asarray(v) if hasattr(v, "shape") else v for k, v in given.items()}
        ),
    )
    close(mine[1], expected, "the weights")
    short = ours(
        *map(here, arrays), need_weights=False, **{k: here(v) for k, v in given.items() if hasattr(v, "shape")}
    )
    np.testing.assert_allclose(host(short[0]), host(mine[0]), atol=1e-12)


def test_layer_is_causal_and_drops_weights(backend: str) -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True, dtype="float64", rng=np.random.default_rng(0))
    x = here(X)
    assert not np.array_equal(host(layer(x, x, x)[0]), host(layer(x, x, x)[0]))
    layer.eval()
    mask = here(np.triu(np.ones((2, 2), bool), 1))
    for need in (True, False):
        causal = layer(x, x, x, need_weights=need, is_causal=True)[0]
        np.testing.assert_allclose(host(causal), host(layer(x, x, x, attn_mask=mask)[0]), atol=1e-14)


def test_layer_refusals(backend: str) -> None:
    layer = nn.MultiheadAttention(8, 2, dtype="float64")
    x = here(X)
    with pytest.raises(ShapeError, match=r"arrays must have shapes \(l, n, 8\)"):
        layer(x, x, here(MEMORY))
    with pytest.raises(ShapeError, match="key_padding_mask"):
        layer(x, x, x, key_padding_mask=here(PADDED))
    with pytest.raises(ShapeError, match="attn_mask"):
        layer(x, x, x, attn_mask=here(TAKEN))
    with pytest.raises(DtypeError, match="attn_mask must be Boolean"):
        layer(x, x, x, attn_mask=here(np.ones((5, 5), int)))
    with pytest.raises(ConfigurationError, match="multiple"):
        nn.MultiheadAttention(8, 3)

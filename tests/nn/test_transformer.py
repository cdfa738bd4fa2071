"""Transformers against PyTorch's with the same values: results, derivatives in every mode, masks."""

from typing import Any

import numpy as np
import pytest
from module_parity import check_module
from torch_parity import here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError

RNG = np.random.default_rng(23)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


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


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("options", "masks"),
    [
        ({}, {"src_mask": CAUSAL[4], "src_key_padding_mask": PADDED}),
        ({"norm_first": True, "activation": "gelu", "bias": False}, {"src_mask": CAUSAL[4], "is_causal": True}),
    ],
    ids=["norm last", "norm first"],
)
def test_encoder_layer(backend: str, options: dict[str, Any], masks: dict[str, Any]) -> None:
    import torch

    ours = nn.TransformerEncoderLayer(*SIZES, **options, dtype="float64", rng=np.random.default_rng(0))
    theirs = torch.nn.TransformerEncoderLayer(*SIZES, **options, dtype=torch.float64)
    check_module(ours, theirs, [SRC], masked(**masks), modes="activation" in options)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(backend: str, norm_first: bool) -> None:
    import torch

    ours = nn.TransformerDecoderLayer(*SIZES, norm_first=norm_first, dtype="float64", rng=np.random.default_rng(0))
    theirs = torch.nn.TransformerDecoderLayer(*SIZES, norm_first=norm_first, dtype=torch.float64)
    masks = {"tgt_mask": CAUSAL[3], "memory_key_padding_mask": PADDED}
    check_module(ours, theirs, [TGT, SRC], masked(**masks), modes=False)


@pytest.mark.needs("torch")
def test_transformer(backend: str) -> None:
    import torch

    options = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 6, "dropout": 0.0}
    ours = nn.Transformer(8, 2, **options, batch_first=True, dtype="float64", rng=np.random.default_rng(0))
    theirs = torch.nn.Transformer(8, 2, **options, batch_first=True, dtype=torch.float64)
    masks = {"tgt_mask": CAUSAL[3], "src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED}
    check_module(ours, theirs, [SRC.swapaxes(0, 1), TGT.swapaxes(0, 1)], masked(**masks), modes=False)
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
    encoder = nn.TransformerEncoder(layer, 3)
    seeds = [m.seed for _, m in encoder.named_modules() if isinstance(m, nn.Dropout)]
    assert len(set(seeds)) == len(seeds) == 12
    np.testing.assert_array_equal(host(encoder.layers[0].linear1.weight), host(encoder.layers[2].linear1.weight))
    random = nn.TransformerEncoder(nn.Sequential(nn.AlphaDropout(0.3), nn.RReLU()), 2)
    assert len({m.seed for m in random.modules() if isinstance(m, (nn.AlphaDropout, nn.RReLU))}) == 4
    x = here(SRC)
    assert not np.array_equal(host(encoder(x)), host(encoder(x)))
    step = agrad.jit(encoder)
    assert not np.array_equal(host(step(x)), host(step(x)))


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="sine")
    with pytest.raises(ConfigurationError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="num_layers"):
        nn.TransformerEncoder(nn.Linear(2, 2), 0)
    with pytest.raises(ConfigurationError, match="a Module"):
        nn.TransformerDecoder(nn.Linear, 2)  # type: ignore[arg-type]

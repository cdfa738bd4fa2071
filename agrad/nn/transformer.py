"""Transformer encoder, decoder and encoder-decoder model."""

import copy
import math
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError
from agrad.expect import numbers
from agrad.nn import init
from agrad.nn.dropout import RandomModule
from agrad.nn.module import Module
from agrad.nn.normalization import LayerNorm
from agrad.nn.seeding import Rng, draw_seed
from agrad.nn.transformer_layers import Activation, TransformerDecoderLayer, TransformerEncoderLayer

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


def _copies(layer: Module, count: int, rng: Rng) -> list[Module]:
    """Return copies of a layer with the same values and different seeds."""
    if not isinstance(layer, Module):
        raise ConfigurationError(f"the layer of a transformer must be a Module, got {type(layer).__name__}")
    (count,) = numbers("a transformer", "num_layers", count, 1, 1)
    made = [copy.deepcopy(layer) for _ in range(count)]
    for one in made:
        for _, module in one.named_modules():
            if isinstance(module, RandomModule):
                module.seed = draw_seed(rng)
    return made


class TransformerEncoder(Module):
    """Transformer encoder: a chain of encoder layers.

    As in PyTorch, the copies start with the values of the layer. They draw different dropout masks.

    Parameters
    ----------
    encoder_layer : Module
        Layer, for example a ``TransformerEncoderLayer``.
    num_layers : int
        Number of copies.
    norm : Module, optional
        Normalization of the output.

    Examples
    --------
    >>> layer = agrad.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> model = agrad.nn.TransformerEncoder(layer, num_layers=2)
    >>> model(np.ones((5, 2, 8), np.float32)).shape
    (5, 2, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None, *, rng: Rng = None) -> None:
        self.layers: list[Module] = _copies(encoder_layer, num_layers, rng)
        self.num_layers: int = num_layers
        self.norm: Module | None = norm

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> agrad.Tensor:
        """Return the output of the last layer.

        Parameters
        ----------
        src : array
            Input of the first layer.
        mask, src_key_padding_mask : array, optional
            ``src_mask`` and key padding mask of each layer.
        is_causal : bool, optional
            True for a causal mask if ``mask`` is None.

        Returns
        -------
        array of the shape of ``src``
        """
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Transformer decoder: a chain of decoder layers, copied as in an encoder.

    Parameters
    ----------
    decoder_layer : Module
        Layer, for example a ``TransformerDecoderLayer``.
    num_layers, norm
        Same as for ``TransformerEncoder``.

    Examples
    --------
    >>> layer = agrad.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> model = agrad.nn.TransformerDecoder(layer, num_layers=2)
    >>> model(np.ones((4, 2, 8), np.float32), np.ones((5, 2, 8), np.float32)).shape
    (4, 2, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None, *, rng: Rng = None) -> None:
        self.layers: list[Module] = _copies(decoder_layer, num_layers, rng)
        self.num_layers: int = num_layers
        self.norm: Module | None = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> agrad.Tensor:
        """Return the output of the last layer.

        Parameters
        ----------
        tgt, memory : array
            Input of the first layer, and output of an encoder.
        tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal
            Arguments of each layer.

        Returns
        -------
        array of the shape of ``tgt``
        """
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Transformer: encoder-decoder model with attention.

    As in PyTorch, the initial values of all 2-D weights are uniform with variance 2 / (inputs + outputs). Reference: A.
    Vaswani et al. (2017), arXiv:1706.03762.

    Parameters
    ----------
    d_model, nhead
        Same as for ``TransformerEncoderLayer``.
    num_encoder_layers, num_decoder_layers : int
        Numbers of layers.
    dim_feedforward, dropout, activation
        Same as for ``TransformerEncoderLayer``.
    custom_encoder, custom_decoder : Module, optional
        Modules that replace the encoder and the decoder.
    layer_norm_eps, batch_first, norm_first, bias
        Same as for ``TransformerEncoderLayer``.

    Examples
    --------
    >>> model = agrad.nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(np.ones((5, 2, 8), np.float32), np.ones((4, 2, 8), np.float32)).shape
    (4, 2, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        place = {"dtype": dtype, "backend": backend, "device": device}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **place)

        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*sizes, rng=rng, **place)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm(), rng=rng)
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*sizes, rng=rng, **place)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm(), rng=rng)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                here = {"dtype": parameter.dtype, "backend": parameter.backend, "device": parameter.device}
                parameter.assign(init.parameter(init.xavier_uniform(parameter.shape, rng), **here).detach().raw)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> agrad.Tensor:
        """Return the output of the decoder.

        Parameters
        ----------
        src, tgt : array
            Inputs of the encoder and of the decoder, arrays of shape (l, n, d_model), with ``batch_first`` (n, l,
            d_model), or (l, d_model). Their lengths may differ.
        src_mask, tgt_mask, memory_mask : array, optional
            ``attn_mask`` of the attention in the encoder, in the decoder, and from the decoder to the encoder.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : array, optional
            ``key_padding_mask`` of these attentions.
        src_is_causal, tgt_is_causal, memory_is_causal : bool
            True for a causal mask if the mask of that attention is None.

        Returns
        -------
        array of the shape of ``tgt``
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Any = None, dtype: Any = None, *, backend: str | None = None
    ) -> agrad.Tensor:
        """Return a causal mask of numbers to add to the scores.

        Parameters
        ----------
        sz : int
            Length of the sequence.
        device, dtype, backend
            By default, the default device of the backend, float32 and the selected backend.

        Returns
        -------
        Tensor of shape (sz, sz), minus infinity above the diagonal and 0 elsewhere

        Examples
        --------
        >>> agrad.nn.Transformer.generate_square_subsequent_mask(3)
        Tensor([[ 0.0, -inf, -inf],
                [ 0.0,  0.0, -inf],
                [ 0.0,  0.0,  0.0]], dtype=float32, backend=numpy, device=cpu)
        """
        (sz,) = numbers("generate_square_subsequent_mask", "sz", sz, 1, 0)
        values = np.triu(np.full((sz, sz), -math.inf), 1)
        return init.parameter(values, dtype=dtype, backend=backend, device=device).detach()

"""Transformer layers: attention and a feed-forward network."""

from collections.abc import Callable
from typing import Any, ClassVar

import agrad
from agrad.errors import ConfigurationError
from agrad.nn import functional
from agrad.nn.attention import MultiheadAttention
from agrad.nn.dropout import Dropout
from agrad.nn.layers import Linear
from agrad.nn.module import Module
from agrad.nn.normalization import LayerNorm
from agrad.nn.seeding import Rng

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]

Activation = str | Callable[[Any], Any]
_ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


class _Layer(Module):
    """Base class of encoder and decoder layers.

    Parameters
    ----------
    d_model : int
        Length of the last axis of inputs and output.
    nhead : int
        Number of heads of each attention.
    dim_feedforward : int
        Length of the last axis between the two linear layers.
    dropout : float
        Probability of zeroing an element in training.
    activation : "relu", "gelu" or callable
        Activation function between the two linear layers.
    layer_norm_eps : float
        Number added to variances.
    batch_first : bool
        True for arrays of shape (n, l, d_model), False for (l, n, d_model).
    norm_first : bool
        True to normalize the inputs of attention and feed-forward layers, False to normalize the sums.
    bias : bool
        False for linear layers and norms without bias.
    """

    _attentions: ClassVar[tuple[str, ...]] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
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
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, rng=rng, **place)
            setattr(self, name, attention)
        if activation not in _ACTIVATIONS if isinstance(activation, str) else not callable(activation):
            raise ConfigurationError(
                f"{type(self).__name__}: activation must be 'relu', 'gelu' or a function, got {activation!r}"
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias, rng=rng, **place)
        self.dropout = Dropout(dropout, rng)
        self.linear2 = Linear(dim_feedforward, d_model, bias, rng=rng, **place)
        self.norm_first = norm_first
        places = range(1, len(self._attentions) + 2)
        for i in places:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        for i in places:
            setattr(self, f"dropout{i}", Dropout(dropout, rng))
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _added(self, x: Any, number: int, part: Callable[[Any], Any]) -> Any:
        """Return the residual sum of ``x`` and a sublayer, with norm and dropout ``k``."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return agrad.add(x, dropout(part(norm(x))))
        return norm(agrad.add(x, dropout(part(x))))


class TransformerEncoderLayer(_Layer):
    """Transformer encoder layer: self-attention and a feed-forward network.

    The output of each is added to its input and normalized. Reference: A. Vaswani et al. (2017), arXiv:1706.03762.

    Examples
    --------
    >>> layer = agrad.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(np.ones((2, 5, 8), np.float32)).shape
    (2, 5, 8)
    """

    self_attn: MultiheadAttention

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> agrad.Tensor:
        """Return the output of the layer.

        Parameters
        ----------
        src : array of shape (l, n, d_model), with ``batch_first`` (n, l, d_model), or (l, d_model)
        src_mask, src_key_padding_mask : array, optional
            ``attn_mask`` and ``key_padding_mask`` of the attention.
        is_causal : bool
            True for a causal mask if ``src_mask`` is None.

        Returns
        -------
        array of the shape of ``src``
        """

        def attention(x: Any) -> Any:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._added(self._added(src, 1, attention), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Transformer decoder layer: self-attention, cross-attention, feed-forward.

    The output of each is added to its input and normalized.

    Examples
    --------
    >>> layer = agrad.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(np.ones((2, 4, 8), np.float32), np.ones((2, 5, 8), np.float32)).shape
    (2, 4, 8)
    """

    _attentions = ("self_attn", "multihead_attn")
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> agrad.Tensor:
        """Return the output of the layer.

        Parameters
        ----------
        tgt : array of shape (l, n, d_model), with ``batch_first`` (n, l, d_model), or (l, d_model)
        memory : array
            Output of an encoder, of the same shape except for the length.
        tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask : array, optional
            ``attn_mask`` and ``key_padding_mask`` of the self-attention and of the cross-attention.
        tgt_is_causal, memory_is_causal : bool
            True for a causal mask if the corresponding mask is None.

        Returns
        -------
        array of the shape of ``tgt``
        """

        def attention(x: Any) -> Any:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def to_memory(x: Any) -> Any:
            found, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            return found

        return self._added(self._added(self._added(tgt, 1, attention), 2, to_memory), 3, self._feed_forward)

"""Multi-head attention layer."""

import math
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import numbers
from agrad.nn import functional, init
from agrad.nn.dropout import Dropout
from agrad.nn.functional.attention import attend, weights
from agrad.nn.functional.real import places
from agrad.nn.layers import Linear
from agrad.nn.module import Module
from agrad.nn.seeding import Rng


class MultiheadAttention(Module):
    """Multi-head attention.

    ``in_proj_weight`` has the shape (3 * embed_dim, embed_dim), the rows of queries, keys and values in this order, and
    ``in_proj_bias`` (3 * embed_dim,). With ``kdim`` or ``vdim``, the layer has ``q_proj_weight``, ``k_proj_weight`` and
    ``v_proj_weight`` of shape (embed_dim, ...) instead. These parameters have the names and the layout of PyTorch.
    ``out_proj`` is a ``Linear``, whose weight is the transpose of the PyTorch weight.

    Parameters
    ----------
    embed_dim : int
        Length of the last axis of the queries and of the output, a multiple of ``num_heads``.
    num_heads : int
        Number of heads, each of length ``embed_dim // num_heads``.
    dropout : float
        Probability of zeroing a weight in training.
    bias : bool
        False for projections without bias.
    kdim, vdim : int, optional
        Lengths of the last axes of keys and values. By default, ``embed_dim``.
    batch_first : bool
        True for arrays of shape (n, l, embed_dim), False for (l, n, embed_dim).

    Examples
    --------
    >>> layer = agrad.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = np.ones((3, 5, 8), np.float32)
    >>> y, weights = layer(x, x, x)
    >>> y.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    embed_dim: int
    num_heads: int
    kdim: int
    vdim: int
    in_proj_bias: agrad.Tensor | Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "kdim": kdim, "vdim": vdim}
        for name, size in sizes.items():
            (found,) = numbers("MultiheadAttention", name, embed_dim if size is None else size, 1, 1)
            setattr(self, name, found)
        if embed_dim % num_heads:
            raise ConfigurationError(
                f"MultiheadAttention: embed_dim must be a multiple of {num_heads} heads, got {embed_dim}"
            )
        self.batch_first = batch_first
        place = {"dtype": dtype, "backend": backend, "device": device}

        def matrix(rows: int, columns: int) -> agrad.Tensor:
            return init.parameter(init.xavier_uniform((rows, columns), rng), **place)

        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight: agrad.Tensor = matrix(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight: agrad.Tensor = matrix(embed_dim, embed_dim)
            self.k_proj_weight: agrad.Tensor = matrix(embed_dim, self.kdim)
            self.v_proj_weight: agrad.Tensor = matrix(embed_dim, self.vdim)
        self.in_proj_bias = init.parameter(init.zeros((3 * embed_dim,)), **place) if bias else None
        self.out_proj: Linear = Linear(embed_dim, embed_dim, bias=bias, rng=rng, **place)
        if bias:
            self.out_proj.bias = init.parameter(init.zeros((embed_dim,)), **place)
        self.dropout: Dropout | None = Dropout(dropout, rng) if dropout else None

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[agrad.Tensor, Any]:
        """Return the output and the attention weights.

        Parameters
        ----------
        query : array
            Array of shape (l, n, embed_dim), with ``batch_first`` (n, l, embed_dim), or without a batch (l, embed_dim).
        key, value : array
            Arrays of shape (s, n, kdim) and (s, n, vdim), with ``batch_first`` (n, s, ...), or without a batch (s,
            ...).
        key_padding_mask : array of shape (n, s), or (s,) without a batch, optional
            True for keys to mask, or numbers to add to the scores.
        need_weights : bool
            False to return None instead of the weights. Long sequences then need less memory.
        attn_mask : array of shape (l, s) or (n * num_heads, l, s), optional
            True for pairs to mask, or numbers to add to the scores. If all keys of a query are masked, its weights and
            their mean are 0.
        average_attn_weights : bool
            True to return the mean of the weights over the heads, False to return the weights of each head.
        is_causal : bool
            True for a causal mask: queries attend only to keys up to their own position. Ignored if ``attn_mask`` is
            given.

        Returns
        -------
        tuple
            Output of the shape of ``query``, and None or the weights of shape (n, l, s) or (n, num_heads, l, s).
        """
        query, key, value, padding, single = self._batched(query, key, value, key_padding_mask)
        n, length = query.shape[:2]
        q, k, v = self._heads(query, key, value)
        mask = self._mask(attn_mask, padding, (n, length, key.shape[1]))
        causal = is_causal and attn_mask is None
        scale, dropped = 1 / math.sqrt(q.shape[-1]), None
        if self.dropout is not None and self.training:
            dropped = (self.dropout.next_key(q), self.dropout.p)
        found = None
        if need_weights:
            rows = places(length, q) if causal else None
            found = weights(q, k, mask, rows, scale, dropped)
            out = agrad.matmul(found, v)
            found = agrad.mean(found, axis=1) if average_attn_weights else found
        else:
            out = attend(q, k, v, mask, causal, scale, dropped)
        out = self.out_proj(agrad.reshape(agrad.permute_dims(out, (0, 2, 1, 3)), (n, length, self.embed_dim)))
        if single:
            return out[0, ...], None if found is None else found[0, ...]
        return out if self.batch_first else agrad.moveaxis(out, 0, 1), found

    def _batched(self, query: Any, key: Any, value: Any, padding: Any) -> tuple[Any, Any, Any, Any, bool]:
        """Return arrays with the batch in front, and True if it was added."""
        arrays, ends = [query, key, value], (self.embed_dim, self.kdim, self.vdim)
        shapes = [tuple(x.shape) for x in arrays]
        single = len(shapes[0]) == 2
        axis = 0 if self.batch_first else 1
        fits = [
            len(shape) == (2 if single else 3) and shape[-1] == end for shape, end in zip(shapes, ends, strict=True)
        ]
        same = single or shapes[0][axis : axis + 1] == shapes[1][axis : axis + 1]
        if not all(fits) or not same or shapes[1][:-1] != shapes[2][:-1]:
            form = "(n, l, {})" if self.batch_first else "(l, n, {})"
            wanted = ", ".join(form.format(end) for end in ends)
            raise ShapeError(f"MultiheadAttention: arrays must have shapes {wanted}, or without n, got {shapes}")
        if single:
            padding = None if padding is None else agrad.expand_dims(padding, axis=0)
            moved = {id(x): agrad.expand_dims(x, axis=0) for x in arrays}  # the same array remains the same
        else:
            moved = {id(x): x if self.batch_first else agrad.moveaxis(x, 1, 0) for x in arrays}
        query, key, value = (moved[id(x)] for x in arrays)
        return query, key, value, padding, single

    def _heads(self, query: Any, key: Any, value: Any) -> list[Any]:
        """Return the projections, of shape (n, num_heads, ..., embed_dim // num_heads)."""
        size = self.embed_dim
        parts = [slice(i * size, (i + 1) * size) for i in range(3)]
        b = self.in_proj_bias
        if self.kdim != size or self.vdim != size:
            ws = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif key is query and value is query:
            whole = functional.linear(query, self.in_proj_weight, b)
            return [self._split(whole[..., part]) for part in parts]
        else:
            ws = [self.in_proj_weight[part, :] for part in parts]
        bs = [None if b is None else b[part] for part in parts]
        return [self._split(functional.linear(x, w, b)) for x, w, b in zip((query, key, value), ws, bs, strict=True)]

    def _split(self, x: Any) -> Any:
        n, length, size = x.shape
        return agrad.permute_dims(agrad.reshape(x, (n, length, self.num_heads, size // self.num_heads)), (0, 2, 1, 3))

    def _mask(self, mask: Any, padding: Any, sizes: tuple[int, int, int]) -> Any:
        """Return both masks as one: True for pairs that take part, or numbers to add to the scores."""
        n, length, size = sizes
        found = []
        if mask is not None:
            heads = self.num_heads
            shapes = {(length, size): (1, 1, length, size), (n * heads, length, size): (n, heads, length, size)}
            found.append(_named_mask("attn_mask", mask, shapes))
        if padding is not None:
            found.append(_named_mask("key_padding_mask", padding, {(n, size): (n, 1, 1, size)}))
        if len(found) < 2:
            return found[0] if found else None
        first, second = found
        bools = [agrad.isdtype(one.dtype, "bool") for one in found]
        if all(bools):
            return agrad.logical_and(first, second)
        if any(bools):
            taken, added = (first, second) if bools[0] else (second, first)
            return agrad.where(taken, added, -math.inf)
        return agrad.add(first, second)

    def settings(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}"


def _named_mask(name: str, mask: Any, shapes: dict[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Return the inverted mask in another shape."""
    shape = tuple(mask.shape)
    if shape not in shapes:
        raise ShapeError(f"MultiheadAttention: {name} must have shape {' or '.join(map(str, shapes))}, got {shape}")
    if not agrad.isdtype(mask.dtype, ("bool", "real floating")):
        raise DtypeError(
            f"MultiheadAttention: {name} must be Boolean (True masks a position) or real floating-point (added to the "
            f"scores), got {mask.dtype}"
        )
    mask = agrad.reshape(mask, shapes[shape])
    return agrad.logical_not(mask) if agrad.isdtype(mask.dtype, "bool") else mask

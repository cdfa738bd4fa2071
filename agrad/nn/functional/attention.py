"""Scaled dot-product attention."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import random
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import share
from agrad.nn.functional.dropout import dropout
from agrad.nn.functional.real import places, real_only
from agrad.nn.seeding import generator
from agrad.ops.definition import of_first

AT_ONCE = 1 << 24
"""Largest number of weights, over all queries and keys, to compute at once and store."""
BLOCK = 1 << 21
"""Number of weights in one block of queries, if there are more than ``AT_ONCE``."""

Dropped = tuple[Any, float] | None
"""A key of random numbers, and the probability of zeroing a weight."""


def weights(query: Any, key: Any, mask: Any, rows: Any, scale: float, dropped: Dropped) -> Any:
    """Return the weights of keys for queries, of shape (..., l, s).

    ``mask`` is None, a Boolean array (True for pairs that take part), or numbers added to the scores. ``rows`` contains
    the positions of the queries for a causal mask, otherwise it is None.
    """
    scores = agrad.matmul(agrad.multiply(query, scale), agrad.matrix_transpose(key))
    taken = mask
    if mask is not None and not agrad.isdtype(mask.dtype, "bool"):
        scores, taken = agrad.add(scores, mask), agrad.not_equal(mask, -math.inf)
    if rows is not None:
        before = agrad.less_equal(places(key.shape[-2], key), agrad.expand_dims(rows, axis=-1))
        taken = before if taken is None else agrad.logical_and(taken, before)
    if mask is None:  # each query has a key
        found = agrad.softmax(scores if taken is None else agrad.where(taken, scores, -math.inf))
    else:
        empty = agrad.logical_not(agrad.any(taken, axis=-1, keepdims=True))
        scores = agrad.where(taken, scores, agrad.where(empty, 0.0, agrad.full_like(scores[..., :1], -math.inf)))
        found = agrad.where(empty, 0.0, agrad.softmax(scores))
    if dropped is None:
        return found
    words, p = dropped
    return dropout(found, p, key=words)


def attend(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, dropped: Dropped) -> Any:
    """Return the averages of the values.

    More than ``AT_ONCE`` weights are computed in blocks of queries, in one loop. The backward pass recomputes the
    weights of each block.
    """

    def one(now: tuple[Any, Any, Any, Any]) -> Any:
        part, part_mask, rows, words = now
        part_mask = mask if part_mask is None else part_mask
        drop = None if words is None else (words, dropped[1])  # type: ignore[index]
        return agrad.matmul(weights(part, key, part_mask, rows, scale, drop), value)

    length, size = query.shape[-2], key.shape[-2]
    rows = places(length, query) if causal else None
    shapes = [tuple(x.shape[:-2]) for x in (query, key, value, mask) if x is not None]
    batch = math.prod(np.broadcast_shapes(*shapes))
    if batch * length * size <= AT_ONCE:
        return one((query, None, rows, None if dropped is None else dropped[0]))
    step = min(max(1, BLOCK // (batch * size)), length)
    count = length // step
    end = count * step
    by_query = mask if mask is not None and len(mask.shape) > 1 and mask.shape[-2] == length else None
    words = None if dropped is None else random.split(dropped[0], count + 1)

    def cut(x: Any, first: int, last: int, axis: int) -> Any:
        index = (..., slice(first, last)) if axis == -1 else (..., slice(first, last), slice(None))
        return None if x is None else x[index]

    def stacked(x: Any, axis: int) -> Any:
        x, shape = cut(x, 0, end, axis), None if x is None else tuple(x.shape)
        if shape is None:
            return None
        place = len(shape) + axis
        return agrad.moveaxis(agrad.reshape(x, (*shape[:place], count, step, *shape[place + 1 :])), place, 0)

    blocks = (stacked(query, -2), stacked(by_query, -2), stacked(rows, -1), cut(words, 0, count, -2))
    _, found = agrad.scan(lambda carry, now: (carry, one(now)), (), blocks, checkpoint=1)
    found = agrad.moveaxis(found, 0, -3)
    found = agrad.reshape(found, (*found.shape[:-3], end, found.shape[-1]))
    if end == length:
        return found
    rest = (cut(query, end, length, -2), cut(by_query, end, length, -2), cut(rows, end, length, -1))
    last = agrad.checkpoint(one)((*rest, None if words is None else words[count, :]))
    return agrad.concat([found, last], axis=-2)


def _checked(query: Any, key: Any, value: Any, mask: Any) -> None:
    """Raise ``ShapeError`` or ``DtypeError`` for arrays that do not fit."""
    shapes = q, k, v = [tuple(x.shape) for x in (query, key, value)]
    name = "scaled_dot_product_attention"
    if min(map(len, shapes)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(
            f"{name}: arrays must have shapes (..., l, e), (..., s, e) and (..., s, d), got {q}, {k} and {v}"
        )
    try:
        batch = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        if mask is not None and np.broadcast_shapes((*batch, q[-2], k[-2]), mask.shape)[-2:] != (q[-2], k[-2]):
            raise ValueError
    except ValueError:
        masks = "" if mask is None else f", and a mask of shape {tuple(mask.shape)}"
        raise ShapeError(f"{name}: arrays must have shapes that broadcast, got {q}, {k} and {v}{masks}") from None
    if not agrad.isdtype(query.dtype, "real floating"):
        raise DtypeError(f"{name}: query, key and value must have a real floating-point dtype, got {query.dtype}")
    if mask is not None and not agrad.isdtype(mask.dtype, ("bool", "real floating")):
        raise DtypeError(f"{name}: attn_mask must be Boolean or real floating-point, got {mask.dtype}")


@of_first
@real_only
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> agrad.Tensor:
    """Return ``softmax(query @ key.T * scale + mask) @ value``.

    If there are more than 2**24 weights, blocks of queries are computed one after another and recomputed in the
    backward pass. The matrix of all pairs is then never stored.

    Parameters
    ----------
    query : array
        Array of shape (..., l, e) and a real floating-point dtype. The leading axes broadcast.
    key : array of shape (..., s, e)
    value : array of shape (..., s, d)
    attn_mask : array, optional
        Array that broadcasts to (..., l, s): Boolean, False to mask a key, or numbers to add to the scores. The result
        is 0 if all keys of a query are masked.
    dropout_p : float
        Probability of zeroing a weight, from 0 to 1. Dropout is always applied. The other weights are divided by 1 -
        dropout_p. Random numbers come from the generator that ``nn.manual_seed`` seeds.
    is_causal : bool
        True for a causal mask: queries attend only to keys up to their own position.
    scale : float, optional
        Factor of the scores. By default, 1 / sqrt(e).
    enable_gqa : bool
        True for grouped-query attention: keys and values may have fewer heads (the axis before the last two) than
        queries. Each of their heads serves a group of consecutive query heads.

    Returns
    -------
    array of shape (..., l, d)

    Notes
    -----
    A. Vaswani et al. (2017), arXiv:1706.03762. Memory linear in the length: M. Rabe and C. Staats (2021),
    arXiv:2112.05682. Here a block contains all keys, so its softmax is an ordinary softmax.

    Examples
    --------
    >>> query, key = np.array([[1000.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> agrad.nn.functional.scaled_dot_product_attention(query, key, np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.]])
    """
    if is_causal and attn_mask is not None:
        raise ConfigurationError("scaled_dot_product_attention: attn_mask must be None if is_causal=True, got a mask")
    share("scaled_dot_product_attention", "dropout_p", dropout_p)
    if enable_gqa:
        key, value = (_repeated(query, x, what) for what, x in (("key", key), ("value", value)))
    _checked(query, key, value, attn_mask)
    dropped = None
    if dropout_p:
        like = agrad.asarray(query)
        dropped = (generator().key(backend=like.backend, device=like.device), float(dropout_p))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attend(query, key, value, attn_mask, is_causal, scale, dropped)


def _repeated(query: Any, x: Any, what: str) -> Any:
    """Return keys or values with one head for each query head."""
    heads, fewer = (tuple(a.shape)[-3] if len(a.shape) > 2 else 0 for a in (query, x))
    if not fewer or heads % fewer:
        raise ShapeError(
            "scaled_dot_product_attention: with enable_gqa, the number of heads of query must be a multiple of the "
            f"{fewer} heads of {what}, got {heads}"
        )
    return agrad.repeat(x, heads // fewer, axis=-3)

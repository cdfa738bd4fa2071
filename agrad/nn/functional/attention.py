"""Attention: values averaged by how well their keys fit queries."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import random
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.expect import share
from agrad.nn.functional.real import real_only
from agrad.nn.seeding import generator

AT_ONCE = 1 << 24
"""The number of weights, of all queries and keys, up to which they are computed at once and kept."""
BLOCK = 1 << 21
"""The number of weights of one block of queries, where there are more than ``AT_ONCE``."""

Dropped = tuple[Any, float] | None
"""A key of random numbers, and the probability to zero a weight."""


def places(count: int, like: Any) -> Any:
    """Return the integers from 0 to ``count`` - 1, as an array beside another."""
    x = agrad.asarray(like)
    made = agrad.arange(count, backend=x.backend, device=x.device)
    return made if isinstance(like, agrad.Tensor) else made.raw


def weights(query: Any, key: Any, mask: Any, rows: Any, scale: float, dropped: Dropped) -> Any:
    """Return the weights of keys for queries, of shape (..., l, s).

    ``mask`` is None, true for pairs that take part, or added to the scores. ``rows`` is None, or for a causal mask the
    places of the queries.
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
    kept = agrad.astype(random.bernoulli(words, 1 - p, tuple(found.shape)), found.dtype)
    return agrad.multiply(found, kept * (1 / (1 - p) if p < 1 else 0.0))


def attend(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, dropped: Dropped) -> Any:
    """Return the averages of the values.

    More than ``AT_ONCE`` weights are computed by blocks of queries, the steps of one loop. The backward pass computes
    the weights of each block again.
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
            f"{name} takes queries (..., l, e), keys (..., s, e) and values (..., s, d), not {q}, {k}, {v}"
        )
    try:
        batch = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        if mask is not None and np.broadcast_shapes((*batch, q[-2], k[-2]), mask.shape)[-2:] != (q[-2], k[-2]):
            raise ValueError
    except ValueError:
        masks = "" if mask is None else f", and a mask of shape {tuple(mask.shape)}"
        raise ShapeError(f"{name}: the shapes {q}, {k} and {v}{masks} do not broadcast") from None
    if not agrad.isdtype(query.dtype, "real floating"):
        raise DtypeError(f"{name} takes arrays of a real floating dtype, not {query.dtype}")
    if mask is not None and not agrad.isdtype(mask.dtype, ("bool", "real floating")):
        raise DtypeError(f"{name}: attn_mask holds truth values, or numbers added to the scores, not {mask.dtype}")


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
) -> Any:
    """Return ``softmax(query @ key.T * scale + mask) @ value``.

    Many queries and keys need no matrix of all pairs: above 2**24 weights, blocks of queries are computed one after the
    other, and again in the backward pass.

    Parameters
    ----------
    query : array
        Array of shape (..., l, e) and a real floating dtype. The axes in front broadcast.
    key : array
        Array of shape (..., s, e).
    value : array
        Array of shape (..., s, d).
    attn_mask : array, optional
        Array that broadcasts to (..., l, s): truth values, False where a key has no part, or numbers to add to the
        scores. A query without a key gives zeros.
    dropout_p : float
        The probability to zero a weight, from 0 to 1, always applied. The others are divided by 1 - dropout_p. The
        draws are those of the generator that ``nn.manual_seed`` starts.
    is_causal : bool
        True for queries that take only keys of their own place and of those before it.
    scale : float, optional
        The factor on the scores, by default 1 / sqrt(e).
    enable_gqa : bool
        True for fewer heads, on the axis before the last two, of keys and values than of queries: each serves as many
        queries' heads, one after the other.

    Returns
    -------
    array
        Array of shape (..., l, d).

    Raises
    ------
    ShapeError, DtypeError
        For shapes that do not fit, and dtypes that are not real.
    ConfigurationError
        For a causal mask beside ``attn_mask``, and a ``dropout_p`` that is no probability.

    Notes
    -----
    A. Vaswani et al. (2017), arXiv:1706.03762. Memory linear in the length: M. Rabe and C. Staats (2021),
    arXiv:2112.05682. Here a block has all keys, so that its softmax is the plain one.

    Examples
    --------
    >>> query, key = np.array([[1000.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> value = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.nn.functional.scaled_dot_product_attention(query, key, value)
    array([[1., 2.]])
    """
    if is_causal and attn_mask is not None:
        raise ConfigurationError("scaled_dot_product_attention takes attn_mask or is_causal=True, not both")
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
    """Return keys or values with one head for each of the queries."""
    heads, fewer = (tuple(a.shape)[-3] if len(a.shape) > 2 else 0 for a in (query, x))
    if not fewer or heads % fewer:
        raise ShapeError(
            f"scaled_dot_product_attention: enable_gqa takes queries of a multiple of the {fewer} heads of {what}, "
            f"not {heads}"
        )
    return agrad.repeat(x, heads // fewer, axis=-3)

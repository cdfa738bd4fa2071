"""NumPy's own activations, affine map and cross entropy: fewer passes over memory than the generic bodies.

Writing a new array of megabytes costs more than computing what is in it, and ``numpy.where`` ten times that
where its condition cannot be predicted. So these write into what they made themselves, take long arrays in
blocks that stay in the processor's cache, and choose by integer arithmetic on the elements' bits.
"""

import ctypes
import functools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.threads import run_blocks
from agrad.registry import kernel

Raw = Any

_BITS = {np.dtype(f"f{n}"): np.dtype(f"i{n}") for n in (2, 4, 8)}
"""For each floating dtype, the integer one of its width. Those of the other byte order are not among them."""

_BLOCK = 1 << 15
"""Elements to a block: three of float64 fit a level 2 cache of 1 MiB."""

_BRANCHY = 1 << 12
"""From this many elements on, a branch for each costs more than two more passes."""

_SHORT = 64
"""Rows shorter than this are transposed to be reduced: NumPy's inner loop then runs over the long axis."""


def _floats(x: Raw) -> bool:
    """Whether this is an array of one axis or more, of a native floating dtype; NumPy's scalars have none."""
    return x.dtype in _BITS and x.ndim > 0


def _alike(x: Raw, y: Raw) -> bool:
    """Whether both are such arrays, of one shape and dtype."""
    return x.dtype in _BITS and x.ndim > 0 and y.dtype == x.dtype and y.shape == x.shape


def _in_blocks(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """``function`` of arrays of one shape, block by block on threads where they are long; it gives a new array."""
    first = arrays[0]
    if first.size <= _BLOCK:
        return function(*arrays)
    out = np.empty(first.shape, first.dtype)
    to, step = out, _BLOCK
    if all(a.flags.c_contiguous for a in arrays):
        to, *arrays = (a.reshape(-1) for a in (out, *arrays))
    elif out.ndim and all(a.strides[0] >= max(a.strides) for a in arrays):
        step = _BLOCK * out.shape[0] // out.size  # blocks of whole rows, some array's elements repeated along an axis
    else:
        return function(*arrays)
    if not step:
        return function(*arrays)
    count = to.shape[0]

    def work(take: Callable[[], int]) -> None:
        while (start := take() * step) < count:
            part = slice(start, start + step)
            to[part] = function(*[a[part] for a in arrays])

    run_blocks(work, -(-count // step))
    return out


# ------------------------------------------------------------------ memory


_KEPT = 1 << 28
"""Bytes of freed memory at the end of the heap that stay with the process."""

_TRIM_THRESHOLD = -1
"""The C library's number for that parameter, ``M_TRIM_THRESHOLD`` of ``malloc.h``."""


def keep_memory() -> None:
    """Have the C library keep the memory that temporaries of up to 32 MB free, for the next ones.

    glibc gives the top of its heap back to the system as soon as twice the size of the largest array freed
    so far lies free there, and then every page of the next temporaries is fetched and cleared anew: a chain
    of a few arrays of half a megabyte takes eight times as long. Freeing one array of 32 MB, of which no
    page is ever touched, lets glibc take arrays of up to that size from its heap for good, as in any process
    that has freed one; and then it is told to keep 256 MB at the heap's end where it would keep 64, which a
    tape of some ten arrays of 6 MB exceeds. It changes nothing where ``MALLOC_`` variables or another C
    library say otherwise.
    """
    np.empty((1 << 25) - (1 << 16), np.uint8)
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        set_parameter = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    set_parameter(_TRIM_THRESHOLD, _KEPT)


# ------------------------------------------------------------------ choosing


def _is_choice(condition: Raw, *arrays: Raw) -> bool:
    """Whether a condition chooses from long arrays, all of its shape and of one native floating dtype."""
    if type(condition) is not np.ndarray or condition.size < _BRANCHY or condition.dtype.char != "?":
        return False
    kind = arrays[0].dtype
    return kind in _BITS and all(
        type(a) is np.ndarray and a.dtype == kind and a.shape == condition.shape for a in arrays
    )


def chosen(g: np.ndarray, wins: np.ndarray) -> np.ndarray:
    """The bits of ``g`` times 1 or 0: exact, and an infinite cotangent times 0 is 0."""
    return np.multiply(wins.view(np.int8), g.view(_BITS[g.dtype])).view(g.dtype)


def _mixed(x1: np.ndarray, x2: np.ndarray, condition: np.ndarray) -> np.ndarray:
    bits = _BITS[x1.dtype]
    a, b = x1.view(bits), x2.view(bits)
    out = np.bitwise_xor(a, b)
    np.multiply(out, condition.view(np.int8), out=out)
    np.bitwise_xor(out, b, out=out)
    return out.view(x1.dtype)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """``numpy.where``; for long arrays alike, without a branch an element."""
    if type(x1) is type(x2) is np.ndarray and _is_choice(condition, x1, x2):
        return _in_blocks(_mixed, x1, x2, condition)
    return np.where(condition, x1, x2)


@kernel("numpy", "where", "vjp:x1", when=lambda g, condition: _is_choice(condition, g))
def where_first(g: Raw, condition: Raw) -> Raw:
    return _in_blocks(chosen, g, condition)


@kernel("numpy", "where", "vjp:x2", when=lambda g, condition: _is_choice(condition, g))
def where_second(g: Raw, condition: Raw) -> Raw:
    return _in_blocks(lambda g, condition: chosen(g, np.logical_not(condition)), g, condition)


_LENT = 1 << 17
"""Elements of the zeros and of the ones that are kept, once a dtype, to compare and to sum with."""


@functools.lru_cache(maxsize=128)
def zeros_beside(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros for ``numpy.maximum`` of an array of this shape: with a single one it takes five times as long.

    For more than are kept, those for a row, or one.
    """
    size = math.prod(shape)
    if size > _LENT:
        size, shape = (shape[-1], shape[-1:]) if _SHORT < shape[-1] <= _LENT else (1, ())
    return _lent(0, dtype)[:size].reshape(shape)


@functools.lru_cache(maxsize=16)
def _lent(value: int, dtype: np.dtype) -> np.ndarray:
    made = np.full(_LENT, value, dtype)
    made.flags.writeable = False
    return made


@kernel("numpy", "relu", "forward", when=lambda x, **_: _floats(x))
def relu(x: Raw) -> Raw:
    return np.maximum(x, zeros_beside(x.shape, x.dtype))


@kernel("numpy", "relu", "vjp:x", when=lambda g, y, **_: _alike(g, y))
def relu_vjp(g: Raw, y: Raw) -> Raw:
    return chosen(g, y > 0)


# ------------------------------------------------------------------ the logistic function


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # the generic body's numerator, 1 where x >= 0 and exp(-|x|) elsewhere, is exp(min(x, 0))
    out = np.minimum(x, 0)
    np.exp(out, out=out)
    below = np.abs(x)
    np.negative(below, out=below)
    np.exp(below, out=below)
    np.add(below, 1, out=below)
    return np.divide(out, below, out=out)


@kernel("numpy", "sigmoid", "forward", when=lambda x, **_: _floats(x))
def sigmoid(x: Raw) -> Raw:
    return _in_blocks(_sigmoid, x)


# ------------------------------------------------------------------ the affine map


def _is_affine(x: Raw, weight: Raw, bias: Raw, **_: Any) -> bool:
    return (
        x.ndim >= 2
        and weight.ndim == 2
        and bias.shape == weight.shape[1:]
        and x.dtype == weight.dtype == bias.dtype
        and x.dtype.kind in "fc"
    )


@kernel("numpy", "linear", "forward", when=_is_affine)
def linear(x: Raw, weight: Raw, bias: Raw) -> Raw:
    out = np.matmul(x, weight)
    return np.add(out, bias, out=out)


@kernel("numpy", "linear", "vjp:bias", when=lambda g, bias_meta, **_: g.ndim == 2 and bias_meta.shape == g.shape[1:])
def linear_bias(g: Raw, bias_meta: Any) -> Raw:
    return np.matmul(all_ones(g.shape[0], g.dtype), g)


def all_ones(n: int, dtype: np.dtype) -> np.ndarray:
    """Ones, not to be written to: a product with them is a sum over rows. More than are kept are made anew."""
    return _few_ones(n, dtype) if n <= _LENT else np.ones(n, dtype)


@functools.lru_cache(maxsize=128)
def _few_ones(n: int, dtype: np.dtype) -> np.ndarray:
    return _lent(1, dtype)[:n]


# ------------------------------------------------------------------ cross entropy


@functools.lru_cache(maxsize=32)
def unsigned(dtype: np.dtype) -> Any:
    """The unsigned dtype of an integer one's width and byte order; None for others."""
    return np.dtype(f"{dtype.byteorder}u{dtype.itemsize}") if dtype.kind in "iu" else None


def _is_labelled(x: Raw, labels: Raw, **_: Any) -> bool:
    if x.dtype not in _BITS or x.ndim != 2 or not x.size or labels.shape != x.shape[:1]:
        return False
    kind = unsigned(labels.dtype)
    # a negative label seen as unsigned is a large one
    return kind is not None and bool(np.maximum.reduce(labels.view(kind)) < x.shape[1])


@kernel("numpy", "softmax_cross_entropy", "forward", when=_is_labelled)
def softmax_cross_entropy(x: Raw, labels: Raw) -> tuple[Raw, Raw]:
    n, classes = x.shape
    if classes < _SHORT:
        e = np.array(x.T, order="C")
        top = np.maximum.reduce(e, axis=0)
        np.subtract(e, top, out=e)
        total = np.add.reduce(np.exp(e, out=e), axis=0)
    else:
        top = np.maximum.reduce(x, axis=1)
        e = np.subtract(x, top[:, None])
        total = np.add.reduce(np.exp(e, out=e), axis=1)
    rest = np.log(total, out=total)
    loss = np.subtract(top, x[np.arange(n), labels])
    np.add(loss, rest, out=loss)
    return loss, np.add(rest, top, out=rest)


@kernel(
    "numpy",
    "softmax_cross_entropy",
    "vjp:x",
    when=lambda g_loss, g_lse, x, labels, lse, **_: (
        g_lse is None
        and g_loss is not None
        and g_loss.dtype == x.dtype
        and g_loss.shape == x.shape[:1]
        and _is_labelled(x, labels)
    ),
)
def softmax_cross_entropy_vjp(g_loss: Raw, g_lse: None, x: Raw, labels: Raw, lse: Raw) -> Raw:
    out = np.subtract(x, lse[:, None])
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=1, keepdims=True), out=out)
    out[np.arange(out.shape[0]), labels] -= 1
    return np.multiply(out, g_loss[:, None], out=out)

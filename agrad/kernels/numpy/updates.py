"""Optimizer updates on NumPy, in blocks and in place.

The generic bodies make a dozen passes over the memory of every parameter, and as many temporaries of its size. Here
each block is finished while it is in the processor's cache, and the only temporaries are two blocks for each thread.
Adding a multiple of one array to another needs one pass with BLAS, and two or three with NumPy functions.
"""

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_int64
from typing import Any

import numpy as np

from agrad.kernels.numpy.blas import ROUTINES, added_multiple, address, laid, product_adder, weighted_sum
from agrad.kernels.numpy.fused import all_ones
from agrad.registry import kernel

Raw = Any

# bytes of a block, measured: Adam with 128 KiB needs 1.0 to 1.1 times as long, with 64 KiB 1.2
_BLOCK = 256 * 1024

# bytes up to which a plain momentum step is as fast on whole arrays, measured
_WHOLE = 1024 * 1024

# bytes up to which new temporaries cost less time than views of blocks, measured: 5 us of 20 for 6400 float32
_WHOLE_BLOCK = 64 * 1024

# elements up to which NumPy call overhead dominates: such arrays are not split
SMALL = 2048

# elements from which a momentum step calls BLAS, measured
_BY_BLAS = 1 << 16

_LIMITS = {np.dtype(kind): np.finfo(kind) for kind in (np.float32, np.float64)}
_TINY = {dtype: info.tiny for dtype, info in _LIMITS.items()}
_LIFT = {dtype: info.tiny * 2.0**21 / info.eps for dtype, info in _LIMITS.items()}
"""A number that flushes small numbers to 0 when it is added and subtracted again. In float32 it flushes numbers of
2e-32 and less, and none above 4e-25.

A moment of a weight without gradient decays into the denormal numbers and remains there, because each step's decay is
rounded away. On a processor that computes them a hundred times slower, an epoch of MNIST took twice as long.
"""

_STRIDES = (17, 37, 67, 131, 257, 521, 1031, 2053, 4099, 8209, 16411, 32771, 65537)
"""Distances of the elements that are checked. They are primes, so the elements lie in all columns of a matrix."""


class _Scratch(threading.local):
    """Two blocks for temporaries by dtype, for each thread."""

    def __init__(self) -> None:
        self.blocks: dict[np.dtype, np.ndarray] = {}


_scratch = _Scratch()


def _fits(first: Raw, *others: Raw) -> bool:
    """Return True if all have one shape and floating dtype, and the first is an array."""
    if type(first) is not np.ndarray or first.dtype.kind not in "fc":
        return False
    dtype, shape = first.dtype, first.shape
    for a in others:  # noqa: SIM110 - a generator would cost more than the comparisons
        if a.dtype != dtype or a.shape != shape:
            return False
    return True


def _usable(*arrays: Raw) -> bool:
    """Return True if results may be written into these arrays."""
    for a in arrays:  # noqa: SIM110 - a generator would cost more than the checks
        if type(a) is not np.ndarray or not a.flags.carray:
            return False
    return True


def _prepare(donate: bool, g: Raw, *arrays: Raw) -> tuple[tuple[Raw, ...], Iterable[tuple[np.ndarray, ...]]]:
    """Return the arrays for the results, and the blocks to compute them in.

    A block contains the results, the gradient and two blocks of scratch, of real numbers. The arrays of the results
    are the given ones if these may be overwritten, otherwise copies.
    """
    if not (donate and _usable(*arrays)):
        arrays = tuple([np.array(a, order="C", subok=False) for a in arrays])
    first = arrays[0]
    whole = first.size <= SMALL or (first.nbytes <= _WHOLE_BLOCK and g.flags.c_contiguous)
    if whole and first.dtype.kind == "f":
        return arrays, ((*arrays, g, np.empty_like(first), np.empty_like(first)),)
    # a gradient may be reversed, or repeat its elements, as the gradient of a sum does
    flat = [np.ascontiguousarray(a).reshape(-1).view(first.real.dtype) for a in (*arrays, g)]
    return arrays, _blocks(flat)


def _blocks(flat: list[np.ndarray]) -> Iterator[tuple[np.ndarray, ...]]:
    total, dtype = flat[0].size, flat[0].dtype
    n = _BLOCK // dtype.itemsize
    if dtype not in _scratch.blocks:
        _scratch.blocks[dtype] = np.empty((2, n), dtype)
    s, t = _scratch.blocks[dtype]
    for start in range(0, total, n):
        left = total - start
        yield (*[a[start : start + n] for a in flat], s[:left], t[:left])


def flush_denormals(v: np.ndarray) -> None:
    """Flush denormals in v to zero.

    At least 120 elements are checked. If one is denormal, all numbers too small to matter become 0. ``v`` is
    C-contiguous. A velocity decays into denormal numbers if its gradient remains 0: a step at batch 1 of the MLP
    784-256-128-10 was 4 times slower after 800 steps. The remaining numbers are larger by 2**20, so this is rare.
    """
    tiny = _TINY.get(v.dtype)
    if tiny is None:
        return
    flat = v.reshape(-1)
    seen = np.abs(flat[:: _STRIDES[min((v.size >> 12).bit_length(), len(_STRIDES) - 1)]])
    if np.count_nonzero(seen < tiny) > np.count_nonzero(seen == 0):
        lift = _LIFT[v.dtype]
        np.add(flat, lift, out=flat)
        np.subtract(flat, lift, out=flat)


def momentum_step(p: Raw, g: Raw, v: Raw, spare: Raw, lr: float, momentum: float) -> None:
    """Compute ``v = momentum * v + g; p -= lr * v`` in place, for alike arrays.

    ``spare`` is overwritten and may be g. If it is None, a new array is created when it is needed.
    """
    laid_out = p.dtype in ROUTINES and p.flags.carray and g.flags.c_contiguous and v.flags.carray
    if p.size > _BY_BLAS and laid_out:
        weighted_sum(1.0, g, momentum, v)
        flush_denormals(v)
        added_multiple(-lr, v, p)
        return
    np.multiply(v, momentum, out=v)
    np.add(v, g, out=v)
    if p.size > SMALL and laid_out:
        flush_denormals(v)
    np.subtract(p, np.multiply(v, lr, out=spare), out=p)


@kernel("numpy", "sgd_update", "forward", gain=1.6, when=_fits)
def sgd_update(
    p: Raw,
    g: Raw,
    v: Raw,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
    maximize: bool,
    donate: bool,
) -> tuple[Raw, Raw]:
    """Compute the generic body\'s operations. ``donate`` writes into ``p`` and ``v``."""
    plain = not (dampening or nesterov or weight_decay or maximize)
    if plain and donate and p.nbytes <= _WHOLE and p.flags.writeable and v.flags.writeable:
        if momentum:
            momentum_step(p, g, v, None, lr, momentum)
        else:
            np.subtract(p, np.multiply(g, lr), out=p)
        return p, v
    add, subtract, multiply = np.add, np.subtract, np.multiply
    results, blocks = _prepare(donate, g, p, v) if momentum else _prepare(donate, g, p)
    for block in blocks:
        pb, *state, d, s, t = block
        if plain and momentum:
            momentum_step(pb, d, state[0], s, lr, momentum)
            continue
        if weight_decay:
            multiply(pb, weight_decay, out=s)
            (subtract if maximize else add)(s, d, out=s)
            d = s
        elif maximize:
            d = np.negative(d, out=s)
        if momentum:
            (vb,) = state
            multiply(vb, momentum, out=vb)
            add(vb, multiply(d, 1 - dampening, out=t) if dampening else d, out=vb)
            if vb.size > SMALL:
                flush_denormals(vb)
            d = add(d, multiply(vb, momentum, out=t), out=t) if nesterov else vb
        subtract(pb, multiply(d, lr, out=s), out=pb)
    return results[0], results[1] if momentum else v


# ------------------------------------------------------------------ momentum in compiled programs

FEWEST = 1 << 13
"""The fewest elements of a gradient that is computed by the update: for fewer, calls take longer than passes."""


def is_plain(
    *, lr: Any, momentum: Any, dampening: Any, nesterov: Any, weight_decay: Any, maximize: Any, donate: Any
) -> bool:
    """Return True for ``v = momentum * v + g; p -= lr * v`` that may be in place.

    Options are numbers, or variables, which may have any value at the next call.
    """
    others = (dampening, nesterov, weight_decay, maximize)
    known = type(momentum) is float and {type(x) for x in others} <= {bool, int, float}
    return known and momentum != 0 and not any(others) and type(donate) is not bool


def _are_of_blas(*arrays: Any) -> bool:
    return len({np.dtype(x.dtype) for x in arrays}) == 1 and np.dtype(arrays[0].dtype) in ROUTINES


def _has_product(p: Any, a: Any, b: Any, v: Any, **settings: Any) -> bool:
    of_matrices = len(a.shape) == len(b.shape) == 2 and p.size >= FEWEST and p.shape == v.shape
    return of_matrices and _are_of_blas(p, a, b, v) and is_plain(**settings)


def _has_sum(p: Any, g: Any, meta: Any, v: Any, **settings: Any) -> bool:
    of_rows = len(g.shape) == 2 and p.size > 0 and p.shape == v.shape == g.shape[1:]
    return of_rows and _are_of_blas(p, g, v) and is_plain(**settings)


@kernel("numpy", "sgd_update", "forward(g=product)", gain=1.7, when=_has_product)
def step_of_product(
    sizes: tuple[int, int, int], dtype: np.dtype, momentum: float, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the function of ``v = momentum * v + a @ b; p -= lr * v``.

    It computes in place if the arrays may be overwritten and BLAS supports their layouts. ``otherwise`` computes the
    same into new arrays, and looks up the routine at each call.
    """
    product, size = product_adder(dtype, sizes), c_int64(sizes[0] * sizes[2])
    axpy, axpby = ROUTINES[dtype].axpy, ROUTINES[dtype].axpby
    # one thread computes the product of one row; axpy would wake the others, and move half of p to their caches
    alone = sizes[1] == 1

    def step(p: Any, a: Any, b: Any, v: Any, donate: bool, lr: float) -> Any:
        of_a, of_b = laid(a), laid(b)
        if not (donate and p.flags.carray and v.flags.carray and sizes[1] and of_a and of_b):
            return otherwise(p, a, b, v, donate=donate, lr=lr)
        to = address(v)
        product(of_a, of_b, momentum, to)
        flush_denormals(v)
        if alone:
            axpby(size, -lr, to, 1, 1.0, address(p), 1)
        else:
            axpy(size, -lr, to, 1, address(p), 1)
        return p, v

    return step


@kernel("numpy", "sgd_update", "forward(g=row_sum)", gain=1.3, when=_has_sum)
def step_of_gradient(sums: bool, rest: Sequence[Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of ``v = momentum * v + g; p -= lr * v``.

    It computes in place if the arrays may be overwritten; ``otherwise`` computes into new arrays. sums: g is the sum
    over the rows of the operand. rest: the other operands of the gradient. The function's ``spare`` has the shape and
    dtype of p, and is overwritten; ``rate`` is ``lr`` in the form that operations on p accept.
    """

    def step(p: Any, g: Any, v: Any, spare: Any, donate: bool, lr: float, rate: Any, momentum: Any) -> Any:
        if not (donate and p.flags.carray and v.flags.carray):
            return otherwise(p, g, *rest, v, donate=donate, lr=lr)
        if sums:
            g = g[0] if g.shape[0] == 1 else np.matmul(all_ones(g.shape[0], g.dtype), g, out=spare)
        momentum_step(p, g, v, spare, rate, momentum)
        return p, v

    return step


# ------------------------------------------------------------------ Adam


@kernel("numpy", "adam_update", "forward", gain=2.6, when=_fits)
def adam_update(
    p: Raw,
    g: Raw,
    m: Raw,
    v: Raw,
    *,
    rate: float,
    floor: float,
    beta1: float,
    beta2: float,
    decay: float,
    shrink: float | None,
    step: int,
    donate: bool,
) -> tuple[Raw, Raw, Raw]:
    """Compute the generic body up to rounding.

    ``donate`` writes into ``p``, ``m`` and ``v``.
    """
    results, blocks = _prepare(donate, g, p, m, v)
    real = m.real.dtype
    lift = _LIFT.get(real) if beta1 and step % _lift_period(beta1) == 0 else None
    together = m.size > SMALL and real in ROUTINES
    keep1, keep2 = 1 - beta1, 1 - beta2
    add, subtract, multiply, divide, sqrt = np.add, np.subtract, np.multiply, np.divide, np.sqrt
    for pb, mb, vb, d, s, t in blocks:
        if decay:
            d = add(d, multiply(pb, decay, out=t), out=t)
        if shrink is not None:
            multiply(pb, shrink, out=pb)
        multiply(d, d, out=s)
        if together:
            weighted_sum(keep1, d, beta1, mb)
            weighted_sum(keep2, s, beta2, vb)
        else:
            multiply(mb, beta1, out=mb)
            add(mb, multiply(d, keep1, out=t), out=mb)
            multiply(s, keep2, out=s)
            multiply(vb, beta2, out=vb)
            add(vb, s, out=vb)
        if lift is not None:
            add(mb, lift, out=mb)
            subtract(mb, lift, out=mb)
        sqrt(vb, out=s)
        add(s, floor, out=s)
        divide(mb, s, out=s)
        if together:
            # by axpby, on one thread: axpy wakes the others for each block, measured 1.0 to 2 times the whole step
            weighted_sum(-rate, s, 1.0, pb)
        else:
            multiply(s, rate, out=s)
            subtract(pb, s, out=pb)
    return results


@functools.lru_cache(maxsize=64)
def _lift_period(beta: float) -> int:
    """Return the number of steps after which lifted numbers may be denormal.

    By then they have decayed by e**12. At first they are 2**20 above denormal numbers.
    """
    return max(1, int(12 / -math.log(beta)))

"""Fused kernels for CuPy, registered by the names of primitives.

CuPy is imported and CUDA compiled on first use.
"""

from functools import partial
from typing import Any

import numpy as np

from agrad.kernels.cupy.elementwise import C_TYPES, compiled, on_each, on_used, updated
from agrad.kernels.cupy.products import current_lt, tensor_float_by_default
from agrad.kernels.cupy.source import THREADS, row_source
from agrad.registry import kernel
from agrad.shapes import broadcasts_to

Raw = Any

_SIZES = ("char", "short", "int", "long", "long long")


def _fits(first: Raw, *others: Raw) -> bool:
    """Return whether the arrays are alike, not empty, and of float32 or float64."""
    alike = all(a.dtype == first.dtype and a.shape == first.shape for a in others)
    return alike and first.dtype.char in C_TYPES and first.size > 0


_LABELS = dict(
    zip("bhilqBHILQ", [f"{sign}{size}" for sign in ("signed ", "unsigned ") for size in _SIZES], strict=True)
)
"""The C types of labels, by the characters of their dtypes."""


SECTOR = 8
"""The rows of a block, if they lie side by side: 32 bytes of float32, which memory transfers at once."""


BLOCKS = 1024
"""The most blocks of a kernel that adds over rows: sums are added in the same order on every GPU."""

AT_ONCE = 1 << 15
"""The most elements of a batch whose losses a single block computes and adds."""


def _shape(rows: int, n: int, inner: int = 1) -> tuple[int, tuple[int, int]]:
    """Return the number of blocks and the shape of a block for rows of ``n`` elements, whose stride is ``inner``.

    Short rows, and rows that are adjacent in memory, share a block. Other long rows have a block each.
    """
    width, most = 1, THREADS // min(inner, SECTOR)
    while width < n and 2 * width <= most:
        width *= 2
    beside = THREADS // width
    return -(-rows // beside), (width, beside) if inner == 1 else (beside, width)


def _run(
    name: str, x: Raw, blocks: int, block: tuple[int, int], pointers: tuple[Any, ...], *numbers: Any, labels: str = "l"
) -> None:
    """Launch a kernel of ``row_source``. Its parameters are pointers (None: null), then integers and doubles."""
    given = [0 if a is None else a for a in pointers]
    given += [np.float64(n) if isinstance(n, float) else np.int64(n) for n in numbers]
    with x.device:
        compiled(row_source(C_TYPES[x.dtype.char], _LABELS[labels]), name)((blocks,), block, tuple(given))


for _name, _gain in (("relu", 2.0), ("sigmoid", 8.0)):
    kernel("cupy", _name, "forward", _fits, names=("x",), gain=_gain)(partial(on_each, _name))
for _name, _gain in (("relu", 2.0), ("tanh", 3.0), ("sigmoid", 3.0)):
    kernel("cupy", _name, "vjp:x", _fits, names=("g", "y"), gain=_gain)(partial(on_each, f"{_name}_vjp"))


def _fits_masked(used: Raw | None, g: Raw, *others: Raw) -> bool:
    """Return True for real arrays of one dtype that broadcast to the shape of a cotangent."""
    alike = _fits(g) and (used is None or (used.shape == g.shape and used.dtype.char == "?"))
    return alike and all(
        hasattr(x, "dtype") and x.dtype == g.dtype and broadcasts_to(tuple(x.shape), tuple(g.shape)) for x in others
    )


for _name, _argument, _others, _rule, _gain in (
    ("multiply", "x1", ("x2",), "product", 3.0),
    ("multiply", "x2", ("x1",), "product", 3.0),
    ("divide", "x1", ("x2",), "quotient", 3.0),
    ("divide", "x2", ("y", "x2"), "divisor_vjp", 5.0),
    ("exp", "x", ("y",), "product", 3.0),
    ("sqrt", "x", ("y",), "sqrt_vjp", 4.0),
    ("square", "x", ("x",), "square_vjp", 4.0),
    ("tanh", "x", ("y",), "tanh_vjp", 5.0),
    ("sigmoid", "x", ("y",), "sigmoid_vjp", 5.0),
):
    kernel("cupy", _name, f"masked vjp:{_argument}", _fits_masked, names=("used", "g", *_others), gain=_gain)(
        partial(on_used, _rule)
    )


kernel(
    "cupy",
    "mask_unused",
    "forward",
    lambda used, part: used.dtype.char == "?" and used.shape == part.shape and _fits(part),
    names=("used", "part"),
    gain=4.0,
)(partial(on_each, "mask_unused"))


@kernel("cupy", "gelu", "forward", gain=4.0, when=_fits)
def gelu(x: Raw, *, approximate: bool) -> Raw:
    return on_each("gelu_tanh" if approximate else "gelu_erf", x)


@kernel("cupy", "gelu", "vjp:x", gain=10.0, when=_fits)
def gelu_vjp(g: Raw, x: Raw, *, approximate: bool) -> Raw:
    return on_each("gelu_tanh_vjp" if approximate else "gelu_erf_vjp", g, x)


def _along(name: str, axis: int, logs: bool, *arrays: Raw) -> Raw:
    import cupy

    with arrays[0].device:
        arrays = tuple(cupy.ascontiguousarray(a) for a in arrays)
        out = cupy.empty_like(arrays[0])
    shape = out.shape
    inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    rows, n = out.size // shape[axis], shape[axis]
    _run(name, out, *_shape(rows, n, inner), (*arrays, out), rows, n, inner, logs)
    return out


def _file_softmax(name: str, logs: bool) -> None:
    @kernel("cupy", name, "forward", gain=5.0, when=lambda x: _fits(x) and x.ndim > 0)
    def softmax(x: Raw, *, axis: int) -> Raw:
        return _along("softmax", axis, logs, x)

    @kernel("cupy", name, "vjp:x", gain=4.0, when=lambda g, y: _fits(g, y) and y.ndim > 0)
    def softmax_vjp(g: Raw, y: Raw, *, axis: int) -> Raw:
        return _along("softmax_vjp", axis, logs, g, y)


_file_softmax("softmax", logs=False)
_file_softmax("log_softmax", logs=True)


def _labelled(x: Raw, labels: Raw) -> bool:
    return _fits(x) and x.ndim == 2 and labels.shape == x.shape[:1] and labels.dtype.char in _LABELS


def _losses(
    x: Raw, labels: Raw, reduction: str, ignore: int | None, smoothing: float, with_lse: bool = False
) -> tuple[Raw, ...]:
    """Return the losses of rows, or their sum or mean, and its divisor; with_lse: the losses and logsumexp(x)."""
    import cupy

    rows, n = x.shape
    blocks, block = _shape(rows, n)
    numbers = (rows, n, float(smoothing), ignore is not None, ignore or 0, reduction == "mean")
    with x.device:
        x, labels = cupy.ascontiguousarray(x), cupy.ascontiguousarray(labels)
        second = cupy.empty((rows,) if with_lse else (), x.dtype)
        loss = cupy.empty((rows,) if reduction == "none" else (), x.dtype)
        parts = None
        if reduction != "none":
            blocks = 1 if x.size <= AT_ONCE else min(blocks, BLOCKS)
            parts = cupy.empty((2 * blocks,), np.float64) if blocks > 1 else None
    outs = (loss, None) if reduction == "none" else (None, None if parts is not None else loss)
    pointers = (x, labels, outs[0], second if with_lse else None, outs[1], None if with_lse else second, parts)
    _run("cross_entropy", x, blocks, block, pointers, *numbers, labels=labels.dtype.char)
    if parts is not None:
        _run("cross_entropy_total", x, 1, (THREADS, 1), (parts, loss, second), blocks, reduction == "mean")
    return loss, second


def _losses_vjp(
    g_loss: Raw | None,
    g_lse: Raw | None,
    divisor: Raw | None,
    x: Raw,
    labels: Raw,
    ignore: int | None,
    smoothing: float,
) -> Raw:
    import cupy

    with x.device:
        x, labels = cupy.ascontiguousarray(x), cupy.ascontiguousarray(labels)
        given = [None if g is None else cupy.ascontiguousarray(g) for g in (g_loss, g_lse)]
        out = cupy.empty_like(x)
    numbers = (*x.shape, float(smoothing), ignore is not None, ignore or 0, g_loss is not None and g_loss.ndim > 0)
    pointers = (*given, divisor, x, labels, out)
    _run("cross_entropy_vjp", x, *_shape(*x.shape), pointers, *numbers, labels=labels.dtype.char)
    return out


@kernel("cupy", "cross_entropy_of_labels", "forward", gain=23.0, when=_labelled)
def cross_entropy(x: Raw, labels: Raw, *, ignore: int | None, smoothing: float, reduction: str) -> tuple[Raw, ...]:
    return _losses(x, labels, reduction, ignore, smoothing)


@kernel(
    "cupy",
    "cross_entropy_of_labels",
    "vjp:x",
    gain=11.0,
    when=lambda g_loss, x, labels, divisor: g_loss is not None and g_loss.dtype == x.dtype and _labelled(x, labels),
)
def cross_entropy_vjp(g_loss: Raw, x: Raw, labels: Raw, divisor: Raw, *, ignore: int | None, smoothing: float) -> Raw:
    return _losses_vjp(g_loss, None, divisor, x, labels, ignore, smoothing)


@kernel("cupy", "softmax_cross_entropy", "forward", gain=13.0, when=_labelled)
def softmax_cross_entropy(x: Raw, labels: Raw) -> tuple[Raw, ...]:
    return _losses(x, labels, "none", None, 0.0, with_lse=True)


@kernel(
    "cupy",
    "softmax_cross_entropy",
    "vjp:x",
    gain=15.0,
    when=lambda g_loss, g_lse, x, labels, lse: (
        _labelled(x, labels) and _fits(lse, *(g for g in (g_loss, g_lse) if g is not None)) and lse.dtype == x.dtype
    ),
)
def softmax_cross_entropy_vjp(g_loss: Raw | None, g_lse: Raw | None, x: Raw, labels: Raw, lse: Raw) -> Raw:
    return _losses_vjp(g_loss, g_lse, None, x, labels, None, 0.0)


@kernel("cupy", "sgd_update", "forward", gain=4.0, when=_fits)
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
    """Return the new parameter and velocity of an SGD step by the PyTorch formula.

    ``donate`` writes them into ``p`` and ``v``.
    """
    values: tuple[float, ...] = (lr, -1.0 if maximize else 1.0, weight_decay)
    if momentum == 0:
        return updated("sgd_plain", (p, g), values, (p,) if donate else ())[0], v
    values = (*values, momentum, 1.0 - dampening, bool(nesterov))
    return updated("sgd_momentum", (p, g, v), values, (p, v) if donate else ())


@kernel("cupy", "adam_update", "forward", gain=12.0, when=_fits)
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
    """Return the new parameter and moments of an Adam step.

    ``donate`` writes them into ``p``, ``m`` and ``v``.
    """
    values = (rate, floor, 1.0 if shrink is None else shrink, decay, 1.0 - beta1, beta2, 1.0 - beta2)
    return updated("adam", (p, g, m, v), values, (p, m, v) if donate else ())


def _is_affine(x: Raw, weight: Raw, bias: Raw) -> bool:
    """Return True for the factors and bias of a product that cuBLASLt can compute as one of two matrices."""
    alike = x.dtype == weight.dtype == bias.dtype and x.dtype.char in C_TYPES and x.size and weight.size
    fits = alike and weight.ndim == 2 and bias.shape == weight.shape[1:] and x.shape[-1:] == weight.shape[:1]
    return bool(fits and (x.ndim == 2 or (x.ndim > 2 and x.flags.c_contiguous)))


@kernel("cupy", "linear", "forward", gain=2.0, when=_is_affine)
def linear(x: Raw, weight: Raw, bias: Raw) -> Raw:
    import cupy

    with x.device:
        rows = x.reshape(-1, x.shape[-1])
        found = current_lt().attempt(rows, weight, bias, tensor_float=tensor_float_by_default())
        y = cupy.matmul(rows, weight) + bias if found is None else found[0]
        return y.reshape(*x.shape[:-1], weight.shape[1])


def _solvable(x1: Raw, x2: Raw) -> bool:
    return bool(x1.dtype == x2.dtype and x1.size and x2.size)


@kernel("cupy", "linalg.over_triangle", "forward", gain=1.3, when=_solvable)
def over_triangle(x1: Raw, x2: Raw, *, upper: bool, checked: bool = False) -> Raw:
    import cupy
    from cupyx.scipy.linalg import solve_triangular

    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    with x1.device:
        x1, x2 = (cupy.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2))
        return solve_triangular(x2, x1.swapaxes(-1, -2), trans="T", lower=not upper).swapaxes(-1, -2)

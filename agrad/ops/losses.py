"""Cross entropy."""

from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.dtypes import as_dtype
from agrad.engine.batching import spread
from agrad.engine.namespaces import NAMESPACES, Memo
from agrad.engine.tensor import Tensor, raw_of
from agrad.errors import DtypeError, IndexRangeError, ShapeError
from agrad.ops.composites import check_real, log_softmax, softmax_p, softmax_weights
from agrad.ops.definition import primitive, public_of_arrays
from agrad.ops.elementwise import multiply
from agrad.ops.manipulation import reshape
from agrad.ops.shared import REDUCTIONS, Reduction, ndim_of
from agrad.ops.statistical import mean
from agrad.ops.statistical import sum as sum_
from agrad.registry import KERNELS, Kernel, public
from agrad.shapes import size

__all__ = ["cross_entropy", "softmax_cross_entropy"]


def _is_class(xp: Any, x: Any, labels: Any) -> Any:
    """Return a boolean (n, c) array: true in the column of the row's label."""
    classes = xp.arange_like(x, x.shape[1])
    # not the other way: 8-bit labels above 255 are not class indices, and 300 cast to 8 bits is 44
    return xp.reshape(xp.astype(labels, classes.dtype), (-1, 1)) == classes


def _of_labels(xp: Any, x: Any, labels: Any) -> Any:
    """Return the elements in the columns of the rows' labels."""
    return xp.sum(xp.where(_is_class(xp, x, labels), x, xp.zeros_like(x)), axis=1)


def _losses(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return the losses for each class as the label, and logsumexp(x)."""
    m = xp.max(x, axis=1, keepdims=True)
    rest = xp.log(xp.sum(xp.exp(x - m), axis=1, keepdims=True))
    # m - x first: added to a large m, the logarithm would be rounded away
    return (m - x) + rest, rest + m


@public
@primitive(out=("loss", "lse"), constant="labels", rows=1, no_alias=True, rule_traits={"vjp:x": {"no_alias": True}})
def softmax_cross_entropy(xp: Any, x: Any, labels: Any, /) -> Any:
    """Return the cross entropy of softmax(x) with labels, and logsumexp(x), by rows.

    Parameters
    ----------
    x : array
        Logits of shape (n, c) and a real floating dtype.
    labels : array
        Integers of shape (n,), in range(c).

    Returns
    -------
    tuple of arrays
        The cross entropies and the logarithms, of shape (n,). The rule of the cross entropies uses the logarithms.

    Raises
    ------
    IndexRangeError
        If a label is out of range and the labels are a NumPy array.

    Examples
    --------
    >>> scores, labels = np.asarray([[2.0, 0.0], [0.0, 0.0]]), np.asarray([0, 1])
    >>> losses, totals = agrad.softmax_cross_entropy(scores, labels)
    >>> losses.round(4), totals.round(4)
    (array([0.1269, 0.6931]), array([2.1269, 0.6931]))
    >>> agrad.grad(lambda x: agrad.sum(agrad.softmax_cross_entropy(x, labels)[0]))(scores).round(4)
    array([[-0.1192,  0.1192],
           [ 0.5   , -0.5   ]])
    """
    check_real("cross_entropy", x)
    _check_labels(labels, x.shape[1])
    losses, lse = _losses(xp, x)
    return _of_labels(xp, losses, labels), xp.reshape(lse, (x.shape[0],))


def _probabilities(xp: Any, x: Any, lse: Any) -> Any:
    weights, total = softmax_weights(xp, x, lse, (1,))
    return weights / total


@softmax_cross_entropy.vjp("x")
def softmax_cross_entropy_vjp(xp: Any, g_loss: Any, g_lse: Any, x: Any, labels: Any, lse: Any) -> Any:
    p = _probabilities(xp, x, lse)
    out = None
    if g_loss is not None:
        one_hot = xp.astype(_is_class(xp, x, labels), x.dtype)
        out = xp.reshape(g_loss, (-1, 1)) * (p - one_hot)
    if g_lse is not None:
        part = xp.reshape(g_lse, (-1, 1)) * p
        out = part if out is None else out + part
    return out


@softmax_cross_entropy.jvp("x")
def softmax_cross_entropy_jvp(xp: Any, t: Any, x: Any, labels: Any, lse: Any) -> Any:
    t_lse = xp.sum(t * _probabilities(xp, x, lse), axis=1)
    return t_lse - _of_labels(xp, t, labels), t_lse


# ------------------------------------------------------------------ with the reduction


def _kept_rows(xp: Any, labels: Any, ignore: int | None) -> Any:
    """Return a mask of the rows whose label is not ``ignore``, of shape (n, 1); None for all."""
    return None if ignore is None else xp.reshape(labels != ignore, (-1, 1))


def _used(xp: Any, x: Any, labels: Any, *, ignore: int | None) -> Any:
    shape = tuple(x.shape)
    return None if ignore is None else lambda: xp.broadcast_to(_kept_rows(xp, labels, ignore), shape)


@primitive(
    name="cross_entropy_of_labels",
    out=("loss", "divisor"),
    constant="labels",
    masks=True,
    used=_used,
    rows=1,
    no_alias=True,
    rule_traits={"vjp:x": {"no_alias": True}},
)
def cross_entropy_p(
    xp: Any, x: Any, labels: Any, /, *, ignore: int | None, smoothing: float, reduction: Reduction
) -> Any:
    """Return losses, or their sum or mean, and the number that it was divided by."""
    losses, _ = _losses(xp, x)
    found = _of_labels(xp, losses, labels)
    if smoothing:
        found = (1 - smoothing) * found + smoothing * (xp.sum(losses, axis=1) / x.shape[1])
    return _reduced(xp, found, _kept_rows(xp, labels, ignore), reduction)


def _reduced(xp: Any, losses: Any, kept: Any, reduction: str) -> Any:
    """Reduce losses over the last axis, and return the divisor too."""
    ones = xp.ones_like(losses)
    if kept is not None:
        kept = xp.reshape(kept, tuple(losses.shape))
        losses, ones = xp.where(kept, losses, xp.zeros_like(losses)), xp.astype(kept, losses.dtype)
    one = xp.ones_like(xp.sum(losses, axis=-1))
    if reduction == "none":
        return losses, one
    total, divisor = xp.sum(losses, axis=-1), xp.sum(ones, axis=-1) if reduction == "mean" else one
    return total / divisor, divisor


def _slopes(xp: Any, x: Any, labels: Any, ignore: int | None, smoothing: float) -> Any:
    """Return the derivative of the loss of each row."""
    target = xp.astype(_is_class(xp, x, labels), x.dtype)
    if smoothing:
        target = (1 - smoothing) * target + smoothing * (xp.ones_like(target) / x.shape[1])
    slopes, kept = softmax_p(x, axis=1) - target, _kept_rows(xp, labels, ignore)
    return slopes if kept is None else xp.where(kept, slopes, xp.zeros_like(slopes))


@cross_entropy_p.vjp("x")
def cross_entropy_vjp(
    xp: Any, g_loss: Any, x: Any, labels: Any, divisor: Any, *, ignore: int | None, smoothing: float
) -> Any:
    if g_loss is None:
        return None
    g = xp.reshape(g_loss, (-1, 1)) if len(g_loss.shape) else g_loss
    return g / divisor * _slopes(xp, x, labels, ignore, smoothing)


@cross_entropy_p.jvp("x")
def cross_entropy_jvp(
    xp: Any, t: Any, x: Any, labels: Any, divisor: Any, *, ignore: int | None, smoothing: float, reduction: str
) -> Any:
    changes = xp.sum(t * _slopes(xp, x, labels, ignore, smoothing), axis=1)
    changes = changes if reduction == "none" else xp.sum(changes)
    return changes / divisor, xp.zeros_like(divisor)


@cross_entropy_p.batch
def cross_entropy_batch(
    xp: Any, x: Any, labels: Any, x_mapped: bool, labels_mapped: bool, batch_size: int, *,
    ignore: int | None, smoothing: float, reduction: str,
) -> Any:  # fmt: skip
    x, labels = spread(xp, x, x_mapped, batch_size), spread(xp, labels, labels_mapped, batch_size)
    rows = xp.reshape(x, (size(labels.shape), x.shape[-1])), xp.reshape(labels, (size(labels.shape),))
    losses = cross_entropy_p(*rows, ignore=ignore, smoothing=smoothing, reduction="none")[0]
    return _reduced(xp, xp.reshape(losses, tuple(labels.shape)), _kept_rows(xp, labels, ignore), reduction)


def _kernel_of(kind: type) -> Kernel | None:
    backend = backend_of_type(kind)
    return KERNELS.get(("" if backend is None else backend.name, cross_entropy_p.primitive.name, "forward"))


_KERNELS = Memo(_kernel_of)


def loss_by_kernel(
    logits: Any, labels: Any, reduction: Reduction, ignore: int | None = None, smoothing: float = 0.0
) -> Any:
    """Return the loss for logits of shape (..., c), or None without a kernel."""
    x = logits
    while isinstance(x, Tensor):
        x = x.data
    kernel = _KERNELS[type(x)]
    if kernel is None or x.ndim != len(logits.shape) or type(raw_of(labels)) is not type(x):
        return None
    lead = tuple(labels.shape)
    if len(lead) != 1:
        logits, labels = reshape(logits, (-1, logits.shape[-1])), reshape(labels, (-1,))
    if kernel.when is not None and not kernel.when(raw_of(logits), raw_of(labels)):
        return None
    limits = NAMESPACES[type(x)].iinfo(raw_of(labels).dtype)
    if ignore is not None and not limits.min <= ignore <= limits.max:
        ignore = None
    loss = cross_entropy_p(logits, labels, ignore=ignore, smoothing=float(smoothing), reduction=reduction)[0]
    return reshape(loss, lead) if reduction == "none" and len(lead) != 1 else loss


@public_of_arrays
def cross_entropy(logits: Any, labels: Any, /, *, reduction: Reduction = "mean") -> Any:
    """Return the cross entropy of softmax(logits) with the labels.

    Parameters
    ----------
    logits : array of shape (..., c) with a real floating-point dtype
    labels : array
        Integers of shape (...), in range(c), or probabilities of shape (..., c) and a floating dtype, such as one-hot
        rows.
    reduction : str
        ``"mean"`` or ``"sum"`` over all rows, or ``"none"``.

    Returns
    -------
    array of shape (), or with ``"none"`` of shape (...)

    Raises
    ------
    IndexRangeError
        If a label is out of range and the labels are a NumPy array. Other libraries would have to synchronize first.

    Examples
    --------
    >>> scores = np.asarray([[2.0, 0.0], [0.0, 0.0]])
    >>> round(float(agrad.cross_entropy(scores, np.asarray([0, 1]))), 4)
    0.41
    >>> agrad.grad(agrad.cross_entropy)(scores, np.asarray([0, 1])).round(4)
    array([[-0.0596,  0.0596],
           [ 0.25  , -0.25  ]])
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(map(repr, REDUCTIONS))}, got {reduction!r}")
    ndim, labels_ndim = ndim_of(logits, "cross_entropy"), ndim_of(labels, "cross_entropy")
    shape = tuple(logits.shape)
    lead = shape[:-1]
    kind = as_dtype(labels.dtype).kind
    if ndim and labels_ndim == ndim and tuple(labels.shape) == shape and kind in ("real floating", "bool"):
        check_real("cross_entropy", logits)
        loss = -sum_(multiply(labels, log_softmax(logits, axis=-1)), axis=-1)
    elif ndim and tuple(labels.shape) == lead:
        if kind not in ("signed integer", "unsigned integer"):
            raise DtypeError(f"cross_entropy: labels of shape {lead} must have an integer dtype, got {kind}")
        fused = loss_by_kernel(logits, labels, reduction)
        return loss_of_labels(logits, labels, reduction) if fused is None else fused
    else:
        raise ShapeError(
            f"cross_entropy: labels must be class labels of shape {lead} or probabilities of shape {shape} for logits "
            f"of shape {shape}, got shape {tuple(labels.shape)}"
        )
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum_(loss)


def loss_of_labels(logits: Any, labels: Any, reduction: Reduction) -> Any:
    """Return the cross entropy of logits of shape (..., c) with labels (...)."""
    shape = logits.shape
    if len(shape) != 2:
        logits, labels = reshape(logits, (-1, shape[-1])), reshape(labels, (-1,))
    loss = softmax_cross_entropy(logits, labels)[0]
    if len(shape) != 2:
        loss = reshape(loss, tuple(shape[:-1]))
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum_(loss)


def _check_labels(labels: Any, classes: int) -> None:
    if isinstance(labels, np.ndarray) and labels.size and (labels.max() >= classes or labels.min() < 0):
        wrong = labels[(labels < 0) | (labels >= classes)][0]
        raise IndexRangeError(
            f"cross_entropy: labels must be from 0 to {classes - 1} for {classes} classes, got {wrong}"
        )


@softmax_cross_entropy.batch
def softmax_cross_entropy_batch(
    xp: Any, x: Any, labels: Any, x_mapped: bool, labels_mapped: bool, batch_size: int
) -> Any:
    x, labels = spread(xp, x, x_mapped, batch_size), spread(xp, labels, labels_mapped, batch_size)
    shape = tuple(labels.shape)
    rows = size(shape)
    parts = softmax_cross_entropy(xp.reshape(x, (rows, x.shape[-1])), xp.reshape(labels, (rows,)))
    return tuple([xp.reshape(part, shape) for part in parts])

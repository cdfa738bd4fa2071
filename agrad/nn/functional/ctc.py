"""Connectionist temporal classification, the loss of sequences without alignment."""

from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.functional.losses import check_reduction
from agrad.nn.functional.real import check_numbers, constant, of_array, real_only


def _integers(what: str, values: Any, like: Any) -> Any:
    values = constant(np.asarray(values), like) if isinstance(values, (int, list, tuple)) else values
    if not agrad.isdtype(values.dtype, "integral"):
        raise DtypeError(f"ctc_loss: {what} are integers, not {values.dtype}")
    return agrad.astype(values, agrad.int64)


def _in_rows(targets: Any, lengths: Any) -> Any:
    """Return targets that stand one after another as rows, whose ends are any of them."""
    counts = np.asarray(lengths.detach() if isinstance(lengths, agrad.Tensor) else agrad.asarray(lengths)).reshape(-1)
    if int(counts.sum()) != targets.shape[0] or counts.min(initial=0) < 0:
        raise ShapeError(f"ctc_loss: {targets.shape[0]} targets in a row are not those of target_lengths, {counts}")
    starts = np.cumsum(counts) - counts
    places = starts[:, None] + np.arange(max(int(counts.max(initial=0)), 1))
    if not targets.shape[0]:
        return constant(np.zeros(places.shape, np.int64), targets)
    rows = agrad.take(targets, np.minimum(places, targets.shape[0] - 1).reshape(-1), axis=0)
    return agrad.reshape(rows, places.shape)


def _with_blanks(targets: Any, lengths: Any, blank: int) -> Any:
    """Return rows of targets with the blank before, between and behind them."""
    n, width = targets.shape
    positions = constant(np.arange(width), targets)
    targets = agrad.where(agrad.less(positions, agrad.expand_dims(lengths, axis=1)), targets, blank)
    blanks = agrad.full_like(targets, blank)
    pairs = agrad.reshape(agrad.stack([blanks, targets], axis=2), (n, 2 * width))
    return agrad.concat([pairs, agrad.full_like(pairs[:, :1], blank)], axis=1)


def _log_likelihood(log_p: Any, labels: Any, input_lengths: Any, target_lengths: Any, never: float) -> Any:
    """Return the logarithms of the probabilities of all alignments of each row, ``never`` or less for none."""
    steps, n = log_p.shape[:2]
    width = labels.shape[1]
    emitted = agrad.take_along_axis(log_p, agrad.broadcast_to(labels, (steps, n, width)), axis=2)
    starts = constant(np.where(np.arange(width) < 2, 0.0, never), log_p)
    # a label may follow the one before the blank between them, unless both are equal
    skips = agrad.not_equal(labels[:, 2:], labels[:, :-2])
    odd = constant(np.arange(2, width) % 2 == 1, log_p)
    skips = agrad.where(agrad.logical_and(skips, odd), 0.0, constant(np.full((1,), never), log_p))

    def step(alpha: Any, at: tuple[Any, Any]) -> tuple[Any, None]:
        emitted, number = at
        fresh = agrad.full_like(alpha[:, :2], never)
        one = agrad.concat([fresh[:, :1], alpha[:, :-1]], axis=1)
        two = agrad.concat([fresh, agrad.maximum(agrad.add(alpha[:, :-2], skips), never)], axis=1)
        new = agrad.add(agrad.logaddexp(agrad.logaddexp(alpha, one), two), emitted)
        return agrad.where(agrad.expand_dims(agrad.less(number, input_lengths), axis=1), new, alpha), None

    first = agrad.maximum(agrad.add(starts, emitted[0, ...]), never)
    numbers = constant(np.arange(1, steps), log_p)
    alpha = agrad.scan(step, first, (emitted[1:, ...], numbers))[0] if steps > 1 else first
    end = agrad.expand_dims(2 * target_lengths, axis=1)
    last = agrad.take_along_axis(alpha, end, axis=1)[:, 0]
    before = agrad.take_along_axis(alpha, agrad.maximum(end - 1, 0), axis=1)[:, 0]
    return agrad.where(target_lengths > 0, agrad.logaddexp(last, before), last)


@of_array
@real_only
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    /,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Return minus the logarithm of the probability of all alignments of targets.

    The derivative is that of this function of ``log_probs``. PyTorch's own is right only through a ``log_softmax``
    before, through which both are equal.

    Parameters
    ----------
    log_probs : array
        Logarithms of the probabilities of classes, of shape (t, n, c) or (t, c), and a real floating dtype.
    targets : array
        Class numbers other than ``blank``, in rows of shape (n, s) or (s,), or one row after the other in one axis of
        the length ``sum(target_lengths)``, whose lengths may then not be values of ``jit`` or ``vmap``.
    input_lengths : array or tuple of int
        The number of steps of each row, from 1 to t, of shape (n,) or ().
    target_lengths : array or tuple of int
        The number of targets of each row, from 0 to s.
    blank : int
        The class of the blank.
    reduction : {"mean", "sum", "none"}
        The reduction over all rows; the mean is that of losses over their numbers of targets.
    zero_infinity : bool
        True for the loss 0 and no derivative where there are too few steps for the targets; otherwise the loss is
        infinite, and the derivative not finite.

    Returns
    -------
    array
        Array of shape (), or (n,).

    Raises
    ------
    ShapeError, DtypeError, ConfigurationError
        If the arrays do not fit, or for an option that is none.
    OperandError
        If lengths or targets of NumPy's are out of range.

    Notes
    -----
    A. Graves et al. (2006), "Connectionist temporal classification".

    Examples
    --------
    >>> log_probability = np.log(np.full((4, 1, 3), 1 / 3))
    >>> labels, steps, length = np.array([[1, 2]]), np.array([4]), np.array([2])
    >>> loss = agrad.nn.functional.ctc_loss(log_probability, labels, steps, length, reduction="sum")
    >>> round(float(np.exp(-loss)) * 3**4, 4)  # ways to write the labels 1, 2 in four steps
    15.0
    """
    check_reduction("ctc_loss", reduction)
    shape = tuple(log_probs.shape)
    if len(shape) not in (2, 3) or 0 in shape:
        raise ShapeError(f"ctc_loss takes log_probs of shape (t, n, c) or (t, c) with elements, not {shape}")
    if not 0 <= blank < shape[-1]:
        raise ConfigurationError(f"ctc_loss: blank is one of {shape[-1]} classes, not {blank!r}")
    targets = _integers("targets", targets, log_probs)
    lengths = [_integers(what, found, log_probs) for what, found in
               (("input_lengths", input_lengths), ("target_lengths", target_lengths))]  # fmt: skip
    single, rows = len(shape) == 2, shape[1] if len(shape) == 3 else 1
    if single:
        log_probs = agrad.expand_dims(log_probs, axis=1)
        targets = agrad.reshape(targets, (1, -1))
    lengths = [agrad.reshape(found, (-1,)) for found in lengths]
    check_numbers("ctc_loss", "input_lengths", lengths[0], 1, shape[0])
    if any(tuple(found.shape) != (rows,) for found in lengths):
        raise ShapeError(f"ctc_loss: input_lengths and target_lengths have a number for each of {rows} rows")
    if len(targets.shape) == 1:
        targets = _in_rows(targets, lengths[1])
    if len(targets.shape) != 2 or targets.shape[0] != rows:
        raise ShapeError(f"ctc_loss: targets of shape {tuple(targets.shape)} are not those of {rows} rows")
    check_numbers("ctc_loss", "target_lengths", lengths[1], 0, targets.shape[1])
    never = float(agrad.finfo(log_probs.dtype).min) / 2
    labels = _with_blanks(targets, lengths[1], blank)
    check_numbers("ctc_loss", "targets", labels, 0, shape[-1] - 1)
    losses = -_log_likelihood(log_probs, labels, *lengths, never)
    possible = losses < -never / 2
    if zero_infinity:
        losses = agrad.where(possible, losses, 0.0)
    else:
        losses = agrad.multiply(losses, agrad.where(possible, constant(np.ones(1), log_probs), np.inf))
    if reduction == "mean":
        return agrad.mean(agrad.divide(losses, agrad.astype(agrad.maximum(lengths[1], 1), losses.dtype)))
    return agrad.sum(losses) if reduction == "sum" else losses[0] if single else losses

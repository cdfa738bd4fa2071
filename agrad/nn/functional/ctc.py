"""Connectionist temporal classification (CTC) loss."""

from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.functional.losses import Reduction, check_reduction
from agrad.nn.functional.real import check_numbers, constant, of_array, real_only


def _integers(what: str, values: Any, like: Any) -> Any:
    values = constant(np.asarray(values), like) if isinstance(values, (int, list, tuple)) else values
    if not agrad.isdtype(values.dtype, "integral"):
        raise DtypeError(f"ctc_loss: {what} must be integers, got {values.dtype}")
    return agrad.astype(values, agrad.int64)


def _in_rows(targets: Any, lengths: Any) -> Any:
    """Return concatenated targets as rows, padded with arbitrary targets."""
    counts = np.asarray(lengths.detach() if isinstance(lengths, agrad.Tensor) else agrad.asarray(lengths)).reshape(-1)
    if int(counts.sum()) != targets.shape[0] or counts.min(initial=0) < 0:
        raise ShapeError(f"ctc_loss: 1-D targets must have length sum({counts}), got {targets.shape[0]}")
    starts = np.cumsum(counts) - counts
    places = starts[:, None] + np.arange(max(int(counts.max(initial=0)), 1))
    if not targets.shape[0]:
        return constant(np.zeros(places.shape, np.int64), targets)
    rows = agrad.take(targets, np.minimum(places, targets.shape[0] - 1).reshape(-1), axis=0)
    return agrad.reshape(rows, places.shape)


def _with_blanks(targets: Any, lengths: Any, blank: int) -> Any:
    """Return rows of targets with blanks before, between and after them."""
    n, width = targets.shape
    positions = constant(np.arange(width), targets)
    targets = agrad.where(agrad.less(positions, agrad.expand_dims(lengths, axis=1)), targets, blank)
    blanks = agrad.full_like(targets, blank)
    pairs = agrad.reshape(agrad.stack([blanks, targets], axis=2), (n, 2 * width))
    return agrad.concat([pairs, agrad.full_like(pairs[:, :1], blank)], axis=1)


def _log_likelihood(log_p: Any, labels: Any, input_lengths: Any, target_lengths: Any, never: float) -> Any:
    """Return the log-probability of all alignments of each row; at most ``never`` if there are none."""
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
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Compute the connectionist temporal classification (CTC) loss.

    The loss is the negative log-probability of all alignments of the targets. The derivative is exact for any
    ``log_probs``. The PyTorch derivative is correct only after a ``log_softmax``, and both are equal in this case.

    Reference: A. Graves et al. (2006), "Connectionist temporal classification".

    Parameters
    ----------
    log_probs : array
        Log-probabilities of the classes, of shape (t, n, c) or (t, c), and a real floating-point dtype.
    targets : array
        Class labels other than ``blank``, of shape (n, s) or (s,), or concatenated in a 1-D array of length
        ``sum(target_lengths)``. In the concatenated form, ``target_lengths`` cannot be traced by ``jit`` or ``vmap``.
    input_lengths : array or tuple of int
        Number of time steps of each batch element, from 1 to t, of shape (n,) or ().
    target_lengths : array or tuple of int
        Number of targets of each batch element, from 0 to s.
    blank : int
        Class of the blank.
    reduction : {"mean", "sum", "none"}
        Reduction over the batch. For the mean, each loss is first divided by its number of targets.
    zero_infinity : bool
        True for a loss and derivative of 0 if there are too few steps for the targets. Otherwise, the loss is infinite
        and the derivative is not finite.

    Returns
    -------
    array of shape (), or (n,)

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
        raise ShapeError(f"ctc_loss: log_probs must have shape (t, n, c) or (t, c) and not be empty, got {shape}")
    if not 0 <= blank < shape[-1]:
        raise ConfigurationError(f"ctc_loss: blank must be one of {shape[-1]} classes, got {blank!r}")
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
        raise ShapeError(f"ctc_loss: input_lengths and target_lengths must have one number for each of {rows} rows")
    if len(targets.shape) == 1:
        targets = _in_rows(targets, lengths[1])
    if len(targets.shape) != 2 or targets.shape[0] != rows:
        raise ShapeError(f"ctc_loss: targets must have {rows} rows, got shape {tuple(targets.shape)}")
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

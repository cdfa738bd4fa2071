"""Losses, as modules without parameters."""

from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.module import Module

_REDUCTIONS = ("mean", "sum", "none")


class _Loss(Module):
    """Base class of losses: holds the checked reduction."""

    def __init__(self, reduction: str = "mean") -> None:
        if reduction not in _REDUCTIONS:
            raise ConfigurationError(
                f"{type(self).__name__}: reduction is one of {', '.join(map(repr, _REDUCTIONS))}, not {reduction!r}"
            )
        self.reduction = reduction

    def settings(self) -> str:
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(_Loss):
    """The cross entropy of softmax(logits) with the labels, -sum(p * log(softmax)).

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        The reduction over all rows; ``"none"`` for the loss of each row.

    Raises
    ------
    ConfigurationError
        If the reduction is another one.
    """

    def forward(self, logits: Any, labels: Any, /) -> Any:
        """Return the cross entropy.

        Parameters
        ----------
        logits : array
            Array of shape (..., c) and a real floating dtype.
        labels : array
            Integers in range(c) of shape (...), or probabilities of shape (..., c).

        Returns
        -------
        array
            Array of shape (), or (...) with the reduction ``"none"``.

        Raises
        ------
        AgradError
            As ``agrad.cross_entropy``.
        """
        return agrad.cross_entropy(logits, labels, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference of prediction and target, (prediction - target)**2.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        The reduction over all elements; ``"none"`` for the square of each.

    Raises
    ------
    ConfigurationError
        If the reduction is another one.
    """

    def forward(self, prediction: Any, target: Any, /) -> Any:
        """Return the squared difference.

        Parameters
        ----------
        prediction, target : array or number
            Real arrays of one shape, at least one of them an array.

        Returns
        -------
        array
            Array of shape (), or of the arguments' shape with the reduction ``"none"``.

        Raises
        ------
        ShapeError
            If the shapes differ, also if they would broadcast.
        DtypeError
            If the difference is complex.
        """
        shapes = [tuple(getattr(x, "shape", ())) for x in (prediction, target)]
        if shapes[0] != shapes[1]:
            raise ShapeError(f"MSELoss: the prediction's shape {shapes[0]} is not the target's, {shapes[1]}")
        difference = agrad.subtract(prediction, target)
        if agrad.isdtype(difference.dtype, "complex floating"):
            raise DtypeError(
                f"MSELoss takes real numbers, not {difference.dtype}; for complex ones take agrad.abs of the difference"
            )
        squares = agrad.square(difference)
        if self.reduction == "none":
            return squares
        return agrad.mean(squares) if self.reduction == "mean" else agrad.sum(squares)

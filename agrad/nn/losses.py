"""Losses, as modules without parameters."""

from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.module import Module

_REDUCTIONS = ("mean", "sum", "none")


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        if reduction not in _REDUCTIONS:
            raise ConfigurationError(
                f"{type(self).__name__}: reduction is one of {', '.join(map(repr, _REDUCTIONS))}, not {reduction!r}"
            )
        self.reduction = reduction

    def settings(self) -> str:
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(_Loss):
    """The cross entropy of softmax(logits) with the labels.

    logits: (..., c); labels: (...) integers in range(c), or (..., c) probabilities. ``reduction``: ``"mean"`` or
    ``"sum"`` over all rows, or ``"none"``. Raises as ``agrad.cross_entropy``.
    """

    def forward(self, logits: Any, labels: Any, /) -> Any:
        return agrad.cross_entropy(logits, labels, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference of prediction and target of one shape.

    One of the two at least is an array.

    ``reduction``: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``. Raises ``ShapeError`` for shapes that
    differ, also where they would broadcast.
    """

    def forward(self, prediction: Any, target: Any, /) -> Any:
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

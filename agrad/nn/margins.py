"""Margin losses and CTC loss as modules with the PyTorch names."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from agrad.nn import functional
from agrad.nn.functional.losses import Reduction
from agrad.nn.losses import Loss

__all__ = [
    "CTCLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "SoftMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class MarginRankingLoss(Loss, function=functional.margin_ranking_loss):
    """Margin ranking loss ``max(0, -target * (x1 - x2) + margin)`` of two scores.

    Examples
    --------
    >>> x1, x2 = np.array([1.0, 2.0]), np.array([3.0, 0.0])
    >>> agrad.nn.MarginRankingLoss(margin=1.0, reduction="none")(x1, x2, np.array([1.0, 1.0]))
    array([3., 0.])
    """

    margin: float = 0.0
    reduction: Reduction = "mean"


class HingeEmbeddingLoss(Loss, function=functional.hinge_embedding_loss):
    """Hinge embedding loss of similar and dissimilar pairs.

    Examples
    --------
    >>> x, target = np.array([0.5, 0.25]), np.array([1.0, -1.0])
    >>> agrad.nn.HingeEmbeddingLoss(reduction="none")(x, target)
    array([0.5 , 0.75])
    """

    margin: float = 1.0
    reduction: Reduction = "mean"


class SoftMarginLoss(Loss, function=functional.soft_margin_loss):
    """Soft margin loss ``log(1 + exp(-target * x))``.

    Examples
    --------
    >>> x, target = np.array([0.0, 1.0]), np.array([1.0, -1.0])
    >>> agrad.nn.SoftMarginLoss(reduction="none")(x, target).round(4)
    array([0.6931, 1.3133])
    """

    reduction: Reduction = "mean"


class MultiMarginLoss(Loss, function=functional.multi_margin_loss):
    """Multi-class margin loss.

    Examples
    --------
    >>> x, labels = np.array([[0.0, 2.0, 1.5]]), np.array([1])
    >>> agrad.nn.MultiMarginLoss(reduction="sum")(x, labels).round(4)
    np.float64(0.1667)
    """

    p: int = 1
    margin: float = 1.0
    weight: Any = None
    reduction: Reduction = "mean"


class MultiLabelMarginLoss(Loss, function=functional.multilabel_margin_loss):
    """Multi-label margin loss.

    Examples
    --------
    >>> x, labels = np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])
    >>> round(float(agrad.nn.MultiLabelMarginLoss()(x, labels)), 4)
    0.85
    """

    reduction: Reduction = "mean"


class MultiLabelSoftMarginLoss(Loss, function=functional.multilabel_soft_margin_loss):
    """Multi-label soft margin loss: mean binary cross entropy over classes.

    Examples
    --------
    >>> x, target = np.zeros((1, 3)), np.array([[1.0, 0.0, 1.0]])
    >>> round(float(agrad.nn.MultiLabelSoftMarginLoss()(x, target)), 4)
    0.6931
    """

    weight: Any = None
    reduction: Reduction = "mean"


class TripletMarginWithDistanceLoss(Loss, function=functional.triplet_margin_with_distance_loss):
    """Triplet margin loss with a custom distance.

    Examples
    --------
    >>> anchor, positive, negative = np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[1.0, 1.0]])
    >>> loss = agrad.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: abs(a - b).sum(-1))
    >>> loss(anchor, positive, negative)
    np.float64(6.0)
    """

    _: KW_ONLY
    distance_function: Callable[[Any, Any], Any] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: Reduction = "mean"


class CTCLoss(Loss, function=functional.ctc_loss):
    """Connectionist temporal classification (CTC) loss.

    Examples
    --------
    >>> log_probability = np.log(np.full((4, 1, 3), 1 / 3))
    >>> loss = agrad.nn.CTCLoss(reduction="sum")(log_probability, np.array([[1, 2]]), np.array([4]), np.array([2]))
    >>> round(float(np.exp(-loss)) * 3**4, 4)  # ways to write "12" in four steps
    15.0
    """

    blank: int = 0
    reduction: Reduction = "mean"
    zero_infinity: bool = False

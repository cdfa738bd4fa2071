"""Loss modules with the PyTorch names."""

from typing import Any, ClassVar

import agrad
from agrad.nn import functional
from agrad.nn.function_module import ArraysFunctionModule
from agrad.nn.functional.losses import REDUCTIONS, Batchmean, Reduction, check_reduction

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HuberLoss",
    "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "TripletMarginLoss",
]  # fmt: skip


def buffer(weight: Any) -> Any:
    """Return an array as a Tensor that a module saves and moves, or None for None."""
    return weight if weight is None or isinstance(weight, agrad.Tensor) else agrad.asarray(weight)


class Loss(ArraysFunctionModule):
    """Base class of losses."""

    reductions: ClassVar[tuple[str, ...]] = REDUCTIONS

    def _begin(self, options: dict[str, Any]) -> None:
        check_reduction(type(self).__name__, options["reduction"], self.reductions)
        arrays = {name: buffer(value) for name, value in options.items() if name in ("weight", "pos_weight")}
        super()._begin({"reduction": options["reduction"], **options, **arrays})

    def settings(self) -> str:
        shown = {name: value for name, value in self.options().items() if not hasattr(value, "shape")}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if value is not None)


class MSELoss(Loss, function=functional.mse_loss):
    """Mean squared error loss.

    Examples
    --------
    >>> agrad.nn.MSELoss()(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(2.0)
    """

    reduction: Reduction = "mean"


class L1Loss(Loss, function=functional.l1_loss):
    """L1 loss: absolute differences of prediction and target.

    Examples
    --------
    >>> agrad.nn.L1Loss()(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0]))
    np.float64(1.0)
    """

    reduction: Reduction = "mean"


class HuberLoss(Loss, function=functional.huber_loss):
    """Huber loss: quadratic up to ``delta``, linear beyond.

    Examples
    --------
    >>> agrad.nn.HuberLoss(reduction="none")(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    reduction: Reduction = "mean"
    delta: float = 1.0


class SmoothL1Loss(Loss, function=functional.smooth_l1_loss):
    """Smooth L1 loss: absolute differences, quadratic near 0.

    Examples
    --------
    >>> agrad.nn.SmoothL1Loss(reduction="none")(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    reduction: Reduction = "mean"
    beta: float = 1.0


class BCELoss(Loss, function=functional.binary_cross_entropy):
    """Binary cross entropy of probabilities and targets from 0 to 1.

    Examples
    --------
    >>> agrad.nn.BCELoss(reduction="none")(np.array([0.5, 0.8]), np.array([0.0, 1.0])).round(4)
    array([0.6931, 0.2231])
    """

    weight: Any = None
    reduction: Reduction = "mean"


class BCEWithLogitsLoss(Loss, function=functional.binary_cross_entropy_with_logits):
    """Binary cross entropy of sigmoid(logits) and targets.

    Examples
    --------
    >>> agrad.nn.BCEWithLogitsLoss(reduction="none")(np.array([0.0, 1000.0]), np.array([0.0, 1.0])).round(4)
    array([0.6931, 0.    ])
    """

    weight: Any = None
    reduction: Reduction = "mean"
    pos_weight: Any = None


class NLLLoss(Loss, function=functional.nll_loss):
    """Negative log-likelihood loss of class labels.

    Examples
    --------
    >>> agrad.nn.NLLLoss(reduction="none")(np.log([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0])).round(4)
    array([0.6931, 1.3863])
    """

    weight: Any = None
    ignore_index: int = -100
    reduction: Reduction = "mean"


class CrossEntropyLoss(Loss, function=functional.cross_entropy):
    """Cross entropy of softmax(logits) with labels or probabilities.

    The classes are along axis 1, as in PyTorch.

    Examples
    --------
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0, 1])
    >>> agrad.grad(agrad.nn.CrossEntropyLoss())(logits, labels).round(4)
    array([[-0.0596,  0.0596],
           [ 0.25  , -0.25  ]])
    """

    weight: Any = None
    ignore_index: int = -100
    reduction: Reduction = "mean"
    label_smoothing: float = 0.0


class KLDivLoss(Loss, function=functional.kl_div):
    """Kullback-Leibler divergence loss of log-probabilities.

    Examples
    --------
    >>> round(float(agrad.nn.KLDivLoss(reduction="sum")(np.log([[0.25, 0.75]]), np.array([[0.5, 0.5]]))), 4)
    0.1438
    """

    reductions: ClassVar[tuple[str, ...]] = (*REDUCTIONS, "batchmean")
    reduction: Batchmean = "mean"
    log_target: bool = False


class GaussianNLLLoss(Loss, function=functional.gaussian_nll_loss):
    """Negative log-likelihood of targets under a normal distribution.

    Examples
    --------
    >>> mean, target, variance = np.array([0.0, 1.0]), np.array([0.0, 3.0]), np.array([1.0, 4.0])
    >>> agrad.nn.GaussianNLLLoss(reduction="none")(mean, target, variance).round(4)
    array([0.    , 1.1931])
    """

    full: bool = False
    eps: float = 1e-6
    reduction: Reduction = "mean"


class PoissonNLLLoss(Loss, function=functional.poisson_nll_loss):
    """Negative log-likelihood of counts under a Poisson distribution.

    Examples
    --------
    >>> log_rate, counts = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    >>> agrad.nn.PoissonNLLLoss(reduction="none")(log_rate, counts).round(4)
    array([1.    , 0.7183])
    """

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: Reduction = "mean"


class TripletMarginLoss(Loss, function=functional.triplet_margin_loss):
    """Triplet margin loss.

    Examples
    --------
    >>> anchor, positive, negative = np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[6.0, 8.0]])
    >>> round(float(agrad.nn.TripletMarginLoss(margin=6.0)(anchor, positive, negative)), 4)
    1.0
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: Reduction = "mean"


class CosineEmbeddingLoss(Loss, function=functional.cosine_embedding_loss):
    """Cosine embedding loss of similar and dissimilar vectors.

    Examples
    --------
    >>> x1, x2 = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> agrad.nn.CosineEmbeddingLoss(reduction="none")(x1, x2, np.array([1.0, 1.0])).round(4)
    array([0., 1.])
    """

    margin: float = 0.0
    reduction: Reduction = "mean"

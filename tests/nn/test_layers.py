"""Layers and losses that call one function beside PyTorch's of the same name and options: values and texts."""

from typing import Any

import numpy as np
import pytest
from torch_parity import close, here, host

from agrad import nn
from agrad.errors import ShapeError

RNG = np.random.default_rng(21)
ROWS, LINE, IMAGE, VOLUME = (RNG.normal(size=shape) for shape in ((6, 4), (2, 3, 9), (2, 8, 6, 6), (1, 2, 5, 4, 6)))
COLUMNS = RNG.normal(size=(2, 12, 12))
X, Y, Z = RNG.normal(size=(3, 4, 5))
P, T = RNG.uniform(0.05, 0.95, size=(2, 4, 5))
LABELS, SIGNS, ONES = np.array([0, 4, 2, 2]), RNG.choice([-1, 1], size=(4, 5)), RNG.integers(0, 2, size=(4, 5))
SEVERAL = np.array([[1, 3, -1, 0, 2], [4, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 3, 3, 3, 3]])

ACTIVATIONS = [
    nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.LogSigmoid(), nn.SELU(), nn.SiLU(), nn.Mish(), nn.Softsign(),
    nn.Tanhshrink(), nn.ReLU6(), nn.Hardsigmoid(), nn.Hardswish(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.CELU(0.7),
    nn.GELU("tanh"), nn.Softplus(2, 10), nn.Hardtanh(-2, 0.5), nn.Hardshrink(0.1), nn.Softshrink(0.1),
    nn.Threshold(0.1, 20), nn.GLU(0), nn.Softmax(0), nn.LogSoftmax(1), nn.Softmin(1),
]  # fmt: skip
OF_AN_ARRAY: list[tuple[Any, np.ndarray]] = [
    *((layer, ROWS) for layer in ACTIVATIONS), (nn.LocalResponseNorm(3), IMAGE),
    (nn.MaxPool1d(3, 2, 1), LINE), (nn.MaxPool2d(2, ceil_mode=True), IMAGE), (nn.MaxPool3d(2), VOLUME),
    (nn.AvgPool1d(2, ceil_mode=True), LINE), (nn.AvgPool2d(3, padding=1, count_include_pad=False), IMAGE),
    (nn.AvgPool3d(2, divisor_override=3), VOLUME),
    (nn.LPPool1d(2, 3, 1), LINE), (nn.LPPool2d(2.0, 3, ceil_mode=True), IMAGE), (nn.LPPool3d(2, 2), VOLUME),
    (nn.AdaptiveAvgPool1d(2), LINE), (nn.AdaptiveAvgPool2d((2, 1)), IMAGE), (nn.AdaptiveAvgPool3d(1), VOLUME),
    (nn.AdaptiveMaxPool1d(2), LINE), (nn.AdaptiveMaxPool2d((2, 1)), IMAGE), (nn.AdaptiveMaxPool3d(1), VOLUME),
    (nn.Unfold((2, 3), padding=1), IMAGE), (nn.Fold((5, 4), 2), COLUMNS), (nn.PixelShuffle(2), IMAGE),
    (nn.PixelUnshuffle(2), IMAGE), (nn.ChannelShuffle(2), IMAGE), (nn.Upsample(scale_factor=2), LINE),
    (nn.Upsample((3, 9), mode="bilinear", align_corners=True), IMAGE),
    (nn.UpsamplingNearest2d(scale_factor=2), IMAGE), (nn.UpsamplingBilinear2d((5, 9)), IMAGE),
]  # fmt: skip
OF_ARRAYS: list[tuple[Any, list[np.ndarray]]] = [
    (nn.CosineSimilarity(dim=1), [IMAGE, IMAGE[::-1].copy()]),
    (nn.PairwiseDistance(p=3.0, keepdim=True), [IMAGE, IMAGE[::-1].copy()]),
    (nn.MSELoss(), [X, Y]), (nn.L1Loss("sum"), [X, Y]), (nn.HuberLoss(delta=2.0), [X, Y]),
    (nn.SmoothL1Loss(beta=0.3), [X, Y]), (nn.BCELoss(), [P, T]), (nn.BCEWithLogitsLoss(), [X, T]),
    (nn.NLLLoss(ignore_index=4), [X, LABELS]), (nn.CrossEntropyLoss(label_smoothing=0.2), [X, LABELS]),
    (nn.CrossEntropyLoss(), [IMAGE, RNG.integers(0, 8, size=(2, 6, 6))]), (nn.KLDivLoss("batchmean"), [X, P]),
    (nn.GaussianNLLLoss(full=True), [X, Y, P]), (nn.PoissonNLLLoss(log_input=False), [P, T]),
    (nn.TripletMarginLoss(2.0), [X, Y, P]), (nn.CosineEmbeddingLoss(), [X, Y, np.array([1, -1, 1, 1])]),
    (nn.MarginRankingLoss(0.3), [X, Y, SIGNS]), (nn.HingeEmbeddingLoss(0.3), [X, SIGNS]),
    (nn.SoftMarginLoss("sum"), [X, SIGNS]), (nn.MultiMarginLoss(2, 0.5), [X, LABELS]),
    (nn.MultiLabelMarginLoss(), [X, SEVERAL]), (nn.MultiLabelSoftMarginLoss(reduction="none"), [X, ONES]),
    (nn.TripletMarginWithDistanceLoss(margin=0.5), [X, Y, Z]),
]  # fmt: skip
LAYERS = [*((layer, [x]) for layer, x in OF_AN_ARRAY), *OF_ARRAYS]


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize(("layer", "arrays"), LAYERS, ids=lambda one: type(one).__name__)
def test_as_pytorch(backend: str, layer: Any, arrays: list[np.ndarray]) -> None:
    import torch

    options = layer.options()
    fixed = {nn.UpsamplingNearest2d: ("mode",), nn.UpsamplingBilinear2d: ("mode", "align_corners")}
    given = {k: v for k, v in options.items() if k not in fixed.get(type(layer), ())}
    theirs = getattr(torch.nn, type(layer).__name__)(**given)
    close(layer(*map(here, arrays)), theirs(*map(torch.asarray, arrays)), "the value")
    assert layer.parameters() == []
    assert (
        repr(layer) == f"{type(layer).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items() if v is not None)})"
    )


@pytest.mark.needs("torch")
@pytest.mark.parametrize("x", [LINE, IMAGE, VOLUME], ids=["1d", "2d", "3d"])
@pytest.mark.parametrize("kind", ["ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"])
def test_padding(backend: str, kind: str, x: np.ndarray) -> None:
    import torch

    name = f"{kind}{x.ndim - 2}d"
    for padding in (1, (1, 2) * (x.ndim - 2)):
        more = (0.5,) if kind == "ConstantPad" else ()
        layer, theirs = getattr(nn, name)(padding, *more), getattr(torch.nn, name)(padding, *more)
        for array in (x, x[0]):
            np.testing.assert_array_equal(host(layer(here(array))), theirs(torch.asarray(array)).numpy())
    assert repr(layer) == repr(theirs).replace("padding=", "")
    with pytest.raises(ShapeError, match=f"{name}: x must have shape"):
        layer(here(x[0, 0]))

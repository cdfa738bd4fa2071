"""Layers against PyTorch layers of the same name and options: values, gradients, state, and ``repr``."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from module_parity import check_module
from refusals import fails
from tensors import all_close, draw
from torch_parity import close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError

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


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize(("layer", "arrays"), LAYERS, ids=lambda one: type(one).__name__)
def test_layers_without_parameters(backend: str, layer: Any, arrays: list[np.ndarray], torch: Any) -> None:
    options = layer.options()
    fixed = {nn.UpsamplingNearest2d: ("mode",), nn.UpsamplingBilinear2d: ("mode", "align_corners")}
    given = {k: v for k, v in options.items() if k not in fixed.get(type(layer), ())}
    theirs = getattr(torch.nn, type(layer).__name__)(**given)
    close(layer(*map(here, arrays)), theirs(*map(torch.asarray, arrays)), "the value")
    shown = ", ".join(f"{k}={v!r}" for k, v in options.items() if v is not None)
    assert (layer.parameters(), repr(layer)) == ([], f"{type(layer).__name__}({shown})")


@pytest.mark.parametrize("x", [LINE, IMAGE, VOLUME], ids=["1d", "2d", "3d"])
@pytest.mark.parametrize("kind", ["ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"])
def test_padding(backend: str, kind: str, x: np.ndarray, torch: Any) -> None:
    name = f"{kind}{x.ndim - 2}d"
    for padding in (1, (1, 2) * (x.ndim - 2)):
        more = (0.5,) if kind == "ConstantPad" else ()
        layer, theirs = getattr(nn, name)(padding, *more), getattr(torch.nn, name)(padding, *more)
        for array in (x, x[0]):
            np.testing.assert_array_equal(host(layer(here(array))), theirs(torch.asarray(array)).numpy())
    assert repr(layer) == repr(theirs).replace("padding=", "")


MAPS = draw(2, 4, 5, 6, 4)
DOUBLE = {"dtype": "float64"}
WITH_PARAMETERS: list[tuple[str, tuple[Any, ...], dict[str, Any], list[np.ndarray], str]] = [
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [MAPS[..., 0, 0]], "Conv1d(4, 6, kernel_size="),
    ("Conv2d", (4, 3, (3, 2)), {"padding": 1, "bias": False}, [MAPS[..., 0]], "Conv2d(4, 3, kernel_size="),
    ("Conv3d", (4, 2, 2), {"dilation": (1, 2, 1)}, [MAPS], "Conv3d(4, 2, kernel_size="),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1, "groups": 2}, [MAPS[..., 0, 0]], "ConvTr"),
    ("ConvTranspose2d", (4, 3, (3, 2)), {"padding": 1, "bias": False}, [MAPS[..., 0]], "ConvTranspose2d(4, 3, kernel"),
    ("ConvTranspose3d", (4, 2, 2), {"dilation": (1, 2, 1)}, [MAPS], "ConvTranspose3d(4, 2, kernel_size="),
    *(("Conv2d", (8, 3, (4, 3)), {"padding_mode": mode, "padding": padding, "dilation": (1, 2)}, [IMAGE],
       f"Conv2d(8, 3, kernel_size=(4, 3), ... padding_mode={mode!r}")
      for mode in ("reflect", "replicate", "circular") for padding in ((1, 2), "same", "valid")),
    ("PReLU", (4, 0.1), {}, [MAPS[..., 0]], "PReLU(num_parameters=4)  # 4 parameters"),
    ("Bilinear", (6, 4, 3), {}, [IMAGE[0], IMAGE[0, ..., :4].copy()], "Bilinear(6, 4, 3)  # 75 parameters"),
    ("Linear", (6, 3), {}, [IMAGE], "Linear(6, 3)  # 21 parameters"),
    ("Linear", (6, 3), {"bias": False}, [IMAGE], "Linear(6, 3, bias=False)"),
    ("LayerNorm", ((6, 6),), {}, [IMAGE], "LayerNorm("), ("LayerNorm", (6,), {"bias": False}, [IMAGE], "LayerNorm("),
    ("RMSNorm", (6,), {}, [IMAGE], "RMSNorm("), ("GroupNorm", (2, 8), {}, [IMAGE], "GroupNorm("),
    ("Embedding", (5, 2), {"padding_idx": -2}, [np.array([[0, 3, 3], [4, 1, 0]])], "Embedding(5, 2, padding_idx=3)"),
    *(("EmbeddingBag", (5, 2), {"mode": "sum", "padding_idx": 1}, arrays,
       "EmbeddingBag(5, 2, padding_idx=1, mode='sum')  # 10 parameters")
      for arrays in ([np.array([[0, 3, 3], [4, 1, 0]])], [np.array([4, 0, 3, 3]), np.array([0, 2])])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sizes", "options", "arrays", "text"), WITH_PARAMETERS, ids=[row[0] for row in WITH_PARAMETERS]
)
def test_layers_with_parameters(
    backend: str, name: str, sizes: Any, options: dict[str, Any], arrays: list[np.ndarray], text: str, torch: Any
) -> None:
    layer = getattr(nn, name)(*sizes, **options, dtype="float64")
    theirs = getattr(torch.nn, name)(*sizes, **options, dtype=torch.float64)
    assert list(layer.state_dict()) == list(theirs.state_dict())
    if name.startswith(("Conv", "Linear", "Bilinear")):
        drawn = [getattr(torch.nn, name)(*sizes, **options).weight.detach().abs().max() for _ in range(20)]
        assert float(abs(host(layer.weight)).max()) <= 1.1 * float(max(drawn))
    assert repr(layer).startswith(text.partition(" ... ")[0]) and text.rpartition(" ... ")[2] in repr(layer)
    check_module(layer, theirs, arrays, modes=False)


def test_the_padding_row_of_an_embedding_is_0() -> None:
    assert not host(nn.Embedding(5, 2, padding_idx=-2).weight)[3].any()


# ------------------------------------------------------------------ running statistics

NORMS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("BatchNorm1d", (5, 4), {"momentum": 0.3}), ("BatchNorm1d", (5, 4), {"momentum": None}),
    ("BatchNorm2d", (3, 4, 3, 2), {"momentum": None}), ("BatchNorm3d", (2, 4, 2, 3, 2), {"momentum": 0.3}),
    *((f"InstanceNorm{n}d", shape[skip:], {"eps": 1e-4, "momentum": 0.3, "affine": on, "track_running_stats": on})
      for n, shape in enumerate([(3, 4, 5), (3, 4, 3, 2), (2, 4, 2, 3, 2)], 1) for skip in (0, 1)
      for on in (False, True)),
]  # fmt: skip


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("name", "shape", "options"), NORMS, ids=str)
def test_running_statistics(
    backend: str, name: str, shape: tuple[int, ...], options: dict[str, Any], jitted: bool, torch: Any
) -> None:
    layer = getattr(nn, name)(4, **options, dtype="float64")
    theirs = getattr(torch.nn, name)(4, **options, dtype=torch.float64)
    step = agrad.jit(layer) if jitted else layer
    for n in range(4):
        x = draw(*shape, seed=n) * 1.5 + 0.5
        close(step(here(x)), theirs(torch.asarray(x)), "the value in training")
        assert set(layer.state_dict()) == set(theirs.state_dict())
        for key, value in theirs.state_dict().items():
            close(layer.state_dict()[key], value, key)
    layer.eval(), theirs.eval()
    for _ in range(2):
        close(layer(here(x)), theirs(torch.asarray(x)), "the value in evaluation")
    tracked = options.get("track_running_stats", True)
    assert [name for name, _ in layer.named_buffers()] == ["running_mean", "running_var"] * tracked


def test_the_mean_over_batches_resumes(backend: str) -> None:
    batches = [draw(5, 4, seed=n) for n in range(4)]
    whole, first, second = (nn.BatchNorm1d(4, momentum=None, dtype="float64") for _ in range(3))
    for x in batches:
        whole(here(x))
    for x in batches[:2]:
        first(here(x))
    second.load_state_dict(first.state_dict())
    step = agrad.jit(second)
    for x in batches[2:]:
        step(here(x))
    close(second.running_mean, np.mean([x.mean(axis=0) for x in batches], axis=0), "the mean")
    close(second.running_var, host(whole.running_var), "the variance")
    assert second.num_batches_tracked == 4 and step.cache_info().misses == 1


TRACKING = [nn.BatchNorm1d, partial(nn.InstanceNorm1d, track_running_stats=True)]


@pytest.mark.parametrize("make", TRACKING)
def test_a_recomputation_changes_no_running_statistics(backend: str, make: Any) -> None:
    layers = [make(3, momentum=0.5, dtype="float64") for _ in range(2)]
    x = here(draw(2, 3, 4))
    for f in (agrad.checkpoint(layers[0]), layers[1]):
        gradient = agrad.grad(lambda x, f=f: agrad.sum(f(x) ** 3))
        gradient(x)
        agrad.jit(gradient)(x)
    all_close(layers[0].state_dict().values(), layers[1].state_dict().values(), rtol=1e-12)


@pytest.mark.parametrize("make", TRACKING)
def test_running_statistics_under_vmap_raise(backend: str, make: Any) -> None:
    layer = make(4, dtype="float64")
    fails(ConfigurationError, "cannot be updated under vmap, because", agrad.vmap(layer), here(draw(2, 3, 4, 5)))
    assert not host(layer.running_mean).any()


# ------------------------------------------------------------------ axes, classes, and kinds of arrays


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("Flatten", (1, -2)), ("Flatten", (0, 2)), ("Flatten", ()), ("Unflatten", (-1, (3, 2))),
        ("Unflatten", (1, (4, 2, 1))), ("Unflatten", (3, (-1, 2))), ("Softmax2d", ()),
    ],
)  # fmt: skip
def test_axes_are_joined_and_split(backend: str, name: str, how: Any, torch: Any) -> None:
    close(getattr(nn, name)(*how)(here(IMAGE)), getattr(torch.nn, name)(*how)(torch.asarray(IMAGE)), name)


def test_one_hot(backend: str, torch: Any) -> None:
    one_hot, numbers = nn.functional.one_hot, np.array([[0, 3], [1, 1]])
    for classes in (-1, 5):
        found = one_hot(here(numbers.astype("uint8")), classes)
        close(found, torch.nn.functional.one_hot(torch.asarray(numbers), classes), "the value")
        assert agrad.int64 == found.dtype
    wide = one_hot(here(np.arange(255, dtype="uint8")), 300)
    np.testing.assert_array_equal(np.argmax(host(wide), axis=1), np.arange(255))
    for mapped in (agrad.vmap(lambda n: one_hot(n, 4)), agrad.jit(lambda n: one_hot(n, 4))):
        close(mapped(here(numbers)), torch.nn.functional.one_hot(torch.asarray(numbers), 4), "mapped or jitted")


def test_results_have_the_kind_of_the_argument(backend: str) -> None:
    x = agrad.asarray(here(draw(4, 3, 2)))
    assert nn.Identity()(x) is nn.Sequential()(x) is x
    for module in (nn.ReLU(), nn.GELU(), nn.Softmax(dim=0), nn.Flatten()):
        assert isinstance(module(x), agrad.Tensor) and not isinstance(module(x.raw), agrad.Tensor)
    for norm in (nn.RMSNorm(2, **DOUBLE), nn.GroupNorm(3, 3, **DOUBLE)):
        assert norm(x.raw).dtype == agrad.float64
    assert nn.Flatten()(here(np.zeros((0, 3, 2)))).shape == (0, 6)
    assert nn.Linear(3, 4).weight.dtype == agrad.float32

"""Functions against PyTorch: values, derivatives in every mode, kinks, and complex input. One row for each call."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from torch_parity import Call, check_call, check_same, here, host

import agrad
from agrad import nn
from agrad.errors import DtypeError

F = nn.functional
RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) * 1.5


def calls(name: str, arrays: list[Any], *options: dict[str, Any], **more: Any) -> list[Call]:
    """Return the calls of a function with the same arrays and each of several options."""
    return [Call(name, arrays, how, **more) for how in options or ({},)]


# ------------------------------------------------------------------ activations

NORMAL = draw(3, 4, 2)
PLAIN = ("relu", "tanh", "sigmoid", "logsigmoid", "selu", "silu", "mish", "softsign", "tanhshrink", "relu6",
         "hardswish", "softplus", "leaky_relu", "elu", "celu", "hardtanh", "hardshrink", "softshrink",
         "gelu")  # fmt: skip
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "gelu": [{"approximate": "tanh"}], "softplus": [{"beta": 3.0, "threshold": 2.0}], "elu": [{"alpha": 0.3}],
    "celu": [{"alpha": 0.25}, {"alpha": 2.0}], "leaky_relu": [{"negative_slope": 0.2}],
    "hardtanh": [{"min_val": -0.5, "max_val": 2.0}], "hardshrink": [{"lambd": 1.0}], "softshrink": [{"lambd": 1.0}],
    "threshold": [{"threshold": 0.2, "value": -3.0}], "softmax": [{"dim": 1}], "log_softmax": [{"dim": -1}],
    "softmin": [{"dim": 0}], "glu": [{"dim": 1}, {}], "normalize": [{}, {"p": 3.0, "dim": -1}],
}  # fmt: skip
ACTIVATIONS = [Call(name, [NORMAL]) for name in PLAIN]
ACTIVATIONS += [Call(name, [NORMAL], how) for name, several in OPTIONS.items() for how in several]
ACTIVATIONS += [Call("prelu", [NORMAL, slopes]) for slopes in (np.array([0.25]), np.linspace(0.1, 0.4, 4))]
ACTIVATIONS += [Call(name, [NORMAL, NORMAL[::-1].copy()]) for name in ("cosine_similarity", "pairwise_distance")]

# ------------------------------------------------------------------ losses

X, Y, Z, W = draw(4, 3), draw(4, 3), draw(4, 3), RNG.uniform(0.5, 2, size=(4, 3))
P, T = RNG.uniform(0.05, 0.95, size=(4, 3)), RNG.uniform(0, 1, size=(4, 3))
SIGNS, ONES = RNG.choice([-1, 1], size=(4, 3)), RNG.integers(0, 2, size=(4, 3))
LABELS, MASKED, HALVES = np.array([0, 2, 1, 2]), np.array([0, -100, 1, 2]), np.array([1, -1, 1, -1])
SEVERAL = np.array([[1, -1, 0], [2, -1, -1], [0, 1, 2], [-1, 1, 1]])
PICTURE, PICTURE_LABELS = draw(2, 3, 2, 2), RNG.integers(0, 3, size=(2, 2, 2))
FREQUENCY, TARGETS = np.array([0.5, 2.0, 1.25]), T / T.sum(axis=1, keepdims=True)
REDUCED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("mse_loss", [X, Y], {}), ("l1_loss", [X, Y], {}), ("huber_loss", [X, Y], {}), ("smooth_l1_loss", [X, Y], {}),
    ("huber_loss", [X, Y], {"delta": 2.5}), ("smooth_l1_loss", [X, Y], {"beta": 0.5}),
    ("smooth_l1_loss", [X, Y], {"beta": 0.0}), ("binary_cross_entropy", [P, T], {}),
    ("binary_cross_entropy", [P, T], {"weight": W}), ("binary_cross_entropy_with_logits", [X, T], {}),
    ("binary_cross_entropy_with_logits", [X, T], {"weight": W, "pos_weight": W[0]}),
    ("kl_div", [np.log(P), T], {}), ("kl_div", [np.log(P), np.log(T)], {"log_target": True}),
    ("gaussian_nll_loss", [X, Y, P], {}), ("gaussian_nll_loss", [X, Y, P[:, 0].copy()], {"full": True}),
    ("gaussian_nll_loss", [X, Y, P], {"eps": 0.5}), ("poisson_nll_loss", [X, 5 * T], {}),
    ("poisson_nll_loss", [X, 5 * T], {"full": True}), ("poisson_nll_loss", [P, 5 * T], {"log_input": False}),
    ("triplet_margin_loss", [X, Y, P], {}), ("triplet_margin_loss", [X, Y, P], {"margin": 4.0, "swap": True}),
    ("triplet_margin_loss", [X, Y, P], {"margin": 4.0, "p": 3.0}),
    ("cosine_embedding_loss", [X, Y, HALVES], {}), ("cosine_embedding_loss", [X, Y, HALVES], {"margin": 0.2}),
]  # fmt: skip
for name in ("cross_entropy", "nll_loss"):
    REDUCED += [
        (name, [X, LABELS], {}), (name, [X, LABELS], {"weight": FREQUENCY}), (name, [X, MASKED], {}),
        (name, [X, MASKED], {"weight": FREQUENCY}), (name, [X, LABELS], {"ignore_index": 2}),
        (name, [PICTURE, PICTURE_LABELS], {}), (name, [X[0], np.array(1)], {}),
        (name, [PICTURE, PICTURE_LABELS], {"weight": FREQUENCY, "ignore_index": 1}),
    ]  # fmt: skip
SMOOTHED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("cross_entropy", [X, LABELS], {"label_smoothing": 0.1}), ("cross_entropy", [X, TARGETS], {}),
    ("cross_entropy", [X, MASKED], {"label_smoothing": 0.1, "weight": FREQUENCY}),
    ("cross_entropy", [X, TARGETS], {"weight": FREQUENCY, "label_smoothing": 0.1}),
    ("cross_entropy", [PICTURE, PICTURE**2], {"weight": FREQUENCY}), ("cross_entropy", [X[0], TARGETS[0]], {}),
]  # fmt: skip
REDUCTIONS: list[dict[str, Any]] = [{}, {"reduction": "sum"}, {"reduction": "none"}]
LOSSES = [Call(name, arrays, how | some) for name, arrays, how in REDUCED + SMOOTHED for some in REDUCTIONS]
LOSSES += [Call("kl_div", [np.log(P), T], {"reduction": "batchmean"})]
MARGINS = [
    Call("margin_ranking_loss", [X, Y, SIGNS], {"margin": 0.5}),
    Call("margin_ranking_loss", [X[0], Y[0], SIGNS[0]], {"reduction": "none"}),
    Call("hinge_embedding_loss", [X, SIGNS], {"margin": 0.7}),
    Call("hinge_embedding_loss", [X, np.where(ONES > 0, SIGNS, 2)], {"reduction": "none"}),
    Call("soft_margin_loss", [X, SIGNS], {"reduction": "sum"}),
    Call("multilabel_soft_margin_loss", [X, ONES], {"weight": FREQUENCY}),
    Call("multilabel_soft_margin_loss", [X[0], ONES[0]], {"reduction": "none"}),
    Call("triplet_margin_with_distance_loss", [X, Y, Z], {"swap": True, "margin": 0.8}),
    *calls("multi_margin_loss", [X, LABELS], {},
           {"p": 2, "margin": 0.6, "weight": FREQUENCY, "reduction": "none"}, smooth=False),
    Call("multi_margin_loss", [X[0], np.array(2)], {"reduction": "sum"}, smooth=False),
    Call("multilabel_margin_loss", [X, SEVERAL], smooth=False),
    Call("multilabel_margin_loss", [X[0], SEVERAL[0]], {"reduction": "none"}, smooth=False),
]  # fmt: skip

# ------------------------------------------------------------------ rows, normalizations, attention

NUMBERS, TABLE, ROWS, WEIGHT = np.array([[0, 3, 3], [4, 1, 0]]), draw(5, 2), draw(2, 4, 3), draw(5, 3)
BAG, STARTS = np.array([4, 0, 3, 3, 1, 2, 0]), np.array([0, 3, 3, 5])
SHIFTED, CHANNELS = draw(3, 4, 5) + 0.5, draw(2, 6, 3, 2) + 0.5
SCALE, SHIFT, AFFINE = draw(6), draw(6), ("weight", "bias")
Q, K, V = draw(2, 3, 5, 4), draw(2, 3, 6, 4), draw(2, 3, 6, 2)
PARTS = [
    *calls("embedding", [NUMBERS, TABLE], {}, {"padding_idx": 3}, {"padding_idx": -5}),
    Call("embedding", [np.array(2), TABLE]), Call("linear", [ROWS, WEIGHT]), Call("linear", [ROWS, WEIGHT, draw(5)]),
    Call("linear", [ROWS, WEIGHT[0]]),
    *(call for mode in ("mean", "sum", "max") for call in [
        *calls("embedding_bag", [BAG, TABLE, STARTS], {"mode": mode}, {"mode": mode, "padding_idx": 3}, smooth=False),
        Call("embedding_bag", [BAG, TABLE, np.append(STARTS, 7)], {"mode": mode, "include_last_offset": True},
             smooth=False),
        Call("embedding_bag", [NUMBERS, TABLE], {"mode": mode, "padding_idx": 0}, smooth=False),
    ]),
    Call("embedding_bag", [BAG, TABLE, STARTS, draw(7)], {"mode": "sum"}, ("per_sample_weights",), smooth=False),
    *(call for shape in [(5,), (4, 5)] for call in [
        Call("layer_norm", [SHIFTED], {"normalized_shape": shape}),
        Call("layer_norm", [SHIFTED, draw(*shape), draw(*shape)], {"normalized_shape": shape}, AFFINE),
        Call("rms_norm", [SHIFTED], {"normalized_shape": shape}),
        Call("rms_norm", [SHIFTED, draw(*shape)], {"normalized_shape": shape}, ("weight",)),
    ]),
    Call("group_norm", [CHANNELS, SCALE, SHIFT], {"num_groups": 3}, AFFINE),
    Call("instance_norm", [CHANNELS, SCALE, SHIFT], {}, AFFINE),
    *calls("local_response_norm", [CHANNELS],
           *({"size": n, "alpha": 0.3, "beta": 0.6, "k": 1.5} for n in (1, 4, 5))),
    Call("batch_norm", [CHANNELS, None, None, SCALE, SHIFT], {"training": True}),
    Call("batch_norm", [CHANNELS, SCALE, SHIFT], {"running_mean": draw(6), "running_var": np.abs(draw(6))}, AFFINE),
    Call("bilinear", [CHANNELS, draw(2, 6, 3, 4), draw(2, 2, 4), draw(2)]),
    Call("bilinear", [CHANNELS[0, 0], CHANNELS[1, 0], draw(1, 2, 2)]),
]  # fmt: skip

# ------------------------------------------------------------------ windows, pixels, padding, pooling

LINE, IMAGE, VOLUME = draw(2, 3, 9), draw(2, 2, 7, 6), draw(1, 2, 5, 4, 6)
WIDE, COLUMNS, NARROW = draw(2, 8, 2, 4), draw(2, 12, 12), IMAGE[..., :2].copy()
SPATIAL = [
    Call("unfold", [IMAGE], {"kernel_size": 2}),
    Call("unfold", [IMAGE[0]], {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (2, 1), "stride": (2, 3)}),
    Call("fold", [COLUMNS], {"output_size": (5, 4), "kernel_size": 2}),
    Call("fold", [COLUMNS[0]], {"output_size": (6, 8), "kernel_size": 2, "dilation": 2, "padding": 1, "stride": 2}),
    Call("pixel_shuffle", [WIDE], {"upscale_factor": 2}), Call("pixel_shuffle", [WIDE[None]], {"upscale_factor": 2}),
    Call("pixel_unshuffle", [WIDE[0]], {"downscale_factor": 2}), Call("channel_shuffle", [WIDE], {"groups": 4}),
    *calls("pad", [LINE], {"pad": (2, 1), "value": 1.5}, {"pad": (3, 5), "mode": "reflect"}),
    *calls("pad", [IMAGE], {"pad": (1, -2, -1, 3)}, {"pad": (-1, -1), "value": 3.0},
           {"pad": (2, -1, 0, 3), "mode": "reflect"}, {"pad": (4, 5, 1, 0), "mode": "circular"}),
    Call("pad", [IMAGE[0]], {"pad": (7, 1, 0, 2), "mode": "replicate"}),
    *calls("pad", [VOLUME], {"pad": (1, 2, 0, 1, 2, 0), "mode": "reflect"},
           {"pad": (1, 2, 3, 1, 2, 0), "mode": "circular"}),
    Call("max_pool1d", [LINE], {"kernel_size": 3}),
    Call("max_pool1d", [LINE[0]], {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}),
    *calls("max_pool2d", [IMAGE], {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1},
           {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
           {"kernel_size": 2, "stride": 3, "ceil_mode": True}),
    Call("max_pool2d", [NARROW], {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    Call("avg_pool2d", [NARROW], {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    Call("max_pool3d", [VOLUME], {"kernel_size": 2}),
    *calls("avg_pool1d", [LINE], {"kernel_size": 4, "stride": 2},
           {"kernel_size": 4, "stride": 3, "padding": 1, "ceil_mode": True}),
    *calls("avg_pool2d", [IMAGE], {"kernel_size": 3, "stride": 2, "padding": 1},
           {"kernel_size": (2, 3), "divisor_override": 5},
           {"kernel_size": 3, "stride": (2, 4), "ceil_mode": True, "divisor_override": 4}),
    Call("avg_pool2d", [IMAGE[0]], {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    *calls("avg_pool3d", [VOLUME], {"kernel_size": 2, "padding": 1, "count_include_pad": False},
           {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
    Call("lp_pool1d", [np.abs(LINE) + 0.1], {"norm_type": 3.0, "kernel_size": 2}),
    Call("lp_pool2d", [IMAGE], {"norm_type": 2, "kernel_size": (2, 3), "stride": 2, "ceil_mode": True}),
    Call("lp_pool3d", [VOLUME], {"norm_type": 2, "kernel_size": 2}),
    Call("adaptive_avg_pool1d", [LINE], {"output_size": 4}), Call("adaptive_max_pool1d", [LINE], {"output_size": 4}),
    Call("adaptive_avg_pool2d", [IMAGE], {"output_size": (3, 4)}),
    Call("adaptive_avg_pool2d", [IMAGE[0]], {"output_size": 1}),
    Call("adaptive_avg_pool3d", [VOLUME], {"output_size": (2, None, 4)}),
    Call("adaptive_max_pool2d", [IMAGE], {"output_size": (3, 8)}),
    Call("adaptive_max_pool3d", [VOLUME], {"output_size": 2}),
]  # fmt: skip

# ------------------------------------------------------------------ convolutions and interpolation

PIXELS, SPACE, SIGNAL = draw(2, 2, 4, 5), draw(1, 2, 3, 4, 3), draw(2, 2, 7)
CONVOLUTIONS = [
    Call("conv1d", [draw(2, 3, 9), draw(4, 3, 3), draw(4)], {"stride": 2, "padding": 1}),
    Call("conv1d", [draw(3, 9), draw(4, 3, 4)], {"padding": "same", "dilation": 2}),
    Call("conv2d", [draw(2, 4, 6, 5), draw(6, 4, 3, 2), draw(6)]),
    Call("conv2d", [draw(2, 4, 6, 5), draw(6, 2, 3, 2)], {"stride": (2, 1), "padding": (1, 2), "groups": 2}),
    Call("conv2d", [draw(1, 4, 7, 8), draw(4, 1, 3, 2)], {"dilation": (2, 3), "groups": 4, "stride": 2}),
    Call("conv2d", [draw(2, 2, 5, 5), draw(3, 2, 5, 4)], {"padding": "valid"}),
    Call("conv3d", [draw(1, 2, 4, 5, 3), draw(2, 2, 2, 3, 2), draw(2)], {"stride": (1, 2, 1), "padding": 1}),
    Call("conv_transpose1d", [draw(2, 3, 5), draw(3, 4, 3), draw(4)], {"stride": 2, "output_padding": 1}),
    Call("conv_transpose2d", [draw(2, 4, 4, 3), draw(4, 3, 3, 2)], {"stride": (2, 3), "padding": 1, "groups": 2}),
    Call("conv_transpose2d", [draw(4, 4, 3), draw(4, 3, 3, 2), draw(3)], {"dilation": (1, 2), "padding": (1, 0)}),
    Call("conv_transpose3d", [draw(1, 2, 3, 2, 3), draw(2, 2, 2, 2, 2)], {"stride": 2}),
]
INTERPOLATIONS = [
    *calls("interpolate", [SIGNAL], {"scale_factor": 2.0}, {"size": 12, "mode": "linear"},
           {"scale_factor": 0.6, "mode": "linear", "align_corners": True}),
    *calls("interpolate", [PIXELS], {"size": (7, 3), "mode": "nearest"},
           {"scale_factor": (2.0, 1.3), "mode": "bilinear", "align_corners": False},
           {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True},
           {"size": (3, 8), "mode": "bicubic", "align_corners": True}, {"size": (9, 3), "mode": "bicubic"},
           {"size": (2, 7), "mode": "bilinear", "antialias": True},
           {"size": (3, 2), "mode": "bicubic", "antialias": True}, {"size": (3, 7), "mode": "area"}),
    *calls("interpolate", [SPACE], {"scale_factor": 1.7, "mode": "nearest-exact"},
           {"size": (5, 2, 4), "mode": "trilinear"}),
    *(Call("grid_sample", [x, grid], {"mode": mode, "padding_mode": padding, "align_corners": align}, smooth=False)
      for x, grid, modes in ((PIXELS, RNG.uniform(-1.6, 1.6, size=(2, 3, 5, 2)), ("bilinear", "nearest", "bicubic")),
                             (SPACE, RNG.uniform(-1.6, 1.6, size=(1, 2, 3, 2, 3)), ("bilinear", "nearest")))
      for mode in modes
      for padding, align in (("zeros", False), ("border", True), ("reflection", False), ("reflection", True))),
    *(Call("affine_grid", [theta], {"size": size, "align_corners": align}) for align in (False, True)
      for theta, size in ((draw(2, 2, 3), (2, 3, 4, 5)), (draw(1, 3, 4), (1, 1, 2, 3, 4)))),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize(
    "call",
    [*ACTIVATIONS, *LOSSES, *MARGINS, *PARTS, *SPATIAL, *CONVOLUTIONS, *INTERPOLATIONS],
    ids=lambda call: call.name,
)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


# ------------------------------------------------------------------ kinks and extreme values

FAR = np.array([-1000.0, -800.0, -40.0, -1e-9, 1e-9, 40.0, 800.0, 1000.0])
KINKS: dict[str, list[float]] = {
    "hardtanh": [-1.0, 1.0], "relu6": [6.0], "hardswish": [-3.0, 3.0],
    "hardshrink": [-0.5, 0.5], "softshrink": [-0.5, 0.5],
}  # fmt: skip
ZEROS = [np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 2.0]])]
SAME = np.zeros((2, 3))
EDGES = [
    *(Call(name, [FAR]) for name in PLAIN),
    *(Call(name, [np.array([0.0, *KINKS.get(name, [])])], smooth=False) for name in PLAIN),
    Call("normalize", ZEROS[:1], smooth=False), Call("cosine_similarity", ZEROS, smooth=False),
    Call("l1_loss", [np.array([1.0, 2.0]), np.array([1.0, 3.0])], smooth=False),
    Call("huber_loss", [np.array([1.0, 0.0, 1e200]), np.array([0.0, 0.0, -1e200])], smooth=False),
    Call("smooth_l1_loss", [np.array([1.0, 0.0]), np.array([0.0, 0.0])], smooth=False),
    Call("binary_cross_entropy_with_logits", [np.array([-1000.0, 1000.0, 0.0]), np.array([1.0, 0.0, 0.5])]),
    Call("cross_entropy", [np.array([[1000.0, -1000.0, 0.0]]), np.array([1])]),
    Call("margin_ranking_loss", [SAME, SAME, np.ones((2, 3), int)], smooth=False),
    Call("hinge_embedding_loss", [SAME + 1, -np.ones((2, 3), int)], smooth=False),
    Call("multi_margin_loss", [np.array([[2.0, 1.0, 1.0]]), np.array([0])], smooth=False),
    Call("multilabel_margin_loss", [np.array([[2.0, 1.0]]), np.array([[0, -1]])], smooth=False),
    Call("max_pool2d", [np.ones((1, 1, 4, 4))], {"kernel_size": 2}, smooth=False),
    *(Call(f"adaptive_max_pool{len(shape) - 2}d", [RNG.integers(0, 2, size=shape).astype(float)], {"output_size": 2},
           smooth=False) for shape in ((2, 1, 9), (2, 1, 7, 6), (1, 2, 5, 4, 6))),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", EDGES, ids=lambda call: call.name)
def test_at_kinks_and_extreme_values(backend: str, call: Call) -> None:
    with np.errstate(all="ignore"):
        check_call(call, modes=False)


@pytest.mark.parametrize("x", [NORMAL, np.array([-1000.0, -3.0, 0.0, 3.0, 1000.0])], ids=["normal", "far"])
def test_hardsigmoid(backend: str, x: np.ndarray, torch: Any) -> None:
    # the derivative of PyTorch's hardsigmoid is a sixth in single precision
    check_same(F.hardsigmoid, lambda x: torch.nn.functional.relu6(x + 3) / 6, [x], smooth=x is NORMAL)


@pytest.mark.parametrize("name", PLAIN)
def test_second_derivatives_are_finite_and_nan_is_kept(backend: str, name: str) -> None:
    f = getattr(F, name)
    x = here(np.concatenate([FAR, [0.0], KINKS.get(name, [])]))
    second = agrad.grad(lambda x: agrad.sum(agrad.grad(lambda x: agrad.sum(f(x)))(x)))(x)
    assert np.all(np.isfinite(host(second)))
    with np.errstate(invalid="ignore"):
        assert np.isnan(host(f(here(np.array([np.nan]))))[0])


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("triplet_margin_loss", [Y, P]), ("cosine_embedding_loss", [Y, -np.ones(4)]),
        ("margin_ranking_loss", [Y, np.ones((4, 3))]), ("hinge_embedding_loss", [-np.ones((4, 3))]),
    ],
)  # fmt: skip
def test_losses_of_nan_are_nan(backend: str, name: str, arrays: list[np.ndarray]) -> None:
    x = X.copy()
    x[0, 0] = np.nan
    assert np.isnan(host(getattr(F, name)(*map(here, [x, *arrays]))))


# ------------------------------------------------------------------ complex input

ANALYTIC = """glu log_softmax normalize pairwise_distance sigmoid silu softmax softmin softsign tanh tanhshrink
    triplet_margin_loss""".split()  # noqa: SIM905
"""Functions whose formula holds for complex numbers."""
REAL = [call for call in ACTIVATIONS + LOSSES if call.function not in ANALYTIC]


@pytest.mark.parametrize("call", [*REAL, Call("hardsigmoid", [NORMAL])], ids=lambda call: call.name)
def test_complex_input_raises(backend: str, call: Call) -> None:
    x, *others = call.arrays
    options = {name: here(a) if isinstance(a, np.ndarray) else a for name, a in call.options.items()}
    fails(DtypeError, "must be real", getattr(F, call.function), here(x * (1 + 0.5j)), *map(here, others), **options)


def test_silu_of_complex_input(backend: str) -> None:
    z = np.array([0.5 + 1j, -2 - 0.25j])
    np.testing.assert_allclose(host(F.silu(here(z))), z / (1 + np.exp(-z)), rtol=1e-14)

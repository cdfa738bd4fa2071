"""Wrong calls of functions and layers: their errors, by tables of calls."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from refusals import refuses
from torch_parity import here

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, IndexRangeError, OperandError, ShapeError
from agrad.nn import init

F = nn.functional
RNG = np.random.default_rng(1)
X, LABELS, ONES = RNG.normal(size=(4, 3)), np.array([0, 2, 1, 2]), np.ones((4, 3), int)
LINE, IMAGE, COLUMNS = np.ones((2, 3, 6)), RNG.normal(size=(2, 3, 5, 6)), np.ones((2, 12, 12))
Q, K, V, TAKEN = np.ones((2, 3, 5, 4)), np.ones((2, 3, 6, 4)), np.ones((2, 3, 6, 2)), np.ones((5, 6), bool)
NUMBERS, TABLE, BAG, STARTS = np.array([[0, 3, 3], [4, 1, 0]]), np.ones((5, 2)), np.array([4, 0, 3]), np.array([0, 2])
STEPS, TARGETS = np.log(np.full((7, 3, 5), 0.2)), np.array([[1, 1, 3, 0], [2, 4, 2, 4], [3, 0, 0, 0]])
INPUTS, COUNTS = np.array([7, 7, 4]), np.array([3, 4, 1])
GRID = np.zeros((2, 3, 5, 2))


def of_zeros(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.zeros(shape) for shape in shapes]


Row = tuple[type[Exception], str, str, list[Any], dict[str, Any]]
FUNCTIONS: list[Row] = [
    (ShapeError, "glu: axis -2 of x must have an even length, got shape (3, 5, 2)", "glu", of_zeros((3, 5, 2)),
     {"dim": -2}),
    (ShapeError, "prelu: weight must have shape (1,) or (4,), ... got (3,)", "prelu", of_zeros((3, 4, 2), (3,)), {}),
    (ConfigurationError, "'none' or 'tanh'", "gelu", [X], {"approximate": "erf"}),
    (ConfigurationError, "min_val", "hardtanh", [X, 1.0, -1.0], {}),
    (ConfigurationError, "beta", "softplus", [X], {"beta": 0}),
    (ConfigurationError, "alpha", "celu", [X], {"alpha": 0}),
    (ConfigurationError, "lambd", "softshrink", [X], {"lambd": -1}),
    (ShapeError, "must fit into an input of (5, 6) with padding (0, 0)", "unfold", [IMAGE, 7], {}),
    (ShapeError, "must have shape (n, c * 4, 16) or (c * 4, 16), got (2, 12, 12)", "fold", [COLUMNS, (5, 5), 2], {}),
    *((ShapeError, name, name, [IMAGE, 2], {}) for name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")),
    *((ConfigurationError, name, name, [IMAGE, 0], {}) for name in ("pixel_shuffle", "pixel_unshuffle",
                                                                    "channel_shuffle")),
    (DtypeError, "one_hot: x must have an integer dtype, got", "one_hot", [IMAGE], {}),
    # attention
    (ShapeError, "arrays must have shapes (..., l, e)", "scaled_dot_product_attention", [Q, K[..., :3], V], {}),
    (ShapeError, "arrays must have shapes (..., l, e)", "scaled_dot_product_attention", [Q, K, V[:, :, :3]], {}),
    (ShapeError, "must have shapes that broadcast", "scaled_dot_product_attention", [Q, K[:, :2], V], {}),
    (ShapeError, "must have shapes that broadcast", "scaled_dot_product_attention", [Q, K, V, TAKEN[:4]], {}),
    (ShapeError, "multiple", "scaled_dot_product_attention", [Q, K[:, :2], V[:, :2]], {"enable_gqa": True}),
    (DtypeError, "real", "scaled_dot_product_attention", [Q + 0j, K, V], {}),
    (DtypeError, "real floating", "scaled_dot_product_attention", [np.ones((2, 4), int), K, V], {"scale": 1.0}),
    (DtypeError, "attn_mask", "scaled_dot_product_attention", [Q, K, V, TAKEN.astype(int)], {}),
    (ConfigurationError, "attn_mask must be None if is_causal=True", "scaled_dot_product_attention",
     [Q, K, V, TAKEN], {"is_causal": True}),
    (ConfigurationError, "dropout_p", "scaled_dot_product_attention", [Q, K, V], {"dropout_p": 1.5}),
    # convolutions, padding and pooling
    (ShapeError, "must have 2 channels, got 3 in shape (1, 3, 5, 5)", "conv2d",
     of_zeros((1, 3, 5, 5), (2, 2, 3, 3)), {}),
    (ShapeError, "must fit into the padded", "conv2d", of_zeros((1, 2, 2, 5), (2, 2, 3, 3)), {}),
    (ShapeError, "spatial axes", "conv2d", of_zeros((1, 2, 5), (2, 2, 3, 3, 3)), {}),
    (ShapeError, "multiple", "conv2d", of_zeros((1, 4, 5, 5), (3, 2, 3, 3)), {"groups": 2}),
    (ConfigurationError, "stride", "conv2d", of_zeros((1, 2, 5, 5), (2, 2, 3, 3)), {"stride": 0}),
    (ConfigurationError, "padding", "conv2d", of_zeros((1, 2, 5, 5), (2, 2, 3, 3)), {"padding": (1, 2, 3)}),
    (ConfigurationError, "same", "conv2d", of_zeros((1, 2, 5, 5), (2, 2, 3, 3)), {"padding": "same", "stride": 2}),
    (DtypeError, "floating", "conv1d", [np.zeros((1, 1, 3), int), np.zeros((1, 1, 1))], {}),
    (DtypeError, "conv1d: input and weight must have the same dtype, got", "conv1d",
     [np.zeros((1, 1, 3), "float32"), np.zeros((1, 1, 1))], {}),
    (ShapeError, "lengths of the result must be at least 0, got (-1, 5)", "conv_transpose2d",
     of_zeros((2, 3, 1, 4), (3, 2, 1, 2)), {"padding": (1, 0)}),
    (ShapeError, "7 elements", "pad", [LINE, (6, 0), "reflect"], {}),
    (ShapeError, "7 elements", "pad", [LINE, (0, 7), "circular"], {}),
    (ShapeError, "not remove", "pad", [LINE, (-4, -3), "constant"], {}),
    (ShapeError, "not remove", "pad", [LINE, (0, 0, -4, 1), "replicate"], {}),
    (ShapeError, "1 elements", "pad", [LINE, (0, 0, -3, 1), "replicate"], {}),
    *((ConfigurationError, "pad: ", "pad", [LINE], how) for how in [
        {"pad": (1, 1), "mode": "mirror"}, {"pad": (1, 1), "mode": "reflect", "value": 2.0}, {"pad": (1,)},
        {"pad": 1}, {"pad": (1,) * 8}]),
    (ConfigurationError, "norm_type", "lp_pool1d", [LINE, 0, 2], {}),
    (ConfigurationError, "padding", "max_pool2d", [IMAGE, 2], {"padding": 2}),
    (ConfigurationError, "avg_pool2d: divisor_override must not be 0", "avg_pool2d", [IMAGE, 2],
     {"divisor_override": 0}),
    (ShapeError, "must fit into an input of (5, 6) with padding (0, 0)", "avg_pool2d", [IMAGE, 9], {}),
    (ShapeError, "spatial axes", "max_pool2d", [LINE[0], 2], {}),
    (ConfigurationError, "output_size", "adaptive_avg_pool2d", [IMAGE, (1, 2, 3)], {}),
    (DtypeError, "real", "max_pool1d", [LINE * 1j, 2], {}),
    # dropout
    (ConfigurationError, "tau", "gumbel_softmax", [X, 0.0], {}),
    (ConfigurationError, "lower", "rrelu", [X, 0.5, 0.1], {}),
    *((error, f"{name}: {text}", name, [array], {**how, "training": True})
      for name, shape in [("dropout", (4, 6)), ("dropout1d", (6, 3, 2)), ("dropout2d", (4, 6, 3, 2)),
                          ("dropout3d", (4, 6, 3, 2)), ("alpha_dropout", (4, 6)),
                          ("feature_alpha_dropout", (4, 6, 3, 2))]
      for error, text, array, how in [
          (ConfigurationError, "p must be a number from 0 to 1, got 1.5", np.ones(shape), {"p": 1.5}),
          (DtypeError, "x must have a floating-point dtype, got", np.ones(shape, int), {})]),
    *((ShapeError, name, name, [np.ones(3)], {}) for name in ("dropout1d", "dropout2d", "dropout3d",
                                                             "feature_alpha_dropout")),
    # rows
    *((error, "embedding_bag", "embedding_bag", arrays, how) for error, arrays, how in [
        (ShapeError, [BAG, TABLE], {}), (ShapeError, [NUMBERS, TABLE, STARTS], {}),
        (ConfigurationError, [BAG, TABLE, STARTS], {"mode": "min"}),
        (ConfigurationError, [BAG, TABLE, STARTS], {"per_sample_weights": np.ones(3)})]),
    (DtypeError, "embedding", "embedding", [np.array([1.0]), TABLE], {}),
    (ShapeError, "embedding", "embedding", [NUMBERS, TABLE[0]], {}),
    (ConfigurationError, "embedding", "embedding", [NUMBERS, TABLE], {"padding_idx": 5}),
    # interpolation
    *((ConfigurationError, "interpolate", "interpolate", [IMAGE], how) for how in [
        {}, {"size": 3, "scale_factor": 2.0}, {"size": (3, 3, 3)}, {"size": 0}, {"size": 2.5}, {"scale_factor": 0.1},
        {"size": 3, "mode": "cubic"}, {"size": 3, "align_corners": True}, {"size": 3, "antialias": True},
        {"size": 3, "recompute_scale_factor": True}]),
    *((ShapeError, "spatial axes", "interpolate", [IMAGE, 3], {"mode": mode}) for mode in ("linear", "trilinear")),
    (ShapeError, "grid_sample: input and grid must have shapes", "grid_sample", [IMAGE, GRID[:1]], {}),
    *((ConfigurationError, "grid_sample", "grid_sample", [IMAGE, GRID], how) for how in [
        {"mode": "cubic"}, {"padding_mode": "constant"}]),
    (ShapeError, "affine_grid: theta and size must be of shape", "affine_grid", [np.ones((2, 2, 2)), (2, 1, 3, 3)], {}),
    # losses
    *((ShapeError, f"{name}: ... must have the same shape, got (4, 3) and (4, 1)", name, [X, X[:, :1]], {})
      for name in ("mse_loss", "l1_loss", "huber_loss", "kl_div", "binary_cross_entropy", "poisson_nll_loss")),
    (ShapeError, "must have shape (4,), got (2,)", "cross_entropy", [X, LABELS[:2]], {}),
    (DtypeError, "cross_entropy: labels must have an integer dtype, got", "cross_entropy", [X, LABELS * 1.0], {}),
    (ConfigurationError, "'mean', 'sum', 'none', got 'average'", "l1_loss", [X, X], {"reduction": "average"}),
    (ConfigurationError, "delta", "huber_loss", [X, X], {"delta": 0}),
    (ConfigurationError, "beta", "smooth_l1_loss", [X, X], {"beta": -1}),
    (ConfigurationError, "label_smoothing", "cross_entropy", [X, LABELS], {"label_smoothing": 2}),
    (ShapeError, "cross_entropy: weight must have shape (3,), ... got (4,)", "cross_entropy", [X, LABELS],
     {"weight": np.ones(4)}),
    (ShapeError, "nll_loss: weight must have shape (3,), one value per class, got (2,)", "nll_loss", [X, LABELS * 0],
     {"weight": np.ones(2)}),
    (DtypeError, "mse_loss: arrays must be real, got", "mse_loss", [X + 1j, X + 0j], {}),
    (ShapeError, "multi_margin_loss: scores must have shape", "multi_margin_loss", [X, LABELS[:2]], {}),
    (DtypeError, "multilabel_margin_loss: labels must have an integer dtype, got", "multilabel_margin_loss",
     [X, ONES * 1.0], {}),
    (ConfigurationError, "multi_margin_loss: p must be 1 or 2, got 3", "multi_margin_loss", [X, LABELS], {"p": 3}),
    (ConfigurationError, "triplet_margin_with_distance_loss: margin must be greater than 0",
     "triplet_margin_with_distance_loss", [X, X, X], {"margin": 0.0}),
    (ShapeError, "soft_margin_loss", "soft_margin_loss", [X, ONES[:, :1]], {}),
    *((error, "ctc_loss", "ctc_loss", arrays, how) for error, arrays, how in [
        (ShapeError, [STEPS[0, 0], TARGETS, INPUTS, COUNTS], {}),
        (ShapeError, [STEPS, TARGETS[:2], INPUTS, COUNTS], {}),
        (ShapeError, [STEPS, TARGETS, INPUTS[:2], COUNTS], {}), (ShapeError, [STEPS, TARGETS[0], INPUTS, COUNTS], {}),
        (DtypeError, [STEPS, TARGETS * 1.0, INPUTS, COUNTS], {}),
        (ConfigurationError, [STEPS, TARGETS, INPUTS, COUNTS], {"blank": 5})]),
    # normalizations
    (ShapeError, "must end with the normalized shape (4,), got (2, 3, 6)", "layer_norm", [LINE, (4,)], {}),
    (ConfigurationError, "num_groups", "group_norm", [IMAGE, 2], {}),
    (ConfigurationError, "running_mean", "batch_norm", [IMAGE], {}),
    (ShapeError, "more than one value", "instance_norm", [X], {}),
    (ConfigurationError, "use_input_stats", "instance_norm", [IMAGE], {"use_input_stats": False}),
    (ShapeError, "local_response_norm", "local_response_norm", [X, 2], {}),
]  # fmt: skip
ON_NUMPY: list[Row] = [
    *((OperandError, "embedding", "embedding", [np.array([n]), TABLE], {}) for n in (5, -1)),
    (OperandError, "the first offset", "embedding_bag", [BAG, TABLE, STARTS + 1], {}),
    (OperandError, "one_hot: the classes must be from 0 to", "one_hot", [np.array([0, 4]), 4], {}),
    (OperandError, "one_hot: the classes must be from 0 to", "one_hot", [np.array([-1, 2]), -1], {}),
    *((OperandError, "multi_margin_loss: the classes must be from 0 to 2, got", "multi_margin_loss",
       [X, np.array([0, 1, 2, n])], {}) for n in (3, -1)),
    *((IndexRangeError, "labels must be from 0 to 2, got -1. Pass ignore_index=-1", name,
       [X, np.array([0, 2, -1, 1])], how) for name, how in [
        ("nll_loss", {}), ("cross_entropy", {"weight": np.ones(3)}), ("cross_entropy", {"label_smoothing": 0.1})]),
    *((OperandError, f"{name}: labels must be an array of class labels, got list", name, [X, [0, 1, 2, 0]], {})
      for name in ("cross_entropy", "nll_loss")),
    (OperandError, "probabilities must be from 0 to 1, got 0.5 to 1.5. ..._with_logits", "binary_cross_entropy",
     [X * 0 + np.array([0.5, 1.5, 0.5]), X], {}),
    (OperandError, "ctc_loss", "ctc_loss", [STEPS, TARGETS, INPUTS + 1, COUNTS], {}),
    (OperandError, "ctc_loss", "ctc_loss", [STEPS, TARGETS, INPUTS, COUNTS + 1], {}),
]  # fmt: skip
"""Calls whose arrays must be read, which happens only on NumPy."""


def moved(value: Any) -> Any:
    return here(value) if isinstance(value, np.ndarray) else value


def called(name: str, arguments: list[Any], options: dict[str, Any]) -> Callable[[], Any]:
    return lambda: getattr(F, name)(*map(moved, arguments), **{k: moved(v) for k, v in options.items()})


test_functions = refuses([(*row[:2], called(*row[2:])) for row in FUNCTIONS], everywhere=True)
test_functions_on_numpy = refuses([(*row[:2], called(*row[2:])) for row in ON_NUMPY])


@np.errstate(all="ignore")
def test_an_ignored_index_may_be_out_of_range() -> None:
    wrong = np.array([0, 2, -1, 1])
    assert all(np.isfinite(getattr(F, name)(X, wrong, ignore_index=-1)) for name in ("nll_loss", "cross_entropy"))
    assert np.isfinite(F.cross_entropy(X, wrong, ignore_index=-1, label_smoothing=0.1))


# ------------------------------------------------------------------ layers, modules, and values of parameters

ROW, SQUARE = nn.Parameter(np.ones(3)), nn.Parameter(np.ones((3, 3)))


def attend(length: int = 5, **masks: Any) -> Any:
    x, values = here(np.ones((5, 2, 8))), here(np.ones((length, 2, 8)))
    masks = {name: moved(mask) for name, mask in masks.items()}
    return nn.MultiheadAttention(8, 2, dtype="float64")(x, x, values, **masks)


def lstm(shape: tuple[int, ...], *states: tuple[int, ...], **lengths: Any) -> Any:
    state = (tuple(here(np.ones(s)) for s in states),) if states else ()
    return nn.LSTM(3, 5, dtype="float64")(here(np.ones(shape)), *state, **{k: here(v) for k, v in lengths.items()})


def normalized(layer: Any, *shape: int) -> Any:
    return layer(here(np.ones(shape)))


test_layers = refuses([
    (ConfigurationError, "num_parameters", lambda: nn.PReLU(0)),
    *((ShapeError, "the length of axis 3 of shape (2, 3, 5, 6) as its product",
       lambda split=split: nn.Unflatten(3, split)(here(IMAGE))) for split in [(4, 2), (-1, 4), (-1, -1), (-2, -3), ()]),
    (ShapeError, "Flatten: end_dim must be an axis of x, got 4 for shape (2, 3, 5, 6)",
     lambda: nn.Flatten(1, 4)(here(IMAGE))),
    (ShapeError, "Flatten: start_dim must be at most 1, got 2 for shape (2, 3, 5, 6)",
     lambda: nn.Flatten(2, 1)(here(IMAGE))),
    (ShapeError, "Flatten: start_dim must be an axis of x, got 1 for shape ()",
     lambda: nn.Flatten()(here(np.array(1.0)))),
    (ShapeError, "bilinear: x1, x2 and weight must have shapes",
     lambda: nn.Bilinear(6, 4, 3, dtype="float64")(here(IMAGE), here(IMAGE))),
    (ShapeError, "Linear(3, 4): input must have shape (..., 3), got (2, 5)",
     lambda: nn.Linear(3, 4)(here(np.ones((2, 5), "float32")))),
    (ShapeError, "arrays must have shapes (l, n, 8)", lambda: attend(6)),
    (ShapeError, "key_padding_mask", lambda: attend(key_padding_mask=np.ones((2, 6), bool))),
    (ShapeError, "attn_mask", lambda: attend(attn_mask=TAKEN)),
    (DtypeError, "attn_mask must be Boolean", lambda: attend(attn_mask=np.ones((5, 5), int))),
    (ConfigurationError, "multiple", lambda: nn.MultiheadAttention(8, 3)),
    (ConfigurationError, "multiples of groups=2", lambda: nn.Conv2d(3, 4, 3, groups=2)),
    (ConfigurationError, "padding_mode must be one of ..., got 'no'", lambda: nn.Conv1d(1, 1, 3, padding_mode="no")),
    (ConfigurationError, "ZeroPad2d: padding must be an int or 4 ints, got (1, 2)", lambda: nn.ZeroPad2d((1, 2))),
    *((ShapeError, f"{kind}Pad{n}d: x must have shape",
       lambda kind=kind, n=n: getattr(nn, f"{kind}Pad{n}d")(1, *((0.5,) * (kind == "Constant")))(here(np.ones(4))))
      for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3)),
    (ConfigurationError, "AlphaDropout: p", lambda: nn.AlphaDropout(-1)),
    (ConfigurationError, "from 0 to 1", lambda: nn.Dropout(1.5)),
    (ConfigurationError, "from 0 to 1", lambda: nn.Dropout(math.nan)),
    (ConfigurationError, "padding_idx", lambda: nn.Embedding(3, 2, padding_idx=3)),
    (ConfigurationError, "batchmean", lambda: nn.KLDivLoss("average")),
    (ConfigurationError, "reduction", lambda: nn.SoftMarginLoss("average")),
    (ShapeError, "more than one value", lambda: normalized(nn.BatchNorm1d(4, dtype="float64"), 1, 4)),
    (ShapeError, "axes", lambda: normalized(nn.BatchNorm1d(4, dtype="float64"), 4)),
    (ConfigurationError, "momentum", lambda: nn.BatchNorm2d(3, momentum=2.0)),
    (ConfigurationError, "GroupNorm: num_channels must be a multiple of num_groups=4", lambda: nn.GroupNorm(4, 6)),
    (ConfigurationError, "momentum", lambda: nn.InstanceNorm2d(3, momentum=None)),
    (ShapeError, "InstanceNorm2d: x must have 3 channels, got shape (2, 6, 3, 2)",
     lambda: normalized(nn.InstanceNorm2d(3), 2, 6, 3, 2)),
    (ShapeError, "InstanceNorm1d: x must have 2 or 3 axes, got shape (2, 6, 3, 2)",
     lambda: normalized(nn.InstanceNorm1d(6), 2, 6, 3, 2)),
    (ShapeError, "(l, n, 3)", lambda: lstm((4, 2, 4))),
    (ShapeError, "the state must have shape (1, 2, 5) and (1, 2, 5)", lambda: lstm((4, 2, 3), (1, 2, 5), (1, 2, 4))),
    (ShapeError, "the state must have shape (1, 2, 5) and (1, 2, 5)", lambda: lstm((4, 2, 3), (1, 2, 5))),
    (ShapeError, "with l of at least 1, or without n, got (0, 2, 3)", lambda: lstm((0, 2, 3))),
    (ShapeError, "lengths", lambda: lstm((4, 2, 3), lengths=np.array([1, 2, 3]))),
    (DtypeError, "integers", lambda: lstm((4, 2, 3), lengths=np.array([1.0, 2.0]))),
    (ShapeError, "LSTMCell: x must have shape (n, 3) or (3,), got (4, 2, 3)",
     lambda: nn.LSTMCell(3, 5, dtype="float64")(here(np.ones((4, 2, 3))))),
    (ShapeError, "GRUCell: the state must have shape (2, 5), got [(2, 4)]",
     lambda: nn.GRUCell(3, 5, dtype="float64")(here(np.ones((2, 3))), here(np.ones((2, 4))))),
    (ConfigurationError, "nonlinearity", lambda: nn.RNN(3, 5, nonlinearity="sin")),
    (ConfigurationError, "num_layers", lambda: nn.RNN(3, 5, num_layers=0)),
    (ConfigurationError, "Dropout", lambda: nn.RNN(3, 5, dropout=2.0)),
    (ConfigurationError, "proj_size", lambda: nn.LSTM(3, 5, proj_size=5)),
    (ConfigurationError, "activation", lambda: nn.TransformerEncoderLayer(8, 2, activation="sine")),
    (ConfigurationError, "activation", lambda: nn.TransformerEncoderLayer(8, 2, activation=None)),
    (ConfigurationError, "num_layers", lambda: nn.TransformerEncoder(nn.Linear(2, 2), 0)),
    (ConfigurationError, "a Module", lambda: nn.TransformerDecoder(nn.Linear, 2)),
], everywhere=True)  # fmt: skip

test_modules = refuses([
    (ConfigurationError, "from 1 to 4",
     lambda: nn.RNN(3, 5, dtype="float64", backend="numpy")(np.ones((4, 2, 3)), lengths=np.array([4, 5]))),
    (ConfigurationError, "in_features", lambda: nn.Linear(0, 3)),
    (ConfigurationError, "out_features", lambda: nn.Linear(3, 2.5)),
    (OperandError, "default_rng", lambda: nn.Linear(3, 2, rng=np.random.RandomState(0))),
    (ConfigurationError, "entry 1 must be a Module, got builtin", lambda: nn.Sequential(nn.ReLU(), abs)),
    (ConfigurationError, "manual_seed: seed must be an integer of at least 0", lambda: nn.manual_seed(-1)),
    (ConfigurationError, "manual_seed: seed must be an integer of at least 0", lambda: nn.manual_seed("one")),
    (ConfigurationError, "Module does not define forward(self, x)", lambda: nn.Module()(1)),
    (ConfigurationError, "ModuleList does not define forward(self, x)", lambda: nn.ModuleList([nn.ReLU()])(1)),
    (ConfigurationError, "ModuleList: entry 1 must be a Module, got int", lambda: nn.ModuleList([nn.ReLU(), 1])),
    (ConfigurationError, "ModuleDict: entry a must be a Module, got int", lambda: nn.ModuleDict({"a": 1})),
    (ConfigurationError, "keys must be strings without a dot", lambda: nn.ModuleDict({"a.b": nn.ReLU()})),
    (OperandError, "ModuleList: modules must be a list, got ReLU", lambda: nn.ModuleList(nn.ReLU())),
    (IndexError, "ModuleList: index 1 is out of range for 1 entries", lambda: nn.ModuleList([nn.ReLU()])[1]),
    (IndexError, "Sequential: index -1 is out of range for 0 entries", lambda: nn.Sequential().pop()),
    (KeyError, "the key must be one of 'a', got 'b'", lambda: nn.ModuleDict({"a": nn.ReLU()})["b"]),
    (AttributeError, "Sequential has no attribute 'weight'", lambda: nn.Sequential().weight),
    (ConfigurationError, "no module 'x'... are: '', '0'", lambda: nn.Sequential(nn.ReLU()).get_submodule("x")),
    (ConfigurationError, "ReLU has no parameter 'w'. Its names are: none", lambda: nn.ReLU().get_parameter("w")),
    (ConfigurationError, "already has an attribute 'forward'", lambda: nn.ReLU().add_module("forward", nn.ReLU())),
    (ConfigurationError, "strings without a dot", lambda: nn.ReLU().register_buffer("a.b", np.ones(1))),
    (OperandError, "a: module must be a Module, got int", lambda: nn.ReLU().add_module("a", 1)),
    (OperandError, "a: param must be a Tensor, got ndarray", lambda: nn.ReLU().register_parameter("a", np.ones(1))),
    (DtypeError, "must have a floating-point dtype", lambda: nn.Parameter(np.ones(2, int))),
    (DtypeError, "does not support the dtype 'bfloat16'", lambda: nn.PReLU(backend="numpy").bfloat16()),
    (OperandError, "load_state_dict: state must be a dict", lambda: nn.PReLU().load_state_dict([1])),
    (OperandError, "state must be a dict of", lambda: nn.load_torch_state_dict(nn.PReLU(), [1])),
    (OperandError, "module must be an agrad Module, got int", lambda: nn.torch_state_dict(3)),
    (ConfigurationError, "one dtype", lambda: nn.ReLU().to("float32", "float64")),
    (OperandError, "a hook must be a function, got int", lambda: nn.ReLU().register_forward_hook(1)),
    (OperandError, "summary: model must be a Module, got function", lambda: nn.summary(lambda x: x, (2,))),
    (ConfigurationError, "arrays or shapes (tuples of int), got 'a'", lambda: nn.summary(nn.ReLU(), "a")),
    (ConfigurationError, "inputs must be arrays or shapes ..., got 1.5", lambda: nn.summary(nn.ReLU(), (1.5, 2))),
    # values of parameters
    (ShapeError, "two axes", lambda: init.xavier_normal_(ROW)),
    (ShapeError, "two axes", lambda: init.xavier_normal((3,))),
    (ShapeError, "eye_: tensor must be a matrix, got shape (3,)", lambda: init.eye_(ROW)),
    (ShapeError, "sparse_: tensor must be a matrix", lambda: init.sparse_(ROW, 0.5)),
    (ShapeError, "3 to 5 axes", lambda: init.dirac_(SQUARE)),
    (ShapeError, "at least two axes", lambda: init.orthogonal_(ROW)),
    (OperandError, "zeros_: tensor must be a leaf Tensor", lambda: init.zeros_(ROW * 2)),
    (OperandError, "tensor must be a leaf Tensor, such as a parameter, got", lambda: init.ones_(np.ones(3))),
    (OperandError, "kaiming_normal_: tensor must be a leaf Tensor, ... got 3", lambda: init.kaiming_normal_(3)),
    (DtypeError, "must have a floating-point dtype, got int64", lambda: init.normal_(agrad.asarray([1, 2]))),
    (ConfigurationError, "max_norm must be a number of at least 0", lambda: nn.utils.clip_grad_norm_([], "x")),
    (ConfigurationError, "got 'swish'", lambda: init.calculate_gain("swish")),
    (ConfigurationError, "got 'in'", lambda: init.kaiming_normal_(SQUARE, mode="in")),
    (ConfigurationError, "a must be less than b", lambda: init.trunc_normal_(ROW, a=2.0)),
    (ConfigurationError, "parameters must not be empty", lambda: nn.utils.parameters_to_vector([])),
    (ConfigurationError, "clip_value must be a number of at least 0", lambda: nn.utils.clip_grad_value_([], -1)),
    (ConfigurationError, "greater than 0 or math.inf, got 0", lambda: nn.utils.clip_grad_norm_([], 1.0, 0)),
])  # fmt: skip

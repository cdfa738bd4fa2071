"""Losses against PyTorch's: values, derivatives in every mode, every option, and the modules."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, IndexRangeError, OperandError, ShapeError

F = nn.functional
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(4, 3)) * 2, RNG.normal(size=(4, 3)) * 2
P, T = RNG.uniform(0.05, 0.95, size=(4, 3)), RNG.uniform(0, 1, size=(4, 3))
W = RNG.uniform(0.5, 2, size=(4, 3))
REDUCTIONS: list[dict[str, Any]] = [{}, {"reduction": "sum"}, {"reduction": "none"}]
ELEMENTWISE: list[Call] = [
    Call(name, arrays, options | reduction)
    for name, arrays, options in [
        ("mse_loss", [X, Y], {}),
        ("l1_loss", [X, Y], {}),
        ("huber_loss", [X, Y], {}),
        ("huber_loss", [X, Y], {"delta": 2.5}),
        ("smooth_l1_loss", [X, Y], {}),
        ("smooth_l1_loss", [X, Y], {"beta": 0.5}),
        ("smooth_l1_loss", [X, Y], {"beta": 0.0}),
        ("binary_cross_entropy", [P, T], {}),
        ("binary_cross_entropy", [P, T], {"weight": W}),
        ("binary_cross_entropy_with_logits", [X, T], {}),
        ("binary_cross_entropy_with_logits", [X, T], {"weight": W, "pos_weight": W[0]}),
        ("kl_div", [np.log(P), T], {}),
        ("kl_div", [np.log(P), np.log(T)], {"log_target": True}),
        ("gaussian_nll_loss", [X, Y, P], {}),
        ("gaussian_nll_loss", [X, Y, P[:, 0].copy()], {"full": True}),
        ("gaussian_nll_loss", [X, Y, P], {"eps": 0.5}),
        ("poisson_nll_loss", [X, 5 * T], {}),
        ("poisson_nll_loss", [X, 5 * T], {"full": True}),
        ("poisson_nll_loss", [P, 5 * T], {"log_input": False}),
        ("triplet_margin_loss", [X, Y, P], {}),
        ("triplet_margin_loss", [X, Y, P], {"margin": 4.0, "swap": True}),
        ("triplet_margin_loss", [X, Y, P], {"margin": 4.0, "p": 3.0}),
        ("cosine_embedding_loss", [X, Y, np.array([1, -1, 1, -1])], {}),
        ("cosine_embedding_loss", [X, Y, np.array([1, -1, 1, -1])], {"margin": 0.2}),
    ]
    for reduction in REDUCTIONS
] + [Call("kl_div", [np.log(P), T], {"reduction": "batchmean"})]

LABELS, MASKED = np.array([0, 2, 1, 2]), np.array([0, -100, 1, 2])
IMAGE, IMAGE_LABELS = RNG.normal(size=(2, 3, 2, 2)), RNG.integers(0, 3, size=(2, 2, 2))
FREQUENCY = np.array([0.5, 2.0, 1.25])
CLASSES = [
    Call(name, arrays, options | reduction)
    for name in ("cross_entropy", "nll_loss")
    for arrays, options in [
        ([X, LABELS], {}),
        ([X, LABELS], {"weight": FREQUENCY}),
        ([X, MASKED], {}),
        ([X, MASKED], {"weight": FREQUENCY}),
        ([X, LABELS], {"ignore_index": 2}),
        ([IMAGE, IMAGE_LABELS], {}),
        ([IMAGE, IMAGE_LABELS], {"weight": FREQUENCY, "ignore_index": 1}),
        ([X[0], np.array(1)], {}),
    ]
    for reduction in REDUCTIONS
]
TARGETS = T / T.sum(axis=1, keepdims=True)
SMOOTHED = [
    Call("cross_entropy", arrays, options | reduction)
    for arrays, options in [
        ([X, LABELS], {"label_smoothing": 0.1}),
        ([X, MASKED], {"label_smoothing": 0.1, "weight": FREQUENCY}),
        ([X, TARGETS], {}),
        ([X, TARGETS], {"weight": FREQUENCY, "label_smoothing": 0.1}),
        ([IMAGE, IMAGE**2], {"weight": FREQUENCY}),
        ([X[0], TARGETS[0]], {}),
    ]
    for reduction in REDUCTIONS
]


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("call", ELEMENTWISE + CLASSES + SMOOTHED, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


EDGES = [
    Call("l1_loss", [np.array([1.0, 2.0]), np.array([1.0, 3.0])], smooth=False),
    Call("huber_loss", [np.array([1.0, 0.0, 1e200]), np.array([0.0, 0.0, -1e200])], smooth=False),
    Call("smooth_l1_loss", [np.array([1.0, 0.0]), np.array([0.0, 0.0])], smooth=False),
    Call("binary_cross_entropy_with_logits", [np.array([-1000.0, 1000.0, 0.0]), np.array([1.0, 0.0, 0.5])]),
    Call("cross_entropy", [np.array([[1000.0, -1000.0, 0.0]]), np.array([1])]),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", EDGES, ids=lambda call: call.name)
def test_at_edges(backend: str, call: Call) -> None:
    with np.errstate(all="ignore"):
        check_call(call, modes=False)


def test_probabilities_of_0_and_1(backend: str) -> None:
    x, target = here(np.array([0.0, 1.0, 1e-60, 0.0, 1.0])), here(np.array([0.0, 1.0, 1.0, 1.0, 0.0]))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            host(F.binary_cross_entropy(x, target, reduction="none")), [0.0, 0.0, 100.0, 100.0, 100.0]
        )
        g = agrad.grad(lambda x: F.binary_cross_entropy(x, target, reduction="sum"))(x)
    np.testing.assert_allclose(host(g), [1.0, -1.0, -1e12, -1e12, 1e12])


def test_targets_of_zero_probability(backend: str) -> None:
    x, target = np.log(P), np.where(T > 0.5, 0.0, T)
    g = agrad.grad(lambda x: F.kl_div(x, here(target), reduction="sum"))(here(x))
    np.testing.assert_allclose(host(g), -target, rtol=1e-12)


def test_no_label_left_is_nan(backend: str) -> None:
    with np.errstate(invalid="ignore"):
        value = host(F.cross_entropy(here(X), here(np.full(4, -100))))
    assert np.isnan(value)
    g = agrad.grad(lambda x: F.cross_entropy(x, here(np.full(4, -100)), reduction="sum"))(here(X))
    np.testing.assert_array_equal(host(g), 0)


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_small_labels(backend: str, dtype: str) -> None:
    expected = F.cross_entropy(here(X), here(LABELS))
    np.testing.assert_allclose(host(F.cross_entropy(here(X), here(LABELS.astype(dtype)))), host(expected))


def test_weights_are_buffers(backend: str) -> None:
    place = agrad.zeros((1,))
    frequency = agrad.asarray(FREQUENCY, backend=place.backend, device=place.device)
    module = nn.CrossEntropyLoss(frequency, ignore_index=0)
    assert list(module.state_dict()) == ["weight"]
    assert module.parameters() == []
    expected = F.cross_entropy(here(X), here(LABELS), weight=here(FREQUENCY), ignore_index=0)
    np.testing.assert_allclose(host(module(here(X), here(LABELS))), host(expected))
    assert repr(module) == "CrossEntropyLoss(reduction='mean', ignore_index=0, label_smoothing=0.0)"


def test_errors_name_the_remedy(backend: str) -> None:
    x = here(X)
    for name in ("mse_loss", "l1_loss", "huber_loss", "kl_div", "binary_cross_entropy", "poisson_nll_loss"):
        with pytest.raises(ShapeError, match=rf"{name}: .* must have the same shape, got \(4, 3\) and \(4, 1\)"):
            getattr(F, name)(x, here(Y[:, :1]))
    with pytest.raises(ShapeError, match=r"must have shape \(4,\), got \(2,\)"):
        F.cross_entropy(x, here(LABELS[:2]))
    with pytest.raises(DtypeError, match="cross_entropy: labels must have an integer dtype, got"):
        F.cross_entropy(x, here(LABELS.astype("float64")))
    with pytest.raises(ConfigurationError, match="'mean', 'sum', 'none', got 'average'"):
        F.l1_loss(x, x, reduction="average")
    with pytest.raises(ConfigurationError, match="batchmean"):
        nn.KLDivLoss("average")
    for name, options in (("huber_loss", {"delta": 0}), ("smooth_l1_loss", {"beta": -1})):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            getattr(F, name)(x, x, **options)
    with pytest.raises(ConfigurationError, match="label_smoothing"):
        F.cross_entropy(x, here(LABELS), label_smoothing=2)
    with pytest.raises(ShapeError, match=r"cross_entropy: weight must have shape \(3,\), .* got \(4,\)"):
        F.cross_entropy(x, here(LABELS), weight=here(np.ones(4)))
    with pytest.raises(ShapeError, match=r"nll_loss: weight must have shape \(3,\), one value per class, got \(2,\)"):
        F.nll_loss(x, here(LABELS * 0), weight=here(np.ones(2)))
    with pytest.raises(DtypeError, match="mse_loss: arrays must be real, got"):
        F.mse_loss(here(X + 1j), here(Y + 0j))


def test_numbers_that_are_no_labels_or_probabilities() -> None:
    wrong = np.array([0, 2, -1, 1])
    for call in (
        lambda **options: F.nll_loss(X, wrong, **options),
        lambda **options: F.cross_entropy(X, wrong, weight=FREQUENCY, **options),
        lambda **options: F.cross_entropy(X, wrong, label_smoothing=0.1, **options),
    ):
        with pytest.raises(IndexRangeError, match=r"labels must be from 0 to 2, got -1\. Pass ignore_index=-1"):
            call()
        assert np.isfinite(call(ignore_index=-1))
    for name in ("cross_entropy", "nll_loss"):
        with pytest.raises(OperandError, match=f"{name}: labels must be an array of class labels, got list"):
            getattr(F, name)(X, [0, 1, 2, 0])
    with pytest.raises(OperandError, match=r"probabilities must be from 0 to 1, got 0\.5 to 1\.5\. .*_with_logits"):
        F.binary_cross_entropy(P * 0 + np.array([0.5, 1.5, 0.5]), T)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.triplet_margin_loss(x, here(Y), here(P)),
        lambda x: F.cosine_embedding_loss(x, here(Y), here(-np.ones(4))),
        lambda x: F.margin_ranking_loss(x, here(Y), here(np.ones((4, 3)))),
        lambda x: F.hinge_embedding_loss(x, here(-np.ones((4, 3)))),
    ],
)
def test_nan_does_not_count_as_no_loss(backend: str, loss: Any) -> None:
    x = X.copy()
    x[0, 0] = np.nan
    assert np.isnan(host(loss(here(x))))

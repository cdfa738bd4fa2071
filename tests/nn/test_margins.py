"""Losses of margins and of alignments against PyTorch's: values, derivatives in every mode, and the modules."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, check_same, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError

F = nn.functional
RNG = np.random.default_rng(25)
X, Y, Z = RNG.normal(size=(3, 4, 5))
SIGNS, ONES = RNG.choice([-1, 1], size=(4, 5)), RNG.integers(0, 2, size=(4, 5))
LABELS = np.array([0, 4, 2, 2])
SEVERAL = np.array([[1, 3, -1, 0, 2], [4, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 3, 3, 3, 3]])
WEIGHT = RNG.uniform(0.5, 2.0, size=5)
CALLS = [
    Call("margin_ranking_loss", [X, Y, SIGNS], {"margin": 0.5}),
    Call("margin_ranking_loss", [X[0], Y[0], SIGNS[0]], {"reduction": "none"}),
    Call("hinge_embedding_loss", [X, SIGNS], {"margin": 0.7}),
    Call("hinge_embedding_loss", [X, np.where(ONES > 0, SIGNS, 2)], {"reduction": "none"}),
    Call("soft_margin_loss", [X, SIGNS], {"reduction": "sum"}),
    Call("multi_margin_loss", [X, LABELS], {}, smooth=False),
    Call(
        "multi_margin_loss", [X, LABELS], {"p": 2, "margin": 0.6, "weight": WEIGHT, "reduction": "none"}, smooth=False
    ),
    Call("multi_margin_loss", [X[0], np.array(3)], {"reduction": "sum"}, smooth=False),
    Call("multilabel_margin_loss", [X, SEVERAL], {}, smooth=False),
    Call("multilabel_margin_loss", [X[0], SEVERAL[0]], {"reduction": "none"}, smooth=False),
    Call("multilabel_soft_margin_loss", [X, ONES], {"weight": WEIGHT}),
    Call("multilabel_soft_margin_loss", [X[0], ONES[0]], {"reduction": "none"}),
    Call("triplet_margin_with_distance_loss", [X, Y, Z], {"swap": True, "margin": 0.8}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
def test_at_kinks(backend: str) -> None:
    zero, one, sign = np.zeros((2, 3)), np.ones((2, 3)), np.ones((2, 3), int)
    for call in (
        Call("margin_ranking_loss", [zero, zero, sign], smooth=False),
        Call("hinge_embedding_loss", [one, -sign], smooth=False),
        Call("multi_margin_loss", [np.array([[2.0, 1.0, 1.0]]), np.array([0])], smooth=False),
        Call("multilabel_margin_loss", [np.array([[2.0, 1.0]]), np.array([[0, -1]])], smooth=False),
    ):
        check_call(call, modes=False)
    far = F.soft_margin_loss(here(np.array([1e3, -1e3])), here(np.array([1, 1])), reduction="none")
    np.testing.assert_array_equal(host(far), [0.0, 1e3])


def test_a_distance_of_ones_own(backend: str) -> None:
    def distance(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.abs(a - b), axis=-1)

    loss = nn.TripletMarginWithDistanceLoss(distance_function=distance, reduction="none")
    expected = np.maximum(np.abs(X - Y).sum(axis=1) - np.abs(X - Z).sum(axis=1) + 1, 0)
    np.testing.assert_allclose(host(loss(*map(agrad.asarray, map(here, (X, Y, Z))))), expected)


def test_refusals(backend: str) -> None:
    x = here(X)
    with pytest.raises(ShapeError, match="multi_margin_loss: scores must have shape"):
        F.multi_margin_loss(x, here(LABELS[:2]))
    with pytest.raises(DtypeError, match="multilabel_margin_loss: labels must have an integer dtype, got"):
        F.multilabel_margin_loss(x, here(ONES * 1.0))
    with pytest.raises(ConfigurationError, match="multi_margin_loss: p must be 1 or 2, got 3"):
        F.multi_margin_loss(x, here(LABELS), p=3)
    with pytest.raises(ConfigurationError, match="triplet_margin_with_distance_loss: margin must be greater than 0"):
        F.triplet_margin_with_distance_loss(x, x, x, margin=0.0)
    with pytest.raises(ShapeError, match="soft_margin_loss"):
        F.soft_margin_loss(x, here(SIGNS[:, :1]))
    with pytest.raises(ConfigurationError, match="reduction"):
        nn.SoftMarginLoss("average")


def test_labels_that_are_no_class() -> None:
    for labels in (np.array([0, 1, 2, 5]), np.array([0, -1, 2, 3])):
        with pytest.raises(OperandError, match="multi_margin_loss: the classes must be from 0 to 4, got"):
            F.multi_margin_loss(X, labels)


# ------------------------------------------------------------------ alignments

STEPS = RNG.normal(size=(7, 3, 5))
TARGETS = np.array([[1, 1, 3, 0], [2, 4, 2, 4], [3, 0, 0, 0]])
INPUTS, COUNTS = np.array([7, 7, 4]), np.array([3, 4, 1])


def of_logits(loss: Any, softmax: Any, *more: Any, **how: Any) -> Any:
    return lambda x: loss(softmax(x, -1), *more, **how)


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("targets", "counts", "how"),
    [
        (TARGETS, COUNTS, {}), (TARGETS, COUNTS, {"reduction": "none"}), (TARGETS + 1, COUNTS, {"blank": 2}),
        (np.array([1, 1, 3, 2, 4, 2, 4, 3]), COUNTS, {"reduction": "sum"}),
        (TARGETS + (TARGETS == 0), np.array([0, 4, 2]), {"reduction": "none"}),
    ],
)  # fmt: skip
def test_ctc_loss(backend: str, targets: np.ndarray, counts: np.ndarray, how: dict[str, Any]) -> None:
    import torch

    targets = np.where(targets == how.get("blank", 0), 0, targets % 5) if targets.ndim == 2 else targets
    theirs = of_logits(
        torch.nn.functional.ctc_loss, torch.nn.functional.log_softmax, torch.asarray(targets), torch.asarray(INPUTS),
        torch.asarray(counts), **how,
    )  # fmt: skip
    mine = of_logits(F.ctc_loss, F.log_softmax, here(targets), tuple(INPUTS.tolist()), here(counts), **how)
    check_same(mine, theirs, [STEPS], smooth=False)


@pytest.mark.needs("torch")
def test_ctc_loss_of_one_row_and_of_few_steps(backend: str) -> None:
    import torch

    theirs = of_logits(torch.nn.functional.ctc_loss, torch.nn.functional.log_softmax, torch.asarray(TARGETS[0, :3]),
                       torch.tensor(6), torch.tensor(3), reduction="none")  # fmt: skip
    mine = of_logits(F.ctc_loss, F.log_softmax, here(TARGETS[0, :3]), 6, 3, reduction="none")
    check_same(mine, theirs, [STEPS[:, 0]], smooth=False)
    how = {"reduction": "none", "zero_infinity": True}
    short = (here(TARGETS), here(np.array([3, 7, 1])), here(COUNTS))
    close(F.ctc_loss(here(STEPS), *short, reduction="none")[0], np.array(np.inf), "no alignment")
    theirs = of_logits(torch.nn.functional.ctc_loss, torch.nn.functional.log_softmax,
                       *(torch.asarray(a) for a in (TARGETS, np.array([3, 7, 1]), COUNTS)), **how)  # fmt: skip
    check_same(of_logits(F.ctc_loss, F.log_softmax, *short, **how), theirs, [STEPS], smooth=False)
    slope = agrad.grad(lambda x: agrad.sum(F.ctc_loss(x, *short)))(here(STEPS))
    assert not np.all(np.isfinite(host(slope)[:3, 0]))
    assert np.all(np.isfinite(host(slope)[:, 1]))


def test_derivatives_of_ctc_loss(backend: str) -> None:
    """The derivative is that by the logarithms themselves, and there is a second one."""
    from agrad import testing

    x = here(STEPS[:4, :2, :4])
    rest = (here(TARGETS[:2, :2] % 4), (4, 3), (2, 1))
    testing.check_grads(lambda x: F.ctc_loss(x, *rest), (x,), order=2)


@pytest.mark.needs("torch")
def test_the_module_of_ctc_loss() -> None:
    import torch

    log_p = np.log(np.full((7, 3, 5), 0.2))
    theirs = torch.nn.CTCLoss(blank=4)(*map(torch.asarray, (log_p, TARGETS % 4, INPUTS, COUNTS)))
    module = nn.CTCLoss(blank=4)
    close(module(log_p, TARGETS % 4, INPUTS, COUNTS), theirs, "the value")
    assert repr(module) == "CTCLoss(reduction='mean', blank=4, zero_infinity=False)"
    for arrays, how, error in (
        ((log_p[0, 0], TARGETS, INPUTS, COUNTS), {}, ShapeError),
        ((log_p, TARGETS[:2], INPUTS, COUNTS), {}, ShapeError),
        ((log_p, TARGETS, INPUTS[:2], COUNTS), {}, ShapeError), ((log_p, TARGETS[0], INPUTS, COUNTS), {}, ShapeError),
        ((log_p, TARGETS * 1.0, INPUTS, COUNTS), {}, DtypeError),
        ((log_p, TARGETS, INPUTS, COUNTS), {"blank": 5}, ConfigurationError),
        ((log_p, TARGETS, INPUTS + 1, COUNTS), {}, OperandError),
        ((log_p, TARGETS, INPUTS, COUNTS + 1), {}, OperandError),
    ):  # fmt: skip
        with pytest.raises(error, match="ctc_loss"):
            F.ctc_loss(*arrays, **how)

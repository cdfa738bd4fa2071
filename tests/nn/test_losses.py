"""Losses: values at the edges of their domains, ignored labels, one instruction under jit, and CTC."""

from typing import Any

import numpy as np
import pytest
from tensors import all_close
from torch_parity import check_same, close, here, host

import agrad
from agrad import nn, optim, testing

F = nn.functional
RNG = np.random.default_rng(25)
X, Y, Z = RNG.normal(size=(3, 4, 3))
P, T = RNG.uniform(0.05, 0.95, size=(4, 3)), RNG.uniform(0, 1, size=(4, 3))
LABELS, FREQUENCY = np.array([0, 2, 1, 2]), np.array([0.5, 2.0, 1.25])


def test_probabilities_of_0_and_1(backend: str) -> None:
    x, target = here(np.array([0.0, 1.0, 1e-60, 0.0, 1.0])), here(np.array([0.0, 1.0, 1.0, 1.0, 0.0]))
    with np.errstate(divide="ignore"):
        found = F.binary_cross_entropy(x, target, reduction="none")
        g = agrad.grad(lambda x: F.binary_cross_entropy(x, target, reduction="sum"))(x)
    np.testing.assert_allclose(host(found), [0.0, 0.0, 100.0, 100.0, 100.0])
    np.testing.assert_allclose(host(g), [1.0, -1.0, -1e12, -1e12, 1e12])


def test_targets_of_zero_probability(backend: str) -> None:
    x, target = np.log(P), np.where(T > 0.5, 0.0, T)
    g = agrad.grad(lambda x: F.kl_div(x, here(target), reduction="sum"))(here(x))
    np.testing.assert_allclose(host(g), -target, rtol=1e-12)


def test_edges_of_margins_and_labels(backend: str) -> None:
    far = F.soft_margin_loss(here(np.array([1e3, -1e3])), here(np.array([1, 1])), reduction="none")
    np.testing.assert_array_equal(host(far), [0.0, 1e3])
    small = [host(F.cross_entropy(here(X), here(LABELS.astype(kind)))) for kind in ("int64", "uint8", "int32")]
    np.testing.assert_allclose(small, small[:1] * 3)
    # no label left is NaN
    none = here(np.full(4, -100))
    with np.errstate(invalid="ignore"):
        assert np.isnan(host(F.cross_entropy(here(X), none)))
    g = agrad.grad(lambda x: F.cross_entropy(x, none, reduction="sum"))(here(X))
    np.testing.assert_array_equal(host(g), 0)


def test_weights_are_buffers(backend: str) -> None:
    module = nn.CrossEntropyLoss(agrad.asarray(here(FREQUENCY)), ignore_index=0)
    assert list(module.state_dict()) == ["weight"] and module.parameters() == []
    expected = F.cross_entropy(here(X), here(LABELS), weight=here(FREQUENCY), ignore_index=0)
    np.testing.assert_allclose(host(module(here(X), here(LABELS))), host(expected))
    assert repr(module) == "CrossEntropyLoss(reduction='mean', ignore_index=0, label_smoothing=0.0)"


def test_a_distance_of_ones_own(backend: str) -> None:
    def distance(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.abs(a - b), axis=-1)

    loss = nn.TripletMarginWithDistanceLoss(distance_function=distance, reduction="none")
    expected = np.maximum(np.abs(X - Y).sum(axis=1) - np.abs(X - Z).sum(axis=1) + 1, 0)
    np.testing.assert_allclose(host(loss(*map(agrad.asarray, map(here, (X, Y, Z))))), expected)


# ------------------------------------------------------------------ ignored labels and jit

SCORES = RNG.standard_normal((6, 5)).astype(np.float32)
BATCHES = [np.array([0, 1, 2, 3, 4, 0]), np.array([0, -100, 2, -100, 4, 1]), np.array([-100, 4, 4, 0, 1, -100])]


@pytest.mark.parametrize("wrap", [agrad.asarray, lambda labels: labels], ids=["tensors", "arrays"])
@pytest.mark.parametrize("kind", ["cross_entropy", "nll_loss"])
def test_labels_of_later_calls_may_be_ignored(wrap: Any, kind: str) -> None:
    def value_and_grad(x: Any, labels: Any) -> Any:
        return agrad.value_and_grad(lambda x: getattr(F, kind)(agrad.log_softmax(x), labels))(x)

    jitted = agrad.jit(value_and_grad)
    for labels in map(wrap, BATCHES):
        all_close(jitted(SCORES, labels), value_and_grad(SCORES, labels), rtol=1e-5, atol=1e-7)


def train(jit: bool, rows: int, parts: int) -> list[float]:
    rng = np.random.default_rng(1)
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    def step(*pairs: Any) -> Any:
        total = sum(criterion(model(x), labels) for x, labels in zip(pairs[::2], pairs[1::2], strict=True))
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        return total

    run = agrad.jit(step) if jit else step
    losses = []
    for turn in range(6):
        pairs: list[Any] = []
        for _ in range(parts):
            labels = rng.integers(0, 5, rows)
            labels[turn % rows :: 3] = -100 if rows > 1 and turn > 2 else labels[turn % rows :: 3]
            pairs += [agrad.asarray(rng.standard_normal((rows, 4)).astype(np.float32)), agrad.asarray(labels)]
        losses.append(run(*pairs).item())
    if jit:
        assert "softmax_cross_entropy and its rule" in str(run.lower(*pairs))
    return losses


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (7, 1), (7, 3)])
def test_the_loss_and_its_rule_are_one_instruction(rows: int, parts: int) -> None:
    np.testing.assert_allclose(train(True, rows, parts), train(False, rows, parts), rtol=1e-5)


def test_relu_behind_a_mask_has_no_guard() -> None:
    def loss(x: Any) -> Any:
        return agrad.sum(agrad.where(x > 1, agrad.relu(x), 0.0))

    x = np.asarray([-1.0, 0.0, 0.5, 2.0, np.nan, np.inf])
    gradient = agrad.grad(loss)
    jitted = agrad.jit(gradient)
    assert gradient(x).tolist() == jitted(x).tolist() == [0, 0, 0, 1, 0, 1]
    assert "mask_unused" not in str(jitted.lower(x))


# ------------------------------------------------------------------ alignments

STEPS = RNG.normal(size=(7, 3, 5))
TARGETS = np.array([[1, 1, 3, 0], [2, 4, 2, 4], [3, 0, 0, 0]])
INPUTS, COUNTS = np.array([7, 7, 4]), np.array([3, 4, 1])


TURNED, SHORT = np.array([[0, 0, 4, 1], [3, 0, 3, 0], [4, 1, 1, 1]]), np.array([3, 7, 1])


@pytest.mark.parametrize(
    ("x", "targets", "inputs", "counts", "how"),
    [
        (STEPS, TARGETS, (7, 7, 4), COUNTS, {}),
        (STEPS, TARGETS, INPUTS, COUNTS, {"reduction": "none"}),
        (STEPS, TURNED, (7, 7, 4), COUNTS, {"blank": 2}),
        (STEPS, np.array([1, 1, 3, 2, 4, 2, 4, 3]), INPUTS, COUNTS, {"reduction": "sum"}),
        (STEPS, TARGETS + (TARGETS == 0), INPUTS, np.array([0, 4, 2]), {"reduction": "none"}),
        (STEPS[:, 0], TARGETS[0, :3], 6, 3, {"reduction": "none"}),
        (STEPS, TARGETS, SHORT, COUNTS, {"reduction": "none", "zero_infinity": True}),
    ],
    ids=["mean", "none", "blank", "joined", "empty", "one row", "few steps"],
)
def test_ctc_loss(
    backend: str, x: Any, targets: Any, inputs: Any, counts: Any, how: dict[str, Any], torch: Any
) -> None:
    given = [here(a) if isinstance(a, np.ndarray) else a for a in (targets, inputs, counts)]
    theirs = [torch.asarray(a) for a in (targets, inputs, counts)]
    check_same(
        lambda x: F.ctc_loss(F.log_softmax(x, -1), *given, **how),
        lambda x: torch.nn.functional.ctc_loss(torch.log_softmax(x, -1), *theirs, **how),
        [x],
        smooth=False,
    )


def test_ctc_loss_of_few_steps_is_infinite(backend: str) -> None:
    short = (here(TARGETS), here(SHORT), here(COUNTS))
    close(F.ctc_loss(here(STEPS), *short, reduction="none")[0], np.array(np.inf), "no alignment")
    slope = host(agrad.grad(lambda x: agrad.sum(F.ctc_loss(x, *short)))(here(STEPS)))
    assert not np.all(np.isfinite(slope[:3, 0])) and np.all(np.isfinite(slope[:, 1]))


def test_derivatives_of_ctc_loss(backend: str) -> None:
    """The derivative is that by the logarithms themselves, and there is a second one."""
    x = here(STEPS[:3, :1, :3])
    rest = (here(TARGETS[:1, 1:3] % 3), (3,), (2,))
    testing.check_grads(lambda x: F.ctc_loss(x, *rest), (x,), order=2 if backend == "numpy" else 1, directions=1)


def test_the_module_of_ctc_loss(torch: Any) -> None:
    log_p = np.log(np.full((7, 3, 5), 0.2))
    theirs = torch.nn.CTCLoss(blank=4)(*map(torch.asarray, (log_p, TARGETS % 4, INPUTS, COUNTS)))
    module = nn.CTCLoss(blank=4)
    close(module(log_p, TARGETS % 4, INPUTS, COUNTS), theirs, "the value")
    assert repr(module) == "CTCLoss(reduction='mean', blank=4, zero_infinity=False)"

"""Metrics: values of scikit-learn's functions, sums over batches, on every backend; and shapes that do not fit."""

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.train import metrics

rng = np.random.default_rng(7)
LABELS = rng.integers(0, 4, 90)
SCORES = (rng.normal(size=(90, 4)) + 1.2 * np.eye(4)[LABELS]).astype(np.float32)
TOLD = np.argmax(SCORES, axis=1)
TWO = LABELS > 1
MARGIN = (rng.normal(size=90) + TWO).round(1)
NUMBERS = 1000 + rng.normal(size=(90, 2)).astype(np.float64)
GUESS = NUMBERS + 0.4 * rng.normal(size=(90, 2))


@pytest.mark.needs("sklearn")
def test_the_values_are_those_of_scikit_learn():
    from sklearn import metrics as reference

    assert metrics.accuracy(LABELS, SCORES) == reference.accuracy_score(LABELS, TOLD) == metrics.accuracy(LABELS, TOLD)
    shares = np.exp(SCORES) / np.sum(np.exp(SCORES), axis=1, keepdims=True)
    for k in (1, 2, 3):
        assert metrics.top_k_accuracy(LABELS, SCORES, k) == reference.top_k_accuracy_score(LABELS, SCORES, k=k)
    for average in ("macro", "micro", "weighted"):
        for name in ("precision", "recall", "f1"):
            expected = getattr(reference, f"{name}_score")(LABELS, TOLD, average=average)
            assert getattr(metrics, name)(LABELS, SCORES, average) == pytest.approx(expected, rel=1e-6)
    assert metrics.f1(TWO, MARGIN) == pytest.approx(reference.f1_score(TWO, MARGIN > 0.5), rel=1e-6)
    assert (metrics.confusion_matrix(LABELS, SCORES) == reference.confusion_matrix(LABELS, TOLD)).all()
    assert metrics.roc_auc(TWO, MARGIN) == pytest.approx(reference.roc_auc_score(TWO, MARGIN))
    expected = reference.roc_auc_score(LABELS, shares, multi_class="ovr")
    assert metrics.roc_auc(LABELS, SCORES) == pytest.approx(expected)
    assert metrics.roc_auc(LABELS, shares) == pytest.approx(expected)
    for name in ("r2_score", "mean_squared_error", "mean_absolute_error"):
        assert getattr(metrics, name)(NUMBERS, GUESS) == pytest.approx(getattr(reference, name)(NUMBERS, GUESS))


CASES = [
    (metrics.accuracy, LABELS, SCORES),
    (metrics.accuracy, TWO[:, None].astype(np.float32), MARGIN[:, None].astype(np.float32)),
    (metrics.top_k_accuracy, LABELS, np.concatenate([SCORES, SCORES - 1], axis=1)),
    (metrics.f1, LABELS, SCORES),
    (metrics.mean_squared_error, NUMBERS, GUESS),
    (metrics.mean_absolute_error, NUMBERS[:, :1], GUESS[:, 0]),
    (metrics.r2_score, NUMBERS.astype(np.float32), GUESS.astype(np.float32)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_sums_over_batches_give_the_same_on_every_backend(backend, case):
    function, y_true, y_pred = CASES[case]
    expected = function(y_true, y_pred)
    metric, totals, sizes = metrics.streaming(function, None), [], []
    for start, stop in ((0, 40), (40, 41), (41, 90)):
        here = [agrad.asarray(x[start:stop], backend=backend) for x in (y_true, y_pred)]
        parts = [np.asarray(part.numpy(), np.float64)[None] for part in metric.update(*here)]
        assert len(parts) == metric.parts
        totals.append([np.sum(x, axis=0) for x in metric.terms(parts, np.array([stop - start], np.float64))])
        sizes.append(stop - start)
    sums = [np.sum(column, axis=0) for column in zip(*totals, strict=True)]
    assert metric.result(sums) == pytest.approx(expected, rel=2e-4 if function is metrics.r2_score else 1e-6)


def test_edges_and_thresholds():
    pairs, scores = np.array([[0, 1], [1, 0]]), np.array([[0.2, 0.8], [0.6, 0.7]])
    assert metrics.accuracy(pairs, scores, threshold=0.5) == 0.75 and metrics.accuracy(pairs * 1.0, scores) == 0.5
    assert metrics.accuracy(np.array([1, 0]), np.array([-0.2, -3.0]), threshold=-1.0) == 1.0
    assert np.isnan(metrics.roc_auc([1, 1], [0.2, 0.3])) and metrics.precision([0, 1], [0, 0]) == 0.0
    assert [metrics.r2_score([2.0, 2.0], [2.0, told]) for told in (2.0, 3.0)] == [1.0, 0.0]
    assert metrics.confusion_matrix([0, 1], [0, 0], n_classes=3).tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_what_does_not_fit_is_refused():
    match = r"targets must fit predictions of shape \(90, 2\), got shape \(90,\)"
    fails(ShapeError, match, metrics.mean_squared_error, LABELS, GUESS)
    fails(ShapeError, "must fit scores of shape", lambda: metrics.accuracy(LABELS[:5], SCORES))
    fails(ShapeError, "scores must have shape", lambda: metrics.top_k_accuracy(LABELS, TOLD))
    fails(ShapeError, "got 5 for predictions", lambda: metrics.roc_auc(TWO[:5], MARGIN))
    fails(ConfigurationError, "average must be one of 'auto'", lambda: metrics.f1(LABELS, SCORES, average="binary"))

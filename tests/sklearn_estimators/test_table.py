"""Estimators with the network for tables."""

import numpy as np
import pytest

from agrad.train import tabular

pytest.importorskip("sklearn")
pytestmark = pytest.mark.needs("sklearn")

from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_iris, make_multilabel_classification

from agrad.sklearn import TableClassifier, TableRegressor

X, Y = load_iris(return_X_y=True)
FEW = {"epochs": 10, "random_state": 0}


def test_units_of_inputs_and_targets_change_nothing() -> None:
    A, b = load_diabetes(return_X_y=True)
    model = TableRegressor(**FEW, lr=0.01).fit(A, b)
    other = TableRegressor(**FEW, lr=0.01).fit(A * 1e4 - 3e5, b * 1e-3 + 7)
    np.testing.assert_allclose((other.predict(A * 1e4 - 3e5) - 7) * 1e3, model.predict(A), rtol=1e-4)
    assert 0.3 < model.score(A, b) < 1
    # a mean far from 0 leaves single precision its digits
    far = TableRegressor(**FEW, lr=0.01, dtype="float32").fit(A, b + 1e5)
    assert far.score(A, b + 1e5) == pytest.approx(model.score(A, b), abs=0.05)
    both = TableRegressor(**FEW).fit(A, np.stack([b, -1e6 * b], axis=1))
    assert both.predict(A[:5]).shape == (5, 2) and both.score(A, np.stack([b, -1e6 * b], axis=1)) > 0.3


def test_options_follow_the_examples() -> None:
    model = TableClassifier(**FEW).fit(X, Y)
    expected = tabular.by_rows(150, epochs=10)
    assert model.module_[2].module.ensemble == expected["members"] and model.n_iter_ <= 10
    assert model.module_[2].module.widths[1:-1] == expected["hidden"]
    assert len(model.validation_scores_) == model.n_iter_ and max(model.validation_scores_) < 0
    small = TableClassifier(**FEW).fit(X[40:70], Y[40:70])  # too few to hold some out
    assert small.validation_scores_ is None and small.n_iter_ == 10
    given = TableClassifier(members=3, hidden_layer_sizes=(7,), **FEW).fit(X, Y)
    assert (given.module_[2].module.ensemble, given.module_[2].module.widths[1:-1]) == (3, (7,))


def test_inputs_may_be_sparse_and_the_backend_another(backend: str) -> None:
    model = TableClassifier(**FEW, dtype="float32").fit(csr_array(X), Y)
    assert model.module_.parameters()[0].backend == backend.partition(":")[0]
    dense = TableClassifier(**FEW, dtype="float32").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(csr_array(X)), dense.predict_proba(X), atol=1e-5)


def test_several_labels() -> None:
    A, b = make_multilabel_classification(n_samples=90, random_state=0)
    model = TableClassifier(**FEW).fit(A, b)
    assert model.predict(A).shape == b.shape and model.score(A, b) > 0.2

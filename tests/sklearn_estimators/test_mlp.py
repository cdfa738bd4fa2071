"""The multilayer perceptrons against scikit-learn's of the same parameters, and what they have beyond those."""

from typing import Any

import numpy as np
import pytest
from refusals import fails

from agrad.errors import ConfigurationError, DataError

pytest.importorskip("sklearn")
pytestmark = [
    pytest.mark.needs("sklearn"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

import sklearn.neural_network as theirs
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_iris, make_multilabel_classification

import agrad.sklearn as ours

IRIS = load_iris(return_X_y=True)
TWO = (IRIS[0][:100], np.array(["no", "yes"])[IRIS[1][:100]])
DIABETES = (load_diabetes().data, load_diabetes().target / 100)
SEVERAL = (DIABETES[0], np.stack([DIABETES[1], -DIABETES[1]], axis=1))
LABELS = make_multilabel_classification(n_samples=100, random_state=0)
WEIGHTS = np.linspace(0.5, 2.0, 150)
SGD = {"solver": "sgd", "learning_rate_init": 0.05}

CASES: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("MLPClassifier", IRIS, None, {"hidden_layer_sizes": (8, 5), "batch_size": 40, "activation": "tanh"}),
    ("MLPClassifier", IRIS, WEIGHTS, {"shuffle": False, "activation": "logistic", "alpha": 0.1}),
    ("MLPClassifier", TWO, None, {**SGD, "nesterovs_momentum": False, "early_stopping": True}),
    ("MLPClassifier", IRIS, WEIGHTS, {**SGD, "learning_rate": "invscaling", "momentum": 0.0}),
    ("MLPClassifier", IRIS, WEIGHTS, {**SGD, "batch_size": 20, "early_stopping": True}),
    ("MLPClassifier", LABELS, None, {**SGD, "early_stopping": True}),
    ("MLPClassifier", IRIS, None, {"solver": "lbfgs"}),
    ("MLPClassifier", LABELS, None, {"activation": "identity"}),
    ("MLPRegressor", DIABETES, None, {**SGD, "learning_rate": "adaptive", "momentum": 0.0, "n_iter_no_change": 1}),
    ("MLPRegressor", DIABETES, None, {"loss": "poisson", "hidden_layer_sizes": 7}),
    ("MLPRegressor", SEVERAL, None, SGD),
]


@pytest.mark.parametrize("name,data,weights,options", CASES)
def test_fits_are_those_of_scikit_learn(name: str, data: Any, weights: Any, options: dict[str, Any]) -> None:
    # with a negligible epsilon both forms of Adam are the same
    settings = {"random_state": 3, "max_iter": 12, "epsilon": 1e-30, **options}
    X, y = data
    other = getattr(theirs, name)(**settings).fit(X, y, sample_weight=weights)
    model = getattr(ours, name)(**settings).fit(X, y, sample_weight=weights)
    for a, b in zip(model.coefs_ + model.intercepts_, other.coefs_ + other.intercepts_, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    for attribute in ("n_iter_", "t_", "out_activation_", "n_layers_", "n_outputs_", "n_features_in_"):
        assert getattr(model, attribute) == getattr(other, attribute), attribute
    if data is not SEVERAL:  # scikit-learn's loss is the mean over outputs there, its gradient that of the sum
        np.testing.assert_allclose(model.loss_, other.loss_, rtol=1e-9)
    if options.get("early_stopping"):
        np.testing.assert_allclose(model.validation_scores_, other.validation_scores_, rtol=1e-9)
        assert len(set(model.validation_scores_)) > 1
        assert model.best_validation_score_ == pytest.approx(other.best_validation_score_)
    told = model.predict(X)
    if told.dtype.kind == "f":
        np.testing.assert_allclose(told, other.predict(X), rtol=1e-8)
    else:
        assert np.array_equal(told, other.predict(X)) and told.dtype == other.predict(X).dtype
        np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), rtol=1e-8)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), other.predict_proba(X), rtol=1e-8)


def test_calls_go_on_as_those_of_scikit_learn() -> None:
    X, y = IRIS
    settings = {"random_state": 1, "epsilon": 1e-30, "max_iter": 3}
    models = [module.MLPClassifier(**settings) for module in (ours, theirs)]
    for model in models:
        for part in (slice(0, 60), slice(60, 150)):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
        model.set_params(warm_start=True).fit(X, y)
    np.testing.assert_allclose(models[0].coefs_[0], models[1].coefs_[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(models[0].loss_curve_, models[1].loss_curve_, rtol=1e-9)
    assert models[0].t_ == models[1].t_


def test_the_input_may_be_sparse_and_the_backend_another(backend: str) -> None:
    X, y = IRIS
    plain = ours.MLPClassifier(max_iter=4, random_state=0, backend="numpy").fit(X, y)
    # the fit happens on the selected backend; the results are NumPy's
    model = ours.MLPClassifier(max_iter=4, random_state=0).fit(csr_array(X), y)
    assert model.module_[0].weight.backend == backend.partition(":")[0]
    told = model.predict_proba(csr_array(X))
    assert type(told) is np.ndarray and type(model.predict(X)) is np.ndarray
    np.testing.assert_allclose(told, plain.predict_proba(X), rtol=1e-8)


def test_an_example_of_weight_zero_is_none() -> None:
    X, y = IRIS
    weights = (np.arange(150) % 3 > 0).astype(float)
    kept = weights > 0
    settings = {"max_iter": 4, "random_state": 0}
    weighted = ours.MLPClassifier(**settings).fit(X, y, weights)
    np.testing.assert_allclose(weighted.coefs_[0], ours.MLPClassifier(**settings).fit(X[kept], y[kept]).coefs_[0])
    for wrong in (-weights, 0 * weights, weights[1:], np.stack([weights, weights], axis=1)):
        fails(ValueError, r"ample.weight|ample weights", ours.MLPClassifier(**settings).fit, X, y, wrong)


def test_dropout_acts_in_training_alone() -> None:
    X, y = IRIS
    fits = [ours.MLPClassifier(max_iter=3, random_state=0, dropout=p).fit(X, y) for p in (0.0, 0.5, 0.5)]
    assert np.array_equal(fits[1].coefs_[0], fits[2].coefs_[0])
    assert not np.array_equal(fits[0].coefs_[0], fits[1].coefs_[0])
    assert np.array_equal(fits[1].predict_proba(X), fits[1].predict_proba(X))


def test_single_precision_is_kept_and_views_are_for_reading() -> None:
    X, y = IRIS
    model = ours.MLPClassifier(max_iter=2).fit(X.astype(np.float32), y)
    assert model.coefs_[0].dtype == model.predict_proba(X).dtype == np.float32
    assert ours.MLPClassifier(max_iter=2, dtype="float32").fit(X, y).intercepts_[0].dtype == np.float32
    fails(ValueError, "read-only", model.coefs_[0].__setitem__, (0, 0), 1.0)


def test_scores_of_two_classes_are_positive_for_the_second() -> None:
    X, y = TWO
    model = ours.MLPClassifier(max_iter=40, learning_rate_init=0.02, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (100,) and np.array_equal(model.predict(X) == "yes", scores > 0)
    assert model.score(X, y) > 0.95


def test_data_that_cannot_be_fitted_are_refused() -> None:
    X, y = IRIS
    model, early = ours.MLPClassifier(max_iter=2).fit(X, y), ours.MLPRegressor(early_stopping=True)
    fails(DataError, "classes not in", model.partial_fit, X, y + 1)
    fails(DataError, "same classes", model.set_params(warm_start=True).fit, X[:100], y[:100])
    steep = ours.MLPRegressor(solver="sgd", learning_rate_init=1e6, max_iter=20)
    fails(DataError, r"the loss is (nan|inf) at step . .* scale the data", steep.fit, X * 1e3, y)
    fails(DataError, "requires nonnegative targets", ours.MLPRegressor(loss="poisson").fit, X, y - 1.0)
    fails(DataError, "validation_fraction", early.fit, X[:5], y[:5])
    fails(ConfigurationError, "partial_fit does not support", early.partial_fit, X, y)
    fails(AttributeError, "partial_fit", getattr, ours.MLPRegressor(solver="lbfgs"), "partial_fit")

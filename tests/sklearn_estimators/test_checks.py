"""scikit-learn's own checks of estimators, and its tools around them."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from processes import run_program
from refusals import fails, pattern

from agrad import nn
from agrad.errors import ConfigurationError, OperandError, ShapeError

pytest.importorskip("sklearn")
pytestmark = pytest.mark.needs("sklearn")

from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from agrad import sklearn as ours

X, Y = load_iris(return_X_y=True)


def make(n_features: Any, n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 16), nn.Tanh(), nn.Linear(16, n_outputs))


@pytest.mark.parametrize(
    "estimator",
    [
        ours.MLPClassifier(max_iter=30),
        ours.MLPRegressor(max_iter=30),
        ours.NetworkClassifier(make, lr=0.05, epochs=25),
        ours.NetworkRegressor(make, lr=0.05, epochs=25),
        ours.TableClassifier(members=2, hidden_layer_sizes=(16,), epochs=30),
        ours.TableRegressor(members=2, hidden_layer_sizes=(16,), epochs=40, lr=0.02),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learn_finds_no_fault(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits of few epochs, and what the checks provoke
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert not [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input", "check_array_api_mixed_inputs", "check_array_api_same_namespace"}
    # those of the network for tables accept no weights of examples
    least = 52 if type(estimator).__name__.startswith("Table") else 58
    assert sum(r["status"] == "passed" for r in results) >= least


WRONG: list[tuple[Any, str]] = [
    (ours.MLPClassifier(activation="gelu"), "activation must be one of"),
    (ours.MLPClassifier(alpha=-1), "alpha must be a number of at least 0"),
    (ours.MLPClassifier(beta_1=1.0), "beta_1"),
    (ours.MLPClassifier(hidden_layer_sizes=(3, 0)), "hidden_layer_sizes: each must be an integer"),
    (ours.MLPClassifier(max_iter=True), "max_iter must be an integer"),
    (ours.MLPClassifier(batch_size="all"), "batch_size"),
    (ours.MLPClassifier(dtype="int8"), "dtype must be"),
    (ours.MLPClassifier(learning_rate_init=0), "learning_rate_init must be a number above 0"),
    (ours.NetworkClassifier(), "module must be a Module, or a function of ... got None"),
    (ours.NetworkClassifier(3), "module must be a Module or a function"),
    (ours.NetworkClassifier(lambda n, k: 3), "module must return a Module, got int"),
    (ours.NetworkClassifier(lambda n, k: nn.Linear(n, k + 1)), "shape (n, 3), ... got (128, 4)"),
    (ours.NetworkClassifier(make, optimizer="best"), "optimizer must be one of adadelta"),
    (ours.NetworkClassifier(make, loss="mse"), "loss must be a Module or a function"),
    (ours.NetworkClassifier(make, lr=-1), "lr must be a finite number"),
    (ours.NetworkClassifier(make, epochs=0), "epochs must be an integer of at least 1, got 0"),
    (ours.NetworkClassifier(make, callbacks=[3]), "callbacks must be functions"),
    (ours.TableClassifier(members=0), "members"),
    (ours.TableClassifier(hidden_layer_sizes=(3, 0)), "hidden_layer_sizes: each must be an integer"),
    (ours.TableClassifier(dropout=1.5), "dropout"),
    (ours.TableClassifier(lr=0), "lr must be a number above 0"),
    (ours.TableClassifier(epochs="all"), "epochs"),
    (ours.TableClassifier(batch_size=0), "batch_size"),
    (ours.TableClassifier(n_iter_no_change=0), "n_iter_no_change"),
]


@pytest.mark.parametrize(("model", "text"), WRONG, ids=[text for _, text in WRONG])
def test_settings_that_make_no_sense_are_named(model: Any, text: str) -> None:
    fails((ConfigurationError, OperandError, ShapeError), pattern(text), model.fit, X, Y)
    assert "got (128, 4)" in text or not hasattr(model, "module_")


PROGRAM = """
import sys, warnings
import numpy as np, agrad
agrad.asarray(1.0, backend=sys.argv[1])  # an emulated CUDA looks for NumPy's BLAS before SciPy has loaded its own
import sklearn
from array_api_compat import array_namespace, device
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from agrad.sklearn import MLPClassifier, MLPRegressor
warnings.simplefilter("ignore")
X, y = load_iris(return_X_y=True)
there = lambda a: agrad.asarray(a, backend=sys.argv[1]).raw
sparse_weights = np.arange(150) % 3
for kind, target in ((MLPClassifier, y), (MLPRegressor, X[:, :2] / 2)):
    options = dict(random_state=0, max_iter=8, early_stopping=True)
    plain = kind(**options).fit(X, target, sparse_weights)
    with sklearn.config_context(array_api_dispatch=True):
        model = kind(**options).fit(there(X), there(target), there(sparse_weights))
        told = model.predict(there(X))
        assert type(told) is type(there(X)) and device(told) == device(there(X))
        assert agrad.asarray(model.module_[0].weight).backend == sys.argv[1]
        assert np.allclose(agrad.asarray(told).numpy(), plain.predict(X), atol=1e-9)
        assert abs(float(model.score(there(X), there(target))) - plain.score(X, target)) < 1e-6
        try:
            model.predict(X)
        except ValueError as error:
            assert "same namespace" in str(error)
        else:
            raise AssertionError("arrays of another library are not refused")
        if kind is MLPClassifier:
            shares = model.predict_proba(there(X))
            assert type(shares) is type(told)
            assert np.allclose(agrad.asarray(shares).numpy(), plain.predict_proba(X), atol=1e-9)
"""


@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("torch", "array_api_strict", "cupy")],
)
def test_results_are_of_the_library_of_the_input(library: str) -> None:
    run_program(PROGRAM, library, SCIPY_ARRAY_API="1")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        ours.MLPClassifier(max_iter=60, learning_rate_init=0.02, random_state=0),
        ours.NetworkClassifier(make, lr=0.05, epochs=30),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tools_of_scikit_learn_take_the_classifiers(model: Any) -> None:
    assert cross_val_score(make_pipeline(StandardScaler(), model), X, Y, cv=3).min() > 0.85
    name = "hidden_layer_sizes" if isinstance(model, ours.MLPClassifier) else "batch_size"
    search = GridSearchCV(model, {name: [8, 16]}, cv=2).fit(X, Y)
    assert search.best_params_[name] in (8, 16) and search.best_score_ > 0.85
    A, b = make_classification(n_samples=120, random_state=0)
    stacked = StackingClassifier([("network", model)], LogisticRegression(), cv=2).fit(A, b)
    assert stacked.score(A, b) > 0.9
    told = CalibratedClassifierCV(model, cv=2).fit(A, b).predict_proba(A)
    assert np.mean(told.argmax(axis=1) == b) > 0.9


def test_a_missing_scikit_learn_is_named() -> None:
    text = run_program("""if True:
        import sys
        sys.modules["sklearn"] = None
        try:
            import agrad.sklearn
        except ImportError as error:
            print(error)
    """)
    assert "agrad.sklearn needs scikit-learn, which is not installed. Install it with: pip install 'agrad[s" in text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pickles_go_on_as_the_original_does() -> None:
    joblib = pytest.importorskip("joblib")
    model = ours.MLPClassifier(max_iter=3, dropout=0.3, random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    for _ in range(2):
        model.partial_fit(X, Y)
        again.partial_fit(X, Y)
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert joblib.hash(clone(model).get_params()) == joblib.hash(model.get_params())

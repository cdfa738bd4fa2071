"""Estimators around any network, and with the network for tables."""

from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError
from agrad.train import tabular

pytest.importorskip("sklearn")
pytestmark = pytest.mark.needs("sklearn")

from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_multilabel_classification

from agrad.sklearn import NetworkClassifier, NetworkRegressor, TableClassifier, TableRegressor

X, Y = load_iris(return_X_y=True)
LINE = np.linspace(-1.0, 1.0, 60)[:, None]


def make(n_features: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, n_outputs))


def weights_of(model: Any) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.module_.parameters()])


def test_a_function_a_class_or_a_module_makes_the_network(backend: str) -> None:
    settings = {"lr": 0.05, "epochs": 3, "random_state": 0}
    model = NetworkClassifier(make, **settings).fit(X, Y)
    first = model.module_.parameters()[0]
    assert first.backend == backend.partition(":")[0] and first.dtype.name == "float64"
    assert type(model.predict(X)) is np.ndarray
    linear = NetworkRegressor(nn.Linear, **settings).fit(LINE, 2 * LINE[:, 0])
    assert isinstance(linear.module_, nn.Linear) and linear.predict(LINE).shape == (60,)
    given = nn.Linear(4, 3)
    before = given.state_dict()["weight"]
    tuned = NetworkClassifier(given, **settings).fit(X, Y)
    assert tuned.module_ is not given and np.array_equal(given.state_dict()["weight"], before)
    assert np.abs(tuned.module_.state_dict()["weight"] - before).max() > 1e-3


def test_fits_follow_from_random_state_alone() -> None:
    nn.manual_seed(5)
    before = nn.generator().state()
    a, b, c = (NetworkClassifier(make, epochs=2, random_state=seed).fit(X, Y) for seed in (0, 0, 1))
    assert np.array_equal(weights_of(a), weights_of(b))
    assert not np.array_equal(weights_of(a), weights_of(c))
    assert nn.generator().state() == before
    again = clone(a).fit(X, Y)
    assert np.array_equal(weights_of(again), weights_of(a)) and again.loss_curve_ == a.loss_curve_


def test_sgd_of_a_line_is_the_formula() -> None:
    module = nn.Linear(1, 1, dtype=agrad.float64)
    w, b = module.weight[0, 0].item(), module.bias[0].item()
    y = 3 * LINE[:, 0] - 1
    share = np.linspace(0.0, 2.0, 60)
    settings = {"optimizer": "sgd", "lr": 0.1, "batch_size": 60, "epochs": 2}
    model = NetworkRegressor(module, **settings).fit(LINE, y, share)
    for _ in range(2):
        error = 2 * share * (w * LINE[:, 0] + b - y) / share.sum()
        w, b = w - 0.1 * (error @ LINE[:, 0]), b - 0.1 * error.sum()
    np.testing.assert_allclose(model.predict(LINE), w * LINE[:, 0] + b, rtol=1e-12)
    assert model.n_iter_ == 2 and model.t_ == 2 * 59  # one example has the weight 0


@pytest.mark.parametrize(
    "loss,outputs",
    [(None, 2), (nn.CrossEntropyLoss(label_smoothing=0.1), 2), (nn.functional.cross_entropy, 2), ("logit", 1)],
    ids=["default", "module", "function", "one logit"],
)
def test_losses_of_two_classes(loss: Any, outputs: int) -> None:
    if loss == "logit":

        def loss(output: Any, target: Any) -> Any:
            target = agrad.astype(agrad.asarray(target), output.dtype)[:, None]
            return nn.functional.binary_cross_entropy_with_logits(output, target)

    two = Y < 2
    words = np.array(["a", "b"])[Y[two]]
    model = NetworkClassifier(lambda n, k: nn.Linear(n, outputs), loss=loss, lr=0.05, epochs=30, random_state=0)
    model.fit(X[two], words)
    shares, scores = model.predict_proba(X[two]), model.decision_function(X[two])
    assert shares.shape == (100, 2) and scores.shape == (100,)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(shares[:, 1] / shares[:, 0]), scores, rtol=1e-6)
    assert model.score(X[two], words) > 0.95


def test_several_labels_and_images() -> None:
    A, B = make_multilabel_classification(n_samples=80, n_classes=3, random_state=0)
    model = NetworkClassifier(make, epochs=5, lr=0.05, random_state=0).fit(A, B)
    assert model.predict(A).shape == (80, 3) and set(np.unique(model.predict(A))) == {0, 1}
    digits = load_digits()

    def convolution(shape: tuple[int, ...], classes: int) -> nn.Module:
        assert shape == (1, 8, 8)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, classes))

    images = digits.images[:400, None] / 16
    network = NetworkClassifier(convolution, lr=0.01, epochs=6, batch_size=32, random_state=0, dtype="float32")
    assert network.fit(images, digits.target[:400]).score(images, digits.target[:400]) > 0.85


def test_early_stopping_callbacks_and_more_epochs() -> None:
    seen: list[dict[str, Any]] = []
    settings = {"lr": 0.05, "random_state": 0, "early_stopping": True}
    model = NetworkClassifier(make, epochs=80, n_iter_no_change=3, **settings)
    model.set_params(callbacks=[lambda estimator, record: seen.append(record)]).fit(X, Y)
    assert model.n_iter_ < 80 and [r["epoch"] for r in seen] == list(range(1, model.n_iter_ + 1))
    assert [r["score"] for r in seen] == model.validation_scores_
    assert model.best_validation_score_ == max(model.validation_scores_)
    short = NetworkClassifier(make, epochs=80, lr=0.02, random_state=0)
    short.set_params(callbacks=[lambda estimator, record: record["epoch"] == 2]).fit(X, Y)
    assert short.n_iter_ == 2
    short.set_params(warm_start=True, epochs=1).fit(X, Y).partial_fit(X, Y)
    assert len(short.loss_curve_) == 4 and short.loss_curve_[-1] < short.loss_curve_[0]


def test_a_network_that_cannot_be_traced_is_fitted_too() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return y if float(agrad.mean(y).detach()) > -100 else -y

    model = NetworkRegressor(Reads(), lr=0.1, epochs=100, optimizer="adamw", optimizer_params={"weight_decay": 0.0})
    with pytest.warns(RuntimeWarning, match=r"agrad\.jit cannot trace the training step"):
        model.fit(LINE, LINE[:, 0])
    assert model.score(LINE, LINE[:, 0]) > 0.95
    assert isinstance(model._training.optimizer, optim.AdamW)


def test_weights_need_a_loss_of_each_example() -> None:
    model = NetworkRegressor(nn.Linear, loss=lambda output, target: agrad.mean((output - target) ** 2))
    match = "sample_weight requires a loss that supports reduction='none'"
    fails(ConfigurationError, match, model.fit, LINE, LINE[:, 0], np.ones(60))
    assert model.fit(LINE, LINE[:, 0]).loss_ < 2


# -- the network for tables --

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

"""The Trainer: fit, evaluate and predict, on all backends, for the data that people have; and what it refuses."""

import json
import warnings

import numpy as np
import pytest
from refusals import fails, refuses
from samples import blobs, classifier, line, made, regressor, values

import agrad
from agrad import data, nn, optim, train
from agrad.errors import (
    AnomalyError,
    ConfigurationError,
    DataError,
    DtypeError,
    OperandError,
    ShapeError,
    TracedValueError,
)
from agrad.train import Trainer, metrics

X, y = blobs()
LINE = line()
LINEAR, LOSS = nn.Linear(4, 3), nn.CrossEntropyLoss()
SGD = optim.SGD(LINEAR.parameters())

# -- it learns --


def test_a_classifier_learns_on_every_backend(backend):
    trainer = classifier(lr=0.06)
    history = trainer.fit(X, y, epochs=7, batch_size=8, validation=0.2, progress=False)
    assert [record["epoch"] for record in history] == list(range(1, 8))
    assert history.column("loss")[-1] < 0.6 * history.column("loss")[0]
    assert history.column("val_accuracy") == history.column("validation_accuracy")
    scores = trainer.evaluate(X, y)
    assert scores["accuracy"] > 0.85
    outputs = trainer.predict(X, batch_size=7)
    assert agrad.asarray(outputs).backend == backend and not isinstance(outputs, agrad.Tensor)
    y_pred = np.argmax(agrad.asarray(outputs).numpy(), axis=1)
    assert scores["accuracy"] == pytest.approx(np.mean(y_pred == y))
    # modules are in evaluation meanwhile, and afterwards in the mode that each had
    np.testing.assert_allclose(agrad.asarray(trainer.predict(X)).numpy(), agrad.asarray(outputs).numpy(), rtol=1e-4)
    trainer.model[1].eval()
    trainer.evaluate(X, y)
    assert [module.training for module in trainer.model.modules()] == [True, True, False, True, True]


def test_a_regression_is_fitted():
    X, y = line()
    trainer = regressor(lr=0.1)
    history = trainer.fit(X, y, epochs=60, batch_size=16, progress=False)
    assert history[-1]["r2"] > 0.99
    found, prediction = trainer.evaluate(X, y), trainer.predict(X)
    error, r2 = np.mean((prediction - y) ** 2), metrics.r2_score(y, prediction)
    assert found == pytest.approx({"loss": error, "mse": error, "r2": r2}, rel=1e-5)


def test_an_epoch_is_the_mean_over_its_examples():
    X, y = blobs(50)
    trainer = classifier(dropout=0, lr=0.0, metrics=("accuracy", "f1"))
    (record,) = trainer.fit(X, y, epochs=1, batch_size=8, progress=False)
    for name, value in trainer.evaluate(X, y, batch_size=13).items():
        assert record[name] == pytest.approx(value, rel=1e-5), name


# -- the data --


def test_batches_of_a_loader_train_as_arrays_do():
    arrays, loader = classifier(), classifier()
    first = arrays.fit(X, y, epochs=2, batch_size=8, progress=False)
    batches = data.DataLoader(data.TensorDataset(X, y), batch_size=8, shuffle=True, seed=0)
    second = loader.fit(batches, epochs=2, progress=False)
    assert first.column("loss") == second.column("loss") and values(arrays) == values(loader)
    assert loader.evaluate(batches)["accuracy"] == pytest.approx(arrays.evaluate(X, y)["accuracy"])
    assert loader.predict([(X[:30], y[:30]), (X[30:], y[30:])]).tobytes() == arrays.predict(X, batch_size=30).tobytes()


def test_a_list_of_batches_is_enough_and_an_iterator_is_not():
    trainer = classifier()
    trainer.fit([(X[:30], y[:30]), (X[30:], y[30:])], epochs=2, validation=(X, y), progress=False)
    assert trainer.progress.step == 4
    fails(OperandError, "exhausted after one epoch", lambda: trainer.fit(iter([(X, y)])))
    fails(DataError, "at least one batch", lambda: trainer.fit([], epochs=1, progress=False))


class Two(nn.Module):
    def __init__(self):
        self.left, self.right = (nn.Linear(2, 3, dtype=agrad.float32) for _ in range(2))

    def forward(self, a, b):
        hidden = self.left(a) + self.right(b)
        return {"class": hidden, "sum": agrad.sum(hidden, axis=1)}


def test_several_inputs_and_outputs():
    goal = {"class": y, "sum": X[:, 0]}

    def loss(output, target):
        errors = nn.functional.mse_loss(output["sum"], target["sum"])
        return agrad.cross_entropy(output["class"], target["class"]) + errors

    def right(y_true, y_pred):
        return np.mean(np.argmax(y_pred["class"], 1) == y_true["class"])

    trainer = made(Two(), loss, lr=0.1, metrics={"right": right})
    history = trainer.fit((X[:, :2], X[:, 2:]), goal, epochs=8, batch_size=10, validation=0.25, progress=False)
    assert history.column("validation_right")[-1] > 0.5
    assert trainer.predict([X[:7, :2], X[:7, 2:]])["class"].shape == (7, 3)
    assert "right" not in history[-1]


def test_data_of_any_kind_of_array_are_taken():
    trainer = classifier(dropout=0)
    lists = trainer.evaluate(X.tolist(), y.tolist())
    assert lists == trainer.evaluate(agrad.asarray(X), y) == trainer.evaluate(X.astype(">f8"), y.astype(np.int32))


def test_arrays_of_another_library_are_moved(torch):
    trainer = classifier(dropout=0)
    found = trainer.evaluate(torch.asarray(X, dtype=torch.float64), torch.asarray(y))
    assert found["loss"] == pytest.approx(trainer.evaluate(X, y)["loss"], rel=1e-6)


def test_the_part_for_validation_has_each_class():
    seen = []
    note = {"seen": lambda y_true, y_pred: seen.append(np.bincount(y_true).tolist()) or 0.0}
    classifier(metrics=note).fit(*blobs(60), validation=0.2, progress=False)
    assert seen == [[4, 4, 4]]


def test_class_weights_are_those_of_the_loss():
    X, y = blobs(45)

    def losses(trainer, y=y, X=X, **options):
        return trainer.fit(X, y, epochs=2, batch_size=9, progress=False, **options).column("loss")

    weighted = made(classifier(dropout=0).model, nn.CrossEntropyLoss(weight=np.array([1, 2, 0.5], np.float32)))
    found = losses(classifier(dropout=0), class_weight={0: 1.0, np.int64(1): 2.0, 2: 0.5})
    np.testing.assert_allclose(losses(weighted), found, rtol=1e-5)
    balanced, told = classifier(dropout=0), classifier(dropout=0)
    rare = np.flatnonzero((y < 2) | (np.arange(45) < 15))
    for trainer, weights in ((balanced, "balanced"), (told, {0: 35 / 45, 1: 35 / 45, 2: 35 / 15})):
        losses(trainer, class_weight={0: 1, 1: 1, 2: 1})
        losses(trainer, y[rare], X[rare], class_weight=weights)
    assert balanced.history.column("loss") == pytest.approx(told.history.column("loss"), rel=1e-6)
    fails(ConfigurationError, r"got none for \[2\]", balanced.fit, X, y, class_weight={0: 1, 1: 1})


# -- precision and tracing --


def test_narrow_products_train():
    trainer = classifier(precision="float16")
    trainer.fit(X, y, epochs=3, progress=False)
    assert trainer.scale.state_dict()["good_steps"] == 6
    fails(ConfigurationError, "Omit jit=False", lambda: classifier(precision="float16", jit=False))
    fails(ConfigurationError, "precision= must be one of float32", lambda: classifier(precision="half"))


class Branch(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(4, 3, dtype=agrad.float32)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        y = self.drop(self.inner(x))
        return y if float(agrad.sum(x).item()) > -1e9 else 2 * y


def branch(**options):
    nn.manual_seed(0)
    return made(Branch(), nn.CrossEntropyLoss(), **options)


def test_a_step_that_cannot_be_traced_runs_eagerly_with_a_warning():
    trainer, eager = branch(), branch(jit=False)
    given = {"epochs": 2, "batch_size": 8, "progress": False}
    with pytest.warns(RuntimeWarning, match="agrad.jit cannot trace the training step") as caught:
        trainer.fit(X, y, **given)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eager.fit(X, y, **given)
    assert values(trainer) == values(eager)
    fails(TracedValueError, "item", branch(jit=True).fit, X, y, progress=False)


# -- what goes wrong --


def test_a_loss_that_is_not_finite_names_the_step():
    X, y = line()
    X[5] = np.nan
    match = r"the loss is nan at step \d \(epoch 1, batch \d of 4\)"
    fails(AnomalyError, match, regressor().fit, X, y, batch_size=16, progress=False)
    fails(AnomalyError, r"Try a lower learning rate", regressor(lr=1e30).fit, *line(), epochs=3, progress=False)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: {"y": y[:-1]}, ShapeError, "got 59 for the 60 examples of X"),
        (lambda X, y: {"y": None}, OperandError, "y must be the targets of X"),
        (lambda X, y: {"X": X[:0], "y": y[:0]}, DataError, "X must contain at least one example"),
        (lambda X, y: {"X": X.astype(str)}, DtypeError, "X must be numeric, got dtype <U"),
        (lambda X, y: {"y": np.array(["a", "b", "c"])[y]}, DtypeError, "Encode classes as integers"),
        (lambda X, y: {"y": np.where(y == 1, np.nan, y)}, DataError, "NaN in 20 of 60 examples, first in example 1"),
        (lambda X, y: {"validation": 1.0}, ConfigurationError, "a fraction of at least 0 and less than 1"),
        (lambda X, y: {"validation": "0.2"}, ConfigurationError, "a fraction of at least 0 and less than 1"),
        (lambda X, y: {"validation": (X, y[1:])}, ShapeError, r"for the 60 examples of validation\[0\]"),
        (lambda X, y: {"epochs": 0}, ConfigurationError, "epochs must be an integer of at least 1, got 0"),
        (lambda X, y: {"batch_size": 2.5}, ConfigurationError, "batch_size must be an integer"),
        (lambda X, y: {"X": 3.0}, OperandError, "X must be an array, got float"),
        (lambda X, y: {"X": (X, X[1:])}, ShapeError, "X must consist of arrays of the same length, got 60, 59"),
        (lambda X, y: {"class_weight": {"a": 1}}, ConfigurationError, "class_weight: class labels"),
    ],
)
def test_data_that_make_no_sense_are_named(change, error, message):
    trainer = classifier()
    before = values(trainer)
    given = {"X": X, "y": y, "progress": False, **change(X, y)}
    fails(error, message, trainer.fit, **given)
    assert values(trainer) == before and not trainer.history


def trainer_of(model=LINEAR, loss=LOSS, optimizer=SGD, **options):
    return Trainer(model, loss, optimizer, **options)


test_trainers_that_make_no_sense_are_refused = refuses([
    (ConfigurationError, "the names accuracy, ... got 'acuracy'", lambda: trainer_of(metrics=("acuracy",))),
    (ConfigurationError, "the name 'accuracy' is already", lambda: trainer_of(metrics=("accuracy", "accuracy"))),
    (ConfigurationError, "a lambda has no name", lambda: trainer_of(metrics=lambda y_true, y_pred: 0.0)),
    (ConfigurationError, "does not return a number", lambda: trainer_of(metrics=(metrics.confusion_matrix,))),
    (OperandError, "callbacks must be Callback objects", lambda: trainer_of(callbacks=[print])),
    (OperandError, "make one: MSELoss()", lambda: trainer_of(loss=nn.MSELoss)),
    (OperandError, "model must be a Module", lambda: trainer_of(model=lambda x: x)),
    (OperandError, "optimizer must be one of agrad.optim", lambda: trainer_of(optimizer="adam")),
    (ConfigurationError, "update parameters of the model", lambda: trainer_of(model=nn.Linear(2, 2))),
    (ConfigurationError, "threads", lambda: trainer_of(threads=0)),
])  # fmt: skip


def test_losses_that_are_no_number_are_refused():
    model = nn.Linear(3, 1, dtype=agrad.float32)
    several, number = made(model, nn.MSELoss(reduction="none")), made(model, lambda output, target: 1.0, jit=False)
    fails(ShapeError, "Use reduction='mean'", several.fit, *LINE, progress=False)
    fails(OperandError, "must return a Tensor that depends on", number.fit, *LINE, progress=False)


# -- what is printed --


def test_a_history_can_be_read_and_is_printed(capsys):
    history = classifier().fit(X, y, epochs=2, validation=0.2)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1/2  loss ") and second.endswith(" samples/s")
    assert "  accuracy " in second and "  validation loss " in second
    assert isinstance(history, train.History) and json.loads(json.dumps(history)) == history
    assert repr(history).startswith("History(2 epochs; the last: loss ")
    match = r"not contain 'val_f1' for every epoch\. It contains epoch, step, loss, accuracy"
    fails(ConfigurationError, match, history.column, "val_f1")

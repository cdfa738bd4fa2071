"""``agrad.save`` and ``agrad.load``: files of modules, optimizers and pytrees."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import same_state
from training_steps import step_of

import agrad
from agrad import nn, optim, train
from agrad.errors import DataError, DtypeError, OperandError

pytest.importorskip("safetensors")


def net() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def trained(model: Any, optimizer: Any, steps: int = 2) -> None:
    step = step_of(optimizer, lambda x: agrad.mean(model(x) ** 2))
    for _ in range(steps):
        step(agrad.asarray(np.linspace(-1, 1, 15, dtype="float32").reshape(5, 3)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.safetensors"


def test_a_module_travels_between_backends(backend: str, path: Path) -> None:
    with agrad.use_backend(backend):
        model = net()
    agrad.save(path, model)
    other = net()
    assert agrad.load(path, other) is other
    for state in (other.state_dict(), agrad.load(path)):
        same_state(state, model.state_dict())


def test_a_run_goes_on_to_the_same_bits(path: Path) -> None:
    def made() -> dict[str, Any]:
        nn.manual_seed(0)
        model = net()
        optimizer = optim.Adam(model.parameters())
        return {"model": model, "optimizer": optimizer, "schedule": optim.lr_scheduler.StepLR(optimizer, 3), "step": 0}

    whole, first, second = made(), made(), made()
    trained(whole["model"], whole["optimizer"], 4)
    trained(first["model"], first["optimizer"])
    agrad.save(path, {**first, "step": 2})
    assert agrad.load(path, second)["step"] == 2
    trained(second["model"], second["optimizer"])
    for name in ("model", "optimizer"):
        same_state(whole[name].state_dict(), second[name].state_dict())


def test_every_leaf_keeps_its_kind(backend: str, path: Path) -> None:
    with agrad.use_backend(backend):
        leaf = agrad.asarray(np.arange(3.0), requires_grad=True)
        raw = agrad.asarray(np.asarray([1, 2])).data
    tree = {"a": [leaf, 1, 2.5, "text", None, True], "b": (raw, np.asarray(1 + 2j), float("inf"), 3j)}
    agrad.save(path, tree)
    plain = agrad.load(path)
    assert plain["a"][1:] == [1, 2.5, "text", None, True]
    assert plain["b"][1:] == (1 + 2j, float("inf"), 3j) and plain["b"][1].dtype == np.complex128
    np.testing.assert_array_equal(plain["a"][0], [0.0, 1.0, 2.0])
    filled = agrad.load(path, tree)
    first, again, number = filled["a"][0], filled["b"][0], filled["b"][3]
    assert first is not leaf and first.requires_grad and first.backend == leaf.backend
    assert type(again) is type(raw) and type(number) is complex and number == 3j


def test_weights_come_from_files_of_runs(path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    x, y = np.linspace(-1, 1, 40, dtype="float32").reshape(8, 5)[:, :3], np.ones((8, 2), "float32")
    callbacks = [train.Checkpoint(path), train.EarlyStopping()]
    trainer = train.Trainer(model, nn.MSELoss(), optim.Adam(model.parameters()), callbacks=callbacks)
    trainer.fit(x, y, epochs=1, batch_size=4, validation=(x, y), progress=False)
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    agrad.load(path, other)
    same_state(model.state_dict(), other.state_dict())


def test_files_of_other_programs_are_read_as_arrays(path: Path) -> None:
    from safetensors.numpy import save_file

    model = nn.Linear(2, 2)
    save_file(model.state_dict(), path)
    same_state(agrad.load(path), model.state_dict())
    fails(DataError, "load_torch_state_dict", agrad.load, path, nn.Linear(2, 2))  # whose weights are transposed


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"x": np.zeros(2), "k": 1, "more": 2}, "keys k, more, x, got a dict with the keys k, x"),
        ({"x": np.zeros(3), "k": 1}, r"the value at 'x' must be an array of shape \(3,\) and dtype float64, got"),
        ({"x": np.zeros(2, "float32"), "k": 1}, "dtype float32"),
        ({"x": np.zeros(2), "k": [1]}, "'k' must be a list of length 1, got 1"),
        ({"x": nn.Linear(1, 1), "k": 1}, "'x' must be the state of Linear"),
        ([1, 2], "must be a list of length 2, got a dict"),
    ],
)
def test_another_structure_is_refused(like: Any, message: str, path: Path) -> None:
    agrad.save(path, {"x": np.zeros(2), "k": 1})
    fails(DataError, message, agrad.load, path, like)


class Refusing:
    def state_dict(self) -> dict[str, Any]:
        return {"x": 1}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["x"] == 2:
            raise RuntimeError("no 2")


def test_nothing_is_loaded_if_one_object_is_refused(path: Path) -> None:
    first = nn.Linear(2, 2)
    before = first.state_dict()
    for saved, other, match in (
        (nn.Linear(2, 3), nn.Linear(2, 2), "does not fit: the state of Linear"),
        ({"x": 2}, Refusing(), "does not fit: no 2"),
    ):
        agrad.save(path, [nn.Linear(2, 2), saved])
        fails(DataError, match, agrad.load, path, [first, other])
        same_state(first.state_dict(), before)


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"a": [object()]}, OperandError, r"save: the value at 'a\.0' must be an array, .*, got object"),
        ({1: 2}, OperandError, "keys must be strings, got 1"),
        (np.asarray(["a"]), DtypeError, "Cast it before saving"),
        ([np.ma.masked_equal([1.0, 2.0], 1.0)], OperandError, "its mask would be lost"),
    ],
)
def test_what_cannot_be_saved_leaves_the_earlier_file(tree: Any, error: Any, message: str, path: Path) -> None:
    agrad.save(path, 1)
    fails(error, message, agrad.save, path, tree)
    assert agrad.load(path) == 1 and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("tree", [{"list": 3}, {"array": "none"}, {"a": 1, "b": 2}, {"tree": 1}, {"array": ["x"]}])
def test_a_damaged_description_is_refused(tree: Any, path: Path) -> None:
    nn.checkpoint.save(path, {"x": np.zeros(1)}, {"format": "agrad.save 1", "tree": tree})
    fails(DataError, r"must come from agrad\.save", agrad.load, path)


def test_names_of_arrays_do_not_collide(path: Path) -> None:
    agrad.save(path, {"a.b": np.zeros(1), "a": {"b": np.ones(1)}, "__metadata__": np.full(1, 2.0)})
    found = agrad.load(path)
    assert (found["a.b"][0], found["a"]["b"][0], found["__metadata__"][0]) == (0.0, 1.0, 2.0)

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


def test_a_module_travels_between_backends(backend: str, tmp_path: Path) -> None:
    with agrad.use_backend(backend):
        model = net()
    agrad.save(tmp_path / "net.safetensors", model)
    other = net()
    assert agrad.load(tmp_path / "net.safetensors", other) is other
    same_state(model.state_dict(), other.state_dict())
    same_state(agrad.load(tmp_path / "net.safetensors"), model.state_dict())


def test_a_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def made() -> dict[str, Any]:
        nn.manual_seed(0)
        model = net()
        optimizer = optim.Adam(model.parameters())
        return {"model": model, "optimizer": optimizer, "schedule": optim.lr_scheduler.StepLR(optimizer, 3), "step": 0}

    whole, first, second = made(), made(), made()
    trained(whole["model"], whole["optimizer"], 4)
    trained(first["model"], first["optimizer"])
    agrad.save(tmp_path / "run.safetensors", {**first, "step": 2})
    assert agrad.load(tmp_path / "run.safetensors", second)["step"] == 2
    trained(second["model"], second["optimizer"])
    same_state(whole["model"].state_dict(), second["model"].state_dict())
    same_state(whole["optimizer"].state_dict(), second["optimizer"].state_dict())


def test_every_leaf_keeps_its_kind(backend: str, tmp_path: Path) -> None:
    with agrad.use_backend(backend):
        leaf = agrad.asarray(np.arange(3.0), requires_grad=True)
        raw = agrad.asarray(np.asarray([1, 2])).data
    tree = {"a": [leaf, 1, 2.5, "text", None, True], "b": (raw, np.asarray(1 + 2j), float("inf"), 3j)}
    agrad.save(tmp_path / "tree.safetensors", tree)
    plain = agrad.load(tmp_path / "tree.safetensors")
    assert plain["a"][1:] == [1, 2.5, "text", None, True]
    assert plain["b"][1:] == (1 + 2j, float("inf"), 3j) and plain["b"][1].dtype == np.complex128
    np.testing.assert_array_equal(plain["a"][0], [0.0, 1.0, 2.0])
    filled = agrad.load(tmp_path / "tree.safetensors", tree)
    first, again, number = filled["a"][0], filled["b"][0], filled["b"][3]
    assert first is not leaf and first.requires_grad and first.backend == leaf.backend
    assert type(again) is type(raw) and type(number) is complex and number == 3j


def test_weights_come_from_files_of_runs(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(8, 2)).astype("float32")
    path = tmp_path / "run.safetensors"
    callbacks = [train.Checkpoint(path), train.EarlyStopping()]
    trainer = train.Trainer(model, nn.MSELoss(), optim.Adam(model.parameters()), callbacks=callbacks)
    trainer.fit(x, y, epochs=1, batch_size=4, validation=(x, y), progress=False)
    other = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    agrad.load(path, other)
    same_state(model.state_dict(), other.state_dict())


def test_files_of_other_programs_are_read_as_arrays(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "weights.safetensors"
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
def test_another_structure_is_refused(like: Any, message: str, tmp_path: Path) -> None:
    agrad.save(tmp_path / "tree.safetensors", {"x": np.zeros(2), "k": 1})
    fails(DataError, message, lambda: agrad.load(tmp_path / "tree.safetensors", like))


def test_nothing_is_loaded_if_one_object_is_refused(tmp_path: Path) -> None:
    agrad.save(tmp_path / "two.safetensors", [nn.Linear(2, 2), nn.Linear(2, 3)])
    first = nn.Linear(2, 2)
    before = first.state_dict()
    both = [first, nn.Linear(2, 2)]
    fails(DataError, "does not fit: the state of Linear", agrad.load, tmp_path / "two.safetensors", both)
    same_state(first.state_dict(), before)

    class Refusing:
        def state_dict(self) -> dict[str, Any]:
            return {"x": 1}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            if state["x"] == 2:
                raise RuntimeError("no 2")

    agrad.save(tmp_path / "two.safetensors", [nn.Linear(2, 2), {"x": 2}])
    fails(DataError, "does not fit: no 2", lambda: agrad.load(tmp_path / "two.safetensors", [first, Refusing()]))
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
def test_what_cannot_be_saved_leaves_the_earlier_file(
    tree: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "tree.safetensors"
    agrad.save(path, 1)
    fails(error, message, lambda: agrad.save(path, tree))
    assert agrad.load(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("tree", [{"list": 3}, {"array": "none"}, {"a": 1, "b": 2}, {"tree": 1}, {"array": ["x"]}])
def test_a_damaged_description_is_refused(tree: Any, tmp_path: Path) -> None:
    path = tmp_path / "tree.safetensors"
    nn.checkpoint.save(path, {"x": np.zeros(1)}, {"format": "agrad.save 1", "tree": tree})
    fails(DataError, r"must come from agrad\.save", lambda: agrad.load(path))


def test_names_of_arrays_do_not_collide(tmp_path: Path) -> None:
    tree = {"a.b": np.zeros(1), "a": {"b": np.ones(1)}, "__metadata__": np.full(1, 2.0)}
    agrad.save(tmp_path / "tree.safetensors", tree)
    found = agrad.load(tmp_path / "tree.safetensors")
    assert (found["a.b"][0], found["a"]["b"][0], found["__metadata__"][0]) == (0.0, 1.0, 2.0)

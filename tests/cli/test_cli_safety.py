"""The command line and files that mislead: nothing is lost, nothing hostile is built or printed."""

import io
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from cli_files import mnist, rows_of, table

from agrad.cli import models, terminal
from agrad.cli import train as trains
from agrad.cli.outputs import check_output
from agrad.nn import checkpoint
from agrad.train.step import has_tensor_float

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.skipif(checkpoint.safetensors is None, reason="models are saved with safetensors")

FAST = ("--hidden", "6", "--batch-size", "8", "--epochs", "2", "--backend", "numpy", "--quiet")


# -- columns --


def test_other_columns_are_other_data(ran, refused, folder, model, tmp_path):
    path, (_, rows) = tmp_path / "flowers.csv", rows_of(folder / "flowers.csv")
    for names, text in (
        (["a", "b", "z", "kind"], "missing: c; not expected: z"),
        (["b", "a", "c", "kind"], "is not the data that the run was started on"),
    ):
        table(path, names, rows)
        refused(1, text, "train", "--resume", model, "--data", path, "--epochs", "40", "--save", tmp_path / "new.st")
    assert not (tmp_path / "new.st").exists()
    assert "on all of " in ran("evaluate", model, "--data", path)[0]
    table(tmp_path / "x.csv", ["", "a", "b", "c", "kind"], [[i, *row] for i, row in enumerate(rows)])
    _, err = ran("train", "--data", tmp_path / "x.csv", "--label", "kind", *FAST)
    assert f"warning: {str(tmp_path / 'x.csv')!r}: left out '': an integer or word of its own in every row" in err


# -- models whose files claim what is not so --


def without(name):
    return lambda tensors, metadata: tensors.pop(name)


def part_of(name):
    return lambda tensors, metadata: tensors.update({name: tensors[name][..., 1:]})


def starting(name, value):
    return lambda tensors, metadata: tensors[name].flat.__setitem__(0, value)


def claiming(part, **claims):
    return lambda tensors, metadata: metadata[part].update(claims)


def recording(**record):
    return lambda tensors, metadata: metadata["progress"]["history"].__setitem__(0, record)


NOT_DESCRIBED = "does not contain the model that its header describes"
LAYERS = "expected linear layers with weights of shapes"
DAMAGED = [
    *((claiming("config", **claim), "linear layers") for claim in (
        {"hidden": [16000, 16000]}, {"hidden": [1] * 5000}, {"members": 1000})),
    *((change(name), text) for change in (part_of, without) for name, text in (
        ("1.module.weights.0", LAYERS),
        ("0.low", "expected the intervals 0.column, 0.low, 0.scale, found none or others"),
        ("1.module.biases.0", NOT_DESCRIBED),
        ("early.values.1.module.biases.0", NOT_DESCRIBED))),
    (lambda tensors, _: tensors.update({"0.column": tensors["0.column"].astype("int32")}), "expected the intervals"),
    (lambda tensors, _: tensors.update({"0.column": tensors["0.column"] + 100}), "expected columns from 0 to"),
    (lambda tensors, _: tensors.update({"1.average.weights.0": tensors["1.average.weights.0"][:1]}),
     "1.average.weights.0"),
    (starting("1.module.weights.0", np.nan), "finite numbers, found others in 1.module.weights.0"),
    (starting("optimizer.0.m", np.inf), "found others in optimizer.0.m"),
    (starting("data.scale", 0.0), "above 0 in data.scale"),
    *((claiming("progress", **claim), "the run cannot be at step") for claim in (
        {"step": 61}, {"seen": 3}, {"sums": {"accuracy": [1, 1]}}, {"batch": 1})),
    *((recording(**record), "expected the progress of the run") for record in (
        {}, {"event": "epoch", "epoch": 2}, {"event": "epoch", "epoch": 1, "loss": "x"})),
]  # fmt: skip
"""What is changed in the tensors and metadata of a model, and what is said of it."""


@pytest.mark.parametrize("row", range(len(DAMAGED)))
def test_a_model_that_is_not_what_it_says_is_refused(refused, model, tmp_path, monkeypatch, row):
    change, text = DAMAGED[row]
    tensors, metadata = checkpoint.load(model)
    change(tensors, metadata)
    checkpoint.save(tmp_path / "m.st", tensors, metadata)
    if text == "linear layers":
        monkeypatch.setattr(models, "build", lambda *args, **kwargs: pytest.fail("a network was made"))
    for words in (("train", "--epochs", "40", "--resume"), ("predict", "--data", "any.csv")):
        if text == "the run cannot be at step" and words[0] == "predict":
            continue  # which reads no further than the model
        err = refused(1, text, *words, tmp_path / "m.st")
        assert str(tmp_path / "m.st") in err and len(err.splitlines()) < 10


def test_deep_metadata_is_refused_before_it_is_walked(refused, model, tmp_path):
    content = model.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    deep = header["__metadata__"]["agrad"].replace('"history": [', '"history": [{"a": ' + "[" * 700 + "]" * 700 + "}, ")
    header["__metadata__"]["agrad"] = deep
    text = json.dumps(header, separators=(",", ":")).encode()
    (tmp_path / "deep.st").write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    for words in (("evaluate",), ("train", "--epochs", "40", "--resume")):
        refused(1, "must be at most 100", *words, tmp_path / "deep.st")


# -- what reaches the terminal --

HOSTILE = "\x1b[2J\x1b]0;t\x07\u202e\x9b"


def test_text_from_files_reaches_the_terminal_escaped(run, folder, tmp_path):
    header, rows = rows_of(folder / "flowers.csv")
    names = [header[0] + HOSTILE, *header[1:]]
    path = tmp_path / "hostile\x1b[31m.csv"
    table(path, names, [[*row[:3], row[3] + HOSTILE] for row in rows])
    model = tmp_path / "hostile\x1b[31m.st"
    words = ("train", "--data", path, "--label", "kind", *FAST[:-1], "--save", model)
    printed = [run(*words), run("evaluate", model), run("predict", model, "--data", path)]
    printed.append(run("evaluate", model, "--data", folder / "flowers.csv"))
    assert [code for code, _, _ in printed] == [0, 0, 0, 1]
    for _, out, err in printed:
        assert (out + err).replace("\n", "").isprintable()
    assert "\\x1b[2J" in printed[1][1] and "\\x1b[2J" in printed[3][2]
    # a file of predictions names the classes as they are
    assert run("predict", model, "--data", path, "--output", tmp_path / "told.csv")[0] == 0
    assert rows_of(tmp_path / "told.csv")[1][0][1] in {row[3] + HOSTILE for row in rows}


def test_what_a_stream_has_no_code_for_is_escaped():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal.write("é\ud800\tx\n", stream)
    assert stream.buffer.getvalue() == b"\\xe9\\ud800\tx\n"


def test_messages_stay_a_few_lines(run, model, tmp_path):
    tensors, metadata = checkpoint.load(model)
    more = {f"{i}" * 200 + "\n\x1b": np.zeros(1) for i in range(300)}
    checkpoint.save(tmp_path / "m.st", tensors | more, metadata)
    metadata["config"]["label"] = "x" * 10**6
    checkpoint.save(tmp_path / "label.st", tensors, metadata)
    for words in (("evaluate", tmp_path / "m.st"), ("train", "--resume", tmp_path / "label.st", "--label", "y")):
        code, _, err = run(*words)
        assert code != 0 and len(err) < 2200 and len(err.splitlines()) <= 10


# -- what is written over --


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize(
    ("option", "name"), [("--save", "x.csv"), ("--log", "x.csv"), ("--plot", "x.png"), ("--save", "x.st")]
)
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\x89PNG\r\n\x1a\n a photograph", b'{"event": 1}', b"\0"])
def test_files_of_another_kind_are_not_overwritten(refused, tmp_path, monkeypatch, option, name, content):
    monkeypatch.setattr(trains.sources, "load", lambda *args, **options: pytest.fail("the data were loaded"))
    (tmp_path / name).write_bytes(content)
    refused(1, f"{option} {str(tmp_path / name)!r}: expected no file, or ", "train", option, tmp_path / name)
    assert (tmp_path / name).read_bytes() == content
    assert os.listdir(tmp_path) == [name]


@pytest.mark.needs("matplotlib")
def test_files_of_the_same_kind_are_overwritten(ran, folder, tmp_path):
    # a picture's title takes what is between dollar signs for a formula
    data = tmp_path / r"x$\frac$.npz"
    data.write_bytes((folder / "blobs.npz").read_bytes())
    for names in ("--save m.st --log m.log --plot m.png", "--plot m.svg", "--plot m.pdf"):
        words = [tmp_path / word if "." in word else word for word in names.split()]
        for path in words[1::2]:
            path.write_bytes(b"")
        ran("train", "--data", data, *FAST, *words)
        for option, path in zip(words[::2], words[1::2], strict=True):
            assert path.stat().st_size > 0
            check_output(option, str(path))


def test_predictions_replace_predictions_but_no_model(ran, refused, model, folder, tmp_path):
    before = model.read_bytes()
    words = ("predict", model, "--data", folder / "flowers.csv", "--output")
    for _ in range(2):
        ran(*words, tmp_path / "told.csv")
    refused(1, "predictions of agrad", *words, model)
    assert model.read_bytes() == before


# -- where the data are --


@pytest.mark.parametrize("absolute", [True, False])
def test_the_folder_of_mnist_is_found_again(run, tmp_path, monkeypatch, absolute):
    (tmp_path / "digits").mkdir()
    mnist(tmp_path / "digits")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    place, path = tmp_path / "digits" if absolute else "digits", tmp_path / "m.st"
    assert run("train", "--data", "mnist", "--data-dir", place, *FAST, "--save", path)[0] == 0
    for folder in (".", "elsewhere"):
        monkeypatch.chdir(tmp_path / folder)
        assert len(run("predict", path, "--data", "mnist")[1].splitlines()) == 21
        for words in ((), ("--data", "mnist")):
            assert "the test part of mnist: 20 examples" in run("evaluate", path, *words)[1]
    assert run("train", "--resume", path, "--epochs", "3", "--quiet")[0] == 0


def test_data_by_a_relative_path_are_found_from_another_folder(run, refused, folder, tmp_path, monkeypatch):
    for name in ("begun", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "begun")
    (tmp_path / "begun" / "flowers.csv").write_bytes((folder / "flowers.csv").read_bytes())
    path = tmp_path / "m.st"
    assert run("train", "--data", "flowers.csv", "--label", "kind", *FAST, "--save", path)[0] == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    for epochs in (3, 4):
        assert run("train", "--resume", path, "--epochs", epochs, "--quiet")[0] == 0
    assert "the test part of flowers.csv" in run("evaluate", path)[1]
    # together with the place where the training began, it may move
    (tmp_path / "begun").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert run("train", "--resume", path, "--epochs", "5", "--quiet")[0] == 0
    (tmp_path / "moved" / "flowers.csv").unlink()
    text = f"exists neither here nor in {str(tmp_path / 'moved')!r}...Pass the path of the data with --data"
    for words in (("evaluate", path), ("train", "--resume", path, "--epochs", "6")):
        refused(1, text, *words)


# -- TF32 --


@pytest.mark.parametrize(
    ("name", "device", "has"),
    [
        ("cupy", SimpleNamespace(compute_capability="75"), False),
        ("cupy", SimpleNamespace(compute_capability="90"), True),
        ("torch", SimpleNamespace(type="cpu"), False),
        ("jax", SimpleNamespace(platform="cpu"), False),
        ("jax", SimpleNamespace(platform="gpu"), True),
        ("dask", "cpu", False),
    ],
)
def test_devices_with_tf32(name, device, has):
    place = SimpleNamespace(device=None, backend=SimpleNamespace(name=name, device=lambda given: device))
    assert has_tensor_float(place) is has

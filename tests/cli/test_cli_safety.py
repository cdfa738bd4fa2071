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


def trained(run, data, path, *more):
    assert run("train", "--data", data, "--label", "kind", *FAST, "--save", path, *more)[0] == 0
    return path


def renamed(folder, path, names):
    """The table flowers.csv under other names of columns."""
    _, rows = rows_of(folder / "flowers.csv")
    table(path, names, rows)
    return path


# -- columns --


def test_two_columns_of_one_name_are_refused(run, folder, model, tmp_path):
    path = renamed(folder, tmp_path / "twice.csv", ["a", "b", "a", "kind"])
    for words in (("train", "--label", "kind", *FAST), ("evaluate", model), ("predict", model)):
        code, out, err = run(*words, "--data", path)
        assert (code, out) == (1, "")
        assert "'a' (columns 0 and 2, counted from 0)" in err


@pytest.mark.parametrize("names", [["b", "a", "c", "kind"], ["a", "b", "z", "kind"]])
def test_resume_refuses_other_columns_with_the_same_numbers(run, folder, model, tmp_path, names):
    path = renamed(folder, tmp_path / "flowers.csv", names)
    code, _, err = run("train", "--resume", model, "--data", path, "--epochs", "40", "--save", tmp_path / "new.st")
    assert code == 1
    assert "is not the data that the run was started on" in err or "missing: c; not expected: z" in err
    assert not (tmp_path / "new.st").exists()


def test_evaluate_of_other_columns_is_not_of_the_test_part(run, folder, model, tmp_path):
    path = renamed(folder, tmp_path / "flowers.csv", ["b", "a", "c", "kind"])
    assert "on all of " in run("evaluate", model, "--data", path)[1]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_column_is_warned_of(run, folder, tmp_path, name):
    _, rows = rows_of(folder / "flowers.csv")
    table(tmp_path / "x.csv", [name, "a", "b", "c", "kind"], [[i, *row] for i, row in enumerate(rows)])
    code, _, err = run("train", "--data", tmp_path / "x.csv", "--label", "kind", *FAST)
    assert code == 0
    assert f"warning: {str(tmp_path / 'x.csv')!r}: left out {name!r}: an integer or word of its own in every row" in err
    assert "--keep" in err
    assert run("train", "--data", folder / "flowers.csv", "--label", "kind", *FAST)[2] == ""


# -- headers that claim too much --


def changed(model, path, change):
    tensors, metadata = checkpoint.load(model)
    change(metadata)
    checkpoint.save(path, tensors, metadata)
    return path


@pytest.mark.parametrize("claim", [{"hidden": [16000, 16000]}, {"hidden": [1] * 5000}, {"members": 1000}])
def test_a_header_that_claims_a_large_network_builds_nothing(run, model, folder, tmp_path, monkeypatch, claim):
    path = changed(model, tmp_path / "large.st", lambda metadata: metadata["config"].update(claim))
    monkeypatch.setattr(models, "build", lambda *args, **kwargs: pytest.fail("a network was made"))
    for words in (
        ("evaluate", path),
        ("predict", path, "--data", folder / "flowers.csv"),
        ("train", "--resume", path, "--epochs", "40"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert str(path) in err
        assert "linear layers" in err
        assert len(err.splitlines()) < 10


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ("1.module.weights.0", "expected linear layers with weights of shapes"),
        ("0.low", "expected the intervals 0.column, 0.low, 0.scale, found none or others"),
        ("1.module.biases.0", "does not contain the model that its header describes"),
        ("early.values.1.module.biases.0", "does not contain the model that its header describes"),
    ],
)
@pytest.mark.parametrize("part", [slice(1, None), None])
def test_arrays_that_do_not_fit_the_network_are_refused(run, model, tmp_path, tensor, message, part):
    tensors, metadata = checkpoint.load(model)
    value = tensors.pop(tensor)
    tensors |= {} if part is None else {tensor: value[..., part]}
    checkpoint.save(tmp_path / "m.st", tensors, metadata)
    code, out, err = run("train", "--resume", tmp_path / "m.st", "--epochs", "40")
    assert (code, out) == (1, "")
    assert message in err


def test_deep_metadata_is_refused_before_it_is_walked(run, model, tmp_path):
    content = model.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    deep = header["__metadata__"]["agrad"].replace('"history": [', '"history": [{"a": ' + "[" * 700 + "]" * 700 + "}, ")
    header["__metadata__"]["agrad"] = deep
    text = json.dumps(header, separators=(",", ":")).encode()
    (tmp_path / "deep.st").write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    for words in (("evaluate",), ("train", "--epochs", "40", "--resume")):
        code, _, err = run(*words, tmp_path / "deep.st")
        assert code == 1
        assert "must be at most 100" in err


@pytest.mark.parametrize(
    ("tensor", "value", "message"),
    [
        ("1.module.weights.0", np.nan, "finite numbers, found others in 1.module.weights.0"),
        ("optimizer.0.m", np.inf, "found others in optimizer.0.m"),
        ("data.scale", 0.0, "above 0 in data.scale"),
    ],
)
def test_tensors_that_are_no_numbers_are_refused(run, model, tmp_path, tensor, value, message):
    tensors, metadata = checkpoint.load(model)
    tensors[tensor].flat[0] = value
    checkpoint.save(tmp_path / "m.st", tensors, metadata)
    code, _, err = run("evaluate", tmp_path / "m.st")
    assert code == 1
    assert message in err


@pytest.mark.parametrize(
    ("place", "value"),
    [("step", 61), ("seen", 3), ("sums", {"accuracy": [1, 1]}), ("batch", 1)],
)
def test_a_run_that_cannot_stand_where_it_says_is_refused(run, model, tmp_path, place, value):
    path = changed(model, tmp_path / "m.st", lambda metadata: metadata["progress"].update({place: value}))
    code, _, err = run("train", "--resume", path, "--epochs", "40")
    assert code == 1
    assert "the run cannot be at step" in err


@pytest.mark.parametrize("record", [{}, {"event": "epoch", "epoch": 2}, {"event": "epoch", "epoch": 1, "loss": "x"}])
def test_a_history_of_other_records_is_refused(run, model, tmp_path, record):
    path = changed(model, tmp_path / "m.st", lambda metadata: metadata["progress"]["history"].__setitem__(0, record))
    code, _, err = run("evaluate", path)
    assert code == 1 and "expected the progress of the run" in err


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
        assert code != 0
        assert len(err) < 2200
        assert len(err.splitlines()) <= 10


# -- what is written over --


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize(
    ("option", "name"), [("--save", "x.csv"), ("--log", "x.csv"), ("--plot", "x.png"), ("--save", "x.st")]
)
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\x89PNG\r\n\x1a\n a photograph", b'{"event": 1}', b"\0"])
def test_files_of_another_kind_are_not_overwritten(run, tmp_path, monkeypatch, option, name, content):
    monkeypatch.setattr(trains.sources, "load", lambda *args, **options: pytest.fail("the data were loaded"))
    (tmp_path / name).write_bytes(content)
    code, out, err = run("train", option, tmp_path / name)
    assert (code, out) == (1, "")
    assert f"{option} {str(tmp_path / name)!r}: expected no file, or " in err
    assert (tmp_path / name).read_bytes() == content
    assert os.listdir(tmp_path) == [name]


@pytest.mark.needs("matplotlib")
def test_files_of_the_same_kind_are_overwritten(run, model, folder, tmp_path):
    names = [("--save", "m.st"), ("--log", "m.log"), *(("--plot", f"m.{kind}") for kind in ("png", "svg", "pdf"))]
    # a picture's title takes what is between dollar signs for a formula
    data = tmp_path / r"x$\frac$.npz"
    data.write_bytes((folder / "blobs.npz").read_bytes())
    for option, name in names:
        (tmp_path / name).write_bytes(b"")
        assert run("train", "--data", data, *FAST, option, tmp_path / name)[0] == 0
        assert (tmp_path / name).stat().st_size > 0
        check_output(option, str(tmp_path / name))
    for _ in range(2):
        told = run("predict", model, "--data", folder / "flowers.csv", "--output", tmp_path / "told.csv")
        assert told[0] == 0


def test_predictions_do_not_replace_a_model(run, model, folder):
    before = model.read_bytes()
    code, _, err = run("predict", model, "--data", folder / "flowers.csv", "--output", model)
    assert code == 1
    assert "predictions of agrad" in err
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


def test_data_by_a_relative_path_are_found_from_another_folder(run, folder, tmp_path, monkeypatch):
    for name in ("begun", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "begun")
    (tmp_path / "begun" / "flowers.csv").write_bytes((folder / "flowers.csv").read_bytes())
    path = trained(run, "flowers.csv", tmp_path / "m.st")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for epochs in (3, 4):
        assert run("train", "--resume", path, "--epochs", epochs, "--quiet")[0] == 0
    assert "the test part of flowers.csv" in run("evaluate", path)[1]
    # together with the place where the training began, it may move
    (tmp_path / "begun").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert run("train", "--resume", path, "--epochs", "5", "--quiet")[0] == 0
    (tmp_path / "moved" / "flowers.csv").unlink()
    for words in (("evaluate", path), ("train", "--resume", path, "--epochs", "6")):
        code, _, err = run(*words)
        assert code == 1
        assert f"'flowers.csv' exists neither here nor in {str(tmp_path / 'moved')!r}" in err
        assert "Pass the path of the data with --data" in err


# -- TF32 --


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_tf32_is_refused_where_it_does_nothing(run, library):
    code, out, err = run("train", "--precision", "tf32", "--backend", library)
    assert (code, out) == (2, "")
    assert f"--precision tf32 is not supported by {library}" in err


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

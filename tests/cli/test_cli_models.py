"""``agrad evaluate`` and ``agrad predict``: what a saved model makes of examples, and what is refused."""

import csv
import json
import re
import sys

import numpy as np
import pytest
from cli_files import rows_of, table

import agrad
from agrad.nn import checkpoint

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.needs("safetensors")

FAST = ("--hidden", "6", "--batch-size", "8", "--epochs", "2")


def test_evaluate_measures_the_test_part(ran, model, folder):
    assert checkpoint.load(model)[1]["config"]["data"] == str(folder / "flowers.csv")
    out, err = ran("evaluate", model)
    lines = out.splitlines()
    assert "the test part of flowers.csv: 18 examples" in lines[0] and err == ""
    assert [line.split()[0] for line in lines[3:6]] == ["k0", "k1", "k2"]
    assert lines[-1].startswith("accuracy ") and float(lines[-1].split()[1].rstrip("%,")) > 90
    # named by hand, the data it was trained on are still not measured on whole
    assert ran("evaluate", model, "--data", folder / "flowers.csv")[0] == out


def test_evaluate_gives_the_same_on_every_backend(ran, model, backend):
    with agrad.use_backend("numpy"):
        reference = ran("evaluate", model, "--quiet")
    assert ran("evaluate", model, "--quiet") == reference


def test_evaluate_measures_a_file_whole(ran, model, folder, tmp_path):
    header, rows = rows_of(folder / "flowers.csv")
    # columns go by name, and the file may hold one class only
    some = [[row[3], row[2], row[0], row[1]] for row in rows if row[3] == "k1"]
    table(tmp_path / "some.csv", [header[i] for i in (3, 2, 0, 1)], some)
    out, _ = ran("evaluate", model, "--data", tmp_path / "some.csv")
    assert f"all of {tmp_path / 'some.csv'}: 30 examples" in out
    assert float(out.splitlines()[-1].split()[1].rstrip("%,")) > 90
    X, y = np.array([row[:3] for row in rows], dtype=float), np.array([row[3] for row in rows])
    for arrays, part in (
        ({"X": X, "y": y}, r"the test part of same\.npz"),
        ({"X": X[1:], "y": y[1:]}, "all of"),
        ({"X": X, "y": y, "X_test": X[:7], "y_test": y[:7]}, "(?s)X_test of.*7 examples"),
    ):
        np.savez(tmp_path / "same.npz", **arrays)
        assert re.search(part, ran("evaluate", model, "--data", tmp_path / "same.npz")[0])


def test_predict_writes_a_row_an_example(ran, model, folder, tmp_path, backend):
    header, rows = rows_of(folder / "flowers.csv")
    table(tmp_path / "plain.csv", header[:3], [row[:3] for row in rows])
    out, err = ran("predict", model, "--data", tmp_path / "plain.csv")
    first, *lines = csv.reader(out.splitlines())
    assert (first, err) == (["example", "class", "probability"], "")
    assert [line[0] for line in lines] == [str(i) for i in range(90)]
    assert np.mean([line[1] == row[3] for line, row in zip(lines, rows, strict=True)]) > 0.9
    assert all(1 / 3 <= float(line[2]) <= 1 for line in lines)
    # the column of labels may stand there, and the same goes into a file
    told = tmp_path / "told.csv"
    assert "90 predictions" in ran("predict", model, "--data", folder / "flowers.csv", "--output", told)[0]
    np.savez(tmp_path / "plain.npz", X=np.array([row[:3] for row in rows], dtype=float))
    assert told.read_text() == ran("predict", model, "--data", tmp_path / "plain.npz")[0] == out


def test_named_data_can_be_predicted_and_measured(ran, tmp_path):
    path = tmp_path / "digits.st"
    ran("train", "--hidden", "none", "--epochs", "2", "--save", path)
    assert "the test part of digits: 359 examples" in ran("evaluate", path)[0]
    assert len(ran("predict", path, "--data", "digits")[0].splitlines()) == 360


@pytest.mark.parametrize(
    ("header", "rows", "text"),
    [
        ("a b kind", ["1 2 k0"], "missing: c"),
        ("a b d kind", ["1 2 4 k0"], "missing: c...not expected: d"),
        ("a b c kind", ["1 2 3 k8", "1 2 3 k9", "1 2 3 k9"], "not have: k9 (2), k8 (1)"),
        ("a b c kind", ["1 2 x k0"], "line 2, column 'c'...found 'x'"),
        ("a b c kind", ["1 2 1e400 k0"], "finite"),
        ("a b c", ["1 2 3"], "'kind'"),
    ],
)
def test_evaluate_says_what_does_not_fit(refused, model, tmp_path, header, rows, text):
    table(tmp_path / "other.csv", header.split(), [row.split() for row in rows])
    assert "other.csv" in refused(1, text, "evaluate", model, "--data", tmp_path / "other.csv")


def test_evaluate_scores_the_rows_of_known_classes(ran, model, folder, tmp_path):
    def evaluated(name, *options):
        return ran("evaluate", model, "--data", tmp_path / name, *options)

    header, rows = rows_of(folder / "flowers.csv")
    rows = rows[:30]
    table(tmp_path / "known.csv", header, rows)
    table(tmp_path / "more.csv", header, [["1", "2", "3", "k9"], *rows, ["1", "2", "3", "k 10"]])
    out, err = evaluated("more.csv")
    assert out.splitlines()[1:] == evaluated("known.csv")[0].splitlines()[1:]
    assert "2 of 32 examples are not scored" in err and "did not have: k9 (1), k 10 (1)" in err
    assert "part of " in out and "30 examples" in out
    X, y = np.array([row[:3] for row in rows], float), np.array([row[3] for row in rows])
    np.savez(tmp_path / "more.npz", X=np.concatenate([X, X]), y=np.concatenate([y, y.astype("<U3")]))
    np.savez(tmp_path / "others.npz", X=np.concatenate([X, X]), y=np.concatenate([y, np.full(30, "no")]))
    whole, part = evaluated("more.npz", "--quiet"), evaluated("others.npz", "--quiet")
    assert whole[0] == part[0] and "30 of 60 examples" in part[1] and not whole[1]


def test_ids_are_kept_but_not_learned_from(ran, refused, folder, tmp_path):
    header, rows = rows_of(folder / "flowers.csv")
    ids, flowers, m, n = tmp_path / "ids.csv", folder / "flowers.csv", tmp_path / "m.st", tmp_path / "n.st"
    # the id gives the class
    table(ids, ["id", *header], [[f"0{k}{row[-1]}", *row] for k, row in enumerate(rows)])
    words = ("--label", "kind", "--hidden", "4", "--epochs", "2", "--quiet")
    ran("train", "--data", ids, *words, "--id", "id", "--save", m)
    ran("train", "--data", flowers, *words, "--save", n)
    with_ids, without = checkpoint.load(m)[0], checkpoint.load(n)[0]
    assert all(np.array_equal(with_ids[name], value) for name, value in without.items())
    told = [line.split(",") for line in ran("predict", m, "--data", ids)[0].splitlines()]
    assert told[0] == ["example", "id", "class", "probability"]
    assert [row[1] for row in told[1:3]] == ["00k0", "01k1"]
    bare, _ = ran("predict", m, "--data", flowers)
    assert bare.splitlines() == [",".join([row[0], *row[2:]]) for row in told]
    # a column that the model learns from is both
    out, err = ran("predict", n, "--data", flowers, "--id", "b")
    assert [float(line.split(",")[1]) for line in out.splitlines()[1:]] == [float(row[1]) for row in rows]
    assert err == ""
    refused(1, "idd", "predict", m, "--data", ids, "--id", "idd")
    for command in (("predict", m), ("train",)):
        refused(2, "--id requires a table", *command, "--data", folder / "blobs.npz", "--id", "a")
    refused(2, "'kind' is a target column", "train", "--data", ids, *words, "--drop", "id,kind")


@pytest.mark.needs("pyarrow")
def test_predictions_are_written_as_parquet(ran, refused, model, folder, tmp_path):
    import pyarrow
    from pyarrow import parquet

    path, header, rows = tmp_path / "told.parquet", *rows_of(folder / "flowers.csv")
    table(tmp_path / "ids.csv", ["id", *header], [[k + 700, *row] for k, row in enumerate(rows)])
    words = ("predict", model, "--data", tmp_path / "ids.csv", "--id", "id", "--proba")
    for _ in range(2):  # it replaces its own file
        assert ran(*words, "--output", path)[0] == f"90 predictions written to {path}\n"
    told = parquet.read_table(path)
    assert told.column_names == ["example", "id", "class", "k0", "k1", "k2"]
    assert told.column("id").to_pylist() == list(range(700, 790))
    lines = [line.split(",") for line in ran(*words)[0].splitlines()[1:]]
    assert told.column("class").to_pylist() == [line[2] for line in lines]
    assert told.column("k1").to_pylist() == pytest.approx([float(line[4]) for line in lines], abs=1e-6)
    parquet.write_table(pyarrow.table({"mine": [1]}), path)
    refused(1, "another file, which would be lost", *words, "--output", path)


def test_predict_says_what_does_not_fit(refused, model, folder, tmp_path, monkeypatch):
    np.savez(tmp_path / "wide.npz", X=np.zeros((4, 7)))
    np.savez(tmp_path / "named.npz", examples=np.zeros((4, 3)))
    (tmp_path / "broken.npz").write_bytes((tmp_path / "wide.npz").read_bytes()[:80])
    header, rows = rows_of(folder / "flowers.csv")
    table(tmp_path / "class.csv", ["class", *header], [[k, *row] for k, row in enumerate(rows)])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    data, output = folder / "flowers.csv", tmp_path / "told.csv"
    for code, text, *words in (
        (1, "expected 3 features", tmp_path / "wide.npz", "--output", output),
        (1, "missing X", tmp_path / "named.npz", "--output", output),
        (1, "damaged", tmp_path / "broken.npz", "--output", output),
        (2, "must be different files", data, "--output", data),
        (1, "does not exist", data, "--output", tmp_path / "no" / "x.csv"),
        (2, "pip install 'agrad[data]'", data, "--output", tmp_path / "p.parquet"),
        (2, "must have different names", tmp_path / "class.csv", "--id", "class"),
    ):
        refused(code, text, "predict", model, "--data", *words)
    assert not output.exists()


def test_evaluate_refuses_data_that_changed_since(ran, refused, folder, tmp_path):
    path, source = tmp_path / "model.st", tmp_path / "blobs.npz"
    source.write_bytes((folder / "blobs.npz").read_bytes())
    ran("train", "--data", source, *FAST, "--save", path)
    ran("evaluate", path)
    arrays = dict(np.load(source))
    np.savez(source, X=arrays["X"] + 1, y=arrays["y"])
    refused(1, "no longer the data", "evaluate", path)
    source.unlink()
    refused(1, "cannot be read", "evaluate", path)


def test_a_damaged_model_is_refused_and_says_why(refused, model, folder, tmp_path):
    path = tmp_path / "model.st"
    for content in (b"", model.read_bytes()[:-1]):
        path.write_bytes(content)
        for command in (("evaluate",), ("predict", "--data", folder / "flowers.csv"), ("train", "--resume")):
            refused(1, str(path), *command, path)
    refused(1, "No such", "evaluate", tmp_path / "none.st")


def paths_in(value, at=()):
    """Every place in a JSON object, with its value."""
    for key, item in value.items() if isinstance(value, dict) else ():
        yield (*at, key), item
        yield from paths_in(item, (*at, key))


ANY_NUMBER = {("config", "lr"), ("config", "weight_decay")} | {("progress", n) for n in ("loss", "rate", "seconds")}
"""What a saved model is measured without, and may be any number of 0 or more."""
NOT_IN_OLDER_FILES = {("config", name) for name in ("drop", "header", "id")}
NOT_IN_OLDER_FILES |= {("data", "encoder", "header"), ("progress", "rate")}


def changed(metadata, at, value):
    """Return a copy of the metadata with another value at a place, or none there."""
    copy = json.loads(json.dumps(metadata))
    holder = copy
    for key in at[:-1]:
        holder = holder[key]
    del holder[at[-1]]
    holder.update({} if value is None else {at[-1]: value})
    return copy


def test_a_header_with_anything_missing_or_wrong_is_refused(run, refused, model, tmp_path):
    tensors, metadata = checkpoint.load(model)
    path = tmp_path / "model.st"
    expected = run("evaluate", model)[1].replace(str(model), str(path))
    places = {at: value for at, value in paths_in(metadata) if at[0] != "agrad"}
    assert len(places) > 20 and {*places} > ANY_NUMBER
    for at, value in places.items():
        for change in (None, *(["text"] if isinstance(value, float | str) else []), 3.5):
            checkpoint.save(path, tensors, changed(metadata, at, change))
            if (change == 3.5 and at in ANY_NUMBER) or (change is None and at in NOT_IN_OLDER_FILES):
                assert run("evaluate", path) == (0, expected, ""), at
            else:
                refused(1, "", "evaluate", path)
    for name in {re.sub(r"\d+", "#", name): name for name in tensors}.values():  # one of each kind
        if re.fullmatch(r"optimizer\.(class|dtypes|groups.*|\d+\.shape)", name):
            continue  # older files lack it
        checkpoint.save(path, {key: value for key, value in tensors.items() if key != name}, metadata)
        refused(1, "", "train", "--resume", path, "--epochs", "40", "--save", tmp_path / "other.st")
        assert not (tmp_path / "other.st").exists()

"""``agrad train`` and a saved model on tables as people have them, on quantities, and on images."""

import csv
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np
import pytest
from cli_files import records, tensors

from agrad.cli import config as configs
from agrad.cli import main, models
from agrad.cli.scores import class_lines, residual_lines
from agrad.cli.terminal import cut
from agrad.nn import checkpoint

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.needs("safetensors")

FAST = ("--hidden", "8", "--lr", "0.02")


def homes(path, rows=300, sep=";", cities=("Rome", "Oslo", "Bern"), seed=0):
    """Write a table with an id, missing values, words, dates, a price, and whether it is high."""
    rng = np.random.default_rng(seed)
    lines = [("id", "area", "city", "built", "garden", "price", "size", "high")]
    for row in range(rows):
        area, city, garden = float(np.round(rng.normal(90, 20), 1)), str(rng.choice(cities)), rng.random() < 0.5
        year = int(rng.integers(1950, 2020))
        price = 3 * area + {"Oslo": 80, "Bern": -60}.get(city, 0) + (year - 1980) + 40 * garden + rng.normal(0, 5)
        gap = rng.random(2) < 0.05
        own = (5000 + row, "" if gap[0] else area, "" if gap[1] else city, f"{year}-0{1 + row % 9}-15")
        high, garden = "high" if price > 300 else "low", "yes" if garden else "no"
        lines.append((*own, garden, f"{price:.2f}", f"{area * 10:.1f}", high))
    return lines_to(path, [sep.join(map(str, line)) for line in lines])


def lines_to(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """Train a model of prices; return the folder of data, model, log and report, and what was printed."""
    place, out, err = tmp_path_factory.mktemp("tables"), StringIO(), StringIO()
    data = homes(place / "homes.csv")
    words = ["train", "--data", data, "--label", "price", *FAST, "--epochs", "40", "--patience", "4"]
    outputs = ["--save", place / "m.st", "--log", place / "log.jsonl", "--report", place / "r.html"]
    with redirect_stdout(out), redirect_stderr(err):
        assert main([str(word) for word in (*words, *outputs)]) == 0
    return place, out.getvalue(), err.getvalue()


@pytest.fixture
def place(priced):
    return priced[0]


def test_prices_are_learned_from_a_table_as_it_is(priced):
    place, out, err = priced
    first, *epochs, last = records(place / "log.jsonl")
    assert (first["task"], first["validation"], first["outputs"]) == ("regression", 0.15, 1)
    assert (first["train_examples"], first["validation_examples"], first["test_examples"]) == (204, 36, 60)
    assert last["test_r2"] > 0.8 and last["test_mse"] > last["test_mae"] > 1
    best = min(epochs, key=lambda record: record["validation_loss"])["epoch"]
    assert last["best_epoch"] == best and len(epochs) == min(best + 4, 40)
    lines = out.splitlines()
    for line, parts in zip(lines, (
        ["300 rows, 6 columns to learn from (3 words, 2 numbers, 1 date), 1 left out, separated"],
        ["missing values: 'area' (22), 'city' (12)"],
        ["task: regression, because 'price' has", "--task classification"],
        ["15% of the training rows are held out", "--validation 0"],
    ), strict=False):  # fmt: skip
        assert all(part in line for part in parts)
    assert any(line.startswith("target ") and "95%" in line for line in lines)
    assert lines[-2].startswith(f"test R2 {last['test_r2']:.4f}, MAE ")
    assert "left out 'id'" in err and "--keep" in err


def test_a_saved_model_has_all_that_its_columns_need(ran, refused, place, backend):
    model, new = place / "m.st", place / "new.tsv"
    last = records(place / "log.jsonl")[-1]
    assert ran("evaluate", model, "--quiet")[0].startswith(f"R2 {last['test_r2']:.4f}, MAE ")
    # columns in another order, one more, other words, tabs, and no price
    with open(homes(place / "new.csv", 12, ",", cities=("Rome", "Nice"), seed=1), newline="") as file:
        rows = list(csv.DictReader(file))
    names = ["garden", "built", "extra", "area", "city", "size", "high"]
    lines_to(new, ["\t".join(names), *("\t".join({**row, "extra": "1"}[name] for name in names) for row in rows)])
    out, err = ran("predict", model, "--data", new)
    told = list(csv.DictReader(out.splitlines()))
    assert list(told[0]) == ["example", "price"]
    found, right = (np.array([row["price"] for row in table], float) for table in (told, rows))
    assert np.median(np.abs(found - right)[[row["city"] == "Rome" for row in rows]]) < 40
    assert "ignored, because the training data did not have them: extra" in err
    assert "taken as other: 'city' ('Nice')" in err
    less = lines_to(place / "less.tsv", ["area\tcity", "90\tRome"])
    refused(1, "missing: built, garden, size, high", "predict", model, "--data", less)
    refused(2, "--proba", "predict", model, "--data", new, "--proba")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("homes.csv", ("--label", "price,size", "--schedule", "constant")),
        ("images.npz", ("--model", "conv", "--dropout", "0.1")),
        ("homes.csv", ("--label", "high", "--precision", "float16", "--schedule", "constant", "--backend", "numpy")),
    ],
)
def test_a_resumed_run_ends_as_one_that_ran_through(ran, refused, place, tmp_path, source, words):
    X = np.random.default_rng(0).integers(0, 60, (60, 8, 6)) + (np.arange(60) % 2 * 90)[:, None, None]
    np.savez(place / "images.npz", X=X.astype(np.uint8), y=np.arange(60) % 2)
    most, path = 4 if "conv" in words else 2, tmp_path / "part.st"
    for name, epochs in (("whole.st", most), ("part.st", most // 2)):
        ran("train", "--data", place / source, *FAST, *words, "--epochs", epochs, "--save", tmp_path / name)
    out, _ = ran("train", "--resume", path, "--epochs", most)
    assert ("convolutions, 48-8-2 relu" in out) == ("conv" in words)
    whole, about = checkpoint.load(tmp_path / "whole.st")
    assert tensors(path) == tensors(tmp_path / "whole.st")
    assert any(name.startswith("early.values.") for name in whole) == (source == "homes.csv")
    assert whole.get("1.weight", X).shape == ((16, 1, 3, 3) if "conv" in words else X.shape)
    assert "conv" not in words or "accuracy 100.00%" in ran("evaluate", path)[0].splitlines()[-1]
    if "float16" in words:
        assert about["config"]["precision"] == "float16" and whole["loss_scale.good_steps"] > 0
    conflict = ("--precision", "tf32", "--epochs", "9")
    refused(2, "--precision tf32 conflicts with --resume", "train", "--resume", path, *conflict)


def test_classes_are_shown_with_their_confusions(ran, place, tmp_path):
    words = ("train", "--data", place / "homes.csv", "--label", "high", "--class-weight", "balanced", *FAST)
    out, _ = ran(*words, "--epochs", "8", "--save", tmp_path / "m.st", "--log", tmp_path / "log.jsonl")
    last = records(tmp_path / "log.jsonl")[-1]
    assert last["test_auc"] >= last["test_accuracy"] > 0.8
    lines = out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("class "))
    assert lines[at - 1].strip() == "predicted as"
    assert lines[at].split()[1:] == ["examples", "precision", "recall", "F1", "high", "low"]
    counts = np.array([[int(n) for n in line.split()[-2:]] for line in lines[at + 1 : at + 3]])
    assert counts.sum() == 60 and np.trace(counts) / 60 == pytest.approx(last["test_accuracy"])
    assert f"AUC {last['test_auc']:.4f}" in lines[at + 3]
    out, _ = ran("predict", tmp_path / "m.st", "--data", place / "homes.csv", "--proba")
    told = list(csv.DictReader(out.splitlines()))
    assert list(told[0]) == ["example", "class", "high", "low"]
    assert all(float(row["high"]) + float(row["low"]) == pytest.approx(1, abs=2e-6) for row in told)
    assert {row["class"] for row in told if float(row["low"]) > 0.5} == {"low"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("", 2, "name the target column with --label"),
        ("--label price --task ranking", 2, "--task must be one of auto"),
        ("--label price --class-weight balanced", 2, "--class-weight balanced requires class labels"),
        ("--label high --task regression", 1, "column 'high': expected a finite number, found 'high'"),
        ("--label high,city", 1, "expected a finite number"),
        ("--label price --model conv", 2, "--model conv: examples must be images"),
        ("--label price --keep none", 1, "expected a column 'none'"),
        ("--label price --patience -1", 2, "--patience must be an integer of 0 or more"),
        ("--data digits --task regression", 2, "--task"),
        ("--data digits --keep a", 2, "--keep"),
    ],
)
def test_settings_that_do_not_fit_are_refused(refused, place, words, code, text):
    refused(code, text, "train", "--data", place / "homes.csv", *words.split())


def test_the_report_is_one_page_with_charts(place):
    page = (place / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"""(src|href)=|url\(|@import""", page)
    assert page.count("<svg") == page.count("</svg>") == 5
    titles = ("Learning curves", "Residuals", "Calibration", "Errors by category", "Importance of columns")
    for title in (*titles, "Data", "Settings"):
        assert f"<h2>{title}</h2>" in page
    assert "prefers-color-scheme: dark" in page and 'class="warn"' not in page
    bars = re.search(r'<table class="bars" aria-label="errors.*?</table>', page)[0]
    shown = re.findall(r'<th scope="row">([^<]+) \((\d+)\)</th>.*?<td class="number">([\d.]+)</td>', bars)
    counts = {name: int(count) for name, count, _ in shown}
    assert counts["garden: yes"] + counts["garden: no"] == counts["high=high"] + counts["high=low"] == 60
    sums = [sum(int(n) * float(off) for name, n, off in shown if name.startswith(part)) for part in ("garden", "high=")]
    mae = records(place / "log.jsonl")[-1]["test_mae"]
    assert sums == pytest.approx([60 * mae, 60 * mae], rel=1e-3)
    assert f"it is {mae:.4g}" in page
    bars = re.search(r'<table class="bars" aria-label="importance.*?</table>', page)[0]
    shown = re.findall(r'<th scope="row">(\w+)</th>.*?<td class="number">(-?[\d.]+)</td>', bars)
    falls = [float(value) for _, value in shown]
    assert {name for name, _ in shown} == {"area", "city", "built", "garden", "size", "high"}
    assert falls == sorted(falls, reverse=True) and falls[0] > 0.1
    # the loss is drawn for each epoch
    points = re.search(r'<polyline class="line0" points="([^"]+)"', page)[1].split()
    assert len(points) == len(records(place / "log.jsonl")) - 2


def test_a_column_that_gives_the_target_is_named(ran, tmp_path):
    data = homes(tmp_path / "homes.csv", rows=200)
    with open(data, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    for row in rows:
        row["in cents"] = "" if row["garden"] == "no" and row["high"] == "low" else f"{float(row['price']) * 100:.0f}"
        row["dear"] = {"high": "very", "low": "not"}[row["high"]]
    lines_to(data, [";".join(rows[0]), *(";".join(row.values()) for row in rows)])
    words = ("train", "--data", data, *FAST, "--epochs", "1", "--report", tmp_path / "r.html", "--quiet")
    assert "alone predicts" not in ran(*words, "--label", "price", "--task", "regression")[1]
    _, err = ran(*words, "--label", "high")
    found = re.findall(r"column '(.+)' alone predicts the target \(mean recall .*\).*with --drop (.+)", err)
    assert found == [("price", "price"), ("in cents", "'in cents'"), ("dear", "dear")]
    assert (tmp_path / "r.html").read_text().count('class="warn"') == 3
    assert "alone predicts" not in ran(*words, "--label", "high", "--drop", "price,dear,in cents")[1]
    for row in rows:
        row["in cents"] = f"{float(row['price']) * 12:.1f}"
    lines_to(data, [";".join(rows[0]), *(";".join(row.values()) for row in rows)])
    _, err = ran(*words, "--label", "price,size", "--drop", "id")
    assert "column 'in cents' alone predicts the target (R2 1.000)" in err and "--drop 'in cents'" in err


def test_wrong_cells_are_told_once(ran, tmp_path):
    data = homes(tmp_path / "homes.csv", rows=200)
    lines = data.read_text().splitlines()
    for k in range(5, 200, 40):
        lines[k] = ";".join([*lines[k].split(";")[:1], "wide", *lines[k].split(";")[2:]])
    lines_to(data, lines)
    _, err = ran("train", "--data", data, "--label", "high", *FAST, "--epochs", "1", "--quiet")
    assert err.count("column 'area': expected a number, found 'wide'") == 1


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_tables_fit_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"a long name of a class that is {k}" for k in range(12)]
    matrix = np.arange(144).reshape(12, 12) % 7 + 400 * np.eye(12, dtype=int)
    matrix[0] = np.eye(12, dtype=int)[0] * 9
    lines = class_lines(matrix, names)
    assert len(lines) in (13, 14) and max(map(len, lines)) <= width
    assert len({line[: 24 if width > 40 else 11] for line in lines[-12:]}) == 12 and lines[-1].startswith("a lo")
    row = lines[-11].split()
    assert f"{matrix[1, 1] / matrix[1].sum():.1%}" in row
    if width == 200:
        assert row[-12:] == [str(count) for count in matrix[1].tolist()]
    elif width == 80:
        assert lines[0].endswith("  mistaken for") and lines[1].endswith("%") and row[-1] == "(6)"
    else:
        assert row[-1].endswith("%")
    # the digits with a few hundred examples each
    lines = class_lines(matrix[:10, :10], "0123456789")
    assert max(map(len, lines)) <= width and ("predicted as" in lines[0]) == (width >= 80)
    lines = class_lines(np.diag(np.arange(60)), [f"{k}" for k in range(60)])
    assert [line.split()[0] for line in lines[1:3]] == ["1", "2"]  # 0 has no examples
    assert lines[-1] == "(20 of 60 classes, by lowest F1)"
    told = np.random.default_rng(0).normal(size=(50, 2)) * [1e-7, 1e7]
    lines = residual_lines(told, np.sqrt(np.abs(told)), ["a name that is\nmuch longer than others", "y"])
    assert max(map(len, lines)) <= width and "e+0" in lines[-1].split()[1]
    assert ("predicted - true" in lines[0]) == (width > 40)


def test_a_report_shows_text_of_files_as_text(ran, refused, tmp_path):
    data = lines_to(tmp_path / "t.csv", ["a<script>,y", *(f"{k},<b>{k % 2}</b>" for k in range(40))])
    words = ("train", "--data", data, "--label", "y", "--keep", "a<script>", *FAST, "--epochs", "1", "--report")
    ran(*words, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<script>" not in page and "<b>0</b>" not in page
    assert "a&lt;script&gt;" in page and "&lt;b&gt;0&lt;/b&gt;" in page
    refused(2, "r.csv", *words, tmp_path / "r.csv")
    other = lines_to(tmp_path / "other.html", ["<p>mine</p>"])
    refused(1, "other.html", *words, other)
    assert other.read_text() == "<p>mine</p>\n"


@pytest.mark.parametrize(
    ("rows", "part", "hidden", "members", "size", "epochs"),
    [
        (39, 0, (64, 64), 8, 256, 100),
        (40, 0.15, (64, 64), 8, 256, 100),
        (999, 0.15, (64, 64), 8, 256, 51),
        (1000, 0.15, (128, 128), 4, 256, 100),
        (16_000, 0.15, (128, 128), 2, 512, 25),
        (1_000_000, 0.15, (128, 128), 1, 512, 20),
    ],
)
def test_defaults_of_tables_follow_the_rows(rows, part, hidden, members, size, epochs):
    config = configs.resolve({"data": "homes.csv", "label": "price"})
    assert config.model == "table"
    assert {getattr(config, name) for name in configs.OPEN} == {None}
    for task in ("classification", "regression"):
        found = models.settled(config, task, rows)
        named = (found.validation, found.hidden, found.members, found.batch_size, found.epochs, found.patience)
        assert named == (part, hidden, members, size, epochs, epochs // 4)
    given = configs.resolve({"data": "homes.csv", "label": "price", "epochs": 7, "members": 3, "validation": 0.0})
    found = models.settled(given, "regression", rows)
    assert (found.epochs, found.members, found.validation, found.patience) == (7, 3, 0.0, 5)


def test_a_model_of_before_there_were_ensembles_is_read(ran, place, tmp_path):
    data = place / "homes.csv"
    words = ("train", "--data", data, "--label", "price", "--model", "mlp", *FAST, "--epochs", "2")
    ran(*words, "--save", tmp_path / "m.st")
    tensors, metadata = checkpoint.load(tmp_path / "m.st")
    assert {"0.weight", "0.bias"} < {*tensors} and "0.column" not in tensors
    assert metadata["config"].pop("members") == 1
    checkpoint.save(tmp_path / "old.st", tensors, metadata)
    told = [ran("predict", tmp_path / name, "--data", data)[0] for name in ("m.st", "old.st")]
    assert told[0] == told[1]


def test_another_task_is_named_only_if_it_is_possible(ran, tmp_path):
    rows = (f"{n / 7:.3f},{n % 3},{'uv'[n % 2]},{n / 3:.3f},{n / 9:.3f}" for n in range(40))
    data = lines_to(tmp_path / "t.csv", ["a,number,word,size,price", *rows])
    for label, other in (
        ("number", "(else --task regression)"),
        ("size", "(else --task classification)"),
        ("word", None),
        ("size,price", None),
    ):
        out, _ = ran("train", "--data", data, "--label", label, *FAST, "--epochs", "1")
        (line,) = [line for line in out.splitlines() if ": task: " in line]
        assert line.endswith(other) if other else "else" not in line


def test_wide_characters_take_two_columns(monkeypatch):
    def breadth(line):
        return len(line) + sum(ord(character) > 0x2E80 for character in line)

    for width in (40, 60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = class_lines(np.eye(3, dtype=np.int64) * 7 + 1, ["上海", "Oslo", "広島市中区" * 4])
        assert len({breadth(line) for line in lines[-3:]}) == 1
        assert max(map(breadth, lines)) <= width
    assert [cut("上海 Oslo", room) for room in (9, 8, 4, 2, 0, -3)] == ["上海 Oslo", "上海 Os…", "上…", "…", "…", "…"]


def test_an_id_given_by_number_is_found_in_other_tables(ran, place, tmp_path):
    data, model = place / "homes.csv", tmp_path / "m.st"
    ran(
        "train", "--data", data, "--label", "price", "--id", "0", "--drop", "1", *FAST, "--epochs", "1", "--save", model
    )
    new = lines_to(tmp_path / "new.csv", [line.partition(";")[2] for line in data.read_text().splitlines()])
    heads = [ran("predict", model, "--data", path)[0].splitlines()[0] for path in (data, new)]
    assert heads == ["example,id,price", "example,price"]

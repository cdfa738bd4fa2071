"""Tables as numbers, classes or quantities: what is fitted to a training part, and what becomes of further tables."""

import json
import os

import numpy as np
import pytest
from call_counts import counted
from processes import run_program
from refusals import fails

from agrad.data import ClassificationData, RegressionData, TableEncoder, load_npz, load_table, read_csv, read_parquet
from agrad.data.encoder import check_memory
from agrad.errors import ConfigurationError, DataError

ROWS = 40


def write(path, rows=ROWS, change=lambda row, cells: cells, names=None):
    """Write a table with every kind of column; `change` makes other cells of a row."""
    lines = [";".join(names or ("id", "height", "city", "born", "member", "one", "note"))]
    for row in range(rows):
        cells = {
            "id": str(7000 + 3 * row),
            "height": "" if row == 5 else f"{1.5 + row / 100:.2f}",
            "city": ("Rome", "Oslo", "Bern")[row % 3] if row < ROWS - 2 else ("", "Nice")[row % 2],
            "born": f"200{row % 10}-0{1 + row % 9}-1{row % 8}",
            "member": ("yes", "no")[row % 2],
            "one": "x",
            "note": f"text {row}",
        }
        cells = change(row, cells)
        lines.append(";".join(cells[name] for name in names or cells))
    path.write_text("\n".join(lines) + "\n")
    return read_csv(path)


def fitted(table, **options):
    told = []
    encoder = TableEncoder(report=told.append, **options).fit(table)
    return encoder, told


@pytest.fixture
def whole(tmp_path):
    """A table, an encoder fitted to it, and what that told."""
    table = write(tmp_path / "t.csv")
    return table, *fitted(table)


def encoded(encoder, table):
    return dict(zip(encoder.names, encoder.encode(table).T, strict=True))


def test_each_kind_of_column_becomes_numbers(whole):
    table, encoder, told = whole
    assert encoder.names == (
        *("height", "height missing", "city=Bern", "city=Oslo", "city=Rome", "city=(other)", "city=(missing)"),
        *("born year", "born month", "born weekday", "born time", "member"),
    )
    assert encoder.left_out == {"id": "id", "one": "constant", "note": "id"}
    (line,) = told
    assert "left out 'id', 'note'" in line and "--keep" in line
    X = encoded(encoder, table)
    heights = table["height"].values
    assert X["height"][5] == np.nanmedian(heights) and np.flatnonzero(X["height missing"]).tolist() == [5]
    marks = np.stack([X[name] for name in encoder.names if name.startswith("city=")])
    assert marks.sum(axis=0).tolist() == [1.0] * ROWS
    assert [X["city=(missing)"][ROWS - 2], X["city=(other)"][ROWS - 1], X["city=Rome"][0]] == [1, 1, 1]
    days = table["born"].values.astype("datetime64[D]")
    assert [X[f"born {part}"][3] for part in ("year", "month", "weekday")] == [2003, 4, days[3].item().weekday()]
    assert [X["born time"].min(), X["born time"][3]] == [0, (days[3] - days.min()) / np.timedelta64(1, "s")]
    assert X["member"].tolist() == [1, 0] * (ROWS // 2)


def test_quantities_are_standardised_and_marks_are_not(whole):
    table, encoder, _ = whole
    X = encoder.transform(table, "float64")
    scaled = np.array([flag for encoding in encoder.encodings for flag in encoding.scaled])
    np.testing.assert_allclose(X[:, scaled].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, scaled].std(axis=0), 1, rtol=1e-12)
    assert set(np.unique(X[:, ~scaled])) == {0.0, 1.0}
    assert encoder.transform(table).dtype == np.float32
    places = encoder.parts
    assert [encoder.names[places["born"]][0], encoder.names[places["member"]]] == ["born year", ("member",)]


def test_an_encoder_comes_back_from_json(whole):
    table, encoder, _ = whole
    saved = json.loads(json.dumps(encoder.as_metadata()))
    again = TableEncoder.from_metadata(saved, encoder.mean, encoder.scale)
    again.report = [].append
    assert np.array_equal(again.transform(table), encoder.transform(table))
    first = saved["columns"][0]
    for wrong in (
        {},
        {**saved, "columns": []},
        {**saved, "left_out": {"id": "no reason"}},
        {**saved, "columns": [{**first, "kind": "image"}]},
        {**saved, "columns": [{**first, "fill": "1"}]},
        {**saved, "columns": [first] * 2},
        {**saved, "columns": saved["columns"][:-1]},
    ):
        fails(DataError, "expected", TableEncoder.from_metadata, wrong, encoder.mean, encoder.scale)


def test_further_tables_are_matched_by_name(whole, tmp_path):
    table, encoder, told = whole
    expected = encoder.transform(table)
    names = ["member", "born", "more", "city", "height"]
    other = write(tmp_path / "other.csv", change=lambda row, cells: {**cells, "more": "1"}, names=names)
    told.clear()
    assert np.array_equal(encoder.transform(other), expected)
    assert "ignored, because the training data did not have them: more" in told[0]
    fails(DataError, "missing: city, born", encoder.transform, write(tmp_path / "f.csv", names=["member", "height"]))
    fails(DataError, "Call its method fit", TableEncoder().transform, table)


def test_what_training_did_not_have_is_told_once(whole, tmp_path):
    _, encoder, told = whole
    told.clear()
    new = write(tmp_path / "new.csv", 6, lambda row, cells: {**cells, "city": f"Town {row % 2}", "member": ""})
    X = encoded(encoder, new)
    assert X["city=(other)"].tolist() == [1.0] * 6 and X["member"].tolist() == [0.5] * 6
    assert len(told) == 2
    assert "missing values, of which training had none, replaced by the median of training: 'member' (6)" in told[0]
    assert "'city' ('Town 0', 'Town 1')" in told[1]
    # without rare words in training, nothing stands for an unknown one
    plain, _ = fitted(write(tmp_path / "plain.csv", ROWS - 2))
    assert plain.encode(new)[:, plain.parts["city"]].sum() == 0


def test_a_few_wrong_cells_are_missing_and_more_are_an_error(tmp_path):
    def wrong(*rows):
        return lambda row, cells: {**cells, "height": "tall" if row in rows else cells["height"]}

    table = write(tmp_path / "t.csv", change=wrong(7))
    encoder, told = fitted(table)
    assert encoder.encodings[0].kind == "number"
    assert np.flatnonzero(encoder.encode(table)[:, 1]).tolist() == [5, 7]
    assert any("column 'height': expected a number, found 'tall' in line 9; taken as missing" in line for line in told)
    for rows, change, match in (
        (8, wrong(1), "line 3, column 'height': expected a number, found 'tall'"),
        (8, lambda row, cells: {**cells, "height": cells["born"]}, "expected numbers as in training, found dates"),
        (2, lambda row, cells: {**cells, "height": "inf"}, "line 2, column 'height': expected a finite number"),
    ):
        fails(DataError, match, encoder.encode, write(tmp_path / "new.csv", rows, change))


def test_ids_can_be_kept_and_codes_taken_as_words(tmp_path):
    table = write(tmp_path / "t.csv", change=lambda row, cells: {**cells, "one": str(row % 3)})
    assert fitted(table, keep=["id"])[0].columns[0] == "id"
    encoder, _ = fitted(table, categorical=["one"])
    assert encoder.names[-3:] == ("one=0", "one=1", "one=2") and encoder.words == ("city", "one")
    assert fitted(table, max_categories=1)[0].encodings[1].categories == ("Oslo",)
    assert "city" not in fitted(table, min_count=30)[0].columns
    fails(DataError, "expected a column 'none'", fitted, table, keep=["none"])
    fails(ConfigurationError, "min_count", TableEncoder, min_count=0)
    fails(DataError, "found none to use", fitted, table.select(["id", "note"]))


def test_dates_in_a_form_that_is_not_known_are_named(tmp_path):
    table = write(tmp_path / "t.csv", change=lambda row, cells: {**cells, "note": f"{10 + row}/13/{row % 9}"})
    encoder, told = fitted(table)
    assert encoder.left_out["note"] == "dates"
    assert any("'note'" in line and "2026-01-31" in line for line in told)


def test_the_form_of_dates_is_that_of_training(tmp_path):
    def dated(days):
        return lambda row, cells: {**cells, "note": days[row % len(days)]}

    days = [f"{1 + k % 28}/{3 + k // 28}/2024" for k in range(30)]
    encoder, _ = fitted(write(tmp_path / "t.csv", change=dated(days)))
    assert "note" in encoder.words and encoder.encodings[-1].form == "%d/%m/%Y"
    again = TableEncoder.from_metadata(json.loads(json.dumps(encoder.as_metadata())), encoder.mean, encoder.scale)
    # by itself, this file reads as the second of January
    table = write(tmp_path / "new.csv", change=dated(["1/2/2024"]))
    assert table["note"].values[0] == np.datetime64("2024-01-02")
    for one in (encoder, again):
        one.report = [].append
        new = read_csv(tmp_path / "new.csv", words=one.words)
        assert one.encode(new)[0, one.names.index("note month")] == 2


def test_marks_among_strings_are_missing_and_strings_in_older_files(tmp_path):
    table = write(tmp_path / "t.csv", change=lambda row, cells: {**cells, "city": ("Rome", "Oslo", "?", "NA")[row % 4]})
    assert table["city"].marks == ("?", "NA") and table["city"].missing.sum() == 20
    encoder, _ = fitted(table)
    assert [name for name in encoder.names if "city" in name] == ["city=Oslo", "city=Rome", "city=(missing)"]
    assert encoder.encode(table)[:, encoder.names.index("city=(missing)")].sum() == 20
    encoding = {"column": "city", "kind": "word", "missing": True, "fill": 0.0, "categories": ["?", "Rome"]}
    encoding |= {"other": True, "parts": [], "first": 0.0}
    older = TableEncoder.from_metadata({"columns": [encoding], "left_out": {}}, np.zeros(4), np.ones(4))
    older.report = [].append
    assert older.names == ("city=?", "city=Rome", "city=(other)", "city=(missing)")
    new = read_csv(tmp_path / "t.csv", words=older.words).select(["city"])
    assert older.encode(new).sum(axis=0).tolist() == [10, 10, 20, 0]


def test_many_columns_take_linear_time(tmp_path):
    def use():
        table = read_csv(tmp_path / "t.csv")
        TableEncoder(report=[].append).fit(table).transform(table)

    calls = {}
    for count in (100, 400):
        rows = [[str((7 * k + 3 * row) % 11 / 2) for k in range(count)] for row in range(8)]
        (tmp_path / "t.csv").write_text("\n".join(map(",".join, [[f"c{k}" for k in range(count)], *rows])))
        calls[count], *_ = counted(use)
    assert calls[400] < 4.5 * calls[100]


@pytest.mark.needs("pyarrow")
def test_parquet_is_encoded_as_text_is(tmp_path):
    import pyarrow
    from pyarrow import parquet

    table = write(tmp_path / "t.csv")
    columns = {c.name: pyarrow.array(c.values, mask=c.missing) for c in table.columns}
    columns["member"] = pyarrow.array([word == "yes" for word in table["member"].values])
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    encoder, _ = fitted(table)
    assert np.array_equal(encoder.transform(read_parquet(tmp_path / "t.parquet")), encoder.transform(table))


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="the system does not tell how much memory is left")
def test_a_table_that_needs_too_much_memory_is_refused():
    check_memory("a.csv", 10, 3, 8)
    match = r"a.csv: 10,000,000,000 rows of 300 numbers need 12000.0 GB .* \(--drop\)"
    fails(DataError, match, check_memory, "a.csv", 10**10, 300, 4)


# -- whole tables: classes or quantities, told apart by what the labels are --


def columns_of(path, sep=";", **columns):
    """Write a table of columns."""
    lines = [sep.join(columns), *(sep.join(map(str, cells)) for cells in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def targets_to(path, target, rows=60, sep=","):
    """Write a table of a number, a word and a target."""
    numbers = np.random.default_rng(0).normal(size=rows).round(4)
    return columns_of(path, sep, a=numbers, b=["uv"[k % 2] for k in range(rows)], y=[target(k) for k in range(rows)])


@pytest.mark.parametrize(
    ("target", "task", "why"),
    [
        (lambda row: f"{row / 7:.3f}", "regression", "'y' has 60 different fractions in 60 rows"),
        (lambda row: row * 3, "regression", "'y' has 60 different numbers in 60 rows"),
        (lambda row: row % 12, "classification", "'y' has 12 different whole numbers"),
        (lambda row: f"k{row % 3}", "classification", "'y' has 3 different words"),
    ],
)
def test_the_task_is_found_by_the_labels(tmp_path, target, task, why):
    found = load_table(targets_to(tmp_path / "t.csv", target, sep=";"), "y")
    columns = "60 rows, 2 columns to learn from (1 number, 1 word), separated by semicolons"
    assert (found.task, found.about) == (task, (columns, f"task: {task}, because {why}"))
    assert isinstance(found, RegressionData if task == "regression" else ClassificationData)
    assert (found.feature_names, found.labels) == (("a", "b=u", "b=v"), ("y",))


def test_targets_are_standardised_by_the_train_part(tmp_path):
    found = load_table(targets_to(tmp_path / "t.tsv", lambda row: 1000 + 5 * row, sep="\t"), "y", dtype="float64")
    assert (found.X_train.shape, found.X_test.shape, found.y_test.shape) == ((48, 3), (12, 3), (12, 1))
    np.testing.assert_allclose([found.y_train.mean(), found.y_train.std()], [0, 1], atol=1e-12)
    targets = np.concatenate([found.targets(found.y_train), found.targets(found.y_test)])
    np.testing.assert_allclose(np.sort(targets[:, 0]), 1000 + 5 * np.arange(60))


def test_several_columns_are_learned_together(tmp_path):
    path = targets_to(tmp_path / "t.csv", lambda row: row / 7)
    found = load_table(path, "y,a")
    assert (found.target_names, found.feature_names, found.n_outputs) == (("y", "a"), ("b=u", "b=v"), 2)
    for label, task, error in (
        (["y", "y"], "auto", "different target columns"),
        ("y,none", "auto", "a column 'none'"),
        ("y,b", "auto", "a finite number"),
        ("y,a", "classification", "one column of classes"),
    ):
        fails(DataError, error, load_table, path, label, task=task)


def test_a_task_can_be_asked_for(tmp_path):
    path = targets_to(tmp_path / "t.csv", lambda row: row % 4)
    still = targets_to(tmp_path / "still.csv", lambda row: 1)
    many = targets_to(tmp_path / "many.csv", lambda row: row // 2)
    assert load_table(path, "y", task="regression").target_names == ("y",)
    assert load_table(path, "y").class_names == ("0", "1", "2", "3")
    assert load_table(many, "y", task="classification").n_classes == 30
    for error, match, table, options in (
        (ConfigurationError, "task", path, {"task": "ranking"}),
        (DataError, "targets that vary", still, {"task": "regression"}),
        (ConfigurationError, "'y' is a target column", path, {"keep": ["y"]}),
        (ConfigurationError, "'a' is .* left out, so it cannot be a feature", path, {"keep": ["a"], "drop": [0]}),
    ):
        fails(error, match, load_table, table, "y", **options)
    # columns have the numbers that they have in the file
    path.write_text("y,code\n" + "".join(f"{row % 2},{row % 3}\n" for row in range(30)))
    assert load_table(path, 0, categorical=[1]).feature_names == ("code=0", "code=1", "code=2")


def test_rows_without_a_label_are_left_out(tmp_path):
    path = targets_to(tmp_path / "t.csv", lambda row: "" if row in (3, 4) else "NA" if row == 9 else row / 7)
    with pytest.warns(UserWarning, match="3 rows without y left out"):
        found = load_table(path, "y")
    assert found.y_train.shape[0] + found.y_test.shape[0] == 57
    fails(DataError, "missing values only", lambda: load_table(targets_to(tmp_path / "none.csv", lambda row: ""), "y"))


def test_an_archive_may_hold_quantities(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = X @ np.array([1.0, -2.0, 0.5])

    def archive(**arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        return tmp_path / "a.npz"

    path = archive(X=X, y=y)
    found = load_npz(path, task="auto")
    assert (found.task, found.target_names, found.y_train.shape) == ("regression", ("y",), (40, 1))
    fails(DataError, "regression", load_npz, path)
    archive(X=X[:40], y=np.stack([y, -y], axis=1)[:40], X_test=X[40:], y_test=np.ones((10, 2)))
    found = load_npz(path, task="auto")
    assert (found.target_names, found.y_test.shape) == (("y0", "y1"), (10, 2))
    archive(X=X, y=np.where(np.arange(50) == 7, np.nan, y))
    fails(DataError, r"y: X?.*nan at example 7", load_npz, path, task="regression")
    archive(X=X, y=np.array(["a", "b"] * 25))
    fails(DataError, "expected numbers of shape", load_npz, path, task="regression")
    assert load_npz(path, task="auto").task == "classification"


def test_numbers_that_cannot_be_ids_are_features(tmp_path):
    rows = [(10**18 + 256 * k, -37 * k, f"$ {k * 123456:,}", f"{k + 1.5:.1f}e30", k % 2) for k in range(60)]
    columns = zip(("id", "debt", "price", "mass", "y"), zip(*rows, strict=True), strict=True)
    path = columns_of(tmp_path / "t.csv", **dict(columns))
    told = []
    assert load_table(path, "y", report=told.append).feature_names == ("debt", "price", "mass")
    (line,) = told
    assert "left out 'id':" in line and "--id " in line and "--keep " in line


def test_targets_that_do_not_fit_are_named(tmp_path):
    for power, message in (
        (200, r"t.csv': column 'y' is too large to standardize \(up to 3.95e\+201\)"),
        (-200, "targets that vary by more than 1e-150, found 5e-201 to 3.95e-199 in 'y'"),
    ):
        columns = {"a": [k / 7 for k in range(40)], "y": [f"{k}.5e{power}" for k in range(40)]}
        fails(DataError, message, load_table, columns_of(tmp_path / "t.csv", **columns), "y")


def test_the_lines_about_a_table_count_the_columns_in_use(tmp_path):
    path = columns_of(tmp_path / "t.csv", a=[k / 7 for k in range(40)], b=[""] * 40, c=[1] * 40, y=[1, 2] * 20)
    (line, task) = load_table(path, "y").about
    assert line == "40 rows, 1 column to learn from (1 number), 2 left out, separated by semicolons"
    assert task.startswith("task: classification")


@pytest.mark.needs("pyarrow")
def test_reading_a_table_imports_no_pandas(tmp_path):
    path = columns_of(tmp_path / "t.csv", a=["", *range(39)], b=["u", "v"] * 20, y=[1, 2] * 20)
    program = "import sys, agrad.data; agrad.data.load_table(sys.argv[1], 'y'); sys.exit('pandas' in sys.modules)"
    run_program(program, path)

"""Data sets of tables: classes or quantities, told apart by what the labels are."""

import numpy as np
import pytest
from processes import run_program
from refusals import fails

from agrad.data import ClassificationData, RegressionData, load_npz, load_table
from agrad.errors import ConfigurationError, DataError


def columns_of(path, sep=";", **columns):
    """Write a table of columns."""
    lines = [sep.join(columns), *(sep.join(map(str, cells)) for cells in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write(path, target, rows=60, sep=","):
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
    found = load_table(write(tmp_path / "t.csv", target, sep=";"), "y")
    columns = "60 rows, 2 columns to learn from (1 number, 1 word), separated by semicolons"
    assert (found.task, found.about) == (task, (columns, f"task: {task}, because {why}"))
    assert isinstance(found, RegressionData if task == "regression" else ClassificationData)
    assert (found.feature_names, found.labels) == (("a", "b=u", "b=v"), ("y",))


def test_targets_are_standardised_by_the_train_part(tmp_path):
    found = load_table(write(tmp_path / "t.tsv", lambda row: 1000 + 5 * row, sep="\t"), "y", dtype="float64")
    assert (found.X_train.shape, found.X_test.shape, found.y_test.shape) == ((48, 3), (12, 3), (12, 1))
    np.testing.assert_allclose([found.y_train.mean(), found.y_train.std()], [0, 1], atol=1e-12)
    targets = np.concatenate([found.targets(found.y_train), found.targets(found.y_test)])
    np.testing.assert_allclose(np.sort(targets[:, 0]), 1000 + 5 * np.arange(60))


def test_several_columns_are_learned_together(tmp_path):
    path = write(tmp_path / "t.csv", lambda row: row / 7)
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
    path = write(tmp_path / "t.csv", lambda row: row % 4)
    still = write(tmp_path / "still.csv", lambda row: 1)
    many = write(tmp_path / "many.csv", lambda row: row // 2)
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
    path = write(tmp_path / "t.csv", lambda row: "" if row in (3, 4) else "NA" if row == 9 else row / 7)
    with pytest.warns(UserWarning, match="3 rows without y left out"):
        found = load_table(path, "y")
    assert found.y_train.shape[0] + found.y_test.shape[0] == 57
    fails(DataError, "missing values only", lambda: load_table(write(tmp_path / "none.csv", lambda row: ""), "y"))


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

"""Data sets of tables, for classification or regression."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from agrad.data.cells import MARKS, SURE, distinct, number_in, shown
from agrad.data.classification import (
    FEW,
    MANY,
    ClassificationData,
    class_labels,
    class_numbers,
    float_name,
    no_classes,
    quantities,
)
from agrad.data.encoder import TableEncoder
from agrad.data.encodings import words_of
from agrad.data.files import StrPath
from agrad.data.regression import RegressionData, check_task, dataset, split
from agrad.data.tablefiles import read_table
from agrad.data.tables import Table, column_number
from agrad.errors import ConfigurationError, DataError, listed

MOST = 100
"""Above so many classes of numbers each needs `FEW` rows or more, on average."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def load_table(
    path: StrPath | Table,
    label: str | int | Sequence[str | int],
    *,
    task: str = "auto",
    test_fraction: float = 0.2,
    seed: int = 0,
    dtype: str = "float32",
    categorical: Sequence[str | int] = (),
    keep: Sequence[str | int] = (),
    drop: Sequence[str | int] = (),
    report: Callable[[str], None] | None = None,
    header: bool | None = None,
    encoder: TableEncoder | None = None,
) -> ClassificationData | RegressionData:
    """Load a table as a data set of feature and target columns.

    A `TableEncoder` is fitted to the train part. Rows without a label are omitted, with a warning.

    Parameters
    ----------
    path : str, path or Table
        The file: Parquet (.parquet), or text, see `read_csv`. Or a table that was read with its labels as strings.
    label : str, int or sequence of these
        The target column, or several numeric ones. A string may name several, separated by commas.
    task : {"auto", "classification", "regression"}
        "auto" selects regression for several columns, and for numbers if one is fractional, or if there are more than
        20 different ones and one has fewer than 5 rows.
    test_fraction : float
        Fraction to hold out for the test part (of every class), between 0 and 1.
    seed : int
        The seed of the split, from 0 to 2**64 - 1.
    dtype : str
        The dtype of X, float32 or float64.
    categorical, keep : sequence of str or int
        Columns to treat as categorical, and to keep although they look like ids; see `TableEncoder`.
    drop : sequence of str or int
        Columns to leave out.
    report : function, optional
        Function that is called with each warning. By default, `warnings.warn`.
    header : bool, optional
        False for a text table without a header; see `read_csv`.
    encoder : TableEncoder, optional
        Fitted encoder to use. By default, a new one is fitted.

    Returns
    -------
    ClassificationData or RegressionData
        The examples, with the encoder.

    Raises
    ------
    DataError
        If the file cannot be read, a column does not exist, no feature column remains, or the labels do not fit the
        task.
    ConfigurationError
        If an option is out of range.

    Examples
    --------
    >>> import os, tempfile
    >>> rows = [(n / 2, ("north", "south")[n % 2], 7.5 * n) for n in range(40)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rooms.csv")
    ...     np.savetxt(path, rows, fmt="%s", delimiter=",", header="size,side,rent", comments="")
    ...     data = agrad.data.load_table(path, "rent")
    >>> data.task, data.feature_names, data.X_train.shape
    ('regression', ('size', 'side=north', 'side=south'), (32, 3))
    """
    dtype = float_name(dtype)
    check_task(task)
    as_words = (lambda names: categorical) if encoder is None else (lambda names: {*encoder.words} & {*names})
    if isinstance(path, Table):
        table = path
    else:
        file = repr(os.fspath(path))
        table = read_table(path, words=lambda names: [*targets_in(names, label, file), *as_words(names)], header=header)
    targets = targets_in(table.names, label, table.name)
    tell = _Once(report)
    table = labelled(table, targets, tell)
    # by name, because the features have other numbers than the columns of the file
    chosen = [tuple(table[column].name for column in columns) for columns in (categorical, keep, drop)]
    if both := [name for name in targets if name in {*chosen[0], *chosen[1], *chosen[2]}]:
        raise ConfigurationError(f"{shown(both[0])} is a target column, so it cannot be a feature column, nor left out")
    if both := [name for name in chosen[2] if name in {*chosen[0], *chosen[1]}]:
        raise ConfigurationError(f"{shown(both[0])} is to be left out, so it cannot be a feature column")
    left = {*targets, *chosen[2]}
    features = table.select([name for name in table.names if name not in left])
    texts, why = [words_of(table[name]) for name in targets], ""
    if task == "auto":
        task, why = task_of(texts, targets)
    where = table.name
    if task == "regression":
        y, names = table.numbers(targets), targets
    else:
        y, names = _classes(texts, where)
    parts = split(task, y, test_fraction, seed, where)
    if encoder is None:
        encoder = TableEncoder(categorical=chosen[0], keep=chosen[1], report=tell)
        encoder.fit(features.select(rows=parts[0]))
        encoder.left_out |= dict.fromkeys(chosen[2], "dropped")
    encoder.report = tell
    # parts of one array, without copies
    X = encoder.transform(features.select(rows=np.concatenate(parts)), dtype)
    about = _described(features, encoder.columns) + [f"task: {task}, because {why}"] * bool(why)
    more = {"feature_names": encoder.names, "encoder": encoder, "labels": targets, "about": tuple(about)}
    pairs = [(X[: parts[0].size], y[parts[0]]), (X[parts[0].size :], y[parts[1]])]
    return dataset(task, os.path.basename(where.strip("'\"")), where, pairs, encoder.mean, encoder.scale, names, **more)


class _Once:
    """A report that prints each line once for all parts of a table."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self._report, self._told = report, set[str]()

    def __call__(self, line: str) -> None:
        about = line.partition(", found ")[0]  # the counts of wrong cells in a part and in all differ
        if about not in self._told:
            self._told.add(about)
            warnings.warn(line, stacklevel=6) if self._report is None else self._report(f"warning: {line}")


def targets_in(names: Sequence[str], label: str | int | Sequence[str | int], name: str) -> tuple[str, ...]:
    """Return the names of the target columns, in the order of `label`."""
    if isinstance(label, str):
        label = [label] if label.strip() in names or "," not in label else label.split(",")
    wanted = [label] if isinstance(label, int) else list(label)
    places = [column_number(name, names, column) for column in wanted]
    if len({*places}) < len(places) or not places:
        raise DataError(f"{name}: expected different target columns, found {listed([str(w) for w in wanted])}")
    return tuple(names[place] for place in places)


def task_of(texts: Sequence[np.ndarray], names: Sequence[str]) -> tuple[str, str]:
    """Return the task for columns of labels as texts, and the reason."""
    if len(texts) > 1:
        return "regression", f"there are {len(texts)} columns to learn"
    y = texts[0].astype(str)
    different = np.unique(y).size
    if found := quantities(y):
        kind = "fractions" if "among" in found else "numbers"
        return "regression", f"{names[0]!r} has {different:,} different {kind} in {y.size:,} rows"
    kind = "words" if any(number_in(text) is None for text in set(y.tolist())) else "whole numbers"
    few = f", {FEW} or more of each" if different > MANY and kind != "words" else ""
    return "classification", f"{names[0]!r} has {different:,} different {kind}{few}"


def labelled(table: Table, targets: Sequence[str], tell: Callable[[str], None]) -> Table:
    """Return the rows that have all labels."""
    gaps = np.zeros(len(table), dtype=bool)
    for name in targets:
        column = table[name]
        gaps |= column.missing
        if column.kind == "word":
            texts, codes = distinct(column.values.tolist())
            # a mark of a missing value among numbers; among words a few may be the names of classes
            marks = MARKS if all(text in MARKS or number_in(text) is not None for text in texts) else SURE
            gaps |= np.array([text in marks for text in texts])[codes]
    if gaps.all():
        raise DataError(f"{table.name}: expected labels in {listed(targets)}, found missing values only")
    if not gaps.any():
        return table
    count = int(np.count_nonzero(gaps))
    tell(f"{table.name}: {count:,} {'row' if count == 1 else 'rows'} without {listed(targets)} left out")
    return table.select(rows=np.flatnonzero(~gaps))


def _classes(texts: Sequence[np.ndarray], where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the class labels (n,) of one column, and the names of the classes."""
    if len(texts) > 1:
        raise DataError(
            f"{where}: expected one column of classes, found {len(texts)}. Only regression supports several."
        )
    y = class_labels(texts[0].tolist())
    numbers, values = class_numbers(y, f"{where}, labels")
    numeric = 2 * sum(number_in(str(v)) is not None for v in values) > values.size
    if values.size > MOST and y.size < (FEW if numeric else 2) * values.size:
        why = no_classes(y) if numeric else f"found {values.size:,} different labels, such as {shown(str(y[0]))}"
        raise DataError(
            f"{where}: expected {FEW} rows or more of each of over {MOST} classes; {why}"
            + ". Name another target column with --label, or write quantities as numbers" * (not numeric)
        )
    return numbers, tuple(str(value) for value in values)


def _described(features: Table, used: Sequence[str]) -> list[str]:
    """Return lines about the columns to learn from, and how they were read."""
    table = features.select(used)
    kinds = Counter(column.kind for column in table.columns)
    columns = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in kinds.most_common())
    count = f"{len(used):,} {'column' if len(used) == 1 else 'columns'}"
    text = f"{len(table):,} rows, {count} to learn from ({columns})"
    if others := len(features.columns) - len(used):
        text += f", {others:,} left out"
    if table.delimiter is not None:
        text += f", separated by {DELIMITERS.get(table.delimiter, repr(table.delimiter))}"
    text += ", with decimal commas" * (table.decimal == ",")
    text += f", in the encoding {table.encoding}" * (table.encoding != "utf-8")
    lines = [text + ", without a header" * (not table.header)]
    forms: dict[str, list[str]] = {}
    for column in table.columns:
        if column.form and column.form != "decimal commas":
            kind = f"dates in the form {column.form}" if column.kind == "date" else f"numbers with {column.form}"
            forms.setdefault(f"read as {kind}", []).append(shown(column.name))
        if column.missing.any():
            marks = listed([repr(mark) for mark in column.marks], 3)
            count = f"{shown(column.name)} ({int(np.count_nonzero(column.missing)):,}{f': {marks}' if marks else ''})"
            forms.setdefault("missing values", []).append(count)
    return [*lines, *(f"{kind}: {listed(names, 8, width=80)}" for kind, names in forms.items())]

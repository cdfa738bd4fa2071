"""Data sets from the user's files: a NumPy archive or a CSV table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.data.archives import read_npz
from agrad.data.classification import (
    ClassificationData,
    check_classes,
    check_finite,
    check_numbers,
    class_numbers,
    float_name,
    match_classes,
    quantities,
    standardisation,
)
from agrad.data.files import StrPath
from agrad.data.regression import Pair, RegressionData, check_task, dataset, split
from agrad.data.tablefiles import read_csv
from agrad.data.tables import index_column
from agrad.errors import ConfigurationError, DataError

__all__ = ["load_csv", "load_npz"]

Options = tuple[float, int, str, str]
"""The fraction of the test part, seed, scaling and dtype."""
SCALINGS = ("auto", "standard", "bytes", "none")


def load_npz(
    path: StrPath,
    *,
    task: str = "classification",
    test_fraction: float = 0.2,
    seed: int = 0,
    scaling: str = "auto",
    dtype: str = "float32",
) -> ClassificationData | RegressionData:
    """Return a data set of a `.npz` file with X and y, and X_test and y_test if split.

    X has shape (n, ...) and any real dtype; each example is flattened. For classification y has shape (n,) and holds
    integers or text; the distinct labels, sorted, become the classes 0, 1, ... Labels are rejected as numeric targets
    if most are numbers, and either one is fractional, or there are more than 20 different ones and one of them has
    fewer than 5 examples. For regression y holds numbers, of shape (n,) or (n, k).

    Parameters
    ----------
    path : str or path
        The file.
    task : {"classification", "auto", "regression"}
        What y is; "auto" selects regression for numeric targets and for 2-D y.
    test_fraction : float
        Fraction of every class to hold out for the test part if the file has none, between 0 and 1.
    seed : int
        The seed of the split, from 0 to 2**64 - 1.
    scaling : {"auto", "standard", "bytes", "none"}
        "standard" subtracts the train part's mean of each feature and divides by its standard deviation; "bytes"
        divides by 255; "none" changes nothing; "auto" is "bytes" for uint8, otherwise "standard".
    dtype : str
        The dtype of X, float32 or float64.

    Returns
    -------
    ClassificationData or RegressionData
        The examples.

    Raises
    ------
    DataError
        If the file is damaged or lacks an array, the arrays do not fit each other, X is not finite, labels are neither
        integers nor text, the test part has a label that the train part lacks, or there are fewer than 2 classes.
    ConfigurationError
        If an option is out of range.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "points.npz")
    ...     np.savez(path, X=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2)
    ...     data = agrad.data.load_npz(path)
    >>> data.X_train.shape, data.X_train.mean(axis=0).round(4) + 0.0, data.n_classes
    ((16, 2), array([0., 0.], dtype=float32), 2)
    """
    return npz_dataset(path, npz_parts(path), task, (test_fraction, seed, scaling, dtype))


def load_csv(
    path: StrPath,
    label: str | int,
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
    scaling: str = "auto",
    dtype: str = "float32",
    delimiter: str | None = None,
    report: Callable[[str], None] | None = None,
) -> ClassificationData:
    """Return a data set of a CSV table with a header: a column of labels, and numbers.

    Labels are integers or text; the distinct ones, sorted, become the classes 0, 1, ...; see `load_npz`.

    Parameters
    ----------
    path : str or path
        The file, see `read_csv`.
    label : str or int
        Name of the label column, or its index from 0 (from the end if negative).
    test_fraction : float
        Fraction of every class to hold out for the test part, between 0 and 1.
    seed : int
        The seed of the split, from 0 to 2**64 - 1.
    scaling : {"auto", "standard", "bytes", "none"}
        "standard" subtracts the train part's mean of each feature and divides by its standard deviation; "bytes"
        divides by 255; "none" changes nothing; "auto" is "bytes" for uint8, otherwise "standard".
    dtype : str
        The dtype of X, float32 or float64.
    delimiter : str, optional
        Character between columns. By default, it is inferred; see `read_csv`.
    report : function or None
        Function that is called with a line of text about an unnamed column that numbers the rows. By default, it is a
        warning.

    Returns
    -------
    ClassificationData
        The examples.

    Raises
    ------
    DataError
        As for `read_csv` and `load_npz`, and if a feature is not a finite number or a label is missing.
    ConfigurationError
        If an option is out of range.

    Examples
    --------
    >>> import os, tempfile
    >>> rows = [(n / 10, n % 3, "ab"[n % 2]) for n in range(20)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "flowers.csv")
    ...     np.savetxt(path, rows, fmt="%s", delimiter=",", header="width,length,kind", comments="")
    ...     data = agrad.data.load_csv(path, "kind")
    >>> data.class_names, data.feature_names, data.X_train.shape
    (('a', 'b'), ('width', 'length'), (16, 2))
    """
    table = read_csv(path, words=[label], delimiter=delimiter)
    target = table[label].name
    features = tuple(name for name in table.names if name != target)
    X, y = table.numbers(features), table.labels(target)
    column = index_column(table, features)
    if column is not None:
        line = (
            f"{os.fspath(path)!r}: the column {column!r} numbers the rows, and is taken as a feature; remove it, or "
            "write the file without it: in pandas, to_csv(..., index=False)"
        )
        warnings.warn(line, stacklevel=2) if report is None else report(f"warning: {line}")
    parts = ((X, y), None)
    return npz_dataset(path, parts, "classification", (test_fraction, seed, scaling, dtype), feature_names=features)


def _task_of(task: str, y: np.ndarray) -> tuple[str, tuple[str, ...]]:
    """Return the task for the labels of an archive, and the reason if inferred."""
    check_task(task)
    if task != "auto":
        return task, ()
    if y.ndim == 2:
        return "regression", (f"task: regression, because y has {y.shape[1]} columns",)
    kind = y.dtype.kind
    fractional = kind == "f" and bool(np.any(np.trunc(y) != y))
    if fractional or (y.ndim == 1 and kind in "iuf" and quantities(y)):
        return "regression", (f"task: regression, because y has {np.unique(y).size:,} different numbers",)
    return "classification", ()


def npz_parts(path: StrPath) -> tuple[Pair, Pair | None]:
    """Return X and y of an archive, and X_test and y_test if it has both."""
    arrays = read_npz(path, required=("X", "y"), optional=("X_test", "y_test"))
    if ("X_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{os.fspath(path)!r}: expected both X_test and y_test or neither, found one of them")
    test = (arrays["X_test"], arrays["y_test"]) if "X_test" in arrays else None
    return (arrays["X"], arrays["y"]), test


def npz_dataset(
    path: StrPath,
    parts: tuple[Pair, Pair | None],
    task: str,
    options: Options = (0.2, 0, "auto", "float32"),
    **more: Any,
) -> Any:
    """Return the data set of `npz_parts`; see `load_npz`."""
    test_fraction, seed, scaling, dtype = options
    name, pairs, dtype = repr(os.fspath(path)), [pair for pair in parts if pair is not None], float_name(dtype)
    task, about = _task_of(task, pairs[0][1])
    if scaling not in SCALINGS:
        raise ConfigurationError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}")
    pairs = [_checked(X, y, task, name, part) for (X, y), part in zip(pairs, ("", "_test"), strict=False)]
    (X, y), *rest = pairs
    shapes = [(X.shape[1:], y.shape[1:]) for X, y in pairs]
    if shapes[0] != shapes[-1]:
        raise DataError(
            f"{name}: expected examples of one shape, and targets of one, found {shapes[0]} in X and y, and "
            f"{shapes[-1]} in X_test and y_test"
        )
    if task == "regression":
        names = ("y",) if y.shape[1] == 1 else tuple(f"y{number}" for number in range(y.shape[1]))
    else:
        y, values = class_numbers(y, f"{name}, y")
        check_classes(values[y], f"{name}, y")
        names = tuple(str(value) for value in values)
        rest = [(X_test, match_classes(labels, values, f"{name}, y_test")) for X_test, labels in rest]
    pairs = [(X, y), *rest] if rest else [(X[rows], y[rows]) for rows in split(task, y, test_fraction, seed, name)]
    mean, scale = _scaling(scaling, pairs[0][0], name)
    return dataset(task, os.path.basename(os.fspath(path)), name, pairs, mean, scale, names, dtype, about=about, **more)


def _checked(X: np.ndarray, y: np.ndarray, task: str, name: str, part: str) -> Pair:
    """Return finite examples, and a label or numeric targets (n, k) for each."""
    if task == "regression":
        where = f"{name}, y{part}"
        if y.dtype.kind not in "biuf" or y.ndim not in (1, 2) or y.size == 0:
            raise DataError(
                f"{where}: expected numbers of shape (n,) or (n, k) for regression, found {y.dtype} of shape {y.shape}"
            )
        y = y.reshape(y.shape[0], -1).astype(np.float64)
        check_finite(where, y)
    where = f"{name}, X{part} and y{part}"
    check_numbers(X, where)
    # before the split, for messages with the numbers of examples in the file
    check_finite(where, X.reshape(X.shape[0], -1))
    if y.ndim != 1 + (task == "regression") or y.shape[0] != X.shape[0]:
        raise DataError(
            f"{where}: expected one label for each of {X.shape[0]} examples, found labels of shape {y.shape}"
        )
    return X, y


def _scaling(scaling: str, X_train: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and scale of each feature for a kind of scaling."""
    d = X_train.size // X_train.shape[0]
    if scaling == "auto":
        scaling = "bytes" if X_train.dtype == np.uint8 else "standard"
    if scaling == "standard":
        return standardisation(X_train, name)
    return np.zeros(d), np.full(d, 255.0 if scaling == "bytes" else 1.0)

"""Data sets from the user's files: a NumPy archive or a CSV table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

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
    scaled_dataset,
    standardisation,
    stratified_split,
)
from agrad.data.files import StrPath
from agrad.data.regression import RegressionData, random_parts, regression_dataset
from agrad.data.tablefiles import read_csv
from agrad.data.tables import index_column
from agrad.errors import ConfigurationError, DataError

__all__ = ["load_csv", "load_npz"]

TASKS = ("classification", "auto", "regression")
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
    arrays = read_npz(path, required=("X", "y"), optional=("X_test", "y_test"))
    name = repr(os.fspath(path))
    if ("X_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{name}: expected both X_test and y_test or neither, found one of them")
    test = (arrays["X_test"], arrays["y_test"]) if "X_test" in arrays else None
    task, about = _task_of(task, arrays["y"])
    if task == "regression":
        return _regression(path, arrays["X"], arrays["y"], test, about, test_fraction, seed, scaling, dtype)
    return _dataset(path, arrays["X"], arrays["y"], test, (), test_fraction, seed, scaling, dtype)


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
    return _dataset(path, X, y, None, features, test_fraction, seed, scaling, dtype)


def _task_of(task: str, y: np.ndarray) -> tuple[str, tuple[str, ...]]:
    """Return the task for the labels of an archive, and the reason if inferred."""
    if task not in TASKS:
        raise ConfigurationError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    if task != "auto":
        return task, ()
    if y.ndim == 2:
        return "regression", (f"task: regression, because y has {y.shape[1]} columns",)
    kind = y.dtype.kind
    fractional = kind == "f" and bool(np.any(np.trunc(y) != y))
    if fractional or (y.ndim == 1 and kind in "iuf" and quantities(y)):
        return "regression", (f"task: regression, because y has {np.unique(y).size:,} different numbers",)
    return "classification", ()


def _regression(
    path: StrPath,
    X: np.ndarray,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray] | None,
    about: tuple[str, ...],
    test_fraction: float,
    seed: int,
    scaling: str,
    dtype: str,
) -> RegressionData:
    """Return the regression data set of the arrays of a file, split and scaled."""
    dtype, name = _checked(scaling, dtype), repr(os.fspath(path))
    pairs = []
    for part, (examples, targets) in (("", (X, y)), *([("_test", test)] if test is not None else [])):
        if targets.dtype.kind not in "biuf" or targets.ndim not in (1, 2) or targets.size == 0:
            raise DataError(
                f"{name}, y{part}: expected numbers of shape (n,) or (n, k) for regression, found {targets.dtype} of "
                f"shape {targets.shape}"
            )
        targets = targets.reshape(targets.shape[0], -1).astype(np.float64)
        check_finite(f"{name}, y{part}", targets)
        _check_pair(examples, targets[:, 0], f"{name}, X{part} and y{part}")
        pairs.append((examples, targets))
    if test is None:
        most, few = random_parts(X.shape[0], test_fraction, seed, name)
        pairs = [(X[part], pairs[0][1][part]) for part in (most, few)]
    elif pairs[0][0].shape[1:] != pairs[1][0].shape[1:] or pairs[0][1].shape[1] != pairs[1][1].shape[1]:
        raise DataError(f"{name}: expected examples and targets of one shape in X, y and X_test, y_test; found others")
    count = pairs[0][1].shape[1]
    names = ("y",) if count == 1 else tuple(f"y{number}" for number in range(count))
    mean, scale = _scaling(scaling, pairs[0][0], name)
    base = os.path.basename(os.fspath(path))
    return regression_dataset(base, name, pairs[0], pairs[1], mean, scale, dtype, names, about=about)


def _checked(scaling: str, dtype: str) -> str:
    """Return the dtype name, or raise ``ConfigurationError`` for unknown options."""
    dtype = float_name(dtype)
    if scaling not in SCALINGS:
        raise ConfigurationError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}")
    return dtype


def _dataset(
    path: StrPath,
    X: np.ndarray,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray] | None,
    feature_names: tuple[str, ...],
    test_fraction: float,
    seed: int,
    scaling: str,
    dtype: str,
) -> ClassificationData:
    """Return the data set of arrays of a file, split and scaled."""
    dtype, name = _checked(scaling, dtype), repr(os.fspath(path))
    _check_pair(X, y, f"{name}, X and y")
    numbers, values = class_numbers(y, f"{name}, y")
    check_classes(values[numbers], f"{name}, y")
    if values.shape[0] < 2:
        raise DataError(f"{name}: expected 2 classes or more to tell apart, found only the label {str(values[0])!r}")
    if test is None:
        most, few = stratified_split(numbers, test_fraction, seed, f"{name}, y")
        train, test = (X[most], numbers[most]), (X[few], numbers[few])
    else:
        _check_pair(*test, f"{name}, X_test and y_test")
        train, test = (X, numbers), (test[0], match_classes(test[1], values, f"{name}, y_test"))
        if test[0].shape[1:] != X.shape[1:]:
            raise DataError(
                f"{name}: expected examples of one shape, found {X.shape[1:]} in X and {test[0].shape[1:]} in X_test"
            )
    mean, scale = _scaling(scaling, train[0], name)
    class_names = tuple(str(value) for value in values)
    base = os.path.basename(os.fspath(path))
    return scaled_dataset(base, name, train, test, mean, scale, dtype, class_names, feature_names)


def _check_pair(X: np.ndarray, y: np.ndarray, name: str) -> None:
    """Raise `DataError` unless X is finite and y has a label for each example."""
    check_numbers(X, name)
    # before the split, for messages with the numbers of examples in the file
    check_finite(name, X.reshape(X.shape[0], -1))
    if y.ndim != 1 or y.shape[0] != X.shape[0]:
        raise DataError(
            f"{name}: expected one label for each of {X.shape[0]} examples, found labels of shape {y.shape}"
        )


def _scaling(scaling: str, X_train: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and scale of each feature for a kind of scaling."""
    d = X_train.size // X_train.shape[0]
    if scaling == "auto":
        scaling = "bytes" if X_train.dtype == np.uint8 else "standard"
    if scaling == "standard":
        return standardisation(X_train, name)
    return np.zeros(d), np.full(d, 255.0 if scaling == "bytes" else 1.0)

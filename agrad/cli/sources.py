"""The sources of examples: the data set of a run, and data for a saved model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agrad import data
from agrad.data.classification import known_numbers, plain_labels
from agrad.errors import ConfigurationError, DataError, listed

NAMED = ("digits", "mnist")
KINDS = (".npz", ".csv")
SAMPLE = 4096
"""The number of examples of each part that a fingerprint reads, about."""


@dataclass(frozen=True)
class Description:
    """A description of training data, to use a model on other data."""

    feature_shape: tuple[int, ...]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    label: str | None
    mean: np.ndarray
    scale: np.ndarray
    dtype: str

    @property
    def n_features(self) -> int:
        """The number of features of an example."""
        return int(self.mean.shape[0])


@dataclass(frozen=True)
class Examples:
    """Scaled examples (n, d), class numbers (n,) or None, and a description."""

    X: np.ndarray
    y: np.ndarray | None
    what: str


def check_source(source: str, data_dir: str | None, label: str | None, needs_label: bool = True) -> None:
    """Raise ``ConfigurationError`` for an unknown ``--data`` or unfit options."""
    kind = os.path.splitext(source)[1].lower()
    if source not in NAMED and kind not in KINDS:
        raise ConfigurationError(f"--data: expected digits, mnist, FILE.npz or FILE.csv, found {source!r}")
    if data_dir is not None and source != "mnist":
        raise ConfigurationError(f"--data-dir goes with --data mnist, not with --data {source}")
    if source in NAMED or kind != ".csv":
        if label is not None:
            raise ConfigurationError(f"--label goes with --data FILE.csv, not with --data {source}")
    elif label is None and needs_label:
        if not os.path.exists(source):
            raise ConfigurationError(f"--data {source}: there is no such file; name one, and its classes with --label")
        raise ConfigurationError(f"--data {source}: name the column that holds the classes with --label")


def load(
    source: str,
    *,
    data_dir: str | None,
    label: str | None,
    dtype: str,
    report: Callable[[str], None] | None = None,
) -> data.ClassificationData:
    """Return the data set of ``--data``, split into train and test part.

    The split of the user's own data does not depend on the seed of the run: runs can be compared, and a saved model
    finds its test part again. Raises ``ConfigurationError`` and ``DataError``.
    """
    check_source(source, data_dir, label)
    if source == "digits":
        return data.load_digits(dtype=dtype)
    if source == "mnist":
        return data.load_mnist(data_dir, dtype=dtype, report=report)
    if label is None:
        return data.load_npz(source, dtype=dtype)
    return data.load_csv(source, label, dtype=dtype, report=report)


def located(source: str, data_dir: str | None, folder: str | None) -> tuple[str, str | None]:
    """Return the place of a run's data: relative to here, else to its ``folder``.

    Raises ``DataError`` if they are at neither.
    """
    if data_dir is not None:
        return source, _found(data_dir, folder)
    return (source if source in NAMED else _found(source, folder)), None


def _found(path: str, folder: str | None) -> str:
    """Return a path that exists here or in the folder."""
    if folder is None or os.path.exists(path):
        return path
    there = os.path.join(folder, path)
    if not os.path.exists(there):
        raise DataError(
            f"{path!r} is neither here nor in {folder!r}, where the training began; say with --data or --data-dir "
            "where the data are now"
        )
    return there


def fingerprint(dataset: data.ClassificationData) -> str:
    """Return a text that is equal for equal data only, independent of their place."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (dataset.X_train, dataset.X_test):
        digest.update(repr(part.shape).encode())
        # of a large set a few thousand examples are enough
        digest.update(np.ascontiguousarray(part[:: -(-part.shape[0] // SAMPLE)], dtype=np.float32).tobytes())
    # sets that differ by their scale alone are equal once scaled, but have another mean and scale
    for array in (dataset.y_train, dataset.y_test, dataset.mean, dataset.scale):
        digest.update(array.tobytes())
    digest.update(repr(dataset.class_names).encode())
    return digest.hexdigest()


def changed(dataset: data.ClassificationData, description: Description, known: str) -> str:
    """Return the difference of ``dataset`` to the described data; "" for none."""
    # an npz file has no names of columns
    parts = []
    for what, now, before in (
        ("columns", dataset.feature_names, description.feature_names),
        ("classes", dataset.class_names, description.class_names),
    ):
        if now and before and now != before:
            parts.append(
                f"expected the {what} {listed(before, 6) or '(no names)'}, found {listed(now, 6) or '(no names)'}"
            )
    if not parts and fingerprint(dataset) != known:
        parts.append("the numbers, or the order of the examples, are others")
    return "; ".join(parts)


def describe(dataset: data.ClassificationData, label: str | None) -> Description:
    """Return the description of ``dataset`` for a model trained on it."""
    return Description(
        dataset.feature_shape,
        dataset.feature_names,
        dataset.class_names,
        label,
        dataset.mean,
        dataset.scale,
        dataset.X_train.dtype.name,
    )


def to_evaluate(source: str, description: Description, data_dir: str | None, label: str | None) -> Examples:
    """Return the labelled examples of ``source``, as the described model takes them."""
    check_source(source, data_dir, label, needs_label=description.label is None)
    if source in NAMED:
        dataset = load(source, data_dir=data_dir, label=None, dtype=description.dtype)
        X, names = _test_part(dataset), np.array(dataset.class_names)[dataset.y_test]
        what = f"the test part of {source}"
    elif source.lower().endswith(".csv"):
        X, names = _csv(source, description, label or description.label)
        what = f"all of {source}"
    else:
        arrays = data.read_npz(source, required=("X", "y"), optional=("X_test", "y_test"))
        if ("X_test" in arrays) != ("y_test" in arrays):
            raise DataError(f"{source!r}: expected both X_test and y_test or neither, found one of them")
        part = "_test" if "X_test" in arrays else ""
        X, names = arrays[f"X{part}"], plain_labels(arrays[f"y{part}"], f"{source!r}, y{part}").astype(str)
        what = f"X_test of {source}" if part else f"all of {source}"
    assert names is not None
    X = _scaled(X, description, source)
    if names.shape[0] != X.shape[0]:
        raise DataError(f"{source!r}: expected a label for each of {X.shape[0]} examples, found {names.shape[0]}")
    numbers = known_numbers(names.tolist(), description.class_names, repr(source), "the classes of the model")
    return Examples(X, numbers, what)


def to_predict(source: str, description: Description, data_dir: str | None) -> Examples:
    """Return the examples of ``source``, as the described model takes them.

    They may have labels.
    """
    check_source(source, data_dir, None, needs_label=False)
    if source in NAMED:
        X = _test_part(load(source, data_dir=data_dir, label=None, dtype=description.dtype))
    elif source.lower().endswith(".csv"):
        X, _ = _csv(source, description, None)
    else:
        X = data.read_npz(source, required=("X",), optional=())["X"]
    return Examples(_scaled(X, description, source), None, source)


def _test_part(dataset: data.ClassificationData) -> np.ndarray:
    """Return the unscaled test part, because the model may have another scale."""
    return np.asarray(dataset.X_test.astype(np.float64) * dataset.scale + dataset.mean)


def _scaled(X: np.ndarray, description: Description, source: str) -> np.ndarray:
    """Return examples scaled as the model's training data."""
    return data.scaled(X, description.mean, description.scale, description.dtype, repr(source))


def _csv(source: str, description: Description, label: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the model's columns of a CSV file in its order, and labels as text.

    Columns are found by name. Besides them only the column of labels may exist.
    """
    table = data.read_csv(source, words=[] if label is None else [label])
    skipped = label
    if skipped is None and description.label is not None and len(table.names) > description.n_features:
        skipped = description.label
    target = None if skipped is None else table[skipped].name
    features = [name for name in table.names if name != target]
    names = description.feature_names
    if names:
        missing = [name for name in names if name not in features]
        extra = [name for name in features if name not in names]
        if missing or extra:
            raise DataError(
                f"{source!r}: expected the columns of the training data ({listed(list(names))})"
                + (f"; missing: {listed(missing)}" if missing else "")
                + (f"; not expected: {listed(extra)}" if extra else "")
            )
        features = list(names)
    X = table.numbers(features)
    return X, None if label is None else table.labels(label).astype(str)

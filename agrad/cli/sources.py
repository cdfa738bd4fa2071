"""The sources of examples: the data set of a run, and data for a saved model."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agrad import data
from agrad.cli.config import ENOUGH, HELD_OUT, Config, is_table, option
from agrad.data.cells import number_in
from agrad.data.classification import known_numbers, plain_labels
from agrad.data.encodings import words_of
from agrad.data.own import npz_parts
from agrad.data.tabular import class_labels, labelled, targets_in
from agrad.errors import ConfigurationError, DataError, listed

NAMED = ("digits", "mnist")
SAMPLE = 4096
"""The number of examples of each part that a fingerprint reads, about."""


Dataset = data.ClassificationData | data.RegressionData
"""A data set for either task."""


@dataclass(frozen=True)
class Description:
    """A description of training data, to use a model on other data."""

    task: str
    feature_shape: tuple[int, ...]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    target_names: tuple[str, ...]
    labels: tuple[str, ...]
    """The columns of a table that were to be learned."""
    mean: np.ndarray
    scale: np.ndarray
    target_mean: np.ndarray
    target_scale: np.ndarray
    dtype: str
    encoder: data.TableEncoder | None = None

    @property
    def n_features(self) -> int:
        """The number of features of an example."""
        return int(self.mean.shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the network for an example."""
        return len(self.class_names if self.task == "classification" else self.target_names)


@dataclass(frozen=True)
class Examples:
    """Scaled examples (n, d), labels (n,) or targets (n, k), and a description."""

    X: np.ndarray
    y: np.ndarray | None
    what: str
    ids: tuple[str, np.ndarray] | None = None
    """The name and the texts (n,) of the column of ids."""


Report = Callable[[str], None]


def check_source(source: str, data_dir: str | None, label: str | None, needs_label: bool = True) -> None:
    """Raise ``ConfigurationError`` for an unknown ``--data`` or unfit options."""
    if source not in NAMED and not is_table(source) and not source.lower().endswith(".npz"):
        raise ConfigurationError(
            f"--data: expected digits, mnist, FILE.npz, FILE.csv, FILE.tsv or FILE.parquet, found {source!r}"
        )
    if data_dir is not None and source != "mnist":
        raise ConfigurationError(f"--data-dir requires --data mnist, got --data {source}")
    if not is_table(source):
        if label is not None:
            raise ConfigurationError(f"--label requires --data FILE.csv, got --data {source}")
    elif label is None and needs_label:
        if not os.path.exists(source):
            raise ConfigurationError(
                f"--data {source}: the file does not exist. Pass an existing file, and the target column with --label."
            )
        raise ConfigurationError(f"--data {source}: name the target column with --label (or several numeric columns)")


def check_settings(config: Config) -> None:
    """Raise ``ConfigurationError`` for options that do not fit the data."""
    if config.data in NAMED and config.task == "regression":
        raise ConfigurationError(f"--task regression: {config.data} has classes. Omit the option.")
    for name in ("categorical", "keep", "drop", "id", "header"):
        if getattr(config, name) not in ((), None) and not is_table(config.data):
            raise ConfigurationError(f"{option(name)} requires a table, got --data {config.data}")


def load(
    source: str,
    config: Config,
    *,
    data_dir: str | None,
    label: str | None,
    report: Report | None = None,
    encoder: data.TableEncoder | None = None,
) -> Dataset:
    """Return the data set of ``--data``, split into train and test part.

    A table is converted by the `encoder` of a saved model, or one that is fitted to the train part.

    The split of the user's own data does not depend on the seed of the run: runs can be compared, and a saved model
    finds its test part again. Raises ``ConfigurationError`` and ``DataError``.
    """
    check_source(source, data_dir, label)
    if source == "digits":
        return data.load_digits(dtype=config.dtype)
    if source == "mnist":
        return data.load_mnist(data_dir, dtype=config.dtype, report=report)
    if label is None:
        return data.load_npz(source, task=config.task, dtype=config.dtype)
    return data.load_table(
        source,
        label,
        task=config.task,
        dtype=config.dtype,
        categorical=config.categorical,
        keep=config.keep,
        drop=(*([] if config.id is None else [config.id]), *config.drop),
        report=report,
        header=config.header,
        encoder=encoder,
    )


def located(source: str, data_dir: str | None, folder: str | None) -> tuple[str, str | None]:
    """Return the path of a run's data, relative to here or to its ``folder``.

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
            f"{path!r} exists neither here nor in {folder!r}, where the training began. Pass the path of the data "
            "with --data or --data-dir."
        )
    return there


def fingerprint(dataset: Dataset) -> str:
    """Return a text that is equal only for equal data, wherever they are."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (dataset.X_train, dataset.X_test):
        digest.update(repr(part.shape).encode())
        # of a large set a few thousand examples are enough
        digest.update(np.ascontiguousarray(part[:: -(-part.shape[0] // SAMPLE)], dtype=np.float32).tobytes())
    # sets that differ by their scale alone are equal once scaled, but have another mean and scale
    arrays = [dataset.y_train, dataset.y_test, dataset.mean, dataset.scale]
    if isinstance(dataset, data.RegressionData):
        arrays += [dataset.target_mean, dataset.target_scale]
    for array in arrays:
        digest.update(array.tobytes())
    digest.update(repr(dataset.class_names).encode())
    return digest.hexdigest()


def changed(dataset: Dataset, description: Description, known: str) -> str:
    """Return the difference of ``dataset`` to the described data; "" for none."""
    # an npz file has no names of columns
    now = describe(dataset)
    parts = []
    if now.task != description.task:
        parts.append(f"expected data for {description.task}, found some for {now.task}")
    for what, new, before in (
        ("columns", now.feature_names, description.feature_names),
        ("columns to learn", now.labels, description.labels),
        ("classes", now.class_names, description.class_names),
        ("targets", now.target_names, description.target_names),
    ):
        if new and before and new != before:
            parts.append(
                f"expected the {what} {listed(before, 6) or '(no names)'}, found {listed(new, 6) or '(no names)'}"
            )
    if not parts and fingerprint(dataset) != known:
        parts.append("the numbers, or the order of the examples, are others")
    return "; ".join(parts)


def about(dataset: Dataset, config: Config, n: int) -> list[str]:
    """Return lines on what was found in the data, with `n` training rows."""
    lines = [f"{dataset.name}: {line}" for line in dataset.about]
    # numbers can be classes or quantities
    both = len(dataset.labels) == 1 and all(number_in(name) is not None for name in dataset.class_names)
    if config.task == "auto" and both and dataset.about:
        other = "classification" if dataset.task == "regression" else "regression"
        lines[-1] += f" (else --task {other})"
    if config.validation is None and n >= ENOUGH:
        lines.append(
            f"{HELD_OUT:.0%} of the training rows are held out, to stop {config.patience} epochs after their lowest "
            "loss (--validation 0 turns it off)"
        )
    return lines


def describe(dataset: Dataset) -> Description:
    """Return the description of ``dataset`` for a model trained on it."""
    quantities = isinstance(dataset, data.RegressionData)
    return Description(
        dataset.task,
        dataset.feature_shape,
        dataset.feature_names,
        dataset.class_names,
        dataset.target_names if quantities else (),
        dataset.labels,
        dataset.mean,
        dataset.scale,
        dataset.target_mean if quantities else np.zeros(0),
        dataset.target_scale if quantities else np.ones(0),
        dataset.X_train.dtype.name,
        dataset.encoder,
    )


def to_evaluate(
    source: str, description: Description, data_dir: str | None, label: str | None, report: Report
) -> Examples:
    """Return the labeled examples of ``source`` for the described model."""
    check_source(source, data_dir, label, needs_label=not description.labels)
    quantities = description.task == "regression"
    if source in NAMED:
        if quantities:
            raise DataError(f"{source}: expected numeric targets, as in training, found classes")
        X, y = _named(source, description, data_dir)
        what = f"the test part of {source}"
    elif is_table(source):
        asked = description.labels if label is None else label
        X, table, targets = _table(source, description, lambda n: targets_in(n, asked, repr(source)), report, True)
        expected = max(len(description.target_names), 1)
        if len(targets) != expected:
            raise ConfigurationError(f"--label: expected {expected} to compare the model with, found {len(targets)}")
        y = table.numbers(targets) if quantities else class_labels(words_of(table[targets[0]])).astype(str)
        what = f"all of {source}"
    else:
        train, test = npz_parts(source)
        part = "" if test is None else "_test"
        X, y = train if test is None else test
        if not quantities:
            y = plain_labels(y, f"{source!r}, y{part}").astype(str)
        what = f"X_test of {source}" if part else f"all of {source}"
    X = _scaled(X, description, source)
    if y.shape[0] != X.shape[0]:
        raise DataError(f"{source!r}: expected a label for each of {X.shape[0]} examples, found {y.shape[0]}")
    if quantities:
        targets = data.scaled(y, description.target_mean, description.target_scale, description.dtype, repr(source))
        return Examples(X, targets, what)
    known = np.isin(y, description.class_names)
    if not known.all():
        others = Counter(y[~known].tolist()).most_common()
        text = f"classes that the training data did not have: {listed([f'{name} ({n:,})' for name, n in others], 5)}"
        if not known.any():
            raise DataError(f"{source!r}: expected classes of the model, found {text}")
        report(f"warning: {source!r}: {np.sum(~known):,} of {y.size:,} examples are not scored. They have {text}")
        X, y, what = X[known], y[known], what.replace("all of", "part of")
    numbers = known_numbers(y.tolist(), description.class_names, repr(source), "the classes of the model")
    return Examples(X, numbers, what)


def to_predict(
    source: str,
    description: Description,
    data_dir: str | None,
    report: Report,
    ids: str | None = None,
    known: str | None = None,
) -> Examples:
    """Return the examples of ``source`` for the described model.

    They may have labels. The column `ids` goes with them, or the column `known` if the table has it.
    """
    check_source(source, data_dir, None, needs_label=False)
    if ids is not None and not is_table(source):
        raise ConfigurationError(f"--id requires a table, got --data {source}")

    def asked(names: Sequence[str]) -> tuple[str, ...]:
        return tuple({known} & {*names}) if ids is None else targets_in(names, (ids,), repr(source))

    texts = None
    if source in NAMED:
        X, _ = _named(source, description, data_dir)
    elif is_table(source):
        X, table, found = _table(source, description, asked, report)
        texts = (found[0], words_of(table[found[0]])) if found else None
    else:
        X = data.read_npz(source, required=("X",), optional=())["X"]
    return Examples(_scaled(X, description, source), None, source, texts)


def _named(source: str, description: Description, data_dir: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the unscaled test part, and its labels as text."""
    if source == "digits":
        dataset = data.load_digits(dtype=description.dtype)
    else:
        dataset = data.load_mnist(data_dir, dtype=description.dtype)
    raw = dataset.X_test.astype(np.float64) * dataset.scale + dataset.mean
    return np.asarray(raw), np.array(dataset.class_names)[dataset.y_test]


def _scaled(X: np.ndarray, description: Description, source: str) -> np.ndarray:
    """Return examples scaled as the model's training data."""
    return data.scaled(X, description.mean, description.scale, description.dtype, repr(source))


def _table(
    source: str,
    description: Description,
    asked: Callable[[Sequence[str]], tuple[str, ...]],
    report: Report,
    labels: bool = False,
) -> tuple[np.ndarray, data.Table, tuple[str, ...]]:
    """Return the inputs of a model, their table, and its columns that are asked for.

    Columns are found by name. Rows without labels are left out.
    """
    encoder = description.encoder
    used = {*(encoder.columns if encoder is not None else description.feature_names)}
    of_words = {*(encoder.words if encoder is not None else ())}

    def words(names: Sequence[str]) -> list[str]:
        if encoder is not None:
            encoder.check(repr(source), names)
        wanted = of_words | ({*asked(names)} - used)
        return [name for name in names if name in wanted]

    table = data.read_table(source, words=words, header=None if encoder is None or encoder.header else False)
    found = asked(table.names)
    if labels:
        table = labelled(table, found, lambda line: report(f"warning: {line}"))
    left = {*found, *description.labels} - used
    features = table.select([name for name in table.names if name not in left])
    if encoder is None:
        return features.numbers(description.feature_names or None), table, found
    encoder.report = lambda line: report(f"warning: {line}")
    return encoder.encode(features), table, found

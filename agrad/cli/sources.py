"""The sources of examples: the data set of a run, and data for a saved model."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from agrad import data
from agrad.cli.config import Config, is_table, option
from agrad.data.cells import number_in
from agrad.data.classification import class_labels, places_of, plain_labels
from agrad.data.encodings import words_of
from agrad.data.regression import Pair
from agrad.data.tabular import labelled, targets_in
from agrad.data.user_files import npz_dataset, npz_parts
from agrad.errors import ConfigurationError, DataError, listed
from agrad.train.tabular import ENOUGH, HELD_OUT

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
    labels: tuple[str, ...]
    """The columns of a table that were to be learned."""
    mean: np.ndarray
    scale: np.ndarray
    dtype: str
    encoder: data.TableEncoder | None = None
    target_names: tuple[str, ...] = ()
    target_mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    target_scale: np.ndarray = field(default_factory=lambda: np.ones(0))

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
Asked = Callable[[Sequence[str]], Sequence[str]]
"""A function from the names of the columns of a table to those that are asked for."""
Content = Dataset | data.Table | tuple[Pair, Pair | None]
"""The content of a source: a data set by name, a table, or the parts of an archive."""


def check_source(source: str, data_dir: str | None, label: str | None, needs_label: bool = True) -> None:
    """Raise ``ConfigurationError`` for an unknown ``--data`` or unfit options."""
    if source not in NAMED and not is_table(source) and not source.lower().endswith(".npz"):
        raise ConfigurationError(
            f"--data must be digits, mnist, FILE.npz, FILE.csv, FILE.tsv or FILE.parquet, got {source!r}"
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


def read(
    source: str, description: Description, data_dir: str | None, asked: Asked, header: bool | None, report: Report
) -> Content:
    """Return what ``--data`` contains, to use the described model on.

    The names of the columns of a table are checked before its rows are read. Columns that are `asked` for are strings.
    """
    if source in NAMED:
        return _named(source, description.dtype, data_dir, report)
    if not is_table(source):
        return npz_parts(source)
    encoder = description.encoder
    used = {*(encoder.columns if encoder is not None else description.feature_names)}

    def words(names: Sequence[str]) -> list[str]:
        if encoder is not None:
            encoder.check(repr(source), names)
        wanted = {*(encoder.words if encoder is not None else ())} | ({*asked(names)} - used)
        return [name for name in names if name in wanted]

    return data.read_table(source, words=words, header=header)


def load(
    source: str,
    config: Config,
    *,
    data_dir: str | None,
    report: Report | None = None,
    encoder: data.TableEncoder | None = None,
    content: Content | None = None,
) -> Dataset:
    """Return the data set of ``--data``, split into train and test part.

    A table is converted by the `encoder` of a saved model, or one that is fitted to the train part. `content` is the
    result of `read`, if the source has been read.

    The split of the user's own data does not depend on the seed of the run: runs can be compared, and a saved model
    finds its test part again. Raises ``ConfigurationError`` and ``DataError``.
    """
    if source in NAMED:
        return content or _named(source, config.dtype, data_dir, report)  # type: ignore[return-value]
    if not is_table(source):
        parts: Any = content or npz_parts(source)
        return npz_dataset(source, parts, config.task, (0.2, 0, "auto", config.dtype))
    return data.load_table(
        source if content is None else content,  # type: ignore[arg-type]
        config.label,  # type: ignore[arg-type]
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
    names = {
        "feature_names": "columns",
        "labels": "columns to learn",
        "class_names": "classes",
        "target_names": "targets",
    }
    for name, what in names.items():
        new, before = getattr(now, name), getattr(description, name)
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
    known = {f.name: getattr(dataset, f.name) for f in fields(Description) if hasattr(dataset, f.name)}
    return Description(**known, dtype=dataset.X_train.dtype.name)


def targets_of(source: str, description: Description, label: str | None) -> Asked:
    """Return the function from the names of columns to those to compare with."""
    asked = description.labels if label is None else label
    return lambda names: targets_in(names, asked, repr(source))


def to_evaluate(source: str, content: Content, description: Description, label: str | None, report: Report) -> Examples:
    """Return the labeled examples of what ``source`` contains for the described model."""
    quantities = description.task == "regression"
    if isinstance(content, Dataset):
        if quantities:
            raise DataError(f"{source}: expected numeric targets, as in training, found classes")
        X, y, what = *_raw(content), f"the test part of {source}"
    elif isinstance(content, data.Table):
        targets = targets_of(source, description, label)(content.names)
        table = labelled(content, targets, lambda line: report(f"warning: {line}"))
        expected = max(len(description.target_names), 1)
        if len(targets) != expected:
            raise ConfigurationError(f"--label must name {expected} to compare the model with, got {len(targets)}")
        X = _inputs(table, targets, description, report)
        y = table.numbers(targets) if quantities else class_labels(words_of(table[targets[0]]).tolist()).astype(str)
        what = f"all of {source}"
    else:
        train, test = content
        part = "" if test is None else "_test"
        X, y = train if test is None else test
        if not quantities:
            y = plain_labels(y, f"{source!r}, y{part}").astype(str)
        what = f"X_test of {source}" if part else f"all of {source}"
    if not isinstance(content, data.Table):
        X = _scaled(X, description, source)
    if y.shape[0] != X.shape[0]:
        raise DataError(f"{source!r}: expected a label for each of {X.shape[0]} examples, found {y.shape[0]}")
    if quantities:
        y = data.scaled(y, description.target_mean, description.target_scale, description.dtype, repr(source))
        return Examples(X, y, what)
    known = np.isin(y, description.class_names)
    if not known.all():
        others = Counter(y[~known].tolist()).most_common()
        text = f"classes that the training data did not have: {listed([f'{name} ({n:,})' for name, n in others], 5)}"
        if not known.any():
            raise DataError(f"{source!r}: expected classes of the model, found {text}")
        report(f"warning: {source!r}: {np.sum(~known):,} of {y.size:,} examples are not scored. They have {text}")
        X, y, what = X[known], y[known], what.replace("all of", "part of")
    return Examples(X, places_of(y.tolist(), description.class_names), what)


def to_predict(
    source: str,
    description: Description,
    data_dir: str | None,
    report: Report,
    config: Config,
    ids: str | None = None,
) -> Examples:
    """Return the examples of ``source`` for a model trained with `config`.

    They may have labels. The column `ids` goes with them, or that of training if the table has it.
    """
    check_source(source, data_dir, None, needs_label=False)
    if ids is not None and not is_table(source):
        raise ConfigurationError(f"--id requires a table, got --data {source}")
    if source not in NAMED and not is_table(source):
        X = data.read_npz(source, required=("X",), optional=())["X"]  # y may be damaged
        return Examples(_scaled(X, description, source), None, source)

    def asked(names: Sequence[str]) -> tuple[str, ...]:
        return tuple({config.id} & {*names}) if ids is None else targets_in(names, (ids,), repr(source))

    content, texts = read(source, description, data_dir, asked, config.header, report), None
    if isinstance(content, data.Table):
        found = asked(content.names)
        X = _inputs(content, found, description, report)
        texts = (found[0], words_of(content[found[0]])) if found else None
    else:
        X = _scaled(_raw(content)[0], description, source)
    return Examples(X, None, source, texts)


def _named(source: str, dtype: str, data_dir: str | None, report: Report | None) -> data.ClassificationData:
    """Return the data set of a name."""
    if source == "digits":
        return data.load_digits(dtype=dtype)
    return data.load_mnist(data_dir, dtype=dtype, report=report)


def _raw(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the unscaled test part of images, and its labels as text."""
    raw = dataset.X_test.astype(np.float64) * dataset.scale + dataset.mean
    return np.asarray(raw), np.array(dataset.class_names)[dataset.y_test]


def _scaled(X: np.ndarray, description: Description, source: str) -> np.ndarray:
    """Return examples scaled as the model's training data."""
    return data.scaled(X, description.mean, description.scale, description.dtype, repr(source))


def _inputs(table: data.Table, asked: Sequence[str], description: Description, report: Report) -> np.ndarray:
    """Return the scaled inputs of a model from a table, without the columns asked for."""
    encoder = description.encoder
    left = {*asked, *description.labels} - {*(description.feature_names if encoder is None else encoder.columns)}
    features = table.select([name for name in table.names if name not in left])
    if encoder is None:
        numbers = features.numbers(description.feature_names or None)
        return data.scaled(numbers, description.mean, description.scale, description.dtype, table.name)
    encoder.report = lambda line: report(f"warning: {line}")
    return encoder.transform(features, description.dtype)

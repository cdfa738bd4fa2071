"""Classification data sets on the host, and functions shared by the loaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agrad.data.cells import distinct, number_in, shown
from agrad.data.order import SPLITS, permutation
from agrad.errors import ConfigurationError, DataError, listed

if TYPE_CHECKING:
    from agrad.data.encoder import TableEncoder

__all__ = ["ClassificationData", "scaled", "stratified_split"]

FLOATS = ("float32", "float64")
BLOCK = 256
"""The number of examples that are scaled at a time."""
MANY, FEW = 20, 5
"""Above ``MANY`` different numbers as labels each needs ``FEW`` examples or more."""
WHOLE = 2.0**53
"""The largest float below which every integer is represented exactly."""


@dataclass(frozen=True, eq=False)
class ClassificationData:
    """A classification data set as NumPy arrays, with a train part and a test part.

    X is scaled: `X = (raw - mean) / scale`, with mean and scale from only the train part (or fixed, for images). The
    method `scaled` scales other examples in the same way.

    Parameters
    ----------
    name : str
        The name of the data set, for messages.
    X_train : numpy.ndarray
        Scaled examples to train on, float32 or float64 of shape (n, d).
    y_train : numpy.ndarray
        Their class labels, int64 of shape (n,), in `range(n_classes)`.
    X_test : numpy.ndarray
        Scaled examples to test with, of shape (m, d) and the same dtype.
    y_test : numpy.ndarray
        Their class labels, int64 of shape (m,).
    n_classes : int
        The number of classes.
    feature_shape : tuple of int
        The shape of one example before it was flattened to d numbers.
    mean, scale : numpy.ndarray
        The numbers of the scaling, float64 of shape (d,).
    class_names : tuple of str
        The label of each class in the file.
    feature_names : tuple of str
        Names of the columns, or empty if the file has none.
    encoder : TableEncoder or None
        Encoder that computed X from a table, or None.
    labels : tuple of str
        Column of the table that contained the labels.
    about : tuple of str
        Lines about the file: how it was read, and why the labels are classes.

    Raises
    ------
    DataError
        If the parts do not fit each other, X contains NaN or infinity, a label is out of range, a part is empty, or the
        train part has a single class.

    Examples
    --------
    >>> data = agrad.data.load_digits()
    >>> isinstance(data, agrad.data.ClassificationData), data.n_classes
    (True, 10)
    >>> data.scaled(np.full((1, 64), 8.0)).max(), data.X_train.min(), data.X_train.max()
    (np.float32(0.5), np.float32(0.0), np.float32(1.0))
    """

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    n_classes: int
    feature_shape: tuple[int, ...]
    mean: np.ndarray
    scale: np.ndarray
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    labels: tuple[str, ...] = ()
    about: tuple[str, ...] = ()

    task = "classification"

    def __post_init__(self) -> None:
        check_part(f"{self.name}, train part", self.X_train, self.y_train, self.n_classes)
        check_part(f"{self.name}, test part", self.X_test, self.y_test, self.n_classes)
        if int(np.min(self.y_train)) == int(np.max(self.y_train)):
            raise DataError(
                f"{self.name}: expected 2 classes or more to tell apart in the train part, "
                f"found only {self.class_names[int(self.y_train[0])]!r}"
            )
        d = self.X_train.shape[1]
        for what, found, expected in (
            ("features in the test part", self.X_test.shape[1], d),
            ("numbers in feature_shape", int(np.prod(self.feature_shape, dtype=np.int64)), d),
            ("means", self.mean.shape, (d,)),
            ("scales", self.scale.shape, (d,)),
            ("class names", len(self.class_names), self.n_classes),
            ("feature names", len(self.feature_names) or d, d),
            ("the dtype of the test part", self.X_test.dtype, self.X_train.dtype),
        ):
            if found != expected:
                raise DataError(f"{self.name}: {what}: expected {expected}, found {found}")

    @property
    def n_features(self) -> int:
        """The number of features of an example."""
        return int(self.X_train.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network for an example."""
        return self.n_classes

    def scaled(self, raw: np.ndarray) -> np.ndarray:
        """Return raw examples, scaled as the train part was.

        Parameters
        ----------
        raw : numpy.ndarray
            Real numbers of shape (k, ...), with d numbers per example.

        Returns
        -------
        numpy.ndarray
            Array of shape (k, d) and the dtype of `X_train`.

        Raises
        ------
        DataError
            If d differs, or a number is not finite before or after.

        Examples
        --------
        >>> agrad.data.load_digits().scaled(np.full((2, 64), 8.0))[:, :3]
        array([[0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5]], dtype=float32)
        """
        return scaled(raw, self.mean, self.scale, self.X_train.dtype.name, self.name)


def check_part(name: str, X: np.ndarray, y: np.ndarray, n_classes: int) -> None:
    """Raise `DataError` unless X (n, d) is finite and y (n,) numbers classes, n > 0.

    X holds floats, and y int64 in `range(n_classes)`.
    """
    if X.ndim != 2 or X.dtype.name not in FLOATS:
        raise DataError(f"{name}: X: expected float32 or float64 of shape (n, d), found {X.dtype} of {X.shape}")
    if y.ndim != 1 or y.dtype != np.int64:
        raise DataError(f"{name}: y: expected int64 of shape (n,), found {y.dtype} of {y.shape}")
    if X.shape[0] != y.shape[0]:
        raise DataError(f"{name}: expected a label for each of {X.shape[0]} examples, found {y.shape[0]} labels")
    if X.size == 0:
        raise DataError(f"{name}: expected one example and one feature or more, found X of shape {X.shape}")
    check_finite(name, X)
    out = np.flatnonzero((y < 0) | (y >= n_classes))
    if out.size:
        raise DataError(f"{name}: y: expected labels from 0 to {n_classes - 1}, found {y[out[0]]} at example {out[0]}")


def check_finite(name: str, X: np.ndarray, first: int = 0) -> None:
    """Raise `DataError` with the first position if X (n, d) has NaN or infinity.

    `first` is the number of the first row in the message.
    """
    if not doubtful(X):
        return
    # row by row, because a mask as large as X may not fit in memory beside it
    for number, row in enumerate(X, first):
        bad = np.flatnonzero(~np.isfinite(row))
        if bad.size:
            raise DataError(
                f"{name}: X: expected finite numbers, found {row[bad[0]]} at example {number}, feature {bad[0]}. "
                "Remove or fill such values."
            )


def doubtful(X: np.ndarray) -> bool:
    # NaN and infinity remain in a sum; a sum that overflows needs the exact check
    """Return True if X may hold NaN or infinity; False is certain."""
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isfinite(np.sum(X))


def float_name(dtype: object) -> str:
    """Return the name of a dtype to train in: float32 or float64."""
    try:
        name = np.dtype(dtype).name  # type: ignore[call-overload]
    except TypeError:
        name = str(dtype)
    if name not in FLOATS:
        raise ConfigurationError(f"dtype must be one of {', '.join(FLOATS)}, got {name!r}")
    return name


def check_numbers(X: np.ndarray, name: str) -> None:
    """Raise `DataError` unless X (n, ...) is real with at least one value per example."""
    if X.dtype.kind not in "biuf":
        raise DataError(f"{name}: X: expected real numbers, found dtype {X.dtype}")
    if X.ndim == 0 or X.size == 0:
        raise DataError(f"{name}: X: expected shape (n, ...) with one example or more, found shape {X.shape}")


def _float64(X: np.ndarray, name: str, first: int) -> np.ndarray:
    """Return X (n, ...) as finite float64 of shape (n, d), or raise `DataError`."""
    with np.errstate(over="ignore"):
        flat = X.reshape(X.shape[0], -1).astype(np.float64)
    check_finite(name, flat, first)
    return flat


def scaled(raw: np.ndarray, mean: np.ndarray, scale: np.ndarray, dtype: str, name: str = "X") -> np.ndarray:
    """Return `(raw - mean) / scale`, computed in float64, then cast.

    Parameters
    ----------
    raw : array_like
        Real numbers of shape (n, ...), with d numbers per example.
    mean, scale : numpy.ndarray
        Float64 of shape (d,).
    dtype : str
        float32 or float64.
    name : str
        The name of the data in messages.

    Returns
    -------
    numpy.ndarray
        Array of shape (n, d) and the dtype.

    Raises
    ------
    DataError
        If d differs, or a number is not finite before or after.
    ConfigurationError
        If the dtype has another value.

    Examples
    --------
    >>> raw, mean, scale = np.array([[1.0, 20.0], [3.0, 40.0]]), np.array([2.0, 30.0]), np.array([1.0, 10.0])
    >>> agrad.data.scaled(raw, mean, scale, "float64")
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    raw = np.asarray(raw)
    check_numbers(raw, name)
    found = raw.size // raw.shape[0]
    if found != mean.shape[0]:
        raise DataError(f"{name}: expected {mean.shape[0]} features an example, as in training; found {found}")
    result = np.empty((raw.shape[0], found), float_name(dtype))
    # in blocks, because images of bytes take eight times their size as float64
    for start in range(0, raw.shape[0], BLOCK):
        block = _float64(raw[start : start + BLOCK], name, start)
        with np.errstate(over="ignore", invalid="ignore"):
            block -= mean
            block /= scale
            result[start : start + BLOCK] = block
    check_finite(f"{name}, scaled to {dtype}", result)
    return result


def standardisation(X: np.ndarray, name: str, names: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature of X (n, ...), both (d,).

    A constant feature (except for rounding) gets the scale 1, so it becomes 0 and remains finite. Raises `DataError` if
    a feature's range overflows float64, with its name if there are `names`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        flat = X.reshape(X.shape[0], -1).astype(np.float64, copy=False)
        mean = np.mean(flat, axis=0)
        scale = np.std(flat, axis=0)
        size = np.maximum(np.max(flat, axis=0), -np.min(flat, axis=0))  # np.abs would copy all
    wild = np.flatnonzero(~np.isfinite(mean + scale))
    if wild.size:
        what = f"column {shown(names[wild[0]])}" if names else f"X: feature {wild[0]}"
        raise DataError(f"{name}: {what} is too large to standardize (up to {size[wild[0]]:.3g})")
    scale[scale <= 16 * np.finfo(np.float64).eps * size] = 1.0
    return mean, scale


def class_numbers(y: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (n,) as int64 class labels, and the sorted distinct labels.

    Floats are accepted if they are integers, and byte strings as UTF-8. Raises `DataError` for other dtypes, shapes and
    numbers, and for a single label.
    """
    y = plain_labels(y, name)
    values, numbers = np.unique(y, return_inverse=True)
    if values.size < 2:
        raise DataError(
            f"{name}: expected 2 classes or more to tell apart, found only the label {shown(str(values[0]))}"
        )
    return numbers.reshape(y.shape).astype(np.int64, copy=False), values


def class_labels(texts: Sequence[str]) -> np.ndarray:
    """Return labels as int64 if all are integers, otherwise as strings."""
    found, codes = distinct(texts)
    numbers = [number_in(text) for text in found]
    if all(number is not None and number.is_integer() and abs(number) < WHOLE for number in numbers):
        return np.array(numbers, dtype=np.float64).astype(np.int64)[codes]
    return np.array(found, dtype=str)[codes]


def plain_labels(y: np.ndarray, name: str) -> np.ndarray:
    """Return labels of shape (n,) as integers or text; see `class_numbers`."""
    if y.ndim != 1:
        raise DataError(f"{name}: expected labels of shape (n,), found shape {y.shape}")
    if y.dtype.kind == "f":
        odd = np.flatnonzero(~((np.abs(y) <= WHOLE) & (np.trunc(y) == y)))
        if odd.size:
            raise DataError(
                f"{name}: expected integers or text as labels, found {y[odd[0]]} at example {odd[0]}; " + no_classes(y)
            )
        return y.astype(np.int64)
    if y.dtype.kind == "S":
        try:
            return np.char.decode(y, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: expected labels in UTF-8: {error}") from error
    if y.dtype.kind not in "biuU":
        raise DataError(f"{name}: expected integers or text as labels, found dtype {y.dtype}")
    if y.dtype.kind == "U":
        # compared as numbers, because NumPy raises when it makes text of invalid codes
        codes = np.ascontiguousarray(y, y.dtype.newbyteorder("=")).view(np.uint32)
        wrong = codes[(codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))]
        if wrong.size:
            raise DataError(
                f"{name}: expected labels in Unicode, found the code {wrong[0]:#x}, which is not a character"
            )
    return y


def no_classes(y: np.ndarray) -> str:
    """Return the error text for labels (n,) that look like numeric targets."""
    return (
        f"these are quantities ({np.unique(y).size:,} different values in {y.shape[0]:,} rows): learn them by "
        "regression (agrad train --task regression), make classes of them, such as ranges, or, where the numbers are "
        "names, write them as text (c7 for 7)"
    )


def check_classes(y: np.ndarray, name: str) -> None:
    """Raise `DataError` if labels (n,) look like numeric targets."""
    if found := quantities(y):
        raise DataError(f"{name}: expected {found}; {no_classes(y)}")


def quantities(y: np.ndarray) -> str:
    """Return why labels (n,) look like numeric targets; "" if they do not.

    Labels are integers or text. They do if most are numbers, and one of these is fractional, or there are more than
    `MANY` different labels and one of them has fewer than `FEW` examples.
    """
    values, counts = np.unique(y, return_counts=True)
    if y.dtype.kind == "U":
        numbers = [number_in(value) for value in values.tolist()]
        known = np.array([number is not None for number in numbers])
        if 2 * int(np.sum(counts[known])) <= y.shape[0]:
            return ""
        fractional = [i for i, number in enumerate(numbers) if number is not None and not number.is_integer()]
        if fractional:
            return f"classes, found the number {shown(str(values[fractional[0]]))} among others"
    if values.size > MANY and int(np.min(counts)) < FEW:
        found = shown(str(values[np.argmin(counts)]))
        return (
            f"at most {MANY} different numbers as classes, or {FEW} examples or more of each; found "
            f"{int(np.min(counts))} of {found}"
        )
    return ""


def encodes(text: str) -> bool:
    """Return True for a text that UTF-8 can encode; half a surrogate pair it cannot."""
    return text.encode(errors="ignore").decode() == text


def match_classes(y: np.ndarray, values: np.ndarray, name: str) -> np.ndarray:
    """Return the int64 numbers of labels `y` (n,) among the sorted `values`.

    Raises `DataError` for a label that is not among them.
    """
    y = plain_labels(y, name)
    if (y.dtype.kind == "U") != (values.dtype.kind == "U"):
        raise DataError(f"{name}: expected labels of the same kind as in training, found {y.dtype}")
    numbers = places_of(y.tolist(), values.tolist())
    unknown = np.flatnonzero(numbers < 0)
    if unknown.size:
        raise DataError(
            f"{name}: expected the labels of the train part ({listed([str(label) for label in values])}), "
            f"found {shown(str(y[unknown[0]]))} at example {unknown[0]}"
        )
    return numbers


def places_of(labels: Sequence[object], known: Sequence[object]) -> np.ndarray:
    """Return the indices of labels among known ones, int64 (n,); -1 for others."""
    places = {label: place for place, label in enumerate(known)}
    return np.array([places.get(label, -1) for label in labels], dtype=np.int64)


def stratified_split(y: np.ndarray, fraction: float, seed: int, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Split range(n) into most and few, with a part of every class in each.

    The split depends only on `y`, `fraction` and `seed`. Each class has at least one example in the first part.

    Parameters
    ----------
    y : numpy.ndarray
        Class labels, int64 of shape (n,).
    fraction : float
        Fraction of the second part, between 0 and 1.
    seed : int
        An integer from 0 to 2**64 - 1.
    name : str
        The name of the labels in messages.

    Returns
    -------
    tuple of numpy.ndarray
        Example indices of both parts, sorted int64.

    Raises
    ------
    ConfigurationError
        If `fraction` or `seed` is out of range.
    DataError
        If no class has two examples.

    Examples
    --------
    >>> y = np.array([0] * 8 + [1] * 4)
    >>> most, few = agrad.data.stratified_split(y, 0.25, seed=0)
    >>> np.bincount(y[most]), np.bincount(y[few])
    (array([6, 3]), array([2, 1]))
    """
    if not 0.0 < fraction < 1.0:
        raise ConfigurationError(f"the fraction to hold out must be between 0 and 1, got {fraction}")
    order = permutation(y.shape[0], seed, SPLITS)
    sizes = np.bincount(y)
    ends = np.cumsum(sizes)
    classes = np.split(order[np.argsort(y[order], kind="stable")], ends[:-1])
    held = [min(int(size * fraction + 0.5), max(int(size) - 1, 0)) for size in sizes]
    if sum(held) == 0:
        largest = int(np.argmax(sizes)) if sizes.size else 0
        if sizes.size == 0 or sizes[largest] < 2:
            raise DataError(
                f"{name}: expected a class with 2 examples or more, to hold one out, found {y.shape[0]} examples of "
                f"{np.count_nonzero(sizes)} classes"
            )
        held[largest] = 1
    few = np.sort(np.concatenate([members[:k] for members, k in zip(classes, held, strict=True)]))
    return np.setdiff1d(np.arange(y.shape[0]), few, assume_unique=True), few

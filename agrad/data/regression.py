"""Regression data sets on the host, and the data set of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agrad.data.cells import shown
from agrad.data.classification import ClassificationData, scaled, standardisation, stratified_split
from agrad.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from agrad.data.encoder import TableEncoder

Pair = tuple[np.ndarray, np.ndarray]
"""Examples, and labels or targets."""
TASKS = ("auto", "classification", "regression")
LEAST = 1e-150
"""The range of targets from which on their squares are exact enough for a score."""


@dataclass(frozen=True, eq=False)
class RegressionData:
    """A regression data set as NumPy arrays, with a train part and a test part.

    X and y are standardized with the train part; `targets` returns numbers in the units of the file.

    Parameters
    ----------
    name : str
        The name of the data set, for messages.
    X_train : numpy.ndarray
        Scaled examples to train on, float32 or float64 of shape (n, d).
    y_train : numpy.ndarray
        Their standardized targets, of shape (n, k) and the same dtype.
    X_test : numpy.ndarray
        Scaled examples to test with, of shape (m, d).
    y_test : numpy.ndarray
        Their standardized targets, of shape (m, k).
    feature_shape : tuple of int
        The shape of one example before it was flattened to d numbers.
    mean, scale : numpy.ndarray
        The numbers of the scaling of X, float64 of shape (d,).
    target_names : tuple of str
        The names of the targets.
    target_mean, target_scale : numpy.ndarray
        The numbers of the scaling of y, float64 of shape (k,).
    feature_names : tuple of str
        Names of the columns, or empty if the file has none.
    encoder : TableEncoder or None
        Encoder that computed X from a table, or None.
    labels : tuple of str
        Columns of the table that contained the targets.
    about : tuple of str
        Lines about the file: how it was read, and why its targets are numeric.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lines.npz")
    ...     np.savez(path, X=np.arange(40.0).reshape(20, 2), y=np.linspace(0.0, 1.0, 20))
    ...     data = agrad.data.load_npz(path, task="regression")
    >>> isinstance(data, agrad.data.RegressionData), data.X_train.shape, data.y_test.shape
    (True, (16, 2), (4, 1))
    """

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    feature_shape: tuple[int, ...]
    mean: np.ndarray
    scale: np.ndarray
    target_names: tuple[str, ...]
    target_mean: np.ndarray
    target_scale: np.ndarray
    feature_names: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    labels: tuple[str, ...] = ()
    about: tuple[str, ...] = ()

    task = "regression"
    class_names: ClassVar[tuple[str, ...]] = ()

    @property
    def n_features(self) -> int:
        """The number of features of an example."""
        return int(self.X_train.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network for an example."""
        return len(self.target_names)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return standardized targets in the units of the file.

        Parameters
        ----------
        y : numpy.ndarray
            Numbers of shape (n, k).

        Returns
        -------
        numpy.ndarray
            Float64 of shape (n, k).

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "lines.npz")
        ...     np.savez(path, X=np.arange(20.0)[:, None], y=np.arange(20.0) * 10)
        ...     data = agrad.data.load_npz(path, task="regression")
        >>> np.allclose(data.targets(data.y_test), 10 * (data.X_test * data.scale + data.mean), atol=1e-3)
        True
        """
        return np.asarray(y, dtype=np.float64) * self.target_scale + self.target_mean


def check_task(task: str) -> None:
    """Raise ``ConfigurationError`` for another task."""
    if task not in TASKS:
        raise ConfigurationError(f"task must be one of {', '.join(TASKS)}, got {task!r}")


def dataset(
    task: str,
    name: str,
    where: str,
    parts: Sequence[Pair],
    mean: np.ndarray,
    scale: np.ndarray,
    names: tuple[str, ...],
    dtype: str | None = None,
    **more: Any,
) -> Any:
    """Return the data set of a task from its train and test part; errors name `where`.

    The targets of a part are class labels, or numbers (n, k). `names` are those of the classes or of the targets. The
    examples are scaled to `dtype`; without it, they have been scaled.
    """
    (X, y), (X_test, y_test) = parts
    shape = X.shape[1:] or (1,)
    if dtype is not None:
        X = scaled(X, mean, scale, dtype, f"{where}, train part")
        X_test = scaled(X_test, mean, scale, dtype, f"{where}, test part")
    if task == "classification":
        return ClassificationData(name, X, y, X_test, y_test, len(names), shape, mean, scale, names, **more)
    center = standardisation(y, where, names)
    still = np.flatnonzero(np.ptp(y, axis=0) <= LEAST)
    if still.size:
        target = y[:, still[0]]
        found = f"only {target[0]:g}" if np.ptp(target) == 0 else f"{np.min(target):g} to {np.max(target):g}"
        raise DataError(
            f"{where}: expected targets that vary by more than {LEAST:g}, found {found} in {shown(names[still[0]])}"
        )
    y, y_test = (scaled(targets, *center, X.dtype.name, f"{where}, targets") for targets in (y, y_test))
    return RegressionData(name, X, y, X_test, y_test, shape, mean, scale, names, *center, **more)


def split(task: str, y: np.ndarray, fraction: float, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Split the examples into most and few, both sorted int64.

    The split is random; for classes, it contains a part of each.
    """
    if task != "regression":
        return stratified_split(y, fraction, seed, name)
    if (n := y.shape[0]) < 3:
        raise DataError(f"{name}: expected 3 examples or more, to hold one out; found {n}")
    return stratified_split(np.zeros(n, dtype=np.int64), fraction, seed, name)

"""Estimators with the network for tables of ``agrad train --model table``."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

import agrad
from agrad import nn, optim, random
from agrad.data.classification import standardisation
from agrad.faces import complete_docstring
from agrad.nn import Module
from agrad.sklearn.arrays import host, placed
from agrad.sklearn.base import Estimator, check_number
from agrad.sklearn.kinds import Classifier, Regressor
from agrad.sklearn.wrapping import Network
from agrad.train import tabular
from agrad.train.batches import DeviceSpec


def chosen(n: int, *given: int | None) -> dict[str, Any]:
    """Return the values of parameters that are "auto"; see `tabular.by_rows`."""
    found = tabular.by_rows(n, *given)
    names = {"hidden": "hidden_layer_sizes", "patience": "n_iter_no_change", "validation": "early_stopping"}
    return {names.get(name, name): value for name, value in found.items()}


class Table(Network):
    """Base class of the estimators with the network for tables."""

    _takes_images = False
    _units: tuple[Any, Any] = 0.0, 1.0
    """The mean and the scale of targets, to which outputs are converted."""
    module = loss = optimizer = callbacks = None

    def __init__(
        self,
        *,
        members: int | str = "auto",
        hidden_layer_sizes: Any = "auto",
        dropout: float = 0.1,
        lr: float = 0.002,
        weight_decay: float = 0.01,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        shuffle: bool = True,
        random_state: Any = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.15,
        n_iter_no_change: float | str = "auto",
        tol: float = 0.0,
        warm_start: bool = False,
        verbose: bool = False,
        backend: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array or sparse matrix
            Numbers of shape (n, features).

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError
            If the data do not fit, or the fit diverges.
        """
        return self._fit(X, y, None)

    _chosen = chosen(1)

    def _check_settings(self) -> None:
        Estimator._check_settings(self)
        for name in ("lr", "weight_decay", "dropout"):
            check_number(name, getattr(self, name), 0, 1 if name == "dropout" else math.inf, above=name == "lr")
        if not self._automatic("members"):
            check_number("members (if not 'auto')", self.members, 1, whole=True)
        for width in self._value("hidden_layer_sizes"):
            check_number("hidden_layer_sizes: each", width, 1, whole=True)

    def _epochs(self) -> int:
        return int(self._chosen["epochs"]) if self._automatic("epochs") else super()._epochs()

    @property
    def _copies(self) -> int:  # type: ignore[override]
        """The networks, each of which sees a part of a batch."""
        return int(self._value("members"))

    def _begin(self, X: Any, place: DeviceSpec, dtype: str) -> None:
        given = (None if self._automatic(name) else getattr(self, name) for name in ("members", "batch_size", "epochs"))
        self._chosen = chosen(X.shape[0], *given)
        n = X.shape[0] - bool(self._value("early_stopping")) * round(X.shape[0] * self.validation_fraction)
        self._batches = -(-n * self._copies // self._value("batch_size"))
        super()._begin(X, place, dtype)

    def _network(self, X: Any, outputs: int, place: DeviceSpec, dtype: str) -> Module:
        numbers = X.toarray() if issparse(X) else host(X)
        mean, scale = standardisation(numbers, type(self).__name__)
        made = {"dtype": getattr(agrad, dtype), "backend": place.backend.name, "device": place.device}
        body = tabular.network(
            numbers.shape[1],
            tuple(self._value("hidden_layer_sizes")),
            outputs,
            tabular.intervals(((numbers - mean) / scale).astype(dtype)),
            self._copies,
            nn.ReLU,
            float(self.dropout),
            random.Generator(int(self._random.randint(2**31 - 1))),
            **made,
        )
        center, unit = self._units
        first, last = tabular.Affine(-mean, 1 / scale, 0.0, **made), tabular.Affine(0.0, unit, center, **made)
        return nn.Sequential(first, *body, last)

    def _optimizer(self, module: Module) -> Any:
        rate = optim.Cosine(float(self.lr), self._epochs() * self._batches)
        return optim.AdamW(module.parameters(), lr=rate, weight_decay=float(self.weight_decay))


complete_docstring(Table.fit, Network.fit)


class TableClassifier(Classifier, Table):
    """Classifier with the network for tables of ``agrad train``.

    An ensemble of residual networks, which receive numbers together with their positions between quantiles. Averaged
    weights compute predictions. Encode categories beforehand, for example with ``OneHotEncoder``; numbers are
    standardized by the estimator.

    Parameters
    ----------
    members : int or "auto"
        Number of networks, whose outputs are averaged. ``"auto"`` means 8 for fewer than 1,000 examples, 4 for fewer
        than 10,000, 2 for fewer than 50,000, otherwise 1.
    hidden_layer_sizes : sequence of int or "auto"
        Widths of the hidden layers. ``"auto"`` means (64, 64) for fewer than 1,000 examples, otherwise (128, 128).
    dropout : float
        Probability of a zero after each hidden layer.
    lr : float
        First learning rate of AdamW. It decreases to 0 along a cosine.
    weight_decay : float
        Weight decay of AdamW.
    epochs : int or "auto"
        Number of epochs. ``"auto"`` means about 1,600 steps, and 20 to 100 epochs.
    batch_size : int or "auto"
        Batch size. ``"auto"`` means 256 for fewer than 10,000 examples, otherwise 512.
    random_state : int, numpy.random.RandomState or None
        Random source of initial values, orders and dropout.
    early_stopping : bool or "auto"
        If True, hold out examples, stop when the loss on them stops decreasing, and keep the best network. ``"auto"``
        means True for 40 examples or more.
    n_iter_no_change : int, inf or "auto"
        Number of epochs without improvement after which a fit with ``early_stopping`` stops. ``"auto"`` means a
        quarter of the epochs, and at least 5.
    tol : float
        Smallest improvement of the score that counts. Scores are losses with the opposite sign (R2 of a regressor).

    Attributes
    ----------
    module_ : Module
        The network.
    classes_ : numpy.ndarray
        The classes.
    loss_, loss_curve_, validation_scores_, best_validation_score_, n_iter_, t_
        As in `NetworkClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from agrad.sklearn import TableClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TableClassifier(epochs=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _single_logit = False

    def _score_of(self, X: Any, targets: np.ndarray, weights: np.ndarray | None) -> float:
        """Return minus the loss, which also judges networks of equal accuracy."""
        loss = self._objective(self._raw(X), (agrad.asarray(placed(targets, self._place)), None))
        return -float(loss.item())


class TableRegressor(Regressor, Table):
    """Regressor with the network for tables of ``agrad train``.

    See `TableClassifier`. Targets are standardized by the estimator.

    Parameters
    ----------
    members, hidden_layer_sizes, dropout, lr, weight_decay, epochs, batch_size, shuffle, random_state
        As in `TableClassifier`.
    early_stopping, validation_fraction, n_iter_no_change, tol, warm_start, verbose, backend, device, dtype
        As in `TableClassifier`.

    Attributes
    ----------
    module_ : Module
        The network.
    n_outputs_ : int
        The number of outputs.
    loss_, loss_curve_, validation_scores_, best_validation_score_, n_iter_, t_
        As in `NetworkRegressor`. Losses are computed for standardized targets.

    Examples
    --------
    >>> import numpy as np
    >>> from agrad.sklearn import TableRegressor
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> model = TableRegressor(epochs=40, random_state=0).fit(X, 100 * np.abs(X[:, 0]))
    >>> bool(model.score(X, 100 * np.abs(X[:, 0])) > 0.95)
    True
    """

    def _targets(self, y: np.ndarray, fresh: bool, incremental: bool, dtype: str) -> np.ndarray:
        found = super()._targets(y, fresh, incremental, dtype)
        if fresh:
            self._units = standardisation(found, "y")
        return found

    def _default_loss(self) -> Any:
        return lambda output, target: agrad.mean(agrad.square((output - target) / self.module_[-1].factor))

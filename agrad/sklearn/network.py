"""Estimators around any network."""

from __future__ import annotations

from typing import Any, Self

from agrad.sklearn.kinds import Classifier, Regressor
from agrad.sklearn.wrapping import Network


class NetworkClassifier(Classifier, Network):
    """Classifier around any network.

    The network returns a logit for each class.

    Parameters
    ----------
    module : Module, or function of (n_features, n_outputs)
        The network. A Module is copied and trained on from its values. A function or class is called at each fit with
        the number of columns of X (a tuple for more axes) and the number of classes or labels.
    loss : Module, function or None
        A function of (output, target) that returns the mean loss of a batch. Targets are integers of shape (n,), or 0.0
        and 1.0 of shape (n, labels) for several labels. By default, the cross entropy, or the binary cross entropy for
        several labels.
    optimizer : str, class or function
        ``"adam"``, ``"adamw"``, ``"sgd"`` or another class name of ``agrad.optim`` in any case, such a class, or a
        function of (parameters, lr=...).
    optimizer_params : dict or None
        Additional arguments of the optimizer.
    lr : float or function
        Learning rate, or a schedule: a function of the number of steps.
    epochs : int
        The number of epochs.
    callbacks : sequence of functions
        Called after each epoch with the estimator and a dict of ``epoch``, ``loss`` and, with ``early_stopping``,
        ``score``. If one returns True, the fit stops.
    random_state : int, numpy.random.RandomState or None
        Random source of initial values, orders and dropout.
    n_iter_no_change : int or inf
        Number of epochs without improvement after which a fit with ``early_stopping`` stops.
    tol : float
        Smallest improvement of the score that counts.

    Attributes
    ----------
    module_ : Module
        The network.
    classes_ : numpy.ndarray
        The classes.
    loss_, best_loss_ : float
        The loss of the last epoch, and the lowest one (None with ``early_stopping``).
    loss_curve_, validation_scores_ : list of float
        The loss and the score of each epoch (``validation_scores_`` is None without ``early_stopping``).
    best_validation_score_ : float or None
        The best score.
    n_iter_, t_ : int
        The epochs of the last call, and the examples seen by the steps.
    n_features_in_, feature_names_in_
        As in scikit-learn estimators.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from agrad import nn
    >>> from agrad.sklearn import NetworkClassifier
    >>> def make(n_features, n_outputs):
    ...     return nn.Sequential(nn.Linear(n_features, 16), nn.Tanh(), nn.Linear(16, n_outputs))
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NetworkClassifier(make, lr=0.02, epochs=40, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """Train for one epoch, starting where the last call ended.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of shape (n, features), or with more axes.
        y : array
            Classes of shape (n,), or 0 and 1 of shape (n, labels).
        sample_weight : array, number or None
            Nonnegative weights of the examples, of shape (n,). The loss must accept ``reduction="none"``.
        classes : array or None
            All classes. Required in the first call.

        Returns
        -------
        NetworkClassifier
            The estimator itself.

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError
            If the data do not fit, or the fit diverges.
        ShapeError
            If the network returns another number of outputs.
        """
        return self._fit_part(X, y, sample_weight, classes)

    _single_logit = False


class NetworkRegressor(Regressor, Network):
    """Regressor around any network.

    The network returns the predictions, of shape (n, outputs).

    Parameters
    ----------
    module : Module, or function of (n_features, n_outputs)
        The network. A Module is copied and trained on from its values. A function or class is called at each fit, with
        the number of columns of X (a tuple for more axes) and the number of outputs.
    loss : Module, function or None
        A function of (output, target) that returns the mean loss of a batch. Both have the shape (n, outputs). By
        default, the mean squared error.
    optimizer, optimizer_params, lr, epochs, batch_size, shuffle, callbacks, random_state, early_stopping
        As in `NetworkClassifier`.
    validation_fraction, n_iter_no_change, tol, warm_start, verbose, backend, device, dtype
        As in `NetworkClassifier`.

    Attributes
    ----------
    module_ : Module
        The network.
    n_outputs_ : int
        The number of outputs.
    loss_, best_loss_ : float
        The loss of the last epoch, and the lowest one (None with ``early_stopping``).
    loss_curve_, validation_scores_ : list of float
        The loss and the score of each epoch (``validation_scores_`` is None without ``early_stopping``).
    best_validation_score_ : float or None
        The best score.
    n_iter_, t_ : int
        The epochs of the last call, and the examples seen by the steps.
    n_features_in_, feature_names_in_
        As in scikit-learn estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from agrad import nn
    >>> from agrad.sklearn import NetworkRegressor
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> model = NetworkRegressor(nn.Linear, lr=0.05, epochs=200, random_state=0).fit(X, 2 * X[:, 0] + 1)
    >>> bool(model.score(X, 2 * X[:, 0] + 1) > 0.99)
    True
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch, starting where the last call ended.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of shape (n, features), or with more axes.
        y : array
            Numbers of shape (n,), or (n, outputs).
        sample_weight : array, number or None
            Nonnegative weights of the examples, of shape (n,). The loss must accept ``reduction="none"``.

        Returns
        -------
        NetworkRegressor
            The estimator itself.

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError
            If the data do not fit, or the fit diverges.
        ShapeError
            If the network returns another number of outputs.
        """
        return self._fit(X, y, sample_weight, incremental=True)

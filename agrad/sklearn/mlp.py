"""Multilayer perceptrons with the scikit-learn parameters."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

import agrad
from agrad import nn
from agrad.errors import DataError
from agrad.expect import one_of
from agrad.sklearn.kinds import Classifier, Regressor
from agrad.sklearn.perceptron import Perceptron, has_epochs


class MLPClassifier(Classifier, Perceptron):
    """Multilayer perceptron classifier with the scikit-learn parameters.

    The loss is the cross entropy of the softmax, or of the logistic function for two classes and for several labels.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int
        Width of each hidden layer.
    activation : {"identity", "logistic", "tanh", "relu"}
        The function after each hidden layer.
    solver : {"adam", "sgd", "lbfgs"}
        The optimizer. ``"lbfgs"`` calls SciPy, with all examples at once.
    alpha : float
        L2 regularization: factor of half the sum of squared weights, added to the sum of the losses of a batch.
    learning_rate : {"constant", "invscaling", "adaptive"}
        The schedule of ``"sgd"``: constant; divided by ``(examples seen + 1) ** power_t`` after each epoch; or divided
        by 5 when the fit stops improving.
    learning_rate_init : float
        The learning rate at the start.
    power_t : float
        The exponent of ``"invscaling"``.
    max_iter : int
        Maximum number of epochs, or of iterations of ``"lbfgs"``.
    random_state : int, numpy.random.RandomState or None
        Random source of initial weights, orders and dropout.
    tol : float
        Smallest improvement that counts.
    momentum : float
        The momentum of ``"sgd"``.
    nesterovs_momentum : bool
        If True, use Nesterov momentum.
    beta_1, beta_2 : float
        Decay rates of the moments of ``"adam"``.
    epsilon : float
        Term of ``"adam"`` that prevents division by a small denominator.
    n_iter_no_change : int or inf
        Number of epochs without improvement after which a fit stops.
    max_fun : int
        Maximum number of function evaluations of ``"lbfgs"``.
    dropout : float
        Dropout probability after each hidden layer.

    Attributes
    ----------
    module_ : Module
        The network.
    classes_ : numpy.ndarray
        The classes.
    coefs_, intercepts_ : list of numpy.ndarray
        Weights (inputs, outputs) and biases (outputs,) of the layers, for reading.
    loss_, best_loss_ : float
        The loss of the last epoch, and the lowest one (None with ``early_stopping``).
    loss_curve_, validation_scores_ : list of float
        The loss and the score of each epoch (``validation_scores_`` is None without ``early_stopping``).
    best_validation_score_ : float or None
        The best score.
    n_iter_, t_ : int
        The epochs of the last call, and the examples seen by the steps.
    n_features_in_, n_layers_, n_outputs_, out_activation_, feature_names_in_
        As in the scikit-learn estimator.

    Notes
    -----
    Initial weights and orders of examples are drawn as in scikit-learn, and fits in float64 agree except for rounding
    and two differences: ``epsilon`` is not scaled by the bias correction of Adam (Kingma and Ba 2015), and a changed
    learning rate of ``"sgd"`` also scales the velocity, as in PyTorch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from agrad.sklearn import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier(solver="lbfgs", max_iter=1000, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
        dropout: float = 0.0,
        backend: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(locals())

    @available_if(has_epochs)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """Train for one epoch, starting where the last call ended.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of shape (n, features).
        y : array
            Classes of shape (n,), or 0 and 1 of shape (n, labels).
        sample_weight : array, number or None
            Nonnegative weights of the examples, of shape (n,).
        classes : array or None
            All classes. Required in the first call.

        Returns
        -------
        MLPClassifier
            The estimator itself.

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError
            If the data do not fit, or the fit diverges.
        """
        return self._fit_part(X, y, sample_weight, classes)

    def _out_activation(self, outputs: int) -> str:
        return "logistic" if self._multilabel or outputs == 1 else "softmax"

    def _losses(self, z: Any, y: Any) -> Any:
        if self.out_activation_ == "softmax":
            return agrad.cross_entropy(z, y, reduction="none")
        return agrad.sum(nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none"), axis=-1)


class MLPRegressor(Regressor, Perceptron):
    """Multilayer perceptron regressor with the scikit-learn parameters.

    The loss is half the squared error, or half the Poisson deviance, summed over the outputs.

    Parameters
    ----------
    loss : {"squared_error", "poisson"}
        The loss. With ``"poisson"``, predictions are exponentials of the network outputs.
    hidden_layer_sizes, activation, solver, alpha, batch_size, learning_rate, learning_rate_init, power_t
        As in `MLPClassifier`.
    max_iter, shuffle, random_state, tol, verbose, warm_start, momentum, nesterovs_momentum, early_stopping
        As in `MLPClassifier`.
    validation_fraction, beta_1, beta_2, epsilon, n_iter_no_change, max_fun, dropout, backend, device, dtype
        As in `MLPClassifier`.

    Attributes
    ----------
    module_ : Module
        The network.
    coefs_, intercepts_ : list of numpy.ndarray
        Weights (inputs, outputs) and biases (outputs,) of the layers, for reading.
    loss_, best_loss_ : float
        The loss of the last epoch, and the lowest one (None with ``early_stopping``).
    loss_curve_, validation_scores_ : list of float
        The loss and the score of each epoch (``validation_scores_`` is None without ``early_stopping``).
    best_validation_score_ : float or None
        The best score.
    n_iter_, t_ : int
        The epochs of the last call, and the examples seen by the steps.
    n_features_in_, n_layers_, n_outputs_, out_activation_, feature_names_in_
        As in the scikit-learn estimator.

    Notes
    -----
    Initial weights and orders of examples are drawn as in scikit-learn, and fits in float64 agree except for rounding
    and two differences: ``epsilon`` is not scaled by the bias correction of Adam (Kingma and Ba 2015), and a changed
    learning rate of ``"sgd"`` also scales the velocity, as in PyTorch.

    Examples
    --------
    >>> import numpy as np
    >>> from agrad.sklearn import MLPRegressor
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> model = MLPRegressor(solver="lbfgs", random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.95)
    True
    """

    def __init__(
        self,
        loss: str = "squared_error",
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
        dropout: float = 0.0,
        backend: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(locals())

    @available_if(has_epochs)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch, starting where the last call ended.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of shape (n, features).
        y : array
            Numbers of shape (n,), or (n, outputs).
        sample_weight : array, number or None
            Nonnegative weights of the examples, of shape (n,).

        Returns
        -------
        MLPRegressor
            The estimator itself.

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError
            If the data do not fit, or the fit diverges.
        """
        return self._fit(X, y, sample_weight, incremental=True)

    def _check_settings(self) -> None:
        super()._check_settings()
        one_of(type(self).__name__, "loss", self.loss, ("squared_error", "poisson"))

    def _targets(self, y: np.ndarray, fresh: bool, incremental: bool, dtype: str) -> np.ndarray:
        found = super()._targets(y, fresh, incremental, dtype)
        if self.loss == "poisson" and (found < 0).any():
            raise DataError("loss='poisson' requires nonnegative targets")
        return found

    def _out_activation(self, outputs: int) -> str:
        return "exp" if self.loss == "poisson" else "identity"

    def _numbers(self, z: agrad.Tensor) -> agrad.Tensor:
        return agrad.exp(z) if self.out_activation_ == "exp" else z

    def _losses(self, z: Any, y: Any) -> Any:
        if self.out_activation_ == "exp":
            return agrad.sum(y * agrad.log(agrad.where(y > 0, y, 1.0)) - y * z - y + agrad.exp(z), axis=-1)
        return agrad.sum((z - y) ** 2, axis=-1) * 0.5

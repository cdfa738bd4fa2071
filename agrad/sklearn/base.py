"""The base of all estimators: data checks, the loop of a fit, its records."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

import agrad
from agrad.errors import AnomalyError, ConfigurationError, DataError
from agrad.faces import complete_docstring
from agrad.nn import Module
from agrad.sklearn.arrays import dtype_name, dtypes_for, home, host, place_for, rows
from agrad.sklearn.training import Examples, Training, predicted
from agrad.train.batches import DeviceSpec
from agrad.train.hooks import Callback
from agrad.train.loop import evaluating

ROWS = 4096
"""The number of rows that outputs are computed for at a time."""


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, whole: bool = False, above: bool = False
) -> None:
    """Raise ``ConfigurationError`` unless a value is a number in a range.

    low, high: The range. whole: True for integers. above: True if ``low`` is excluded.
    """
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    good = isinstance(value, kinds) and not isinstance(value, bool)
    if not good or not low <= value <= high or (above and value == low):
        kind = "an integer" if whole else "a number"
        limit = f"above {low}" if above else f"of at least {low}"
        limit += "" if high == math.inf else f" and at most {high}"
        raise ConfigurationError(f"{name} must be {kind} {limit}, got {value!r}")


class Estimator(BaseEstimator):
    """Base class of the estimators.

    A subclass defines ``_network``, ``_optimizer`` and ``_objective``, and inherits from ``Classifier`` or
    ``Regressor``, depending on the targets.

    Parameters
    ----------
    batch_size : int or "auto"
        Batch size. ``"auto"`` means 200, or all examples if there are fewer.
    shuffle : bool
        If True, shuffle the examples in each epoch.
    early_stopping : bool
        If True, hold out examples, stop when the score on them stops improving, and keep the best network.
    validation_fraction : float
        Fraction of the examples to hold out.
    warm_start : bool
        If True, continue from the last fit.
    verbose : bool
        If True, print the loss of each epoch.
    backend : str or None
        The backend to compute on. By default, the one of the input with ``array_api_dispatch``, otherwise the selected
        one.
    device : device or None
        Its device.
    dtype : {"float32", "float64"} or None
        The dtype to compute in. By default, the dtype of the input, or float64 for integers.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        complete_docstring(cls, Estimator)

    module_: Module
    _training: Training
    _place: DeviceSpec
    _inputs: DeviceSpec | None

    def _take(self, parameters: dict[str, Any]) -> None:
        """Set the parameters of ``__init__``, which are its local names."""
        vars(self).update({name: value for name, value in parameters.items() if name not in ("self", "__class__")})

    # ------------------------------------------------------------------ what subclasses fill in

    def _check_settings(self) -> None:
        """Check parameters that are not checked when they are used."""
        self._epochs()
        if not self._automatic("n_iter_no_change"):
            check_number("n_iter_no_change", self.n_iter_no_change, 1, whole=self.n_iter_no_change != math.inf)
        check_number("tol", self.tol, 0)
        if self.early_stopping:
            check_number("validation_fraction", self.validation_fraction, 0, 1, above=True)
        if not self._automatic("batch_size"):
            check_number("batch_size (if not 'auto')", self.batch_size, 1, whole=True)

    def _epochs(self) -> int:
        """Return the largest number of epochs."""
        raise NotImplementedError

    _copies = 1
    """How often an epoch sees each example."""

    _chosen: Mapping[str, Any] = MappingProxyType({"batch_size": 200})
    """The values of parameters that may be "auto"."""

    def _automatic(self, name: str) -> bool:
        """Return True for a parameter that is "auto", and may be."""
        return name in self._chosen and isinstance(getattr(self, name), str) and getattr(self, name) == "auto"

    def _value(self, name: str) -> Any:
        """Return a parameter, or the value that is chosen for "auto"."""
        return self._chosen[name] if self._automatic(name) else getattr(self, name)

    def _network(self, X: Any, outputs: int, place: DeviceSpec, dtype: str) -> Module:
        """Return a new network for checked inputs. Draws come from ``_random``."""
        raise NotImplementedError

    def _objective(self, output: Any, y: Any) -> agrad.Tensor:
        """Return the loss of a batch, of outputs, and of targets and weights (or None)."""
        raise NotImplementedError

    def _optimizer(self, module: Module) -> Any:
        """Return a new optimizer of the module's parameters, or None."""
        raise NotImplementedError

    # ------------------------------------------------------------------ data

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            allow_nd=self._takes_images,
            dtype=dtypes_for(X, self.dtype),
            multi_output=True,
            y_numeric=is_regressor(self),
        )

    _takes_images = False
    """True if inputs may have more than two axes."""

    def _checked_weights(self, weights: Any, X: Any, dtype: str) -> np.ndarray | None:
        """Return weights of the examples on the host, or None if they are all 1."""
        if weights is None:
            return None
        if isinstance(weights, Real):
            weights = np.full(X.shape[0], weights)
        found = check_array(host(weights), ensure_2d=False, dtype=dtype, input_name="sample_weight")
        if found.ndim != 1:
            raise DataError(f"Sample weights must be 1D array or scalar, found an array of shape {found.shape}")
        if found.shape[0] != X.shape[0]:
            raise DataError(f"sample_weight.shape == {found.shape}, expected ({X.shape[0]},)")
        if (found < 0).any():
            raise DataError("Negative values in data passed to `sample_weight`")
        if not found.any():
            raise DataError("Sample weights must contain at least one non-zero number.")
        return found

    # ------------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of shape (n, features), or with more axes if the module accepts them.
        y : array
            Classes of shape (n,), or 0 and 1 of shape (n, labels). For a regressor, targets (n,) or (n, outputs).
        sample_weight : array, number or None
            Nonnegative weights of the examples, of shape (n,). A custom loss must accept ``reduction="none"``.

        Returns
        -------
        Self
            The estimator.

        Raises
        ------
        ConfigurationError
            If a parameter is out of range.
        DataError, ShapeError
            If the data or the outputs of the network do not fit, or the fit diverges.
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any, incremental: bool = False) -> Any:
        self._check_settings()
        fresh = not hasattr(self, "module_") or not (self.warm_start or incremental)
        X, y = self._checked(X, y, reset=fresh)
        dtype = dtype_name(X)
        self._inputs = home(X)
        check_consistent_length(X, y)
        weights = self._checked_weights(sample_weight, X, dtype)
        targets = self._targets(host(y), fresh, incremental, dtype)
        if weights is not None and not weights.all():  # an example of weight 0 is none
            kept = np.flatnonzero(weights)
            X, targets, weights = rows(X, kept), targets[kept], weights[kept]
        self._random = check_random_state(self.random_state)
        place = place_for(X, self.backend, self.device)
        if fresh:
            self._begin(X, place, dtype)
        elif place != self._place:
            self._place = place
            self.module_.to(place.backend.name).to(place.device)
            self._training = self._trained(self.module_, place)
        elif not incremental:
            self._training = self._trained(self.module_, place)
        if fresh or not incremental:
            self.n_iter_ = 0
        self._run(X, targets, weights, incremental)
        return self

    def _begin(self, X: Any, place: DeviceSpec, dtype: str) -> None:
        """Make the network, and empty records."""
        module = self._network(X, self._outputs_wanted(), place, dtype).eval()
        training = self._trained(module, place)
        self.module_, self._training, self._place = module, training, place
        self.n_iter_, self.t_ = 0, 0
        self.loss_curve_: list[float] = []
        self._stale = 0
        if self._value("early_stopping"):
            self.validation_scores_: list[float] | None = []
            self.best_validation_score_: float | None = -math.inf
            self.best_loss_: float | None = None
        else:
            self.validation_scores_ = self.best_validation_score_ = None
            self.best_loss_ = math.inf
        self._best: Mapping[str, np.ndarray] | None = None

    def _trained(self, module: Module, place: DeviceSpec) -> Training:
        return Training(module, self._objective, self._optimizer(module), place)

    def _run(self, X: Any, targets: np.ndarray, weights: Any, incremental: bool) -> None:
        """Train for the epochs of a call."""
        if self._value("early_stopping") and incremental:
            raise ConfigurationError("partial_fit does not support early_stopping=True")
        held: tuple[Any, ...] | None = None
        if self._value("early_stopping"):
            X, targets, weights, held = self._held_out(X, targets, weights)
        size = min(int(self._value("batch_size")), X.shape[0] * self._copies)
        rng = self._random if self.shuffle else None
        examples = Examples(X, targets, weights, self._training, size, rng, self._copies)
        self.n_iter_ = 0
        trainer = self._training.trainer
        trainer.callbacks = [_Course(self, examples.examples, held, incremental)]
        try:
            history = trainer.fit(examples, epochs=1 if incremental else self._epochs(), progress=False)
        except AnomalyError as error:
            raise DataError(f"{error} Or scale the data (StandardScaler).") from None
        finally:
            self.module_.eval()
        if history.interrupted:
            warnings.warn("Training interrupted by user.", stacklevel=4)
        elif not trainer.stopping:
            self._out_of_epochs()
        if held is not None and self._best is not None:
            self.module_.load_state_dict(self._best)

    def _note(self, loss: float, seen: int, held: tuple[Any, ...] | None) -> bool:
        """Take note of an epoch, and return True to end the fit."""
        self.loss_ = loss
        self.n_iter_ += 1
        self.t_ += seen
        self.loss_curve_.append(loss)
        if self.verbose:
            print(f"Iteration {self.n_iter_}, loss = {loss:.8f}")
        self._judge(held)
        return self._epoch_ends()

    def _held_out(self, X: Any, targets: np.ndarray, weights: Any) -> tuple[Any, ...]:
        """Split a part off to judge the network by."""
        stratify = targets if self._stratified() else None
        train, test = train_test_split(
            np.arange(X.shape[0]), random_state=self._random, test_size=self.validation_fraction, stratify=stratify
        )
        if len(test) < 2:
            raise DataError(
                f"the validation set has {len(test)} examples. Increase validation_fraction "
                f"({self.validation_fraction})."
            )

        def part(indices: np.ndarray) -> tuple[Any, Any, Any]:
            return rows(X, indices), targets[indices], None if weights is None else weights[indices]

        return (*part(train), part(test))

    def _judge(self, held: tuple[Any, ...] | None) -> None:
        """Count the epochs without an improvement."""
        if held is None:
            loss, best = self.loss_curve_[-1], self.best_loss_
            if best is None:  # an earlier fit with early stopping
                best = math.inf
            self._stale = self._stale + 1 if loss > best - self.tol else 0
            self.best_loss_ = min(loss, best)
            return
        with evaluating(self.module_):
            score = self._score_of(*held)
        if self.validation_scores_ is None or self.best_validation_score_ is None:
            self.validation_scores_, self.best_validation_score_ = [], -math.inf
        self.validation_scores_.append(score)
        if self.verbose:
            print(f"Validation score: {score:f}")
        self._stale = self._stale + 1 if score < self.best_validation_score_ + self.tol else 0
        if score > self.best_validation_score_:
            self.best_validation_score_ = score
            self._best = self.module_.state_dict()

    def _epoch_ends(self) -> bool:
        """Return True to end the fit."""
        patience = self._value("n_iter_no_change")
        if self._stale <= patience:
            return False
        if self.verbose:
            what = "Validation score" if self._value("early_stopping") else "Training loss"
            print(f"{what} did not improve more than tol={self.tol:f} for {patience} consecutive epochs.")
        self._stale = 0
        return self._stops()

    def _stops(self) -> bool:
        """Return True to end a fit that improves no more."""
        return True

    def _out_of_epochs(self) -> None:
        """Tell that the fit has not converged."""
        warnings.warn(
            f"Stochastic Optimizer: Maximum iterations ({self._epochs()}) reached and the optimization hasn't "
            "converged yet.",
            ConvergenceWarning,
            stacklevel=4,
        )

    # ------------------------------------------------------------------ outputs

    def _raw(self, X: Any) -> agrad.Tensor:
        """Return the outputs of the network for checked inputs, on its own backend."""
        return predicted(self.module_, X, self._place, ROWS)

    def _given(self, X: Any, method: str) -> agrad.Tensor:
        """Return the network outputs for the inputs of a method."""
        check_is_fitted(self, "module_")
        if get_config()["array_api_dispatch"] and home(X) != self._inputs:
            raise DataError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device "
                "as those passed to fit(). Move them to that device, or fit again."
            )
        dtype = next((p.dtype.name for p in self.module_.parameters()), "float64")
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            allow_nd=self._takes_images,
            dtype=dtypes_for(X, dtype if dtype in ("float32", "float64") else None),
        )
        return self._raw(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags


class _Course(Callback):
    """Reports each epoch to an estimator, and stops the fit if it returns True."""

    def __init__(self, estimator: Estimator, count: Any, held: tuple[Any, ...] | None, incremental: bool) -> None:
        self._estimator, self._count, self._held, self._incremental = estimator, count, held, incremental

    def on_epoch_end(self, trainer: Any, record: dict[str, Any]) -> None:
        if self._estimator._note(record["loss"], self._count, self._held) or self._incremental:
            trainer.stop()

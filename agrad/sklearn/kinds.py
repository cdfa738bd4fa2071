"""Base classes of estimators for classes and for numeric targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels

import agrad
from agrad import nn
from agrad.errors import DataError
from agrad.sklearn.arrays import as_input, dispatched


class Classifier(ClassifierMixin):
    """Estimator of classes of any sortable type, or of several labels per example."""

    _single_logit = True
    """True if two classes have one output, the logit of the second."""

    classes_: np.ndarray
    _multilabel: bool

    def _targets(self, y: np.ndarray, fresh: bool, incremental: bool, dtype: str) -> np.ndarray:
        """Set ``classes_``, and return the targets of the loss."""
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        kind = type_of_target(y, input_name="y")
        if kind == "multiclass-multioutput":
            raise DataError(
                "Multioutput target data is not supported: y must contain one label per example, or Booleans for "
                "several labels"
            )
        multilabel = kind == "multilabel-indicator"
        if not hasattr(self, "classes_") or (fresh and not incremental):
            self._multilabel = multilabel
            self.classes_ = np.arange(y.shape[1]) if multilabel else np.unique(y)
        elif multilabel != self._multilabel or (multilabel and y.shape[1] != len(self.classes_)):
            raise DataError(f"y must have the same labels as in the previous fit, which had {len(self.classes_)}")
        elif not multilabel:
            found = unique_labels(y)
            strange = np.setdiff1d(found, self.classes_)
            if len(strange):
                raise DataError(f"`y` has classes not in `self.classes_`: {strange} are not among {self.classes_}")
            if not incremental and len(found) < len(self.classes_):
                raise DataError(
                    "warm_start can only be used if `y` has the same classes as in the previous call to fit: "
                    f"{self.classes_}, got {found}"
                )
        if multilabel:
            return y.astype(dtype)
        codes = np.searchsorted(self.classes_, y)
        return codes.astype(dtype)[:, None] if self._outputs_wanted() == 1 else codes.astype(np.int64)

    def _outputs_wanted(self) -> int:
        """Return the number of outputs of the network."""
        few = not self._multilabel and len(self.classes_) <= 2
        return (1 if self._single_logit else 2) if few else len(self.classes_)

    def _default_loss(self) -> Any:
        several = self._multilabel
        return nn.functional.binary_cross_entropy_with_logits if several else nn.functional.cross_entropy

    def _stratified(self) -> bool:
        return not self._multilabel and len(self.classes_) == 2

    def _fit_part(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> Any:
        """Take one epoch; ``classes`` are needed at the first call."""
        if not hasattr(self, "classes_"):
            if classes is None:
                raise DataError("classes must be passed on the first call to partial_fit.")
            self._multilabel = type_of_target(y).startswith("multilabel")
            self.classes_ = unique_labels(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise DataError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
            )
        return self._fit(X, y, sample_weight, incremental=True)

    # ------------------------------------------------------------------ outputs

    def _logits(self, z: agrad.Tensor) -> agrad.Tensor:
        """Return outputs as (n, labels), or (n,) for two classes."""
        if self._multilabel or len(self.classes_) > 2:
            return z
        if z.ndim == 1 or z.shape[1] == 1:
            return agrad.reshape(z, (-1,))
        return z[:, 1] - z[:, 0]

    def _probabilities(self, z: agrad.Tensor) -> agrad.Tensor:
        """Return probabilities (n, labels)."""
        logits = self._logits(z)
        if self._multilabel:
            return agrad.sigmoid(logits)
        if logits.ndim == 2:
            return agrad.softmax(logits, axis=-1)
        if len(self.classes_) == 1:
            return agrad.ones_like(logits)[:, None]
        return agrad.stack([agrad.sigmoid(-logits), agrad.sigmoid(logits)], axis=1)

    def _codes(self, z: agrad.Tensor) -> agrad.Tensor:
        """Return the numbers of the classes, or a 1 for each label."""
        logits = self._logits(z)
        if self._multilabel or logits.ndim == 1:
            codes = agrad.astype(logits > 0, agrad.int64)
            return codes if len(self.classes_) > 1 or self._multilabel else agrad.zeros_like(codes)
        return agrad.argmax(logits, axis=-1)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row, or Booleans for labels.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of the shape (n, ...) of the fit.

        Returns
        -------
        array
            Classes of shape (n,), or 0 and 1 of shape (n, labels).
        """
        codes = self._codes(self._given(X, "predict"))
        if self._multilabel:
            return as_input(codes, X)
        if not dispatched(X) or self.classes_.dtype.kind not in "biuf":
            return self.classes_[codes.numpy()]
        classes = agrad.asarray(self.classes_, backend=codes.backend, device=codes.device)
        return as_input(agrad.take(classes, codes, axis=0), X)

    def decision_function(self, X: Any) -> Any:
        """Return the logits.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of the shape (n, ...) of the fit.

        Returns
        -------
        array
            Array of shape (n, classes), or (n,) for two classes: positive for the second.
        """
        return as_input(self._logits(self._given(X, "decision_function")), X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of the shape (n, ...) of the fit.

        Returns
        -------
        array
            Array of shape (n, classes). Each of several labels has a separate probability.
        """
        return as_input(self._probabilities(self._given(X, "predict_proba")), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of the shape (n, ...) of the fit.

        Returns
        -------
        array
            Array of the shape that ``predict_proba`` returns.
        """
        found = self._probabilities(self._given(X, "predict_log_proba"))
        with np.errstate(divide="ignore"):
            return as_input(agrad.log(found), X)

    def _score_of(self, X: Any, targets: np.ndarray, weights: np.ndarray | None) -> float:
        """Return the accuracy on checked data."""
        z = self._raw(X)
        if not np.isfinite(z.numpy()).all():
            return math.nan
        right = self._codes(z).numpy().reshape(targets.shape) == targets
        return float(np.average(right.reshape(len(right), -1).all(axis=1), weights=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class Regressor(RegressorMixin):
    """Estimator of one or several numbers per example."""

    n_outputs_: int

    def _targets(self, y: np.ndarray, fresh: bool, incremental: bool, dtype: str) -> np.ndarray:
        """Return the targets of the loss."""
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        if not fresh and outputs != self.n_outputs_:
            raise DataError(f"y must have {self.n_outputs_} outputs as in the previous fit, got {outputs}")
        self.n_outputs_ = outputs
        with np.errstate(over="ignore"):
            found = y.astype(dtype).reshape(len(y), outputs)
        if not np.isfinite(found).all():
            raise DataError(f"y contains values too large for {dtype}")
        return found

    def _outputs_wanted(self) -> int:
        """Return the number of outputs of the network."""
        return self.n_outputs_

    def _default_loss(self) -> Any:
        return nn.functional.mse_loss

    def _stratified(self) -> bool:
        return False

    def _numbers(self, z: agrad.Tensor) -> agrad.Tensor:
        """Return predictions of the outputs of the network."""
        return z

    def predict(self, X: Any) -> Any:
        """Return predictions.

        Parameters
        ----------
        X : array or sparse matrix
            Inputs of the shape (n, ...) of the fit.

        Returns
        -------
        array
            Array of shape (n,), or (n, outputs).
        """
        found = self._numbers(self._given(X, "predict"))
        return as_input(agrad.reshape(found, (-1,)) if self.n_outputs_ == 1 else found, X)

    def _score_of(self, X: Any, targets: np.ndarray, weights: np.ndarray | None) -> float:
        """Return the coefficient of determination on checked data."""
        found = self._numbers(self._raw(X)).numpy()
        if not np.isfinite(found).all():
            return math.nan
        return float(r2_score(targets, found.reshape(targets.shape), sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

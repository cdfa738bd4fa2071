"""The network, the loss and the optimizer of estimators around any network."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, OperandError, ShapeError
from agrad.nn import Module
from agrad.sklearn.base import Estimator, check_number
from agrad.train.batches import DeviceSpec
from agrad.train.step import unreduced


class Network(Estimator):
    """Base class of the estimators around any network."""

    _takes_images = True

    def __init__(
        self,
        module: Any = None,
        *,
        loss: Any = None,
        optimizer: Any = "adam",
        optimizer_params: Any = None,
        lr: float = 0.001,
        epochs: int = 20,
        batch_size: int | str = 128,
        shuffle: bool = True,
        callbacks: Any = (),
        random_state: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: bool = False,
        backend: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(locals())

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.module is None:
            raise ConfigurationError(
                f"{type(self).__name__}: module must be a Module, or a function of (n_features, n_outputs), got None"
            )
        if not isinstance(self.module, Module) and not callable(self.module):
            raise OperandError(
                f"module must be a Module or a function of (n_features, n_outputs), got {type(self.module).__name__}"
            )
        if self.loss is not None and not callable(self.loss):
            raise OperandError(f"loss must be a Module or a function of (output, target), got {self.loss!r}")
        for callback in self.callbacks or ():
            if not callable(callback):
                raise OperandError(f"callbacks must be functions of (estimator, record), got {type(callback).__name__}")

    def _epochs(self) -> int:
        check_number("epochs", self.epochs, 1, whole=True)
        return int(self.epochs)

    # ------------------------------------------------------------------ the network

    def _network(self, X: Any, outputs: int, place: DeviceSpec, dtype: str) -> Module:
        if isinstance(self.module, Module):
            module = copy.deepcopy(self.module)
        else:
            with self._drawing(), agrad.use_backend(place.backend.name, place.device):
                module = self.module(X.shape[1] if X.ndim == 2 else tuple(X.shape[1:]), outputs)
            if not isinstance(module, Module):
                raise OperandError(f"module must return a Module, got {type(module).__name__}")
        return module.to(place.backend.name).to(place.device).to(dtype=dtype)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Let draws of initial values and of dropout follow from ``random_state``."""
        default = nn.generator()
        before = default.state()
        nn.manual_seed(int(self._random.randint(2**31 - 1)))
        try:
            yield
        finally:
            default.load_state(before)

    def _run(self, X: Any, targets: Any, weights: Any, incremental: bool) -> None:
        with self._drawing():
            super()._run(X, targets, weights, incremental)

    def _optimizer(self, module: Module) -> Any:
        chosen = self.optimizer
        if isinstance(chosen, str):
            known = {name.lower(): getattr(optim, name) for name in optim.__all__}
            known = {name: kind for name, kind in known.items() if isinstance(kind, type)}
            known = {name: kind for name, kind in known.items() if issubclass(kind, optim.Optimizer)}
            if chosen.lower() not in known:
                raise ConfigurationError(f"optimizer must be one of {', '.join(sorted(known))}, got {chosen!r}")
            chosen = known[chosen.lower()]
        return chosen(module.parameters(), lr=self.lr, **(self.optimizer_params or {}))

    # ------------------------------------------------------------------ the loss

    def _objective(self, output: Any, y: Any) -> agrad.Tensor:
        targets, weights = y
        loss = self.loss if self.loss is not None else self._default_loss()
        loss = loss() if isinstance(loss, type) else loss
        output = self._shaped(output)
        if weights is None:
            return loss(output, targets)
        losses = unreduced(loss, "sample_weight")(output, targets)
        losses = agrad.mean(agrad.reshape(losses, (output.shape[0], -1)), axis=-1)
        return agrad.sum(losses * weights) / agrad.sum(weights)

    def _shaped(self, output: Any) -> Any:
        """Return outputs of the network, checked for their number."""
        wanted = self._outputs_wanted()
        shape = tuple(getattr(output, "shape", ()))
        logit = self.loss is not None and not self._single_logit and wanted == 2 and shape[1:] == (1,)
        if len(shape) != 2 or (shape[1] != wanted and not logit):
            raise ShapeError(f"the network must return an array of shape (n, {wanted}), as n_outputs says, got {shape}")
        return output

    _single_logit = True

    # ------------------------------------------------------------------ the course of a fit

    def _epoch_ends(self) -> bool:
        record = {"epoch": self.n_iter_, "loss": self.loss_}
        if self._value("early_stopping"):
            record["score"] = self.validation_scores_[-1]  # type: ignore[index]
        ended = [callback(self, dict(record)) is True for callback in self.callbacks or ()]
        return any(ended) or (self._value("early_stopping") and super()._epoch_ends())

    def _out_of_epochs(self) -> None:
        """Do not warn, because the number of epochs was requested."""

"""The base of the multilayer perceptrons: network, loss and rates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim, random
from agrad.errors import DataError
from agrad.expect import one_of
from agrad.nn import Module
from agrad.sklearn.base import Estimator, check_number
from agrad.sklearn.training import Examples
from agrad.train.batches import DeviceSpec

ACTIVATIONS = {"identity": nn.Identity, "logistic": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU}
LOWEST_RATE = 1e-6
"""The adaptive learning rate at which a fit ends."""


def has_epochs(estimator: Any) -> bool:
    """Return True if the solver works on batches."""
    if estimator.solver == "lbfgs":
        raise AttributeError("partial_fit is only available for stochastic optimizers. lbfgs is not stochastic.")
    return True


class Perceptron(Estimator):
    """Base class of the multilayer perceptrons."""

    def _check_settings(self) -> None:
        super()._check_settings()
        name = type(self).__name__
        one_of(name, "activation", self.activation, tuple(ACTIVATIONS))
        one_of(name, "solver", self.solver, ("adam", "sgd", "lbfgs"))
        one_of(name, "learning_rate", self.learning_rate, ("constant", "invscaling", "adaptive"))
        for name, high, above in (
            ("alpha", math.inf, False),
            ("learning_rate_init", math.inf, True),
            ("power_t", math.inf, False),
            ("momentum", 1, False),
            ("epsilon", math.inf, True),
            ("dropout", 1, False),
        ):
            check_number(name, getattr(self, name), 0, high, above=above)
        for name in ("beta_1", "beta_2"):
            check_number(name, getattr(self, name), 0, math.nextafter(1, 0))
        check_number("max_fun", self.max_fun, 1, whole=True)
        for width in self._widths():
            check_number("hidden_layer_sizes: each", width, 1, whole=True)

    def _widths(self) -> list[int]:
        sizes = self.hidden_layer_sizes
        return list(sizes) if hasattr(sizes, "__iter__") else [sizes]

    def _epochs(self) -> int:
        check_number("max_iter", self.max_iter, 1, whole=True)
        return int(self.max_iter)

    # ------------------------------------------------------------------ the network

    def _network(self, X: Any, outputs: int, place: DeviceSpec, dtype: str) -> Module:
        layers: list[Any] = []
        width = X.shape[1]
        kept: dict[str, Any] = {"dtype": getattr(agrad, dtype), "backend": place.backend.name, "device": place.device}
        # dropout draws separately, so that the weights are drawn as without it
        rng = random.Generator(int(self._random.randint(2**31 - 1))) if self.dropout else None
        factor = 2 if self.activation == "logistic" else 6
        for number, following in enumerate([*self._widths(), outputs]):
            if number:
                layers.append(ACTIVATIONS[self.activation]())
                if self.dropout:
                    layers.append(nn.Dropout(float(self.dropout), rng=rng))
            bound = math.sqrt(factor / (width + following))
            layer = nn.Linear(1, 1)
            layer.in_features, layer.out_features = int(width), int(following)
            layer.weight = nn.init.parameter(self._random.uniform(-bound, bound, (width, following)), **kept)
            layer.bias = nn.init.parameter(self._random.uniform(-bound, bound, following), **kept)
            layers.append(layer)
            width = following
        self.n_layers_: int = len(self._widths()) + 2
        self.n_outputs_ = outputs
        self.out_activation_: str = self._out_activation(outputs)
        return nn.Sequential(*layers)

    def _linear(self) -> list[Any]:
        return [layer for layer in self.module_ if isinstance(layer, nn.Linear)]

    @property
    def coefs_(self) -> list[np.ndarray]:
        """The weights of the layers, arrays (inputs, outputs) for reading."""
        return [_for_reading(layer.weight) for layer in self._linear()]

    @property
    def intercepts_(self) -> list[np.ndarray]:
        """The biases of the layers, arrays (outputs,) for reading."""
        return [_for_reading(layer.bias) for layer in self._linear()]

    # ------------------------------------------------------------------ the fit

    def _losses(self, z: Any, y: Any) -> Any:
        """Return the loss of each example."""
        raise NotImplementedError

    def _out_activation(self, outputs: int) -> str:
        raise NotImplementedError

    def _objective(self, output: Any, y: Any) -> agrad.Tensor:
        targets, weights = y
        losses = self._losses(output, targets)
        total = output.shape[0] if weights is None else agrad.sum(weights)
        loss = agrad.sum(losses if weights is None else losses * weights)
        if self.alpha:
            for layer in self._linear():
                loss = loss + _half_square(layer.weight) * self.alpha
        return loss / total

    def _optimizer(self, module: Module) -> Any:
        parameters = module.parameters()
        if self.solver == "adam":
            betas = (float(self.beta_1), float(self.beta_2))
            return optim.Adam(parameters, float(self.learning_rate_init), betas, float(self.epsilon))
        if self.solver == "sgd":
            momentum = float(self.momentum)
            nesterov = bool(self.nesterovs_momentum and momentum)
            return optim.SGD(parameters, float(self.learning_rate_init), momentum, nesterov=nesterov)
        return None

    def _run(self, X: Any, targets: np.ndarray, weights: Any, incremental: bool) -> None:
        if self.solver != "lbfgs":
            return super()._run(X, targets, weights, incremental)
        examples = Examples(X, targets, weights, self._training, X.shape[0])
        self.n_iter_, self.loss_ = self._training.lbfgs(examples, self.max_iter, self.max_fun, self.tol)
        if not all(np.isfinite(p.detach().numpy()).all() for p in self.module_.parameters()):
            raise DataError("lbfgs produced parameters that are not finite. Scale the data (StandardScaler).")
        return None

    def _epoch_ends(self) -> bool:
        if self.solver == "sgd" and self.learning_rate == "invscaling":
            self._training.optimizer.lr = float(self.learning_rate_init) / (self.t_ + 1) ** self.power_t
        return super()._epoch_ends()

    def _stops(self) -> bool:
        if self.solver != "sgd" or self.learning_rate != "adaptive":
            return True
        optimizer = self._training.optimizer
        if optimizer.lr <= LOWEST_RATE:
            return True
        optimizer.lr = optimizer.lr / 5
        if self.verbose:
            print(f"Setting learning rate to {optimizer.lr:f}")
        return False


def _half_square(weight: agrad.Tensor) -> agrad.Tensor:
    """Return half the sum of squares, whose derivative is the weight itself."""
    flat = agrad.reshape(weight, (-1,))
    fixed = agrad.reshape(weight.detach(), (-1,))
    return agrad.vecdot(flat, fixed) - agrad.vecdot(fixed, fixed) * 0.5


def _for_reading(tensor: Any) -> np.ndarray:
    """Return the values of a parameter as a NumPy array that cannot be written to."""
    view = tensor.detach().numpy().view()
    view.flags.writeable = False
    return view

"""The training step: a function of arrays, traced if that is faster."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

import agrad
from agrad import nn
from agrad.backends.base import DeviceSpec
from agrad.errors import ConfigurationError, OperandError, ShapeError, TracedValueError
from agrad.train.streaming import Metric

JITTED = ("numpy", "jax", "torch", "cupy")
"""Backends on which a step is traced and replayed by default."""

Precision = Literal["float32", "tf32", "bfloat16", "float16"]
PRECISIONS = get_args(Precision)


def raw(value: Any) -> Any:
    """Return the plain array of a Tensor; a plain array unchanged."""
    return value.data if isinstance(value, agrad.Tensor) else value


def called(model: Any, x: Any) -> Any:
    """Return the output of a model.

    If x is a tuple, list or dict, each entry is an argument.
    """
    if isinstance(x, tuple | list):
        return model(*x)
    return model(**x) if isinstance(x, dict) else model(x)


def step_of(
    model: Any, loss: Callable[..., Any], optimizer: Any, scale: Any, metrics: Sequence[Metric]
) -> Callable[[Any, Any], Any]:
    """Return a function of (x, y) that runs one step.

    It returns the loss before the step, and the parts of the metrics. A step reads nothing from the device.
    """

    def step(x: Any, y: Any) -> tuple[Any, list[Any]]:
        output = called(model, x)
        value = loss(output, y)
        check_loss(value)
        if scale is None:
            value.backward()
            optimizer.step()
        else:
            scale(value).backward()
            scale.step()
        optimizer.zero_grad()
        return value, parts_of(metrics, output, y)

    return step


def parts_of(metrics: Sequence[Metric], output: Any, y: Any) -> list[Any]:
    """Return the parts of metrics of a batch, one after the other."""
    if not metrics:
        return []
    if not hasattr(output, "shape") or not hasattr(y, "shape"):
        raise OperandError(
            "metrics: a metric name requires one output and one target. Pass a function for a pytree of them."
        )
    with agrad.no_grad():
        y_pred = agrad.asarray(output).detach()
        y_true = agrad.asarray(y)
        return [part for metric in metrics for part in metric.update(y_true, y_pred)]


def check_loss(value: Any) -> None:
    """Raise an error if a loss is not a differentiable scalar."""
    if not isinstance(value, agrad.Tensor):
        raise OperandError(
            f"the loss must return a Tensor that depends on the model's parameters, got {type(value).__name__}. "
            "Compute it from the model's output with agrad functions."
        )
    if value.size != 1:
        raise ShapeError(f"the loss must return a scalar, got shape {value.shape}. Use reduction='mean' or agrad.mean.")


class Step:
    """A step that is traced, or not, or no longer."""

    def __init__(self, step: Callable[[Any, Any], Any], place: DeviceSpec, jit: bool | None, precision: str) -> None:
        narrow = None if precision == "float32" else precision
        traced = (place.backend.name in JITTED or narrow is not None) if jit is None else jit
        self._plain = step
        self._may_fall_back = traced and jit is None and narrow is None
        self.run: Callable[..., Any] = agrad.jit(step, precision=narrow) if traced else step

    def __call__(self, x: Any, y: Any, size: int = 0) -> Any:
        try:
            return self.run(x, y)
        except TracedValueError as error:
            if not self._may_fall_back:
                raise
            # the failed trace has put all state back
            self._may_fall_back, self.run = False, self._plain
            warnings.warn(
                f"agrad.jit cannot trace the training step, which runs more slowly without it: {error} "
                "Create the Trainer with jit=False to avoid this warning.",
                RuntimeWarning,
                stacklevel=2,
            )
            return self.run(x, y)


def has_tensor_float(place: DeviceSpec) -> bool:
    """Return True for NVIDIA GPUs with TF32 products (compute capability 8 or more)."""
    device = place.backend.device(place.device)
    if place.backend.name == "cupy":
        return int(device.compute_capability) >= 80
    if place.backend.name == "torch" and device.type == "cuda":
        return bool(sys.modules["torch"].cuda.get_device_capability(device) >= (8, 0))
    # JAX does not tell the capability; a TPU uses its own middle precision
    return place.backend.name == "jax" and bool(device.platform != "cpu")


def check_precision(
    precision: str, jit: bool | None, place: DeviceSpec, name: str = "precision=", no_jit: str = "jit=False"
) -> None:
    """Raise ``ConfigurationError`` if the backend cannot multiply with this precision."""
    if precision not in PRECISIONS:
        raise ConfigurationError(f"{name} must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision == "float32":
        return
    option = f"{name}{precision!r}" if name.endswith("=") else f"{name} {precision}"
    if jit is False:
        raise ConfigurationError(f"{option} requires a compiled step. Omit {no_jit}.")
    if precision == "tf32" and not has_tensor_float(place):
        raise ConfigurationError(
            f"{option} is not supported by {place.backend.name} ({place.device_name}), because TF32 is a format of "
            "NVIDIA GPUs since the Ampere generation. Omit the option to compute in float32."
        )
    xp = place.backend.xp
    one = xp.ones((1, 1), dtype=xp.float32, device=place.device)
    try:
        agrad.jit(agrad.matmul, precision=precision)(one, one)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option}: {error}") from error


def weighted(
    loss: Callable[..., Any], weights: Mapping[int, float], place: DeviceSpec, dtype: str
) -> Callable[..., Any]:
    """Return a loss in which each example counts as much as its class.

    It is the mean of the losses of the examples with these weights. Raises ``ConfigurationError`` for a loss without
    ``reduction="none"``.
    """
    single = unreduced(loss, "class_weight")
    table = np.zeros(max(weights) + 1, dtype)
    table[list(weights)] = list(weights.values())
    there = agrad.asarray(table, backend=place.backend.name, device=place.device)

    def mean(output: Any, y: Any) -> Any:
        each = single(output, y)
        each = agrad.mean(agrad.reshape(each, (each.shape[0], -1)), axis=1)
        own = agrad.take(there, agrad.astype(agrad.reshape(y, (-1,)), agrad.int32), axis=0)
        own = agrad.astype(own, each.dtype, copy=False)
        return agrad.sum(each * own) / agrad.sum(own)

    return mean


def unreduced(loss: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a loss of each example, or raise ``ConfigurationError``."""
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        single = copy.copy(loss)
        single.reduction = "none"
        return single
    with contextlib.suppress(TypeError, ValueError):
        if "reduction" in inspect.signature(loss).parameters:
            return functools.partial(loss, reduction="none")
    raise ConfigurationError(
        f"{name} requires a loss that supports reduction='none', to weight the examples. Apply the weights in the loss "
        "instead."
    )


def threshold_of(loss: Callable[..., Any]) -> float | None:
    """Return the score that separates class 1 from 0, for a loss of two classes."""
    name = getattr(loss, "__name__", type(loss).__name__)
    if name in ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"):
        return 0.0
    return 0.5 if name in ("BCELoss", "binary_cross_entropy") else None

"""Gradient clipping."""

import math
from collections.abc import Iterable
from typing import Any

import agrad
from agrad.errors import AnomalyError, ConfigurationError
from agrad.optim.checks import leaves, number

__all__ = ["clip_grad_norm", "clip_grad_value"]

NARROW = ("float16", "bfloat16")

_FEW = 1 << 10
"""Largest number of elements of a gradient for which a call is slower than a copy."""


def _gradients(parameters: Any, what: str) -> list[tuple[agrad.Tensor, agrad.Tensor]]:
    """Return the parameters that have a gradient, with their gradients."""
    found = leaves([parameters] if isinstance(parameters, agrad.Tensor) else parameters, what, to_clip=True)
    return [(tensor, tensor.grad.detach()) for tensor in found if tensor.grad is not None]


def _norm(gradients: list[agrad.Tensor], norm_type: float) -> agrad.Tensor:
    """Return the total norm of the gradients; 16-bit ones are summed in float32."""
    gradients = [agrad.astype(g, agrad.float32) if g.dtype.name in NARROW else g for g in gradients]
    if norm_type != 2:
        norms = [agrad.linalg.vector_norm(g, ord=norm_type) for g in gradients]
        return agrad.linalg.vector_norm(agrad.stack(norms), ord=norm_type)
    total: Any = None
    for flat in _joined(gradients):
        part = agrad.vecdot(flat, flat)
        part = agrad.real(part) if flat.dtype.kind == "complex floating" else part
        total = part if total is None else total + part
    return agrad.sqrt(total)


def _joined(gradients: list[agrad.Tensor]) -> list[agrad.Tensor]:
    """Return flat gradients; small ones of one dtype are joined to one array."""
    found: list[agrad.Tensor] = []
    small: dict[Any, list[agrad.Tensor]] = {}
    for g in gradients:
        flat = g if len(g.shape) == 1 else agrad.reshape(g, (-1,))
        (small.setdefault(g.dtype, []) if flat.shape[0] <= _FEW else found).append(flat)
    return found + [agrad.concat(some) if len(some) > 1 else some[0] for some in small.values()]


def clip_grad_norm(
    parameters: Iterable[agrad.Tensor] | agrad.Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> agrad.Tensor:
    """Scale the gradients so that their total norm is at most ``max_norm``.

    Parameters without a gradient are ignored; without any, the norm is 0. The gradient Tensors are replaced, not
    modified. Nothing is read back from the device, unless ``error_if_nonfinite`` is True.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Leaf Tensors on one device.
    max_norm : float
        Largest norm, at least 0. ``math.inf`` to only compute the norm.
    norm_type : float
        Order of the norm, greater than 0. ``math.inf`` for the largest absolute value.
    error_if_nonfinite : bool
        True to raise an error for a norm that is infinite or NaN. The gradients are then unchanged. This is not
        supported in a compiled function.

    Returns
    -------
    Tensor
        Norm before clipping, of shape (), on the device of the gradients.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([3.0, 4.0]))
    >>> (0.5 * w * w).sum().backward()
    >>> agrad.optim.clip_grad_norm([w], max_norm=1.0)
    Tensor(5.0, dtype=float64, backend=numpy, device=cpu)
    >>> w.grad.round(4)
    Tensor([0.6, 0.8], dtype=float64, backend=numpy, device=cpu)
    """
    bound = number("clip_grad_norm", "max_norm", max_norm, finite=False)
    order = math.inf if norm_type == "inf" else number("clip_grad_norm", "norm_type", norm_type, finite=False)
    if not order:
        raise ConfigurationError("clip_grad_norm: norm_type must be a number greater than 0 or math.inf, got 0")
    found = _gradients(parameters, "clip_grad_norm")
    if not found:
        return agrad.zeros(())
    with agrad.no_grad():
        norm = _norm([g for _, g in found], order)
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise AnomalyError(
                f"clip_grad_norm: the norm of the gradients must be finite, got {norm.item()}. Find the cause with "
                "agrad.detect_anomaly, or skip the step with optim.LossScale."
            )
        # the same term as in PyTorch: it prevents a division by a norm of 0
        factor = agrad.minimum(bound / (norm + 1e-6), 1.0)
        for tensor, g in found:
            scaled = g * factor
            tensor.grad = scaled if scaled.dtype == g.dtype else agrad.astype(scaled, g.dtype)
    return norm


def clip_grad_value(parameters: Iterable[agrad.Tensor] | agrad.Tensor, clip_value: float) -> None:
    """Clip each element of the gradients to the range from -clip_value to clip_value.

    Real and imaginary parts of complex gradients are clipped independently. The gradient Tensors are replaced, not
    modified.

    Parameters
    ----------
    parameters : iterable of Tensor, or Tensor
        Leaf Tensors.
    clip_value : float
        Largest absolute value, at least 0.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([0.5, -4.0]))
    >>> (0.5 * w * w).sum().backward()
    >>> agrad.optim.clip_grad_value([w], 1.0)
    >>> w.grad
    Tensor([0.5, -1.0], dtype=float64, backend=numpy, device=cpu)
    """
    bound = number("clip_grad_value", "clip_value", clip_value, finite=False)
    with agrad.no_grad():
        for tensor, g in _gradients(parameters, "clip_grad_value"):
            if agrad.isdtype(g.dtype, "complex floating"):
                re, im = (agrad.clip(part(g), -bound, bound) for part in (agrad.real, agrad.imag))
                tensor.grad = agrad.astype(re, g.dtype) + agrad.astype(im, g.dtype) * 1j
            else:
                tensor.grad = agrad.clip(g, -bound, bound)

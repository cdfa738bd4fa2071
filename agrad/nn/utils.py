"""Functions of lists of parameters, with PyTorch's names."""

import math
from collections.abc import Iterable
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DataError, ShapeError

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def _listed(parameters: Any) -> list[agrad.Tensor]:
    return [parameters] if isinstance(parameters, agrad.Tensor) else list(parameters)


def _is_number(value: Any) -> bool:
    """Return True for a number of 0 or more."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def parameters_to_vector(parameters: Iterable[agrad.Tensor]) -> agrad.Tensor:
    """Return all elements of parameters in one vector.

    Differentiable.

    Parameters
    ----------
    parameters : iterable of Tensor
        Tensors of one device, such as ``model.parameters()``.

    Returns
    -------
    Tensor
        Array of shape (n,).

    Raises
    ------
    ConfigurationError
        If there are none.
    """
    flat = [agrad.reshape(tensor, (-1,)) for tensor in _listed(parameters)]
    if not flat:
        raise ConfigurationError("parameters_to_vector was given no parameters")
    return agrad.concat(flat)


def vector_to_parameters(vec: Any, parameters: Iterable[agrad.Tensor]) -> None:
    """Set parameters to the elements of a vector.

    Their order is that of ``parameters_to_vector``. The parameters remain the same leaves, and nothing is recorded.

    Parameters
    ----------
    vec : array
        Array of shape (n,).
    parameters : iterable of Tensor
        Leaf Tensors of n elements together.

    Raises
    ------
    ShapeError
        If the vector has another length. No parameter is changed then.
    """
    found, vec = _listed(parameters), agrad.asarray(vec)
    total = sum(tensor.size for tensor in found)
    if tuple(vec.shape) != (total,):
        raise ShapeError(f"vector_to_parameters takes a vector of {total} elements, not shape {tuple(vec.shape)}")
    with agrad.no_grad():
        values, start = vec.detach(), 0
        for tensor in found:
            part = agrad.reshape(values[start : start + tensor.size], tensor.shape)
            tensor.assign(agrad.astype(part, tensor.dtype, copy=True).raw)
            start += tensor.size


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> agrad.Tensor:
    """Scale the gradients to a norm of all together of at most ``max_norm``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Leaf Tensors of one device.
    max_norm : float
        The largest norm, 0 or more.
    norm_type : float
        The order of the norm; infinity for the largest absolute value.
    error_if_nonfinite : bool
        True for an error if the norm is not finite. It reads the norm from the device.

    Returns
    -------
    Tensor
        The norm before, of shape ().

    Raises
    ------
    ConfigurationError
        If ``max_norm`` or ``norm_type`` is no number of such a kind.
    DataError
        If ``error_if_nonfinite`` and the norm is not finite. No gradient is changed then.
    """
    found = _listed(parameters)
    if error_if_nonfinite or norm_type != 2:
        norm = _norm(found, norm_type)
        if error_if_nonfinite and not math.isfinite(float(norm)):
            raise DataError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}")
    if norm_type == 2:
        return agrad.optim.clip_grad_norm(found, max_norm)
    if not _is_number(max_norm):
        raise ConfigurationError(f"clip_grad_norm_: max_norm is a number of 0 or more, not {max_norm!r}")
    with agrad.no_grad():
        factor = agrad.minimum(max_norm / (norm + 1e-6), 1.0)
        for tensor in found:
            if tensor.grad is not None:
                g = tensor.grad.detach()
                tensor.grad = agrad.astype(g * factor, g.dtype, copy=False)
    return norm


def _norm(parameters: list[agrad.Tensor], order: float) -> agrad.Tensor:
    """Return the norm of all gradients together."""
    if not _is_number(order) or order == 0:
        raise ConfigurationError(f"clip_grad_norm_: norm_type is a number above 0, not {order!r}")
    with agrad.no_grad():
        grads = [tensor.grad.detach() for tensor in parameters if tensor.grad is not None]
        if not grads:
            return agrad.zeros(())
        return agrad.linalg.vector_norm(agrad.stack([agrad.linalg.vector_norm(g, ord=order) for g in grads]), ord=order)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip the elements of the gradients to at most ``clip_value`` in absolute value.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Leaf Tensors.
    clip_value : float
        The largest absolute value, 0 or more.

    Raises
    ------
    ConfigurationError
        If ``clip_value`` is not a number of 0 or more.
    """
    if not _is_number(clip_value):
        raise ConfigurationError(f"clip_grad_value_: clip_value is a number of 0 or more, not {clip_value!r}")
    found = _listed(parameters)
    with agrad.no_grad():
        for tensor in found:
            if tensor.grad is not None:
                tensor.grad = agrad.clip(tensor.grad.detach(), -clip_value, clip_value)

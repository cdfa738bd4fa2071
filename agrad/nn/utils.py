"""Functions of lists of parameters with the PyTorch names."""

from collections.abc import Iterable
from typing import Any

import agrad
from agrad.errors import ConfigurationError, ShapeError

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def _listed(parameters: Any) -> list[agrad.Tensor]:
    return [parameters] if isinstance(parameters, agrad.Tensor) else list(parameters)


def parameters_to_vector(parameters: Iterable[agrad.Tensor]) -> agrad.Tensor:
    """Return all elements of parameters as one vector, differentiably.

    Parameters
    ----------
    parameters : iterable of Tensor
        Tensors on one device, such as ``model.parameters()``.

    Returns
    -------
    Tensor of shape (n,)

    Examples
    --------
    >>> agrad.nn.utils.parameters_to_vector(agrad.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    flat = [agrad.reshape(tensor, (-1,)) for tensor in _listed(parameters)]
    if not flat:
        raise ConfigurationError("parameters_to_vector: parameters must not be empty")
    return agrad.concat(flat)


def vector_to_parameters(vec: Any, parameters: Iterable[agrad.Tensor]) -> None:
    """Set parameters to the elements of a vector.

    The order is the same as in ``parameters_to_vector``. The Tensor objects remain the same, and nothing is recorded.

    Parameters
    ----------
    vec : array of shape (n,)
    parameters : iterable of Tensor
        Leaf Tensors with n elements in total.

    Examples
    --------
    >>> layer = agrad.nn.Linear(2, 1)
    >>> agrad.nn.utils.vector_to_parameters(np.array([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.bias.detach()
    Tensor([3.0], dtype=float32, backend=numpy, device=cpu)
    """
    found, vec = _listed(parameters), agrad.asarray(vec)
    total = sum(tensor.size for tensor in found)
    if tuple(vec.shape) != (total,):
        raise ShapeError(f"vector_to_parameters: vec must have shape ({total},), got {tuple(vec.shape)}")
    with agrad.no_grad():
        values, start = vec.detach(), 0
        for tensor in found:
            part = agrad.reshape(values[start : start + tensor.size], tensor.shape)
            tensor.assign(agrad.astype(part, tensor.dtype, copy=True).raw)
            start += tensor.size


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> agrad.Tensor:
    """Scale the gradients, as ``agrad.optim.clip_grad_norm`` does.

    Parameters
    ----------
    parameters, max_norm, norm_type, error_if_nonfinite
        Same as for ``agrad.optim.clip_grad_norm``.

    Returns
    -------
    Tensor
        Norm before clipping, of shape ().

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([3.0, 4.0]))
    >>> (0.5 * w * w).sum().backward()
    >>> agrad.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    Tensor(5.0, dtype=float64, backend=numpy, device=cpu)
    """
    return agrad.optim.clip_grad_norm(parameters, max_norm, norm_type, error_if_nonfinite)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip the elements of the gradients, as ``agrad.optim.clip_grad_value`` does.

    Parameters
    ----------
    parameters, clip_value
        Same as for ``agrad.optim.clip_grad_value``.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([0.5, -4.0]))
    >>> (0.5 * w * w).sum().backward()
    >>> agrad.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    Tensor([0.5, -1.0], dtype=float64, backend=numpy, device=cpu)
    """
    agrad.optim.clip_grad_value(parameters, clip_value)

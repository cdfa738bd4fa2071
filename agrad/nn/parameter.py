"""Parameters and buffers: leaf Tensors with a role in a module."""

from typing import Any

import agrad
from agrad.errors import NotDifferentiableError

__all__ = ["Buffer", "Parameter"]


class _Role(type):
    """Metaclass of roles, whose instances are Tensors marked with the role.

    The engine treats them as ordinary Tensors.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return issubclass(getattr(value, "_role", object), cls)


def marked(tensor: agrad.Tensor, role: type) -> agrad.Tensor:
    """Return the same leaf Tensor with a role."""
    if not tensor.is_leaf:
        raise NotDifferentiableError(
            f"a {role.__name__} must be a leaf, got the result of {tensor.op.name}. Call {role.__name__}(x)."
        )
    tensor._role = role
    return tensor


def _leaf(data: Any) -> agrad.Tensor:
    """Return a new leaf with the values of ``data``."""
    return agrad.asarray(agrad.asarray(data).detach().raw)


class Parameter(metaclass=_Role):
    """Leaf Tensor that modules train. It remains a parameter when it is frozen.

    ``Parameter(data)`` returns an ordinary ``Tensor``, with no overhead in operations. ``isinstance(x, Parameter)``
    identifies it. Freeze it with ``x.requires_grad = False``.

    Parameters
    ----------
    data : array
        Values of a floating-point dtype. A Tensor is detached.
    requires_grad : bool
        False for a frozen parameter.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> w.grad
    Tensor([2.0, 4.0], dtype=float64, backend=numpy, device=cpu)
    >>> isinstance(w, agrad.nn.Parameter), isinstance(w * w, agrad.nn.Parameter)
    (True, False)
    """

    def __new__(cls, data: Any, requires_grad: bool = True) -> agrad.Tensor:  # type: ignore[misc]
        tensor = _leaf(data)
        tensor.requires_grad = bool(requires_grad)
        return marked(tensor, Parameter)


class Buffer(metaclass=_Role):
    """Leaf Tensor that modules save and move, but do not train.

    ``Buffer(data)`` returns an ordinary ``Tensor``. ``isinstance(x, Buffer)`` identifies it.

    Parameters
    ----------
    data : array
        Values. A Tensor is detached.
    persistent : bool
        False to exclude it from ``state_dict``.

    Examples
    --------
    >>> module = agrad.nn.Module()
    >>> module.steps = agrad.nn.Buffer(np.zeros(2))
    >>> module.state_dict(), module.parameters()
    ({'steps': array([0., 0.])}, [])
    """

    def __new__(cls, data: Any, *, persistent: bool = True) -> agrad.Tensor:  # type: ignore[misc]
        return marked(_leaf(data), Buffer if persistent else Unsaved)


class Unsaved(Buffer):
    """Role of a buffer that ``state_dict`` excludes."""


def is_parameter(tensor: agrad.Tensor) -> bool:
    """Return True for a parameter, by its role or, without one, by ``requires_grad``."""
    role = getattr(tensor, "_role", None)
    return tensor.requires_grad if role is None else issubclass(role, Parameter)

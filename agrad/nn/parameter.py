"""Parameters and buffers: leaf Tensors that say what they are to a module."""

from typing import Any

import agrad
from agrad.errors import NotDifferentiableError

__all__ = ["Buffer", "Parameter"]


class _Role(type):
    """The class of roles, whose instances are Tensors of the role.

    To the engine they are plain ones.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return issubclass(getattr(value, "_role", object), cls)


def marked(tensor: agrad.Tensor, role: type) -> agrad.Tensor:
    """Return the same leaf Tensor with a role."""
    if not tensor.is_leaf:
        raise NotDifferentiableError(
            f"a {role.__name__} is a leaf, and this Tensor is the result of {tensor.op.name}; give {role.__name__}(x)"
        )
    tensor._role = role
    return tensor


def _leaf(data: Any) -> agrad.Tensor:
    """Return a new leaf with the values of ``data``."""
    return agrad.asarray(agrad.asarray(data).detach().raw)


class Parameter(metaclass=_Role):
    """A leaf Tensor that modules train, and that stays a parameter while it is frozen.

    ``Parameter(data)`` is a plain ``Tensor``, so operations on it are as fast as on any, and
    ``isinstance(x, Parameter)`` tells it from others. Freeze it with ``x.requires_grad = False``.

    Parameters
    ----------
    data : array
        The values, of a floating dtype. A Tensor's derivative is left behind.
    requires_grad : bool
        False for a frozen parameter.

    Raises
    ------
    DtypeError
        If ``requires_grad``, and the dtype has no derivative.

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
    """A leaf Tensor that modules save and move, and do not train.

    ``Buffer(data)`` is a plain ``Tensor``; ``isinstance(x, Buffer)`` tells it from others.

    Parameters
    ----------
    data : array
        The values. A Tensor's derivative is left behind.
    persistent : bool
        False to leave it out of ``state_dict``.

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
    """The role of a buffer that ``state_dict`` leaves out."""


def is_parameter(tensor: agrad.Tensor) -> bool:
    """Return True for a parameter, by its role or, without one, by ``requires_grad``."""
    role = getattr(tensor, "_role", None)
    return tensor.requires_grad if role is None else issubclass(role, Parameter)

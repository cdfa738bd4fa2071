"""Call a module with other values of its parameters and buffers."""

from collections.abc import Mapping, Sequence
from typing import Any

import agrad
from agrad.errors import ConfigurationError, OperandError, ShapeError, listed
from agrad.nn.members import walk
from agrad.nn.module import Module

Undo = list[tuple[Any, Any, Any]]
"""Dicts or lists, keys and the old values."""


def functional_call(
    module: Module,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a module with other values of its parameters.

    Use it to express a module as a function of its parameters, for ``agrad.grad``, ``vmap``, ``hessian`` and other
    transforms.

    Parameters
    ----------
    module : Module
        The module. Its replaced parameters are neither read nor changed.
    parameters : mapping of str to array, or sequence of them
        Arrays by the names of ``named_parameters()`` and ``named_buffers()``; Other parameters and buffers keep their
        values. An array replaces a shared parameter everywhere.
    args : tuple or any
        Positional arguments of the call, or the only argument.
    kwargs : mapping of str to any, optional
        Keyword arguments of the call.

    Returns
    -------
    any
        Result of the call.

    Notes
    -----
    It corresponds to ``torch.func.functional_call``. The module contains the other values during the call, so it must
    not be called in two threads at once. In training, batch normalization updates the buffers that are passed as
    Tensors, or the buffers of the module if none are passed.

    Examples
    --------
    >>> layer = agrad.nn.Linear(2, 1)
    >>> def loss(parameters, x):
    ...     return agrad.nn.functional_call(layer, parameters, x).sum()
    >>> agrad.grad(loss)({"weight": np.array([[1.0], [2.0]]), "bias": np.zeros(1)}, np.array([3.0, 4.0]))
    {'weight': array([[3.],
           [4.]]), 'bias': array([1.])}
    """
    if not isinstance(module, Module):
        raise OperandError(f"functional_call: module must be a Module, got {type(module).__name__}")
    new = _values(module, parameters)
    undo: Undo = []
    try:
        for one in module.modules():
            _exchange(vars(one), new, undo, set())
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for space, key, old in undo:
            space[key] = old


def _values(module: Module, parameters: Any) -> dict[int, Any]:
    """Return the given values by the ids of the Tensors that they replace."""
    known = {part.name: part.value for part in walk(module, once=False) if isinstance(part.value, agrad.Tensor)}
    new: dict[int, Any] = {}
    for given in parameters if isinstance(parameters, (list, tuple)) else (parameters,):
        if not isinstance(given, Mapping):
            raise OperandError(f"functional_call: parameters must be dicts of arrays, got {type(given).__name__}")
        for name, value in given.items():
            if name not in known:
                raise ConfigurationError(
                    f"functional_call: {type(module).__name__} has no parameter or buffer {name!r}. Its names are: "
                    f"{listed(list(known)) or 'none'}"
                )
            tensor = known[name]
            if not hasattr(value, "shape"):
                raise OperandError(f"functional_call: {name} must be an array, got {type(value).__name__}")
            if tuple(value.shape) != tensor.shape:
                raise ShapeError(f"functional_call: {name} must have shape {tensor.shape}, got {tuple(value.shape)}")
            if new.setdefault(id(tensor), value) is not value:
                raise ConfigurationError(f"functional_call: {name} must be passed once, got two values")
    return new


def _exchange(space: Any, new: dict[int, Any], undo: Undo, seen: set[int]) -> None:
    """Put new values into a pytree, and note the old ones."""
    if id(space) in seen:
        return
    seen.add(id(space))
    for key, value in list(space.items() if isinstance(space, dict) else enumerate(space)):
        put = _renewed(value, new, undo, seen)
        if put is not value:
            undo.append((space, key, value))
            space[key] = put


def _renewed(value: Any, new: dict[int, Any], undo: Undo, seen: set[int]) -> Any:
    """Return the replacement of a value; a tuple that contains new values is rebuilt."""
    if isinstance(value, (list, dict)):
        _exchange(value, new, undo, seen)
    if type(value) is not tuple:
        return new.get(id(value), value)
    made = tuple([_renewed(member, new, undo, seen) for member in value])
    return value if all(a is b for a, b in zip(made, value, strict=True)) else made

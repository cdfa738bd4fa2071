"""A module called with other values of its parameters and buffers."""

from collections.abc import Mapping, Sequence
from typing import Any

import agrad
from agrad.errors import ConfigurationError, OperandError, ShapeError, listed
from agrad.nn.module import Module
from agrad.nn.parts import walk

Undo = list[tuple[Any, Any, Any]]
"""Containers, keys and the values that they had."""


def functional_call(
    module: Module,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Return the result of a module's call with other values of its parameters.

    It makes a module a function of its parameters, for ``agrad.grad``, ``vmap``, ``hessian`` and all other transforms.

    Parameters
    ----------
    module : Module
        The module. Parameters for which values are given are neither read nor changed.
    parameters : mapping of str to array, or sequence of them
        Arrays by the names of ``named_parameters()`` and ``named_buffers()``; parameters and buffers that are not named
        keep their values. An array stands for a parameter in all places where the module has it.
    args : tuple or any
        The positional arguments of the call, or the only one.
    kwargs : mapping of str to any, optional
        The arguments by name.

    Returns
    -------
    any
        The result of the call.

    Raises
    ------
    OperandError
        If ``module`` is no Module, or ``parameters`` no mapping of arrays.
    ConfigurationError
        If the module has nothing of a name, or one parameter gets two values.
    ShapeError
        If an array has another shape than the parameter.

    Notes
    -----
    As ``torch.func.functional_call``. During the call the module holds the other values, so two threads may not call
    one module in this way at once. Running values of batch normalization in training are written to the buffers that
    are given as Tensors, and where none are given to the module's own.

    Examples
    --------
    >>> layer = agrad.nn.Linear(2, 1)
    >>> def loss(parameters, x):
    ...     return agrad.nn.functional_call(layer, parameters, x).sum()
    >>> parameters = {"weight": np.array([[1.0], [2.0]]), "bias": np.zeros(1)}
    >>> agrad.grad(loss)(parameters, np.array([3.0, 4.0]))
    {'weight': array([[3.],
           [4.]]), 'bias': array([1.])}
    """
    if not isinstance(module, Module):
        raise OperandError(f"functional_call takes a Module, not a {type(module).__name__}")
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
    """Return the values that are given, by the ids of the Tensors that they stand for."""
    known = {part.name: part.value for part in walk(module, once=False) if isinstance(part.value, agrad.Tensor)}
    new: dict[int, Any] = {}
    for given in parameters if isinstance(parameters, (list, tuple)) else (parameters,):
        if not isinstance(given, Mapping):
            raise OperandError(f"functional_call takes arrays in a dict by name, not a {type(given).__name__}")
        for name, value in given.items():
            if name not in known:
                raise ConfigurationError(
                    f"functional_call: {type(module).__name__} has no parameter or buffer {name!r}; it has "
                    f"{listed(list(known)) or 'none'}"
                )
            tensor = known[name]
            if not hasattr(value, "shape"):
                raise OperandError(f"functional_call: {name} is an array, not a {type(value).__name__}")
            if tuple(value.shape) != tensor.shape:
                raise ShapeError(f"functional_call: {name} has the shape {tensor.shape}, not {tuple(value.shape)}")
            if new.setdefault(id(tensor), value) is not value:
                raise ConfigurationError(f"functional_call: {name} gets two values, in one place of the module each")
    return new


def _exchange(space: Any, new: dict[int, Any], undo: Undo, seen: set[int]) -> None:
    """Put new values into a dict or list and the containers in it, and note the old ones."""
    if id(space) in seen:
        return
    seen.add(id(space))
    for key, value in list(space.items() if isinstance(space, dict) else enumerate(space)):
        put = _renewed(value, new, undo, seen)
        if put is not value:
            undo.append((space, key, value))
            space[key] = put


def _renewed(value: Any, new: dict[int, Any], undo: Undo, seen: set[int]) -> Any:
    """Return what stands for a value: for a tuple one with new values, if it holds any."""
    if isinstance(value, (list, dict)):
        _exchange(value, new, undo, seen)
    if type(value) is not tuple:
        return new.get(id(value), value)
    made = tuple([_renewed(member, new, undo, seen) for member in value])
    return value if all(a is b for a, b in zip(made, value, strict=True)) else made

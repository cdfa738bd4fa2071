"""Conversion of weights between PyTorch and agrad modules."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import agrad
from agrad.errors import DataError, OperandError, listed
from agrad.nn.members import ModuleMember, join
from agrad.nn.module import Module
from agrad.nn.state import IncompatibleKeys, put, saved

__all__ = ["load_torch_state_dict", "torch_state_dict"]


def _turned(part: ModuleMember, array: np.ndarray) -> np.ndarray:
    """Convert an array between the PyTorch and the agrad layout."""
    turned = part.key in part.owner.torch_transposed and array.ndim >= 2
    return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if turned else array


def _counts(module: Module) -> dict[str, tuple[Module, str, int]]:
    """Return the counts that PyTorch modules save, with their modules and names."""
    named = module.named_modules(remove_duplicate=False)
    return {join(name, key): (m, key, n) for name, m in named for key, n in m.torch_counts().items()}


def _check(module: Any) -> None:
    if not isinstance(module, Module):
        raise OperandError(f"module must be an agrad Module, got {type(module).__name__}")


def torch_state_dict(module: Module) -> dict[str, np.ndarray]:
    """Return the state of a module with the PyTorch names and layouts.

    A PyTorch module with the same attributes loads it after ``{name: torch.from_numpy(array) for name, array in
    state.items()}``.

    Parameters
    ----------
    module : Module
        Module whose layers exist in PyTorch.

    Returns
    -------
    dict of str to numpy.ndarray
        Arrays on the host that share no memory with the module. As in PyTorch, a shared parameter is included under
        each of its names.

    Examples
    --------
    >>> sorted(agrad.nn.torch_state_dict(agrad.nn.BatchNorm1d(2)))
    ['bias', 'num_batches_tracked', 'running_mean', 'running_var', 'weight']
    """
    _check(module)
    state = {p.name: np.array(_turned(p, p.value.detach().numpy()), order="C") for p in saved(module, once=False)}
    return {**state, **{name: np.array(n, np.int64) for name, (_, _, n) in _counts(module).items()}}


def load_torch_state_dict(module: Module, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
    """Load the ``state_dict`` of a PyTorch module with the same attributes.

    Values are cast to the dtypes of the module: floating-point to floating-point, and integers if they fit.

    Parameters
    ----------
    module : Module
        Module. Its layers have the same names as in ``torch.nn``.
    state : mapping of str to array
        PyTorch tensors, or arrays of any library, as ``state_dict()``, ``torch.load`` or safetensors return them.
    strict : bool
        False to load only the names that the state and the module share.

    Returns
    -------
    IncompatibleKeys
        Lists ``missing_keys`` and ``unexpected_keys``, which are empty if ``strict``.

    Raises
    ------
    OperandError
        If ``module`` is not a Module, or ``state`` is not a mapping.
    DataError
        If shapes or kinds of dtypes differ, or names if ``strict``. The message lists the differences, and the module
        is unchanged.

    Examples
    --------
    >>> layer = agrad.nn.Linear(2, 1)
    >>> agrad.nn.load_torch_state_dict(layer, {"weight": np.array([[1.0, 2.0]]), "bias": np.zeros(1)})
    IncompatibleKeys(missing_keys=[], unexpected_keys=[])
    >>> layer(np.array([3.0, 4.0], np.float32)).detach()
    Tensor([11.0], dtype=float32, backend=numpy, device=cpu)
    """
    _check(module)
    if not isinstance(state, Mapping):
        raise OperandError(f"load_torch_state_dict: state must be a dict of arrays by name, got {type(state).__name__}")
    parts, counts = saved(module, once=False), _counts(module)
    known = {part.name for part in parts} | counts.keys()
    loaded = {id(part.value) for part in parts if part.name in state}
    missing = [part.name for part in parts if part.name not in state and id(part.value) not in loaded]
    unexpected = [name for name in state if name not in known]
    problems = [f"{name}: missing" for name in missing] if strict else []
    problems += [f"{name}: not expected" for name in unexpected] if strict else []
    found: dict[str, tuple[agrad.Tensor, np.ndarray]] = {}
    first: dict[int, str] = {}
    for part in parts:
        if part.name not in state:
            continue
        array, problem = _fitting(part, state[part.name])
        twin = first.setdefault(id(part.value), part.name)
        if problem:
            problems.append(f"{part.name}: {problem}")
        elif twin != part.name and twin in found and not np.array_equal(array, found[twin][1], equal_nan=True):
            problems.append(f"{part.name}: must have the values of {twin}, which is the same parameter")
        elif twin == part.name:
            found[part.name] = (part.value, array)
    numbers = {name: agrad.asarray(_array(state[name])).numpy() for name in counts if name in state}
    wrong = [name for name, n in numbers.items() if n.shape != () or n.dtype.kind not in "iu" or n < 0]
    problems += [f"{name}: must be an integer of at least 0, got {numbers[name]}" for name in wrong]
    if problems:
        text = listed(problems, 8, "\n  ", 150)
        raise DataError(f"The PyTorch state was not loaded into {type(module).__name__}:\n  {text}")
    put(found.values())
    for name, n in numbers.items():
        owner, key, _ = counts[name]
        if key in owner.host_state():
            owner.load_host_state({**owner.host_state(), key: int(n)})
    return IncompatibleKeys(missing, unexpected)


def _array(value: Any) -> Any:
    """Return a detached array."""
    return getattr(value, "detach", lambda: value)()


def _fitting(part: ModuleMember, value: Any) -> tuple[np.ndarray, str]:
    """Return a value of a state as it is loaded, and a description of any mismatch."""
    tensor = part.value
    try:
        given = agrad.asarray(_array(value))
    except OperandError:
        return np.empty(0), f"must be an array, got {type(value).__name__}"
    shape = _turned(part, np.empty(tensor.shape, bool)).shape
    if given.shape != shape:
        return np.empty(0), f"must have shape {shape}, got {given.shape}"
    if given.dtype.kind != tensor.dtype.kind:
        return np.empty(0), f"must be {tensor.dtype}, got {given.dtype}"
    if given.dtype.name == "bfloat16":
        given = agrad.astype(given, agrad.float32)
    array, name = _turned(part, given.numpy()), tensor.dtype.name
    cast = array if name == "bfloat16" else array.astype(name)
    if not name.startswith(("float", "bfloat", "complex")) and not np.array_equal(cast, array):
        return cast, f"must contain only numbers that {name} can represent"
    return cast, ""

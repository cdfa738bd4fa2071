"""``agrad.save`` and ``agrad.load``: pytrees and modules in safetensors files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

import agrad
from agrad.data.files import StrPath
from agrad.errors import DataError, OperandError, described, listed
from agrad.nn import checkpoint

FORMAT = "agrad.save 1"
RUN = "agrad.train 1"
MODEL = "model."
NOT_WEIGHTS = ("optimizer.", "loss_scale.", "callbacks.", "data.", "early.")
"""Prefixes of the names of arrays that are not weights, in files of ``Trainer`` and ``agrad train``."""
_CONTAINERS: dict[type, str] = {dict: "dict", list: "list", tuple: "tuple"}


def save(path: StrPath, tree: Any, /) -> None:
    """Save a module, an optimizer, or a pytree of these and of arrays, to a file.

    The file is written completely or not at all. Any safetensors reader can read its arrays by name, and loading it
    executes no code. A module is saved as its ``state_dict``.

    Parameters
    ----------
    path : str or path
        Path of the file, usually `*.safetensors`.
    tree : object
        Object with ``state_dict``, Tensor or array of any backend and shape, number, string, None, or a pytree of these
        (dicts with string keys, lists and tuples). Values are saved bit for bit.

    Raises
    ------
    OperandError
        If the pytree contains any other object. The message includes its position.
    DtypeError
        If the format does not support a dtype (strings, Python objects).
    SaveError
        If the file cannot be written. An existing file is then unchanged.
    MissingExtraError
        If the safetensors package is not installed.

    See Also
    --------
    load : Load such a file.
    agrad.train.Checkpoint : Save a whole training run, to resume it.

    Examples
    --------
    >>> import os, tempfile
    >>> net = agrad.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net.safetensors")
    ...     agrad.save(path, {"net": net, "epoch": 3})
    ...     state = agrad.load(path)
    >>> state["epoch"], sorted(state["net"]), state["net"]["weight"].shape
    (3, ['bias', 'weight'], (2, 1))
    """
    arrays: dict[str, np.ndarray] = {}
    structure = _structure(tree, "", arrays)
    checkpoint.save(path, arrays, {"format": FORMAT, "agrad": agrad.__version__, "tree": structure})


def load(path: StrPath, like: Any = None, /) -> Any:
    """Load a file that ``save`` wrote, or the arrays of any safetensors file.

    Parameters
    ----------
    path : str or path
        Path of the file.
    like : object, optional
        Structure to fill: a module, an optimizer, or a pytree, as passed to ``save``. Objects with ``load_state_dict``
        are updated. A module also loads its weights from files of ``Trainer.save``, ``Checkpoint`` and `agrad train`.

    Returns
    -------
    object
        Without ``like``: a pytree with NumPy arrays, and with the ``state_dict`` of each module or optimizer. For a
        file that agrad did not write: the arrays by name. With ``like``: the same structure, in which Tensors and
        arrays have the values of the file and the dtype, backend and device of ``like``.

    Raises
    ------
    DataError
        If the file is missing or damaged, if agrad did not write it and ``like`` is given, or if its content differs
        from ``like`` in structure, names, shapes or dtypes. Nothing is changed in this case.
    MissingExtraError
        If the safetensors package is not installed.

    See Also
    --------
    save : Write such a file.
    agrad.nn.load_torch_state_dict : Load weights that PyTorch saved.

    Examples
    --------
    >>> import os, tempfile
    >>> net, other = agrad.nn.Linear(2, 1), agrad.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net.safetensors")
    ...     agrad.save(path, net)
    ...     _ = agrad.load(path, other)
    >>> bool((net.weight == other.weight).all())
    True
    """
    arrays, metadata = checkpoint.load(path, foreign=True)
    name = repr(str(path))
    saved: Any = arrays
    if metadata.get("format") == FORMAT:
        saved = _value(metadata.get("tree"), arrays, name)
    elif metadata and like is not None:
        saved = _weights(arrays)
    elif like is not None:
        raise DataError(
            f"{name} was not saved by agrad. Load PyTorch weights with agrad.nn.load_torch_state_dict(module, "
            "agrad.load(path)), and weights of module.state_dict() with module.load_state_dict(agrad.load(path))."
        )
    if like is None:
        return saved
    found: list[tuple[Any, Any]] = []
    filled = _filled(like, saved, "", name, found)
    load_all(found, f"{name} does not fit")
    return filled


def _weights(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of the model in a file of ``Trainer`` or of `agrad train`."""
    kept = {key: array for key, array in arrays.items() if not key.startswith(NOT_WEIGHTS)}
    prefixed = all(key.startswith(MODEL) for key in kept)
    return {key.removeprefix(MODEL): array for key, array in kept.items()} if prefixed else kept


def _structure(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a pytree as JSON, and collect its arrays by their positions."""
    value = value.state_dict() if hasattr(value, "state_dict") else value
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        parts = [_structure(v, _join(place, str(k)), arrays) for k, v in enumerate(value)]
        return {_CONTAINERS[type(value)]: parts}
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise OperandError(f"save: keys must be strings, got {described(strange[0])} at {_named(place)}.")
        return {"dict": {key: _structure(v, _join(place, key), arrays) for key, v in value.items()}}
    if not (hasattr(value, "shape") and hasattr(value, "dtype")) and not isinstance(value, complex):
        raise OperandError(
            f"save: {_named(place)} must be an array, a number, a string, None, a dict, list or tuple, or an object "
            f"with state_dict, got {described(value)}."
        )
    plain = type(value) is np.ndarray or isinstance(value, np.generic | complex)
    array = np.asarray(value if plain else agrad.asarray(value).detach().numpy())
    name, kind = place or "array", "array"
    while name in arrays or name == "__metadata__":
        name += "_"
    if array.dtype == np.complex128:  # which safetensors lacks
        array, kind = np.ascontiguousarray(array[..., None]).view(np.float64), "complex128"
    arrays[name] = array
    return {kind: name}


def _value(node: Any, arrays: Mapping[str, np.ndarray], file: str) -> Any:
    """Return the pytree that ``_structure`` described."""
    if not isinstance(node, dict):
        return node
    try:
        ((kind, content),) = node.items()
        if kind == "dict":
            return {key: _value(v, arrays, file) for key, v in content.items()}
        if kind in ("list", "tuple"):
            parts = [_value(v, arrays, file) for v in content]
            return parts if kind == "list" else tuple(parts)
        if kind == "complex128":
            return arrays[content].view(np.complex128)[..., 0]
        if kind == "array":
            return arrays[content]
    except (AttributeError, IndexError, LookupError, TypeError, ValueError):
        pass
    raise DataError(f"{file}: the description of the pytree must come from agrad.save, got {str(node)[:60]}")


def _filled(like: Any, saved: Any, place: str, file: str, found: list[tuple[Any, Any]]) -> Any:
    """Return ``like`` with the values of a file, and note the objects to load, with their states."""

    def refuse(expected: str) -> NoReturn:
        found = described(saved)
        if isinstance(saved, Mapping):
            found = f"a dict with the keys {listed(sorted(saved))}"
        elif isinstance(saved, list | tuple):
            found = f"a {type(saved).__name__} of length {len(saved)}"
        raise DataError(f"{file}: {_named(place)} must be {expected}, got {found}.")

    if hasattr(like, "load_state_dict"):
        if not isinstance(saved, Mapping):
            refuse(f"the state of {type(like).__name__}")
        found.append((like, saved))
        return like
    if isinstance(like, Mapping):
        if not isinstance(saved, Mapping) or set(saved) != set(like):
            refuse(f"a dict with the keys {listed(sorted(map(str, like)))}")
        return {key: _filled(v, saved[key], _join(place, key), file, found) for key, v in like.items()}
    if isinstance(like, list | tuple):
        if not isinstance(saved, list | tuple) or len(saved) != len(like):
            refuse(f"a {type(like).__name__} of length {len(like)}")
        parts = [_filled(v, saved[k], _join(place, str(k)), file, found) for k, v in enumerate(like)]
        make: Callable[..., Any] = getattr(type(like), "_make", type(like))
        return make(parts)
    if hasattr(like, "shape") and hasattr(like, "dtype"):
        old = np.asarray(like if isinstance(like, np.ndarray) else agrad.asarray(like).detach().numpy())
        if not isinstance(saved, np.ndarray) or (saved.shape, saved.dtype) != (old.shape, old.dtype):
            refuse(f"an array of shape {old.shape} and dtype {old.dtype}")
        return _placed(saved, like)
    if isinstance(like, complex) and isinstance(saved, np.ndarray) and (saved.shape, saved.dtype) == ((), complex):
        return complex(saved)
    if isinstance(saved, Mapping | list | tuple | np.ndarray):
        refuse(f"a value like {described(like)}")
    return saved


def _placed(array: np.ndarray, like: Any) -> Any:
    """Return an array as the kind of ``like``, on its device."""
    if isinstance(like, np.ndarray):
        return array
    tensor = agrad.asarray(like)
    settings = {"requires_grad": True} if tensor.requires_grad else {}
    made = agrad.asarray(array, backend=tensor.backend, device=tensor.device, **settings)
    return made if isinstance(like, agrad.Tensor) else made.data


def load_all(states: list[tuple[Any, Any]], what: str) -> None:
    """Load a state into each object, or into none.

    Raise ``DataError`` if a state does not fit its object. The message begins with ``what``.
    """
    before = [(thing, thing.state_dict()) for thing, _ in states]
    try:
        for thing, state in states:
            thing.load_state_dict(state)
    except Exception as error:  # of any kind, from a user's own classes
        for thing, state in before:
            thing.load_state_dict(state)
        raise DataError(f"{what}: {error}") from error


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _named(place: str) -> str:
    return f"the value at {place!r}" if place else "the value"

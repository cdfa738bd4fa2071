"""Saved states of optimizers: arrays on the host by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad.errors import DataError
from agrad.nn.module import check_state, on_device_of
from agrad.optim.checks import number

if TYPE_CHECKING:
    from agrad.optim.optimizer import Optimizer


def _key(optimizer: "Optimizer", k: int, name: str) -> str:
    """Return the name in a saved state of an option of a group."""
    return "lr" if name == "lr" and len(optimizer.parts) == 1 else f"groups.{k}.{name}"


def saved_state(optimizer: "Optimizer", counts: list[int]) -> dict[str, np.ndarray]:
    """Return the state of an optimizer by name; counts: the steps of each parameter."""
    state = {"steps": np.array(optimizer.steps, dtype=np.int64)}
    for k, part in enumerate(optimizer.parts):
        for name, value in zip(part.names, optimizer.numbers[k], strict=True):
            if name != "lr" or part.schedule is None:
                state[_key(optimizer, k, name)] = np.array(value, dtype=np.float64)
    for i, arrays in enumerate(optimizer.arrays):
        if counts[i]:
            state[f"{i}.step"] = np.array(counts[i], dtype=np.int64)
            for slot, raw in zip(optimizer.parts[optimizer.places[i]].slots, arrays, strict=False):
                state[f"{i}.{slot}"] = np.array(agrad.asarray(raw).numpy())
    return state


def checked_state(
    optimizer: "Optimizer", state: Mapping[str, Any]
) -> tuple[int, list[int], list[tuple[Any, ...]], list[tuple[int, str, Any]]]:
    """Return the steps, counts, arrays and options of a saved state.

    Options come with their group and name.

    Raise ``DataError`` if the state does not fit.
    """
    what = type(optimizer).__name__
    given = {name: np.asarray(value) for name, value in state.items()}
    expected: dict[str, tuple[tuple[int, ...], str]] = {}
    places: dict[str, tuple[int, str]] = {}
    for k, part in enumerate(optimizer.parts):
        for name in (*part.names, *part.options):
            key = _key(optimizer, k, name)
            if key in given or (name == "lr" and part.schedule is None):
                expected[key] = ((2,) if name in optimizer.pairs else (), "float64")
                places[key] = (k, name)
    first: dict[int, tuple[Any, ...]] = {}
    for i, tensor in enumerate(optimizer.parameters):
        if any(name.startswith(f"{i}.") for name in given):
            slots = optimizer.parts[optimizer.places[i]].slots
            first[i] = optimizer.initial(tensor.data, slots, optimizer.settings(optimizer.places[i]))
            like = [agrad.asarray(raw) for raw in first[i]]
            expected.update({f"{i}.{s}": (x.shape, x.dtype.name) for s, x in zip(slots, like, strict=True)})
    check_state(f"the state of {what}", given, expected, ["steps", *(f"{i}.step" for i in first)])
    arrays: list[tuple[Any, ...]] = [()] * len(optimizer.parameters)
    counts = [0] * len(optimizer.parameters)
    for i in first:
        tensor, slots = optimizer.parameters[i], optimizer.parts[optimizer.places[i]].slots
        counts[i] = int(given[f"{i}.step"])
        arrays[i] = tuple([on_device_of(tensor, given[f"{i}.{slot}"]) for slot in slots])
    steps = int(given["steps"])
    if not max(counts) <= steps < 2**31:
        raise DataError(
            f"the state of {what}: expected fewer than 2**31 steps and no parameter with more, "
            f"found {steps} and {max(counts)}"
        )
    options = [(k, name, _plain(given[key])) for key, (k, name) in places.items()]
    for k, name, value in options:
        if name == "lr":
            number(what, "lr", value)
        else:
            optimizer.checked({**dict(optimizer.param_groups[k]), name: value})
    return steps, counts, arrays, options


def _plain(array: np.ndarray) -> Any:
    return tuple(array.tolist()) if array.shape else float(array)

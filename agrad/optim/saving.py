"""Saved states of optimizers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad.errors import DataError
from agrad.nn.module import check_state, encoded, on_device_of, without_options
from agrad.optim.checks import number

if TYPE_CHECKING:
    from agrad.optim.optimizer import Optimizer


def _key(optimizer: "Optimizer", k: int, name: str) -> str:
    """Return the name of a group option in a saved state."""
    return "lr" if name == "lr" and len(optimizer.parts) == 1 else f"groups.{k}.{name}"


def is_number(value: Any) -> bool:
    """Return True for an option that is loaded; other options must be equal."""
    return isinstance(value, (float, tuple))


def identity(optimizer: "Optimizer") -> dict[str, Any]:
    """Return what must be equal: class, parameters, options that are not numbers."""
    found: dict[str, Any] = {"class": type(optimizer).__name__, "groups": optimizer.places}
    found["dtypes"] = " ".join([tensor.dtype.name for tensor in optimizer.parameters])
    for i, tensor in enumerate(optimizer.parameters):
        found[f"{i}.shape"] = tensor.shape
    for k, part in enumerate(optimizer.parts):
        names = part.extra.get("param_names") or ()
        found |= {f"{i}.name": name for i, name in zip(optimizer.indices(k), names, strict=False)}
        found |= {f"groups.{k}.{name}": value for name, value in part.options.items() if not is_number(value)}
    return found


def saved_state(optimizer: "Optimizer", counts: list[int]) -> dict[str, np.ndarray]:
    """Return the state of an optimizer by name; ``counts`` has the steps."""
    state = {"steps": np.array(optimizer.steps, dtype=np.int64), **encoded(identity(optimizer))}
    for k, part in enumerate(optimizer.parts):
        for name, value in {**part.options, **dict(zip(part.names, optimizer.numbers[k], strict=True))}.items():
            if is_number(value) and (name != "lr" or part.schedule is None):
                state[_key(optimizer, k, name)] = np.array(value, dtype=np.float64)
    for i, arrays in enumerate(optimizer.arrays):
        if counts[i]:
            state[f"{i}.step"] = np.array(counts[i], dtype=np.int64)
            for slot, raw in zip(optimizer.parts[optimizer.places[i]].slots, arrays, strict=False):
                state[f"{i}.{slot}"] = np.array(agrad.asarray(raw).numpy())
    return state


def checked_state(
    optimizer: "Optimizer", state: Mapping[str, Any]
) -> tuple[int, list[int], list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the steps, counts, arrays and options of a saved state.

    The options are the numeric options of each group. Raise ``DataError`` if the state does not fit.
    """
    what = type(optimizer).__name__
    own = identity(optimizer)
    given = {name: np.asarray(value) for name, value in state.items()}
    if "0.name" not in own:
        given = {name: array for name, array in given.items() if not name.endswith(".name")}
    given = without_options(f"the state of {what}", given, own)
    expected: dict[str, tuple[tuple[int, ...], str]] = {}
    options: list[dict[str, Any]] = []
    slots_of: list[tuple[str, ...]] = []
    for k, part in enumerate(optimizer.parts):
        # a number that an older file lacks had not been changed when it was written
        now = {"lr": optimizer.settings(k)["lr"]} | {n: v for n, v in part.made.items() if is_number(v)}
        for name, value in now.items():
            key = _key(optimizer, k, name)
            if key in given or (name == "lr" and part.schedule is None):
                expected[key] = (np.shape(value), "float64")
                if key in given and (name != "lr" or part.schedule is None):
                    now[name] = _plain(given[key])
        options.append(now)
        slots_of.append(part.slots)
    check_state(f"the state of {what}", {n: x for n, x in given.items() if n in expected}, expected, ())
    for k, now in enumerate(options):
        number(what, "lr", now["lr"])
        slots_of[k] = optimizer.slots_of(optimizer.checked({**optimizer.param_groups[k], **now}))
    first: dict[int, tuple[Any, ...]] = {}
    for i, tensor in enumerate(optimizer.parameters):
        if any(name.startswith(f"{i}.") for name in given):
            slots, now = slots_of[optimizer.places[i]], options[optimizer.places[i]]
            first[i] = optimizer.initial(tensor.data, slots, {**optimizer.settings(optimizer.places[i]), **now})
            like = [agrad.asarray(raw) for raw in first[i]]
            expected.update({f"{i}.{s}": (x.shape, x.dtype.name) for s, x in zip(slots, like, strict=True)})
    check_state(f"the state of {what}", given, expected, ["steps", *(f"{i}.step" for i in first)])
    arrays: list[tuple[Any, ...]] = [()] * len(optimizer.parameters)
    counts = [0] * len(optimizer.parameters)
    for i in first:
        tensor, slots = optimizer.parameters[i], slots_of[optimizer.places[i]]
        counts[i] = int(given[f"{i}.step"])
        arrays[i] = tuple([on_device_of(tensor, given[f"{i}.{slot}"]) for slot in slots])
    steps = int(given["steps"])
    if not max(counts) <= steps < 2**31:
        raise DataError(
            f"the state of {what}: steps must be below 2**31 and at least the steps of each parameter, got {steps} and "
            f"{max(counts)}"
        )
    return steps, counts, arrays, options


def _plain(array: np.ndarray) -> Any:
    return tuple(array.tolist()) if array.shape else float(array)

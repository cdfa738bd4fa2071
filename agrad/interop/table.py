"""Which of NumPy's functions take Tensors: the tables that handlers are filed in, by NumPy's own names."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Handler = Callable[..., Any]

KEYWORD = 1 << 16
"""The position of a parameter that has none."""


class Entry(NamedTuple):
    """What answers one of NumPy's functions. ``out``: the position of its ``out`` parameter, None where it has none."""

    name: str
    handler: Handler
    out: int | None
    parameters: tuple[str, ...]


FUNCTIONS: dict[Any, Entry] = {}
"""Handlers by NumPy's function."""

UFUNCS: dict[np.ufunc, Handler] = {}
"""What computes a ufunc's result from its operands."""

LIKE: dict[Any, Handler] = {}
"""Functions that make arrays, and come to Tensors by ``like=``: what is called with that Tensor and the arguments."""

REFUSED: dict[str, str] = {}
"""Functions that Tensors cannot go through, by name, with what to use instead."""


def find(name: str) -> Any:
    """NumPy's object of a name (``"linalg.solve"``), None where this NumPy has none."""
    place: Any = np
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def _signature(name: str, function: Any) -> tuple[tuple[str, ...], int | None]:
    """The parameters' names, and the position of ``out`` (``KEYWORD`` where it has none, None without it)."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C, in a NumPy that does not tell
        names = {"dot": ("a", "b", "out"), "concatenate": ("arrays", "axis", "out", "dtype", "casting")}.get(name, ())
        return names, names.index("out") if names else None
    names = tuple(p.name for p in parameters)
    if "out" not in names:
        return names, None
    place = names.index("out")
    return names, KEYWORD if parameters[place].kind is inspect.Parameter.KEYWORD_ONLY else place


def implements(*names: str) -> Callable[[Handler], Handler]:
    """File a handler for NumPy's functions of these names; those that this NumPy does not have are left out.

    A handler takes what NumPy's function takes, by the same names, but for ``out``, which is seen to for all alike.
    """

    def file(handler: Handler) -> Handler:
        for name in names:
            function = find(name)
            if function is not None:
                parameters, out = _signature(name, function)
                FUNCTIONS[function] = Entry(name, handler, out, parameters)
        return handler

    return file


def refuses(*names: str, remedy: str) -> None:
    """File functions that no Tensor goes through, with what to use instead."""
    REFUSED.update(dict.fromkeys(names, remedy))

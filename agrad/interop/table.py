"""Tables of handlers of NumPy functions, and the binding of their arguments.

A handler has parameters with the names of the NumPy function. Their annotations control the conversion of arrays:
``Tensor``, ``Floating``, ``Promoted`` or ``PromotedFloating``. Keyword arguments that it lacks must have the NumPy
defaults, except those for memory or algorithms. ``answer`` writes to ``out``, for all functions.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.foreign import named
from agrad.interop.arguments import arrays_of, convert, deliver, rejects

Handler = Callable[..., Any]


class Entry(NamedTuple):
    """Handler of a NumPy function."""

    name: str
    handler: Handler
    parameters: dict[str, Any] | None
    """NumPy parameters with their defaults; None for a handler with ``*args``."""
    names: frozenset[str]
    """The parameters of the handler."""
    arrays: dict[str, tuple[bool, bool]]
    """The array parameters, with the flags of ``arguments._FORMS``."""


FUNCTIONS: dict[Any, Entry] = {}
"""Handlers by NumPy function."""

UFUNCS: dict[np.ufunc, Handler] = {}
"""Handlers of ufuncs; they accept the operands."""

REFUSED: dict[str, str] = {}
"""Fixes for functions that do not support Tensors, by name."""

_IGNORED = {"subok", "casting", "device", "copy", "kind", "stable", "overwrite_input", "sorted"}
"""Keyword arguments that do not change the values of a result."""

_NO_VALUE = np._NoValue
_MEMORY_ORDERS = ("C", "F", "A", "K")


def find(name: str) -> Any:
    """Return the NumPy object of a name (``"linalg.solve"``), or None."""
    place: Any = np
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def _parameters(name: str, function: Any, taken: tuple[str, ...]) -> dict[str, Any]:
    """Return the NumPy parameters and their defaults.

    Positional-only parameters have the handler's names.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a C function without a signature
        out = {"dot": 2, "concatenate": 2, "concat": 2}.get(name, len(taken))
        return dict.fromkeys((*taken[:out], "out", *taken[out:], *_IGNORED))
    unnamed = sum(p.kind is p.POSITIONAL_ONLY for p in parameters)
    names = (*taken[:unnamed], *(p.name for p in parameters[len(taken[:unnamed]) :]))
    return {name: p.default for name, p in zip(names, parameters, strict=True)}


def implements(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of NumPy functions, by name.

    Names that this version of NumPy lacks are ignored.
    """

    def register(handler: Handler) -> Handler:
        code = handler.__code__
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name in names:
            function = find(name)
            if function is None:
                continue
            parameters = None if code.co_flags & inspect.CO_VARARGS else _parameters(name, function, taken)
            known = parameters or taken if code.co_flags & inspect.CO_VARKEYWORDS else taken
            FUNCTIONS[function] = Entry(name, handler, parameters, frozenset(known) - {"out"}, arrays_of(handler))
        return handler

    return register


def as_written(names: str) -> None:
    """Register functions that NumPy composes of its other functions.

    Their handler is the NumPy implementation, which calls the other functions on Tensors."""
    for name in names.split():
        function = find(name)
        if hasattr(function, "__wrapped__"):
            FUNCTIONS[function] = Entry(name, function.__wrapped__, None, frozenset(), {})


def refuses(*names: str, remedy: str) -> None:
    """Register a fix for functions that do not support Tensors."""
    REFUSED.update(dict.fromkeys(names, remedy))


def answer(entry: Entry, args: Sequence[Any], settings: dict[str, Any], public: str = "") -> Any:
    """Call a handler with NumPy arguments, and write its result to ``out``.

    ``public``: the name for errors of wrong arguments. By default, the name of the NumPy function.
    """
    name, handler, parameters, names, arrays = entry
    public = public or f"numpy.{name}"
    if parameters is not None:
        if len(args) > len(parameters):
            raise TypeError(f"numpy.{name}: there must be at most {len(parameters)} arguments, got {len(args)}")
        settings.update(zip(parameters, args, strict=False))
        args = ()
    out = None
    for key, value in settings.items():
        if key not in names or value is _NO_VALUE:
            out = settings.get("out")
            settings = {key: value for key, value in settings.items() if _is_taken(entry, key, value, public)}
            break
    if arrays:
        convert(arrays, settings)
    result = called_as(public, handler, *args, **settings)
    return result if out is None else deliver(result, out, name)


def called_as(public: str, handler: Handler, /, *args: Any, **settings: Any) -> Any:
    """Call a handler. Errors of wrong arguments have the public name."""
    try:
        return handler(*args, **settings)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:  # raised inside of the handler
            raise
        raise named(error, public) from None


def _is_taken(entry: Entry, name: str, value: Any, public: str) -> bool:
    """Return True if the handler accepts a keyword argument, False if it can be left out.

    Raises ``RefusedFunctionError`` for another argument, ``TypeError`` for one that the NumPy function lacks.
    """
    if value is _NO_VALUE or name == "out":
        return False
    if name in entry.names or entry.parameters is None or "kwargs" in entry.names:  # as pad does
        return True
    if name not in entry.parameters:
        raise named(TypeError(f"{public}() got an unexpected keyword argument {name!r}"), public)
    default = entry.parameters[name]
    if name in _IGNORED or (name == "order" and value in _MEMORY_ORDERS):
        return False
    if value is default or (isinstance(value, type(default)) and value == default):
        return False
    raise rejects(entry.name, f"{name}={value!r} is not supported for Tensors", f"Leave {name} out")

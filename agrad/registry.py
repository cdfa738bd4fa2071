"""Dictionaries by name, in which lower modules find the functions of upper ones.

All are filled at import.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, TypeVar, overload

from agrad.errors import PrimitiveDefinitionError

F = TypeVar("F", bound=Callable[..., Any])

CALLS: dict[str, Callable[..., Any]] = {}
"""Functions that the engine calls and upper modules define, by name."""

PRIMITIVES: dict[str, Any] = {}
"""Every primitive by name."""


class Section(SimpleNamespace):
    """A section of the namespace, whose module is imported at the first lookup.

    ``CALLS["special_function"]`` finds the names that ``agrad.special`` lacks.
    """

    __slots__ = ("_title",)

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def __getattr__(self, name: str) -> Any:
        module = f"agrad.{self._title}"
        if module not in sys.modules and not name.startswith("_"):
            importlib.import_module(module)
            return getattr(self, name)
        find = None if name.startswith("_") or self._title != "special" else CALLS.get("special_function")
        found = None if find is None else find(name)
        if found is None:
            where = f"agrad.scipy.{self._title}" + ("" if self._title == "special" else f" and numpy.{self._title}")
            raise AttributeError(f"agrad.{self._title} has no function {name!r}. Look for it in {where}.")
        return found


namespace: SimpleNamespace = SimpleNamespace(linalg=Section("linalg"), fft=Section("fft"), special=Section("special"))
"""The agrad namespace: the ``xp`` of a rule with a Tensor among its arguments."""


@overload
def public(where: F, /) -> F: ...
@overload
def public(where: str, /) -> Callable[[F], F]: ...
def public(where: Any, /) -> Any:
    """Publish a function in the agrad namespace, or in a section of it.

    Use ``@public`` or ``@public("linalg")``. ``CALLS`` contains functions without a section too.
    """
    if isinstance(where, str):
        section = getattr(namespace, where)
        return lambda function: _file(section, function)
    CALLS[where.__name__] = _file(namespace, where)
    return where


def _file(section: SimpleNamespace, function: F) -> F:
    name = function.__name__
    if name in vars(section):
        raise PrimitiveDefinitionError(f"names of functions must be different, got {name} twice")
    setattr(section, name, function)
    return function


def file_primitive(primitive: Any) -> None:
    """Register a primitive of agrad. Raise an error for a name that is already used."""
    if PRIMITIVES.setdefault(primitive.name, primitive) is not primitive:
        raise PrimitiveDefinitionError(f"names of primitives must be different, got {primitive.name} twice")


def names_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of positional parameters, and of keyword-only ones.

    The code of a plain function is read, because a signature needs ten times as long.
    """
    plain = type(function) is FunctionType and not vars(function)  # without its own signature
    if not plain or function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        parameters = inspect.signature(function).parameters.values()
        only = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY), only
    code = function.__code__
    end = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount : end]


class Kernel(NamedTuple):
    """A faster implementation of one part of a primitive for one backend.

    ``when`` accepts the positional parameters, whose names are ``names``, and returns True if the kernel applies.
    """

    when: Callable[..., bool] | None
    function: Callable[..., Any]
    names: tuple[str, ...]
    settings: tuple[str, ...]
    gain: float | None = None
    """The measured time of the general rule, divided by the time of the kernel (``python -m bench kernels``)."""


KERNELS: dict[tuple[str, str, str], Kernel] = {}
"""Kernels by (backend, primitive, part); ``kernel`` lists the parts."""

_PARTS = re.compile(r"(forward|namespace|(masked )?vjp:.+|forward\+vjp:.+|forward\(\w+=\w+\))")


def kernel(
    backend: str,
    name: str,
    part: str,
    when: Callable[..., bool] | None = None,
    names: tuple[str, ...] | None = None,
    gain: float | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a kernel: a faster implementation of a part of ``name`` on ``backend``.

    The part is one of these:

    - ``"forward"``: the primitive. Parameters: its arrays, then its options.
    - ``"vjp:x"``: the rule. Parameters: names that the rule may use, including ``g``, then options.
    - ``"masked vjp:x"``: the rule of an elementwise operation, which returns 0 instead of infinity or NaN for unused
      elements. The first parameter is ``used``: Booleans, or None if elements with the cotangent 0 are unused.
    - ``"namespace"``: the function of that name in the namespace of the backend.
    - ``"forward+vjp:x"``: both in one, for compiled programs. The guard is called with the rule's operands.
    - ``"forward(g=product)"``: the primitive with the operation of a kind that computes its operand ``g``, for
      compiled programs. The guard is called with the operands of both, in order, and the options of the primitive.

    ``when`` is a guard: it is called with the positional parameters, and the general rule runs if it returns False. The
    guards of parts for compiled programs are called with variables, which have a shape and a dtype. ``names`` are the
    names of the positional parameters, by default from the signature. ``gain`` is required for the kernels of agrad for
    NumPy and CuPy.
    """

    def file(function: Callable[..., Any]) -> Callable[..., Any]:
        if not _PARTS.fullmatch(part):
            raise PrimitiveDefinitionError(
                f"kernel {name!r} on {backend!r}: part must be 'forward', 'vjp:<argument>', 'masked vjp:<argument>', "
                f"'namespace', 'forward+vjp:<argument>' or 'forward(<argument>=<kind>)', got {part!r}"
            )
        positional, settings = names_of(function)
        key = (backend, name, part)
        if key in KERNELS:
            raise PrimitiveDefinitionError(f"kernels must be registered once, got {key} twice")
        KERNELS[key] = Kernel(when, function, names or positional, settings, gain)
        if name in PRIMITIVES:
            PRIMITIVES[name].kernel_filed()
        return function

    return file


def namespace_kernels(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the kernels that replace functions in the namespace of a backend."""
    return {name: k.function for (owner, name, part), k in KERNELS.items() if (owner, part) == (backend, "namespace")}

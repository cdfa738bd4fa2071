"""Dictionaries by name, in which lower modules find the functions of upper ones.

``CALLS`` holds functions that the engine calls and upper modules define, ``KERNELS`` the hand-written code of backends.
``namespace`` is agrad's own array API namespace for derivative rules. All are filled at import.
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
"""Functions by name: public ones, by array API name, and others of upper modules."""

PRIMITIVES: dict[str, Any] = {}
"""Every primitive by name."""


class Section(SimpleNamespace):
    """A section of the namespace.

    Its module is imported when a name is first looked up. ``CALLS["special_word"]`` finds the names that
    ``agrad.special`` lacks.
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
        find = None if name.startswith("_") or self._title != "special" else CALLS.get("special_word")
        found = None if find is None else find(name)
        if found is None:
            where = f"agrad.scipy.{self._title}" + ("" if self._title == "special" else f" and numpy.{self._title}")
            raise AttributeError(f"agrad.{self._title} has no function {name!r}. Look for it in {where}.")
        return found


namespace: SimpleNamespace = SimpleNamespace(linalg=Section("linalg"), fft=Section("fft"), special=Section("special"))
"""agrad's own namespace: the ``xp`` of a rule with a Tensor among its arguments."""


@overload
def public(where: F, /) -> F: ...
@overload
def public(where: str, /) -> Callable[[F], F]: ...
def public(where: Any, /) -> Any:
    """Publish a function in agrad's namespace, or in a section of it.

    Use ``@public`` or ``@public("linalg")``. Without a section it is filed in ``CALLS`` too. Raise
    ``PrimitiveDefinitionError`` for a name that is taken.
    """
    if isinstance(where, str):
        section = getattr(namespace, where)
        return lambda function: _file(section, function)
    CALLS[where.__name__] = _file(namespace, where)
    return where


def _file(section: SimpleNamespace, function: F) -> F:
    name = function.__name__
    if name in vars(section):
        raise PrimitiveDefinitionError(f"two functions are named {name}")
    setattr(section, name, function)
    return function


def file_primitive(primitive: Any) -> None:
    """File one of agrad's own primitives.

    Raise ``PrimitiveDefinitionError`` for a name that is taken.
    """
    if PRIMITIVES.setdefault(primitive.name, primitive) is not primitive:
        raise PrimitiveDefinitionError(f"two primitives are named {primitive.name}")


def names_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of positional parameters, and of keyword-only ones.

    They are read from the code of a plain function: a signature takes ten times as long, and there are a thousand.
    """
    plain = type(function) is FunctionType and not vars(function)  # no signature of its own
    if not plain or function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        parameters = inspect.signature(function).parameters.values()
        only = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY), only
    code = function.__code__
    end = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount : end]


class Kernel(NamedTuple):
    """A faster implementation of one part of a primitive for one backend.

    ``when`` accepts the kernel's positional parameters and returns True if the kernel applies.
    ``names`` are the kernel's positional parameters, taken from the rule's alphabet.
    """

    when: Callable[..., bool] | None
    function: Callable[..., Any]
    names: tuple[str, ...]
    settings: tuple[str, ...]
    gain: float | None = None
    """The cost of the general rule over the kernel's, as ``python -m bench kernels`` measured it."""


KERNELS: dict[tuple[str, str, str], Kernel] = {}
"""Kernels by (backend, primitive, part); ``kernel`` lists the parts."""

_PARTS = re.compile(r"(forward|namespace|vjp:.+|forward\+vjp:.+|forward\(\w+=\w+\))")


def kernel(
    backend: str,
    name: str,
    part: str,
    when: Callable[..., bool] | None = None,
    names: tuple[str, ...] | None = None,
    gain: float | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """File a kernel: a faster implementation of a part of ``name`` on ``backend``.

    The part is one of these:

    - ``"forward"``: the primitive. Parameters: its arrays, then its settings.
    - ``"vjp:x"``: the rule. Parameters: names of the rule's alphabet, including ``g``, then settings.
    - ``"namespace"``: the function of that name in the backend's namespace.
    - ``"forward+vjp:x"``: both in one, for compiled programs. The guard is called with the rule's operands.
    - ``"forward(g=product)"``: the primitive with the operation of a kind that computes its operand ``g``, for
      compiled programs. The guard is called with the operands of both, in order, and the primitive's settings.

    ``when`` is a guard: it is called with the kernel's positional parameters, and the general rule runs if it returns
    False. The guards of parts for compiled programs are called with variables, of which shapes and dtypes are known.
    ``names`` are the names of the positional parameters, by default those of the function's signature. ``gain`` is the
    measured gain, which agrad's own kernels for NumPy and CuPy must state.
    """

    def file(function: Callable[..., Any]) -> Callable[..., Any]:
        if not _PARTS.fullmatch(part):
            raise PrimitiveDefinitionError(
                f"kernel {name!r} on {backend!r}: the part must be 'forward', 'vjp:<argument>', 'namespace', "
                f"'forward+vjp:<argument>' or 'forward(<argument>=<kind>)', got {part!r}"
            )
        positional, settings = names_of(function)
        key = (backend, name, part)
        if key in KERNELS:
            raise PrimitiveDefinitionError(f"kernel {key} is filed twice")
        KERNELS[key] = Kernel(when, function, names or positional, settings, gain)
        if name in PRIMITIVES:
            PRIMITIVES[name].kernel_filed()
        return function

    return file


def namespace_kernels(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the kernels that replace functions of a backend's namespace, by name."""
    return {name: k.function for (owner, name, part), k in KERNELS.items() if (owner, part) == (backend, "namespace")}

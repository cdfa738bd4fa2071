"""Dictionaries by name, in which lower modules find the functions of upper ones.

``CALLS`` holds functions that the engine calls and upper modules define, ``KERNELS`` the hand-written code of backends.
``namespace`` is agrad's own array API namespace for derivative rules. All are filled at import.
"""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, overload

from agrad.errors import PrimitiveDefinitionError

F = TypeVar("F", bound=Callable[..., Any])

CALLS: dict[str, Callable[..., Any]] = {}
"""Functions by name: public ones, by array API name, and others of upper modules."""

PRIMITIVES: dict[str, Any] = {}
"""Every primitive by name."""


class Section(SimpleNamespace):
    """A section of the namespace.

    ``CALLS["special_word"]`` finds the names that ``agrad.special`` lacks.
    """

    __slots__ = ("_title",)

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def __getattr__(self, name: str) -> Any:
        find = None if name.startswith("_") or self._title != "special" else CALLS.get("special_word")
        found = None if find is None else find(name)
        if found is None:
            where = f"agrad.scipy.{self._title}" + ("" if self._title == "special" else f" and numpy.{self._title}")
            raise AttributeError(f"agrad.{self._title} has no function {name!r}. Look for it in {where}.")
        return found


namespace = SimpleNamespace(linalg=Section("linalg"), fft=Section("fft"), special=Section("special"))
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


class Kernel(NamedTuple):
    """Hand-written code for one part of a primitive on one backend.

    ``when`` takes the kernel's positional parameters and returns True if the kernel applies.
    ``names`` are the kernel's positional parameters, taken from the rule's alphabet.
    """

    when: Callable[..., bool] | None
    function: Callable[..., Any]
    names: tuple[str, ...]
    settings: tuple[str, ...]


KERNELS: dict[tuple[str, str, str], Kernel] = {}
"""Kernels by (backend, primitive, part).

A part is ``"forward"``, ``"level"`` or ``"vjp:<argument>[,<argument>]"``.
"""


def kernel(
    backend: str,
    name: str,
    part: str,
    when: Callable[..., bool] | None = None,
    names: tuple[str, ...] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """File a kernel: faster code for a part of the primitive ``name`` on ``backend``.

    ``part`` is ``"forward"`` (parameters: the primitive's arrays, then its settings), ``"level"`` (the same, for the
    evaluations of levels: mapped members, forward mode, nested tapes; operators on a tape never use it), or ``"vjp:x"``
    (parameters: names of a rule's alphabet, including ``g``, then settings).
    ``when`` is a guard: it is called with the kernel's positional parameters, and the generic code runs if it returns
    False. ``names`` are the names of the positional parameters, by default those of the function's signature.
    """

    def file(function: Callable[..., Any]) -> Callable[..., Any]:
        if part not in ("forward", "level") and not part.startswith("vjp:"):
            raise PrimitiveDefinitionError(
                f"kernel {name!r} on {backend!r}: the part is {part!r}; it must be 'forward', 'level' or "
                "'vjp:<argument>'"
            )
        parameters = inspect.signature(function).parameters.values()
        positional = names or tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        settings = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        key = (backend, name, part)
        if key in KERNELS:
            raise PrimitiveDefinitionError(f"kernel {key} is filed twice")
        KERNELS[key] = Kernel(when, function, positional, settings)
        if name in PRIMITIVES:
            PRIMITIVES[name].kernel_filed()
        return function

    return file

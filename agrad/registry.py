"""Dictionaries by name, on the lowest floor, so that upper floors meet without importing each other upward.

``CALLS`` gives a Tensor's operators the operations defined floors above it; ``KERNELS`` gives a primitive
the hand-written code that a backend files under the primitive's name; ``namespace`` is agrad's own array
API namespace as derivative rules see it. All are filled while the package is imported.
"""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from agrad.errors import PrimitiveDefinitionError

CALLS: dict[str, Callable[..., Any]] = {}
"""Public functions by their array API name: what a Tensor's operators and methods call."""

PRIMITIVES: dict[str, Any] = {}
"""Every primitive by name."""


class Section(SimpleNamespace):
    """A section of the namespace in which a floor above may find more names, by ``CALLS["special_word"]``."""

    def __getattr__(self, name: str) -> Any:
        find = None if name.startswith("_") else CALLS.get("special_word")
        found = None if find is None else find(name)
        if found is None:
            raise AttributeError(f"agrad.special has no function {name!r}")
        return found


namespace = SimpleNamespace(linalg=SimpleNamespace(), fft=SimpleNamespace(), special=Section())
"""agrad's own namespace: the ``xp`` of a rule that is handed a Tensor."""


class Kernel(NamedTuple):
    """Hand-written code for one part of a primitive on one backend.

    ``when`` takes the same keywords as the kernel's own parameters and says whether it applies.
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
    backend: str, name: str, part: str, when: Callable[..., bool] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """File a kernel: a faster way to compute what the primitive ``name`` already computes on ``backend``.

    ``part`` is ``"forward"`` (parameters: the primitive's arrays, then its settings), ``"level"`` (the same, for what
    levels evaluate: the members of a map, forward mode, nested tapes; operators on a tape never ask), or ``"vjp:x"``
    (parameters: names of a rule's alphabet, ``g`` among them, then settings).
    ``when`` is a guard: it is called with the kernel's positional parameters, and the generic code runs where it
    returns False.
    """

    def file(function: Callable[..., Any]) -> Callable[..., Any]:
        if part not in ("forward", "level") and not part.startswith("vjp:"):
            raise PrimitiveDefinitionError(
                f"kernel {name!r} on {backend!r}: the part is {part!r}; it must be 'forward', 'level' or "
                "'vjp:<argument>'"
            )
        parameters = inspect.signature(function).parameters.values()
        names = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        settings = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        key = (backend, name, part)
        if key in KERNELS:
            raise PrimitiveDefinitionError(f"kernel {key} is filed twice")
        KERNELS[key] = Kernel(when, function, names, settings)
        if name in PRIMITIVES:
            PRIMITIVES[name].kernel_filed()
        return function

    return file

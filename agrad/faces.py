"""The list of a package's public names."""

from types import ModuleType
from typing import Any


def list_names(scope: dict[str, Any], *more: str) -> None:
    """Set ``__all__`` of a package: the names in its scope, and ``more``.

    Names with an underscore and modules are omitted. ``__all__`` is set indirectly, because type checkers cannot
    evaluate the list.
    """
    names = [name for name, value in scope.items() if name[0] != "_" and not isinstance(value, ModuleType)]
    scope["__all__"] = sorted([*names, *more])

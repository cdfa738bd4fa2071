"""What is filed with another library as soon as that is imported, whether before agrad or after it.

Some libraries are told of a new kind of array by a subclass of a class of theirs. To import them for that would make
``import agrad`` slow, and to ask the user for another import would make code that works on arrays fail on Tensors.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

AWAITED = {"einops._backends": "agrad.interop.einops"}
"""What is imported when another library's module has been."""


class _Usher(MetaPathFinder):
    """Stands first among the finders, and leaves the finding to the others: it only has the last word."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in AWAITED or fullname in _found:
            return None
        _found.add(fullname)  # so that this finder is silent when the others are asked
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            _found.discard(fullname)
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if spec is None or spec.loader is None or execute is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _found.add(fullname)
            _meet(fullname)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_found: set[str] = set()


def _meet(name: str) -> None:
    try:
        importlib.import_module(AWAITED[name])
    except Exception as error:  # what another library has changed is no reason for it not to be imported
        warnings.warn(f"agrad does not know this version of {name.partition('.')[0]}: {error}", stacklevel=2)


def await_libraries() -> None:
    """File with the libraries that are imported already, and see to it that the others are met."""
    for name in AWAITED:
        if name in sys.modules:
            _meet(name)
    sys.meta_path.insert(0, _Usher())


__all__ = ["await_libraries"]

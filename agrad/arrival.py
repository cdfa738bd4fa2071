"""Registration of the einops backend of agrad, in either order of imports.

einops finds a new array type by a subclass of one of its classes. The subclass is defined when einops is imported,
because an import of einops would make ``import agrad`` slow.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

BACKEND = "agrad.interop.einops"


class _EinopsFinder:
    """A module finder that registers the backend when einops is imported."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "einops.einops":
            _register()


def _register() -> None:
    try:
        importlib.import_module(BACKEND)
    except Exception as error:  # a change in einops must not make its import fail
        warnings.warn(f"agrad does not know this version of einops: {error}", stacklevel=2)


def await_einops() -> None:
    """Register the backend with einops now, or when it is imported."""
    if "einops" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _EinopsFinder())


__all__ = ["await_einops"]

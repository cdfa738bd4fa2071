"""Emulate CUDA when CuPy is imported.

This is loaded whenever Python starts, and so imports little.
"""

import importlib.machinery
import sys
from typing import Any

FIRST = ("cupy", "cupy_backends")
"""The packages that look for CUDA's libraries when they are imported."""


class Loader:
    """The loader of a module, and what is done to the module when it is loaded."""

    def __init__(self, loader: Any, after: Any) -> None:
        self.loader, self.after = loader, after

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        self.after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class Finder:
    """Finds the modules of CuPy that are changed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in ("cupy", "cupyx", *FIRST):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        import cuda_on_cpu

        if name in FIRST:
            cuda_on_cpu.begin()
        after = cuda_on_cpu.AFTER.get(name)
        if after is not None:
            spec.loader = Loader(spec.loader, after)  # type: ignore[assignment]
        return spec


if Finder not in sys.meta_path:
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]

"""An import of one module from another text, here and in started processes."""

import importlib.machinery
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType

VARIABLE = "MUTANT"
"""Names a file that holds the module and its text."""


class Loader(importlib.machinery.SourceFileLoader):
    text: str

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    def __init__(self, module: str, text: str) -> None:
        self.module, self.text = module, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(fullname, spec.origin)
            spec.loader.text = self.text
        return spec


def install(file: str) -> None:
    """Import the module from ``file`` from here on."""
    given = json.loads(Path(file).read_text(encoding="utf-8"))
    if given["module"] in sys.modules:
        raise RuntimeError(f"{given['module']} was imported before it was changed")
    sys.meta_path.insert(0, Finder(given["module"], given["text"]))


if VARIABLE in os.environ:
    install(os.environ[VARIABLE])

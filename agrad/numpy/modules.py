"""The modules of ``agrad.numpy``, whose names are created at their first use."""

import importlib
import sys
from types import FunctionType, ModuleType
from typing import Any


def attributes(module: dict[str, Any], part: str, name: str) -> Any:
    """Return the counterpart of a NumPy name, and keep it.

    ``part`` is the module in NumPy: ``""``, ``"linalg"``.
    """
    original = importlib.import_module(f"numpy.{part}".rstrip("."))
    if not hasattr(original, name) or (name.startswith("__") and name not in (*original.__all__, "__all__")):
        raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
    value = getattr(original, name)
    names = importlib.import_module("agrad.numpy.names")  # loads the handlers of NumPy functions
    module[name] = made = names.counterpart(part, name, value)
    if isinstance(made, FunctionType) and made is not value:
        made.__module__, made.__qualname__ = module["__name__"], name  # pickles refer to these
    return made


def submodule(package: str, part: str) -> ModuleType:
    """Return the counterpart of a NumPy module, importable by its name."""
    name = f"{package}.{part}"
    made = ModuleType(name, f"The names of ``numpy.{part}``; see ``agrad.numpy``.")
    names = vars(made)
    names["__getattr__"] = lambda asked: attributes(names, part, asked)
    names["__dir__"] = lambda: [n for n in dir(importlib.import_module(f"numpy.{part}")) if not n.startswith("__")]
    sys.modules[name] = made
    return made

"""The public names of the package."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from standard_names import STANDARD

import agrad

DOCS = Path(__file__).resolve().parents[2] / "docs"
MENTIONED = {
    name
    for page in DOCS.rglob("*.md")
    for pair in re.findall(r"currentmodule:: (\S+)|^from (agrad[\w.]*) import", page.read_text(), re.MULTILINE)
    for name in pair
    if name
}
MODULES = sorted(MENTIONED)
"""The modules that pages of the reference describe or programs in the pages import from."""


def test_the_public_names() -> None:
    names = dir(agrad)
    assert names == sorted(set(names)) == agrad.__all__
    assert not [name for name in names if name.startswith("_")]
    assert {"sum", "linalg", "errors", "nn", "optim", "random", "testing", "einsum"} <= set(names)
    assert not {"importlib", "math", "sys", "Any", "arrival", "engine", "ops", "registry", "annotations"} & set(names)
    assert not [name for name in STANDARD if not name.startswith("_") and name.partition(".")[0] not in names]
    scope: dict[str, Any] = {}
    exec("from agrad import *", scope)
    assert scope.keys() - {"__builtins__"} == set(names)
    assert all(scope[name] is getattr(agrad, name) for name in names if name != "nan")


@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=pytest.mark.needs("sklearn")) if m == "agrad.sklearn" else m for m in MODULES]
)
def test_every_public_module_lists_its_names(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__ and len(set(module.__all__)) == len(module.__all__)
    assert not [word for word in module.__all__ if word.startswith("_") or not hasattr(module, word)]


def test_public_modules_are_found() -> None:
    assert {"agrad", "agrad.errors", "agrad.nn.functional", "agrad.testing", "agrad.train.threads"} <= set(MODULES)

"""Public names: modules list them, the reference has them, and pages name no others."""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from standard_names import STANDARD
from test_docstrings import MODULES

import agrad

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = {page.name: page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md"))}
OWN_SECTION = {"agrad.train.callbacks"}
"""Modules whose names stand under those of the package that they are in."""


@cache
def listed() -> set[str]:
    """Return the full names in the tables of the reference, and those that its text spells out."""
    found = set()
    for text in REFERENCE.values():
        for module, names in re.findall(
            r"currentmodule:: (\S+)\n\n.. autosummary::\n(?: +:.*\n)*\n((?: +\w+\n)+)", text
        ):
            found |= {f"{module}.{name}" for name in names.split()}
        found |= set(re.findall(r"`(agrad\.[\w.]+)`", text))
    return found


def names_of(module: Any, path: str) -> Iterator[str]:
    """Yield the full names that a module makes public, with those of modules in it."""
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        if name.startswith("_") or f"{path}.{name}" in OWN_SECTION:
            continue
        if isinstance(value, ModuleType) and path.startswith("agrad.scipy"):
            yield from names_of(value, f"{path}.{name}")
        elif not isinstance(value, ModuleType):
            yield f"{path}.{name}"


def marked(modules: set[str]) -> list[Any]:
    return [
        pytest.param(m, marks=pytest.mark.needs("sklearn") if m == "agrad.sklearn" else ()) for m in sorted(modules)
    ]


@pytest.mark.parametrize("name", marked({*MODULES} - OWN_SECTION))
def test_the_reference_has_every_public_name(name: str) -> None:
    public = set(names_of(importlib.import_module(name), name))
    assert public
    assert not public - listed()


def test_the_reference_has_no_other_name() -> None:
    assert len(listed()) > 900
    assert not [name for name in sorted(listed()) if not found("agrad", name.removeprefix("agrad"))]


def test_every_section_of_the_reference_is_in_its_index() -> None:
    assert set(re.findall(r"^(\w+)$", REFERENCE["index.md"], flags=re.M)) == {
        name.removesuffix(".md") for name in REFERENCE if name != "index.md"
    }


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


MENTIONED = {
    name
    for page in DOCS.rglob("*.md")
    for pair in re.findall(r"currentmodule:: (\S+)|^from (agrad[\w.]*) import", page.read_text("utf-8"), re.M)
    for name in pair
    if name
}
"""The modules that pages of the reference describe or programs in the pages import from."""


@pytest.mark.parametrize("name", marked({*MODULES, *MENTIONED}))
def test_every_public_module_lists_its_names(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__ and len(set(module.__all__)) == len(module.__all__)
    assert not [word for word in module.__all__ if word.startswith("_") or not hasattr(module, word)]


PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(DOCS.parent.glob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", flags=re.S | re.M)
TRANSLATED = {"autograd": "autograd", "jax": "jax", "pytorch": "torch", "mygrad": "mygrad"}
"""The pages of docs/coming_from by the package whose names they have."""


def names(page: Path, package: str) -> set[str]:
    """Return the dotted names of a package that stand in code font in a page, without the package."""
    spans = re.findall(r"`([^`\n]+)`", FENCED.sub("", page.read_text(encoding="utf-8")))
    return {name for span in spans for name in re.findall(rf"(?<![\w.]){package}((?:\.[A-Za-z_]\w*)+)", span)}


def found(package: str, name: str) -> bool:
    """Return whether a dotted name is an attribute or a module; names in a module that lacks a package count."""
    thing: Any = importlib.import_module(package)
    path = package
    for part in name.strip(".").split("."):
        path += "." + part
        if hasattr(thing, part):
            thing = getattr(thing, part)
            continue
        if not hasattr(thing, "__path__") or importlib.util.find_spec(path) is None:
            return False
        try:
            thing = importlib.import_module(path)
        except ImportError:
            return True
    return True


def test_names_of_agrad_exist() -> None:
    mentioned = {(page.name, "agrad" + name) for page in PAGES for name in names(page, "agrad")}
    assert len(mentioned) > 100
    assert not {(page, name) for page, name in mentioned if not found("agrad", name.removeprefix("agrad"))}


@pytest.mark.parametrize(
    ("page", "package"),
    [pytest.param(page, package, marks=pytest.mark.needs(package)) for page, package in TRANSLATED.items()],
)
def test_names_of_the_other_library_exist(page: str, package: str) -> None:
    mentioned = names(DOCS / "coming_from" / f"{page}.md", package)
    assert len(mentioned) > 15
    assert not {package + name for name in mentioned if not found(package, name)}


def test_a_name_that_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`agrad.grad`, `y = agrad.nn.Lineal(2)`, `agrad/nn`, agrad.none\n```python\nagrad.nothing\n```\n")
    assert names(page, "agrad") == {".grad", ".nn.Lineal"}
    assert found("agrad", ".grad") and not found("agrad", ".nn.Lineal")

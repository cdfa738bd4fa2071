"""The sources of the site: the reference has every public name, and every page has a place."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agrad

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = {page.name: page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md"))}
MODULES = ("agrad", "agrad.data", "agrad.errors", "agrad.nn", "agrad.nn.functional", "agrad.nn.init", "agrad.nn.utils")
MODULES += ("agrad.optim", "agrad.optim.lr_scheduler", "agrad.optim.swa_utils", "agrad.random", "agrad.scipy")
MODULES += ("agrad.plotting", "agrad.sklearn", "agrad.testing", "agrad.train", "agrad.train.metrics", "agrad.tree")
OWN_SECTION = {"agrad.train.callbacks"}
"""Modules whose names stand under those of the package that they are in."""


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


@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=pytest.mark.needs("sklearn")) if m == "agrad.sklearn" else m for m in MODULES]
)
def test_the_reference_has_every_public_name(name: str) -> None:
    public = set(names_of(importlib.import_module(name), name))
    assert public
    assert not public - listed()


def test_the_reference_has_no_other_name() -> None:
    def found(path: str) -> bool:
        value: Any = agrad
        parts = path.split(".")[1:]
        for i, part in enumerate(parts, 1):
            if not hasattr(value, part):
                try:
                    importlib.import_module(".".join(["agrad", *parts[:i]]))
                except ImportError:
                    return False
            value = getattr(value, part)
        return True

    names = {name for name in listed() if not name.startswith("agrad.sklearn")}
    assert len(names) > 900
    assert not [name for name in sorted(names) if not found(name)]


def test_every_section_of_the_reference_is_in_its_index() -> None:
    assert set(re.findall(r"^(\w+)$", REFERENCE["index.md"], flags=re.M)) == {
        name.removesuffix(".md") for name in REFERENCE if name != "index.md"
    }

"""Names that pages in docs have in code font exist, in agrad and in the libraries that users come from."""

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
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

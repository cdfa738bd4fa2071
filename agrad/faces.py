"""The list of a package's public names, and sections that docstrings share."""

import inspect
import itertools
import re
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
_NAMES: Any = re.compile(r".*?(?= : |\n|\Z)")
"""The names that an entry of the section Parameters describes."""


def list_names(scope: dict[str, Any], *more: str) -> None:
    """Set ``__all__`` of a package: the names in its scope, and ``more``.

    Names with an underscore and modules are omitted. ``__all__`` is set indirectly, because type checkers cannot
    evaluate the list.
    """
    names = [name for name, value in scope.items() if name[0] != "_" and not isinstance(value, ModuleType)]
    scope["__all__"] = sorted([*names, *more])


def complete_docstring(thing: T, *sources: Any, otherwise: str = "") -> T:
    """Add shared entries to a docstring of agrad, and return its function or class.

    A parameter that the docstring does not describe gets its entry from the first source that describes it, or the
    text ``otherwise``. A missing section Returns also comes from a source.
    """
    if thing.__doc__ is None or not thing.__module__.startswith("agrad."):  # None under -OO
        return thing
    head, sections = _sections(thing)
    entries: dict[str, str] = {}
    shared: dict[str, str] = {}
    for given in [*(_sections(source)[1] for source in reversed(sources)), sections]:
        shared |= {title: text for title, text in given.items() if title == "Returns"}
        own = _entries(given)
        entries |= own
    names = dict.fromkeys([*_parameters(thing), *own])  # an entry without a parameter remains, and a test fails
    found = itertools.groupby(names, lambda name: entries.get(name, otherwise and f"\n    {otherwise}"))
    rows = [", ".join(some) + entry[len(_NAMES.match(entry)[0]) :] for entry, some in found if entry]
    shared = {"Parameters": "\n".join(rows), **shared}
    sections = {title: text for title, text in (shared | sections | shared).items() if text}
    thing.__doc__ = "\n\n".join([head, *(f"{t}\n{'-' * len(t)}\n{text}" for t, text in sections.items())]) + "\n"
    return thing


def _sections(thing: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring before its sections, and the sections by title."""
    head, *parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", inspect.cleandoc(thing.__doc__ or ""), flags=re.MULTILINE)
    return head.rstrip(), dict(zip(parts[::2], map(str.rstrip, parts[1::2]), strict=True))


def _entries(sections: dict[str, str]) -> dict[str, str]:
    """Return the entries of the section Parameters, by the name of a parameter."""
    found = re.findall(r"^\S.*(?:\n .*)*", sections.get("Parameters", ""), flags=re.MULTILINE)
    return {name: entry for entry in found for name in _NAMES.match(entry)[0].split(", ")}


def _parameters(thing: Any) -> list[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(thing).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in found if p.name != "self"]

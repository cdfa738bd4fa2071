"""The list of a package's public names, and sections that docstrings share."""

import functools
import inspect
import itertools
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


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
    entries: dict[str, str] = {}
    shared: dict[str, str] = {}
    for source in (*reversed(sources), thing):
        head, sections, own = _parsed(source.__doc__)
        shared |= {title: text for title, text in sections.items() if title == "Returns"}
        entries |= own
    names = dict.fromkeys([*_parameters(thing), *own])  # an entry without a parameter remains, and a test fails
    found = itertools.groupby(names, lambda name: entries.get(name, otherwise and f"\n    {otherwise}"))
    rows = [", ".join(some) + entry[len(_names(entry)) :] for entry, some in found if entry]
    shared = {"Parameters": "\n".join(rows), **shared}
    sections = {title: text for title, text in (shared | sections | shared).items() if text}
    thing.__doc__ = "\n\n".join([head, *(f"{t}\n{'-' * len(t)}\n{text}" for t, text in sections.items())]) + "\n"
    return thing


def _names(entry: str) -> str:
    """Return the names that an entry of the section Parameters describes."""
    return entry.partition("\n")[0].partition(" : ")[0]


@functools.cache
def _parsed(text: str | None) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return a docstring before its sections, the sections by title, and the entries of its parameters by name."""
    first, *rest = (text or "").rstrip("\n").split("\n")
    indent = len(rest[-1]) if rest and not rest[-1].strip() else 0  # the last line has only the closing quotes
    lines = [first, *(line[indent:] for line in rest)]
    sections: dict[str, list[str]] = {"": []}
    title = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after.startswith("---"):
            title, sections[line] = line, []
        elif not line.startswith("---"):
            sections[title].append(line)
    head, *parts = ["\n".join(found).strip() for found in sections.values()]
    texts = dict(zip(list(sections)[1:], parts, strict=True))
    entries: list[str] = []
    for line in texts.get("Parameters", "").split("\n"):
        if line.startswith(" "):
            entries[-1] += f"\n{line}"
        elif line:
            entries.append(line)
    return head, texts, {name: entry for entry in entries for name in _names(entry).split(", ")}


def _parameters(thing: Any) -> list[str]:
    """Return the names of parameters, without ``inspect.signature``, which is slower than the rest."""
    of_class = isinstance(thing, type)
    function: Any = inspect.unwrap(thing.__init__ if of_class else thing)
    if hasattr(function, "__signature__"):
        return [name for name in function.__signature__.parameters if name != "self"]
    if not hasattr(function, "__code__"):  # the __init__ of object
        return []
    code, named = function.__code__, function.__code__.co_argcount + function.__code__.co_kwonlyargcount
    return [*code.co_varnames[of_class:named]]

"""Write ``docs/numpy.md``, the results of NumPy functions for Tensors, and the names in ``docs/agrad_numpy.md``."""

import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
from numpy_sampling import SAMPLES
from pages import said

import agrad.interop.numpy  # noqa: F401 - files the handlers
from agrad.interop.table import FUNCTIONS, REFUSED, UFUNCS, find
from agrad.numpy import names as _names

PAGE = Path(__file__).parent.parent / "docs" / "numpy.md"

TABLES = "\n## Functions that support Tensors\n"
NOT_ASKED = said(PAGE.read_text(encoding="utf-8"), "## Other names")
"""NumPy's other names, which do not dispatch on Tensors, with what happens to one: written into the page by hand."""

EXPIRING = {"in1d", "trapz"}
"""Names that NumPy before 2.4 has and warns of; they call ``isin`` and ``trapezoid``."""


def public() -> Iterator[tuple[str, Any]]:
    """Return every public callable of NumPy, ``numpy.linalg`` and ``numpy.fft``."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in dir(module):
            if name.startswith("_") or name in np.__expired_attributes__ or name in EXPIRING:
                continue
            value = getattr(module, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, np.generic)):
                yield prefix + name, value


def verdict(name: str, value: Any) -> tuple[str, str] | None:
    """Return the section of a function on the page and a remark, or None."""
    if name in NOT_ASKED:
        return "not asked", NOT_ASKED[name]
    if value in UFUNCS or value in FUNCTIONS:
        mine = [s for s in SAMPLES if find(s.group) is value]
        if name in REFUSED or not mine:
            return None if name not in READS else ("works", READS[name])
        return "works", "constant" if all(s.constant for s in mine) else "differentiable"
    if name in REFUSED:
        return "refused", REFUSED[name]
    return None


READS = dict.fromkeys(
    ("save", "savetxt", "savez", "savez_compressed"),
    "writes the values of a Tensor that does not require a gradient; call `.detach()` on others",
)


def page() -> str:
    """Return the page: its present text up to the tables, and new tables."""
    sections: dict[str, list[str]] = {"works": [], "refused": [], "not asked": []}
    for name, value in public():
        decided = verdict(name, value)
        assert decided is not None, f"numpy.{name} is not decided"
        sections[decided[0]].append(f"| `{name}` | {decided[1]} |")
    heads = {
        "works": ("Functions that support Tensors", "result"),
        "refused": ("Not supported (`TypeError`)", "alternative"),
        "not asked": ("Other names", "behavior"),
    }
    parts = [PAGE.read_text(encoding="utf-8").partition(TABLES)[0]]
    for key, rows in sections.items():
        title, head = heads[key]
        parts.append(f"\n## {title}\n\n| `numpy.` | {head} |\n|---|---|\n" + "\n".join(rows) + "\n")
    parts.append(
        "\nNumPy scalar types (`float64`, `int8`, ...) are dtypes. They do not accept Tensors that need gradients.\n"
    )
    return "".join(parts)


NAMES_PAGE = PAGE.with_name("agrad_numpy.md")
START, END = "<!-- names -->\n", "<!-- end of names -->\n"
KINDS = {
    "differentiable": "functions with derivatives of every order",
    "constant": "functions whose results are integers, Booleans or steps, which have no derivative",
    "create": "functions that create arrays on the current backend, differentiable with respect to the values",
    "draw": "functions that draw random numbers and move them to the current backend",
    "refused": "functions that raise `TypeError` for Tensors; the message contains the alternative",
    "numpy": "dtypes, classes, constants, options and functions without array results: the NumPy objects",
}


def kind_of(part: str, name: str) -> str:
    """Return what ``agrad.numpy`` does for a public name of a NumPy module, a key of ``KINDS``."""
    original, made = getattr(importlib.import_module(f"numpy.{part}".rstrip(".")), name), getattr(_module(part), name)
    if part == "random":
        return "numpy" if made is original else "draw"
    if part == "polynomial":
        return "numpy" if name == "set_default_printstyle" else "differentiable"
    if name in ("finfo", "iinfo"):
        return "numpy"
    full = f"{part}.{name}".lstrip(".")
    section, remark = verdict(full, original) or ("", "") if callable(original) else ("", "")
    if name in _names.OWN.get(part, {}) and remark != "constant" and not isinstance(made, type):
        return "create"
    return "refused" if section == "refused" else remark if remark in KINDS else "numpy"


def _module(part: str) -> Any:
    return importlib.import_module(f"agrad.numpy.{part}".rstrip("."))


def release() -> str:
    """Return the name of the NumPy release that the page counts."""
    return f"NumPy {np.__version__.rpartition('.')[0]}"


def names_text() -> str:
    """Return the counts and the lists of the names of ``agrad.numpy``, as the page has them."""
    found = {part: {name: kind_of(part, name) for name in sorted(_module(part).__all__)} for part in PARTS}
    count = sum(map(len, found.values()))
    differentiable = sum(kind == "differentiable" for kinds in found.values() for kind in kinds.values())
    text = [f"{release()} has {count} public names in these modules, {differentiable} of them differentiable:", ""]
    text.append(f"| kind | {' | '.join(f'`numpy.{part}`'.replace('.`', '`') for part in PARTS)} |")
    text.append("|---|" + "---:|" * len(PARTS))
    for kind in KINDS:
        counts = [sum(k == kind for k in kinds.values()) for kinds in found.values()]
        text.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    text.append(f"| all public names | {' | '.join(str(len(kinds)) for kinds in found.values())} |")
    for kind, meaning in KINDS.items():
        names = [f"{part}.{n}".lstrip(".") for part, kinds in found.items() for n, k in kinds.items() if k == kind]
        line = f"**{kind}**: {meaning}. " + ("" if kind == "numpy" else ", ".join(f"`{name}`" for name in names))
        text += ["", *textwrap.wrap(line.strip(), 120, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(text) + "\n"


PARTS = ("", "linalg", "fft", "random", "polynomial")


def with_names(text: str) -> str:
    """Return the text of the page of ``agrad.numpy`` with its names written anew."""
    before, rest = text.split(START)
    return before + START + "\n" + names_text() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    NAMES_PAGE.write_text(with_names(NAMES_PAGE.read_text(encoding="utf-8")), encoding="utf-8")

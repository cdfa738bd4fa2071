"""Write ``docs/derivatives.md``: the derivatives of each function, and the tests.

    python tests/derivative_table.py

The counts are of the examples that the tests of ``test_cases.py`` marked with ``shows`` take: what is skipped where an
array library lacks the function is not counted. Columns of backends that are not installed stay as they are.
"""

import argparse
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standard_names import EXTRAS_WITHOUT_DERIVATIVE, STANDARD, WITHOUT_DERIVATIVE
from table import COMPOSITES, ROWS, Case, Row, named

import agrad
from agrad.backends import selected
from agrad.registry import PRIMITIVES

sys.path.append(str(Path(__file__).parent / "ops"))  # where pytest finds it by itself
import test_cases

PAGE = Path(__file__).resolve().parent.parent / "docs" / "derivatives.md"
MODES = ("reverse", "forward", "second")
BACKENDS = ("numpy", "array_api_strict", "torch", "jax", "dask", "cupy")
NEVER_RUN = "cupy"
"""The backend whose tests no machine has run yet: its column says what would run."""
ROWS_BY_ANOTHER_NAME = {"sign": "complex_sign", "x[i]": "getitem", "x[i] = v": "setitem"}
ROWS_BY_ANOTHER_NAME |= dict.fromkeys(("to", "to_device"), "transfer")
OPERATORS = ("x[i]", "x[i] = v")
WITHOUT = {**WITHOUT_DERIVATIVE, **EXTRAS_WITHOUT_DERIVATIVE}

START = "## Functions of the standard\n"


@dataclass(frozen=True)
class Proof:
    """A test that shows derivatives of some modes for some cases on some backends."""

    name: str
    modes: tuple[str, ...]
    cases: tuple[Case, ...]
    backends: tuple[str, ...]


@cache
def proofs() -> tuple[Proof, ...]:
    """Return the tests marked with ``shows`` that nothing skips as a whole."""
    found = []
    for name, test in vars(test_cases).items():
        marks = getattr(test, "pytestmark", [])
        if name.startswith("test_") and hasattr(test, "shows") and not {m.name for m in marks} & _LEFT_OUT:
            mark = next(mark for mark in marks if mark.name == "cases")
            placed = bool({"backend", "place"} & set(inspect.signature(test).parameters))
            backends = [b for b in BACKENDS if b == "numpy" or placed]
            if mark.kwargs["elsewhere"]:
                backends.remove("numpy")
            found.append(Proof(name, test.shows, mark.args[0], tuple(backends)))
    return tuple(found)


_LEFT_OUT = {"skip", "skipif", "xfail"}


def missing(case: Case, backend: str) -> str | None:
    """Return why a backend skips a row's cases, or None if they run."""
    if backend == NEVER_RUN or not getattr(case.example.call or case.row.call, "may_be_missing", False):
        return None
    with agrad.use_backend(backend):
        here = selected()
        args = [here.backend.from_host(a, here.device) if isinstance(a, np.ndarray) else a for a in case.arguments()]
        try:
            case.call(*args)
        except pytest.skip.Exception as skipped:
            return str(skipped)
    return None


@cache
def shown(backend: str) -> tuple[dict[str, dict[str, set[str]]], dict[str, str]]:
    """Return the cases of each row shown in each mode, and why others are missing."""
    rows: dict[str, dict[str, set[str]]] = {}
    reasons: dict[str, str] = {}
    without: dict[str, str | None] = {}
    for proof in proofs():
        for case in proof.cases if backend in proof.backends else ():
            if case.row.primitive not in without:  # a function is there or not: one of its examples says so
                without[case.row.primitive] = missing(case, backend)
            if reason := without[case.row.primitive]:
                reasons[case.row.primitive] = reason
                continue
            for mode in proof.modes:
                rows.setdefault(case.row.primitive, {}).setdefault(mode, set()).add(case.name)
    return rows, reasons


# ---------------------------------------------------------------- the functions


def extras() -> list[str]:
    """Return the public functions beyond the standard that compute with arrays."""
    spaces = {"": agrad, "linalg.": agrad.linalg, "fft.": agrad.fft, "special.": getattr(agrad, "special", None)}
    names = []
    for prefix, space in spaces.items():
        for name in dir(space) if space is not None else ():
            value = getattr(space, name) if not name.startswith("_") and name not in agrad._PACKAGES else None
            own = getattr(value, "__module__", "").startswith("agrad.ops")
            if own and callable(value) and not isinstance(value, type):
                names.append(prefix + name)
    return sorted(set(names) - set(STANDARD))


def rows_of(function: str) -> list[Row]:
    """Return the rows with derivatives that stand for a public function."""
    name = ROWS_BY_ANOTHER_NAME.get(function, function)
    found = [rows[name] for rows in (ROWS, COMPOSITES) if name in rows and not rows[name].constant]
    if not found and function.startswith(("linalg.", "special.")):
        plain = function.partition(".")[2]  # matmul, erf and some more are in both places
        if getattr(agrad, plain, None) is named(agrad, function):
            return rows_of(plain)
    return found


def behind() -> list[str]:
    """Return primitives with a derivative and no public function of their name."""
    seen = {row.primitive for name in (*STANDARD, *extras(), *OPERATORS) for row in rows_of(name)}
    return sorted(name for name in PRIMITIVES if name not in seen and not ROWS[name].constant)


def counts(function: str, backend: str) -> tuple[int, ...]:
    """Return the number of examples that show each mode."""
    rows, _ = shown(backend)
    return tuple(sum(len(rows.get(row.primitive, {}).get(mode, ())) for row in rows_of(function)) for mode in MODES)


def cell(function: str, backend: str) -> str:
    numbers = counts(function, backend)
    text = "/".join(map(str, numbers)) if any(numbers) else "not available"
    return f"({text})" if backend == NEVER_RUN else text


def holes(functions: Iterable[str], backend: str) -> list[str]:
    """Return the functions with neither a derivative in every mode nor a reason."""
    out = []
    for name in functions:
        if name in WITHOUT:
            continue
        lacking = {row.primitive for row in rows_of(name)} & set(shown(backend)[1])
        if not all(counts(name, backend)) and not (lacking and not any(counts(name, backend))):
            out.append(name)
    return out


# ---------------------------------------------------------------- the page

Cells = dict[str, dict[str, str]]


def sections() -> dict[str, list[str]]:
    """Return the functions with a derivative, under their headings."""
    derived = [name for name in STANDARD if name not in WITHOUT_DERIVATIVE]
    top = [name for name in derived if "." not in name]
    return {
        "Functions of the standard": [*top, *OPERATORS],
        "linalg": [name for name in derived if name.startswith("linalg.")],
        "fft": [name for name in derived if name.startswith("fft.")],
        "Additional functions": [name for name in extras() if name not in EXTRAS_WITHOUT_DERIVATIVE],
        "Internal operations": behind(),
    }


def read(text: str) -> tuple[Cells, dict[str, list[str]]]:
    """Return the cells of a page, and the lines on functions that a backend lacks.

    Cells go by backend and function.
    """
    cells: Cells = {backend: {} for backend in BACKENDS}
    lacks: dict[str, list[str]] = {backend: [] for backend in BACKENDS}
    for line in text.splitlines():
        parts = [part.strip().strip("`") for part in line.strip("|").split("|")]
        if line.startswith("| `") and len(parts) == 1 + len(BACKENDS):
            for backend, value in zip(BACKENDS, parts[1:], strict=True):
                cells[backend][parts[0]] = value
        for backend in BACKENDS:
            if line.startswith(f"- {backend}: "):
                lacks[backend].append(line)
    return cells, lacks


def page(fresh: Iterable[str], old: str) -> str:
    """Return the page, with the columns of the backends ``fresh`` made anew.

    The text above the tables and the other columns are those of the old page.
    """
    fresh = set(fresh)
    cells, lacks = read(old)
    for backend in fresh:
        cells[backend] = {name: cell(name, backend) for names in sections().values() for name in names}
        lacks[backend] = [f"- {backend}: {name}: {reason}" for name, reason in sorted(shown(backend)[1].items())]
    lines = []
    for title, names in sections().items():
        lines += [f"## {title}\n", f"| function | {' | '.join(BACKENDS)} |", "|---" * (1 + len(BACKENDS)) + "|"]
        lines += [f"| `{name}` | {' | '.join(cells[b].get(name, '?') for b in BACKENDS)} |" for name in names]
        lines.append("")
    lines += [
        "## Not available\n",
        "Functions that an array library lacks, with the error message. Their tests are skipped.\n",
    ]
    lines += [line for backend in BACKENDS for line in lacks[backend]] or ["None."]
    lines += [
        "\n## Without a derivative\n",
        "Integers and Booleans have no derivative.\n",
        "| function | reason |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(WITHOUT.items())]
    return old.partition(START)[0] + "\n".join(lines) + "\n"


def installed() -> list[str]:
    """Return the backends whose library is here, and the one that is never run."""
    return [name for name in BACKENDS if name == NEVER_RUN or importlib.util.find_spec(name)]


def main(arguments: list[str] | None = None, write: Callable[[str], Any] = PAGE.write_text) -> int:
    """Run the command, and return the exit status."""
    parser = argparse.ArgumentParser(description="Write docs/derivatives.md from the tests.")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="these only (default: the installed)")
    options = parser.parse_args(arguments)
    backends = options.backend or installed()
    write(page(backends, PAGE.read_text(encoding="utf-8")))
    found = {name for backend in backends for names in sections().values() for name in holes(names, backend)}
    print(*[f"hole: {name}" for name in sorted(found)], f"{len(found)} holes", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""Count the cases of the table whose derivatives are NumPy's on libraries that have no adapter, or a thin one.

    python tests/generic_counts.py mparray dpnp ...          # the counts, and what fails
    python tests/generic_counts.py --write mparray dpnp ...  # writes their rows into docs/backends.md
    python tests/generic_counts.py --few 8 mparray dpnp ...  # one row in eight; a library that does not run is named

Of each row with a derivative it takes the first two examples off kinks, in reverse mode, forward mode and second order
(forward over reverse). A row counts if both agree with NumPy. Rows of special functions are left out: they are formulas
of the other functions. ``marray.numpy`` is made by ``marray.masked_namespace(numpy)``. A row that fails by a fault of
the library stands in tests/generic_faults.py; the exit status is 1 if another one fails.
"""

import argparse
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cases  # noqa: F401 - files the rows
import crossing
import numpy as np
import pytest
from checker import assert_close, gradients, outputs, random_like
from generic_faults import FAULTS, KNOWN
from table import ROWS, Case

import agrad
from agrad.backends import backend_of, load
from agrad.errors import BackendUnavailableError, DtypeError, MissingFunctionError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "backends.md"
BEGIN, END = "<!-- begin: python tests/generic_counts.py --write -->", "<!-- end: counts -->"
BEGIN_FAULTS, END_FAULTS = "<!-- begin: tests/generic_faults.py -->", "<!-- end: faults -->"
EXAMPLES = 2
SINGLE = ("mlx",)
"""Libraries counted in float32, which GPUs of Apple have no wider numbers than."""
MODES = ("reverse", "forward", "second")


def chosen(library: str, few: int = 1) -> Iterator[tuple[str, list[Case]]]:
    """Yield the rows, one in ``few``, others for each library, and the cases taken of each."""
    for name, row in ROWS.items():
        found = [Case(row, e) for e in row.examples if not (row.constant or e.kink or e.implicit)]
        found = [case for case in found if not case.is_empty][:EXAMPLES]
        if found and not name.startswith("special.") and crossing.turn(f"{library} {name}", 0, few) == 0:
            yield name, found


def reverse(case: Case, f: Any, xs: list[Any]) -> list[Any]:
    return gradients(f, xs, random_like(outputs(f(*xs)), case.rng()))


def forward(case: Case, f: Any, xs: list[Any]) -> list[Any]:
    return list(outputs(agrad.jvp(f, tuple(xs), tuple(random_like(xs, case.rng())))[1]))


def second(case: Case, f: Any, xs: list[Any]) -> list[Any]:
    weights, vs = random_like(outputs(f(*xs)), case.rng()), random_like(xs, case.rng())

    def slope(*at: Any) -> Any:
        ys = outputs(f(*at))
        total = sum(
            agrad.sum(agrad.real(y * w * (1 + y)) if is_complex(y) else y * w * (1 + y))
            for y, w in zip(ys, weights, strict=True)
        )
        return agrad.sum(total)

    every = tuple(range(len(xs)))
    return list(agrad.jvp(agrad.grad(slope, argnums=every), tuple(xs), tuple(vs))[1])


def is_complex(y: Any) -> bool:
    return agrad.isdtype(y.dtype, "complex floating")


WAYS: dict[str, Callable[..., list[Any]]] = {"reverse": reverse, "forward": forward, "second": second}


def attempt(name: str, case: Case, mode: str, place: Callable[[np.ndarray], Any]) -> str:
    """Return what happens: nothing, the error of a function that is not there, or a fault."""
    try:
        found = WAYS[mode](case, *case.problem(place, name in SINGLE))
        for got, want in zip(found, WAYS[mode](case, *case.problem()), strict=True):
            assert_close(got, want, mode, 1e-3 if name in SINGLE else 1e-9)
    except (MissingFunctionError, pytest.skip.Exception) as error:
        return f"lacks: {error}"
    except DtypeError as error:
        if "has no dtype" not in str(error):
            raise
        return f"lacks: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def count(name: str, few: int) -> tuple[Counter[str], dict[str, str]]:
    """Return the rows that pass by mode, and the first failure of each other row."""
    if name.startswith("marray."):  # no module: its arrays bring it
        backend_of(importlib.import_module("marray").masked_namespace(np).asarray([1.0]))
    backend = load(name)
    place = partial(backend.from_host, device=None)
    passed: Counter[str] = Counter()
    faults: dict[str, str] = {}
    with agrad.use_backend(name):
        for row, found in chosen(name, few):
            passed["all"] += 1
            for mode in MODES:
                said = [why for case in found if (why := attempt(name, case, mode, place))]
                passed[mode] += not said
                if said and row not in faults:
                    faults[row] = f"{mode}: {said[0]}"
                    print(f"{row}: {faults[row]}"[:250], flush=True)
    return passed, faults


def main() -> int:
    parser = argparse.ArgumentParser(description="Count cases on libraries of the standard.")
    parser.add_argument("--write", action="store_true", help="write the rows of docs/backends.md")
    parser.add_argument("--few", type=int, default=1, metavar="N", help="one row in N")
    parser.add_argument("names", nargs="+", help="import names of namespaces")
    options = parser.parse_args()
    lines, wrong = {}, []
    for name in options.names:
        try:
            passed, faults = count(name, options.few)
        except BackendUnavailableError as error:
            print(f"{name}: {error}")
            continue
        wrong += [f"{name} {row}" for row, why in faults.items() if "lacks: " not in why and (name, row) not in KNOWN]
        lacking = sum("lacks: " in why for why in faults.values())
        known = sum("lacks: " not in why and (name, row) in KNOWN for row, why in faults.items())
        counts = " / ".join(str(passed[mode]) for mode in MODES)
        lines[name] = (
            f"| {name} {load(name).version} | {counts} of {passed['all']} | {lacking} | {known} "
            f"| {len(faults) - lacking - known} |"
        )
        print(lines[name], flush=True)
    print("".join(f"new: {row}\n" for row in wrong), end="")
    if options.write:
        write(lines)
    return int(bool(wrong))


def write(lines: dict[str, str]) -> None:
    """Write the rows of counts, in place of older ones of the same libraries, and the table of faults."""
    page = PAGE.read_text(encoding="utf-8")
    old = page[page.index(BEGIN) : page.index(END)]
    rows = {line.split()[1]: line for line in old.splitlines() if line.startswith("| ") and " of " in line} | lines
    title = (
        "| library | reverse / forward / second order | the library lacks a function | its own fault | agrad's |\n"
        "|---|---|---:|---:|---:|\n"
    )
    counts = title + "\n".join(rows[n] for n in sorted(rows))
    table = "| library | call | result | rows |\n|---|---|---|---|\n" + "\n".join(
        f"| {f.library} | {f.call} | {f.result} | {f.rows.replace(' ', ', ')} |" for f in FAULTS
    )
    for begin, end, text in ((BEGIN, END, counts), (BEGIN_FAULTS, END_FAULTS, table)):
        page = page[: page.index(begin)] + f"{begin}\n\n{text}\n\n" + page[page.index(end) :]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())

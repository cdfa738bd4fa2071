"""Write the tables of ``docs/scipy.md``: the tested calls of each function of ``agrad.scipy``."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pages import said
from scipy_calls import Call, Calls

PAGE = Path(__file__).parent.parent / "docs" / "scipy.md"
_NAMES = "fft integrate interpolate linalg ndimage optimize signal distance special stats"
MODULES: list[Calls] = [importlib.import_module(f"scipy_{name}_calls").CALLS for name in _NAMES.split()]
CALLS: list[Call] = [call for module in MODULES for call in module]
ORDERS = ("constant", "first", "second")


REFUSED = "## Functions of `jax.scipy` or `autograd.scipy` that are not supported"
MISSING = said(PAGE.read_text(encoding="utf-8"), REFUSED)
"""Names of ``jax.scipy`` and ``autograd.scipy`` that ``agrad.scipy`` lacks, with the reason: written by hand."""


def missing() -> Iterator[str]:
    yield f"\n{REFUSED}\n\n"
    yield "| names | alternative or reason |\n|---|---|\n"
    for reason in dict.fromkeys(MISSING.values()):
        names = sorted((name for name, other in MISSING.items() if other == reason), key=str.lower)
        yield f"| {' '.join(f'`{name}`' for name in names)} | {reason} |\n"


def names_of(module: str) -> list[str]:
    """Return the public names of a module of ``agrad.scipy``."""
    found = importlib.import_module(f"agrad.scipy.{module}")
    return sorted([name for name in found.__all__ if not isinstance(getattr(found, name), ModuleType)], key=str.lower)


def row(name: str, calls: list[Call]) -> str:
    """Return a line of a table, which describes all calls of one function."""
    module = importlib.import_module(f"agrad.scipy.{calls[0].module}")
    methods = {call.label.split()[1] for call in calls if len(call.label.split()) > 1}
    methods = {method for method in methods if callable(getattr(getattr(module, name), method, None))}
    cells = (
        f"`{name}`" + "".join(f" `.{method}`" for method in sorted(methods)),
        ORDERS[max(call.order for call in calls)],
        "yes" if any(call.mapped for call in calls) else "",
        "yes" if any(call.traced for call in calls) else "",
        "yes" if any(x.dtype.kind == "c" for call in calls for x in call.inputs) else "",
        str(len(calls)),
    )
    return f"| {' | '.join(cells)} |\n"


def tables() -> Iterator[str]:
    for calls in MODULES:
        yield f"\n### `agrad.scipy.{calls.module}`\n\n"
        yield "| function | derivatives | vmap | jit | complex | calls |\n|---|---|---|---|---|---|\n"
        for name in names_of(calls.module):
            of_name = [call for call in calls if call.label.split()[0] == name]
            if of_name:
                yield row(name, of_name)
            elif calls.module != "special":
                yield f"| `{name}` | constant | | | | |\n"
        if calls.module == "special":
            yield "\nFor all other functions of the module, see [`agrad.special`](special.md).\n"


def page() -> str:
    """Return the whole page: its present text up to the tables, and new tables."""
    return PAGE.read_text(encoding="utf-8").partition("\n### ")[0] + "".join((*tables(), *missing()))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

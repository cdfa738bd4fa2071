"""Write ``docs/special.md``.

``PYTHONPATH=.:tests python tests/make_special_page.py [backend ...] > docs/special.md``.

Each backend named is measured against ``special_references.json``; ``generic`` is NumPy without SciPy.
"""

import sys
from collections.abc import Iterator

import numpy as np
from special_accuracy import TABLE, quantities

import agrad
from agrad.backends import load
from agrad.registry import PRIMITIVES

HEAD = """# Special functions

`agrad.special` has SciPy's names and SciPy's order of arguments. Every function is a primitive (`softmax`,
`log_softmax` and `logsumexp` are made of primitives); its rules stand beside it in `agrad/ops/special/`. An array
library's own function is used where it has one that is accurate; else a generic form in operations of the array API
standard, evaluated in float64. NumPy's own are SciPy's, loaded at first use (`pip install 'agrad[special]'`); without
SciPy the generic forms serve. Dask evaluates either chunk by chunk. On CuPy the functions of `cupyx.scipy.special`
are used; no figure below is from CuPy, and that part is unrun.

- Real arguments only; complex ones raise `DtypeError`. float32 stays float32. Numbers and integers take the arrays'
  dtype.
- Derivatives go on in every order, by the parameters of `gammainc`, `gammaincc` and `betainc` too (by quadrature: the
  derivative is the integral of the density times a polynomial, over the tail in which nothing cancels). `zeta` is
  differentiable in both.
- No derivative, by decision: the orders `n` of `polygamma` and `jn`, `v` of `iv`. `jn` takes one Python integer as
  its order.
- `zeta` is for x > 1; the generic `polygamma` is NaN for x < 0 and n > 3.
- `xlogy`, `xlog1py`: where x is 0 the function is 0. Where y is at most 0 (or -1) too, it has no derivative, and all
  of them are 0.
- `entr` and `rel_entr` at x = 0 have an infinite derivative by x, and the mixed second one that the formula has; at
  x = y = 0 those of `rel_entr` and `kl_div` are 0 by x.
- `beta`'s mixed second derivative cancels where a or b is small; `betaln`'s does not.

## Where the functions come from, and how accurate they are

Worst error, divided by the value's size (for `j0 j1 jn y0 y1`, by the amplitude sqrt(2 / (pi x)) where it is
greater), over the points of `tests/special_references.json`, which mpmath made; first and second derivatives, all
arguments. Written by `tests/make_special_page.py`.
"""


def _cell(errors: list[float]) -> str:
    return "-" if not errors else f"{max(errors):.0e}".replace("e-0", "e-")


def differentiated(name: str, arrays: tuple[str, ...]) -> list[str]:
    """Return the arguments with references of first derivatives.

    "d1" is the one by the second argument.
    """
    arguments, found = TABLE[name][0]
    skipped = len(arguments) - len(arrays)  # the order of jn is no array
    return [arrays[int(label[1:]) - skipped] for label in found if label != "value" and len(label) == 2]


def rows(backends: list[str]) -> Iterator[str]:
    natives = [b for b in backends if b != "generic"]
    yield (
        "| function | derivative by | own function of | " + " | ".join(f"{b}: value, 1st, 2nd" for b in backends) + " |"
    )
    yield "|---" * (3 + len(backends)) + "|"
    for name in sorted(TABLE):
        made = PRIMITIVES[name if name == "erf" else f"special.{name}"]
        by = ", ".join(differentiated(name, made.arrays))
        own = ", ".join(b for b in natives if load(b).xp.special.find(name) is not None) or "none"
        cells = []
        for backend in backends:
            found: dict[int, list[float]] = {0: [], 1: [], 2: []}
            for label, _, off in quantities(name, backend):
                order = 0 if label == "value" else len(label) - 1
                if order in found:
                    found[order].append(float(np.max(off)))
            cells.append(", ".join(_cell(found[k]) for k in (0, 1, 2)))
        yield f"| `{name}` | {by} | {own} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["numpy", "generic"]
    if "jax" in chosen:
        agrad.set_backend("jax")
    print(HEAD)
    for line in rows(chosen):
        print(line)

"""Write ``docs/special.md``.

``PYTHONPATH=.:tests python tests/make_special_page.py [backend ...] > docs/special.md``.

Each backend named is measured against ``special_references.json``; ``generic`` is NumPy without SciPy. The last section
requires PyTorch and JAX; ``digits`` instead of the backends prints only that section.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import digits
import numpy as np
from special_accuracy import TABLE, quantities

import agrad
from agrad.backends import load
from agrad.registry import PRIMITIVES

HEAD = """# Special functions

`agrad.special` provides special functions with the SciPy names and argument order. Every function is a primitive,
except for `softmax`, `log_softmax` and `logsumexp`, which are composed of primitives. The derivative rules are in
`agrad/ops/special/`.

agrad calls the function of the array library if it has an accurate one. Otherwise it evaluates a generic form in
float64, which consists of operations of the array API standard. On NumPy, it calls SciPy, which is loaded at first use
(`pip install 'agrad[special]'`); without SciPy, it uses the generic forms. Dask evaluates either chunk by chunk. On
CuPy, agrad calls `cupyx.scipy.special`; no figure on this page is from CuPy.

- On NumPy, `erf` and `erfc` of float32 arrays of at least 8,192 elements are rational approximations, which are two to
  three times as fast as SciPy. Their largest errors are 7 and 10 units in the last place. `gelu` uses the same
  approximation.
- Only real arguments are supported: complex arguments raise `DtypeError`. float32 remains float32. Numbers and integers
  get the dtype of the arrays.
- Derivatives of every order are supported, also with respect to the parameters of `gammainc`, `gammaincc` and `betainc`
  and both arguments of `zeta`. For the parameters, agrad integrates the density times a polynomial over the tail in
  which nothing cancels.
- The orders `n` of `polygamma` and `jn`, `v` of `iv`, and the parameters `a`, `b`, `c` of `hyp2f1` are not
  differentiable. The order of `jn` must be a Python integer.
- `hyp2f1(a, b, c, z)` supports z <= 1, and every z for polynomials (a or b a nonpositive integer). For other z above 1
  it returns NaN, for which SciPy returns infinity. Values have at least 9 digits, or 13 decimal places near a zero, and
  are NaN if no formula reaches this accuracy. On 6,000 random points from z = -1e12 to 1 - 1e-15, the largest error
  (relative, or in units of 1e-4 for values below 1e-4) was 2e-12 for parameters from -3 to 3, 2e-11 from -10 to 10, and
  2e-10 from -20 to 20. The shares of NaN were 0, 0.6 % and 5 %. On NumPy, agrad calls SciPy if a and b are from -6 to
  6, c from 0.5 to 6 and z from -1 to 0.9; elsewhere, SciPy can be wrong. The generic form needs about 13 kB per
  element.
- On JAX, `betainc(a, b, x)` is NaN if a + b is greater than 1e6, because the JAX function loses its digits there.
- `zeta` supports x > 1. `lambertw` returns the real branches 0 and -1, and NaN if the solution is complex.
- `xlogy` and `xlog1py` are 0 if x is 0. If y is also at most 0 (or -1), the derivative does not exist, and agrad
  returns 0.
- At x = 0, the derivative of `entr` and `rel_entr` with respect to x is infinite, and the mixed second derivative
  follows the formula. At x = y = 0, the derivatives of `rel_entr` and `kl_div` with respect to x are 0.
- The mixed second derivative of `beta` loses digits if a or b is small; `betaln` is not affected.

## Implementation and accuracy

The table lists the largest error divided by the magnitude of the value, for values and for first and second derivatives
with respect to all arguments. For `j0`, `j1`, `jn`, `y0` and `y1`, the error is divided by the amplitude sqrt(2 / (pi
x)) if that is larger. The references in `tests/special_references.json` were computed with mpmath.
"""


def _cell(errors: list[float]) -> str:
    return "-" if not errors else f"{max(errors):.0e}".replace("e-0", "e-").replace("1e+00", "1")


def differentiated(name: str, arrays: tuple[str, ...]) -> list[str]:
    """Return the arguments with references of first derivatives.

    "d1" is the derivative with respect to the second argument.
    """
    arguments, found = TABLE[name][0]
    skipped = len(arguments) - len(arrays)  # the order of jn is no array
    return [arrays[int(label[1:]) - skipped] for label in found if label != "value" and len(label) == 2]


def rows(backends: list[str]) -> Iterator[str]:
    natives = [b for b in backends if b != "generic"]
    yield (
        "| function | derivative with respect to | native function of | "
        + " | ".join(f"{b}: value, 1st, 2nd" for b in backends)
        + " |"
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


DIGITS = """
## Derivatives over the whole range

First and second derivatives of all activations and all elementwise functions of one argument are compared with mpmath
on NumPy: from 1e-300 to 1e300 in both signs, near 0 and at the ends of domains. The relative error is at most 1e-13,
and 1e-5 in float32, except for the rows below.

The last columns list the largest relative errors in float64 in the range of the row, for agrad on NumPy, PyTorch and
JAX. An error of 1 means that no digit is correct, mostly because the result is 0. The error is inf if the result is NaN
or infinite.
"""


def twice(torch: Any, f: Callable[..., Any], x: np.ndarray, order: int) -> np.ndarray:
    """Return a derivative computed with PyTorch."""
    at = torch.tensor(x, requires_grad=True)
    found = f(at)
    for _ in range(order):
        (found,) = torch.autograd.grad(found.sum(), at, create_graph=True)
    return np.asarray(found.detach())


def others(name: str) -> tuple[Any, Any]:
    """Return the function of PyTorch and of JAX, or None."""
    import jax
    import torch

    f, special = torch.nn.functional, torch.special
    return {
        "atan": (torch.atan, jax.numpy.atan),
        "sigmoid": (torch.sigmoid, jax.nn.sigmoid),
        "tanh": (torch.tanh, jax.numpy.tanh),
        "gelu, tanh": (lambda x: f.gelu(x, approximate="tanh"), lambda x: jax.nn.gelu(x, approximate=True)),
        "nn.functional.mish": (f.mish, jax.nn.mish),
        "nn.functional.softsign": (f.softsign, jax.nn.soft_sign),
        "nn.functional.tanhshrink": (f.tanhshrink, None),
        "special.erfcinv": (None, None),
        "special.y0": (None, None),
        "special.y1": (None, None),
        "special.ndtri": (special.ndtri, jax.scipy.special.ndtri),
        "special.expi": (None, None),
        "special.expit": (special.expit, jax.scipy.special.expit),
    }[name]


def between(ranges: tuple[tuple[float, float], ...]) -> str:
    parts = []
    for low, high in ranges:
        if np.isinf(low) or np.isinf(high):
            parts.append((f"x < {high:g}" if np.isinf(low) else f"x > {low:g}").replace("e+0", "e"))
        else:
            parts.append(f"{low:g} < x < {high:g}")
    return ", ".join(parts)


def digit_rows() -> Iterator[str]:
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    yield "| function | derivative | range | cause | agrad | PyTorch | JAX |"
    yield "|---" * 7 + "|"
    for (name, order), (ranges, cause) in digits.LESS.items():
        x, found = digits.errors(name, "numpy", "float64")
        chosen = digits.known(name, order, x)
        reference = np.asarray(digits.REFERENCES[name])[:, order]
        by_torch, by_jax = others(name)
        errors: list[Any] = [found[order - 1], None, None]
        if by_torch is not None:
            errors[1] = digits.off(twice(torch, by_torch, x, order), reference, np.finfo("float64"))
        if by_jax is not None:
            slope = by_jax
            for _ in range(order):
                slope = jax.grad(slope)
            errors[2] = digits.off(np.asarray(jax.vmap(slope)(x)), reference, np.finfo("float64"))
        cells = ["-" if off is None else _cell([float(off[chosen].max())]) for off in errors]
        yield f"| `{name}` | {order} | {between(ranges)} | {cause} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    np.seterr(all="ignore")
    if sys.argv[1:] == ["digits"]:
        print(DIGITS)
        for line in digit_rows():
            print(line)
        sys.exit()
    chosen = sys.argv[1:] or ["numpy", "generic"]
    if "jax" in chosen:
        agrad.set_backend("jax")
    print(HEAD)
    for line in rows(chosen):
        print(line)
    print(DIGITS)
    for line in digit_rows():
        print(line)

"""Write the tables of ``docs/special.md``: ``PYTHONPATH=.:tests python tests/make_special_page.py [backend ...]``.

Each backend named is measured against ``special_references.json``; ``generic`` is NumPy without SciPy. The last table
requires PyTorch and JAX; ``digits`` instead of the backends writes only that one.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import digits
import numpy as np
from pages import with_table
from special_accuracy import TABLE, quantities

import agrad
from agrad.backends import load
from agrad.registry import PRIMITIVES

PAGE = Path(__file__).parent.parent / "docs" / "special.md"


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
        "special.ndtri": (special.ndtri, jax.scipy.special.ndtri),
        "special.expit": (special.expit, jax.scipy.special.expit),
    }.get(name, (None, None))


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
    chosen = sys.argv[1:] or ["numpy", "generic"]
    if "jax" in chosen:
        agrad.set_backend("jax")
    text = PAGE.read_text(encoding="utf-8")
    if chosen != ["digits"]:
        text = with_table(text, list(rows(chosen)))
    PAGE.write_text(with_table(text, list(digit_rows())), encoding="utf-8")

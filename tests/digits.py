"""The errors of first and second derivatives over the whole range of float64 and float32."""

import inspect
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from table import named

import agrad
from agrad.backends import load, to_host
from agrad.nn.functional import activations
from agrad.registry import PRIMITIVES

REFERENCES: dict[str, list[list[float]]] = json.loads(
    Path(__file__).with_name("digit_references.json").read_text(encoding="utf-8")
)
BOUND = {"float64": 1e-13, "float32": 1e-5}
INF = math.inf
FAR, NEAR = ((-INF, -3.5), (3.5, INF)), ((-0.01, 0.01),)
_ROUNDED = "1 - y of a rounded y"
_ZERO = "a difference that is 0 at 0"
LESS: dict[tuple[str, int], tuple[tuple[tuple[float, float], ...], str]] = {
    ("atan", 2): (((-INF, -1e9), (1e9, INF)), "the square of the first derivative falls below the range"),
    ("sigmoid", 1): (((6.0, INF),), _ROUNDED),
    ("sigmoid", 2): ((*NEAR, (6.0, INF)), f"{_ROUNDED}; {_ZERO}"),
    ("tanh", 1): (FAR, _ROUNDED),
    ("tanh", 2): (FAR, _ROUNDED),
    ("gelu, tanh", 1): (((-INF, -3.5),), "1 + tanh of a rounded tanh"),
    ("gelu, tanh", 2): (FAR, "1 - tanh**2 of a rounded tanh"),
    ("nn.functional.mish", 1): (((-1.3, -1.1),), "it is 0 at -1.19"),
    ("nn.functional.mish", 2): (((3.5, INF),), "1 - tanh**2 of a rounded tanh"),
    ("nn.functional.softsign", 1): (((-INF, -500.0), (500.0, INF)), "1 - abs(y) of a rounded y"),
    ("nn.functional.softsign", 2): (((-INF, -500.0), (500.0, INF)), "1 - abs(y) of a rounded y"),
    ("nn.functional.tanhshrink", 1): (((-0.05, 0.05),), "1 - tanh', which is near 1"),
    ("nn.functional.tanhshrink", 2): (FAR, "1 - tanh**2 of a rounded tanh"),
    ("special.erfcinv", 1): (((0.0, 1e-100),), "exp(y**2) enlarges the rounding of y"),
    ("special.ndtri", 1): (((0.0, 1e-100),), "exp(y**2 / 2) enlarges the rounding of y"),
    ("special.ndtri", 2): (((0.0, 1e-100),), "exp(y**2 / 2) enlarges the rounding of y"),
    ("special.expi", 2): (((80.0, INF),), "a difference of infinities"),
    ("special.expit", 2): (NEAR, _ZERO),
    ("special.y0", 2): (((1000.0, INF),), "SciPy's y0"),
    ("special.y1", 1): (((1000.0, INF),), "SciPy's y1"),
}
"""Derivatives that are not within the bound: between which numbers, and why. ``docs/special.md`` shows them."""
NOT_OF_ONE_ARGUMENT = {"astype", "special.jn", "special.lambertw"}
"""Functions of an array and of a setting that stands for more than a choice."""
VARIANTS = {"gelu, tanh": {"approximate": True}}


def functions() -> dict[str, Callable[[Any], Any]]:
    """Return the elementwise operations of one array that have a derivative and a public name, and activations."""
    found = {}
    for name, operation in PRIMITIVES.items():
        if operation.kind == "elementwise" and len(operation.arrays) == 1 and any(operation.vjps.values()):
            try:
                found[name] = named(agrad, name)
            except AttributeError:  # an operation behind others
                continue
    for name, value in vars(activations).items():
        own = getattr(value, "__module__", "") == activations.__name__ and not name.startswith("_")
        if own and not hasattr(agrad, name):
            needed = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty]
            if len(needed) == 1:
                found[f"nn.functional.{name}"] = value
    return {name: f for name, f in found.items() if name not in NOT_OF_ONE_ARGUMENT}


def known(name: str, order: int, x: np.ndarray) -> np.ndarray:
    """Return the points at which a derivative is known not to be within the bound."""
    ranges, _ = LESS.get((name, order), ((), ""))
    return np.any([(low <= x) & (x <= high) for low, high in ranges] or np.zeros((1, x.size), bool), axis=0)


def function(name: str) -> Callable[[Any], Any]:
    plain, settings = named(agrad, name.partition(",")[0]), VARIANTS.get(name, {})
    return lambda x: plain(x, **settings)


def slopes(f: Callable[[Any], Any], x: Any, forward: bool) -> Iterator[tuple[Any, ...]]:
    """Yield the first and the second derivative, by reverse mode, and by a forward pass over the one before."""

    def slope(x: Any) -> Any:
        return agrad.grad(lambda x: agrad.sum(f(x)))(x)

    one = agrad.ones_like(agrad.asarray(x)).raw
    for g in (f, slope):
        reverse = agrad.grad(lambda x, g=g: agrad.sum(g(x)))(x)
        yield (reverse, agrad.jvp(g, (x,), (one,))[1]) if forward else (reverse,)


def errors(name: str, backend: str, dtype: str, forward: bool = False) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the points, and the relative errors of both derivatives; with ``forward``, the larger of both modes."""
    rows = np.asarray(REFERENCES[name])
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rows = rows[rows[:, 0].astype(dtype) == rows[:, 0]]
        x = load(backend).from_host(np.ascontiguousarray(rows[:, 0].astype(dtype)), None)
        got = [np.asarray([to_host(way) for way in ways], np.float64) for ways in slopes(function(name), x, forward)]
    return rows[:, 0], [off(found, rows[:, k], info).max(axis=0) for k, found in enumerate(got, 1)]


def off(got: np.ndarray, reference: np.ndarray, info: Any) -> np.ndarray:
    """Return relative errors; below the normal range what is below it is right, and beyond the range infinities are."""
    with np.errstate(all="ignore"):
        reference = np.where(np.abs(reference) > float(info.max), np.sign(reference) * np.inf, reference)
        off = np.abs(got - reference) / np.maximum(np.abs(reference), float(info.tiny))
        tiny = (np.abs(reference) < float(info.tiny)) & (np.abs(got) <= 2 * float(info.tiny))
        # one that lies within the last digits of the greatest number may round to infinity
    return np.where((got == reference) | tiny, 0.0, np.where(np.isnan(off), np.inf, off))

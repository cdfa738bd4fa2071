"""The distance of special functions and derivatives to mpmath's values; ``generic`` is NumPy without SciPy."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import agrad
from agrad.backends import load, to_host
from agrad.backends.special import NUMPY

TABLE: dict[str, list[Any]] = json.loads(Path(__file__).with_name("special_references.json").read_text())
OSCILLATING = {"j0", "j1", "jn", "y0", "y1"}
"""Functions whose error is measured against their amplitude: near a zero no relative accuracy is promised."""
SMALLEST = 1e-290
"""Below it a result may be denormal or 0."""


@contextmanager
def without_scipy() -> Iterator[None]:
    """NumPy as if SciPy were not installed: its generic forms."""
    kept, NUMPY.functions = NUMPY.functions, dict
    try:
        yield
    finally:
        NUMPY.functions = kept


def derivative(name: str, label: str, arrays: list[Any]) -> Any:
    """Return the quantity ``label`` of the table, elementwise."""
    public = getattr(agrad.special, name)

    def f(*at: Any) -> Any:
        return public(*at)

    places = [] if label == "value" else [int(c) for c in label[1:]]
    for place in places:
        f = (lambda inner, i: lambda *at: agrad.grad(lambda *z: agrad.sum(inner(*z)), argnums=i)(*at))(f, place)
    return f(*arrays)


def scale(name: str, args: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the divisor of an error."""
    size = np.maximum(np.abs(reference), SMALLEST)
    if name in OSCILLATING:
        x = np.abs(args[:, -1])
        order = args[:, 0] if name == "jn" else 0.0
        amplitude = np.where(x > order, np.sqrt(2 / (math.pi * x)), 0.0)
        size = np.maximum(size, np.minimum(amplitude, 1.0))
    return size


def quantities(name: str, backend: str, dtype: Any = np.float64) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Return each quantity of a function: label, arguments, and relative errors."""
    rows = TABLE[name]
    whole = backend == "generic"
    home = load("numpy" if whole else backend)
    points = np.asarray([args for args, _ in rows], dtype=np.float64)
    for label in rows[0][1]:
        reference = np.asarray([found[label] for _, found in rows])
        with without_scipy() if whole else nullcontext(), np.errstate(all="ignore"):
            got = value(name, label, points.astype(dtype), home)
        with np.errstate(all="ignore"):
            off = np.where(np.isinf(reference) & (got == reference), 0.0, np.abs(got - reference))
            yield label, points, off / scale(name, points, reference)


def value(name: str, label: str, points: np.ndarray, home: Any) -> np.ndarray:
    if name == "jn":  # one order a call
        out = np.empty(len(points))
        for n in np.unique(points[:, 0]):
            chosen = points[:, 0] == n
            x = home.from_host(np.ascontiguousarray(points[chosen, 1]), None)
            shifted = "value" if label == "value" else label.replace("1", "0")
            out[chosen] = to_host(_of_order(int(n), shifted, x))
        return out
    arrays = [home.from_host(np.ascontiguousarray(column), None) for column in points.T]
    return np.asarray(to_host(derivative(name, label, arrays)), dtype=np.float64)


def _of_order(n: int, label: str, x: Any) -> Any:
    def f(at: Any) -> Any:
        return agrad.special.jn(n, at)

    for _ in range(0 if label == "value" else len(label) - 1):
        f = (lambda inner: lambda at: agrad.grad(lambda z: agrad.sum(inner(z)))(at))(f)
    return f(x)

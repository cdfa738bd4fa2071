"""Comparisons of arrays, and of derivatives with finite differences."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

STEP = 1e-4
NEAR = 1e-6
AGREE = 1e-3


class Wrong(Exception):
    """Two results that have to be equal and are not."""


class Undecided(Exception):
    """A point where the reference cannot decide: a kink, or an unsettled number."""


def host(value: Any) -> np.ndarray:
    """Return an array, a number or a Tensor as a NumPy array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def differ(given: Any, expected: Any, tolerance: float) -> str | None:
    """Return how an array differs from the expected one, or None."""
    given, expected = host(given), np.asarray(expected)
    if given.shape != expected.shape:
        return f"shape {given.shape}, expected {expected.shape}"
    if given.dtype != expected.dtype:
        return f"dtype {given.dtype}, expected {expected.dtype}"
    if not given.size:
        return None
    if given.dtype.kind in "fc":
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
        same = np.isclose(given, expected, rtol=0, atol=tolerance * scale, equal_nan=True)
    else:
        same = given == expected
    return None if same.all() else f"{short(given)}, expected {short(expected)}"


def short(value: np.ndarray) -> str:
    text = np.array2string(np.asarray(value), precision=6, threshold=40).replace("\n", " ")
    return text if len(text) < 400 else text[:400] + " ..."


def same(what: str, given: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Raise ``Wrong`` unless two lists of arrays are equal."""
    if len(given) != len(expected):
        raise Wrong(f"{what}: {len(given)} results, expected {len(expected)}")
    for i, (a, b) in enumerate(zip(given, expected, strict=True)):
        difference = differ(a, b, tolerance)
        if difference is not None:
            raise Wrong(f"{what} {i}: {difference}")


def apart(what: str, results: Sequence[Any], given: Sequence[np.ndarray]) -> None:
    """Raise ``Wrong`` if a result shares memory with another one, or with what was given."""
    arrays = [host(x) for x in results]
    for i, a in enumerate(arrays):
        if a.size and any(np.shares_memory(a, b) for b in [*arrays[:i], *given]):
            raise Wrong(f"{what} {i}: its memory is another array's")


def product(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """Return the real part of the sum of the products of all elements."""
    return float(sum(np.sum(np.real(host(x).astype("complex128") * host(y))) for x, y in zip(xs, ys, strict=True)))


def size_of(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """Return how large the terms of ``product`` are together, at least 1."""
    terms = (np.sum(np.abs(host(x).astype("complex128") * host(y))) for x, y in zip(xs, ys, strict=True))
    return max(1.0, float(sum(terms)))


def slope_is(phi: Callable[[float], float], given: float, scale: float, tolerance: float, what: str) -> None:
    """Raise ``Wrong`` unless a number is the derivative at 0.

    ``Undecided`` if finite differences disagree.
    """
    h = STEP
    estimate = _central(phi, h)
    if abs(given - estimate) <= tolerance * scale:
        return
    finer = [_central(phi, 10 * h), _central(phi, h), _central(phi, h / 10), _sided(phi, h / 10), _sided(phi, -h / 10)]
    spread = max(finer) - min(finer) if np.all(np.isfinite(finer)) else np.inf
    if not spread <= AGREE * max(scale if np.isfinite(scale) else 1.0, abs(estimate)):
        raise Undecided(f"{what}: differences give {', '.join(f'{x:.6g}' for x in finer)}")
    if abs(given - estimate) <= 2 * spread:
        return
    raise Wrong(f"{what}: {given:.10g}, by finite differences {estimate:.10g}")


def _central(phi: Callable[[float], float], h: float) -> float:
    one, two = (phi(h) - phi(-h)) / (2 * h), (phi(2 * h) - phi(-2 * h)) / (4 * h)
    return (4 * one - two) / 3


def _sided(phi: Callable[[float], float], h: float) -> float:
    return (-3 * phi(0.0) + 4 * phi(h) - phi(2 * h)) / (2 * h)

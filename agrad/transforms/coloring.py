"""Colors: groups of columns, or rows, that one product with a matrix finds.

Columns of one color have no row in common. For a symmetric matrix, it suffices that of each element and its mirror
image, one is the only element of its color in its row. Grids are colored by a linear form of the position, which is
optimal for most stencils. Other patterns are colored greedily, starting with the columns with most elements.

A. Gebremedhin, F. Manne and A. Pothen, What color is your Jacobian?, SIAM Review 47 (2005).
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

TRIALS = 150
"""The maximum number of linear forms to try."""

SAMPLE = 512
"""The rows on which a form is tried first."""


class Coloring(NamedTuple):
    """A color for each column, the number of colors, and the positions of elements."""

    colors: np.ndarray
    number: int
    places: np.ndarray
    """For each element its position in the products, of shape (colors, rows)."""


def colored(pattern: Any, shape: Sequence[int] | None, symmetric: bool = False) -> Coloring:
    """Color the columns of a matrix in rows.

    shape: the shape of the array whose elements are the columns, or None if they come from several arrays.
    """
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    least = int(np.diff(pattern.indptr).max(initial=1))
    found = None if shape is None else _by_position(pattern, rows, tuple(shape), least, symmetric)
    if found is not None and (found[1] <= least or not symmetric):
        return Coloring(*found, places_of(pattern, rows, *found, symmetric))  # type: ignore[arg-type]
    tries = [] if found is None else [found]
    tries.append(_greedy(pattern))
    if symmetric:
        tries.append(_stars(pattern))
    best = min(tries, key=lambda c: c[1])
    places = places_of(pattern, rows, *best, symmetric)
    assert places is not None
    return Coloring(*best, places)


def places_of(pattern: Any, rows: np.ndarray, colors: np.ndarray, count: int, symmetric: bool) -> np.ndarray | None:
    """Return the elements' positions in the products, or None if one is not isolated."""
    m, columns = pattern.shape[0], pattern.indices
    keys = colors[columns] * m + rows
    shared = np.bincount(keys, minlength=count * m)
    alone = shared[keys] == 1
    if alone.all():
        return keys
    if not symmetric:
        return None
    mirrored = colors[rows] * m + columns
    return np.where(alone, keys, mirrored) if (alone | (shared[mirrored] == 1)).all() else None


def _by_position(
    pattern: Any, rows: np.ndarray, shape: tuple[int, ...], least: int, symmetric: bool
) -> tuple[np.ndarray, int] | None:
    """Return the colors: a linear form of the position, modulo their number. None if no form is valid."""
    axes = [a for a, n in enumerate(shape) if n > 1]
    if not axes or not pattern.nnz:
        return None
    position = np.unravel_index(np.arange(pattern.shape[1]), shape)
    some = pattern[np.linspace(0, pattern.shape[0] - 1, min(SAMPLE, pattern.shape[0])).astype(int)]
    its_rows = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
    steps = itertools.chain.from_iterable(
        ((p, form) for form in itertools.product(range(p), repeat=len(axes) - 1))
        for p in range(1 if symmetric else least, least + 3)
    )
    for p, form in itertools.islice(steps, TRIALS):
        colors = np.zeros(pattern.shape[1], np.int64)
        for k, a in zip((1, *form), reversed(axes), strict=True):
            colors += k * position[a]
        colors %= p
        if not symmetric and places_of(some, its_rows, colors, p, False) is None:
            continue
        if places_of(pattern, rows, colors, p, symmetric) is not None:
            return colors, p
    return None


def _greedy(pattern: Any) -> tuple[np.ndarray, int]:
    """Assign each column the first color that no column in its rows has."""
    columns = pattern.tocsc()
    starts, rows = columns.indptr.tolist(), columns.indices.tolist()
    used = [0] * pattern.shape[0]
    """For each row, a number whose bits are the colors in it."""
    colors = np.zeros(pattern.shape[1], np.int64)
    count = 1
    for j in np.argsort(-np.diff(columns.indptr), kind="stable").tolist():
        mine = rows[starts[j] : starts[j + 1]]
        taken = 0
        for i in mine:
            taken |= used[i]
        free = ~taken & (taken + 1)
        for i in mine:
            used[i] |= free
        colors[j] = color = free.bit_length() - 1
        count = max(count, color + 1)
    return colors, count


def _stars(pattern: Any) -> tuple[np.ndarray, int]:
    """Color a symmetric matrix so that every path of four columns has three colors."""
    starts, others = pattern.indptr.tolist(), pattern.indices.tolist()
    near = [[w for w in others[a:b] if w != v] for v, (a, b) in enumerate(itertools.pairwise(starts))]
    colors = [-1] * len(near)
    for v in sorted(range(len(near)), key=lambda v: -len(near[v])):
        taken = set()
        for w in near[v]:
            if colors[w] >= 0:
                taken.add(colors[w])
            for x in near[w]:
                if x == v or colors[x] < 0:
                    continue
                if colors[w] < 0 or any(y != w and colors[y] == colors[w] for y in near[x]):
                    taken.add(colors[x])
        colors[v] = next(c for c in itertools.count() if c not in taken)
    return np.asarray(colors, np.int64), max(colors, default=0) + 1

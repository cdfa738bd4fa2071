"""Check that random numbers on CuPy have the same bits as on NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.gpu.goals import EXACT
from bench.gpu.parts import Work
from bench.gpu.probe import answering

SEEDS = (0, 1, 2**63 + 5)


def draws(count: int) -> dict[str, Callable[[Any], list[Any]]]:
    """Return arrays drawn from a key, by name.

    ``count`` is odd, so that the last block of words is cut.
    """
    import agrad
    from agrad import random

    return {
        "uniform float32": lambda key: [random.uniform(key, (count,), dtype=agrad.float32)],
        "uniform float64": lambda key: [random.uniform(key, (count,), dtype=agrad.float64)],
        "bits": lambda key: [random.bits(key, (count,), dtype=d) for d in (agrad.uint8, agrad.uint32, agrad.uint64)],
        "integers": lambda key: [random.randint(key, -5, 10**k, (count,)) for k in (1, 9, 17)],
        "permutation": lambda key: [random.permutation(key, count)],
        "keys": lambda key: [random.split(key, 5), random.fold_in(key, 2**40 + 3)],
        "mask": lambda key: [random.bernoulli(key, p, (count,)) for p in (0.2, 0.5)],
        "normal": lambda key: [random.normal(key, (count,), dtype=d) for d in (agrad.float32, agrad.float64)],
    }


def pairs(name: str, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the numbers of NumPy and of CuPy from the same keys, on the host."""
    from agrad import random

    draw = draws(count)[name]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for seed in SEEDS:
        here, there = ([a.to("numpy").numpy() for a in draw(random.key(seed, backend=b))] for b in ("numpy", "cupy"))
        found += zip(here, there, strict=True)
    return found


def exact(work: Work, name: str, count: int) -> None:
    found = pairs(name, count)
    wrong = sum(int(np.sum(a != b)) if a.shape == b.shape else a.size for a, b in found)
    kinds = all(a.dtype == b.dtype for a, b in found)
    measured = f"{wrong} of {sum(a.size for a, _ in found):,} differ" + ("" if kinds else ", in another dtype")
    work.answers.give(name, not wrong and kinds, measured, "not NumPy's numbers")


def run(work: Work) -> None:
    count = 1_001 if work.small else 1_000_001
    for name in EXACT:
        with answering(work, name):
            exact(work, name, count)
    with answering(work, "normal"):
        off = max(float(np.max(np.abs(a - b))) for a, b in pairs("normal", count))
        work.answers.give("normal", off, f"off by {off:.1e}", "not NumPy's numbers")

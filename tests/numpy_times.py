"""Which of NumPy's functions take long on Tensors of a few elements: ``python tests/numpy_times.py [NAME ...]``.

Each sample of ``docs/numpy.md`` is timed on arrays, on Tensors that nothing records, and on recorded ones: processor
time, the least of many rounds. Listed is what takes more than 5 times NumPy's own time and more than 30 microseconds.
"""

import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy_samples  # noqa: F401 - files its samples
import numpy_samples_algebra  # noqa: F401
from numpy_sampling import SAMPLES, Sample

import agrad

ROUND, ROUNDS = 4e-4, 30
"""Seconds of a round, and how many of them there are."""


def least(call: Callable[[], Any]) -> float:
    """Return the microseconds of a call."""
    call()
    start = time.process_time()
    call()
    number = max(1, int(ROUND / max(time.process_time() - start, 1e-6)))
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(number):
            call()
        found.append((time.process_time() - start) / number * 1e6)
    return min(found)


def times(sample: Sample) -> Iterator[float]:
    arrays = [x.draw(np.random.default_rng(0)) for x in sample.inputs]
    yield least(lambda: sample.call(*arrays))
    for recorded in (False, True):
        given = [agrad.asarray(x, requires_grad=recorded and x.dtype.kind in "fc") for x in arrays]
        yield least(lambda given=given: sample.call(*given))


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    gc.disable()
    print(f"{'sample':28}{'NumPy':>10}{'plain':>10}{'recorded':>10}   us")
    for sample in SAMPLES:
        if names and sample.group not in names:
            continue
        numpy, *found = times(sample)
        if max(found) > max(5 * numpy, 30):
            print(f"{sample.name:28}{numpy:10.1f}{found[0]:10.1f}{found[1]:10.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

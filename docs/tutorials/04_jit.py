"""
Compile a function with ``jit``
===============================

``agrad.jit`` records the operations of a function at its first call, optimizes them,
and runs the compiled program in all later calls. This tutorial shows the program, the
gain, and when a function is traced again.
"""

# %%
# Define a chain of operations
# -----------------------------

import time
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad


def wave(x: Any, rate: Any) -> Any:
    """Return a sum over a chain of operations on each element."""
    y = agrad.sin(x * rate) ** 2
    return agrad.sum(y / (1.0 + agrad.exp(-x)) + agrad.sqrt(1.0 + y))


x = np.linspace(0.0, 1.0, 1_000_000)
slope, fast = agrad.grad(wave), agrad.jit(agrad.grad(wave))
print(np.allclose(slope(x, 3.0), fast(x, 3.0)))

# %%
# Look at the program
# -------------------
#
# ``lower`` shows the program after each compiler pass. It contains the operations of
# the gradient. The last passes combine them into one block, which is computed in pieces
# that fit in the cache of the processor.

text = str(fast.lower(x, 3.0))
print("\n".join(text.splitlines()[:18]))

# %%
# Measure the gain
# ----------------
#
# The times are from the machine that built this page: the best of several calls.


def best(f: Callable[..., Any], *args: Any) -> float:
    """Return the shortest time of five calls in milliseconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*args)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


sizes = [100, 1_000, 10_000, 100_000, 1_000_000]
eager = [best(slope, x[:n], 3.0) for n in sizes]
jitted = []
for n in sizes:
    fast(x[:n], 3.0)  # a new shape is traced
    jitted.append(best(fast, x[:n], 3.0))

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.loglog(sizes, eager, "o-", label="eager")
axes.loglog(sizes, jitted, "o-", label="jitted")
axes.set(xlabel="elements", ylabel="ms a gradient")
axes.legend()
plt.show()

# %%
# Know when a function is traced again
# ------------------------------------
#
# A new shape, dtype or backend, a new integer, or a change of a value that the function
# reads from outside causes a new trace. A new float does not. ``explain`` returns the
# reasons.

counted = agrad.jit(wave)
for rate in (1.0, 2.0, 3.0):
    counted(x[:10], rate)
print(counted.cache_info())
counted(x[:20], 1.0)
print(counted.explain())

# %%
# Python code in the function runs during the trace. A branch on a value cannot be
# recorded, so it raises an error. ``agrad.where`` selects elements, and ``agrad.cond``
# selects one of two functions.


def branching(x: Any) -> Any:
    """Return the root of a positive sum."""
    total = agrad.sum(x)
    return agrad.sqrt(total) if total > 0 else total


try:
    agrad.jit(branching)(x)
except agrad.errors.TracedValueError as error:
    print(str(error).partition(";")[0])

chosen = agrad.jit(
    lambda x: agrad.cond(agrad.sum(x) > 0, agrad.sqrt, lambda s: s, agrad.sum(x))
)
print(chosen(x), branching(x))

# %%
# Summary
# -------
#
# * Compile the largest function that you have: a gradient, or a whole training step.
# * Pass everything that changes as an argument.
# * ``lower`` shows the program, ``cache_info`` and ``explain`` show the traces.
#
# Next: :doc:`compile with agrad.jit </docs/jit>`.
